"""TLEX with processes: workers of one machine, and the hub and edges of docs/tlex.md over a real NATS server.

Clients are at different nodes, and nodes are killed in the middle. Rules: tests/exchange/test_outposts.py.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.exchange.authorization import Role
from penstock.store.store import Store
from penstock.wire.tlex.datagrams import Bye, IdentifiedPayload, Reconnect, Token
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import TlcType
from tests.doors.tlex.site import NOON, Peer, named, request
from tests.support.cluster_nodes import ClusterNode
from tests.support.nats_server import NatsServer
from tests.support.process import toml_of
from tests.support.waiting import PATIENCE
from tests.support.worker_processes import WorkersProcess

pytestmark = pytest.mark.timeout(300)

PAGE = (Path(__file__).parents[2] / "docs" / "tlex.md").read_text("utf-8")
IDENTIFIERS = [f"NLZH{number:04}" for number in range(40)]
ROLES = {"TLC": Role.TLC_SYSTEM, "Broker": Role.BROKER_SYSTEM}

# Peers of this test keep nothing alive, and the machine may have much other work.
CALM = {
    "tlex.enabled": True,
    "tlex.token_millis": 60_000,
    "tlex.handshake_millis": 60_000,
    "tlex.tlc.keep_alive_millis": 300_000,
    "tlex.tlc.payloads_per_second": 1_000,
    "tlex.broker.keep_alive_millis": 300_000,
}


class Clients:
    """Of a new database with controllers and an account. `api` is the port of REST, once there is one."""

    def __init__(self, directory: Path) -> None:
        self.url = f"sqlite:///{directory / 'tlex.db'}"
        store = Store.open(self.url)
        account = store.add_account("ours").uuid
        for each in IDENTIFIERS:
            store.add_tlc("test", each, TlcType.TCP_STREAMING, account)
        authorizations = {type: store.authorize(account, "test", role, ()) for type, role in ROLES.items()}
        self._secrets = {type: store.add_token(each.uuid, NOON).secret for type, each in authorizations.items()}
        store.close()
        self.api = 0
        self._peers: list[Peer] = []

    def session(self, type: str, *identifiers: str) -> dict[str, Any]:
        """As soon as it is to be had."""
        url, headers = f"http://127.0.0.1:{self.api}/api/v1/sessions", {"X-Authorization": self._secrets[type]}
        deadline = time.monotonic() + PATIENCE
        reason = ""
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                answer = httpx.post(url, json=request(type, *identifiers), headers=headers, timeout=PATIENCE)
                if answer.status_code == 200:
                    found: dict[str, Any] = answer.json()
                    return found
                reason = answer.text
            time.sleep(0.05)
        raise AssertionError(f"still refused: {reason}")

    def connect(self, session: dict[str, Any], port: int | None = None) -> Peer:
        peer = self.show(session, port)
        peer.synchronize()
        return peer

    def show(self, session: dict[str, Any], port: int | None = None) -> Peer:
        """A connection that has shown its token; it may be refused."""
        listener = session["details"]["listener"]
        peer = Peer(socket.create_connection((listener["host"], port or listener["port"]), PATIENCE))
        peer.socket.settimeout(PATIENCE)
        self._peers.append(peer)
        peer.send_bytes(PREAMBLE + Token(session["token"]).encode())
        return peer

    def join(self, type: str, *identifiers: str) -> Peer:
        return self.connect(self.session(type, *identifiers))

    def hang_up(self) -> None:
        for peer in self._peers:
            peer.close()


def exchange(controller: Peer, brokers: dict[str, Peer], text: str) -> None:
    """A payload from the controllers to each broker, and one back from each."""
    controller.send(*[named(identifier, text) for identifier in brokers])
    for identifier, broker in brokers.items():
        while (got := broker.payload()).data != text.encode():
            pass
        assert isinstance(got, IdentifiedPayload)
        assert got.identifier == identifier
        broker.send(named(identifier, f"{text} {identifier}"))
    answers = {controller.payload().data for _ in brokers}
    assert answers == {f"{text} {identifier}".encode() for identifier in brokers}


def told_to_come_again(peer: Peer) -> bool:
    """Reconnect, and Bye in the end."""
    found = peer.rest()
    return any(isinstance(each, Reconnect) for each in found) and isinstance(found[-1], Bye)


# -- workers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[WorkersProcess, Clients]]:
    clients = Clients(tmp_path)
    with WorkersProcess(tmp_path, {**CALM, "tlex.port": 0, "tlex.store": clients.url}) as server:
        clients.api = server.api_port
        yield server, clients
        clients.hang_up()


def worker_of(server: WorkersProcess, peer: Peer) -> str:
    """The worker that has accepted a connection, as the system knows it."""
    local, remote = peer.socket.getpeername()[1], peer.socket.getsockname()[1]
    wanted = f":{local:04X} ", f":{remote:04X} "
    for line in Path("/proc/net/tcp").read_text().splitlines():
        if wanted[0] in line[:30] and wanted[1] in line[:45] and line.index(wanted[0]) < line.index(wanted[1]):
            inode = f"socket:[{line.split()[9]}]"
            for name, pid in server.workers().items():
                descriptors = Path(f"/proc/{pid}/fd")
                if any(_target(each) == inode for each in descriptors.iterdir()):
                    return name
    raise AssertionError("nobody has accepted it")


def _target(link: Path) -> str:
    with suppress(OSError):
        return os.readlink(link)
    return ""


def test_workers_exchange_payloads_and_a_killed_one_harms_no_other(workers: tuple[WorkersProcess, Clients]) -> None:
    server, clients = workers
    controller = clients.join("TLC", *IDENTIFIERS)
    home = worker_of(server, controller)
    assert home in ("w1", "w2")
    brokers: dict[str, Peer] = {}
    where: dict[str, str] = {}
    for identifier in IDENTIFIERS:
        # The system chooses the worker: until both have been chosen.
        if set(where.values()) == {"w1", "w2"}:
            break
        brokers[identifier] = clients.join("Broker", identifier)
        where[identifier] = worker_of(server, brokers[identifier])
    assert set(where.values()) == {"w1", "w2"}
    exchange(controller, brokers, "before")
    (victim,) = {"w1", "w2"} - {home}
    server.signal_worker(victim, signal.SIGKILL)
    kept = {identifier: brokers[identifier] for identifier, worker in where.items() if worker == home}
    exchange(controller, kept, "after")
    for identifier, worker in where.items():
        if worker == victim:
            assert brokers[identifier].rest() == []
            # It can be had again at once, and not after a time-out.
            brokers[identifier] = clients.join("Broker", identifier)
    exchange(controller, brokers, "again")


def test_when_the_hub_of_workers_is_replaced_clients_are_told_to_come_again(
    workers: tuple[WorkersProcess, Clients],
) -> None:
    server, clients = workers
    controller, broker = clients.join("TLC", IDENTIFIERS[0]), clients.join("Broker", IDENTIFIERS[0])
    exchange(controller, {IDENTIFIERS[0]: broker}, "before")
    server.signal_worker("hub", signal.SIGKILL)
    assert told_to_come_again(controller)
    assert told_to_come_again(broker)
    controller, broker = clients.join("TLC", IDENTIFIERS[0]), clients.join("Broker", IDENTIFIERS[0])
    exchange(controller, {IDENTIFIERS[0]: broker}, "after")


# -- nodes over NATS ---------------------------------------------------------------------------------------------------


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, object]:
    """A configuration by dotted keys."""
    found: dict[str, object] = {}
    for key, value in table.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


class Nodes:
    """The hub and two edges of the page; a context manager."""

    def __init__(self, directory: Path) -> None:
        self.nats = NatsServer(directory)
        self.clients = Clients(directory)
        self.hub = ClusterNode("hub", directory, self._file(directory, "hub.toml"))
        self.edges = [ClusterNode(name, directory, self._file(directory, "edge.toml")) for name in ("e1", "e2")]

    def _file(self, directory: Path, name: str) -> str:
        """As on the page, but for ports, places, and times that are long enough for any machine."""
        found = re.search(rf"```toml {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
        assert found is not None
        values = flat(tomllib.loads(found[1]))
        values |= {key: 0 for key in values if key.endswith("port")} | CALM
        values |= {"cluster.nats": [self.nats.url], "stream.port": 0}
        if values["cluster.role"] == "hub":
            values |= {"tlex.store": self.clients.url, "server.data_dir": str(directory / "data")}
        return toml_of(values)

    def __enter__(self) -> Nodes:
        self.nats.__enter__()
        self.start_hub()
        for edge in self.edges:
            edge.start()
            edge.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.hang_up()
        for node in (self.hub, *self.edges):
            if node.is_running:
                node.end(signal.SIGKILL)
        self.nats.__exit__(None, None, None)

    def start_hub(self) -> None:
        self.hub.start()
        self.hub.wait_until_ready()
        self.clients.api = self.hub.ports["api"]

    def port(self, edge: int) -> int:
        found = re.search(r"tlex=127\.0\.0\.1:(\d+)", self.edges[edge].readies[-1])
        assert found is not None
        return int(found[1])

    def join(self, edge: int, type: str, identifier: str) -> Peer:
        return self.clients.connect(self.clients.session(type, identifier), self.port(edge))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path) as running:
        yield running


def test_the_page_starts_what_is_started_here() -> None:
    found = re.search(r"```sh nodes\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    nats, hub, edge = found[1].splitlines()
    assert nats == "nats-server --addr 127.0.0.1 --port 4222"
    assert hub == "penstock serve --config hub.toml"
    assert edge.startswith("penstock serve --config edge.toml")


def test_edges_over_nats_exchange_payloads_and_a_killed_one_harms_no_other(nodes: Nodes) -> None:
    clients, (a, b) = nodes.clients, IDENTIFIERS[:2]
    sessions = [clients.session("TLC", a), clients.session("TLC", b)]
    # Clients are told where each of the edges is.
    assert {each["details"]["listener"]["port"] for each in sessions} == {nodes.port(0), nodes.port(1)}
    first, second = [clients.connect(each, nodes.port(0)) for each in sessions]
    brokers = {a: nodes.join(1, "Broker", a), b: nodes.join(0, "Broker", b)}
    exchange(first, {a: brokers[a]}, "up and down")
    exchange(second, {b: brokers[b]}, "within one")
    # A token is used up in the whole cluster.
    assert clients.show(sessions[0], nodes.port(1)).rest() == []
    nodes.edges[0].end(signal.SIGKILL)
    assert first.rest() == second.rest() == []
    # As soon as the hub knows it, at the edge that is left.
    session = clients.session("TLC", a)
    assert session["details"]["listener"]["port"] == nodes.port(1)
    exchange(clients.connect(session), {a: brokers[a]}, "after")


def test_an_edge_that_was_frozen_relays_nothing_that_is_out_of_date(nodes: Nodes) -> None:
    a = IDENTIFIERS[0]
    frozen, broker = nodes.join(0, "TLC", a), nodes.join(1, "Broker", a)
    exchange(frozen, {a: broker}, "before")
    nodes.edges[0].send(signal.SIGSTOP)
    frozen.send(named(a, "out of date"))
    # The hub gives the controller to another when it has not heard of the edge for long enough.
    successor = nodes.join(1, "TLC", a)
    successor.send(named(a, "after"))
    assert broker.payload().data == b"after"
    nodes.edges[0].send(signal.SIGCONT)
    assert told_to_come_again(frozen)
    successor.send(named(a, "still"))
    assert broker.payload().data == b"still"


def test_without_nats_and_with_a_new_hub_clients_are_told_to_come_again(nodes: Nodes) -> None:
    a = IDENTIFIERS[0]
    controller, broker = nodes.join(0, "TLC", a), nodes.join(1, "Broker", a)
    exchange(controller, {a: broker}, "before")
    nodes.nats.kill()
    assert told_to_come_again(controller)
    assert told_to_come_again(broker)
    nodes.nats.start()
    controller, broker = nodes.join(0, "TLC", a), nodes.join(1, "Broker", a)
    exchange(controller, {a: broker}, "between")
    nodes.hub.end(signal.SIGKILL)
    nodes.start_hub()
    assert told_to_come_again(controller)
    assert told_to_come_again(broker)
    controller, broker = nodes.join(0, "TLC", a), nodes.join(1, "Broker", a)
    exchange(controller, {a: broker}, "after")
