from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import nkeys
import pytest
import uvloop

from penstock.cluster import nats, nats_link
from penstock.cluster.audiences import MAX_AUDIENCES
from penstock.cluster.envelope import HubNews, encode_news
from penstock.cluster.nats import NatsEdge, NatsHub
from penstock.config.schema.cluster import ClusterSection, ClusterTlsSection
from tests.support.cut_proxy import CutProxy
from tests.support.nats_server import NatsServer
from tests.support.tls import CERTIFICATES

# Seconds: many times what anything takes here.
PATIENCE = 30.0
BOTH = frozenset({"one.run", "two.run"})


class Hub:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.received_payloads: list[tuple[str, bytes]] = []
        self.lost_edges: list[str] = []

    def received(self, edge: str, payload: bytes) -> None:
        self.received_payloads.append((edge, payload))

    def lost(self, edge: str) -> None:
        self.lost_edges.append(edge)


class Edge:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.connections = 0
        self.losses = 0

    def connected(self) -> None:
        self.connections += 1

    def received(self, payload: bytes) -> None:
        self.payloads.append(payload)

    def lost(self) -> None:
        self.losses += 1


async def until(condition: Callable[[], object], again: Callable[[], object] | None = None) -> None:
    """`again` is done each time before the condition is looked at."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if again is not None:
                again()
            if condition():
                return
            await asyncio.sleep(0.01)


class CountingHub(NatsHub):
    """It counts payloads that it has sent to one edge, and to a whole audience."""

    to_edges = 0
    to_audiences = 0

    @property
    def audience_count(self) -> int:
        return len(self._audiences)

    def _send(self, subject: str, payload: bytes) -> None:
        if subject.startswith(self._edge_base):
            self.to_edges += 1
        else:
            self.to_audiences += 1
        super()._send(subject, payload)


class Cluster:
    """A hub and two edges; closed at the end whatever has happened."""

    def __init__(self, section: ClusterSection, edges: ClusterSection | None = None) -> None:
        self.section = section
        self.superseded: list[tuple[str, int]] = []
        self.owns = True
        self.hub = Hub()
        self.hub_fabric = self.another_hub("hub", "run")
        self.edges = [Edge(), Edge()]
        self.edge_fabrics = [NatsEdge(edges or section, name, "run") for name in ("one", "two")]

    def another_hub(self, node: str, run: str) -> CountingHub:
        return CountingHub(
            self.section,
            node,
            run,
            is_owner=lambda: self.owns,
            superseded=lambda node, epoch: self.superseded.append((node, epoch)),
        )

    async def __aenter__(self) -> Cluster:
        await self.hub_fabric.open(self.hub, 10)
        for fabric, edge in zip(self.edge_fabrics, self.edges, strict=True):
            await fabric.open(edge)
        await until(lambda: all(edge.connections for edge in self.edges))
        return self

    async def __aexit__(self, *_: object) -> None:
        for fabric in self.edge_fabrics:
            await fabric.close()
        await self.hub_fabric.close()

    async def form_audience(self) -> None:
        """Until NATS copies what is for both."""
        before = self.hub_fabric.to_audiences
        await until(
            lambda: self.hub_fabric.to_audiences > before, lambda: self.hub_fabric.spread(BOTH, b"are you there?")
        )
        await self.settle()

    async def settle(self) -> None:
        """Until all that was sent so far has come, then forget it."""
        for number, edge in enumerate(self.edges):
            mark = os.urandom(8)
            self.hub_fabric.send(f"{('one', 'two')[number]}.run", mark)
            await until(lambda mark=mark, edge=edge: mark in edge.payloads)  # type: ignore[misc]
            edge.payloads.clear()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path) as running:
        yield running


def section_of(*urls: str, **others: Any) -> ClusterSection:
    return ClusterSection(role="hub", nats=urls, **others)


def run(scenario: Awaitable[None]) -> None:
    async def whole() -> None:
        await scenario

    uvloop.run(whole())


# -- payloads ---------------------------------------------------------------------------------------------------------


def test_payloads_go_both_ways_in_order(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            sent = [str(number).encode() for number in range(500)]
            for payload in sent:
                cluster.edge_fabrics[0].send(payload)
                cluster.hub_fabric.send("two.run", payload)
            await until(lambda: len(cluster.hub.received_payloads) == len(cluster.edges[1].payloads) == len(sent))
            assert cluster.hub.received_payloads == [("one.run", payload) for payload in sent]
            assert cluster.edges[1].payloads == sent
            assert cluster.edges[0].payloads == []

    run(scenario())


def test_what_is_for_several_edges_is_sent_once_as_soon_as_they_are_an_audience(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            cluster.hub_fabric.spread(BOTH, b"before")
            assert (cluster.hub_fabric.to_edges, cluster.hub_fabric.to_audiences) == (2, 0)
            await until(lambda: all(edge.payloads == [b"before"] for edge in cluster.edges))
            await cluster.form_audience()
            direct = cluster.hub_fabric.to_edges
            cluster.hub_fabric.spread(BOTH, b"after")
            await until(lambda: all(edge.payloads == [b"after"] for edge in cluster.edges))
            assert cluster.hub_fabric.to_edges == direct

    run(scenario())


def test_the_order_holds_between_what_is_for_one_edge_and_what_is_for_all(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            await cluster.form_audience()
            sent = []
            for number in range(300):
                sent += [b"all %d" % number, b"one %d" % number]
                cluster.hub_fabric.spread(BOTH, sent[-2])
                cluster.hub_fabric.send("one.run", sent[-1])
            await until(lambda: len(cluster.edges[0].payloads) == len(sent))
            assert cluster.edges[0].payloads == sent

    run(scenario())


def test_an_edge_gets_nothing_that_is_for_others(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            third, fabric = Edge(), NatsEdge(cluster.section, "three", "run")
            await fabric.open(third)
            await until(lambda: third.connections)
            await cluster.form_audience()
            cluster.hub_fabric.spread(BOTH, b"for the others")
            await until(lambda: all(edge.payloads == [b"for the others"] for edge in cluster.edges))
            cluster.hub_fabric.send("three.run", b"for this one")
            await until(lambda: third.payloads)
            assert third.payloads == [b"for this one"]
            await fabric.close()

    run(scenario())


def test_payloads_larger_than_the_server_takes_are_split_and_joined(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        async with Cluster(section_of(url)) as cluster:
            large = os.urandom(300_000)
            cluster.hub_fabric.send("one.run", large)
            cluster.edge_fabrics[1].send(large)
            await until(lambda: cluster.edges[0].payloads and cluster.hub.received_payloads)
            assert cluster.edges[0].payloads == [large]
            assert cluster.hub.received_payloads == [("two.run", large)]

    with NatsServer(tmp_path, "max_payload: 2048") as small:
        run(scenario(small.url))


def test_more_sets_of_edges_than_there_may_be_audiences_are_sent_to_one_by_one(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            for number in range(MAX_AUDIENCES):
                cluster.hub_fabric.spread(frozenset({"nobody.1", f"nobody.{number}.2"}), b"")
            assert cluster.hub_fabric.audience_count == MAX_AUDIENCES
            cluster.hub_fabric.spread(BOTH, b"even so")
            await until(lambda: all(edge.payloads == [b"even so"] for edge in cluster.edges))
            assert cluster.hub_fabric.audience_count == MAX_AUDIENCES

    run(scenario())


def test_clusters_of_other_names_hear_nothing(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)), Cluster(section_of(server.url, name="other")) as other:
            other.hub_fabric.send("one.run", b"inside")
            await until(lambda: other.edges[0].payloads)
            assert not other.superseded

    run(scenario())


def test_what_is_no_envelope_is_counted_and_nothing_else(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            stranger = cluster.edge_fabrics[0].link
            stranger.send("penstock.penstock.hub", b"", "penstock.penstock.edge.one.run")
            stranger.send("penstock.penstock.hub", b"\x01" + bytes(8))
            stranger.send("penstock.penstock.edge.two.run", b"\xff" * 30)
            stranger.send("penstock.penstock.edge.two.run", b"\x03" + b"\xff" * 20)
            await until(lambda: cluster.hub_fabric.malformed == 2 and cluster.edge_fabrics[1].malformed == 2)
            await cluster.settle()

    run(scenario())


# -- who is there -----------------------------------------------------------------------------------------------------


def test_an_edge_that_leaves_is_lost_at_once_and_so_is_a_hub(server: NatsServer) -> None:
    async def scenario() -> None:
        cluster = Cluster(section_of(server.url))
        async with cluster:
            await cluster.form_audience()
            await cluster.edge_fabrics[0].close()
            await until(lambda: cluster.hub.lost_edges == ["one.run"])
            assert cluster.hub_fabric.audience_count == 0
            await cluster.hub_fabric.close()
            await until(lambda: cluster.edges[1].losses)

    run(scenario())


def test_an_edge_that_is_cut_begins_again(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            cluster.hub_fabric.cut("one.run")
            await until(lambda: (cluster.edges[0].losses, cluster.edges[0].connections) == (1, 2))
            assert cluster.edges[1].connections == 1

    run(scenario())


def test_the_newer_of_two_hubs_is_followed_and_the_older_is_told(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            newer, fabric = Hub(), cluster.another_hub("hub", "another run")
            await fabric.open(newer, 11)
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            await until(lambda: cluster.superseded == [("hub", 11)])
            # The older one does not know better, and nobody listens.
            cluster.hub_fabric.send("one.run", b"old")
            cluster.edge_fabrics[0].send(b"question")
            fabric.send("one.run", b"new")
            await until(lambda: cluster.edges[0].payloads and newer.received_payloads)
            await until(lambda: cluster.edge_fabrics[0].outdated)
            assert cluster.edges[0].payloads == [b"new"]
            assert cluster.hub.received_payloads == []
            await fabric.close()

    run(scenario())


def test_a_hub_that_is_not_the_owner_any_more_says_and_hears_nothing(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            cluster.owns = False
            cluster.hub_fabric.send("one.run", b"late")
            cluster.edge_fabrics[0].send(b"question")
            cluster.owns = True
            cluster.edge_fabrics[0].send(b"again")
            cluster.hub_fabric.send("one.run", b"in time")
            await until(lambda: cluster.edges[0].payloads)
            assert cluster.edges[0].payloads == [b"in time"]

    run(scenario())


def test_a_hub_of_another_version_is_not_followed(server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            foreign = encode_news(99, HubNews(999, "9.9.9", "hub", "foreign"))
            cluster.hub_fabric.link.send("penstock.penstock.news", foreign)
            await until(lambda: "the hub runs an incompatible version" in caplog.text)
            await cluster.settle()
            assert [edge.connections for edge in cluster.edges] == [1, 1]

    run(scenario())


def test_a_silent_hub_is_lost_and_found_again(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(nats, "NEWS_SECONDS", 0.1)

    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            cluster.owns = False
            await until(lambda: all(edge.losses == 1 for edge in cluster.edges))
            cluster.owns = True
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))

    run(scenario())


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_server_that_was_killed_and_started_again_is_found_by_all(server: NatsServer) -> None:
    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            await cluster.form_audience()
            server.kill()
            await until(lambda: all(edge.losses == 1 for edge in cluster.edges))
            cluster.hub_fabric.send("one.run", b"nobody hears this")
            await asyncio.to_thread(server.start)
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            await cluster.settle()
            # Subscriptions are there again, those of audiences as well.
            cluster.hub_fabric.spread(BOTH, b"after")
            await until(lambda: all(edge.payloads == [b"after"] for edge in cluster.edges))

    run(scenario())


def test_another_server_is_used_when_the_first_is_gone(tmp_path: Path) -> None:
    routes = "cluster: {{ name: c, listen: 127.0.0.1:-1, routes: [{}] }}"

    async def scenario(first: NatsServer, second: NatsServer) -> None:
        async with Cluster(section_of(first.url, second.url)) as cluster:
            first.kill()
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            await cluster.settle()

    with NatsServer(tmp_path, routes.format("")) as first, NatsServer(tmp_path, routes.format("")) as second:
        run(scenario(first, second))


def test_a_connection_that_is_cut_comes_back(server: NatsServer) -> None:
    async def scenario(proxy: CutProxy) -> None:
        section = section_of(server.url)
        async with Cluster(section, section_of(f"nats://127.0.0.1:{proxy.port}")) as cluster:
            await cluster.form_audience()
            assert await asyncio.to_thread(proxy.cut) == 2
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            cluster.hub_fabric.spread(BOTH, b"after")
            await until(lambda: all(edge.payloads[-1:] == [b"after"] for edge in cluster.edges))

    with CutProxy("127.0.0.1", server.port) as proxy:
        run(scenario(proxy))


def test_a_network_that_goes_silent_is_noticed(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_link, "ALIVE_SECONDS", 1)
    monkeypatch.setattr(nats_link, "QUESTION_PAUSE", 0.1)

    async def scenario(proxy: CutProxy) -> None:
        async with Cluster(section_of(server.url), section_of(f"nats://127.0.0.1:{proxy.port}")) as cluster:
            await asyncio.to_thread(proxy.stall)
            # Enough to fill all buffers on the way: the client may not wait for them to be emptied.
            for _ in range(50):
                cluster.edge_fabrics[0].send(bytes(1_000_000))
            await until(lambda: all(edge.losses == 1 for edge in cluster.edges))
            await asyncio.to_thread(proxy.cut)
            await asyncio.to_thread(proxy.resume)
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            await cluster.settle()

    with CutProxy("127.0.0.1", server.port) as proxy:
        run(scenario(proxy))


async def narrow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """A line of about a megabyte a second from the server, behind which its answers queue up."""
    server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)

    async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter, pause: float) -> None:
        while data := await source.read(50_000):
            target.write(data)
            await target.drain()
            await asyncio.sleep(pause)

    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(forward(reader, server_writer, 0.0))]
        ends.append(group.create_task(forward(server_reader, writer, 0.05)))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        server_writer.close()
        writer.close()
        for end in ends:
            end.cancel()


def test_a_server_whose_answer_waits_behind_many_events_is_not_left(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_link, "ALIVE_SECONDS", 2)
    monkeypatch.setattr(nats_link, "QUESTION_PAUSE", 0.1)
    monkeypatch.setattr(nats, "SILENCE_SECONDS", 2)

    async def scenario() -> None:
        line = await asyncio.start_server(lambda reader, writer: narrow(reader, writer, server.port), "127.0.0.1", 0)
        port = line.sockets[0].getsockname()[1]
        try:
            async with Cluster(section_of(server.url), section_of(f"nats://127.0.0.1:{port}")) as cluster:
                edge = cluster.edges[0]
                edge.payloads.clear()
                for _ in range(160):
                    cluster.hub_fabric.send("one.run", bytes(50_000))
                await until(lambda: len(edge.payloads) == 160)
                assert (edge.losses, edge.connections) == (0, 1)
        finally:
            line.close()

    run(scenario())


def test_a_frozen_server_is_left_and_found_again(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_link, "ALIVE_SECONDS", 1)
    monkeypatch.setattr(nats_link, "CONNECT_SECONDS", 1)

    async def scenario() -> None:
        async with Cluster(section_of(server.url)) as cluster:
            server.freeze()
            await until(lambda: all(edge.losses == 1 for edge in cluster.edges))
            server.resume()
            await until(lambda: all(edge.connections == 2 for edge in cluster.edges))
            await cluster.settle()

    run(scenario())


def test_what_cannot_be_sent_in_time_is_dropped_and_not_kept(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nats_link, "MAX_UNSENT", 5_000_000)

    async def scenario(proxy: CutProxy) -> None:
        slow = section_of(f"nats://127.0.0.1:{proxy.port}")
        async with Cluster(slow, section_of(server.url)) as cluster:
            await asyncio.to_thread(proxy.stall)
            for _ in range(100):
                cluster.hub_fabric.send("one.run", bytes(900_000))
                assert cluster.hub_fabric.link.unsent_bytes <= 5_000_000
            assert cluster.hub_fabric.link.dropped
            assert "NATS is too slow" in caplog.text
            await asyncio.to_thread(proxy.resume)
            # What follows goes through.
            await until(
                lambda: b"after" in cluster.edges[1].payloads, lambda: cluster.hub_fabric.send("two.run", b"after")
            )

    with CutProxy("127.0.0.1", server.port) as proxy:
        run(scenario(proxy))


def test_a_hub_without_a_server_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats, "OPEN_SECONDS", 0.3)

    async def scenario() -> None:
        fabric = NatsHub(section_of("nats://127.0.0.1:1"), "hub", "run")
        with pytest.raises(OSError, match="no NATS server answers"):
            await fabric.open(Hub(), 1)

    run(scenario())


def test_a_hub_with_a_lease_waits_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats, "OPEN_SECONDS", 0.3)
    server = NatsServer(tmp_path)

    async def scenario() -> None:
        fabric = NatsHub(section_of(server.url), "hub", "run", is_leased=True)
        opening = asyncio.ensure_future(fabric.open(Hub(), 1))
        done, _ = await asyncio.wait([opening], timeout=1.0)
        assert not done
        await asyncio.to_thread(server.start)
        await opening
        await fabric.close()
        # One that has lost its lease meanwhile is told to stop, and does.
        await asyncio.to_thread(server.kill)
        other = NatsHub(section_of(server.url), "hub", "run", is_leased=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await other.open(Hub(), 1)

    run(scenario())


def test_why_there_is_no_connection_is_said_once_of_each_server(caplog: pytest.LogCaptureFixture) -> None:
    servers = ["nats://127.0.0.1:9", "nats://localhost:9", "nats://nowhere.invalid:4222"]

    async def scenario() -> None:
        edge, fabric = Edge(), NatsEdge(section_of(*servers), "one", "run")
        await fabric.open(edge)
        await until(lambda: attempts.count(servers[-1]) > 2)
        await fabric.close()

    attempts: list[str] = []
    connect = nats_link.NatsLink._connect

    async def counted(link: nats_link.NatsLink, server: str) -> Any:
        attempts.append(server)
        return await connect(link, server)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nats_link.NatsLink, "_connect", counted)
        patch.setattr(nats_link, "LONGEST_PAUSE", 0.1)
        run(scenario())
    told = [record.fields for record in caplog.records if record.getMessage() == "no connection to NATS"]  # type: ignore[attr-defined]
    assert [each["server"] for each in told] == servers
    nothing = "nothing listens there (connection refused)"
    assert [each["reason"] for each in told[:2]] == [nothing, nothing]
    assert told[2]["reason"].startswith("the host name cannot be resolved: ")


def test_without_the_extra_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.cluster.nats_client", raising=False)
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    with pytest.raises(OSError, match=r"the extra cluster is not installed: pip install 'penstock\[cluster\]'"):
        run(NatsEdge(section_of("nats://127.0.0.1:1"), "one", "run").open(Edge()))


# -- TLS and credentials ----------------------------------------------------------------------------------------------

TLS_SETTINGS = f"""
tls: {{ cert_file: "{CERTIFICATES / "certificate.pem"}", key_file: "{CERTIFICATES / "private_key.pem"}" }}
"""
TRUSTED = ClusterTlsSection(trusted_ca=str(CERTIFICATES / "certificate.pem"), server_name="localhost")


def works(section: ClusterSection) -> None:
    async def scenario() -> None:
        async with Cluster(section) as cluster:
            await cluster.settle()

    run(scenario())


def is_refused(section: ClusterSection, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        edge, fabric = Edge(), NatsEdge(section, "one", "run")
        await fabric.open(edge)
        await until(lambda: "no connection to NATS" in caplog.text)
        assert not edge.connections
        await fabric.close()

    run(scenario())
    assert reason in " ".join(str(record.__dict__) for record in caplog.records)
    assert "s3cret" not in " ".join(str(record.__dict__) for record in caplog.records)


def test_a_user_with_a_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with NatsServer(tmp_path, 'authorization: { user: "node", password: "s3cret" }') as server:
        works(section_of(server.url, user="node", password="s3cret"))
        is_refused(section_of(server.url, user="node", password="s3cret2"), "Authorization Violation", caplog)


def test_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with NatsServer(tmp_path, 'authorization: { token: "s3cret" }') as server:
        works(section_of(server.url, token="s3cret"))
        is_refused(section_of(server.url), "Authorization Violation", caplog)


def test_an_nkey(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seeds = []
    for _ in range(2):
        seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        seeds.append(seed)
    public = nkeys.from_seed(bytearray(seeds[0])).public_key.decode()
    right, wrong, none = tmp_path / "right", tmp_path / "wrong", tmp_path / "none"
    right.write_bytes(seeds[0] + b"\n")
    wrong.write_bytes(seeds[1])
    none.write_text("what is this")
    with NatsServer(tmp_path, f"authorization: {{ users: [ {{ nkey: {public} }} ] }}") as server:
        works(section_of(server.url, nkey_file=str(right)))
        is_refused(section_of(server.url, nkey_file=str(wrong)), "Authorization Violation", caplog)
        with pytest.raises(OSError, match=r'cluster\.nkey_file = ".*": expected a file that contains nothing but'):
            run(NatsEdge(section_of(server.url, nkey_file=str(none)), "one", "run").open(Edge()))


def test_a_credentials_file(tmp_path: Path) -> None:
    operator, account, user = (
        _key(kind) for kind in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    )
    operator_jwt = _jwt(operator, operator, {"type": "operator", "version": 2})
    account_jwt = _jwt(operator, account, {"type": "account", "version": 2, "limits": _UNLIMITED})
    user_jwt = _jwt(account, user, {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1})
    file = tmp_path / "node.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user[0].decode()}\n------END USER NKEY SEED------\n"
    )
    settings = f"operator: {operator_jwt}\nresolver: MEMORY\nresolver_preload: {{ {account[1]}: {account_jwt} }}\n"
    with NatsServer(tmp_path, settings) as server:
        works(section_of(server.url, credentials_file=str(file)))


def test_a_file_that_has_no_credentials_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "node.creds"
    file.write_text("nothing of the kind")
    section = section_of("nats://127.0.0.1:1", credentials_file=str(file))
    with pytest.raises(OSError, match=r'cluster\.credentials_file = ".*": expected a NATS credentials file'):
        run(NatsEdge(section, "one", "run").open(Edge()))


def test_tls_with_an_authority_of_ones_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with NatsServer(tmp_path, TLS_SETTINGS) as server:
        works(section_of(server.url, tls=TRUSTED))
        is_refused(section_of(server.url.replace("nats:", "tls:")), "its certificate is not accepted: ", caplog)


def test_tls_with_a_certificate_of_the_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = TLS_SETTINGS.replace("}", f', ca_file: "{CERTIFICATES / "certificate.pem"}", verify: true }}')
    shown = msgspec.structs.replace(
        TRUSTED, certificate=str(CERTIFICATES / "certificate.pem"), private_key=str(CERTIFICATES / "private_key.pem")
    )
    with NatsServer(tmp_path, settings) as server:
        works(section_of(server.url, tls=shown))
        is_refused(section_of(server.url, tls=TRUSTED), "", caplog)


def test_a_server_that_does_not_insist_on_tls_is_spoken_to_with_it(tmp_path: Path) -> None:
    with NatsServer(tmp_path, TLS_SETTINGS + "allow_non_tls: true") as server:
        works(section_of(server.url, tls=TRUSTED))


def test_no_password_goes_to_a_server_without_tls_if_tls_is_wanted(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    is_refused(section_of(server.url, user="node", password="s3cret", tls=TRUSTED), "does not support TLS", caplog)


_UNLIMITED = {
    "subs": -1,
    "conn": -1,
    "leaf": -1,
    "imports": -1,
    "exports": -1,
    "data": -1,
    "payload": -1,
    "wildcards": True,
}


def _key(prefix: int) -> tuple[bytes, str]:
    seed = bytes(nkeys.encode_seed(os.urandom(32), prefix))
    return seed, nkeys.from_seed(bytearray(seed)).public_key.decode()


def _jwt(issuer: tuple[bytes, str], subject: tuple[bytes, str], claims: dict[str, object]) -> str:
    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = encoded(msgspec.json.encode({"typ": "JWT", "alg": "ed25519-nkey"}))
    body = {"jti": "1", "iat": 1, "iss": issuer[1], "sub": subject[1], "name": "n", "nats": claims}
    signed = f"{head}.{encoded(msgspec.json.encode(body))}"
    signature = nkeys.from_seed(bytearray(issuer[0])).sign(signed.encode())
    return f"{signed}.{encoded(signature)}"


def test_the_context_of_tls_checks_names() -> None:
    assert nats_link.tls_context(section_of("tls://host:4222", tls=TRUSTED)).verify_mode is ssl.CERT_REQUIRED
