"""Every response and notification line the server sends, except the value list of `U`.

A line is UTF-8, ends in CR-LF and escapes commas in all its arguments, because clients split at every comma.
Specification: chapter 2 (responses) and 3 (notifications).
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[%,\r\n]")
_ESCAPES = str.maketrans({"%": "%25", ",": "%2C", "\r": "%0D", "\n": "%0A"})

PROBE = b"PROBE\r\n"
WSOK = b"WSOK\r\n"
NOOP = b"NOOP,sending placeholder data\r\n"
HEARTBEAT_OK = b"REQOK\r\n"


def argument(text: str) -> str:
    """One percent-encoded argument."""
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def line(tag: str, *arguments: str | int) -> bytes:
    """A whole line; lone surrogates, which UTF-8 cannot encode, become question marks."""
    parts = [tag]
    parts.extend(argument(item) if isinstance(item, str) else str(item) for item in arguments)
    return (",".join(parts) + "\r\n").encode("utf-8", "replace")


def conok(session_id: str, request_limit: int, keepalive_millis: int, control_link: str) -> bytes:
    return line("CONOK", session_id, request_limit, keepalive_millis, control_link or "*")


def conerr(code: int, message: str) -> bytes:
    return line("CONERR", int(code), message)


def end(code: int, message: str) -> bytes:
    return line("END", int(code), message)


def reqok(request_id: str) -> bytes:
    return line("REQOK", request_id)


def reqerr(request_id: str, code: int, message: str) -> bytes:
    return line("REQERR", request_id, int(code), message)


def error(code: int, message: str) -> bytes:
    return line("ERROR", int(code), message)


def refused(request_id: str | None, code: int, message: str) -> bytes:
    """REQERR when the request could be identified, ERROR when not."""
    return error(code, message) if request_id is None else reqerr(request_id, code, message)


# -- push notifications -----------------------------------------------------------------------------------------------


def mpnreg(device: str, data_adapter: str) -> bytes:
    """A device is registered; the data adapter has the items about it."""
    return line("MPNREG", device, data_adapter)


def mpnzero(device: str) -> bytes:
    """The badge of a device is reset."""
    return line("MPNZERO", device)


def mpnok(number: int, subscription: str) -> bytes:
    """A push subscription is active; the client knows it by its number, everybody else by its id."""
    return line("MPNOK", number, subscription)


def mpnconf(subscription: str) -> bytes:
    """A push subscription is changed."""
    return line("MPNCONF", subscription)


def mpndel(subscription: str) -> bytes:
    """A push subscription is gone."""
    return line("MPNDEL", subscription)
