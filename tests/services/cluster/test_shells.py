"""Hub and edge as services, each with a fabric that the test holds in its hand: greetings, adapter sets, versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import cast

import pytest

from penstock.adapters import AdapterSet
from penstock.adapters.loading import SetPlan
from penstock.cluster.ports import EdgeListener, HubListener
from penstock.config import Config, load
from penstock.kernel.kernel import Kernel
from penstock.kernel.session import Session
from penstock.log import configure
from penstock.monitor.figures import Family
from penstock.server import Server
from penstock.services.admin.logins import Administrator, AdminRole
from penstock.services.cluster import link as link_module
from penstock.services.cluster.administration import LEVELS
from penstock.services.cluster.hub import HubPart
from penstock.services.cluster.link import HubLinkService
from penstock.services.kernel import KernelService
from penstock.wire.fabric.administration import LevelsBody
from penstock.wire.fabric.calls import decode_body
from penstock.wire.fabric.messages import (
    VERSION,
    Call,
    FabricMessage,
    Hello,
    SharedSet,
    Stranger,
    Welcome,
    decode,
    encode,
)
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST
from tests.support.background import HandAdapter, HandMetadata

NODE = "server-w1"

# Seconds for what is done every second.
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub of these tests answers nothing."""
    monkeypatch.setattr(link_module, "LAST_CALLS", 0.01)


class FarHub:
    """An edge's fabric, and the hub behind it."""

    def __init__(self) -> None:
        self.edge: EdgeListener | None = None
        self.heard: list[FabricMessage] = []

    async def open(self, listener: EdgeListener) -> None:
        self.edge = listener
        listener.connected()

    def send(self, payload: bytes) -> None:
        self.heard.append(decode(payload))

    def figures(self) -> list[Family]:
        return []

    async def close(self) -> None:
        self.edge = None

    def say(self, message: FabricMessage) -> None:
        assert self.edge is not None
        self.edge.received(encode(message))

    def hellos(self) -> int:
        return len([each for each in self.heard if isinstance(each, Hello)])

    def welcome(self, epoch: int, *sets: SharedSet, version: int = VERSION) -> None:
        self.say(Welcome(version, "1.0", "hub", epoch, sets))


class FarEdges:
    """A hub's fabric, and the edges behind it."""

    def __init__(self) -> None:
        self.hub: HubListener | None = None
        self.heard: list[tuple[str, FabricMessage]] = []

    async def open(self, listener: HubListener, epoch: int) -> None:
        self.hub = listener

    def send(self, edge: str, payload: bytes) -> None:
        self.heard.append((edge, decode(payload)))

    def spread(self, edges: frozenset[str], payload: bytes) -> None:
        for edge in sorted(edges):
            self.send(edge, payload)

    def cut(self, edge: str) -> None:
        """Nothing is there to cut."""

    def figures(self) -> list[Family]:
        return []

    async def close(self) -> None:
        self.hub = None

    def say(self, edge: str, message: FabricMessage) -> None:
        assert self.hub is not None
        self.hub.received(edge, encode(message))

    def welcomes(self, edge: str) -> list[Welcome]:
        return [message for name, message in self.heard if name == edge and isinstance(message, Welcome)]


def on_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def main() -> None:
            await test()

        asyncio.run(main())

    return run


def shared(name: str, token: str, *data_adapters: str) -> SharedSet:
    return SharedSet(name, token, data_adapters)


async def opened(hub: FarHub, *sets: SharedSet) -> tuple[HubLinkService, Kernel]:
    kernel = KernelService(Config()).kernel
    link = HubLinkService(NODE, kernel, hub)
    opening = asyncio.create_task(link.open())
    # Its first turn.
    await asyncio.sleep(0)
    assert hub.hellos() == 1
    assert not opening.done()
    hub.welcome(1, *sets)
    await opening
    return link, kernel


