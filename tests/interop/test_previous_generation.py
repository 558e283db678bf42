"""One story on every transport, for the clients that have all their other tests in `make test-interop-long`."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.interop.published import CLIENTS, PATIENCE, TRANSPORTS, PublishedClient
from tests.support.background import BackgroundServer

OpenClient = Callable[[str], PublishedClient]

pytestmark = pytest.mark.interop


def keep_still(server: BackgroundServer, client: PublishedClient) -> None:
    """Wait until the client is listening again: not all of them can do anything else while a poll is being bound."""
    session = client.seen("property", name="sessionId")[-1]["value"]
    deadline = time.monotonic() + PATIENCE
    while not server.call(lambda: server.server.kernel.find_session(session).channel is not None):
        assert time.monotonic() < deadline, f"{client.name} does not come back"
        time.sleep(0.01)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", [name for name, library in CLIENTS.items() if library.is_long])
def test_a_client_subscribes_in_every_mode_sends_a_message_and_leaves(
    name: str, transport: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    server.adapter.state["a"] = {"x": "1", "y": "2"}
    client = open_client(name)
    client.connect(server.url, "TEST", transport, user="some one")
    client.subscribe("merged", "MERGE", ["a"], ["x", "y"], "HAND")
    client.expect("update", subscription="merged", snapshot=True, values={"x": "1", "y": "2"})
    keep_still(server, client)
    server.update("a", y="ü|#$^")
    client.expect(
        "update", subscription="merged", snapshot=False, values={"x": "1", "y": "ü|#$^"}, changed={"y": "ü|#$^"}
    )
    keep_still(server, client)
    client.subscribe("distinct", "DISTINCT", ["b"], ["x"], "PLAIN", snapshot="no")
    client.expect("subscribed", subscription="distinct")
    keep_still(server, client)
    server.call(server.plain.publish, "b", {"x": None}, False)
    client.expect("update", subscription="distinct", values={"x": None})
    keep_still(server, client)
    client.subscribe("table", "COMMAND", ["c"], ["key", "command", "x"], "PLAIN", snapshot="no")
    client.expect("subscribed", subscription="table")
    keep_still(server, client)
    server.call(server.plain.publish, "c", {"key": "k", "command": "ADD", "x": "3"}, False)
    client.expect("update", subscription="table", values={"key": "k", "command": "ADD", "x": "3"})
    keep_still(server, client)
    client.send("hello", sequence="talk")
    client.expect("message", text="hello", outcome="processed")
    assert server.metadata.messages == ["hello"]
    keep_still(server, client)
    client.unsubscribe("merged")
    client.expect("unsubscribed", subscription="merged")
    client.disconnect()
    assert not client.seen("server error")
    assert not client.seen("lost updates")
