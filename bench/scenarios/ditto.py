"""Ditto: a long history of one thing streamed as the client paces it, and the first event of random ranges of it.

From the hot journal and from the lake, by a server process with all that belongs to it. Beside it a bare server of the
same messages (`ditto_bare`) and plain reading of the same files (`ditto_history`). The load checks every event.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
import numpy as np

from bench.rig import ditto_history
from bench.rig.child import Child, ChildError, penstock
from bench.rig.ditto_history import PATH, THING, time_of
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from bench.rig.websocket import KEY, WebSocketClient, client_frame
from penstock.adapters.access.users import User, hashed
from penstock.wire.ditto.instant import print_instant

# For `all`, in seconds; on a quiet machine it takes about a minute and a half.
DEADLINE = 600.0

ABOUT = "events a second of a history over Ditto's WebSocket, its memory, and the time to a range's first event"

SEED = 1
DEMAND = 100
# Revisions that a random read asks for.
RANGE = 50
# Seconds without an event that is due, for all events of a stream, and from the start of a server until it is idle.
PATIENCE = 60.0
STREAM_PATIENCE = 240.0
# The server gives up to find a history after 15 seconds by itself, which on a busy machine is an error and no figure.
SERVER_PATIENCE = "1m"
SETTLING = 2.0
# Seconds between two looks at the server's memory.
LOOK = 0.1

MIB = 1024 * 1024

USER, PASSWORD = "bench", "a password for a benchmark"
SETTINGS = (
    "demo.enabled = false",
    'ditto.adapter_set = "BENCH"',
    'adapters.BENCH.metadata.adapter = "access"',
    'adapters.BENCH.metadata.parameters.users = "users"',
    'adapters.BENCH.data.NONE.adapter = "ingest"',
    'adapters.BENCH.data.NONE.parameters = { items = { "*" = "MERGE" }, tokens = ["the token of nobody"] }',
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A history of so many events, how many of them are streamed, and how many ranges are read."""

    events: int = 2_000_000
    streamed: int = 400_000
    reads: int = 300
    warm_up: int = 50
    # Of a group commit.
    frame: int = 16


@dataclass(frozen=True, slots=True)
class Flow:
    """Of one stream: events a second, processor for each, and memory above that of the idle server, at most."""

    per_second: float
    cpu_each: float
    memory: int


@dataclass(slots=True)
class Figures:
    """Streams by where they come from; milliseconds of reads, p50 and p99, by what was read; and what was wrong."""

    flows: dict[str, Flow] = field(default_factory=dict)
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    # What is being done: if that does not end, it is told.
    doing: str = ""

    def begin(self, doing: str) -> None:
        self.doing = doing
        print(f"  ditto: {doing}", flush=True)


# -- the load -----------------------------------------------------------------------------------------------------


class Item(msgspec.Struct):
    path: str
    value: int | dict[str, object]
    revision: int


class Value(msgspec.Struct):
    subscriptionId: str  # noqa: N815 - as the protocol has it
    item: Item | None = None


class Message(msgspec.Struct):
    topic: str
    value: Value


_DECODER = msgspec.json.Decoder(Message)
_TOPIC = f"{THING.replace(':', '/')}/things/twin/streaming"


def said(action: str, value: dict[str, object]) -> bytes:
    """A frame of the client."""
    message = {
        "topic": f"{_TOPIC}/{action}",
        "headers": {"correlation-id": "bench", "timeout": SERVER_PATIENCE},
        "path": "/",
        "value": value,
    }
    return client_frame(msgspec.json.encode(message).decode())


