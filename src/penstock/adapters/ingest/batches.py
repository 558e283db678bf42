"""Batches of pipelines, exactly once: all rows and the number of the batch are one append to the journal; once on the
disk they are published, then remembered.

One batch at a time. Rows may come in stages before it. Not here: HTTP (`sink`), the effect of rows (`draft`), the state
after a restart (`memory`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.adapters.ingest.draft import MAX_ERRORS, Draft
from penstock.adapters.ingest.errors import SMALLER, Busy, RowsRefused, TooLarge, Unavailable, UnknownStage
from penstock.adapters.ingest.states import ItemState
from penstock.journal.entity import batch_entity
from penstock.journal.errors import BadRecord, JournalError
from penstock.journal.record import Columns
from penstock.journal.recorder import BATCH, UPDATE, JournalItemRecorder
from penstock.kernel.ports import CheckedEvent
from penstock.log import get

if TYPE_CHECKING:
    import pyarrow

log = get(__name__)

# Bytes that the rows of a batch may take in the journal; see `journal.MAX_APPEND`, of which Arrow's own part is left.
MAX_BATCH = 31 * 1024 * 1024

# What a record takes besides its entity and value; and, in memory alone, a field of an item that is not journaled.
RECORD_BYTES = 48
FIELD_BYTES = 16

# Rows that are processed before others get a turn.
TURN = 1_000

# Seconds that a stage is kept for its commit.
STAGE_SECONDS = 600.0

# Counted for a stage in addition to its rows, so that empty ones are not free.
STAGE_BYTES = 1_024

# Queries whose last batch is remembered; beyond it the one that has been silent for longest is forgotten. Each new
# checkpoint of a pipeline is a new query.
MAX_QUERIES = 10_000


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch."""

    rows: int
    ignored: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class _Stage:
    batches: Sequence[pyarrow.RecordBatch]
    size: int
    since: float


