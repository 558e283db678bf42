"""Every datagram as a typed record, to and from frames.

Who may send which, and when, is not known here. Payloads that are only passed on need no record: see `payloads`.
Specification: 6.3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import ClassVar, NamedTuple

from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.frames import HEADER_SIZE, MAX_SIZE, frame

# Milliseconds since 1970, unsigned, in 8 bytes.
MAX_TIMESTAMP = 2**64 - 1
IDENTIFIER_SIZE = 8

# Payload types from here on are reserved for the protocol: no client may send them.
FIRST_RESERVED_TYPE = 0xF0
MONITOR_TYPE = 0xF0


class DatagramKind(IntEnum):
    """The first byte of a datagram."""

    KEEP_ALIVE = 0x00
    TOKEN = 0x01
    BYE = 0x02
    RECONNECT = 0x03
    PAYLOAD = 0x04
    IDENTIFIED_PAYLOAD = 0x05
    TIMESTAMPS_REQUEST = 0x06
    TIMESTAMPS_RESPONSE = 0x07

    @property
    def label(self) -> str:
        """For errors: the name in the specification, and the number."""
        return f"{_SHAPES[self].name} (0x{self:02x})"


class _Shape(NamedTuple):
    """The least and the most bytes that a datagram can have, including its kind."""

    kind: DatagramKind
    name: str
    least: int
    most: int


_SHAPES: dict[int, _Shape] = {
    shape.kind: shape
    for shape in (
        _Shape(DatagramKind.KEEP_ALIVE, "KeepAlive", 1, 1),
        _Shape(DatagramKind.TOKEN, "Token", 2, MAX_SIZE),
        _Shape(DatagramKind.BYE, "Bye", 1, MAX_SIZE),
        _Shape(DatagramKind.RECONNECT, "Reconnect", 1, 1),
        _Shape(DatagramKind.PAYLOAD, "Payload without TLC identifier", 10, MAX_SIZE),
        _Shape(DatagramKind.IDENTIFIED_PAYLOAD, "Payload with TLC identifier", 18, MAX_SIZE),
        _Shape(DatagramKind.TIMESTAMPS_REQUEST, "Timestamps request", 9, 9),
        _Shape(DatagramKind.TIMESTAMPS_RESPONSE, "Timestamps response", 25, 25),
    )
}

_PAYLOAD = Struct(">BBQ")
_IDENTIFIED_PAYLOAD = Struct(">B8sBQ")
_REQUEST = Struct(">BQ")
_RESPONSE = Struct(">BQQQ")


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """A keep-alive, sent when there is nothing else to send."""

    kind: ClassVar[DatagramKind] = DatagramKind.KEEP_ALIVE

    def encode(self) -> bytes:
        return KEEP_ALIVE_FRAME


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """The first datagram of a client: which session this connection is for. Its `repr` does not show the token."""

    kind: ClassVar[DatagramKind] = DatagramKind.TOKEN
    token: str

    def __repr__(self) -> str:
        return "Token(...)"

    def encode(self) -> bytes:
        if not self.token or not self.token.isascii():
            raise ValueError(f"{self.kind.label}: the token is empty or not ASCII")
        return _frame(self.kind, bytes((self.kind,)) + self.token.encode())


@dataclass(frozen=True, slots=True)
class Bye:
    """The last datagram; the connection will be closed. The texts of this server are in `doors.tlex.messages`."""

    kind: ClassVar[DatagramKind] = DatagramKind.BYE
    reason: str = ""

    def encode(self) -> bytes:
        if not self.reason.isascii():
            raise ValueError(f"{self.kind.label}: the reason {self.reason!r:.60} is not ASCII")
        return _frame(self.kind, bytes((self.kind,)) + self.reason.encode())


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The client should open a new session as soon as possible. Only a server sends it."""

    kind: ClassVar[DatagramKind] = DatagramKind.RECONNECT

    def encode(self) -> bytes:
        return RECONNECT_FRAME


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload in a session of one controller. `origin` is when the publisher sent it, on its clock."""

    kind: ClassVar[DatagramKind] = DatagramKind.PAYLOAD
    type: int
    origin: int
    data: bytes

    def encode(self) -> bytes:
        _check_payload(self.kind, self.type, self.origin)
        return _frame(self.kind, _PAYLOAD.pack(self.kind, self.type, self.origin) + self.data)


@dataclass(frozen=True, slots=True)
class IdentifiedPayload:
    """A payload in a session of several controllers, from or for one of them.

    An identifier that is not ASCII is read with replacement characters: it is in no session's scope, which is not a
    violation.
    """

    kind: ClassVar[DatagramKind] = DatagramKind.IDENTIFIED_PAYLOAD
    identifier: str
    type: int
    origin: int
    data: bytes

    def encode(self) -> bytes:
        if len(self.identifier) != IDENTIFIER_SIZE or not self.identifier.isascii():
            raise ValueError(
                f"{self.kind.label}: the identifier {self.identifier!r:.60} is not {IDENTIFIER_SIZE} ASCII characters"
            )
        _check_payload(self.kind, self.type, self.origin)
        head = _IDENTIFIED_PAYLOAD.pack(self.kind, self.identifier.encode(), self.type, self.origin)
        return _frame(self.kind, head + self.data)


@dataclass(frozen=True, slots=True)
class TimestampsRequest:
    """To be answered before anything else is sent."""

    kind: ClassVar[DatagramKind] = DatagramKind.TIMESTAMPS_REQUEST
    sent: int

    def encode(self) -> bytes:
        _check_timestamps(self.kind, t0=self.sent)
        return _frame(self.kind, _REQUEST.pack(self.kind, self.sent))


@dataclass(frozen=True, slots=True)
class TimestampsResponse:
    """The request's timestamp (t0), when it arrived (t1) and when this was sent (t2), both by the answering clock."""

    kind: ClassVar[DatagramKind] = DatagramKind.TIMESTAMPS_RESPONSE
    request_sent: int
    request_received: int
    response_sent: int

    def encode(self) -> bytes:
        stamps = (self.request_sent, self.request_received, self.response_sent)
        _check_timestamps(self.kind, t0=stamps[0], t1=stamps[1], t2=stamps[2])
        return _frame(self.kind, _RESPONSE.pack(self.kind, *stamps))


