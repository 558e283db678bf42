"""The history of one thing or policy on its way to a client: read and filtered in threads, returned in batches.

One for each streaming subscription or stream of server-sent events. Who may read it is decided in `service`; where the
records are is known to the reader that is passed in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from msgspec import UNSET, Raw

from penstock.twins.items import change_of_item
from penstock.twins.ports import WholeArchive
from penstock.twins.record import Record
from penstock.wire.ditto.document import Json, parse, text_of
from penstock.wire.ditto.envelope import Headers
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.ranges import Range
from penstock.wire.ditto.rql import Query
from penstock.wire.ditto.topic import Topic
from penstock.wire.ditto.twin import TwinEvent

# Events returned at once, and about the most bytes of them, because an event may be as large as a thing.
BATCH = 512
BATCH_BYTES = 1024 * 1024

_COLUMNS = ["kind", "path", "value", "revision", "timestamp"]


class HistoryReader(WholeArchive, Protocol):
    """`penstock.history.reader.History`."""

    def read(
        self,
        entity: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Iterator[Any]: ...


class PastRow(NamedTuple):
    """One event, ready for `wire.ditto.twin.EventItems.item(*row)`: `value` is JSON, `timestamp` in microseconds."""

    kind: str
    path: str
    value: str | None
    revision: int
    timestamp: int
    # The headers that were journaled with it and are to be sent, as JSON.
    kept: str | None = None

    def event(self, topic: Topic, headers: Headers) -> TwinEvent:
        """The same as an object; `topic` is any of its entity's."""
        value = UNSET if self.value is None else Raw(self.value.encode())
        kept = None if self.kept is None else Raw(self.kept.encode())
        return TwinEvent(topic.event(Action(self.kind)), self.path, value, self.revision, self.timestamp, headers, kept)


class PastEvents:
    """Events of a range, ascending, each once: `await next()` until it is None, then or earlier `close()`.

    `topic` is one of the entity's; its events have `topic.event(...)`. `kept` names the headers that come with them.
    `now` is the present time for the filter, in microseconds since 1970: the same for all of them.
    """

    def __init__(
        self,
        reader: HistoryReader,
        executor: Executor,
        topic: Topic,
        entity: str,
        chosen: Range,
        query: Query | None,
        item: bool,
        kept: tuple[str, ...] = (),
        now: int = 0,
    ) -> None:
        self.topic = topic
        self.range = chosen
        self._executor = executor
        self._lock = threading.Lock()
        self._rows = _batches(reader, topic, entity, chosen, query, item, kept, now)

    async def next(self) -> list[PastRow] | None:
        """The next events, at least one; None when there are no more. Fetch ahead, before more is wanted, so that the
        last event can be followed at once by the message that it was the last.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._step)

    def close(self) -> None:
        """Release the files. May be called several times, also while `next` is running."""
        # Without threads the server has stopped, and the files go with it.
        with suppress(RuntimeError):
            self._executor.submit(self._close)

    def _step(self) -> list[PastRow] | None:
        with self._lock:
            return next(self._rows, None)

    def _close(self) -> None:
        with self._lock:
            self._rows.close()  # type: ignore[attr-defined]


def _batches(
    reader: HistoryReader,
    topic: Topic,
    entity: str,
    chosen: Range,
    query: Query | None,
    item: bool,
    kept: tuple[str, ...],
    now: int,
) -> Iterator[list[PastRow]]:
    if chosen.is_empty:
        return
    wanted: Callable[[PastRow], bool] | None = None
    if query is not None:

        def wanted(row: PastRow) -> bool:
            return row.event(topic, {}).fits(query, now)

    # Not by `until`: the stream ends at the first event that is not before it, whatever comes after.
    for table in reader.read(entity, first=chosen.first, last=chosen.last, since=chosen.since):
        for rows in _parts(table, kept):
            over = None
            if chosen.until is not None:
                over = next((at for at, row in enumerate(rows) if chosen.is_over(row.timestamp)), None)
            if over is not None:
                rows = rows[:over]
            if item:
                rows = [told for row in rows if (told := _of_item(topic.entity, entity, row)) is not None]
            if wanted is not None:
                rows = [row for row in rows if wanted(row)]
            if rows:
                yield rows
            if over is not None:
                return


def _parts(table: Any, kept: tuple[str, ...]) -> Iterator[list[PastRow]]:
    """All rows, some at a time."""
    table = table.select([*_COLUMNS, "headers"] if kept else _COLUMNS)
    start = 0
    while start < table.num_rows:
        part = table.slice(start, BATCH)
        while part.num_rows > 1 and part.nbytes > BATCH_BYTES:
            part = part.slice(0, part.num_rows // 2)
        start += part.num_rows
        yield [_shown(row, kept) for row in _rows(part)] if kept else _rows(part)


def _rows(table: Any) -> list[PastRow]:
    columns = [
        (table.column(name).cast(pa.int64()) if name == "timestamp" else table.column(name)).to_pylist()
        for name in table.column_names
    ]
    if len(columns) == len(_COLUMNS):
        columns.append([None] * table.num_rows)
    return list(map(PastRow._make, zip(*columns, strict=True)))


def _shown(row: PastRow, names: tuple[str, ...]) -> PastRow:
    """The row with only these of its headers."""
    kept = kept_in(row.kept, names)
    return row._replace(kept=None if kept is None else text_of(kept))


def kept_in(text: str | None, names: Collection[str]) -> dict[str, Json] | None:
    """Those headers of a record that have these names; None if there are none."""
    if text is None or not names:
        return None
    return {name: value for name, value in parse(text).items() if name in names} or None


def _of_item(thing_id: str, entity: str, row: PastRow) -> PastRow | None:
    """A record of an item as the event of its thing; None if it is not one."""
    record = Record(0, entity, row.revision, row.timestamp, row.kind, row.path, row.value)
    change = change_of_item(thing_id, record)
    return None if change is None else PastRow(change.kind.value, change.path, change.text, row.revision, row.timestamp)
