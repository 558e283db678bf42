"""Published clients behind HAProxy and nginx with the files of examples/balancers, while nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.balanced import APART, LIVE_AGAIN, WEB, WITH_COOKIES, OpenClient, nodes, sessions, watch, ways
from tests.interop.published import PublishedClient
from tests.support.balancers import BALANCERS, BEAT, FIELDS, SCHEMES, Cluster, is_right

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture
def cluster(balancer: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, balancer) as running:
        yield running


def expect_all_at(node: str, clients: dict[str, PublishedClient]) -> None:
    """Each is live at this node, and requests that it makes now find that node as well."""
    for client in clients.values():
        client.expect_where("update", lambda event: bool(event["values"]["node"] == node), f"of node {node}")
    more = f"more at {time.monotonic()}"
    for client in clients.values():
        client.subscribe(more, "MERGE", ["more"], FIELDS, "DEFAULT")
    for client in clients.values():
        update = client.expect("update", subscription=more)
        assert update["values"]["node"] == node
        client.unsubscribe(more)


def check_story(clients: dict[str, PublishedClient]) -> None:
    """Nobody was told an error, or a value that no node had, or an old one after a newer one, or nothing for long."""
    for way, client in clients.items():
        assert client.seen("server error") == [], way
        assert client.seen("subscription error") == [], way
        latest: dict[tuple[str, str], dict[str, str]] = {}
        for update in client.seen("update"):
            values: dict[str, str] = update["values"]
            assert is_right(update["item"], values), (way, update)
            before = latest.get((update["subscription"], update["item"]), values)
            seconds = (int(values["beat"]) - int(before["beat"])) * BEAT
            # Nodes do not publish at the same moment: the snapshot of one may be older than what another has told last.
            assert seconds >= (0 if values["node"] == before["node"] else -APART), (way, before, update)
            assert seconds < LIVE_AGAIN, f"{way} was told nothing for {seconds} s before {update}"
            latest[update["subscription"], update["item"]] = values


def start(cluster: Cluster, scheme: str, node: str) -> None:
    """Start a node and wait until the balancer has seen it, as an operator does."""
    cluster.start(node)
    cluster.expect_led_to(node, scheme)


def kill_and_drain(cluster: Cluster, scheme: str, clients: dict[str, PublishedClient]) -> None:
    watch(cluster, scheme, clients)
    # Over HTTP requests have come on connections of their own: they have found their sessions, or there would be more.
    assert [len(sessions(client)) for client in clients.values()] == [1] * len(clients)
    before = {way: nodes(client) for way, client in clients.items()}
    cluster.kill("a")
    expect_all_at("b", clients)
    for way, client in clients.items():
        assert nodes(client) == (before[way] if before[way] == ["b"] else ["a", "b"]), way
    start(cluster, scheme, "a")
    cluster.kill("b")
    expect_all_at("a", clients)
    start(cluster, scheme, "b")
    cluster.drain("a", 1)
    expect_all_at("b", clients)
    cluster.drained("a")
    check_story(clients)


@pytest.mark.parametrize("balancer", BALANCERS)
def test_clients_led_by_a_cookie_are_live_again_after_kills_and_after_a_drain(
    cluster: Cluster, open_client: OpenClient
) -> None:
    kill_and_drain(cluster, "cookie", ways(open_client, "python-2.2.3", "node-9.2.2"))


@pytest.mark.interop_long
@pytest.mark.parametrize("balancer", BALANCERS)
@pytest.mark.parametrize("scheme", ["address", "link"])
def test_clients_led_otherwise_are_live_again_after_kills_and_after_a_drain(
    cluster: Cluster, scheme: str, open_client: OpenClient
) -> None:
    kill_and_drain(cluster, scheme, ways(open_client, "python-2.2.3", "node-9.2.2"))


@pytest.mark.interop_long
@pytest.mark.browser
@pytest.mark.parametrize("balancer", BALANCERS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_client_in_a_browser_is_live_again_after_kills_and_after_a_drain(
    cluster: Cluster, scheme: str, open_client: OpenClient
) -> None:
    kill_and_drain(cluster, scheme, ways(open_client, WEB))


@pytest.mark.interop_long
@pytest.mark.browser
@pytest.mark.parametrize("balancer", BALANCERS)
def test_a_page_of_another_site_keeps_its_cookie_over_tls(
    balancer: str, tmp_path: Path, open_client: OpenClient
) -> None:
    with Cluster(tmp_path, balancer, tls=True) as cluster:
        for transport in ("HTTP-STREAMING", "HTTP-POLLING", "WS-STREAMING"):
            client = open_client(WEB)
            options = {"ForcedTransport": transport, **WITH_COOKIES}
            client.connect(cluster.url("cookie"), "TEST", None, options=options)
            for number in range(6):
                # Each is a request of its own over HTTP: without its cookie every other would get lost.
                client.subscribe(f"item{number}", "MERGE", [f"item{number}"], FIELDS, "DEFAULT")
                client.expect("update", subscription=f"item{number}", snapshot=False)
            assert len(sessions(client)) == 1, transport


@pytest.mark.interop_long
@pytest.mark.parametrize("balancer", BALANCERS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_in_a_rolling_restart_of_all_nodes_every_client_is_live_again_in_time(
    cluster: Cluster, scheme: str, open_client: OpenClient
) -> None:
    clients = ways(open_client, "python-2.2.3", "node-9.2.2", WEB)
    watch(cluster, scheme, clients)
    for turn in range(2):
        for node, other in ("ab", "ba"):
            if turn == 0:
                cluster.drain(node, 2)
                cluster.drained(node)
            else:
                cluster.stop(node)
            expect_all_at(other, clients)
            start(cluster, scheme, node)
    check_story(clients)
