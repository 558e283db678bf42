"""Intake: how many updates one server process takes in for each CPU-second, by every way in.

Trades of the demo's thirty stocks, four fields each; all items are subscribed by one client in MERGE mode that wants
one update a second, so that the server's work is intake. The bare loop merges the same events, made from the same
bytes, into one dict per item. Run as a module of its own, this is the server under test.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import io
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import uvloop

from bench.rig.child import Child
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.demo.market import Market
from penstock.adapters.ingest import IngestAdapter
from penstock.client import Client, connect
from penstock.config import load
from penstock.log import configure
from penstock.server import Server

ABOUT = "updates taken in per CPU-second of the server, by every way in, beside a bare loop"

ADAPTER_SET = "INTAKE"
DIRECT, INGEST = "DIRECT", "INGEST"
FIELDS = ("last_price", "time", "bid", "ask")
TOKEN = "only-for-this-benchmark"

# The same trades in every run; they are published again and again.
SEED = 7
EVENTS = 50_000
# As many as an adapter might gather: events of one call, rows of one batch, lines of one request.
BATCH = 1_000
REQUEST = 10_000

# What the client has asked for must have arrived after this many seconds.
PATIENCE = 30.0

Event = tuple[str, dict[str, str]]


def trades(count: int = EVENTS) -> list[Event]:
    market = Market(Random(SEED))
    names = list(market.stocks)
    events = []
    for number in range(count):
        name = names[number % len(names)]
        market.trade(name)
        fields = market.stocks[name].fields()
        events.append((name, {field: fields[field] for field in FIELDS}))
    return events


def lasts(way: str, rounds: int) -> list[Event]:
    """What each item is to end with, so that the client can tell that everything before has been taken in."""
    return [(name, dict.fromkeys(FIELDS, f"{way} {rounds}")) for name in Market(Random(SEED)).stocks]


def as_lines(events: list[Event]) -> bytes:
    return "".join([f"{json.dumps({'item': item, 'fields': fields})}\n" for item, fields in events]).encode()


def as_batch(events: list[Event]) -> pa.RecordBatch:
    columns = {field: [fields[field] for _, fields in events] for field in FIELDS}
    return pa.record_batch({"item": [item for item, _ in events], **columns})


def as_rows(events: list[Event]) -> list[tuple[str, ...]]:
    return [(item, *fields.values()) for item, fields in events]


def as_stream(events: list[Event]) -> bytes:
    buffer = io.BytesIO()
    batch = as_batch(events)
    with pa.ipc.new_stream(buffer, batch.schema) as writer:
        writer.write_batch(batch)
    return buffer.getvalue()


def slices(events: list[Event], size: int) -> list[list[Event]]:
    return [events[start : start + size] for start in range(0, len(events), size)]


# -- the server under test ----------------------------------------------------------------------------------------


class Direct(DataAdapter):
    """Publishes on order, by those ways that need no HTTP."""

    quick = True

    def __init__(self, events: list[Event]) -> None:
        self._batches = slices(events, BATCH)
        self._tables = [as_batch(batch) for batch in self._batches]
        self._rows = [as_rows(batch) for batch in self._batches]

    def has_snapshot(self, item: str) -> bool:
        return False

    async def publish(self, way: str, rounds: int) -> None:
        """All events that many times, then what the items are to end with, all the same way."""
        parts = self._parts(way, rounds)
        if way.startswith("thread"):
            await asyncio.to_thread(self._give_all, way, parts)
            return
        for part in parts:
            self._give(way, part)
            await asyncio.sleep(0)

    def _parts(self, way: str, rounds: int) -> Iterator[Any]:
        make, kept = {"table": (as_batch, self._tables), "rows": (as_rows, self._rows)}.get(way, (list, self._batches))
        for _ in range(rounds):
            yield from kept
        yield make(lasts(way, rounds))

    def _give_all(self, way: str, parts: Iterator[Any]) -> None:
        for part in parts:
            self._give(way, part)

    def _give(self, way: str, part: Any) -> None:
        if way == "table":
            self.update_table(part, "item")
        elif way == "rows":
            self.update_rows(FIELDS, part)
        elif way.endswith("list"):
            self.updates(part)
        else:
            for item, event in part:
                self.update(item, event)


class Bare:
    """The same events merged into one dict per item, from the same bytes where bytes come in."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._items: dict[str, dict[str, str]] = {item: {} for item, _ in events}
        self._lines = as_lines(events)
        self._stream = as_stream(events)

    def merge(self) -> None:
        items = self._items
        for item, event in self._events:
            items[item].update(event)

    def lines(self) -> None:
        items = self._items
        for text in self._lines.splitlines():
            line = json.loads(text)
            items[line["item"]].update(line["fields"])

    def stream(self) -> None:
        items = self._items
        with pa.ipc.open_stream(self._stream) as reader:
            for batch in reader:
                for line in batch.to_pylist():
                    items[line.pop("item")].update(line)


async def serve() -> None:
    """Follow the lines on standard input, `way,NAME,ROUNDS` and the like; answer each with CPU-seconds."""
    config = load(None, {"stream.port": 0, "api.port": 0}).config
    configure("warning", "text")
    events = trades()
    direct, bare = Direct(events), Bare(events)
    ingest = IngestAdapter(items=["item*"], tokens=[TOKEN])
    server = Server(config, [AdapterSet(ADAPTER_SET, MetadataAdapter(), {DIRECT: direct, INGEST: ingest})])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start()
    print(server.ready_line(), flush=True)
    print(server.api_port, flush=True)

    async def take_orders() -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            kind, name, rounds = line.decode().strip().split(",")
            cpu = time.process_time()
            if kind == "way":
                await direct.publish(name, int(rounds))
            else:
                for _ in range(int(rounds)):
                    getattr(bare, name)()
            print(time.process_time() - cpu, flush=True)

    orders = asyncio.create_task(take_orders())
    await stopped.wait()
    orders.cancel()
    await server.stop()


