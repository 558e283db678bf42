"""Why a request about push notifications is refused, independent of any protocol: a catalogue.

The door says which code a client is told.
"""

from __future__ import annotations

from enum import Enum, auto


class PushReason(Enum):
    """Every reason for refusing a request."""

    # The module, or what it needs: the database, a provider.
    DISABLED = auto()
    UNAVAILABLE = auto()
    # Of a device: what it says of itself, and which one it is.
    PLATFORM = auto()
    APPLICATION = auto()
    TOKEN = auto()
    DEVICE = auto()
    SUSPENDED = auto()
    # Of a subscription.
    SUBSCRIPTION = auto()
    TRIGGER = auto()
    ARGUMENT = auto()
    TOO_LONG = auto()
    EMPTY = auto()
    PAYLOAD_TOO_LARGE = auto()
    FORMAT_NOT_JSON = auto()
    FORMAT_EMPTY = auto()
    MISMATCH = auto()
    MODE = auto()
    # Two parameters that exclude each other.
    CONFLICT = auto()


class PushRefusal(Exception):
    """A refused request, which has changed nothing. The text names what was wrong and what is allowed."""

    def __init__(self, reason: PushReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
