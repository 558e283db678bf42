"""What the tests of the journal share: records to append, what a reader sees of them, a journal driven step by step."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from penstock.journal.damage import Damage
from penstock.journal.disk import Disk
from penstock.journal.fence import SKIPPED, Fence
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns, arrays, numbered
from penstock.journal.recovery import Recovery, recover
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.journal.writer import SegmentWriter, group_of, group_of_batch

# A moment in microseconds; each record comes one second after the one before.
NOON = 1_700_000_000_000_000
SECOND = 1_000_000

# Sequence, entity, revision, value.
Row = tuple[int, str, int, str | None]


def columns(count: int = 1, entity: str = "item", kind: str = "update", at: int = NOON) -> Columns:
    """Records of one entity with values that tell them apart."""
    result = Columns()
    for number in range(count):
        result.add(entity, at + number * SECOND, kind, "", f"{entity}-{number}")
    return result


def rows_of(batches: Iterable[Any]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        names = ("sequence", "entity", "revision", "value")
        rows += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    return rows


def rows(disk: Disk, selection: EventSelection = EVERYTHING) -> tuple[list[Row], list[Damage]]:
    """Everything a new reader sees, and what it complains of."""
    reader = JournalReader(disk)
    return rows_of(reader.read(selection=selection)), reader.damages


class Scribe:
    """A journal without its thread: each call is one commit, so that a test decides what happens when."""

    def __init__(
        self,
        disk: Disk,
        segment_bytes: int = 1 << 20,
        segment_seconds: float = 3600.0,
        fence: Fence | None = None,
    ) -> None:
        self.now = NOON
        disk = disk if fence is None else fence.around(disk)
        in_order = fence is None or fence.enter(disk)
        self.recovery: Recovery = recover(disk)
        if not in_order:
            self.recovery.next += SKIPPED
        self.revisions = self.recovery.revisions
        self.next = self.recovery.next
        # Everything that was tried, whether or not it was committed.
        self.tried: list[Row] = []
        self.writer = SegmentWriter(
            disk,
            self.revisions,
            lambda: self.now,
            segment_bytes=segment_bytes,
            segment_micros=int(segment_seconds * SECOND),
            fence=fence,
        )
        self.writer.start(self.recovery.next, self.recovery.previous)

    def append(self, given: Columns, *, sync: bool = True) -> int:
        """Returns the last sequence."""
        revisions = []
        for entity in given.entities:
            self.revisions[entity] = self.revisions.get(entity, 0) + 1
            revisions.append(self.revisions[entity])
        batch = numbered(arrays(given), self.next, revisions)
        self.tried += rows_of([batch])
        self.next += len(given)
        self.writer.append(group_of(batch, given, self.next - len(given)), sync=sync)
        return self.next - 1

    def append_long(self, pieces: list[Columns]) -> int:
        """Returns the last sequence."""
        groups = []
        for given in pieces:
            revisions = []
            for entity in given.entities:
                self.revisions[entity] = self.revisions.get(entity, 0) + 1
                revisions.append(self.revisions[entity])
            batch = numbered(arrays(given), self.next, revisions)
            self.tried += rows_of([batch])
            self.next += len(given)
            groups.append(group_of_batch(batch))
        self.writer.append_long(iter(groups), groups[0].first, self.next - 1)
        return self.next - 1

    def close(self) -> None:
        self.writer.seal()
        self.writer.close()


def some_columns(random: Random) -> Columns:
    """A few records of a few entities; one in ten is large enough to span sectors."""
    result = Columns()
    for _ in range(random.randint(1, 5)):
        size = random.choice((0, 1, 20, 20, 20, 100, 100, 300, 300, 2500))
        value = None if size == 0 else random.randbytes(size // 2).hex()
        entity = f"item{random.randint(1, 6)}"
        result.add(entity, NOON + random.randint(0, 10**9), random.choice(("update", "delete")), "", value)
    return result
