"""One entity's events by revision or by time, in order, each once, from the lake and the journal together.

Blocking: call it in a thread, or take `AsyncHistory`. Memory is bounded by a row group of each file of one bucket,
however long the history. No JVM. Read next: `snapshot` for why nothing is doubled or missed, docs/pipeline.md.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import log
from penstock.history.footers import Footers, Wanted, integers, taken
from penstock.history.lake_root import LakeRoot, open_table, reading, unavailable
from penstock.history.layout import RETENTION, SEQUENCE, SUMMARY, SUMMARY_FOLDER, bucket_of
from penstock.history.snapshot import DataFile, Snapshot, Snapshots
from penstock.history.summary import facts, file_facts, joined
from penstock.journal.damage import Damage
from penstock.journal.errors import Expired
from penstock.journal.indexes import Indexes
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA as RECORD
from penstock.journal.selection import EventSelection

_log = log.get(__name__)


# Records of the journal that are enough to be handed out: with more to a table the first would come late.
_SOON_ROWS = 512


class JournaledEvent(NamedTuple):
    """A journaled event; `timestamp` in microseconds since 1970."""

    sequence: int
    entity: str
    revision: int
    timestamp: int
    kind: str
    path: str
    value: str | None
    headers: str | None


class History:
    """Of one journal and its lake, either of which may be missing. For any thread.

    If the lake is at a URL, every method may raise LakeUnavailable.
    """

    def __init__(self, journal: Path, lake: LakeRoot) -> None:
        self._journal = journal
        self._lake = lake
        self._snapshots = Snapshots(lake)
        self._footers = Footers(lake)
        # A journal's reader is for one thread, and worth keeping; what is large, they have together.
        self._readers: list[JournalReader] = []
        self._indexes = Indexes()
        self._readers_lock = threading.Lock()

    # -- one entity -----------------------------------------------------------------------------------------------

    def events(
        self, entity: str, first_revision: int | None = None, last_revision: int | None = None
    ) -> Iterator[JournaledEvent]:
        """Revisions from `first_revision` to `last_revision`, both included; None: no limit on that side.

        What was journaled before the call is there, later events may be. A hole in the revisions is what the journal
        lost, or what retention dropped.
        """
        return _events(self.read(entity, first=first_revision, last=last_revision))

    def events_between(
        self, entity: str, since: int | None = None, until: int | None = None
    ) -> Iterator[JournaledEvent]:
        """By time, in microseconds since 1970, `until` not included; ordered by revision all the same."""
        return _events(self.read(entity, since=since, until=until))

    def first(self, entity: str) -> JournaledEvent | None:
        """The oldest that retention has left."""
        return next(self.events(entity), None)

    def last(self, entity: str, until: int | None = None) -> JournaledEvent | None:
        """The newest; with `until`, in microseconds since 1970, that of those before it. Read backwards."""
        wanted = Wanted(entity, until=until)
        floor = 0
        while True:
            snapshot = self._snapshots.current()
            try:
                newest = self._last_hot(wanted, max(snapshot.sequence, floor))
                if newest is None:
                    newest = self._last_in_lake(wanted, snapshot)
            except (Expired, OSError) as error:
                floor = self._again(snapshot, error, floor)
                continue
            return None if newest is None else next(_events([newest]))

    def last_revision(self, entity: str, until: int | None = None) -> int:
        """Of the event that is `last`; 0 if there is none."""
        newest = self.last(entity, until)
        return 0 if newest is None else newest.revision

    def read(
        self,
        entity: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Iterator[Any]:
        """The same as Arrow tables in the journal's columns, none of them empty; by revision, time, or both."""
        wanted = Wanted(entity, first, last, since, until)
        # The last sequence handed out: an entity's sequences and revisions rise together.
        given = floor = 0
        while True:
            snapshot = self._snapshots.current()
            try:
                for table in self._both(wanted, snapshot, given, floor):
                    given = table.column("sequence")[-1].as_py()
                    yield table
                    if (
                        wanted.last_revision is not None
                        and table.column("revision")[-1].as_py() >= wanted.last_revision
                    ):
                        return
                return
            except (Expired, OSError) as error:
                floor = self._again(snapshot, error, floor)

    # -- all of them ----------------------------------------------------------------------------------------------

    def check_whole(self) -> None:
        """Raises Expired if there are sequences that the journal has dropped and the lake does not have."""
        snapshot = self._snapshots.refresh()
        if self._journal.is_dir():
            with self._reader() as reader:
                reader.plan(snapshot.sequence + 1, snapshot.sequence + 2, 1)

    def summary(self) -> Any:
        """First and last revision, earliest and latest time, and how many, of each entity, as of now: an Arrow table.

        Written by the pipeline at each compaction; only what came since is read.
        """
        floor = 0
        while True:
            snapshot = self._snapshots.refresh()
            try:
                return joined(self._all_facts(snapshot, floor))
            except (Expired, OSError) as error:
                floor = self._again(snapshot, error, floor)

    def _all_facts(self, snapshot: Snapshot, floor: int) -> Iterator[Any]:
        known = 0
        table = open_table(self._lake / SUMMARY_FOLDER)
        if table is not None:
            with reading(self._lake):
                covered = table.transaction_version(SEQUENCE) or 0
                retentions = table.transaction_version(RETENTION) or 0
                written = table.to_pyarrow_dataset()
            # One that is newer than the snapshot counts events that are still to be read from the journal.
            if retentions == snapshot.retentions and covered <= snapshot.sequence:
                known = covered
                yield written.to_table().cast(SUMMARY)
        for file in snapshot.files():
            if file.last > known:
                yield from file_facts(self._lake, file.path, known)
        if self._journal.is_dir():
            with self._reader() as reader:
                for batch in reader.read(max(snapshot.sequence, floor) + 1):
                    yield facts(pa.Table.from_batches([batch]))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _both(self, wanted: Wanted, snapshot: Snapshot, given: int, floor: int) -> Iterator[Any]:
        yield from self._cold(wanted, snapshot, given)
        yield from self._hot(wanted, max(snapshot.sequence, given, floor))

    def _cold(self, wanted: Wanted, snapshot: Snapshot, after: int) -> Iterator[Any]:
        """The lake's part, merged from the files of the entity's bucket.

        Ordered by sequence, which for one entity is the order of revisions: batches follow one another in sequence, so
        that a file's turn is known before it is looked at, and few are held at once.
        """
        sources = [
            file
            for file in snapshot.buckets[bucket_of(wanted.entity)]
            if file.last > after
            and wanted.may_hold((file.first_revision, file.last_revision), (file.earliest, file.latest))
        ]
        # Sequence from which on a source has something, its number, and the table at hand if it was looked at.
        heap: list[tuple[int, int, Any]] = [(file.first, number, None) for number, file in enumerate(sources)]
        heapq.heapify(heap)
        rows = [self._footers.rows(file.path, wanted) for file in sources]
        while heap:
            _, number, table = heapq.heappop(heap)
            if table is None:
                table = next(rows[number], None)
                if table is not None:
                    heapq.heappush(heap, (table.column("sequence")[0].as_py(), number, table))
                continue
            sequences = integers(table.column("sequence"))
            # Up to where the next source may begin: a sequence is in one place only, so its own is included.
            count = int(np.searchsorted(sequences, heap[0][0], "right")) if heap else len(sequences)
            skipped = int(np.searchsorted(sequences, after, "right"))
            if count > skipped:
                yield table.slice(skipped, count - skipped)
            if count < len(sequences):
                heapq.heappush(heap, (int(sequences[count]), number, table.slice(count)))
            else:
                heapq.heappush(heap, (int(sequences[-1]) + 1, number, None))

    def _hot(self, wanted: Wanted, after: int) -> Iterator[Any]:
        """The journal's part. Raises Expired."""
        if not self._journal.is_dir():
            return
        # As a pattern it may match more, if there is a wildcard in the name itself.
        selection = EventSelection(entities=(wanted.entity,), since=wanted.since, until=wanted.until)
        start = after + 1
        with self._reader() as reader:
            if wanted.first_revision is not None and wanted.first_revision > 1 and not _is_pattern(wanted.entity):
                start = reader.seek(start, wanted.entity, wanted.first_revision)
            rows = _SOON_ROWS
            if wanted.first_revision is not None and wanted.last_revision is not None:
                rows = max(1, min(rows, wanted.last_revision - wanted.first_revision + 1))
            for batch in reader.read(start, selection=selection, rows=rows):
                table = pa.Table.from_batches([batch])
                if _is_pattern(wanted.entity):
                    table = table.filter(pc.equal(table.column("entity"), wanted.entity))
                chosen = wanted.rows(table)
                if len(chosen):
                    yield table if len(chosen) == table.num_rows else taken(table, chosen)

    def _last_hot(self, wanted: Wanted, after: int) -> Any:
        """The journal's last row, as a table of one; None when it has none. Raises Expired."""
        if not self._journal.is_dir():
            return None
        if _is_pattern(wanted.entity):
            tables = deque(self._hot(wanted, after), maxlen=1)
            return tables[0].slice(tables[0].num_rows - 1) if tables else None
        with self._reader() as reader:
            batch = reader.last(after + 1, EventSelection(entities=(wanted.entity,), until=wanted.until))
        return None if batch is None else pa.Table.from_batches([batch])

    def _last_in_lake(self, wanted: Wanted, snapshot: Snapshot) -> Any:
        best = None
        found = 0
        for file in sorted(snapshot.buckets[bucket_of(wanted.entity)], key=_last_sequence, reverse=True):
            if file.last <= found:
                break
            if not wanted.may_hold((file.first_revision, file.last_revision), (file.earliest, file.latest)):
                continue
            row = self._footers.get(file.path).last(wanted)
            if row is not None and row.column("sequence")[0].as_py() > found:
                best, found = row, row.column("sequence")[0].as_py()
        return best

    @contextmanager
    def _reader(self) -> Iterator[JournalReader]:
        with self._readers_lock:
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = JournalReader(self._journal, report=_report, indexes=self._indexes)
        try:
            yield reader
        finally:
            with self._readers_lock:
                self._readers.append(reader)

    def _again(self, snapshot: Snapshot, error: Expired | OSError, floor: int) -> int:
        """After something vanished: the sequence behind which the journal is to be read in the next attempt, at least.

        Usually there is a newer version of the lake: it has what retention dropped from the journal or, in other files,
        what compaction has replaced.
        """
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise unavailable(self._lake, "read", error)
        if self._snapshots.refresh().version != snapshot.version:
            return floor
        if isinstance(error, OSError):
            raise error
        # Dropped by hand, or with no lake to keep it: the revisions have a hole.
        _log.warning("history has a gap", lake=str(self._lake), after=snapshot.sequence, earliest=error.earliest)
        return error.earliest - 1


