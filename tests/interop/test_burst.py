"""Bursts of the published clients: many messages and subscriptions at once, on a WebSocket as over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.interop.published import CLIENTS, PATIENCE, PublishedClient
from tests.support.background import BackgroundServer

OpenClient = Callable[[str], PublishedClient]

MESSAGES = 1_000
SUBSCRIPTIONS = 1_000

# So many of them come while the server is busy: more than it takes before it answers, and sent before a client gets
# nervous.
AT_ONCE = 300

# One of each language with every change; the others differ in their protocol, not in how they send.
FIRST = ("python-2.2.3", "node-9.2.2", "java-5.2.1")

pytestmark = pytest.mark.interop

one_of_each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.interop_long]) for name in CLIENTS]
)


@contextmanager
def busy(server: BackgroundServer) -> Iterator[None]:
    """The server does something else meanwhile, and finds all that has come at once."""
    over = threading.Event()
    call = threading.Thread(target=server.call, args=(over.wait, PATIENCE))
    call.start()
    yield
    over.set()
    call.join()


@one_of_each
def test_a_thousand_messages_sent_at_once_are_all_processed_in_order(
    name: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", "WS-STREAMING")
    texts = [f"message {number}" for number in range(MESSAGES)]
    with busy(server):
        for text in texts[:AT_ONCE]:
            client.send(text, sequence="burst")
        # The driver carries out one command after the other: when this one is, all before it have been.
        other = open_client(name)
        other.connect(server.url, "TEST", None)
        other.expect("status", status="CONNECTING")
    for text in texts[AT_ONCE:]:
        client.send(text, sequence="burst")
    outcomes = [client.expect("message") for _ in texts]
    assert [(event["text"], event["outcome"]) for event in outcomes] == [(text, "processed") for text in texts]
    assert server.metadata.messages == texts
    assert not client.seen("server error")
    assert len({event["session"] for event in client.seen("status", status="CONNECTED:WS-STREAMING")}) == 1


@pytest.mark.parametrize(("transport", "sequence"), [("WS-STREAMING", None), ("HTTP-STREAMING", "orders")])
@one_of_each
def test_a_thousand_messages_without_order_or_over_http_are_all_processed(
    name: str, server: BackgroundServer, open_client: OpenClient, transport: str, sequence: str | None
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", transport)
    texts = [f"message {number}" for number in range(MESSAGES)]
    for text in texts:
        client.send(text, sequence)
    assert {client.expect("message")["outcome"] for _ in texts} == {"processed"}
    assert sorted(server.metadata.messages) == sorted(texts)
    if sequence is not None:
        assert server.metadata.messages == texts


@one_of_each
def test_a_thousand_subscriptions_at_once_are_made(
    name: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", "WS-STREAMING")
    names = [f"subscription{number}" for number in range(SUBSCRIPTIONS)]
    for subscription in names:
        client.subscribe(subscription, "MERGE", [subscription], ["x"], "HAND")
    assert {client.expect("subscribed")["subscription"] for _ in names} == set(names)
