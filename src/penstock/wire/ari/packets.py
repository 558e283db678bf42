"""Every line that a remote adapter sends, as a typed record: its credentials, signs of life, answers, notifications,
requests.

Which of them may come depends on the connection and on the negotiated version. What they mean is not known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.notifications import NOTIFICATION_PARSERS, AriNotification, parse_timestamp, parse_update
from penstock.wire.ari.replies import REPLY_PARSERS, Reply, parse_parameters, parse_reply
from penstock.wire.ari.values import TokenReader
from penstock.wire.ari.version import UNNAMED, Version

# Only what looks like a method is quoted in an error.
_METHOD = re.compile(r"[A-Z0-9]{2,9}", re.ASCII)

_COMMON = ("RAC", "KEEPALIVE")
_NOTIFICATIONS = ("UD3", "EOS", "CLS", "DFD", "FAL")
_DATA_REPLIES = ("DPI", "SUB", "USB")
_METADATA_REPLIES = tuple([method for method in REPLY_PARSERS if method not in _DATA_REPLIES])


class AriStream(Enum):
    """The connections of adapters, each with the methods that may come on it."""

    def __init__(self, methods: frozenset[str]) -> None:
        # Faster to reach than `value`.
        self.methods = methods

    METADATA = frozenset((*_COMMON, *_METADATA_REPLIES, "FAL", "FST", "FUS"))
    DATA = frozenset((*_COMMON, *_DATA_REPLIES, *_NOTIFICATIONS))
    # A data adapter with two connections.
    DATA_REPLIES = frozenset((*_COMMON, *_DATA_REPLIES))
    DATA_NOTIFICATIONS = frozenset((*_COMMON, *_NOTIFICATIONS))


# What may come before a version is negotiated.
_BEFORE_VERSION = frozenset((*_COMMON, "MPI", "DPI", "FAL"))

# Methods that older versions lack.
_SINCE = {"DFD": Version(1, 9, 0), "FST": Version(1, 9, 0), "FUS": Version(1, 9, 0)}


@dataclass(frozen=True, slots=True)
class AriKeepAlive:
    """A keep-alive: the adapter has had nothing else to send."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The first line of every connection, though some send none."""

    user: str | None
    password: str | None = field(repr=False)
    # Whether the adapter understands CLOSE before a version is negotiated.
    enables_close: bool
    sdk: str | None


@dataclass(frozen=True, slots=True)
class ForceSessionEnd:
    """A metadata adapter wants a session to end; a code, if there is one, is for the client. To be answered."""

    request: str
    session: str
    code: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ForceUnsubscription:
    """A metadata adapter wants a subscription to end. To be answered."""

    request: str
    session: str
    table: int


Packet = AriKeepAlive | Credentials | Reply | AriNotification | ForceSessionEnd | ForceUnsubscription


def parse_packet(line: str, stream: AriStream, version: Version | None) -> Packet:
    """Read one line; `version` is None until one is negotiated. Raises BadPacket for what cannot be parsed."""
    parts = line.split("|")
    method = parts[1] if len(parts) > 1 else line
    if method not in stream.methods or (len(parts) == 1) is not (method == "KEEPALIVE"):
        raise _unexpected(line, parts, stream)
    if version is None and method not in _BEFORE_VERSION:
        raise BadPacket("not expected before the answer to the initialization", method, 2)
    if method == "UD3":
        return parse_update(line, parts)
    if method == "KEEPALIVE":
        return AriKeepAlive()
    if method == "RAC":
        return _credentials(parts)
    if not parts[0]:
        raise BadPacket("empty", method, 1)
    if version is not None and version < _SINCE.get(method, UNNAMED):
        raise BadPacket(f"not in version {version}, only since {_SINCE[method]}", method, 2, parts[0])
    notification = NOTIFICATION_PARSERS.get(method)
    if notification is not None:
        return notification(parts)
    if method in REPLY_PARSERS:
        return parse_reply(parts, version or UNNAMED)
    return _session_end(parts) if method == "FST" else _unsubscription(parts)


def _unexpected(line: str, parts: list[str], stream: AriStream) -> BadPacket:
    if not line:
        return BadPacket("an empty line")
    if len(parts) == 1:
        return BadPacket("only one token, which is not KEEPALIVE")
    method = parts[1]
    if _METHOD.fullmatch(method) is None:
        return BadPacket("not a method", None, 2)
    expected = ", ".join(sorted(stream.methods - {"KEEPALIVE"}))
    return BadPacket(f"not expected on this connection; expected: {expected}", method, 2)


def _credentials(parts: list[str]) -> Credentials:
    # 1; on a connection for notifications it is a time.
    parse_timestamp(parts, "RAC")
    tokens = TokenReader(parts, "RAC")
    parameters = parse_parameters(tokens)
    return Credentials(
        user=parameters.get("user"),
        password=parameters.get("password"),
        enables_close=parameters.get("enableClosePacket") == "true",
        sdk=parameters.get("SDK"),
    )


def _session_end(parts: list[str]) -> ForceSessionEnd:
    tokens = TokenReader(parts, "FST", parts[0])
    session = tokens.name()
    if tokens.type == "V":
        tokens.void()
        return ForceSessionEnd(parts[0], session, None, None)
    code, message = tokens.integer(), tokens.text()
    tokens.end()
    return ForceSessionEnd(parts[0], session, code, message)


def _unsubscription(parts: list[str]) -> ForceUnsubscription:
    tokens = TokenReader(parts, "FUS", parts[0])
    session, table = tokens.name(), tokens.integer()
    tokens.end()
    return ForceUnsubscription(parts[0], session, table)
