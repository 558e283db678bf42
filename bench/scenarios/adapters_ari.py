"""Updates of a remote adapter, from its socket into the kernel and encoded for one client, beside a bare loop.

The bare loop reads the same lines from the same kind of socket and splits them, no more: what the protocol's rules, the
kernel and the client's lines cost is the ratio. The adapter is a process of its own on the other core.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import cast

from bench.rig.child import ChildError
from bench.rig.machine import Cores, pin
from bench.rig.results import Report
from penstock.adapters.remote import RemoteDataAdapter
from penstock.adapters.source import GuardedSource
from penstock.doors.stream.turns import Turns
from penstock.kernel.identity import SessionIds
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Admission, Grant, ItemGrant, SubscriptionFacts
from penstock.kernel.recovery import Batch
from penstock.kernel.session import Binding
from penstock.kernel.subscription import SubscriptionRequest
from penstock.log import configure
from penstock.testing import ari_peer
from penstock.testing.hands import HandHandler
from penstock.wire.ari.notifications import AriUpdate
from penstock.wire.ari.packets import Credentials
from penstock.wire.ari.replies import Done, Initialised
from penstock.wire.ari.requests import InitData, SubscribeItem, encode_request
from penstock.wire.ari.version import NEWEST, Version
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST as NEWEST_TLCP

ABOUT = "updates a second from a remote adapter (ARI) into the kernel, beside a bare loop over the same lines"

GOAL = 150_000

ITEMS = 100
FIELDS = [f"field_{number}" for number in range(10)]

# Different updates; after so many they begin anew.
PERIOD = 20_000

# What the lines are like: in the newest version nothing is escaped; the published SDKs speak the older one, in which
# every colon is.
FORMS = {"1.9.1, numbers": NEWEST, "1.8.3, three times of day": Version(1, 8, 3)}

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Cost:
    updates: int
    wall: float
    cpu: float

    @property
    def per_cpu_second(self) -> float:
        return self.updates / self.cpu


class Meter:
    """From the first update to the end of the connection."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._wall = self._cpu = 0.0
        self.cost = Cost(0, 0.0, 0.0)

    def start(self) -> None:
        if not self._wall:
            self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self, updates: int) -> None:
        self.cost = Cost(updates, time.perf_counter() - self._wall, time.process_time() - self._cpu)
        self.ended.set()


# -- ours --------------------------------------------------------------------------------------------------------------


class MeteredAdapter(RemoteDataAdapter):
    """Tells the meter; once for all updates that come in one go."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(port=0)
        self._meter = meter
        self.count = 0

    def updated(self, updates: Sequence[AriUpdate]) -> None:
        self._meter.start()
        self.count += len(updates)
        super().updated(updates)

    def lost(self) -> None:
        super().lost()
        self._meter.stop(self.count)


class Sink:
    """A client's connection that takes everything."""

    overhead = 0
    websocket = True
    listening = True
    broken = False

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, lines: Sequence[bytes]) -> int:
        size = sum(map(len, lines))
        self.bytes += size
        return size

    def send(self, batch: Batch) -> None:
        self.bytes += len(batch.payload)

    def room(self) -> int | None:
        return None

    def finish(self, close_socket: bool) -> None:
        pass

    def abort(self) -> None:
        raise AssertionError("the client was given up")


async def measure_ours(updates: int, form: str, cores: Cores, failures: Counter[str]) -> Cost:
    turns = Turns(asyncio.get_running_loop())
    kernel = Kernel(time.monotonic, turns, SessionIds("bench", bytes), SessionLimits())
    turns.run_kernel(kernel)
    meter = Meter()
    adapter = MeteredAdapter(meter)
    feed = kernel.add_feed("BENCH", "ARI", GuardedSource("BENCH", "ARI", adapter))
    adapter.enter(feed)
    await adapter.start()
    session = kernel.open_session(TlcpCodec(NEWEST_TLCP), HandHandler())
    session.admit(Admission(), None)
    session.bind(Sink(), Binding(send_sync=False), [])
    names = tuple([f"item{number}" for number in range(ITEMS)])
    # Statistics are kept only for subscriptions that somebody wants to be told about.
    facts = SubscriptionFacts(1, "ARI", Mode.MERGE, "", "", None, names)
    grant = Grant(tuple(map(ItemGrant, names)), tuple(FIELDS), None, facts)
    session.subscribe(
        SubscriptionRequest(
            number=1,
            feed=feed,
            grant=grant,
            mode=Mode.MERGE,
            snapshot=True,
            snapshot_length=None,
            max_frequency=None,
            unfiltered=False,
            buffer_size=None,
        )
    )
    await _send_to(adapter.ports[0], updates, form, cores, meter)
    # The last states of all may still be held back for the client.
    while any(lane.has_held() for lane in session.own().lanes_of(1)):  # noqa: ASYNC110, the kernel tells nobody
        await asyncio.sleep(0.001)
    subscription = session.subscription(1)
    session.unsubscribe(1)
    told = sum([each.sent + each.filtered for each in subscription.statistics])
    if told != updates or meter.cost.updates != updates:
        failures[f"{meter.cost.updates} of {updates} updates came, {told} reached the client's lines"] += 1
    await adapter.stop()
    turns.stop()
    return meter.cost


