"""One node of a server is drained, by an administrator or by SIGTERM: its clients are soon at the others, and stay.

What a drain tells whom: tests/services/cluster/test_clients.py. Behind a balancer, with published clients:
tests/interop/test_balanced_cluster.py.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.conformance.phrases import create
from tests.support.administration import ask, write_users
from tests.support.cluster_nodes import ClusterNode, ClusterOfNodes
from tests.support.followers import PROMISED, within_promise
from tests.support.pace import stalled
from tests.support.raw import TIMEOUT, Exchange, Socket
from tests.support.trial import Trial
from tests.support.waiting import wait_until
from tests.support.worker_processes import WorkersProcess, subscribe, until

pytestmark = pytest.mark.timeout(300)

END = "END,48,The server is shutting down"

# New sessions that are opened one after the other, each over a connection of its own.
COMERS = 40


# -- workers, which share their ports ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WorkersProcess]:
    """It has administrators."""
    write_users(tmp_path / "users")
    with WorkersProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as running:
        yield running


def comers(exchange: Exchange) -> set[str]:
    """Where new sessions are."""
    found = set()
    for _ in range(COMERS):
        (line, *_) = exchange.request("create_session", create(polling=True))
        assert line.startswith("CONOK,"), line
        found.add(line.split(",")[1].rpartition("-")[2])
    return found


def follow_on(server: WorkersProcess, client: Socket, worker: str, value: str) -> Socket:
    """A client that is told to bind again does so, as all clients do."""
    assert client.read_until("END")[-1] == END
    client.__exit__(None, None, None)
    again = server.exchange.socket()
    again.create("TEST", send_sync=False, keepalive_millis=30_000)
    subscribe(again, "price", "last", data_adapter="HAND")
    assert again.read_until("U")[-1] == f"U,1,1,{value}"
    assert again.session.endswith(f"-{worker}")
    return again


def test_a_worker_is_drained_and_its_client_is_at_the_other_with_the_right_value(server: WorkersProcess) -> None:
    server.publish("price", last="1")
    one, two = server.socket_at("w1"), server.socket_at("w2")
    for client in (one, two):
        subscribe(client, "price", "last", data_adapter="HAND")
        assert client.read_until("U")[-1] == "U,1,1,1"
    answer = ask(server.api_port, "POST", "/drain", {"node": "w1", "seconds": 0.5})
    assert answer.status == 200, answer
    began, waited = time.monotonic(), stalled()
    moved = follow_on(server, one, "w2", "1")
    assert time.monotonic() - began - (stalled() - waited) < PROMISED
    assert comers(server.exchange) == {"w2"}
    # Who was at the other one has noticed nothing.
    server.publish("price", last="2")
    for client in (moved, two):
        assert client.read_line() == "U,1,1,2"
    # Before they have been asked for the first time they are silent.
    until(lambda: states(server) == {"hub": "up", "w1": "draining", "w2": "up"}, "the status says so")
    # The last one keeps the port, and tells everybody why it takes nobody.
    assert ask(server.api_port, "POST", "/drain", {"node": "w2"}).status == 200
    until(lambda: "503" in status_line(server), "refused in words")
    assert ask(server.api_port, "DELETE", "/drain?node=w2").status == 200
    assert ask(server.api_port, "DELETE", "/drain?node=w1").status == 200
    until(lambda: comers(server.exchange) == {"w1", "w2"}, "both have clients again")
    for client in (moved, two):
        client.__exit__(None, None, None)
    assert server.stop() == 0
    assert " ERROR " not in server.log


def states(server: WorkersProcess) -> dict[str, str]:
    return {each["name"]: each["state"] for each in ask(server.api_port, "GET", "/cluster").body["nodes"]}


def status_line(server: WorkersProcess) -> str:
    connection = HTTPConnection(server.host, server.port, timeout=TIMEOUT)
    connection.request("GET", "/ready")
    status = str(connection.getresponse().status)
    connection.close()
    return status


def test_requests_about_sessions_of_a_worker_that_drains_are_answered_by_it(server: WorkersProcess) -> None:
    with server.socket_at("w1") as client:
        assert ask(server.api_port, "POST", "/drain", {"node": "w1"}).status == 200
        until(lambda: "listeners left to other workers worker=w1" in server.log, "it leaves the port")
        for number in range(1, 11):
            assert server.exchange.control(client.session, reqId=number, op="constrain") == [f"REQOK,{number}"]


def test_a_worker_that_stops_after_its_drain_is_replaced_by_one_that_takes_clients(server: WorkersProcess) -> None:
    client, before = server.socket_at("w1"), server.workers()["w1"]
    assert ask(server.api_port, "POST", "/drain", {"node": "w1", "seconds": 0, "stop": True}).status == 200
    assert client.read_until("END")[-1] == END
    until(lambda: "worker replaced worker=w1" in server.log, "replaced")
    assert server.workers()["w1"] != before
    assert ask(server.api_port, "GET", "/drain").body["nodes"] == []
    server.socket_at("w1").__exit__(None, None, None)


# -- edges over NATS ---------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOfNodes]:
    write_users(tmp_path / "users")
    users = f'admin.users = "{tmp_path / "users"}"\n'
    with ClusterOfNodes(tmp_path, ["h1"], lease_millis=None, more=lambda postgres: users) as running:
        yield running


def readiness(edge: ClusterNode) -> int:
    connection = HTTPConnection("127.0.0.1", edge.ports["stream"], timeout=TIMEOUT)
    connection.request("GET", "/ready")
    status = connection.getresponse().status
    connection.close()
    return status


def test_an_edge_is_drained_and_its_clients_are_at_the_other_with_the_right_values(cluster: ClusterOfNodes) -> None:
    hub, one, two = cluster["h1"].ports["api"], cluster["e1"], cluster["e2"]
    with Trial(cluster) as trial:
        homes = trial.followers
        wait_until(lambda: {each.homes[-1] for each in homes} == {"e1", "e2"}, "clients at both")
        unknown = ask(hub, "POST", "/drain", {"node": "e3"})
        told = "node e3: it is not one of the nodes with clients; those are e1, e2"
        assert (unknown.status, unknown.error) == (404, told)
        assert ask(hub, "POST", "/drain", {"node": "e1", "seconds": 0}).status == 200
        within_promise(lambda: all(each.homes[-1] == "e2" for each in homes), lambda: str(homes))
        number = trial.publisher.until_more()
        within_promise(lambda: all(each.number >= number for each in homes), lambda: f"{number} at {homes}")
        assert (readiness(one), readiness(two)) == (503, 200)
        with one.exchange.http() as http:
            http.post("create_session", create())
            assert http.read_head() == 503
        moves = [len(each.homes) for each in homes]
        assert ask(hub, "DELETE", "/drain?node=e1").status == 200
        wait_until(lambda: readiness(one) == 200, "in service again")
        # Nobody was moved for that.
        assert [len(each.homes) for each in homes] == moves
        assert ask(hub, "POST", "/drain", {"node": "e2", "seconds": 0.5, "stop": True}).status == 200
        assert two.wait_until_ended() == 0
        within_promise(lambda: all(each.homes[-1] == "e1" for each in homes), lambda: str(homes))
        two.start()
        two.wait_until_ready()
        assert readiness(two) == 200
        trial.all_have(trial.publisher.until_more())
        assert [each.wrong for each in homes] == [[], []]


def test_an_edge_tells_its_clients_to_bind_again_when_it_gets_sigterm(cluster: ClusterOfNodes) -> None:
    """As a server of one process does."""
    with cluster["e1"].client() as client, cluster["e1"].exchange.stream("TEST") as stream:
        cluster["e1"].send(signal.SIGTERM)
        assert client.read_until("END")[-1] == END
        assert stream.read_until("END")[-1] == END
        assert cluster["e1"].wait_until_ended() == 0
    # The hub knows at once, because the edge has said goodbye.
    hub = cluster["h1"].ports["api"]
    wait_until(lambda: [each["name"] for each in ask(hub, "GET", "/cluster").body["nodes"]] == ["hub", "e2"], "it left")
    for name in ("stopping sessions=2", "stopped"):
        assert name in cluster["e1"].log
