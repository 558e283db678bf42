"""Published clients through a balancer in front of a cluster over NATS, while all nodes are restarted in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.balanced import APART, LIVE_AGAIN, WEB, OpenClient, nodes, watch, ways
from tests.interop.published import PublishedClient
from tests.support.balanced_cluster import HUBS, BalancedCluster
from tests.support.balancers import BEAT, SCHEMES, is_right
from tests.support.pace import Pace, stalled

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BalancedCluster]:
    with BalancedCluster(tmp_path) as running:
        yield running


def until_live(clients: dict[str, PublishedClient], edge: str | None = None) -> None:
    """All are told what was published from now on, by way of this edge."""
    now = time.time()
    for client in clients.values():
        client.expect_where(
            "update", lambda event: int(event["values"]["beat"]) * BEAT > now, f"that was published after {now}"
        )
        assert edge in (None, nodes(client)[-1])


def check_told(clients: dict[str, PublishedClient]) -> None:
    """Nobody was told an error, or a value that no hub had published."""
    for way, client in clients.items():
        assert client.seen("server error") == [], way
        assert client.seen("subscription error") == [], way
        for update in client.seen("update"):
            assert is_right(update["item"], update["values"]), (way, update)


def check_story(clients: dict[str, PublishedClient], pace: Pace) -> None:
    """Nobody was told something wrong, or nothing for longer than promised."""
    check_told(clients)
    for way, client in clients.items():
        latest: dict[str, int] = {}
        for update in client.seen("update"):
            beat = int(update["values"]["beat"])
            before = latest.get(update["item"], beat)
            # What another edge has may be a moment older, and so may be what another hub publishes.
            assert (beat - before) * BEAT >= -APART, (way, update)
            excused = pace.stalled_between(before * BEAT, beat * BEAT)
            assert (beat - before) * BEAT - excused < LIVE_AGAIN, f"{way}: nothing from beat {before} to {beat}"
            latest[update["item"]] = beat


def restart_all(cluster: BalancedCluster, scheme: str, clients: dict[str, PublishedClient]) -> None:
    """Edges, hubs and at last the balancer, which is killed, each when the others are there."""
    with Pace() as pace:
        watch(cluster, scheme, clients)
        for edge, other in ("ab", "ba"):
            cluster.stop(edge)
            until_live(clients, edge=other)
            cluster.start(edge)
            cluster.expect_led_to(edge, scheme)
        for hub in HUBS:
            cluster.stop(hub)
            until_live(clients)
            cluster.start(hub)
        cluster.kill_balancer()
        cluster.start_balancer()
        until_live(clients)
    check_story(clients, pace)


def test_clients_are_live_again_after_a_rolling_restart_of_a_cluster(
    cluster: BalancedCluster, open_client: OpenClient
) -> None:
    restart_all(cluster, "cookie", ways(open_client, "python-2.2.3", "node-9.2.2"))


def test_clients_of_an_edge_that_the_hub_drains_go_to_the_other(
    cluster: BalancedCluster, open_client: OpenClient
) -> None:
    clients = ways(open_client, "python-2.2.3")
    with Pace() as pace:
        watch(cluster, "cookie", clients)
        for edge, other in ("ab", "ba"):
            cluster.drain(edge, seconds=1.0)
            cluster.drained(edge)
            until_live(clients, edge=other)
            cluster.start(edge)
            cluster.expect_led_to(edge, "cookie")
    check_story(clients, pace)


@pytest.mark.interop_long
@pytest.mark.browser
@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_clients_are_live_again_after_a_rolling_restart_of_a_cluster(
    cluster: BalancedCluster, scheme: str, open_client: OpenClient
) -> None:
    restart_all(cluster, scheme, ways(open_client, "python-2.2.3", "node-9.2.2", WEB))


@pytest.mark.interop_long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_clients_are_live_again_after_a_rolling_restart_of_a_cluster_behind_nginx(
    tmp_path: Path, scheme: str, open_client: OpenClient
) -> None:
    with BalancedCluster(tmp_path, "nginx") as cluster:
        restart_all(cluster, scheme, ways(open_client, "python-2.2.3", "node-9.2.2"))


@pytest.mark.interop_long
@pytest.mark.parametrize("part", ["a", "h1", "h2", "nats", "postgres"])
def test_clients_are_live_again_after_the_balancer_and_another_part_were_killed(
    cluster: BalancedCluster, part: str, open_client: OpenClient
) -> None:
    clients = ways(open_client, "python-2.2.3", "node-9.2.2")
    watch(cluster, "cookie", clients)
    cluster.kill_balancer()
    if part == "nats":
        cluster.nats.kill()
        cluster.nats.start()
    elif part == "postgres":
        cluster.postgres.kill()
        cluster.postgres.start()
    else:
        cluster.kill(part)
        cluster.start(part)
    cluster.until_active()
    cluster.start_balancer()
    began, waited = time.monotonic(), stalled()
    until_live(clients)
    took = time.monotonic() - began - (stalled() - waited)
    assert took < LIVE_AGAIN, f"{took} s"
    check_told(clients)
