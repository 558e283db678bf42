"""Hubs and edges as processes, connected by a real NATS server, with a standby by the lease in a real PostgreSQL.

What goes wrong here is what goes wrong in data centres: processes are killed and frozen, servers are restarted. Clients
stay on their connections. Rules of the fabric: tests/cluster.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx
import pytest

from penstock.doors.tlex.openapi import HEADER
from penstock.exchange.authorization import Role
from penstock.journal.reader import JournalReader
from penstock.store.hub_lease import HubLease
from penstock.store.store import Store
from tests.journal.world import rows_of
from tests.store.postgres import Postgres
from tests.support.administration import ask, write_users
from tests.support.cluster_nodes import INGEST_TOKEN, ClusterNode, ClusterOfNodes
from tests.support.raw import TIMEOUT, Socket
from tests.support.waiting import PATIENCE, wait_until
from tests.support.worker_processes import subscribe

pytestmark = pytest.mark.timeout(300)

LOGIN = ("bob", "bob-secret")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOfNodes]:
    """The users of Ditto have passwords of their own: that of the demo is good on one machine only."""
    write_users(tmp_path / "users")
    users = (
        'ditto.adapter_set = "USERS"\n'
        'adapters.USERS.metadata.adapter = "access"\n'
        f'adapters.USERS.metadata.parameters.users = "{tmp_path / "users"}"\n'
        'adapters.USERS.data.DEFAULT.adapter = "ingest"\n'
        f'adapters.USERS.data.DEFAULT.parameters = {{ items = ["*"], tokens = ["{INGEST_TOKEN}"] }}\n'
    )
    with ClusterOfNodes(tmp_path, more=lambda postgres: users) as running:
        yield running


def watching(cluster: ClusterOfNodes, *edges: str) -> list[Socket]:
    """Clients that have the item `price`."""
    clients = [cluster[edge].client() for edge in edges]
    for client in clients:
        subscribe(client, "price", "last", data_adapter="HAND")
    return clients


def put_twin(hub: ClusterNode, watts: int) -> None:
    address = f"http://127.0.0.1:{hub.ports['api']}/api/2/things/org.example:lamp"
    put = httpx.put(address, json={"attributes": {"watts": watts}}, auth=LOGIN, timeout=TIMEOUT)
    put.raise_for_status()


def watching_twin(cluster: ClusterOfNodes, *edges: str) -> list[Socket]:
    """Clients that have the watts of the lamp."""
    clients = [cluster[edge].client("DITTO", user=LOGIN[0], password=LOGIN[1]) for edge in edges]
    for client in clients:
        subscribe(client, "org.example:lamp", "/attributes/watts", data_adapter="THINGS")
    return clients


def is_shown(clients: list[Socket], value: str) -> None:
    """All of them get it, and nothing wrong before: values only rise."""
    for client in clients:
        while True:
            line = client.read_until("U")[-1]
            number = line.split(",")[3]
            assert int(number) <= int(value), line
            if number == value:
                break


def publish(hub: ClusterNode, value: str) -> None:
    """Until it is acknowledged."""
    deadline = time.monotonic() + PATIENCE
    while not hub.publish("price", last=value):
        assert time.monotonic() < deadline, hub.log[-3000:]


def published(cluster: ClusterOfNodes) -> list[str | None]:
    """What the journal has of the item, in order."""
    reader = JournalReader(cluster.data_dir / "journal")
    found = [row[3] for row in rows_of(reader.read()) if row[1].endswith("/price")]
    assert reader.damages == []
    return found


def test_clients_of_all_edges_go_on_when_the_hub_is_killed(cluster: ClusterOfNodes) -> None:
    publish(cluster["h1"], "1")
    put_twin(cluster["h1"], 1)
    clients = [*watching(cluster, "e1", "e2"), *watching_twin(cluster, "e1", "e2")]
    is_shown(clients, "1")
    publish(cluster["h1"], "2")
    put_twin(cluster["h1"], 2)
    is_shown(clients, "2")
    cluster["h1"].end(signal.SIGKILL)
    cluster["h2"].wait_until_ready()
    publish(cluster["h2"], "3")
    put_twin(cluster["h2"], 3)
    is_shown(clients, "3")
    # What the first hub had acknowledged is there for who comes now.
    assert len(published(cluster)) == 3
    # And the other way round.
    cluster["h1"].start()
    cluster["h2"].end(signal.SIGTERM)
    cluster["h1"].wait_until_ready()
    publish(cluster["h1"], "4")
    put_twin(cluster["h1"], 4)
    is_shown(clients, "4")
    later = [*watching(cluster, "e1"), *watching_twin(cluster, "e2")]
    is_shown(later, "4")


def test_a_hub_that_was_frozen_is_not_believed_and_stands_by(cluster: ClusterOfNodes) -> None:
    publish(cluster["h1"], "1")
    clients = watching(cluster, "e1", "e2")
    is_shown(clients, "1")
    cluster["h1"].send(signal.SIGSTOP)
    cluster["h2"].wait_until_ready()
    publish(cluster["h2"], "3")
    is_shown(clients, "3")
    cluster["h1"].send(signal.SIGCONT)
    # It believes that it is the active one: for how long, nobody can say, but nothing comes of it.
    assert not cluster["h1"].publish("price", last="2")
    publish(cluster["h2"], "4")
    is_shown(clients, "4")
    cluster["h2"].end(signal.SIGKILL)
    cluster["h1"].wait_until_ready(2)
    publish(cluster["h1"], "5")
    is_shown(clients, "5")
    assert len(published(cluster)) == 4


def test_nats_and_the_database_are_restarted_under_a_running_cluster(cluster: ClusterOfNodes) -> None:
    publish(cluster["h1"], "1")
    clients = watching(cluster, "e1", "e2")
    is_shown(clients, "1")
    cluster.nats.kill()
    # Nobody hears of this one yet.
    publish(cluster["h1"], "2")
    cluster.nats.start()
    is_shown(clients, "2")
    cluster.postgres.stop()
    cluster.postgres.start()
    publish(cluster["h1"], "3")
    is_shown(clients, "3")
    assert len(cluster["h1"].readies) == 1
    assert not cluster["h2"].readies


def shown(hub: ClusterNode) -> dict[str, tuple[str, str]]:
    """The role and the state of each part of the cluster."""
    nodes = ask(hub.ports["api"], "GET", "/cluster").body["nodes"]
    return {each["name"]: (each["role"], each["state"]) for each in nodes}


def test_the_status_shows_which_hub_stands_by(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    users = f'admin.users = "{tmp_path / "users"}"\n'
    with ClusterOfNodes(tmp_path, edges=["e1"], more=lambda postgres: users) as cluster:
        first, second = cluster["h1"], cluster["h2"]
        everybody = {"hub": ("hub", "up"), "e1": ("edge", "up"), "h2": ("standby", "up")}
        wait_until(lambda: shown(first) == everybody, "the standby is shown")
        second.send(signal.SIGSTOP)
        wait_until(lambda: shown(first)["h2"] == ("standby", "silent"), "it is silent")
        second.send(signal.SIGCONT)
        wait_until(lambda: shown(first) == everybody, "it is back")
        first.end(signal.SIGKILL)
        second.wait_until_ready()
        wait_until(lambda: shown(second) == {"hub": ("hub", "up"), "e1": ("edge", "up")}, "no standby is left")
        first.start()
        cluster.wait_until_standing_by("h1")
        wait_until(lambda: shown(second).get("h1") == ("standby", "up"), "the other one stands by")
        # Who leaves in good order is not missed.
        assert first.end(signal.SIGTERM) == 0
        wait_until(lambda: "h1" not in shown(second), "it has left")


def test_a_level_of_the_log_is_set_at_edges_as_well_also_at_those_that_come_later(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    users = f'admin.users = "{tmp_path / "users"}"\n'
    with ClusterOfNodes(tmp_path, ["h1"], lease_millis=None, more=lambda postgres: users) as cluster:
        hub, one, two = cluster["h1"].ports["api"], cluster["e1"], cluster["e2"]
        two.end(signal.SIGTERM)
        # What the log says of each session, at level info.
        setting = {"category": "penstock.doors", "level": "error"}
        assert ask(hub, "PUT", "/levels", setting).status == 200
        two.start()
        two.wait_until_ready()

        def is_quiet(edge: ClusterNode) -> bool:
            before = edge.log.count("session opened")
            with edge.client():
                return edge.log.count("session opened") == before

        for edge in (one, two):
            wait_until(lambda edge=edge: is_quiet(edge), f"{edge.name} is quiet")  # type: ignore[misc]
        assert ask(hub, "PUT", "/levels", {**setting, "level": None}).status == 200
        for edge in (one, two):
            wait_until(lambda edge=edge: not is_quiet(edge), f"{edge.name} says it again")  # type: ignore[misc]


def test_edges_come_and_go_and_others_see_nothing_of_it(cluster: ClusterOfNodes) -> None:
    publish(cluster["h1"], "1")
    stays, goes = watching(cluster, "e1", "e2")
    is_shown([stays, goes], "1")
    cluster["e2"].end(signal.SIGKILL)
    publish(cluster["h1"], "2")
    assert stays.read_line() == "U,1,1,2"
    cluster["e2"].start()
    cluster["e2"].wait_until_ready()
    is_shown(watching(cluster, "e2"), "2")
    assert cluster["e1"].end(signal.SIGTERM) == 0


def test_a_hub_that_was_followed_is_kept_out_of_the_databases_of_its_doors(tmp_path: Path) -> None:
    """Also of one in which the lease is not. Here the follower is a row; freezes: tests/cluster/test_tenure.py."""
    urls: list[str] = []

    def doors(postgres: Postgres) -> str:
        urls.append(postgres.other("doors"))
        push = f'push.enabled = true\npush.store = "{urls[0]}"\n'
        return f'{push}tlex.enabled = true\ntlex.port = 0\ntlex.store = "{urls[0]}"\n'

    with ClusterOfNodes(tmp_path, ["h1"], [], more=doors) as cluster:
        store = Store.open(urls[0])
        account = store.add_account("one").uuid
        authorization = store.authorize(account, "d", Role.TLC_ADMIN)
        secret = store.add_token(authorization.uuid, 0).secret
        assert register(cluster["h1"], secret, "11111111") == HTTPStatus.CREATED
        follower = HubLease("penstock", "h2", "r2", "1", 10_000)
        follower.epoch = time.time_ns() + 10**9
        follower.enter(store.engine)
        assert register(cluster["h1"], secret, "22222222") == HTTPStatus.SERVICE_UNAVAILABLE
        assert [each.identifier for each in store.tlcs()] == ["11111111"]
        refused = "the database of push notifications does not answer"
        wait_until(lambda: refused in cluster["h1"].log, "push notifications are kept out as well")
        assert "another hub of cluster 'penstock' has taken over" in cluster["h1"].log
        store.close()


def register(hub: ClusterNode, secret: str, identifier: str) -> int:
    """What a hub answers to who adds a controller."""
    body = json.dumps({"identifier": identifier, "type": "VLOG"}).encode()
    address = f"http://127.0.0.1:{hub.ports['api']}/api/v1/tlcs"
    try:
        with urlopen(Request(address, body, {HEADER: secret}), timeout=TIMEOUT) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
