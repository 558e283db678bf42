"""Clusters of other shapes than a hub, a standby and edges with names of their own; and nodes that do not fit together.

Processes, with clients that stay with them while parts are killed: see tests/support/trial.py for what is judged.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

import penstock.cluster.nats
from penstock.cluster.nats import NatsEdge, NatsHub
from penstock.config.schema.cluster import ClusterSection
from penstock.wire.fabric.messages import VERSION, FabricMessage, Hello, Interest, Stranger, Welcome, decode, encode
from tests.support.broker_process import free_port
from tests.support.cluster_nodes import ClusterOfNodes
from tests.support.cut_proxy import CutProxy
from tests.support.nats_server import joined_servers, servers_with_one_route
from tests.support.raw import params
from tests.support.trial import Trial
from tests.support.waiting import PATIENCE, wait_until
from tests.support.worker_processes import subscribe

pytestmark = pytest.mark.timeout(400)

long = pytest.mark.cluster_long


@long
def test_hubs_with_clients_of_their_own_follow_one_another(tmp_path: Path) -> None:
    with ClusterOfNodes(tmp_path, edges=["e1"], role="both") as cluster, Trial(cluster) as trial:
        assert {each.homes[0] for each in trial.followers} == {"h1", "e1"}
        cluster["h1"].end(signal.SIGKILL)
        trial.until_felt("h1")
        wait_until(lambda: all(each.homes[-1] != "h1" for each in trial.followers), "nobody at h1")
        cluster["h1"].start()
        cluster.wait_until_standing_by("h1")
        cluster["h2"].send(signal.SIGSTOP)
        trial.until_felt("h2")
        cluster["h2"].send(signal.SIGCONT)
        wait_until(lambda: "this hub stands by again" in cluster["h2"].log, "h2 stands by")
        trial.judge()


def test_of_two_nats_servers_either_may_be_killed(tmp_path: Path) -> None:
    servers = joined_servers(tmp_path, 2)
    with ClusterOfNodes(tmp_path, ["h1"], servers=servers) as cluster, Trial(cluster) as trial:
        for server in servers:
            server.kill()
            # Nothing has to be repaired first.
            trial.all_have(trial.publisher.until_more())
            server.start()
        trial.judge()
        assert [len(set(each.homes)) for each in trial.followers] == [1, 1], "somebody had to leave its edge"


@long
def test_nats_servers_that_lose_one_another_for_a_while_part_nobody_from_the_hub_for_longer(tmp_path: Path) -> None:
    port = free_port()
    with CutProxy("127.0.0.1", port) as route:
        servers = servers_with_one_route(tmp_path, port, route.port)
        with ClusterOfNodes(tmp_path, ["h1"], servers=servers) as cluster, Trial(cluster) as trial:
            # The hub and the second edge are at the first server.
            behind, other = trial.followers
            assert (behind.homes, other.homes) == (["e1"], ["e2"])
            route.refuse()
            route.cut()
            number = trial.publisher.until_more()
            wait_until(lambda: other.number >= number, f"{number} at e2")
            wait_until(lambda: "edge does not answer" in cluster["h1"].log, "h1 without e1")
            assert behind.number < number
            route.resume()
            wait_until(lambda: behind.number >= number, f"{number} at e1")
            trial.judge()
            assert (behind.homes, other.homes) == (["e1"], ["e2"]), "somebody had to leave its edge"


@long
def test_nodes_that_all_have_the_same_name_are_told_apart(tmp_path: Path) -> None:
    names = dict.fromkeys(("h1", "h2", "e1", "e2"), "same")
    with ClusterOfNodes(tmp_path, named=names) as cluster, Trial(cluster) as trial:
        cluster["h1"].send(signal.SIGSTOP)
        trial.until_felt("h1")
        cluster["e1"].end(signal.SIGKILL)
        trial.until_felt("e1")
        cluster["h1"].send(signal.SIGCONT)
        cluster["e1"].start()
        trial.judge()


def test_of_two_hubs_of_one_name_without_a_lease_the_later_one_stays(tmp_path: Path) -> None:
    names = {"h1": "same", "h2": "same"}
    with ClusterOfNodes(tmp_path, edges=["e1"], named=names, lease_millis=None) as cluster:
        assert cluster["h1"].publish("price", last="1")
        client = cluster["e1"].client()
        subscribe(client, "price", "last", data_adapter="HAND")
        assert client.read_until("U")[-1] == "U,1,1,1"
        cluster["h2"].start()
        assert cluster["h1"].wait_until_ended() == 1
        (said,) = [line for line in cluster["h1"].log.splitlines() if "stopped because of another hub" in line]
        assert "it was started after this one, and without cluster.store there can be only one hub" in said
        assert "both are called same: server.node is the name of a node, by default penstock" in said
        assert "cannot start" not in cluster["h1"].log
        cluster["h2"].wait_until_ready()
        assert cluster["h2"].publish("price", last="2")
        while (line := client.read_until("U")[-1]) != "U,1,1,2":
            # It has no journal of the other's.
            assert line == "U,1,1,#", line


# -- other versions -------------------------------------------------------------------------------------------------


class StrangeEdge:
    """An edge that says of itself what it likes, over a real NATS server; an `EdgeListener`."""

    def __init__(self, nats: str, hello: bytes) -> None:
        self._fabric = NatsEdge(section(nats), "strange", "run")
        self._hello = hello
        self.heard: asyncio.Queue[FabricMessage] = asyncio.Queue()

    def connected(self) -> None:
        self._fabric.send(self._hello)

    def received(self, payload: bytes) -> None:
        self.heard.put_nowait(decode(payload))

    def lost(self) -> None:
        """It was never more than an attempt."""

    async def ask(self) -> list[FabricMessage]:
        """What the hub answers to its greeting, and to its wish to have an item."""
        async with asyncio.timeout(PATIENCE):
            await self._fabric.open(self)
            greeted = await self.heard.get()
            self._fabric.send(encode(Interest("run", 1, 1, "TEST", "HAND", "price", "MERGE")))
            answered = await self.heard.get()
            await self._fabric.close()
        return [greeted, answered]


def section(nats: str) -> ClusterSection:
    return ClusterSection(role="edge", nats=(nats,))


def test_an_edge_of_another_version_gets_nothing_of_a_hub_and_others_go_on(tmp_path: Path) -> None:
    with ClusterOfNodes(tmp_path, ["h1"], ["e1"]) as cluster, Trial(cluster) as trial:
        # Of a later one, which has a field more; the beginning of a greeting stays the same.
        later = encode(Hello(VERSION + 1, "99.0", "strange", "run"))
        more = bytes([later[0] + 1]) + later[1:] + b"\xc3"
        heard = asyncio.run(StrangeEdge(cluster.nats.url, more).ask())
        assert isinstance(heard[0], Welcome)
        assert (heard[0].version, heard[0].sets) == (VERSION, ())
        assert isinstance(heard[1], Stranger)
        assert "edge runs an incompatible version and is not served" in cluster["h1"].log
        trial.judge()


def test_a_hub_of_another_version_is_not_followed_though_it_came_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(penstock.cluster.nats, "VERSION", VERSION + 1)

    class Nobody:
        def received(self, edge: str, payload: bytes) -> None:
            raise AssertionError(f"{edge} follows")

        def lost(self, edge: str) -> None: ...

    async def be_there(nats: str) -> None:
        later = NatsHub(section(nats), "later", "run")
        await later.open(Nobody(), time.time_ns() + 10**18)
        await asyncio.to_thread(wait_until, lambda: "the hub runs an incompatible version" in cluster["e1"].log, "seen")
        await later.close()

    # The hub is one with a lease: another that has none does not oust it.
    with ClusterOfNodes(tmp_path, ["h1"], ["e1"]) as cluster, Trial(cluster) as trial:
        asyncio.run(be_there(cluster.nats.url))
        trial.judge()


# -- wrong sessions -------------------------------------------------------------------------------------------------


def test_a_session_that_a_node_does_not_have_is_refused_at_every_node(tmp_path: Path) -> None:
    with ClusterOfNodes(tmp_path, ["h1"], role="both") as cluster:
        nodes = ["h1", "e1", "e2"]
        clients = {name: cluster[name].client() for name in nodes}
        ended = {name: cluster[name].client() for name in nodes}
        for name, client in ended.items():
            assert cluster[name].exchange.control(client.session, reqId=1, op="destroy") == ["REQOK,1"]
        for at in nodes:
            exchange = cluster[at].exchange
            foreign = [clients[name].session for name in nodes if name != at]
            foreign.append(clients[at].session.removesuffix(at) + "elsewhere")
            unknown = [ended[at].session, "", "S", "S" * 500, "S0123456789abcdefT" + at, "☃", "'; DROP TABLE"]
            for session, codes in [*[(each, {"21", "11"}) for each in foreign], *[(each, None) for each in unknown]]:
                (answer,) = exchange.control(session, reqId=1, op="force_rebind")
                assert answer.split(",")[0] in ("REQERR", "ERROR"), (at, session, answer)
                bound = exchange.request("bind_session", params(session=session))
                assert bound[0].split(",")[0] in ("CONERR", "ERROR"), (at, session, bound)
                if codes is not None:
                    assert answer.split(",")[2] in codes
                    assert bound[0].split(",")[1] in codes
        # None of this has touched those who are there.
        for name, client in clients.items():
            assert cluster[name].exchange.control(client.session, reqId=2, op="force_rebind") == ["REQOK,2"]
            assert client.read_until("LOOP")[-1].startswith("LOOP")
