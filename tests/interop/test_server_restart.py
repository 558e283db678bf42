from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.interop.published import CLIENTS, QUICK, TRANSPORTS, PublishedClient, each_client
from tests.support.process import ServerProcess

OpenClient = Callable[[str], PublishedClient]
Watch = Callable[[Mapping[str, int]], list[tuple[str, PublishedClient]]]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.config({"session.min_keepalive_millis": 100, "demo.pace": 5.0}),
]


@pytest.fixture
def watch(name: str, process: ServerProcess, open_client: OpenClient) -> Watch:
    """Opens a client for each transport and one that chooses, all at once, each with live updates."""

    def open_all(options: Mapping[str, int]) -> list[tuple[str, PublishedClient]]:
        clients = []
        for transport in (*TRANSPORTS, None):
            if CLIENTS[name].loses_sessions_when_polling and transport in ("WS-POLLING", "HTTP-POLLING"):
                continue
            client = open_client(name)
            client.connect(process.url, "WELCOME", transport, options=options)
            client.subscribe("stocks", "MERGE", ["item2", "item25"], ["stock_name", "last_price"], "STOCKS")
            clients.append((f"CONNECTED:{transport or 'WS-STREAMING'}", client))
        for _, client in clients:
            client.expect("update", snapshot=False)
        return clients

    return open_all


def expect_a_new_start(clients: list[tuple[str, PublishedClient]]) -> None:
    """Each client is back on its transport, with another session, its snapshots and updates."""
    for status, client in clients:
        client.expect("status", status=status)
        if len(client.seen("update", snapshot=True)) < 4:
            # Two items, twice; some clients report them before they are connected.
            client.expect("update", snapshot=True)
        client.expect("update", snapshot=False)
        assert len({event["session"] for event in client.seen("status", status=status)}) == 2
        assert not client.seen("server error")


@each_client
def test_clients_are_live_again_after_the_server_was_restarted(process: ServerProcess, watch: Watch) -> None:
    # That the server says goodbye is enough to notice, but for a client that is just between two polls.
    clients = watch({"RetryDelay": 400, "IdleTimeout": 500})
    assert process.stop() == 0
    for _, client in clients:
        client.expect_where("status", lambda event: event["status"].startswith("DISCONNECTED:"), "DISCONNECTED:…")
    process.start()
    expect_a_new_start(clients)


@each_client
def test_clients_are_live_again_after_the_server_was_killed(process: ServerProcess, watch: Watch) -> None:
    clients = watch(QUICK)
    process.kill()
    process.start()
    expect_a_new_start(clients)
