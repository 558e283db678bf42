"""The TLEX hub: payloads of many controllers to one broker, and many controllers that only keep themselves alive.

A server process with all that belongs to it: sessions asked for by REST, limits, accounting, queues. Beside it a bare
relay of bytes (`rig.tlex_relay`). The load (`rig.tlex_peers`) checks that every payload came, once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rig.child import Child, ChildError, penstock
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from bench.rig.tlex_peers import MAX_CONTROLLERS, SIZE, Bursts, Peer, Taker
from bench.rig.tlex_relay import BROKER, CONTROLLER
from penstock.exchange.authorization import Role
from penstock.store.store import Store
from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME, Token
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import TlcType

ABOUT = "the TLEX hub at 100,000 payloads a second, as fast as it can, and with idle controllers, beside a bare relay"

KEEP_ALIVE_SECONDS = 2.0

# Groups of controllers that send one after the other: real ones do not all speak at once.
GROUPS = 10

# Seconds without any payload, while some are under way: then they are lost.
PATIENCE = 10.0

# Nobody is to be sent away for the load, and nobody in the long queue at the door.
SETTINGS = (
    "demo.enabled = false",
    "[tlex]",
    "enabled = true",
    "port = 0",
    "token_millis = 120000",
    "handshake_millis = 60000",
    "max_strangers = 10000",
    "[tlex.tlc]",
    "payloads_per_second = 1000000",
    "kilobytes_per_second = 1000000",
    "[tlex.broker]",
    "keep_alive_millis = 600000",
)


@dataclass(frozen=True, slots=True)
class Plan:
    controllers: int
    rate: int
    seconds: float
    idle_controllers: int
    idle_seconds: float
    # Payloads that a controller sends at a time.
    burst: int = 10
    # Payloads that are under way at most. The hub's queue for the broker (1 MiB by default) holds more than these: it
    # may drop none, however late the load reads.
    window: int = 4_000
    # From the last connection to a measurement, in seconds: the first datagrams are not like the later ones.
    settling: float = 3.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Payloads that arrived a second; CPU-seconds for each; shares of a core, of the server and the load."""

    delivered: float
    cpu_each: float
    share: float
    load_share: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one server: at the rate of the plan, as fast as it goes, and the share of a core with idle controllers."""

    paced: Traffic
    most: Traffic
    idle_share: float
    failures: Counter[str]


# -- the two servers ----------------------------------------------------------------------------------------------


class Hub:
    """How to get to the hub's sessions; its database is filled before it starts."""

    def __init__(self, directory: Path, controllers: int) -> None:
        data = directory / "data"
        data.mkdir()
        store = Store.open(f"sqlite:///{data / 'store.db'}")
        account = store.add_account("bench").uuid
        self.identifiers = [f"TLC{number:05}" for number in range(controllers)]
        for identifier in self.identifiers:
            store.add_tlc("bench", identifier, TlcType.TCP_STREAMING, account)
        self._secrets = {
            type_: store.add_token(store.authorize(account, "bench", role).uuid, 0).secret
            for type_, role in (("TLC", Role.TLC_SYSTEM), ("Broker", Role.BROKER_SYSTEM))
        }
        store.close()
        self._api: http.client.HTTPConnection

    def found(self, child: Child) -> tuple[str, int]:
        """Where the hub is, from what the server says of itself."""
        match = re.search(r"api=http://([\d.]+):(\d+)  tlex=([\d.]+):(\d+)", child.ready)
        if match is None:
            raise ChildError(f"no TLEX hub in {child.ready!r}")
        self._api = http.client.HTTPConnection(match[1], int(match[2]), timeout=60)
        return match[3], int(match[4])

    def greeting(self, index: int | None) -> bytes:
        """What a controller, or None: the broker, has to say first."""
        details: dict[str, Any] = {"securityMode": "NONE"}
        if index is None:
            type_, details["tlcIdentifiers"] = "Broker", self.identifiers
        else:
            type_, details["tlcIdentifier"] = "TLC", self.identifiers[index]
        protocol = "TCPStreaming_Multiplex" if index is None else "TCPStreaming_Singleplex"
        body = {"domain": "bench", "type": type_, "protocol": protocol, "details": details}
        headers = {"X-Authorization": self._secrets[type_], "Content-Type": "application/json"}
        self._api.request("POST", "/api/v1/sessions", json.dumps(body), headers)
        answer = self._api.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise ChildError(f"the hub refuses a session: {content.decode()}")
        return PREAMBLE + Token(json.loads(content)["token"]).encode()

    def done(self) -> None:
        """Nothing more is asked for now."""
        self._api.close()