class Batches:
    """Of one adapter: `known` and `fresh` are its items as `Draft` wants them, `publish` makes a batch true."""

    def __init__(
        self,
        recorder: JournalItemRecorder,
        known: dict[str, ItemState],
        fresh: Callable[[str, int], ItemState],
        publish: Callable[[dict[str, ItemState], list[tuple[str, CheckedEvent]]], None],
        lock: asyncio.Lock,
        max_staged_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.recorder = recorder
        # The last batch of each query, the query that committed last at the end.
        self.queries: dict[str, int] = {}
        self.staged_bytes = 0
        self._known = known
        self._fresh = fresh
        self._publish = publish
        self._lock = lock
        self._max_staged_bytes = max_staged_bytes
        self._clock = clock
        self._now = now
        # By query and batch, then by their own names.
        self._stages: dict[tuple[str, int], dict[str, _Stage]] = {}
        self._closed = False

    # -- stages ---------------------------------------------------------------------------------------------------

    def stage(self, query: str, batch: int, name: str, batches: Sequence[pyarrow.RecordBatch]) -> None:
        """Keep rows for a commit, in place of what had this name. Raises TooLarge, Busy."""
        if self.is_repeated(query, batch):
            return
        self.expire()
        stages = self._stages.get((query, batch), {})
        size = STAGE_BYTES + sum(batch.get_total_buffer_size() for batch in batches)
        old = stages[name].size if name in stages else 0
        own = sum(stage.size for stage in stages.values()) - old + size
        if own > self._max_staged_bytes:
            raise TooLarge(
                f"the stages of batch {batch} hold {own} bytes; max_staged_bytes = {self._max_staged_bytes}:"
                f" raise it, or use smaller batches: {SMALLER}"
            )
        if self.staged_bytes - old + size > self._max_staged_bytes:
            raise Busy(f"{self.staged_bytes} bytes are already staged; max_staged_bytes = {self._max_staged_bytes}")
        stages[name] = _Stage(batches, size, self._clock())
        self._stages[query, batch] = stages
        self.staged_bytes += size - old

    def drop(self, query: str, batch: int) -> None:
        """Forget the stages of a batch."""
        for stage in self._stages.pop((query, batch), {}).values():
            self.staged_bytes -= stage.size

    def expire(self) -> None:
        """Forget stages that were not committed in time."""
        before = self._clock() - STAGE_SECONDS
        for (query, batch), stages in list(self._stages.items()):
            for name in [name for name, stage in stages.items() if stage.since < before]:
                self.staged_bytes -= stages.pop(name).size
                log.warning("stage of a batch has expired", query=query, batch=batch, stage=name)
            if not stages:
                del self._stages[query, batch]

    # -- batches --------------------------------------------------------------------------------------------------

    def is_repeated(self, query: str, batch: int) -> bool:
        return batch <= self.queries.get(query, -1)

    async def put(self, query: str, batch: int, mode: str, batches: Sequence[pyarrow.RecordBatch]) -> BatchOutcome:
        """Commit rows. Raises RowsRefused, TooLarge, Unavailable: then nothing has changed."""
        return await _finished(self._commit(query, batch, mode, lambda: [(None, batches)]))

    async def commit(self, query: str, batch: int, mode: str, names: Sequence[str]) -> BatchOutcome:
        """Commit what was staged, in the order of these names. Raises what `put` raises, and UnknownStage."""
        return await _finished(self._commit(query, batch, mode, lambda: self._staged(query, batch, names)))

    async def close(self) -> None:
        """Returns when the last batch is done; others are refused from now on."""
        self._closed = True
        async with self._lock:
            pass

    def _staged(
        self, query: str, batch: int, names: Sequence[str]
    ) -> list[tuple[str | None, Sequence[pyarrow.RecordBatch]]]:
        stages = self._stages.get((query, batch), {})
        for name in names:
            if name not in stages:
                raise UnknownStage(f"stage {name[:60]!r} of batch {batch} is not known; stage it again")
        return [(name, stages[name].batches) for name in names]

    async def _commit(
        self,
        query: str,
        batch: int,
        mode: str,
        stages: Callable[[], list[tuple[str | None, Sequence[pyarrow.RecordBatch]]]],
    ) -> BatchOutcome:
        async with self._lock:
            if self._closed:
                raise Unavailable("the server is going down")
            if self.is_repeated(query, batch):
                return BatchOutcome(0, 0, True)
            draft = Draft(mode, self._known, self._fresh)
            columns = await self._write(draft, stages())
            marker = batch_entity(self.recorder.adapter_set, self.recorder.adapter, query)
            columns.add(marker, self._now(), BATCH, "", f'{{"batch":{batch},"rows":{draft.rows}}}')
            await self._append(columns)
            # From here on it is committed, even if publishing fails.
            remember(self.queries, query, batch)
            self._publish(draft.states, draft.events)
            for other_query, other in list(self._stages):
                if other_query == query and other <= batch:
                    self.drop(query, other)
            return BatchOutcome(draft.rows, draft.ignored, False)

    async def _write(self, draft: Draft, stages: list[tuple[str | None, Sequence[pyarrow.RecordBatch]]]) -> Columns:
        """Draft the batch, and journal what has to be journaled."""
        columns = Columns()
        written = size = 0
        for name, batches in stages:
            if name is not None:
                draft.begin_stage(name)
            for part in _turns(batches):
                try:
                    draft.take(part)
                except ValueError as error:
                    raise RowsRefused([{"row": draft.rows + 1, "error": str(error)}]) from error
                timestamp = self._now()
                for item, event in draft.events[written:]:
                    size += RECORD_BYTES
                    if self.recorder.wants(item):
                        self.recorder.write(columns, item, UPDATE, event, timestamp)
                        size += len(columns.values[-1] or "") + len(columns.entities[-1])
                    else:
                        size += FIELD_BYTES * len(event)
                written = len(draft.events)
                if size > MAX_BATCH:
                    raise TooLarge(
                        f"the first {draft.rows} rows of the batch take {size} bytes in the journal; at most"
                        f" {MAX_BATCH} fit into one batch: {SMALLER}"
                    )
                if len(draft.errors) >= MAX_ERRORS:
                    break
                await asyncio.sleep(0)
        draft.check()
        return columns

    async def _append(self, columns: Columns) -> None:
        try:
            done = self.recorder.gatherer.append(columns).done
            assert done is not None
            await asyncio.wrap_future(done)
        except BadRecord as bad:
            raise TooLarge(f"{bad}: {SMALLER}") from bad
        except JournalError as error:
            raise Unavailable(str(error)) from error


def remember(queries: dict[str, int], query: str, batch: int) -> None:
    """A batch has been committed; the query goes to the end."""
    last = queries.pop(query, -1)
    queries[query] = max(batch, last)
    if len(queries) > MAX_QUERIES:
        del queries[next(iter(queries))]


def _turns(batches: Sequence[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, TURN):
            yield batch.slice(start, TURN)


async def _finished(work: Coroutine[Any, Any, BatchOutcome]) -> BatchOutcome:
    """Done to its end, also if the client goes away: what the journal has must be published."""
    return await asyncio.shield(asyncio.ensure_future(work))
