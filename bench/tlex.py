"""The TLEX hub: payloads of many controllers to one broker, and many controllers that only keep themselves alive.

A server process with all that belongs to it: sessions asked for by REST, limits, accounting, queues. Beside it a bare
relay of bytes (`tlex_relay`). The load checks that every payload came, once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.child import Child, ChildError, penstock
from bench.machine import Cores
from bench.table import print_failures, print_table, row
from bench.tlex_relay import BROKER, CONTROLLER
from penstock.store.roles import Role
from penstock.store.store import Store
from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME, Kind, Payload, TimestampsResponse, Token, decode
from penstock.wire.tlex.frames import PREAMBLE, FrameReader
from penstock.wire.tlex.rest import TlcType

ABOUT = "processor time of the TLEX hub, at 100,000 payloads a second and with idle controllers, beside a bare relay"

SIZE = 200
# Payloads that a controller sends at a time.
BURST = 10
KEEP_ALIVE_SECONDS = 2.0

# Seconds for the last payloads to come after they were sent.
PATIENCE = 30.0

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
    # From the last connection to a measurement, in seconds: the first datagrams are not like the later ones.
    settling: float = 3.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one server: payloads a second that arrived, seconds of processor for each, shares of a core."""

    delivered: float
    cpu_each: float
    share: float
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


class Peer(asyncio.Protocol):
    """A controller; it answers requests for timestamps and counts what else comes."""

    def __init__(self, has_version: bool) -> None:
        self.reader = FrameReader()
        if not has_version:
            self.reader.feed(PREAMBLE)
        self.came = 0
        self.lost = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            self.came += 1
            if frame[4] == Kind.TIMESTAMPS_REQUEST:
                now = time.time_ns() // 1_000_000
                sent = int.from_bytes(frame[5:13], "big")
                self.transport.write(TimestampsResponse(sent, now, now).encode())
            elif frame[4] == Kind.BYE:
                self.lost = True

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


class Taker(Peer):
    """The broker: the payloads of each controller are numbered, in their origin timestamps."""

    def __init__(self, has_version: bool) -> None:
        super().__init__(has_version)
        self.taken = 0
        # How many will come in all, once that is known.
        self.wanted = -1
        self.complete = asyncio.Event()
        self.failures: Counter[str] = Counter()
        self._next: dict[bytes, int] = {}

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            kind = frame[4]
            if kind == Kind.IDENTIFIED_PAYLOAD:
                self._take(frame[5:13], int.from_bytes(frame[14:22], "big"))
            elif kind == Kind.PAYLOAD:
                # Of the relay, which knows no identifiers: the payload type stands for one.
                self._take(frame[5:6], int.from_bytes(frame[6:14], "big"))
            elif kind == Kind.TIMESTAMPS_REQUEST:
                now = time.time_ns() // 1_000_000
                self.transport.write(TimestampsResponse(int.from_bytes(frame[5:13], "big"), now, now).encode())
            elif kind == Kind.BYE:
                self.failures[f"sent away: {decode(frame)}"] += 1

    def _take(self, publisher: bytes, number: int) -> None:
        self.taken += 1
        if self.taken == self.wanted:
            self.complete.set()
        if self._next.get(publisher, 0) != number:
            self.failures["out of order or lost"] += 1
        self._next[publisher] = number + 1


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


async def measure(child: Child, site: Hub | Relay, plan: Plan) -> Figures:
    busy = list(range(plan.controllers))
    broker, *controllers = await connected(site, site.found(child), [None, *busy])
    assert isinstance(broker, Taker)
    cpu, delivered = await _full(child, broker, controllers, plan)
    for peer in (broker, *controllers):
        peer.transport.close()
    others: list[int | None] = list(range(plan.controllers, plan.controllers + plan.idle_controllers))
    idle = await connected(site, site.found(child), others)
    idle_share = await _idle(child, idle, plan)
    failures = broker.failures
    failures["an idle controller was cut"] += sum(peer.lost for peer in idle)
    failures["an idle controller heard nothing"] += sum(not peer.came for peer in idle)
    for peer in idle:
        peer.transport.close()
    sent = plan.rate * plan.seconds
    failures["a payload was lost"] += round(sent) - broker.taken
    return Figures(delivered, cpu / broker.taken, cpu * delivered / broker.taken, idle_share, +failures)


async def _full(child: Child, broker: Taker, controllers: list[Peer], plan: Plan) -> tuple[float, float]:
    """Seconds of processor, and payloads a second that arrived."""
    await asyncio.sleep(plan.settling)
    bursts = round(plan.rate * plan.seconds) // (BURST * len(controllers))
    pause = BURST * len(controllers) / plan.rate / 10
    tenth = -(-len(controllers) // 10)
    # The publisher's number is in place of the payload type only for the relay; the hub does not look at either.
    cpu, begin = child.cpu_seconds(), time.monotonic()
    due = begin
    for burst in range(bursts):
        first = burst * BURST
        for start in range(0, len(controllers), tenth):
            for index in range(start, min(start + tenth, len(controllers))):
                frames = [Payload(index % 0xF0, number, FILLING).encode() for number in range(first, first + BURST)]
                controllers[index].transport.write(b"".join(frames))
            due += pause
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    broker.wanted = bursts * BURST * len(controllers)
    if broker.taken < broker.wanted:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(broker.complete.wait(), PATIENCE)
    seconds = time.monotonic() - begin
    return child.cpu_seconds() - cpu, broker.taken / seconds


FILLING = b"x" * SIZE


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
    return Child(directory, core, "bench.tlex_relay"), Relay()


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
    parser.add_argument("--controllers", type=int, default=100, help="controllers that send (default %(default)s)")
    parser.add_argument("--rate", type=int, default=100_000, help="payloads a second, of all (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long they send (default %(default)s)")
    parser.add_argument("--idle", type=int, default=1_000, help="controllers that are idle (default %(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="how long they are (default %(default)s)")


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(options.controllers, options.rate, options.seconds, options.idle, options.idle_seconds)


def connections(options: argparse.Namespace) -> int:
    return int(options.controllers + options.idle + 1)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and print; False when a payload or a controller was lost."""
    plan = _plan(options)
    ours, theirs = await compare(plan, cores)
    print_table(
        f"TLEX: {plan.controllers:,} controllers send {plan.rate:,} payloads/s of {SIZE} bytes to a broker for "
        f"{plan.seconds:g} s; {plan.idle_controllers:,} are idle for {plan.idle_seconds:g} s",
        ("penstock", "bare relay", "ratio"),
        (
            row("delivered per second", ours.delivered, theirs.delivered, ",.0f"),
            row("processor per payload, µs", ours.cpu_each * 1e6, theirs.cpu_each * 1e6, ".2f"),
            row("processor, % of a core", ours.share * 100, theirs.share * 100, ".0f"),
            row("processor with idle controllers, %", ours.idle_share * 100, theirs.idle_share * 100, ".2f"),
        ),
    )
    print_failures("penstock", ours.failures)
    print_failures("bare relay", theirs.failures)
    return not ours.failures and not theirs.failures
