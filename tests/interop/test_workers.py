"""Published clients of a server of several processes: every transport, and workers that are killed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.published import QUICK, TRANSPORTS, PublishedClient
from tests.support.worker_processes import WorkersProcess, until

OpenClient = Callable[[str], PublishedClient]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NAMES = ("python-2.2.3", "node-9.2.2")


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersProcess]:
    settings = {"session.min_keepalive_millis": 100, "demo.pace": 5.0}
    with WorkersProcess(tmp_path_factory.mktemp("workers"), settings) as server:
        yield server


@pytest.mark.parametrize("name", NAMES)
def test_clients_on_every_transport_get_what_one_process_would_send(
    workers: WorkersProcess, open_client: OpenClient, name: str
) -> None:
    clients = []
    for transport in (*TRANSPORTS, None):
        client = open_client(name)
        client.connect(workers.url, "WELCOME", transport)
        client.subscribe("stocks", "MERGE", ["item2", "item25"], ["stock_name", "last_price"], "STOCKS")
        client.subscribe("room", "DISTINCT", ["chat_room"], ["message"], "CHAT")
        clients.append(client)
    for client in clients:
        client.expect("update", snapshot=False)
    for number, client in enumerate(clients):
        client.send(f"CHAT|{name} says {number}", "chat")
    for client in clients:
        client.expect("message", outcome="processed")
    wanted = {f"{name} says {number}" for number in range(len(clients))}
    for client in clients:
        until(lambda client=client: wanted <= said(client), f"every client has all of {wanted}")  # type: ignore[misc]


def said(client: PublishedClient) -> set[str]:
    return {event["values"]["message"] for event in client.seen("update", subscription="room")}


@pytest.mark.parametrize("name", NAMES)
def test_clients_of_a_worker_that_is_killed_are_back_and_others_see_nothing(
    workers: WorkersProcess, open_client: OpenClient, name: str
) -> None:
    clients = []
    for _ in range(12):
        client = open_client(name)
        client.connect(workers.url, "WELCOME", "WS-STREAMING", options=QUICK)
        client.subscribe("stocks", "MERGE", ["item2", "item25"], ["stock_name", "last_price"], "STOCKS")
        clients.append(client)
    for client in clients:
        client.expect("update", snapshot=False)
    first = {id(client): client.seen("status")[-1]["session"] for client in clients}
    # The system chooses by the clients' ports; that all of them are at one worker would be a rare chance.
    assert {session.rpartition("-")[2] for session in first.values()} == {"w1", "w2"}
    workers.replace_worker("w1")
    for client in clients:
        if not first[id(client)].endswith("-w1"):
            continue
        client.expect_where(
            "status", lambda event: event.get("session") not in (None, *first.values()), "a new session"
        )
        client.expect("update", snapshot=False)
    for client in clients:
        if first[id(client)].endswith("-w2"):
            client.expect("update", snapshot=False)
            assert client.seen("status")[-1]["session"] == first[id(client)]