class Relay:
    """The same for the bare relay, which sends no version: the load's reader is given one."""

    def found(self, child: Child) -> tuple[str, int]:
        return child.host, child.port

    def greeting(self, index: int | None) -> bytes:
        return BROKER if index is None else CONTROLLER

    def done(self) -> None: ...


# -- the load -----------------------------------------------------------------------------------------------------


async def connected(site: Hub | Relay, place: tuple[str, int], indexes: list[int | None]) -> list[Peer]:
    loop = asyncio.get_running_loop()
    peers: list[Peer] = []
    has_version = isinstance(site, Hub)
    for index in indexes:
        make: type[Peer] = Taker if index is None else Peer
        transport, peer = await loop.create_connection(lambda kind=make: kind(has_version), *place)  # type: ignore[misc]
        transport.write(await asyncio.to_thread(site.greeting, index))
        peers.append(peer)
    site.done()
    return peers


class Load:
    """A broker, and controllers that send; what it costs them and the server is measured."""

    def __init__(self, child: Child, broker: Taker, controllers: list[Peer], plan: Plan) -> None:
        self._child = child
        self._broker = broker
        self._controllers = controllers
        self._plan = plan
        self._bursts = Bursts(plan.burst)
        # Payloads.
        self.sent = 0
        # When the measurement began: payloads, CPU-seconds, time.
        self._sent = self._taken = 0
        self._cpu = self._load_cpu = self._begun = 0.0

    async def pace(self) -> Traffic:
        """At the rate of the plan; slower if they do not arrive at it."""
        plan = self._plan
        self._begin()
        due = self._begun
        everybody = range(len(self._controllers))
        while self.sent - self._sent < plan.rate * plan.seconds:
            for group in [everybody[each::GROUPS] for each in range(GROUPS)]:
                for controller in group:
                    await self._send(controller)
                due += len(group) * plan.burst / plan.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        return await self._end()

    async def rush(self) -> Traffic:
        """As fast as they arrive."""
        self._begin()
        while time.monotonic() < self._begun + self._plan.seconds:
            for controller in range(len(self._controllers)):
                await self._send(controller)
        return await self._end()

    async def _send(self, controller: int) -> None:
        while self.sent - self._broker.taken > self._plan.window - self._plan.burst:
            await self._progress()
        self._controllers[controller].transport.write(self._bursts.make(controller))
        self.sent += self._plan.burst

    async def _progress(self) -> None:
        broker = self._broker
        broker.moved.clear()
        try:
            await asyncio.wait_for(broker.moved.wait(), PATIENCE)
        except TimeoutError:
            lost = self.sent - broker.taken
            raise ChildError(f"{lost:,} payloads are under way and none came for {PATIENCE:g} s") from None

    def _begin(self) -> None:
        self._sent, self._taken = self.sent, self._broker.taken
        self._cpu, self._load_cpu = self._child.cpu_seconds(), time.process_time()
        self._begun = time.monotonic()

    async def _end(self) -> Traffic:
        """When the last one is there."""
        while self._broker.taken < self.sent:
            await self._progress()
        seconds = time.monotonic() - self._begun
        taken = self._broker.taken - self._taken
        cpu = self._child.cpu_seconds() - self._cpu
        load = time.process_time() - self._load_cpu
        return Traffic(taken / seconds, cpu / taken, cpu / seconds, load / seconds)


async def measure(child: Child, site: Hub | Relay, plan: Plan) -> Figures:
    place = site.found(child)
    broker, *controllers = await connected(site, place, [None, *range(plan.controllers)])
    assert isinstance(broker, Taker)
    load = Load(child, broker, controllers, plan)
    await asyncio.sleep(plan.settling)
    paced, most = await load.pace(), await load.rush()
    failures = broker.failures
    for peer in (broker, *controllers):
        peer.transport.close()
    others: list[int | None] = list(range(plan.controllers, plan.controllers + plan.idle_controllers))
    idle = await connected(site, site.found(child), others)
    idle_share = await _idle(child, idle, plan)
    failures["an idle controller was cut"] += sum(peer.lost for peer in idle)
    failures["an idle controller heard nothing"] += sum(not peer.came for peer in idle)
    for peer in idle:
        peer.transport.close()
    return Figures(paced, most, idle_share, +failures)


