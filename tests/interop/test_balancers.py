"""Published clients behind HAProxy and nginx with the files of examples/balancers, while nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.published import TRANSPORTS, PublishedClient
from tests.support.balancers import BALANCERS, FIELDS, SCHEMES, Cluster, is_right
from tests.support.raw import CID, Exchange, params

OpenClient = Callable[[str], PublishedClient]

# Seconds in which a client has to be live again, and those that a busy machine may add to it.
LIVE_AGAIN = 5.0

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture
def cluster(balancer: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, balancer) as running:
        yield running


def watch(cluster: Cluster, scheme: str, clients: dict[str, PublishedClient]) -> None:
    """Have all of them connected, with live values; `clients` by their transports and names."""
    for way, client in clients.items():
        transport = way.partition(" ")[0]
        options = {"CookieHandlingRequired": True} if way.endswith("web-9.2.3") else {}
        client.connect(cluster.url(scheme), "TEST", None, options={"ForcedTransport": transport, **options})
        client.subscribe("beats", "MERGE", ["one", "two"], FIELDS, "DEFAULT")
        # One after the other: clients of one process share their cookies.
        client.expect("update", snapshot=False)


def sessions(client: PublishedClient) -> list[str]:
    found = [event["session"] for event in client.seen("status") if event["status"].startswith("CONNECTED:")]
    return list(dict.fromkeys(found))


def nodes(client: PublishedClient) -> list[str]:
    """Those whose sessions it has had: their names are at the end of the identifiers."""
    return [session.partition("T")[2] for session in sessions(client)]


def expect_all_at(node: str, clients: dict[str, PublishedClient], since: float) -> None:
    """Each is live at this node, and was in time; and requests that it makes now find that node as well."""
    for way, client in clients.items():
        client.expect_where("update", lambda event: bool(event["values"]["node"] == node), f"of node {node}")
        assert time.monotonic() - since < LIVE_AGAIN, f"{way} was too late"
    for client in clients.values():
        client.subscribe(f"more of {node}", "MERGE", ["more"], FIELDS, "DEFAULT")
    for client in clients.values():
        update = client.expect("update", subscription=f"more of {node}")
        assert update["values"]["node"] == node


def check_story(clients: dict[str, PublishedClient]) -> None:
    """Nobody was told an error, or a value that no node had, or an old one after a newer one."""
    for way, client in clients.items():
        assert client.seen("server error") == [], way
        assert client.seen("subscription error") == [], way
        latest: dict[tuple[str, str], int] = {}
        for update in client.seen("update"):
            assert is_right(update["item"], update["values"]), (way, update)
            key = update["subscription"], update["item"]
            assert latest.get(key, 0) <= int(update["values"]["beat"]), (way, update)
            latest[key] = int(update["values"]["beat"])


def expect_led_to(cluster: Cluster, scheme: str, node: str) -> None:
    """Wait until the balancer leads somebody new to this node."""
    exchange = Exchange("127.0.0.1", cluster.port(SCHEMES[scheme]))
    body = f"{params(adapter_set='TEST', polling=True, polling_millis=0)}&LS_cid={CID}"
    deadline = time.monotonic() + 20
    while not exchange.request("create_session", body)[0].split(",")[1].endswith(f"T{node}"):
        assert time.monotonic() < deadline, f"nobody is led to {node}"
        time.sleep(0.05)


def kill_and_drain(cluster: Cluster, scheme: str, clients: dict[str, PublishedClient]) -> None:
    watch(cluster, scheme, clients)
    # Over HTTP requests have come on connections of their own: they have found their sessions, or there would be more.
    assert [len(sessions(client)) for client in clients.values()] == [1] * len(clients)
    before = {way: nodes(client) for way, client in clients.items()}
    since = time.monotonic()
    cluster.kill("a")
    expect_all_at("b", clients, since)
    for way, client in clients.items():
        assert nodes(client) == (before[way] if before[way] == ["b"] else ["a", "b"]), way
    cluster.start("a")
    if scheme != "address":
        expect_led_to(cluster, scheme, "a")
    since = time.monotonic()
    cluster.drain("b", 1)
    expect_all_at("a", clients, since)
    cluster.drained("b")
    check_story(clients)


def ways(open_client: OpenClient, *names: str) -> dict[str, PublishedClient]:
    return {f"{transport} {name}": open_client(name) for name in names for transport in TRANSPORTS}


@pytest.mark.parametrize("balancer", BALANCERS)
def test_clients_led_by_a_cookie_are_live_again_after_a_kill_and_after_a_drain(
    cluster: Cluster, open_client: OpenClient
) -> None:
    kill_and_drain(cluster, "cookie", ways(open_client, "python-2.2.3", "node-9.2.2"))
