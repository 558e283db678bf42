"""Journal: appending, acknowledging and reading, beside a bare loop over the same Arrow batches and beside JSON lines.

The bare loop has no thread, no checksums, no numbers, no index and no mark: what the journal costs is the ratio. Runs
no server; a figure per CPU-second is one per core.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

from bench.rig.machine import Cores
from bench.rig.results import Report
from penstock.adapters.demo.market import Market
from penstock.journal.errors import Overload
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA, Columns, arrays, numbered

ABOUT = "events appended to the journal, acknowledged and read, beside a bare Arrow loop and JSON lines"

# The same trades in every run.
SEED = 7
START_MICROS = 1_700_000_000_000_000

# What the journal's policy `interval` does by default; the other two sync as often.
INTERVAL = 0.05

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything: `batch` events an append, `window` acknowledgements outstanding at most."""

    events: int = 1_000_000
    batch: int = 1_000
    commits: int = 2_000
    window: int = 16
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one way to do one thing."""

    count: int
    wall: float
    cpu: float
    # Syncs that acknowledged them; 0 where that is not measured.
    groups: int = 0

    @property
    def per_second(self) -> float:
        return self.count / self.wall

    @property
    def per_cpu_second(self) -> float:
        return self.count / self.cpu


@dataclass(frozen=True, slots=True)
class Figures:
    """For each way its costs, the median run of all rounds; and what was wrong."""

    append: dict[str, Cost]
    acknowledge: dict[str, Cost]
    commit: dict[str, Cost]
    read: dict[str, Cost]
    failures: Counter[str]


def events(count: int) -> Columns:
    """Trades of the demo's stock market, with the changed fields as JSON."""
    market = Market(Random(SEED))
    names = list(market.stocks)
    columns = Columns()
    for number in range(count):
        name = names[number % len(names)]
        market.trade(name)
        fields = market.stocks[name].fields()
        changed = {key: fields[key] for key in ("last_price", "time", "bid", "ask")}
        value = json.dumps(changed, separators=(",", ":"))
        columns.add(f"STOCKS/{name}", START_MICROS + number, "update", "", value)
    return columns


def measured(count: int, action: Callable[[], None]) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Cost(count, time.perf_counter() - wall, time.process_time() - cpu)


# -- appending ----------------------------------------------------------------------------------------------------


def append_journal(directory: Path, columns: Columns, appends: int) -> None:
    journal = Journal(directory, JournalSettings(interval_millis=INTERVAL * 1000))
    for _ in range(appends):
        while True:
            try:
                journal.append(columns, Policy.INTERVAL)
                break
            except Overload:
                journal.room().result(WAIT_SECONDS)
    journal.flush().result(WAIT_SECONDS)
    journal.close()


def append_bare(path: Path, columns: Columns, appends: int) -> None:
    """The same columns, made into the same batches, written one by one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    revisions = [1] * len(columns)
    due = time.perf_counter() + INTERVAL
    for number in range(appends):
        batch = numbered(arrays(columns), number * len(columns) + 1, revisions)
        os.write(descriptor, batch.serialize())
        if time.perf_counter() > due:
            os.fdatasync(descriptor)
            due = time.perf_counter() + INTERVAL
    os.fdatasync(descriptor)
    os.close(descriptor)


def append_lines(path: Path, columns: Columns, appends: int) -> None:
    """One JSON object a line, joined and written by the batch."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    encode = json.JSONEncoder(separators=(",", ":")).encode
    due = time.perf_counter() + INTERVAL
    for number in range(appends):
        sequence = number * len(columns)
        lines = [
            encode(
                {
                    "sequence": sequence + index,
                    "entity": entity,
                    "revision": 1,
                    "timestamp": columns.timestamps[index],
                    "kind": columns.kinds[index],
                    "path": columns.paths[index],
                    "value": columns.values[index],
                    "headers": columns.headers[index],
                }
            )
            for index, entity in enumerate(columns.entities)
        ]
        lines.append("")
        os.write(descriptor, "\n".join(lines).encode())
        if time.perf_counter() > due:
            os.fdatasync(descriptor)
            due = time.perf_counter() + INTERVAL
    os.fdatasync(descriptor)
    os.close(descriptor)


# -- acknowledging ------------------------------------------------------------------------------------------------


def acknowledge_journal(directory: Path, columns: Columns, commits: int, window: int, groups: list[int]) -> None:
    """Keep `window` appends waiting for their acknowledgement; `groups` gets how many were committed for them."""
    journal = Journal(directory)
    waiting: deque[Future[None]] = deque()
    for _ in range(commits):
        if len(waiting) == window:
            waiting.popleft().result(WAIT_SECONDS)
        done = journal.append(columns, Policy.ACK).done
        assert done is not None
        waiting.append(done)
    while waiting:
        waiting.popleft().result(WAIT_SECONDS)
    journal.close()
    groups.append(journal.committed_groups)


