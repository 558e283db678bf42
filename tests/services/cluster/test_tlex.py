"""TLEX with a hub and two edges on real sockets: connections are at edges, everything else is at the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.doors.tlex import annex, nodes
from penstock.exchange.authorization import Role
from penstock.wire.tlex.datagrams import Bye, Reconnect, Token
from penstock.wire.tlex.frames import PREAMBLE
from tests.doors.tlex.site import PATIENCE, Peer, Site, named, plain
from tests.doors.tlex.tls import certified, trusting
from tests.services.cluster.site import ClusterSite
from tests.services.cluster.test_roll import metrics

pytestmark = pytest.mark.timeout(120)

# Peers of tests keep nothing alive.
SETTINGS = {
    "tlex.enabled": True,
    "tlex.port": 0,
    "tlex.tlc.keep_alive_millis": 60_000,
    "tlex.broker.keep_alive_millis": 60_000,
    "tlex.reconnect_millis": 500,
}


class TlexCluster(Site):
    """Its server is a hub with the edges w1 and w2, which have ports of their own."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        url = f"sqlite:///{directory / 'tlex.db'}"
        self.cluster = ClusterSite(directory, {**SETTINGS, "tlex.store": url, **(overrides or {})})
        super().__init__(directory, url=url, background=self.cluster)

    def port_of(self, edge: str) -> int:
        found = self.cluster.edges[edge].tlex.annex
        assert found is not None
        return found.ports.port

    def edge_of(self, session: dict[str, Any]) -> str:
        """The one that a client is told to connect to."""
        (found,) = [name for name in self.cluster.edges if self.port_of(name) == port(session)]
        return found

    def join_at(self, edge: str, type: str, *identifiers: str, **more: str) -> Peer:
        """Any edge takes any token."""
        session = self.session(type, *identifiers, **more)
        session["details"]["listener"]["port"] = self.port_of(edge)
        return self.connect(session)

    def offers(self) -> int:
        return self.background.call(lambda: len(self.door.places._offers))


def port(session: dict[str, Any]) -> int:
    return int(session["details"]["listener"]["port"])


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TlexCluster]:
    running = TlexCluster(tmp_path)
    with running:
        until(lambda: running.offers() == 2)
        yield running


def test_clients_are_told_the_ports_of_edges_in_turn(site: TlexCluster) -> None:
    a, b = site.tlcs(2)
    sessions = [site.session("TLC", a), site.session("TLC", b)]
    assert {site.edge_of(each) for each in sessions} == {"w1", "w2"}
    for each in sessions:
        site.connect(each)
    listed = site.ask("GET", "/sessions", Role.TLC_ADMIN).json()
    assert [port(each) for each in listed] == [port(each) for each in sessions]


