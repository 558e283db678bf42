"""The catalogue of why this server ends connections: what Bye says, and what the session's log entry says.

Who fails to show a token, or does not send frames, is not told. The specification (6.3.4.3) leaves reasons free.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from penstock.wire.tlex.datagrams import Bye

# Bytes of a reason with its details; more would not be read by anybody.
MAX_REASON = 200


class EndReason(StrEnum):
    """How a session ended, in the list of past sessions."""

    CLIENT_DISCONNECT = "CLIENT_DISCONNECT"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    ADMIN_TERMINATION = "ADMIN_TERMINATION"
    TLC_DELETED = "TLC_DELETED"
    TOKEN_REVOKED = "TOKEN_REVOKED"
    CONNECTION_ERROR = "CONNECTION_ERROR"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"


class Reason(Enum):
    """Why the server says Bye."""

    def __init__(self, text: str, end: EndReason) -> None:
        # Short, and the same for ever: clients may look for it.
        self.text = text
        self.end = end

    SHUTDOWN = "normal shutdown", EndReason.ADMIN_TERMINATION
    MAINTENANCE = "system maintenance", EndReason.ADMIN_TERMINATION
    DELETED = "session deleted", EndReason.ADMIN_TERMINATION
    TLC_DELETED = "TLC deleted", EndReason.TLC_DELETED
    TOKEN_REVOKED = "authorization token revoked", EndReason.TOKEN_REVOKED
    PROTOCOL_VIOLATION = "protocol violation", EndReason.PROTOCOL_ERROR
    KEEP_ALIVE = "keep alive timeout", EndReason.CONNECTION_ERROR
    CLOCK_DIFFERENCE = "time sync failure", EndReason.PROTOCOL_ERROR
    PAYLOAD_RATE = "payload rate limit exceeded", EndReason.PROTOCOL_ERROR
    PAYLOAD_THROUGHPUT = "payload throughput limit exceeded", EndReason.PROTOCOL_ERROR

    def bye(self, details: str = "") -> Bye:
        """The datagram; what cannot be sent of the details is replaced or cut off."""
        reason = f"{self.text}: {details}" if details else self.text
        return Bye(reason[:MAX_REASON].encode("ascii", "replace").decode())
