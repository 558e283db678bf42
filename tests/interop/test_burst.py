"""Bursts of the published clients: many messages and subscriptions at once, on a WebSocket as over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.published import CLIENTS, PublishedClient
from tests.support.background import BackgroundServer

MESSAGES = 1_000
SUBSCRIPTIONS = 1_000


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundServer]:
    with BackgroundServer({}) as running:
        yield running


@pytest.mark.parametrize(
    ("transport", "sequence"), [("WS-STREAMING", "orders"), ("WS-STREAMING", None), ("HTTP-STREAMING", "orders")]
)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_thousand_messages_at_once_are_processed(
    server: BackgroundServer,
    open_client: Callable[[str], PublishedClient],
    name: str,
    transport: str,
    sequence: str | None,
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", transport)
    texts = [f"{name} {transport} {sequence} {number}" for number in range(MESSAGES)]
    for text in texts:
        client.send(text, sequence)
    heard = [client.expect("message") for _ in texts]
    assert {event["outcome"] for event in heard} == {"processed"}
    told = [text for text in server.metadata.messages if text in set(texts)]
    assert sorted(told) == sorted(texts)
    if sequence is not None:
        assert told == texts
    client.disconnect()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_thousand_subscriptions_at_once_are_made(
    server: BackgroundServer, open_client: Callable[[str], PublishedClient], name: str
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", "WS-STREAMING")
    names = [f"subscription{number}" for number in range(SUBSCRIPTIONS)]
    for subscription in names:
        client.subscribe(subscription, "MERGE", [subscription], ["x"], "HAND")
    assert {client.expect("subscribed")["subscription"] for _ in names} == set(names)
    client.disconnect()
