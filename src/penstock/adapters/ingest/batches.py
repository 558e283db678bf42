"""Batches of pipelines, exactly once: all rows and the number of the batch are one append to the journal; once on the
disk they are published, then remembered.

One batch at a time. Rows may come in stages before it (`stages`). The events of a small batch are in memory, published
in one turn; those of a large one go through a file (`spool`), in one long append and in many turns. Not here: HTTP
(`batch_routes`), the effect of rows (`draft`), the state after a restart (`memory`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.adapters.ingest.draft import MAX_ERRORS, Draft
from penstock.adapters.ingest.errors import RowsRefused, TooLarge, Unavailable
from penstock.adapters.ingest.spool import EventSpool
from penstock.adapters.ingest.stages import Stages
from penstock.adapters.ingest.states import ItemState
from penstock.journal.entity import batch_entity
from penstock.journal.errors import BadRecord, JournalError
from penstock.journal.journal import Receipt
from penstock.journal.long import LongReceipt, RevisionCounter
from penstock.journal.record import Columns
from penstock.journal.recorder import BATCH, UPDATE, JournalItemRecorder
from penstock.kernel.ports import CheckedEvent
from penstock.log import get

if TYPE_CHECKING:
    import pyarrow

log = get(__name__)

# About how many characters the events of a batch may take in memory; beyond it they go through a file. Larger batches
# would take many times as many bytes, and hold up everybody else while they are published in one turn.
LARGE_BATCH = 6 * 1024 * 1024

# What a record takes besides its entity and value; and, in memory alone, a field of an item that is not journaled.
RECORD_BYTES = 48
FIELD_BYTES = 16

# Rows that are processed before others get a turn.
TURN = 1_000

# Queries whose last batch is remembered; beyond it the one that has been silent for longest is forgotten. Each new
# checkpoint of a pipeline is a new query.
MAX_QUERIES = 10_000

R = TypeVar("R")

# Rows of a batch, in order, with the names of their stages.
BatchRows = AsyncIterator[tuple[str | None, Sequence["pyarrow.RecordBatch"]]]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch."""

    rows: int
    ignored: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Publishing:
    """How a batch becomes true: `whole` takes all of it in one turn, with the states that result; `some` the next
    events of one that takes many turns, and `settle` the states at its end.
    """

    whole: Callable[[dict[str, ItemState], list[tuple[str, CheckedEvent]]], None]
    some: Callable[[list[tuple[str, CheckedEvent]]], None]
    settle: Callable[[dict[str, ItemState]], None]