def test_payloads_go_from_edge_to_edge_in_both_directions(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    controller = site.join_at("w1", "TLC", a, protocol="TCPStreaming_Singleplex")
    broker = site.join_at("w2", "Broker", a)
    monitor = site.join_at("w1", "Monitor", a)
    controller.send(*[plain(f"up {number}") for number in range(50)])
    assert [broker.payload().data for _ in range(50)] == [b"up %d" % number for number in range(50)]
    broker.send(named(a, "down"))
    assert controller.payload().data == b"down"
    assert [monitor.payload().data.rpartition(b"\x02")[2] for _ in range(51)][-1] == b"down"


def test_a_token_is_used_once_in_the_whole_cluster(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    first = site.join_at("w1", "TLC", a)
    second = site.dial(site.port_of("w2"))
    second.send_bytes(PREAMBLE + Token(first.token).encode())
    assert second.rest() == []
    assert site.post("TLC", a).status_code == 400
    first.close()
    until(lambda: site.post("TLC", a).status_code == 200)


def test_controllers_of_a_live_session_are_changed_by_the_hub(site: TlexCluster) -> None:
    a, b = site.tlcs(2)
    controller, broker = site.join_at("w1", "TLC", a, b), site.join_at("w2", "Broker", a)
    details = {"securityMode": "NONE", "tlcIdentifiers": [b]}
    assert site.ask("PUT", f"/sessions/{broker.token}", Role.BROKER_ADMIN, details).status_code == 200
    controller.send(named(a, "no"), named(b, "yes"))
    assert broker.payload().data == b"yes"


def test_the_hub_ends_sessions_and_asks_peers_to_reconnect(site: TlexCluster) -> None:
    a, b = site.tlcs(2)
    deleted, asked = site.join_at("w1", "TLC", a), site.join_at("w2", "TLC", b)
    assert site.ask("DELETE", f"/sessions/{deleted.token}", Role.TLC_ADMIN).status_code == 204
    assert deleted.bye() == "session deleted"
    shown = site.cluster.ask("GET", "/tlex/sessions").body["sessions"]
    assert [each["state"] for each in shown] == ["live"]
    answer = site.cluster.ask("POST", f"/tlex/sessions/{shown[0]['id']}/reconnect")
    assert answer.body["state"] == "leaving"
    asked.expect(Reconnect)
    site.join_at("w1", "TLC", b)


def test_an_edge_that_stops_sends_its_peers_to_another(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    controller, broker = site.join_at("w1", "TLC", a), site.join_at("w2", "Broker", a)
    stopping = asyncio.run_coroutine_threadsafe(site.cluster.stop_edge("w1"), site.cluster._loop)
    controller.expect(Reconnect)
    session = site.session("TLC", a)
    assert site.edge_of(session) == "w2"
    successor = site.connect(session)
    assert controller.bye() == "normal shutdown"
    stopping.result(PATIENCE)
    successor.send(named(a, "on"))
    assert broker.payload().data == b"on"


def test_without_edges_nobody_can_connect(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    for name in ("w1", "w2"):
        site.cluster.run(site.cluster.stop_edge(name))
    until(lambda: site.offers() == 0)
    answer = site.post("TLC", a)
    assert answer.status_code == 503
    assert "No node takes connections" in answer.json()["message"]
    site.cluster.run(site.cluster.start_edge("w1"))
    until(lambda: site.post("TLC", a).status_code == 200)


def test_tls_is_offered_only_if_an_edge_has_it(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    answer = site.post("TLC", a, security="TLSv1.2")
    assert answer.status_code == 400
    assert "is not offered by this server" in answer.json()["message"]


def test_tls_ends_at_the_edge_and_clients_are_told_public_addresses(tmp_path: Path) -> None:
    announced = {"tlex.announced_host": "n1.example", "tlex.announced_port": 40_344, "tlex.announced_tls_port": 40_345}
    site = TlexCluster(tmp_path, {**certified(tmp_path), "tlex.tls_port": 0, **announced})
    with site:
        until(lambda: site.offers() == 2)
        (a,) = site.tlcs(1)
        session = site.session("TLC", a, security="TLSv1.2")
        listener = session["details"]["listener"]
        assert (listener["host"], listener["port"]) == ("n1.example", 40_345)
        edge = site.cluster.edges["w2"].tlex.annex
        assert edge is not None
        listener["port"] = edge.ports.tls_port
        controller = site.connect(session, trusting(tmp_path))
        broker = site.join_at("w1", "Broker", a)
        controller.send(named(a, "secret"))
        assert broker.payload().data == b"secret"


def test_an_edge_that_does_not_keep_up_loses_its_sessions_and_harms_no_other(
    site: TlexCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = site.tlcs(1)
    controller = site.join_at("w1", "TLC", a)
    stalled, other = site.join_at("w2", "Broker", a, account="one"), site.join_at("w1", "Broker", a, account="two")
    monkeypatch.setattr(nodes, "MAX_UNCONFIRMED", 2_000)
    controller.send(named(a, "x" * 3_000))
    # Both edges were sent more than they may be.
    for peer in (stalled, other, controller):
        *_, asked, last = peer.rest()
        assert isinstance(asked, Reconnect)
        assert last == Bye("node cut off")
    monkeypatch.undo()
    again, broker = site.join_at("w1", "TLC", a), site.join_at("w2", "Broker", a, account="one")
    again.send(named(a, "on"))
    assert broker.payload().data == b"on"


def test_a_hub_that_does_not_keep_up_ends_the_sessions_of_the_edge(
    site: TlexCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = site.tlcs(1)
    controller = site.join_at("w1", "TLC", a)
    monkeypatch.setattr(annex, "MAX_UNCONFIRMED", 2_000)
    controller.send(named(a, "x" * 3_000))
    *_, asked, last = controller.rest()
    assert isinstance(asked, Reconnect)
    assert last == Bye("node cut off")
    until(lambda: site.post("TLC", a).status_code == 200)


def test_figures_of_edges_and_hub_are_one_exposition(site: TlexCluster) -> None:
    (a,) = site.tlcs(1)
    controller, broker = site.join_at("w1", "TLC", a), site.join_at("w2", "Broker", a)
    stranger = site.dial(site.port_of("w2"))
    stranger.send_bytes(PREAMBLE + Token("wrong").encode())
    assert stranger.rest() == []
    controller.send(named(a, "x"))
    assert broker.payload().data == b"x"

    def figures() -> str:
        site.cluster.sample()
        return metrics(site.cluster)

    # What edges have counted the hub knows within a second.
    until(lambda: 'penstock_tlex_payloads_sent_total{worker="hub"} 1' in figures())
    found = figures()
    assert 'penstock_tlex_sessions{type="Broker",worker="hub"} 1' in found
    assert 'penstock_tlex_turned_away_total{worker="w2"} 1' in found