def session_of(link: HubLinkService, kernel: Kernel, adapter_set: str) -> Session:
    handler = link.open_sets[adapter_set].handler
    session = kernel.open_session(TlcpCodec(NEWEST), handler)
    session.adapter_set = adapter_set
    return session


# -- an edge -----------------------------------------------------------------------------------------------------------


@on_loop
async def test_an_edge_greets_the_hub_and_serves_what_that_tells_of() -> None:
    hub = FarHub()
    link, kernel = await opened(hub, shared("A", "1", "X", "Y"), shared("B", "1"))
    assert hub.heard[0] == Hello(VERSION, cast(Hello, hub.heard[0]).release, NODE, cast(Hello, hub.heard[0]).run)
    assert link.open_sets.keys() == {"A", "B"}
    assert kernel.feeds.keys() == {("A", "X"), ("A", "Y")}
    await link.drain()


@on_loop
async def test_a_set_that_is_removed_or_made_anew_ends_its_sessions_and_no_others() -> None:
    hub = FarHub()
    link, kernel = await opened(hub, shared("A", "1", "X"), shared("B", "1", "X"), shared("C", "1", "X"))
    a, b, c = [session_of(link, kernel, name) for name in "ABC"]
    authority = link.open_sets["C"].authority
    hub.welcome(1, shared("A", "1", "X"), shared("C", "2", "X", "Y"))
    assert (a.closed, b.closed, c.closed) == (False, True, True)
    assert link.open_sets.keys() == {"A", "C"}
    assert link.open_sets["C"].authority is not authority
    assert kernel.feeds.keys() == {("A", "X"), ("C", "X"), ("C", "Y")}
    await link.drain()


@on_loop
async def test_sessions_go_on_with_another_hub_and_data_adapters_that_it_does_not_have_yet() -> None:
    hub = FarHub()
    link, kernel = await opened(hub, shared("A", "1", "X", "LATE"))
    session = session_of(link, kernel, "A")
    assert hub.edge is not None
    hub.edge.lost()
    assert link.degradations() == ["hub"]
    hub.edge.connected()
    assert hub.hellos() == 2
    hub.welcome(2, shared("A", "1", "X"))
    assert link.degradations() == []
    assert not session.closed
    assert kernel.feeds.keys() == {("A", "X"), ("A", "LATE")}
    await link.drain()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110, beats tell nobody
            await asyncio.sleep(0.01)


@on_loop
async def test_a_greeting_or_its_answer_that_is_lost_is_said_again_until_there_is_an_answer() -> None:
    hub = FarHub()
    link, _ = await opened(hub, shared("A", "1"))
    assert hub.edge is not None
    # The way to the hub is lost, and is there again; the hub has noticed nothing of it and never asks who this is.
    hub.edge.lost()
    hub.edge.connected()
    assert hub.hellos() == 2
    await until(lambda: hub.hellos() == 4)
    assert link.degradations() == ["hub"]
    hub.welcome(1, shared("A", "1"))
    assert link.degradations() == []
    beats = len(hub.heard)
    await until(lambda: len(hub.heard) > beats)
    assert hub.hellos() == 4
    await link.drain()


@on_loop
async def test_a_hub_that_answers_in_another_version_is_not_greeted_again() -> None:
    hub = FarHub()
    link, _ = await opened(hub, shared("A", "1"))
    assert hub.edge is not None
    hub.edge.lost()
    hub.edge.connected()
    hub.welcome(9, version=VERSION + 1)
    beats = len(hub.heard)
    await until(lambda: len(hub.heard) > beats)
    assert hub.hellos() == 2
    assert link.degradations() == ["hub"]
    await link.drain()


@on_loop
async def test_an_old_hub_is_not_listened_to() -> None:
    hub = FarHub()
    link, _ = await opened(hub, shared("A", "1"))
    hub.welcome(5, shared("A", "1"))
    hub.welcome(4)
    assert link.open_sets.keys() == {"A"}
    before = hub.hellos()
    hub.say(Stranger(4))
    assert hub.hellos() == before
    hub.say(Stranger(5))
    assert hub.hellos() == before + 1
    await link.drain()


