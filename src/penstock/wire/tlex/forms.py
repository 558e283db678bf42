"""The forms of one payload: with identifier, without, and after the header that monitors get.

A frame is converted without being parsed. Which receiver gets which form is a rule, and not known here; how a monitor's
frame is read is in `monitor`. Specification: 6.3.4.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from penstock.wire.tlex.datagrams import FIRST_RESERVED_TYPE, IDENTIFIER_SIZE, MONITOR_TYPE, DatagramKind
from penstock.wire.tlex.frames import HEADER, HEADER_SIZE, MAX_SIZE, PREFIX
from penstock.wire.tlex.monitor import LENGTH, STAMP, TAIL
from penstock.wire.tlex.payloads import BODY_AT, BODY_HEAD_SIZE, IDENTIFIED_BODY_AT, IDENTIFIER_AT, body_at

_IDENTIFIED_HEAD = Struct(">HHB8s")
_PLAIN_HEAD = Struct(">HHB")
assert _PLAIN_HEAD.size == HEADER.size + 1
_MONITOR_HEAD = Struct(">HHB8sB")

_IDENTIFIED = int(DatagramKind.IDENTIFIED_PAYLOAD)
_PLAIN = int(DatagramKind.PAYLOAD)

# The longest frame with a payload that can be given an identifier.
_MAX_PLAIN = HEADER_SIZE + MAX_SIZE - IDENTIFIER_SIZE

# Where the length of the token is in a frame for monitors: after the origin timestamp.
_LENGTH_AT = _MONITOR_HEAD.size + STAMP.size


class PayloadLayout:
    """Where a relay finds what it needs in the frames of one kind."""

    def __init__(self, identifier: slice, type_at: int) -> None:
        # Nothing, in frames that have none.
        self.identifier = identifier
        self.type_at = type_at
        # Bytes before the payload itself.
        self.head = type_at + BODY_HEAD_SIZE


class PayloadForms:
    """All forms, for many frames at a time. None replaces a payload that is too long for a frame in that form."""

    def __init__(self) -> None:
        self.singleplex = PayloadLayout(slice(0, 0), BODY_AT)
        self.multiplex = PayloadLayout(slice(IDENTIFIER_AT, IDENTIFIED_BODY_AT), IDENTIFIED_BODY_AT)
        self.first_reserved = FIRST_RESERVED_TYPE
        # Bytes of the longest frame.
        self.largest = HEADER_SIZE + MAX_SIZE

    def identified(self, frames: list[bytes], identifier: bytes) -> list[bytes | None]:
        return [with_identifier(frame, identifier) for frame in frames]

    def plain(self, frames: list[bytes]) -> list[bytes | None]:
        return [without_identifier(frame) for frame in frames]

    def monitored(
        self, frames: list[bytes], identifier: bytes, token: bytes, published: int, sent: int
    ) -> list[bytes | None]:
        return [for_monitor(frame, identifier, token, published, sent) for frame in frames]

    def original_type(self, frame: bytes) -> int:
        return original_type(frame)

    def restamped(self, frames: Iterable[bytes], sent: int) -> list[bytes]:
        return [restamped(frame, sent) for frame in frames]


def with_identifier(frame: bytes, identifier: bytes) -> bytes | None:
    """The frame of a singleplex session as multiplex ones receive it. None if no frame can hold it."""
    size = len(frame)
    if size > _MAX_PLAIN:
        return None
    head = _IDENTIFIED_HEAD.pack(PREFIX, size + IDENTIFIER_SIZE - HEADER_SIZE, _IDENTIFIED, identifier)
    return head + frame[BODY_AT:]


def without_identifier(frame: bytes) -> bytes:
    """The frame of a multiplex session as a singleplex one receives it."""
    return _PLAIN_HEAD.pack(PREFIX, len(frame) - IDENTIFIER_SIZE - HEADER_SIZE, _PLAIN) + frame[IDENTIFIED_BODY_AT:]


def for_monitor(frame: bytes, identifier: bytes, token: bytes, published: int, sent: int) -> bytes | None:
    """The frame of a payload, from any kind of session, as monitors receive it; the origin timestamp stays.

    None if no frame can hold it.
    """
    body = body_at(frame)
    origin = body + 1
    payload = body + BODY_HEAD_SIZE
    size = _MONITOR_HEAD.size - HEADER_SIZE + 8 + LENGTH.size + len(token) + TAIL.size + len(frame) - payload
    if size > MAX_SIZE:
        return None
    return b"".join(
        (
            _MONITOR_HEAD.pack(PREFIX, size, _IDENTIFIED, identifier, MONITOR_TYPE),
            frame[origin:payload],
            LENGTH.pack(len(token)),
            token,
            TAIL.pack(published, sent, frame[body]),
            frame[payload:],
        )
    )


def original_type(frame: bytes) -> int:
    """The payload type that the publisher has given, also behind the header for monitors."""
    found = frame[body_at(frame)]
    if found != MONITOR_TYPE:
        return found
    length: int = LENGTH.unpack_from(frame, _LENGTH_AT)[0]
    return frame[_LENGTH_AT + LENGTH.size + length + TAIL.size - 1]


def restamped(frame: bytes, sent: int) -> bytes:
    """A frame of `for_monitor` that has waited, with the time at which it is actually passed on."""
    (length,) = LENGTH.unpack_from(frame, _LENGTH_AT)
    at = _LENGTH_AT + LENGTH.size + length + STAMP.size
    return frame[:at] + STAMP.pack(sent) + frame[at + STAMP.size :]