class Client(WebSocketClient):
    """One connection, one subscription at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: Counter[str] = Counter()
        self._waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost = ""
        self._request = b""
        self._demand = 0
        self._asked = 0
        self._due = 0
        self._count = 0
        self._began = 0.0
        # Seconds from the first request to the first event, and events that came.
        self.first = 0.0
        self.came = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        credentials = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self.transport.write(
            b"GET /ws/2 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n"
            b"Authorization: Basic " + credentials.encode() + b"\r\n\r\n"
        )

    async def opened_socket(self) -> None:
        await asyncio.wait_for(self._waiting, PATIENCE)

    async def stream(self, selection: dict[str, object], first: int, count: int, demand: int) -> None:
        """Subscribe, and ask for `demand` events again and again until it is complete; all are checked.

        Raises ChildError if the next event does not come, or not all of them in time.
        """
        if self._lost:
            raise ChildError(self._lost)
        self._waiting = asyncio.get_running_loop().create_future()
        self._demand, self._asked, self._due, self._count, self.came = demand, 0, first, count, 0
        self.transport.write(said("subscribeForPersistedEvents", selection))
        end = time.perf_counter() + STREAM_PATIENCE
        try:
            while not self._waiting.done():
                before = self.came
                await asyncio.wait([self._waiting], timeout=PATIENCE)
                if self._waiting.done():
                    break
                if self.came == before or time.perf_counter() > end:
                    what = f"event {self.came + 1:,} of {count:,}" if self.came < count else "the end of the stream"
                    within = PATIENCE if self.came == before else STREAM_PATIENCE
                    raise ChildError(f"{what}, revision {self._due:,}, did not come within {within:g} s")
            self._waiting.result()
        finally:
            if self.came != count:
                self.failures["an event was missing, or one too many"] += abs(count - self.came)

    # -- what comes ------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        self._waiting.set_result(None)

    def received(self, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        item = message.value.item
        if item is not None:
            if not self.came:
                self.first = time.perf_counter() - self._began
            self.came += 1
            if item.revision != self._due or (item.path == PATH and item.value != item.revision):
                self.failures["another event than the one that was due"] += 1
            self._due = item.revision + 1
            self._asked -= 1
            # With all there, "complete" comes without being asked for.
            if not self._asked and self.came < self._count:
                self._ask()
        elif message.topic.endswith("/created"):
            number = message.value.subscriptionId
            self._request = said("request", {"subscriptionId": number, "demand": self._demand})
            self._began = time.perf_counter()
            self._ask()
        elif message.topic.endswith("/complete"):
            self._waiting.set_result(None)
        else:
            self.failed(f"the server said {payload[:600]!r}")

    def _ask(self) -> None:
        self._asked = self._demand
        self.transport.write(self._request)

    def failed(self, reason: str) -> None:
        # Also between two streams: the next one would wait for nothing.
        self._lost = self._lost or reason
        if not self._waiting.done():
            self.failures[reason] += 1
            self._waiting.set_exception(ChildError(reason))


async def connected(child: Child) -> Client:
    match = re.search(r"api=http://([\d.]+):(\d+)", child.ready)
    host, port = (match[1], int(match[2])) if match is not None else (child.host, child.port)
    _, client = await asyncio.get_running_loop().create_connection(Client, host, port)
    await client.opened_socket()
    return client


# -- measuring ----------------------------------------------------------------------------------------------------


def by_revision(first: int, count: int) -> dict[str, object]:
    return {"fromHistoricalRevision": first, "toHistoricalRevision": first + count - 1}


def by_time(first: int, count: int) -> dict[str, object]:
    """The same revisions: neither end is included."""
    begin, end = time_of(first - 1), time_of(first + count)
    return {
        "fromHistoricalTimestamp": print_instant(begin * 1000),
        "toHistoricalTimestamp": print_instant(end * 1000),
    }


async def streamed(child: Child, plan: Plan, failures: Counter[str]) -> Flow:
    """From the middle of the history, so that what is before it has to be found."""
    client = await connected(child)
    await asyncio.sleep(SETTLING)
    idle = most = child.memory()

    async def look() -> None:
        nonlocal most
        while True:
            await asyncio.sleep(LOOK)
            most = max(most, child.memory())

    looking = asyncio.create_task(look())
    first = (plan.events - plan.streamed) // 2 + 1
    cpu, begin = child.cpu_seconds(), time.perf_counter()
    try:
        await client.stream(by_revision(first, plan.streamed), first, plan.streamed, DEMAND)
    finally:
        seconds, cpu = time.perf_counter() - begin, child.cpu_seconds() - cpu
        looking.cancel()
        failures += client.failures
        most = max(most, child.memory())
        client.transport.abort()
    return Flow(plan.streamed / seconds, cpu / plan.streamed, most - idle)


async def ranges(
    child: Child, plan: Plan, select: Callable[[int, int], dict[str, object]], failures: Counter[str]
) -> tuple[float, float]:
    """p50 and p99 of the milliseconds from the request to the first event."""
    client = await connected(child)
    random = Random(SEED)
    times = []
    for number in range(plan.warm_up + plan.reads):
        first = random.randrange(2, max(plan.events - RANGE, 3))
        await client.stream(select(first, RANGE), first, RANGE, RANGE)
        if number >= plan.warm_up:
            times.append(client.first * 1000)
    failures += client.failures
    client.transport.abort()
    return percentiles(times)


def plain(read: Callable[[int, int], list[int]], plan: Plan, failures: Counter[str]) -> tuple[float, float]:
    """The same by reading files."""
    random = Random(SEED)
    times = []
    for _ in range(max(plan.reads // 10, 1)):
        first = random.randrange(2, max(plan.events - RANGE, 3))
        begin = time.perf_counter()
        found = read(first, RANGE)
        times.append((time.perf_counter() - begin) * 1000)
        if found != list(range(first, first + RANGE)):
            failures["plain reading finds other events"] += 1
    return percentiles(times)


def percentiles(times: list[float]) -> tuple[float, float]:
    return float(np.percentile(times, 50)), float(np.percentile(times, 99))


async def measure(plan: Plan, directory: Path, cores: Cores, figures: Figures) -> None:
    """Of the history in a directory, which is made if it is not there; afterwards it is in the lake."""
    data = directory / "data"
    journal, lake = data / "journal", data / "lake"
    if not data.exists():
        figures.begin(f"writing {plan.events:,} events")
        ditto_history.write_journal(journal, plan.events, plan.frame)
    (directory / "users").write_text(User(USER, hashed(PASSWORD), ()).line() + "\n")
    if not lake.exists():
        await _measure_server("hot", plan, directory, cores, figures)
        figures.begin("reading files, hot")
        figures.times["plain, hot"] = plain(
            lambda first, count: ditto_history.plain_journal(journal, first, count), plan, figures.failures
        )
        figures.begin("moving the journal to the lake")
        ditto_history.move_to_lake(journal, lake)
    await _measure_server("lake", plan, directory, cores, figures)
    figures.begin("reading files, lake")
    figures.times["plain, lake"] = plain(
        lambda first, count: ditto_history.plain_lake(lake, first, count), plan, figures.failures
    )
    figures.begin(f"streaming {plan.streamed:,} events, bare")
    with Child(directory, cores.server, "bench.rig.ditto_bare") as child:
        figures.flows["bare"] = await streamed(child, plan, figures.failures)


async def _measure_server(where: str, plan: Plan, directory: Path, cores: Cores, figures: Figures) -> None:
    with penstock(directory, cores.server, SETTINGS) as child:
        figures.begin(f"streaming {plan.streamed:,} events, {where}")
        figures.flows[where] = await streamed(child, plan, figures.failures)
        figures.begin(f"reading ranges by revision, {where}")
        figures.times[f"by revision, {where}"] = await ranges(child, plan, by_revision, figures.failures)
        figures.begin(f"reading ranges by time, {where}")
        figures.times[f"by time, {where}"] = await ranges(child, plan, by_time, figures.failures)


# -- the benchmark ------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events, help="of the thing (default %(default)s)")
    parser.add_argument("--streamed", type=int, default=plan.streamed, help="of these (default %(default)s)")
    parser.add_argument("--reads", type=int, default=plan.reads, help="of each kind (default %(default)s)")
    parser.add_argument("--frame", type=int, default=plan.frame, help="events of a commit (default %(default)s)")
    parser.add_argument(
        "--directory", type=Path, help="where the history is kept for another run; once in the lake it is read there"
    )


def connections(options: argparse.Namespace) -> int:
    return 10


def kept(directory: Path | None) -> AbstractContextManager[str]:
    """The directory, or one for this run only; the whole path, as the table in the lake wants it."""
    if directory is None:
        return tempfile.TemporaryDirectory(prefix=".bench-ditto-", dir=Path.cwd())
    directory.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(directory.resolve()))


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when an event was wrong or missing."""
    report = Report("ditto")
    plan = Plan(options.events, min(options.streamed, options.events), options.reads, frame=options.frame)
    figures = Figures()
    with kept(options.directory) as folder:
        try:
            await measure(plan, Path(folder), cores, figures)
        except ChildError as error:
            report.failure(figures.doing, str(error))
    show(report, plan, figures)
    return report.save()


