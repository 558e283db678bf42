"""Published clients behind a balancer: how they are connected there, and at which nodes they have been."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.published import TRANSPORTS, PublishedClient
from tests.support.balancers import FIELDS, Cluster

OpenClient = Callable[[str], PublishedClient]

# Seconds in which a client has to be live again.
LIVE_AGAIN = 5.0

# Seconds that what two nodes tell may be apart: a beat, and as long as a busy machine keeps one of them waiting.
APART = 1.0

# Of a node that has died the Python client sees nothing on a WebSocket that is closed without a closing frame, nor the
# Node client on a poll that is broken off: they notice that nothing comes any more, by default after 10 s and 23 s.
SOONER = {"KeepaliveInterval": 1000, "StalledTimeout": 500, "ReconnectTimeout": 1000, "IdleTimeout": 1000}
SOONER |= {"RetryDelay": 1500}
# In pages of another origin cookies are only kept by this.
WITH_COOKIES = {"CookieHandlingRequired": True}

WEB = "web-8.0.9"


def ways(open_client: OpenClient, *names: str) -> dict[str, PublishedClient]:
    return {f"{transport} {name}": open_client(name) for name in names for transport in TRANSPORTS}


def watch(cluster: Cluster, scheme: str, clients: dict[str, PublishedClient]) -> None:
    """Have all of them connected, with live values; `clients` by their transports and names."""
    for way, client in clients.items():
        transport, _, name = way.partition(" ")
        options: dict[str, int | str] = {"ForcedTransport": transport, **SOONER}
        if name.startswith("web"):
            options |= WITH_COOKIES
        # The page of the web client comes from this address: from another host it would need TLS, see below.
        host = "127.0.0.1" if name.startswith("web") else "localhost"
        client.connect(cluster.url(scheme, host), "TEST", None, options=options)
        client.subscribe("beats", "MERGE", ["one", "two"], FIELDS, "DEFAULT")
        # One after the other: clients of one process share their cookies.
        client.expect("update", snapshot=False)


def sessions(client: PublishedClient) -> list[str]:
    found = [event["session"] for event in client.seen("status") if event["status"].startswith("CONNECTED:")]
    return list(dict.fromkeys(found))


def nodes(client: PublishedClient) -> list[str]:
    """Those whose sessions it has had: their names are at the end of the identifiers."""
    return [session.partition("T")[2] for session in sessions(client)]