async def _idle(child: Child, peers: list[Peer], plan: Plan) -> float:
    """The share of a core that it takes to hold them."""

    async def live() -> None:
        # In turns: real controllers do not all speak at once.
        while True:
            for start in range(0, len(peers), 50):
                for peer in peers[start : start + 50]:
                    peer.transport.write(KEEP_ALIVE_FRAME)
                await asyncio.sleep(KEEP_ALIVE_SECONDS * 50 / len(peers))

    living = asyncio.create_task(live())
    await asyncio.sleep(plan.settling)
    cpu, begin = child.cpu_seconds(), time.monotonic()
    await asyncio.sleep(plan.idle_seconds)
    share = (child.cpu_seconds() - cpu) / (time.monotonic() - begin)
    living.cancel()
    return share


def _hub(directory: Path, core: int | None, plan: Plan) -> tuple[Child, Hub | Relay]:
    site = Hub(directory, plan.controllers + plan.idle_controllers)
    return penstock(directory, core, SETTINGS), site


def _relay(directory: Path, core: int | None, _: Plan) -> tuple[Child, Hub | Relay]:
    return Child(directory, core, "bench.rig.tlex_relay"), Relay()


async def compare(plan: Plan, cores: Cores) -> tuple[Figures, Figures]:
    """The hub, then the relay, one after the other on the same core."""
    figures = []
    starters: tuple[Callable[[Path, int | None, Plan], tuple[Child, Hub | Relay]], ...] = (_hub, _relay)
    for start in starters:
        with tempfile.TemporaryDirectory() as directory:
            child, site = start(Path(directory), cores.server, plan)
            with child:
                figures.append(await measure(child, site, plan))
    return figures[0], figures[1]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--controllers",
        type=int,
        default=100,
        choices=range(1, MAX_CONTROLLERS + 1),
        metavar=f"1..{MAX_CONTROLLERS}",
        help="controllers that send (default %(default)s)",
    )
    parser.add_argument("--rate", type=int, default=100_000, help="payloads a second, of all (default %(default)s)")
    parser.add_argument("--burst", type=int, default=10, help="payloads that one sends at a time (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long they send, twice (default %(default)s)")
    parser.add_argument("--idle", type=int, default=1_000, help="controllers that are idle (default %(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=8.0, help="how long they are (default %(default)s)")


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        options.controllers, options.rate, options.seconds, options.idle, options.idle_seconds, burst=options.burst
    )


def connections(options: argparse.Namespace) -> int:
    return int(options.controllers + options.idle + 1)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when a payload or a controller was lost."""
    report = Report("tlex")
    plan = _plan(options)
    ours, theirs = await compare(plan, cores)
    report.table(
        f"TLEX: {plan.controllers:,} controllers send {plan.burst} payloads of {SIZE} bytes at a time to a broker, "
        f"{plan.rate:,}/s for {plan.seconds:g} s, then as long as many as arrive, at most {plan.window:,} under way; "
        f"{plan.idle_controllers:,} are idle for {plan.idle_seconds:g} s",
        ("penstock", "bare relay", "ratio"),
        (
            *_rows(f"at {plan.rate:,}/s: ", ours.paced, theirs.paced),
            *_rows("as fast as it goes: ", ours.most, theirs.most),
            row("idle controllers: CPU, % of a core", ours.idle_share * 100, theirs.idle_share * 100, ".2f"),
        ),
    )
    report.failures("penstock", ours.failures)
    report.failures("bare relay", theirs.failures)
    return report.save()


def _rows(when: str, ours: Traffic, theirs: Traffic) -> tuple[tuple[str, ...], ...]:
    return (
        row(f"{when}delivered per second", ours.delivered, theirs.delivered, ",.0f"),
        row(f"{when}CPU per payload, µs", ours.cpu_each * 1e6, theirs.cpu_each * 1e6, ".2f"),
        row(f"{when}CPU, % of a core", ours.share * 100, theirs.share * 100, ".0f"),
        row(f"{when}CPU of the load, %", ours.load_share * 100, theirs.load_share * 100, ".0f"),
    )
