"""The client side of TLCP: `connect` for programs, `ClientState` for whoever brings the bytes along.

`tlcp` is the protocol without any I/O, `connection` puts it on a WebSocket and keeps it there. The server side is in
`penstock.doors.tlcp`.
"""

from penstock.client.connection import Client, ItemUpdate, Subscription, connect
from penstock.client.errors import (
    ClientError,
    MessageRefused,
    OutcomeUnknown,
    ProtocolError,
    SessionLost,
    SubscriptionRefused,
)
from penstock.client.tlcp import ClientState

__all__ = [
    "Client",
    "ClientError",
    "ClientState",
    "ItemUpdate",
    "MessageRefused",
    "OutcomeUnknown",
    "ProtocolError",
    "SessionLost",
    "Subscription",
    "SubscriptionRefused",
    "connect",
]
