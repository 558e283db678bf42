"""Where things are in payload frames: looked at without taking them apart, since there are very many.

Everything here is about frames whose size `datagrams.check_size` has found right. How a frame becomes another is in
`forms`. Specification: 6.3.4.5.
"""

from __future__ import annotations

from penstock.wire.tlex.datagrams import IDENTIFIER_SIZE, DatagramKind
from penstock.wire.tlex.frames import HEADER_SIZE

# Where things are in a frame, its header included.
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
