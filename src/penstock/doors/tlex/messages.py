"""What the hub says to a peer, as datagrams: keep-alive, Reconnect, timestamps, and Bye with its reason in words.

When it says what is decided in `exchange`. The specification (6.3.4.3) leaves the reasons of Bye free.
"""

from __future__ import annotations

from penstock.exchange.farewells import Farewell
from penstock.wire.tlex.datagrams import (
    KEEP_ALIVE_FRAME,
    RECONNECT_FRAME,
    Bye,
    TimestampsRequest,
    TimestampsResponse,
)

# Bytes of a reason with its details; more would not be read by anybody.
MAX_REASON = 200

# Short, and the same for ever: clients may look for them.
BYES: dict[Farewell, str] = {
    Farewell.SHUTDOWN: "normal shutdown",
    Farewell.MAINTENANCE: "system maintenance",
    Farewell.DELETED: "session deleted",
    Farewell.TLC_DELETED: "TLC deleted",
    Farewell.TOKEN_REVOKED: "authorization token revoked",
    Farewell.PROTOCOL_VIOLATION: "protocol violation",
    Farewell.KEEP_ALIVE: "keep alive timeout",
    Farewell.CLOCK_DIFFERENCE: "time sync failure",
    Farewell.PAYLOAD_RATE: "payload rate limit exceeded",
    Farewell.PAYLOAD_THROUGHPUT: "payload throughput limit exceeded",
}


class TlexMessages:
    """The exchange's `HubMessages`."""

    keep_alive = KEEP_ALIVE_FRAME
    reconnect = RECONNECT_FRAME

    def bye(self, farewell: Farewell, details: str) -> bytes:
        """What cannot be sent of the details is replaced or cut off."""
        text = BYES[farewell]
        reason = f"{text}: {details}" if details else text
        return Bye(reason[:MAX_REASON].encode("ascii", "replace").decode()).encode()

    def ask(self, sent: int) -> bytes:
        return TimestampsRequest(sent).encode()

    def answer(self, asked: int, came: int, sent: int) -> bytes:
        return TimestampsResponse(asked, came, sent).encode()
