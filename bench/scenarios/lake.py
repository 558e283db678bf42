"""Lake: the first event of a random range of a random entity, by revision and by time, beside plain Arrow.

The lake is made as `history` leaves it, without Spark, and read before and after compaction. Plain Arrow opens the
files of the entity's bucket anew for each read and filters them, as anybody's tool would.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from bench.rig.machine import Cores
from bench.rig.results import Report
from penstock.history.layout import bucket_of
from penstock.history.reader import History
from penstock.journal.record import SCHEMA
from penstock.pipeline.files import Written, write_buckets
from penstock.pipeline.lake import Lake
from penstock.pipeline.maintenance import compact

ABOUT = "milliseconds to the first event of a random range in the lake, beside plain Arrow"

SEED = 1
START_MICROS = 1_700_000_000_000_000
# Between two events of the whole lake.
STEP_MICROS = 100
# How many revisions, or seconds, a read asks for.
RANGE = 50
# Of one task of `history`.
TASK_ROWS = 250_000


@dataclass(frozen=True, slots=True)
class Plan:
    """A lake of so many events and entities, and how many reads of each kind."""

    events: int = 4_000_000
    entities: int = 10_000
    reads: int = 500
    warm_up: int = 300


def name_of(entity: int) -> str:
    return f"DEMO/QUOTES/stock.{entity:05d}"


def build(root: Path, plan: Plan) -> Lake:
    """Every entity has as many events in each file, in random order; two tasks make a commit."""
    lake = Lake(root)
    random = np.random.default_rng(SEED)
    names = pa.array([name_of(entity) for entity in range(plan.entities)])
    each = max(min(TASK_ROWS, plan.events // 2) // plan.entities, 1)
    prices = random.random(10_000) * 100
    values = pa.array([f'{{"last_price":"{price:.2f}","bid":"{price - 0.01:.2f}"}}' for price in prices.tolist()])
    first, revision = 1, 0
    while first <= plan.events:
        files: list[Written] = []
        for _ in range(2):
            entities = random.permutation(np.repeat(np.arange(plan.entities), each))
            count = len(entities)
            revisions = np.empty(count, np.int64)
            revisions[np.argsort(entities, kind="stable")] = np.tile(np.arange(1, each + 1) + revision, plan.entities)
            sequences = np.arange(first, first + count)
            times = pa.array(START_MICROS + sequences * STEP_MICROS).cast(pa.timestamp("us", tz="UTC"))
            columns = [
                pa.array(sequences),
                names.take(pa.array(entities)),
                pa.array(revisions),
                times,
                pa.repeat("update", count),
                pa.repeat("", count),
                values.take(pa.array(random.integers(0, len(values), count))),
                pa.nulls(count, pa.utf8()),
            ]
            files += write_buckets(root, pa.table(columns, schema=SCHEMA))
            first += count
            revision += each
        lake.commit(files, first - 1)
    return lake


class Reads:
    """Random reads of both kinds, checked."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.history = History(root / "no-journal", root)
        self.failures: Counter[str] = Counter()
        self._root = root
        self._plan = plan
        self._random = Random(SEED)
        self._revisions = plan.events // plan.entities

    def by_revision(self) -> None:
        entity, first = self._choose()
        event = next(self.history.events(entity, first, first + RANGE - 1), None)
        if event is None or event.revision != first:
            self.failures["another revision than the one asked for"] += 1

    def by_time(self) -> None:
        entity, _ = self._choose()
        since = START_MICROS + self._random.randrange(max(self._plan.events * 9 // 10, 1)) * STEP_MICROS
        event = next(self.history.events_between(entity, since, since + RANGE * 1_000_000), None)
        if event is not None and event.timestamp < since:
            self.failures["an event from before the time asked for"] += 1

    def plain(self) -> None:
        entity, first = self._choose()
        files = sorted((self._root / f"bucket={bucket_of(entity)}").glob("*.parquet"))
        wanted = (ds.field("entity") == entity) & (ds.field("revision") >= first)
        found = ds.dataset(files).to_table(filter=wanted & (ds.field("revision") < first + RANGE))
        if found.num_rows < min(RANGE, self._revisions - first):
            self.failures["plain Arrow finds too few"] += 1

    def _choose(self) -> tuple[str, int]:
        entity = name_of(self._random.randrange(self._plan.entities))
        return entity, self._random.randrange(1, max(self._revisions - RANGE, 2))


def percentiles(read: Callable[[], None], plan: Plan) -> tuple[float, float]:
    """p50 and p99 in milliseconds, after a warm-up."""
    times = []
    for number in range(plan.warm_up + plan.reads):
        begin = time.perf_counter()
        read()
        if number >= plan.warm_up:
            times.append((time.perf_counter() - begin) * 1000)
    return float(np.percentile(times, 50)), float(np.percentile(times, 99))


def measure(plan: Plan, directory: Path) -> tuple[dict[str, tuple[float, float]], Counter[str]]:
    """p50 and p99 by the name of what was read, and what was wrong."""
    directory = directory.resolve()
    lake = build(directory, plan)
    figures: dict[str, tuple[float, float]] = {}
    failures: Counter[str] = Counter()
    for state in ("as written", "compacted"):
        if state == "compacted":
            compact(lake, 1)
            lake.vacuum(0)
        reads = Reads(directory, plan)
        few = Plan(plan.events, plan.entities, max(plan.reads // 10, 1), max(plan.warm_up // 10, 1))
        files = len(lake.files())
        figures[f"by revision, {files} files {state}"] = percentiles(reads.by_revision, plan)
        figures[f"by time, {files} files {state}"] = percentiles(reads.by_time, plan)
        figures[f"plain Arrow, {files} files {state}"] = percentiles(reads.plain, few)
        failures += reads.failures
    return figures, failures


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events, help="events in the lake (default %(default)s)")
    parser.add_argument("--reads", type=int, default=plan.reads, help="of each kind (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when something else was read than asked for."""
    report = Report("lake")
    plan = Plan(events=options.events, reads=options.reads)
    with tempfile.TemporaryDirectory(prefix=".bench-lake-", dir=Path()) as folder:
        figures, failures = measure(plan, Path(folder))
    rows = [(name, f"{middle:.1f}", f"{late:.1f}") for name, (middle, late) in figures.items()]
    report.table(f"{plan.events:,} events: milliseconds to the first of a range", ("p50", "p99"), rows)
    report.failures("the lake", failures)
    return report.save()
