"""Headers by which proxies say for whom they ask: `Forwarded` (RFC 7239), and those with plain addresses in a list,
such as `X-Forwarded-For`.

Whose headers are believed, and how much of them, is decided in `penstock.transport`.
"""

from __future__ import annotations

import re

from penstock.wire.ip import ipv4_text, ipv6_text

FORWARDED = "forwarded"

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t\x20-\x7e\x80-\xff])*"'
# One pair, and what follows it: another one of the same proxy, that of the next proxy, or the end.
_PAIR = re.compile(rf"[ \t]*(?:({_TOKEN})=({_TOKEN}|{_QUOTED})[ \t]*)?([;,]|\Z)")
_ESCAPED = re.compile(r"\\(.)")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


class ForwardedError(Exception):
    """The header cannot be understood; the text says why."""


class Node:
    """One who has asked: the address is None where a proxy does not tell it, the port 0 where that is not told."""

    def __init__(self, address: str | None, port: int) -> None:
        self.address = address
        self.port = port


def nodes(name: str, value: str) -> list[str]:
    """Those who have asked, each asked by the one before it, as texts for `node`. Raises ForwardedError.

    The name of the header is in lower case.
    """
    if name != FORWARDED:
        texts = [text.strip(" \t") for text in value.split(",")]
        return [text for text in texts if text]
    found: list[str] = []
    current: str | None = None
    has_pairs = False
    place = 0
    while True:
        pair = _PAIR.match(value, place)
        if pair is None:
            raise ForwardedError("it is not a list of pairs such as for=192.0.2.7")
        has_pairs = has_pairs or pair[1] is not None
        if pair[1] is not None and pair[1].lower() == "for":
            if current is not None:
                raise ForwardedError("it has two pairs with for= where one is expected")
            current = _ESCAPED.sub(r"\1", pair[2][1:-1]) if pair[2].startswith('"') else pair[2]
        if pair[3] != ";" and has_pairs:
            found.append("unknown" if current is None else current)
            current, has_pairs = None, False
        if not pair[3]:
            return found
        place = pair.end()


def node(text: str) -> Node:
    """Raises ForwardedError."""
    if text.lower() == "unknown" or text.startswith("_"):
        return Node(None, 0)
    address, port = text, ""
    if text.startswith("["):
        address, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise _no_address(text)
        port = port[1:] or "0"
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    try:
        plain = ipv6_text(address) if ":" in address else ipv4_text(address)
        return Node(plain, _port(port) if port else 0)
    except ValueError:
        raise _no_address(text) from None


def _port(text: str) -> int:
    # RFC 7239 has names for ports as well; they say nothing here.
    if text.startswith("_"):
        return 0
    if _PORT.fullmatch(text) is None or int(text) > 65_535:
        raise ValueError("no port")
    return int(text)


def _no_address(text: str) -> ForwardedError:
    return ForwardedError(f"{text[:50]!r} is not an address")
