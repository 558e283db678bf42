"""What the hub sends to a peer, as datagrams or lines: keep-alive, Reconnect, timestamps, Bye with its reason.

When it says what is decided in `exchange`. The specification (6.3.4.3) leaves the reasons of Bye free.
"""

from __future__ import annotations

from penstock.exchange.farewells import Farewell
from penstock.exchange.ports import HubMessages
from penstock.wire.tlex.datagrams import (
    KEEP_ALIVE_FRAME,
    RECONNECT_FRAME,
    Bye,
    TimestampsRequest,
    TimestampsResponse,
)
from penstock.wire.tlex.vlog import LINE_END
from penstock.wire.tlex.vocabulary import Protocol

# The most bytes of a reason with its details; nobody would read more.
MAX_REASON = 200

# Short, and never changed, because clients may look for them.
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
    Farewell.CUT_OFF: "node cut off",
}


class TlexMessages:
    """The exchange's `HubMessages`."""

    keep_alive = KEEP_ALIVE_FRAME
    reconnect = RECONNECT_FRAME

    def of(self, protocol: Protocol) -> HubMessages:
        return VLOG_MESSAGES if protocol is Protocol.VLOG else self

    def bye(self, farewell: Farewell, details: str) -> bytes:
        return Bye(_reason(farewell, details)).encode()

    def ask(self, sent: int) -> bytes:
        return TimestampsRequest(sent).encode()

    def answer(self, asked: int, came: int, sent: int) -> bytes:
        return TimestampsResponse(asked, came, sent).encode()


class VlogMessages:
    """Lines for whoever sends V-Log. Controllers do not read them."""

    keep_alive = LINE_END
    reconnect = b"RECONNECT" + LINE_END

    def of(self, protocol: Protocol) -> HubMessages:
        return self

    def bye(self, farewell: Farewell, details: str) -> bytes:
        return f"BYE {_reason(farewell, details)}".encode() + LINE_END

    def ask(self, sent: int) -> bytes:
        return b""

    def answer(self, asked: int, came: int, sent: int) -> bytes:
        return b""


VLOG_MESSAGES = VlogMessages()


def _reason(farewell: Farewell, details: str) -> str:
    """Details that cannot be sent are replaced or truncated."""
    text = BYES[farewell]
    reason = f"{text}: {details}" if details else text
    return reason[:MAX_REASON].encode("ascii", "replace").decode()
