"""What monitors receive: the payload of somebody else behind a header that tells who published it, and when.

The session that published a payload is named by its token. Specification: 6.3.4.5.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct

from penstock.wire.tlex.datagrams import MAX_TIMESTAMP, MONITOR_TYPE, Kind
from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.frames import HEADER_SIZE, MAX_SIZE, PREFIX
from penstock.wire.tlex.payloads import BODY_HEAD_SIZE, body_at

_LABEL = f"Monitor payload (0x{MONITOR_TYPE:02x})"

_FRAME_HEAD = Struct(">HHB8sB")
_LENGTH = Struct(">I")
_TAIL = Struct(">QQB")
_STAMP = Struct(">Q")

# Where the length of the token is in a frame: behind the origin timestamp.
_LENGTH_AT = _FRAME_HEAD.size + _STAMP.size

_IDENTIFIED = int(Kind.IDENTIFIED_PAYLOAD)


@dataclass(frozen=True, slots=True)
class MonitorPayload:
    """The payload of a datagram with payload type 0xF0. An empty token: it was resent, not published by a session."""

    token: str = field(repr=False)
    # When the server received the payload, and when it passed it on.
    published: int
    sent: int
    type: int
    data: bytes

    def encode(self) -> bytes:
        """The payload only; which datagram it is in, see `for_monitor`."""
        if not self.token.isascii():
            raise ValueError(f"{_LABEL}: the token is not ASCII")
        for name, value, largest in (
            ("published", self.published, MAX_TIMESTAMP),
            ("sent", self.sent, MAX_TIMESTAMP),
            ("type", self.type, 0xFF),
        ):
            if not 0 <= value <= largest:
                raise ValueError(f"{_LABEL}: {name} is {value}; allowed are 0 to {largest}")
        token = self.token.encode()
        return b"".join(
            (_LENGTH.pack(len(token)), token, _TAIL.pack(self.published, self.sent, self.type), self.data),
        )


def decode_monitor_payload(payload: bytes) -> MonitorPayload:
    """Raises BadDatagram for what cannot be understood."""
    size = len(payload)
    least = _LENGTH.size + _TAIL.size
    if size < least:
        raise BadDatagram(_LABEL, f"{size} bytes, expected at least {least}")
    (length,) = _LENGTH.unpack_from(payload)
    if length > size - least:
        raise BadDatagram(_LABEL, f"a token of {length} bytes, there is room for {size - least}")
    tail = _LENGTH.size + length
    token = payload[_LENGTH.size : tail]
    if not token.isascii():
        raise BadDatagram(_LABEL, "the token is not ASCII")
    published, sent, type_ = _TAIL.unpack_from(payload, tail)
    return MonitorPayload(token.decode(), published, sent, type_, payload[tail + _TAIL.size :])


def for_monitor(frame: bytes, identifier: bytes, token: bytes, published: int, sent: int) -> bytes | None:
    """The frame of a payload, from any kind of session, as monitors receive it; the origin timestamp stays.

    None if no frame can hold it.
    """
    body = body_at(frame)
    origin = body + 1
    payload = body + BODY_HEAD_SIZE
    size = _FRAME_HEAD.size - HEADER_SIZE + 8 + _LENGTH.size + len(token) + _TAIL.size + len(frame) - payload
    if size > MAX_SIZE:
        return None
    return b"".join(
        (
            _FRAME_HEAD.pack(PREFIX, size, _IDENTIFIED, identifier, MONITOR_TYPE),
            frame[origin:payload],
            _LENGTH.pack(len(token)),
            token,
            _TAIL.pack(published, sent, frame[body]),
            frame[payload:],
        )
    )


def restamped(frame: bytes, sent: int) -> bytes:
    """A frame of `for_monitor` that has waited, with the time at which it is really passed on."""
    (length,) = _LENGTH.unpack_from(frame, _LENGTH_AT)
    at = _LENGTH_AT + _LENGTH.size + length + _STAMP.size
    return frame[:at] + _STAMP.pack(sent) + frame[at + _STAMP.size :]
