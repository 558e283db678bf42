"""The client side of TLCP: `connect` for programs, `ClientState` for whoever brings the bytes along.

`tlcp` is the protocol without any I/O, `connection` puts it on a WebSocket and keeps it there. The server side is in
`penstock.doors.tlcp`. The client of a TLEX hub is `tlex`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.connection import Client, ItemUpdate, Subscription, connect
    from penstock.client.errors import (
        ClientError,
        MessageRefused,
        OutcomeUnknown,
        ProtocolError,
        SessionLost,
        SubscriptionEnded,
        SubscriptionRefused,
        Unreachable,
    )
    from penstock.client.status import Status
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
    "Status",
    "Subscription",
    "SubscriptionEnded",
    "SubscriptionRefused",
    "Unreachable",
    "connect",
]

_HOMES = {
    **dict.fromkeys(("Client", "ItemUpdate", "Subscription", "connect"), "connection"),
    "ClientState": "tlcp",
    "Status": "status",
}


def __getattr__(name: str) -> object:
    # When first asked for: commands live in this room too, and no other command shall wait for event loop and TLS.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