def acknowledge_bare(path: Path, columns: Columns, commits: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    revisions = [1] * len(columns)
    for number in range(commits):
        os.write(descriptor, numbered(arrays(columns), number + 1, revisions).serialize())
        os.fdatasync(descriptor)
    os.close(descriptor)


# -- reading ------------------------------------------------------------------------------------------------------


def read_journal(directory: Path, failures: Counter[str], expected: int) -> None:
    reader = JournalReader(directory)
    following = 1
    for batch in reader.read():
        sequences = batch.column("sequence")
        if sequences[0].as_py() != following or sequences[-1].as_py() != following + batch.num_rows - 1:
            failures["a batch does not go on where the one before ended"] += 1
        following += batch.num_rows
    if following != expected + 1:
        failures[f"{following - 1:,} events read of {expected:,} appended"] += 1
    for damage in reader.damages:
        failures[str(damage)] += 1


def read_bare(path: Path, failures: Counter[str], expected: int) -> None:
    count = 0
    with pa.OSFile(str(path)) as file:
        while file.tell() < file.size():
            count += pa.ipc.read_record_batch(pa.ipc.read_message(file), SCHEMA).num_rows
    if count != expected:
        failures[f"{count:,} events read of {expected:,} written by the bare loop"] += 1


def read_lines(path: Path, failures: Counter[str], expected: int) -> None:
    with path.open() as file:
        count = sum(1 for line in file if json.loads(line))
    if count != expected:
        failures[f"{count:,} events read of {expected:,} written as lines"] += 1


# -- all of it ----------------------------------------------------------------------------------------------------


def measure(plan: Plan, directory: Path) -> Figures:
    """Every round does everything once, one way after the other, in fresh folders."""
    columns, few = events(plan.batch), events(1)
    appends = max(plan.events // plan.batch, 1)
    count = appends * plan.batch
    failures: Counter[str] = Counter()
    append: dict[str, list[Cost]] = {}
    acknowledge: dict[str, list[Cost]] = {}
    read: dict[str, list[Cost]] = {}
    for _ in range(plan.rounds):
        with tempfile.TemporaryDirectory(prefix=".bench-journal-", dir=directory) as folder:
            here = Path(folder)
            for name, write, check in (
                ("journal", append_journal, read_journal),
                ("bare Arrow loop", append_bare, read_bare),
                ("JSON lines", append_lines, read_lines),
            ):
                cost = measured(count, partial(write, here / name, columns, appends))
                append.setdefault(name, []).append(cost)
                cost = measured(count, partial(check, here / name, failures, count))
                read.setdefault(name, []).append(cost)
            for window in dict.fromkeys((1, 2, plan.window)):
                name = f"journal, {window} outstanding"
                groups: list[int] = []
                cost = measured(
                    plan.commits, partial(acknowledge_journal, here / name, few, plan.commits, window, groups)
                )
                if not plan.commits / window <= groups[0] <= plan.commits:
                    failures[f"{groups[0]:,} groups for {plan.commits:,} appends, {window} outstanding"] += 1
                acknowledge.setdefault(name, []).append(replace(cost, groups=groups[0]))
            name = "bare Arrow loop"
            cost = measured(plan.commits, partial(acknowledge_bare, here / "acknowledged", few, plan.commits))
            acknowledge.setdefault(name, []).append(replace(cost, groups=plan.commits))
    acknowledged = _medians(acknowledge)
    # Of the very runs above: two medians would compare one round's appends with another round's groups.
    commit = {name: replace(cost, count=cost.groups) for name, cost in acknowledged.items()}
    return Figures(_medians(append), acknowledged, commit, _medians(read), failures)


def _medians(rounds: dict[str, list[Cost]]) -> dict[str, Cost]:
    """The run in the middle, by wall time."""
    return {name: sorted(costs, key=lambda cost: cost.per_second)[len(costs) // 2] for name, costs in rounds.items()}


def show(report: Report, title: str, costs: dict[str, Cost]) -> None:
    """The first is ours; the ratio is ours to each, above 1 where the journal is faster."""
    ours = next(iter(costs.values()))
    rows = [
        (
            name,
            f"{cost.per_second:,.0f}",
            f"{ours.per_second / cost.per_second:.2f}",
            f"{cost.per_cpu_second:,.0f}",
            f"{ours.per_cpu_second / cost.per_cpu_second:.2f}",
        )
        for name, cost in costs.items()
    ]
    report.table(title, ("per second", "ratio", "per CPU-second", "ratio"), rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events, help="events to append (default %(default)s)")
    parser.add_argument("--batch", type=int, default=plan.batch, help="events an append (default %(default)s)")
    parser.add_argument("--commits", type=int, default=plan.commits, help="acknowledged appends (default %(default)s)")
    parser.add_argument(
        "--window", type=int, default=plan.window, help="acknowledgements outstanding (default %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=plan.rounds, help="of which the median counts (default %(default)s)"
    )
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk to measure (default: this one)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when anything read was not what was appended."""
    report = Report("journal")
    plan = Plan(options.events, options.batch, options.commits, options.window, options.rounds)
    figures = measure(plan, options.directory)
    show(report, f"{plan.events:,} events appended {plan.batch:,} at a time, synced every 50 ms", figures.append)
    show(
        report,
        f"{plan.commits:,} appends of one event, each on the disk before it is acknowledged",
        figures.acknowledge,
    )
    show(report, "the groups they were committed in", figures.commit)
    show(report, f"{plan.events:,} events read", figures.read)
    report.failures("the journal", figures.failures)
    return report.save()