def show(report: Report, plan: Plan, figures: Figures) -> None:
    bare = figures.flows.get("bare")
    for where in ("hot", "lake"):
        if bare is None or where not in figures.flows or f"plain, {where}" not in figures.times:
            continue
        flow = figures.flows[where]
        report.table(
            f"{plan.streamed:,} of {plan.events:,} events of one thing, {DEMAND} at a time, {where}",
            ("penstock", "bare", "ratio"),
            (
                row("events per second", flow.per_second, bare.per_second, ",.0f"),
                row("CPU per event, µs", flow.cpu_each * 1e6, bare.cpu_each * 1e6, ".1f"),
                row("memory above idle, MiB", flow.memory / MIB, bare.memory / MIB, ".1f"),
            ),
        )
        reads = (figures.times[f"by revision, {where}"], figures.times[f"by time, {where}"])
        files = figures.times[f"plain, {where}"]
        report.table(
            f"milliseconds to the first of {RANGE} out of {plan.events:,} events, {where}",
            ("penstock", "plain files", "ratio"),
            [
                row(f"{kind}, {name}", times[at], files[at], ".1f")
                for kind, times in zip(("by revision", "by time"), reads, strict=True)
                for at, name in enumerate(("p50", "p99"))
            ],
        )
    report.failures("Ditto", figures.failures)
