"""What can go wrong for a client.

ClientError
├── Unreachable           there is no connection; also an OSError
├── ProtocolError         the server has sent something that is not TLCP: close the connection
├── SessionLost           there is no session, and trying again would not help
├── SubscriptionRefused   the server refused a subscription
├── SubscriptionEnded     the server has ended a subscription that it had accepted
├── MessageRefused        the server or its adapter refused a message
└── OutcomeUnknown        the session was lost before the outcome of a message was known

Codes are those of TLCP 2.4.0, appendices A (sessions) and B (everything else).
"""

from __future__ import annotations


class ClientError(Exception):
    """The root of this tree."""


class Unreachable(ClientError, OSError):
    """No connection, or none to a server that speaks TLCP over WebSockets; the text says why."""


class ProtocolError(ClientError):
    """A line that is invalid, or not allowed at this point; the text shows the line."""


class Refused(ClientError):
    """The server's answer: its code, and its own words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message


class SessionLost(Refused):
    """CONERR or END with a code that does not invite to try again."""


class SubscriptionRefused(Refused):
    """REQERR for a subscription."""


class SubscriptionEnded(ClientError):
    """UNSUB that nobody has asked for: an adapter or the server does not want the subscription any more."""


class MessageRefused(Refused):
    """REQERR or MSGFAIL for a message."""


class OutcomeUnknown(ClientError):
    """The message may or may not have been processed; whether to send it again is for the caller to decide."""