@dataclass(frozen=True, slots=True)
class Unknown:
    """A datagram that is unknown in version 0x01; to be ignored."""

    type: int
    data: bytes

    def encode(self) -> bytes:
        return frame(bytes((self.type,)) + self.data)


Datagram = (
    KeepAlive | Token | Bye | Reconnect | Payload | IdentifiedPayload | TimestampsRequest | TimestampsResponse | Unknown
)

KEEP_ALIVE_FRAME = frame(bytes((DatagramKind.KEEP_ALIVE,)))
RECONNECT_FRAME = frame(bytes((DatagramKind.RECONNECT,)))


def check_size(whole: bytes) -> DatagramKind | None:
    """The kind of a frame's datagram, None if unknown. Raises BadDatagram for a size that its kind cannot have."""
    shape = _SHAPES.get(whole[HEADER_SIZE])
    if shape is None:
        return None
    kind, _, least, most = shape
    size = len(whole) - HEADER_SIZE
    if not least <= size <= most:
        expected = f"{least}" if least == most else f"at least {least}"
        raise BadDatagram(kind.label, f"{size} bytes, expected {expected}")
    return kind


def decode(whole: bytes) -> Datagram:
    """The datagram of a whole frame, as a `FrameReader` returns it. Raises BadDatagram for what cannot be parsed."""
    kind = check_size(whole)
    if kind is None:
        return Unknown(whole[HEADER_SIZE], whole[HEADER_SIZE + 1 :])
    if kind is DatagramKind.IDENTIFIED_PAYLOAD:
        _, identifier, type_, origin = _IDENTIFIED_PAYLOAD.unpack_from(whole, HEADER_SIZE)
        data = whole[HEADER_SIZE + _IDENTIFIED_PAYLOAD.size :]
        return IdentifiedPayload(identifier.decode("ascii", "replace"), type_, origin, data)
    if kind is DatagramKind.PAYLOAD:
        _, type_, origin = _PAYLOAD.unpack_from(whole, HEADER_SIZE)
        return Payload(type_, origin, whole[HEADER_SIZE + _PAYLOAD.size :])
    if kind is DatagramKind.KEEP_ALIVE:
        return KeepAlive()
    if kind is DatagramKind.TIMESTAMPS_REQUEST:
        return TimestampsRequest(_REQUEST.unpack_from(whole, HEADER_SIZE)[1])
    if kind is DatagramKind.TIMESTAMPS_RESPONSE:
        return TimestampsResponse(*_RESPONSE.unpack_from(whole, HEADER_SIZE)[1:])
    if kind is DatagramKind.RECONNECT:
        return Reconnect()
    text = whole[HEADER_SIZE + 1 :]
    if kind is DatagramKind.BYE:
        # The peer leaves in any case; an odd reason is better than none.
        return Bye(text.decode("ascii", "replace"))
    if not text.isascii():
        raise BadDatagram(kind.label, "the token is not ASCII")
    return Token(text.decode())


def _frame(kind: DatagramKind, data: bytes) -> bytes:
    try:
        return frame(data)
    except ValueError as error:
        raise ValueError(f"{kind.label}: {error}") from None


def _check_payload(kind: DatagramKind, type_: int, origin: int) -> None:
    if not 0 <= type_ <= 0xFF:
        raise ValueError(f"{kind.label}: the payload type is {type_}; allowed: 0 to 255")
    _check_timestamps(kind, origin=origin)


def _check_timestamps(kind: DatagramKind, **timestamps: int) -> None:
    for name, value in timestamps.items():
        if not 0 <= value <= MAX_TIMESTAMP:
            raise ValueError(f"{kind.label}: {name} is {value}; allowed: 0 to 2**64 - 1 milliseconds")