@on_loop
async def test_a_hub_of_another_version_and_nonsense_change_nothing() -> None:
    hub = FarHub()
    link, _ = await opened(hub, shared("A", "1"))
    hub.welcome(9, version=VERSION + 1)
    assert hub.edge is not None
    hub.edge.received(b"\xc1 is no message")
    assert link.open_sets.keys() == {"A"}
    assert link.epoch == 1
    await link.drain()


# -- a hub -------------------------------------------------------------------------------------------------------------


async def hub_server(edges: FarEdges, *, tells_levels: bool = False) -> Server:
    configure("error", "text")
    config = load(None, {"stream.port": "0", "api.port": "0", "demo.enabled": False, "journal.enabled": False}).config
    server = Server(config, [given("TEST")], hub=HubPart(edges, 7, [], tells_levels=tells_levels))
    await server.start()
    return server


def told_levels(edges: FarEdges, edge: str) -> list[dict[str, str]]:
    calls = [message for name, message in edges.heard if name == edge and isinstance(message, Call)]
    return [decode_body(LevelsBody, call.body).levels for call in calls if call.method == LEVELS]


@on_loop
async def test_a_hub_tells_edges_of_other_machines_which_levels_of_the_log_are_set() -> None:
    edges = FarEdges()
    server = await hub_server(edges, tells_levels=True)
    who = Administrator("root", AdminRole.ADMIN, "127.0.0.1")
    edges.say("e1", Hello(VERSION, "1.0", "e1", "r1"))
    assert told_levels(edges, "e1") == [{}]
    # Until an edge has answered, what it is told next waits.
    server.steering.set_level(who, "penstock.wire", "debug")
    edges.say("e2", Hello(VERSION, "1.0", "e2", "r2"))
    assert told_levels(edges, "e2") == [{"penstock.wire": "debug"}]
    server.steering.set_level(who, "penstock.wire", None)
    edges.say("e3", Hello(VERSION, "1.0", "e3", "r3"))
    assert told_levels(edges, "e3") == [{}]
    await server.stop()


@on_loop
async def test_a_hub_of_workers_leaves_levels_to_their_supervisor() -> None:
    edges = FarEdges()
    server = await hub_server(edges)
    edges.say("e1", Hello(VERSION, "1.0", "e1", "r1"))
    assert told_levels(edges, "e1") == []
    await server.stop()


def given(name: str) -> AdapterSet:
    return AdapterSet(name, HandMetadata(), {"HAND": HandAdapter()})


@on_loop
async def test_a_hub_welcomes_edges_and_tells_them_of_sets_that_come() -> None:
    edges = FarEdges()
    server = await hub_server(edges)
    assert server.stream_ports == []
    edges.say("e1", Hello(VERSION, "1.0", "e1", "r1"))
    (welcome,) = edges.welcomes("e1")
    assert (welcome.version, welcome.epoch) == (VERSION, 7)
    assert [(each.name, each.data_adapters) for each in welcome.sets] == [("TEST", ("HAND",))]
    await server.sets.add(SetPlan(given("MORE")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    told = edges.welcomes("e1")[-1]
    assert [(each.name, each.data_adapters) for each in told.sets] == [("TEST", ("HAND",)), ("MORE", ("HAND",))]
    # The first is as it was, so its sessions go on.
    assert told.sets[0] == welcome.sets[0]
    await server.stop()


@on_loop
async def test_an_edge_of_another_version_learns_the_version_and_nothing_else() -> None:
    edges = FarEdges()
    server = await hub_server(edges)
    edges.say("old", Hello(VERSION - 1, "0.9", "old", "r1"))
    (welcome,) = edges.welcomes("old")
    assert (welcome.version, welcome.sets) == (VERSION, ())
    assert edges.hub is not None
    edges.hub.received("old", b"nonsense")
    edges.hub.lost("old")
    edges.hub.lost("nobody")
    await server.stop()