# -- the load -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A way in, and the bare loop that it is compared with."""

    title: str
    name: str
    bare: str
    adapter: str = DIRECT


WAYS = (
    Way("call by call", "call", "merge"),
    Way("a list of 1,000", "list", "merge"),
    Way("1,000 rows", "rows", "merge"),
    Way("an Arrow batch of 1,000 rows", "table", "merge"),
    Way("call by call, from a thread", "thread call", "merge"),
    Way("a list of 1,000, from a thread", "thread list", "merge"),
    Way("HTTP, 10,000 JSON lines", "json", "lines", INGEST),
    Way("HTTP, an Arrow stream of 10,000 rows", "arrow", "stream", INGEST),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Updates for each CPU-second, by the name of the way; and what was wrong."""

    ours: dict[str, float]
    bare: dict[str, float]
    failures: Counter[str]


class Watcher:
    """The client: it knows the latest values of every item."""

    def __init__(self, client: Client, data_adapter: str) -> None:
        names = [name for name, _ in lasts("", 0)]
        self._updates = client.subscribe(names, FIELDS, data_adapter=data_adapter, max_frequency=1.0)

    async def wait_for(self, way: str, rounds: int) -> int:
        """How many items have not come to their end in time."""
        ends = dict(lasts(way, rounds))
        missing = set(ends)
        try:
            async with asyncio.timeout(PATIENCE):
                async for update in self._updates:
                    if update.values == ends[update.item]:
                        missing.discard(update.item)
                    if not missing:
                        break
        except TimeoutError:
            pass
        return len(missing)


class Sender:
    """Posts the events over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        parts = slices(trades(), REQUEST)
        self._bodies = {"json": [as_lines(part) for part in parts], "arrow": [as_stream(part) for part in parts]}
        self._makers: dict[str, Callable[[list[Event]], bytes]] = {"json": as_lines, "arrow": as_stream}

    def send_all(self, name: str) -> None:
        # The server may have closed it while there was nothing to send; it opens again by itself.
        self.close()
        for body in self._bodies[name]:
            self._send(name, body)

    def send_end(self, name: str, rounds: int) -> None:
        self.close()
        self._send(name, self._makers[name](lasts(name, rounds)))

    def _send(self, name: str, body: bytes) -> None:
        kind = "application/vnd.apache.arrow.stream" if name == "arrow" else "application/x-ndjson"
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        self._connection.request("POST", f"/api/ingest/{ADAPTER_SET}/{INGEST}", body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise OSError(f"{response.status}: {answer[:200].decode()}")

    def close(self) -> None:
        self._connection.close()


async def measure(child: Child, rounds: int) -> Figures:
    """Every way in turn, each followed by its bare loop; the client checks where every item ends."""
    ours: dict[str, float] = {}
    bare: dict[str, float] = {}
    failures: Counter[str] = Counter()
    sender = Sender(child.host, int(child.read_line()))

    async def order(text: str) -> float:
        child.tell(text)
        return float(await asyncio.to_thread(child.read_line))

    async with connect(f"http://{child.host}:{child.port}", adapter_set=ADAPTER_SET) as client:
        watchers = {name: Watcher(client, name) for name in (DIRECT, INGEST)}
        # First, without figures: until all items are subscribed, those of the ingest adapter after the others.
        for way, number in [(WAYS[-1], 0), (WAYS[0], 0), *[(way, rounds) for way in WAYS]]:
            before = child.cpu_seconds()
            if way.adapter == DIRECT:
                await order(f"way,{way.name},{number}")
            else:
                for _ in range(number):
                    await asyncio.to_thread(sender.send_all, way.name)
                await asyncio.to_thread(sender.send_end, way.name, number)
            # A thread may be done while its events still wait to be taken in.
            missing = await watchers[way.adapter].wait_for(way.name, number)
            cpu = child.cpu_seconds() - before
            if missing:
                failures[f"{way.title}: {missing} items did not come to their end"] += 1
            if number:
                ours[way.name] = EVENTS * number / max(cpu, 0.01)
                bare[way.name] = EVENTS * number / await order(f"bare,{way.bare},{number}")
    sender.close()
    return Figures(ours, bare, failures)


async def compare(rounds: int, cores: Cores) -> Figures:
    with (
        tempfile.TemporaryDirectory() as directory,
        Child(Path(directory), cores.server, "bench.scenarios.adapters") as child,
    ):
        return await measure(child, rounds)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"times {EVENTS:,} updates, for each way in (default %(default)s)"
    )


def connections(options: argparse.Namespace) -> int:
    return 2


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when an item did not end where it should."""
    report = Report("adapters")
    figures = await compare(options.rounds, cores)
    report.table(
        f"updates per CPU-second, {EVENTS * options.rounds:,} updates each way, 30 items, 4 fields",
        ("penstock", "bare", "ratio"),
        [row(way.title, figures.ours[way.name], figures.bare[way.name], ",.0f") for way in WAYS],
    )
    report.failures("penstock", figures.failures)
    return report.save()


if __name__ == "__main__":
    uvloop.run(serve())