class AsyncHistory:
    """The same for a loop: each step that may block is taken in a thread."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def events(
        self, entity: str, first_revision: int | None = None, last_revision: int | None = None
    ) -> AsyncIterator[JournaledEvent]:
        async for event in _in_threads(self._history.read(entity, first=first_revision, last=last_revision)):
            yield event

    async def events_between(
        self, entity: str, since: int | None = None, until: int | None = None
    ) -> AsyncIterator[JournaledEvent]:
        async for event in _in_threads(self._history.read(entity, since=since, until=until)):
            yield event

    async def first(self, entity: str) -> JournaledEvent | None:
        return await asyncio.to_thread(self._history.first, entity)

    async def last(self, entity: str, until: int | None = None) -> JournaledEvent | None:
        return await asyncio.to_thread(self._history.last, entity, until)

    async def summary(self) -> Any:
        return await asyncio.to_thread(self._history.summary)


async def _in_threads(batches: Iterator[Any]) -> AsyncIterator[JournaledEvent]:
    while (table := await asyncio.to_thread(next, batches, None)) is not None:
        for event in _events([table]):
            yield event


# Rows made into Python objects at once: a caller that wants one does not pay for thousands.
_SOME = 256


def _events(tables: Iterable[Any]) -> Iterator[JournaledEvent]:
    for table in tables:
        for start in range(0, table.num_rows, _SOME):
            part = table.slice(start, _SOME)
            columns = [
                (part.column(name).cast(pa.int64()) if name == "timestamp" else part.column(name)).to_pylist()
                for name in RECORD.names
            ]
            yield from map(JournaledEvent._make, zip(*columns, strict=True))


def _is_pattern(entity: str) -> bool:
    """Whether the journal would take the name for others as well."""
    return "*" in entity or "?" in entity


def _last_sequence(file: DataFile) -> int:
    return file.last


def _report(damage: Damage) -> None:
    _log.error("journal damaged", file=damage.file, position=damage.position, damage=str(damage))
