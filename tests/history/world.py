"""A journal, its lake and a plain list of all events; what the job `history` does, step by step, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from penstock.history.lake_root import open_file
from penstock.history.layout import bucket_of
from penstock.history.reader import History, JournaledEvent
from penstock.journal.erasing import Crash
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA, Columns
from penstock.journal.retention import Retention
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake, nowhere

NOON = 1_700_000_000_000_000
SECOND = 1_000_000
DAY = 86_400 * SECOND


class World:
    """`events` is what a history has to show; what retention may take is taken from it by the test."""

    def __init__(self, root: Path, *, segment_bytes: int = 40_000, lake: Any = None) -> None:
        """`lake` is where it is, if not in the directory: a LakeUrl."""
        self.path = root / "journal"
        self.root: Any = root / "lake" if lake is None else lake
        self.journal = Journal(self.path, JournalSettings(segment_bytes=segment_bytes, interval_millis=1))
        self.lake = Lake(self.root)
        self.events: list[JournaledEvent] = []
        self.history = History(self.path, self.root)

    def close(self) -> None:
        self.journal.close()

    def append(self, rows: list[tuple[str, int, str | None]]) -> None:
        """Entity, time, value."""
        columns = Columns()
        for entity, timestamp, value in rows:
            columns.add(entity, timestamp, "update" if value is not None else "clear", "", value, None)
        receipt = self.journal.append(columns, Policy.ACK)
        assert receipt.done is not None
        receipt.done.result(timeout=30)
        for number, ((entity, timestamp, value), revision) in enumerate(zip(rows, receipt.revisions, strict=True)):
            kind = "update" if value is not None else "clear"
            self.events.append(
                JournaledEvent(receipt.first + number, entity, revision, timestamp, kind, "", value, None)
            )

    def fill(self, count: int, entities: int = 3) -> None:
        """Events of a few entities in turn, a second apart."""
        first = len(self.events)
        self.append([(f"item-{n % entities}", NOON + n * SECOND, str(n)) for n in range(first, first + count)])

    def move(self, stop: int | None = None, tasks: int = 1, crash: Crash = nowhere) -> int:
        """One batch of the job: journal to lake, up to before `stop`."""
        after = self.lake.sequence()
        told: list[Written] = []
        for share in JournalReader(self.path).plan(after + 1, stop, tasks):
            batches = JournalReader(self.path).read_slices(share)
            told += written(write_task(self.root, after)(batches))
        return self.lake.adopt(self.path, after, told, crash)

    def drop(self) -> list[int]:
        """All sealed segments that the lake has."""
        return self.journal.retain(Retention(max_bytes=0), self.lake.sequence())

    def of(self, entity: str, **bounds: int | None) -> list[JournaledEvent]:
        """The same as History.read, from the list."""
        first, last, since, until = (bounds.get(name) for name in ("first", "last", "since", "until"))
        return [
            event
            for event in self.events
            if event.entity == entity
            and (first is None or event.revision >= first)
            and (last is None or event.revision <= last)
            and (since is None or event.timestamp >= since)
            and (until is None or event.timestamp < until)
        ]


def written(batches: Any) -> list[Written]:
    return [Written(**row) for batch in batches for row in batch.to_pylist()]


def events_of(tables: Any) -> list[JournaledEvent]:
    return [event for table in tables for event in rows(table)]


def rows(table: Any) -> list[JournaledEvent]:
    assert table.schema.equals(SCHEMA)
    assert table.num_rows
    columns = [table.column(name) for name in SCHEMA.names]
    columns[3] = columns[3].cast(pa.int64())
    return [JournaledEvent(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def whole_lake(lake: Lake) -> list[JournaledEvent]:
    """Every row, by sequence, read file by file; checks that files are sorted and in the right bucket."""
    import pyarrow.parquet as pq

    result: list[JournaledEvent] = []
    for file in lake.files():
        part = rows(pq.read_table(open_file(lake.root, file.path), partitioning=None).cast(SCHEMA))
        assert part == sorted(part, key=lambda event: (event.entity, event.revision))
        assert {bucket_of(event.entity) for event in part} == {file.bucket}
        assert (len(part), min(e.sequence for e in part), max(e.sequence for e in part)) == (
            file.rows,
            file.first,
            file.last,
        )
        if isinstance(lake.root, Path):
            assert os.path.getsize(lake.root / file.path) == file.size
        result += part
    return sorted(result)


def random_rows(random: Random, names: list[str], count: int) -> list[tuple[str, int, str | None]]:
    """Times that mostly rise, and sometimes jump."""
    base = NOON + random.randrange(1000) * SECOND
    return [
        (
            random.choice(names),
            base + random.randrange(-600, 600) * SECOND,
            None if random.random() < 0.1 else random.randbytes(random.choice((2, 10, 60))).hex(),
        )
        for _ in range(count)
    ]
