"""Payload frames as a relay sees them: looked at and changed without being taken apart, since there are very many.

All functions take frames whose size `datagrams.check_size` has found right. Specification: 6.3.4.5.
"""

from __future__ import annotations

from struct import Struct

from penstock.wire.tlex.datagrams import FIRST_RESERVED_TYPE, IDENTIFIER_SIZE, Kind
from penstock.wire.tlex.frames import HEADER, HEADER_SIZE, MAX_SIZE, PREFIX

# Where things are in a frame, its header included.
KIND_AT = HEADER_SIZE
IDENTIFIER_AT = KIND_AT + 1
# What follows the kind or the identifier: payload type, origin timestamp, payload.
BODY_AT = KIND_AT + 1
IDENTIFIED_BODY_AT = IDENTIFIER_AT + IDENTIFIER_SIZE

# Payload type and origin timestamp.
BODY_HEAD_SIZE = 9

_IDENTIFIED_HEAD = Struct(">HHB8s")
_PLAIN_HEAD = Struct(">HHB")
assert _PLAIN_HEAD.size == HEADER.size + 1

_IDENTIFIED = int(Kind.IDENTIFIED_PAYLOAD)
_PLAIN = int(Kind.PAYLOAD)

# The longest frame with a payload that can be given an identifier.
_MAX_PLAIN = HEADER_SIZE + MAX_SIZE - IDENTIFIER_SIZE


def body_at(frame: bytes) -> int:
    """Where the payload type is; the origin timestamp and the payload follow it."""
    return IDENTIFIED_BODY_AT if frame[KIND_AT] == _IDENTIFIED else BODY_AT


def identifier_of(frame: bytes) -> bytes:
    """The identifier in a frame that has one."""
    return frame[IDENTIFIER_AT:IDENTIFIED_BODY_AT]


def payload_type(frame: bytes) -> int:
    return frame[body_at(frame)]


def is_reserved(type_: int) -> bool:
    """Whether a payload type belongs to the protocol itself."""
    return type_ >= FIRST_RESERVED_TYPE


def payload_size(frame: bytes) -> int:
    """The bytes that count for throughput: those of the payload alone."""
    return len(frame) - body_at(frame) - BODY_HEAD_SIZE


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
