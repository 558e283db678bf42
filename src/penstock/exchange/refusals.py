"""Why the hub refuses a request, independent of any protocol: a catalogue.

The door says how a client is told, and names the field of the request. Why conversations end is in `farewells`.
"""

from __future__ import annotations

from enum import Enum, auto


class HubReason(Enum):
    """Every reason for refusing a request."""

    # Not with this authorization: its role, the type of session that its role is for, its domain, its controllers.
    ROLE = auto()
    SESSION_TYPE = auto()
    DOMAIN = auto()
    NOT_AUTHORIZED = auto()
    # Of what administrators grant: the role, the account, the lack of a restriction, payload types;
    # and what they use themselves.
    GRANTED_ROLE = auto()
    GRANTED_ACCOUNT = auto()
    GRANTED_SCOPE = auto()
    GRANTED_POLICY = auto()
    OWN = auto()
    # Of the controllers that a session is to have.
    TOO_MANY = auto()
    NOT_REGISTERED = auto()
    TLC_TYPE = auto()
    IN_USE = auto()
    # Of the change of a session.
    SINGLEPLEX = auto()
    LEAVING = auto()
    SECURITY = auto()
    # Also for what belongs to others: a client that guesses a token must not learn that it exists.
    UNKNOWN = auto()
    GOING_DOWN = auto()


class HubRefusal(Exception):
    """A refused request, which has changed nothing. `position` says which identifier it is about, from 0."""

    def __init__(self, reason: HubReason, text: str = "", position: int | None = None) -> None:
        super().__init__(text or reason.name)
        self.reason = reason
        self.text = text
        self.position = position


def unknown() -> HubRefusal:
    return HubRefusal(HubReason.UNKNOWN)


def going_down() -> HubRefusal:
    return HubRefusal(HubReason.GOING_DOWN, "The server is shutting down; try again in a moment")
