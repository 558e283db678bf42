"""Positions in payload frames, which are read without parsing them, because there are very many.

Everything here is about frames whose size `datagrams.check_size` has accepted. How a frame is converted is in `forms`.
Specification: 6.3.4.5.
"""

from __future__ import annotations

from penstock.wire.tlex.datagrams import IDENTIFIER_SIZE, DatagramKind
from penstock.wire.tlex.frames import HEADER_SIZE

# Positions in a frame, including its header.
KIND_AT = HEADER_SIZE
IDENTIFIER_AT = KIND_AT + 1
# What follows the kind or the identifier: payload type, origin timestamp, payload.
BODY_AT = KIND_AT + 1
IDENTIFIED_BODY_AT = IDENTIFIER_AT + IDENTIFIER_SIZE

# Payload type and origin timestamp.
BODY_HEAD_SIZE = 9

_IDENTIFIED = int(DatagramKind.IDENTIFIED_PAYLOAD)


def body_at(frame: bytes) -> int:
    """Where the payload type is; the origin timestamp and the payload follow it."""
    return IDENTIFIED_BODY_AT if frame[KIND_AT] == _IDENTIFIED else BODY_AT