class Batches:
    """Of one adapter: `known` and `fresh` are its items as `Draft` wants them."""

    def __init__(
        self,
        recorder: JournalItemRecorder,
        known: dict[str, ItemState],
        fresh: Callable[[str, int], ItemState],
        publishing: Publishing,
        lock: asyncio.Lock,
        directory: Path,
        max_staged_bytes: int,
        max_staged_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.recorder = recorder
        # The last batch of each query, the query that committed last at the end.
        self.queries: dict[str, int] = {}
        self.stages = Stages(directory, max_staged_bytes, max_staged_seconds, clock)
        self._known = known
        self._fresh = fresh
        self._publishing = publishing
        self._lock = lock
        self._max_bytes = max_staged_bytes
        self._now = now
        # Commits that are at work, by all that they were asked for.
        self._running: dict[tuple[str, int, str, tuple[str, ...]], asyncio.Future[BatchOutcome]] = {}
        self._closed = False

    async def recall(self, queries: dict[str, int]) -> None:
        """What was known before a restart: the last batches, and stages of later ones."""
        self.queries.update(queries)
        await self.stages.recall()
        for query, batch in self.stages.known():
            if self.is_repeated(query, batch):
                self.stages.drop(query, batch)

    # -- stages ---------------------------------------------------------------------------------------------------

    async def stage(self, query: str, batch: int, name: str, batches: Sequence[pyarrow.RecordBatch]) -> bool:
        """Keep rows for a commit; whether the batch was committed before, which makes them superfluous.

        Raises StageConflict, TooLarge, Busy, Unavailable.
        """
        if self.is_repeated(query, batch):
            return True
        await _finished(self.stages.put(query, batch, name, batches))
        if not self.is_repeated(query, batch):
            return False
        # Meanwhile.
        self.stages.drop_until(query, batch)
        return True

    def drop(self, query: str, batch: int) -> None:
        """Forget the stages of a batch. Raises Busy if it is being committed."""
        self.stages.drop(query, batch)

    # -- batches --------------------------------------------------------------------------------------------------

    def is_repeated(self, query: str, batch: int) -> bool:
        return batch <= self.queries.get(query, -1)

    async def put(self, query: str, batch: int, mode: str, batches: Sequence[pyarrow.RecordBatch]) -> BatchOutcome:
        """Commit rows. Raises RowsRefused, TooLarge, Unavailable: then nothing has changed."""
        return await _finished(self._commit(query, batch, mode, None, batches))

    async def commit(self, query: str, batch: int, mode: str, names: Sequence[str]) -> BatchOutcome:
        """Commit what was staged, in the order of these names. Raises what `put` raises, and UnknownStage.

        A sender that has lost patience and asks again waits for the same commit: a large one takes its time.
        """
        key = query, batch, mode, tuple(names)
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.ensure_future(self._commit(query, batch, mode, names, ()))
            running.add_done_callback(lambda _: self._running.pop(key))
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Returns when the last batch is done; others are refused from now on."""
        self._closed = True
        async with self._lock:
            pass

    async def _staged(self, query: str, batch: int, names: Sequence[str]) -> BatchRows:
        for name in names:
            yield name, await self.stages.rows(query, batch, name)

    async def _commit(
        self,
        query: str,
        batch: int,
        mode: str,
        names: Sequence[str] | None,
        rows: Sequence[pyarrow.RecordBatch],
    ) -> BatchOutcome:
        """Commit the stages of these names or, without names, the rows."""
        async with self._lock:
            if self._closed:
                raise Unavailable("the server is shutting down")
            if self.is_repeated(query, batch):
                return BatchOutcome(0, 0, True)
            failure = self.recorder.gatherer.journal.failure
            if failure is not None:
                # A large batch would be read in vain.
                raise Unavailable(str(failure))
            self.stages.check(query, batch, names or ())
            source = _given(rows) if names is None else self._staged(query, batch, names)
            self.stages.held.add((query, batch))
            try:
                outcome = await self._carry_out(query, batch, mode, source)
            finally:
                self.stages.held.discard((query, batch))
            self.stages.drop_until(query, batch)
            return outcome

    async def _carry_out(self, query: str, batch: int, mode: str, source: BatchRows) -> BatchOutcome:
        draft = Draft(mode, self._known, self._fresh)
        columns = Columns()
        spool: EventSpool | None = None
        try:
            size = written = 0
            async for part in _parts(draft, source):
                try:
                    draft.take(part)
                except ValueError as error:
                    raise RowsRefused([{"row": draft.rows + 1, "error": str(error)}]) from error
                if len(draft.errors) >= MAX_ERRORS:
                    break
                if spool is None:
                    size += self._write(columns, draft.events[written:])
                    written = len(draft.events)
                    if size > LARGE_BATCH:
                        spool = EventSpool(self.stages.directory, self.recorder, self._max_bytes)
                        columns = Columns()
                if spool is not None:
                    events, draft.events = draft.events, []
                    await spool.add(events, self._now())
                await asyncio.sleep(0)
            draft.check()
            if spool is None:
                await self._append(query, batch, draft, columns)
            else:
                await self._append_long(query, batch, draft, spool)
        except OSError as error:
            raise Unavailable(f"the events of a large batch cannot be kept: {error.strerror or error}") from error
        finally:
            if spool is not None:
                await spool.close()
        return BatchOutcome(draft.rows, draft.ignored, False)

    def _write(self, columns: Columns, events: Sequence[tuple[str, CheckedEvent]]) -> int:
        """Add those events that are journaled; returns about how much all of them take."""
        timestamp = self._now()
        size = RECORD_BYTES * len(events)
        for item, event in events:
            if self.recorder.wants(item):
                self.recorder.write(columns, item, UPDATE, event, timestamp)
                size += len(columns.values[-1] or "") + len(columns.entities[-1])
            else:
                size += FIELD_BYTES * len(event)
        return size

    async def _append(self, query: str, batch: int, draft: Draft, columns: Columns) -> None:
        marker = batch_entity(self.recorder.adapter_set, self.recorder.adapter, query)
        columns.add(marker, self._now(), BATCH, "", f'{{"batch":{batch},"rows":{draft.rows}}}')
        try:
            done = self.recorder.gatherer.append(columns).done
            assert done is not None
            await asyncio.wrap_future(done)
        except BadRecord as bad:
            raise TooLarge(str(bad)) from bad
        except JournalError as error:
            raise Unavailable(str(error)) from error
        # From here on it is committed, even if publishing fails.
        remember(self.queries, query, batch)
        self._publishing.whole(draft.states, draft.events)

    async def _append_long(self, query: str, batch: int, draft: Draft, spool: EventSpool) -> None:
        await spool.end(query, batch, draft.rows, self._now())
        try:
            receipt = self.recorder.gatherer.append_long(spool.records())
            await asyncio.wrap_future(receipt.done)
        except JournalError as error:
            raise Unavailable(str(error)) from error
        remember(self.queries, query, batch)
        try:
            await self._publish(spool, receipt)
        except OSError as error:
            # Subscribers miss events, as after a crash; the journal and later subscribers do not.
            log.error("a batch is journaled, but not all of it was sent to clients", query=query, reason=str(error))
        finally:
            self._publishing.settle(draft.states)

    async def _publish(self, spool: EventSpool, receipt: LongReceipt) -> None:
        first, counter = receipt.first, RevisionCounter(receipt.before)
        gatherer = self.recorder.gatherer
        async for piece in spool.pieces(TURN):
            self._publishing.some(piece.events)
            revisions = counter.next(piece.journaled.entities)
            if revisions:
                gatherer.tell(piece.journaled, Receipt(first, revisions, None))
                first += len(revisions)
            await asyncio.sleep(0)


def remember(queries: dict[str, int], query: str, batch: int) -> None:
    """A batch has been committed; the query goes to the end."""
    last = queries.pop(query, -1)
    queries[query] = max(batch, last)
    if len(queries) > MAX_QUERIES:
        del queries[next(iter(queries))]


async def _given(rows: Sequence[pyarrow.RecordBatch]) -> BatchRows:
    yield None, rows


async def _parts(draft: Draft, source: BatchRows) -> AsyncIterator[pyarrow.RecordBatch]:
    """The rows of a batch, a turn at a time; the draft is told where a stage begins."""
    async for name, batches in source:
        if name is not None:
            draft.begin_stage(name)
        for batch in batches:
            for start in range(0, batch.num_rows, TURN):
                yield batch.slice(start, TURN)


async def _finished(work: Coroutine[Any, Any, R]) -> R:
    """Done to its end, also if the client goes away: what the journal has must be published."""
    return await asyncio.shield(asyncio.ensure_future(work))
