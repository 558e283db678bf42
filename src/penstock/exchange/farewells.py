"""Why the hub itself ends a conversation, and how that is recorded: a catalogue.

A peer that presents no valid token, or sends what cannot be parsed, is not told. The texts for the others are in the
door.
"""

from __future__ import annotations

from enum import Enum, auto

from penstock.wire.tlex.vocabulary import EndReason


class Farewell(Enum):
    SHUTDOWN = auto()
    MAINTENANCE = auto()
    DELETED = auto()
    TLC_DELETED = auto()
    TOKEN_REVOKED = auto()
    PROTOCOL_VIOLATION = auto()
    KEEP_ALIVE = auto()
    CLOCK_DIFFERENCE = auto()
    PAYLOAD_RATE = auto()
    PAYLOAD_THROUGHPUT = auto()
    # The node of the connection does not hear of the hub any more, or the hub was replaced.
    CUT_OFF = auto()


# How a session that ends like this is recorded.
ENDS: dict[Farewell, EndReason] = {
    Farewell.SHUTDOWN: EndReason.ADMIN_TERMINATION,
    Farewell.MAINTENANCE: EndReason.ADMIN_TERMINATION,
    Farewell.DELETED: EndReason.ADMIN_TERMINATION,
    Farewell.TLC_DELETED: EndReason.TLC_DELETED,
    Farewell.TOKEN_REVOKED: EndReason.TOKEN_REVOKED,
    Farewell.PROTOCOL_VIOLATION: EndReason.PROTOCOL_ERROR,
    Farewell.KEEP_ALIVE: EndReason.CONNECTION_ERROR,
    Farewell.CLOCK_DIFFERENCE: EndReason.PROTOCOL_ERROR,
    Farewell.PAYLOAD_RATE: EndReason.PROTOCOL_ERROR,
    Farewell.PAYLOAD_THROUGHPUT: EndReason.PROTOCOL_ERROR,
    Farewell.CUT_OFF: EndReason.CONNECTION_ERROR,
}