# -- the bare loop -----------------------------------------------------------------------------------------------------


class BareLoop(asyncio.Protocol):
    """Asks for the items as a server would, then splits lines and keeps the last values of each item."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._rest = b""
        self._count = 0
        self.last: dict[str, dict[str, str]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        ours = cast(asyncio.Transport, transport)
        ours.write(encode_request("100", InitData(()), NEWEST))
        for number in range(ITEMS):
            ours.write(encode_request(f"1{number:08x}", SubscribeItem(f"item{number}"), NEWEST))

    def data_received(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            parts = line.decode().split("|")
            if parts[1] == "UD3":
                self._meter.start()
                self._count += 1
                self.last[parts[5]] = dict(zip(parts[9::4], parts[11::4], strict=False))

    def connection_lost(self, error: Exception | None) -> None:
        self._meter.stop(self._count)


async def measure_bare(updates: int, form: str, cores: Cores, failures: Counter[str]) -> Cost:
    meter = Meter()
    listener = await asyncio.get_running_loop().create_server(lambda: BareLoop(meter), "127.0.0.1", 0)
    await _send_to(listener.sockets[0].getsockname()[1], updates, form, cores, meter)
    if meter.cost.updates != updates:
        failures[f"{meter.cost.updates} of {updates} updates came to the bare loop"] += 1
    listener.close()
    return meter.cost


# -- the adapter -------------------------------------------------------------------------------------------------------


async def _send_to(port: int, updates: int, form: str, cores: Cores, meter: Meter) -> None:
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.scenarios.adapters_ari", str(port), str(updates), form
    )
    pin(sender.pid, cores.server)
    async with asyncio.timeout(WAIT_SECONDS):
        if await sender.wait():
            raise ChildError("the remote adapter has failed")
        await meter.ended.wait()


def send(port: int, updates: int, version: Version) -> None:
    """The adapter: initialised, it answers all subscriptions and then sends as fast as it can."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as lines:
        connection.sendall(ari_peer.credentials(Credentials(None, None, True, None)))
        identifiers: dict[str, str] = {}
        while len(identifiers) < ITEMS:
            request = ari_peer.parse_request(next(lines).decode().rstrip(), version)
            assert isinstance(request, tuple)
            identifier, asked = request
            if isinstance(asked, SubscribeItem):
                identifiers[asked.item] = identifier
                connection.sendall(ari_peer.encode_reply(Done(identifier, "SUB"), version))
            else:
                connection.sendall(ari_peer.encode_reply(Initialised(identifier, "DPI", version, {}), version))
        block = [_line(number, identifiers, version) for number in range(PERIOD)]
        left = updates
        while left:
            chunk = min(left, PERIOD)
            connection.sendall(b"".join(islice(cycle(block), chunk)))
            left -= chunk


def _line(number: int, identifiers: dict[str, str], version: Version) -> bytes:
    item = f"item{number % ITEMS}"
    fields: dict[str, str | bytes | None] = {}
    for position, name in enumerate(FIELDS):
        is_time = position < 3 and version is not NEWEST
        fields[name] = f"12:{number % 60:02}:{position:02}" if is_time else f"{number % 89}.{number // ITEMS}{position}"
    return ari_peer.update(1_794_743_665_602, item, identifiers[item], False, fields, version)


# -- the command -------------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--updates", type=int, default=300_000, help="updates to send (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 1


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when an update is missing."""
    report = Report("adapters-ari")
    # Each round ends with the loss of its adapter, which the server would warn of.
    configure("error", "text")
    failures: Counter[str] = Counter()
    rows = []
    for form in FORMS:
        ours, bare = [], []
        for _ in range(options.rounds):
            ours.append(await measure_ours(options.updates, form, cores, failures))
            bare.append(await measure_bare(options.updates, form, cores, failures))
        mine = max([cost.per_cpu_second for cost in ours])
        theirs = max([cost.per_cpu_second for cost in bare])
        rows.append((form, f"{mine:,.0f}", f"{theirs:,.0f}", f"{mine / theirs:.2f}", f"{mine / GOAL:.2f}"))
    title = f"updates of {len(FIELDS)} fields a second on one core, {ITEMS} items, one client, goal {GOAL:,}"
    report.table(title, ("ARI into the kernel", "bare loop", "ratio", "of the goal"), rows)
    report.failures("the remote adapter", failures)
    return report.save()


if __name__ == "__main__":
    send(int(sys.argv[1]), int(sys.argv[2]), FORMS[sys.argv[3]])
