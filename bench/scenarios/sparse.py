"""Sparse: the history of a thing with few events, out of the segment being written and out of a sealed one.

Both hold the same records, one to a commit, as acknowledged changes of things come. The journal is written by its own
parts, without a thread and without a sync. Runs no server. The goal: the segment being written is as good as a sealed
one.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from penstock.history.reader import AsyncHistory, History
from penstock.journal.disk import DirectoryDisk
from penstock.journal.record import Columns, arrays, numbered
from penstock.journal.writer import SegmentWriter, group_of

ABOUT = "CPU time of a sparse thing's history in the segment being written, beside a sealed one"

START_MICROS = 1_700_000_000_000_000
_LONG_MICROS = 10**15
_LARGE_BYTES = 2**40

# Streams at once, as clients of a server would have them.
STREAMS = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """A segment of so many events or bytes, whichever comes first; `things` in turn, each sparse one `each` times."""

    events: int
    bytes: int = _LARGE_BYTES
    things: int = 2_000
    each: int = 3
    reads: int = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """MilliCPU-seconds for a history, by a new reader and by one that has looked before; seconds for many."""

    cold: float
    warm: float
    streams: float


def sparse(number: int) -> str:
    return f"DITTO/THINGS/bench:sparse-{number}"


def build(directory: Path, plan: Plan, *, sealed: bool) -> int:
    """Returns how many bytes the segment has. Sparse things come at the beginning, in the middle and so on."""
    revisions: dict[str, int] = {}
    writer = SegmentWriter(
        DirectoryDisk(directory, make=True), revisions, _now, segment_bytes=_LARGE_BYTES, segment_micros=_LONG_MICROS
    )
    writer.start(1, 0)
    # Of a segment that ends by its bytes: about as many events as fit.
    expected = min(plan.events, plan.bytes // _FRAME_BYTES)
    step = max(expected // (STREAMS * plan.each + 1), 1)
    number = turn = 0
    path = next(directory.glob("*.segment"))
    while number < expected:
        number += 1
        if number % step == 0 and turn < STREAMS * plan.each:
            entity, turn = sparse(turn % STREAMS), turn + 1
        else:
            entity = f"DITTO/THINGS/bench:thing-{number % plan.things}"
        columns = Columns()
        columns.add(entity, START_MICROS + number, "modified", "/attributes/counter", str(number))
        revisions[entity] = revisions.get(entity, 0) + 1
        batch = numbered(arrays(columns), number, [revisions[entity]])
        writer.append(group_of(batch, columns, number), sync=False)
    if sealed:
        writer.seal()
        writer.start(number + 1, number)
    writer.close()
    return path.stat().st_size


# Of one frame with one such event, roughly.
_FRAME_BYTES = 800


def _now() -> int:
    return time.time_ns() // 1000


def measure(directory: Path, plan: Plan, failures: Counter[str]) -> Cost:
    lake = directory / "no-lake"

    def read(history: History, number: int) -> None:
        found = sum(1 for _ in history.events(sparse(number % STREAMS)))
        if found != plan.each:
            failures[f"{found} events of {plan.each}"] += 1

    cold = _median(plan.reads, lambda number: read(History(directory, lake), number))
    known = History(directory, lake)
    read(known, 0)
    warm = _median(plan.reads, lambda number: read(known, number))
    begin = time.perf_counter()
    counts = asyncio.run(_streams(AsyncHistory(History(directory, lake))))
    streams = time.perf_counter() - begin
    if counts != [plan.each] * STREAMS:
        failures["a stream with too few events"] += 1
    return Cost(cold, warm, streams)


async def _streams(history: AsyncHistory) -> list[int]:
    async def one(number: int) -> int:
        count = 0
        async for _ in history.events(sparse(number)):
            count += 1
        return count

    return list(await asyncio.gather(*(one(number) for number in range(STREAMS))))


def _median(count: int, action: Callable[[int], None]) -> float:
    """MilliCPU-seconds."""
    times = []
    for number in range(count):
        begin = time.process_time()
        action(number)
        times.append((time.process_time() - begin) * 1000)
    return statistics.median(times)


def compare(plan: Plan, folder: Path, failures: Counter[str]) -> tuple[int, Cost, Cost]:
    """Bytes of the segment, and what it costs while it is written and when it is sealed."""
    size = build(folder / "active", plan, sealed=False)
    build(folder / "sealed", plan, sealed=True)
    return size, measure(folder / "active", plan, failures), measure(folder / "sealed", plan, failures)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=60_000, help="of the first segment (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=128 * 1024 * 1024, help="of the second (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when something was not found."""
    report = Report("sparse")
    failures: Counter[str] = Counter()
    for plan in (Plan(options.events), Plan(_LARGE_BYTES, options.bytes)):
        with tempfile.TemporaryDirectory(prefix=".bench-sparse-", dir=Path()) as folder:
            size, active, sealed = await asyncio.to_thread(compare, plan, Path(folder), failures)
        rows = [
            row("new reader, ms of CPU", active.cold, sealed.cold, ".1f"),
            row("reader that has looked before, ms of CPU", active.warm, sealed.warm, ".1f"),
            row(f"{STREAMS} histories at once, s", active.streams, sealed.streams, ".2f"),
        ]
        title = f"{plan.each} events of a thing in a segment of {size / 1024 / 1024:.0f} MiB"
        report.table(title, ("being written", "sealed", "ratio"), rows)
    report.failures("the journal", failures)
    return report.save()
