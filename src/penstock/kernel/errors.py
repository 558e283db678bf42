"""Why the kernel refuses a request, independent of any protocol; doors translate a reason into their own code.

A `Refusal` is always caused by the peer or by an adapter. A bug of our own is an ordinary exception.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto


class Reason(Enum):
    """Every reason for refusing a request."""

    CREDENTIALS = auto()
    ADAPTER_SET = auto()
    AUTHORITY_UNAVAILABLE = auto()
    AUTHORITY_ERROR = auto()
    OVERLOADED = auto()
    MAX_LOAD = auto()
    BLOCKED = auto()
    # The server is about to stop; another may let the client in.
    DRAINING = auto()
    MAX_SESSIONS = auto()
    UNKNOWN_SESSION = auto()
    FOREIGN_SESSION = auto()
    ENDED_SESSION = auto()
    PROTOCOL_MISMATCH = auto()
    RECOVERY = auto()
    DATA_ADAPTER = auto()
    GROUP = auto()
    GROUP_FOR_SCHEMA = auto()
    SCHEMA = auto()
    MODE = auto()
    SELECTOR = auto()
    UNKNOWN_SUBSCRIPTION = auto()
    INVALID = auto()
    UNFILTERED = auto()
    UNFILTERED_LIMITED = auto()
    UNFILTERED_PREFILTERED = auto()
    NO_KEY_FIELD = auto()
    NO_COMMAND_FIELD = auto()
    MESSAGE_TOO_LOW = auto()
    MESSAGE_DUPLICATE = auto()
    MESSAGE_FAILED = auto()
    # Devices of the application are not for this user.
    APPLICATION = auto()


class Refusal(Exception):
    """A request that cannot be honoured. `code` is set (zero or negative) when an adapter chose its own."""

    def __init__(self, reason: Reason, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code


class Cause(IntEnum):
    """Why a session ends. The numbers are those that both text protocols put on the wire."""

    DESTROYED_BY_CLIENT = 31
    CLOSED_BY_SERVER = 32
    UNEXPECTED = 33
    ANOTHER_SESSION = 35
    REBOUND_ELSEWHERE = 40
    MAX_DURATION = 48
