"""The adapter: reads rows ahead on a thread, publishes them when they are due on the event loop.

All state is touched on the event loop only, so that a snapshot never overtakes an update.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from penstock.adapters.api import DataAdapter
from penstock.adapters.replay.pace import ReplayPace
from penstock.adapters.replay.rows import (
    FORMATS,
    TIME_UNITS,
    BadReplayRow,
    MissingColumn,
    ReplayRow,
    as_seconds,
    as_text,
    read,
)
from penstock.kernel.ports import Value
from penstock.log import get

log = get(__name__)

# Rows read ahead at a time; also the most that are published before everybody else has a turn.
CHUNK_ROWS = 500

# Bad rows are counted, and written to the log at most this often, in seconds.
COMPLAINT_INTERVAL = 5.0

_NAME = re.compile(r"\{([^{}]+)\}")


class ReplayAdapter(DataAdapter):
    """Goes on whether somebody is subscribed or not; a later subscriber gets the latest row of the item."""

    quick = True

    # What time is made of; a test has its own.
    clock: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    def __init__(
        self,
        *,
        file: str | Path,
        item: str,
        format: str | None = None,
        delimiter: str = ",",
        time_column: str | None = None,
        time_unit: str = "auto",
        speed: float = 1.0,
        rate: float | None = None,
        loop: bool = False,
        fields: Sequence[str] | None = None,
        max_items: int = 100_000,
    ) -> None:
        """`item` is the name of a column, or a text with columns in braces: `quote-{symbol}`."""
        self._path = Path(file)
        self._format = format or FORMATS.get(self._path.suffix.lower(), "")
        if self._format not in FORMATS.values():
            shown = f"format = {format!r}" if format else f"file = {str(file)!r}"
            raise ValueError(f"{shown}: expected a csv, parquet or jsonl file")
        if time_unit not in TIME_UNITS:
            raise ValueError(f"time_unit = {time_unit!r}: expected {', '.join(TIME_UNITS)}")
        if speed < 0:
            raise ValueError(f"speed = {speed!r}: expected 0 (as fast as possible) or more")
        if rate is not None and rate <= 0:
            raise ValueError(f"rate = {rate!r}: expected a number of rows a second above 0")
        if rate is None and speed and time_column is None:
            raise ValueError("time_column is missing: name it, or set rate, or speed = 0 for as fast as possible")
        if len(delimiter) != 1:
            raise ValueError(f"delimiter = {delimiter!r}: expected a single character")
        if max_items < 1:
            raise ValueError(f"max_items = {max_items!r}: expected 1 or more")
        self._delimiter = delimiter
        # A text without braces is a column itself.
        self._template = item if _NAME.search(item) else f"{{{item}}}"
        self._time_column = time_column if rate is None and speed else None
        self._time_unit = time_unit
        self._fields = None if fields is None else list(fields)
        self._loops = loop
        self._max_items = max_items
        self._pace = ReplayPace(speed, rate)
        self._task: asyncio.Task[None] | None = None
        self._latest: dict[str, dict[str, Value]] = {}
        self._complained: float | None = None
        self.published = 0
        self.bad_rows = 0

    # -- from the server ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        rows = self._open()
        first = await asyncio.to_thread(self._first, rows)
        self._task = asyncio.get_running_loop().create_task(self._run(rows, first))

    async def check_start(self) -> None:
        await asyncio.to_thread(self._first, self._open())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def subscribe(self, item: str) -> None:
        latest = self._latest.get(item)
        if latest is not None:
            self.update(item, latest, snapshot=True)
            self.end_of_snapshot(item)

    async def ended(self) -> None:
        """Return when the last row has been published; never if it loops."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # -- reading --------------------------------------------------------------------------------------------------

    def _open(self) -> Iterator[ReplayRow | BadReplayRow]:
        needed = _NAME.findall(self._template)
        if self._time_column is not None:
            needed.append(self._time_column)
        return read(self._path, self._format, self._delimiter, [*needed, *(self._fields or [])])

    def _first(self, rows: Iterator[ReplayRow | BadReplayRow]) -> list[ReplayRow | BadReplayRow]:
        """The first rows: what is wrong with the file as a whole shows here, before the server opens."""
        try:
            return list(islice(rows, CHUNK_ROWS))
        except OSError as error:
            raise ValueError(f"file = {str(self._path)!r}: {error.strerror or error}") from error
        except MissingColumn as error:
            raise ValueError(f"file = {str(self._path)!r}: {error}") from error

    # -- publishing -----------------------------------------------------------------------------------------------

    async def _run(self, rows: Iterator[ReplayRow | BadReplayRow], chunk: list[ReplayRow | BadReplayRow]) -> None:
        try:
            while True:
                published = self.published
                await self._play(rows, chunk)
                if not self._loops:
                    log.info("replay has ended", file=str(self._path), rows=self.published, skipped=self.bad_rows)
                    return
                if self.published == published:
                    self.fail(f"{self._path} has no row that can be replayed")
                    return
                rows, chunk = self._open(), []
        except Exception as error:
            log.exception("replay has failed", file=str(self._path), rows=self.published, skipped=self.bad_rows)
            self.fail(f"{self._path}: {error}")

    async def _play(self, rows: Iterator[ReplayRow | BadReplayRow], chunk: list[ReplayRow | BadReplayRow]) -> None:
        """The whole file, once; `chunk` is what has been read of it already."""
        self._pace.begin(self.clock())
        while chunk := chunk or await asyncio.to_thread(lambda: list(islice(rows, CHUNK_ROWS))):
            for row in chunk:
                prepared = self._prepared(row)
                if prepared is None:
                    continue
                item, recorded, event = prepared
                wait = self._pace.due(recorded) - self.clock()
                if wait > 0:
                    await self.sleep(wait)
                self._publish(item, event)
            chunk = []
            # A row that is due need not wait for the file, but everybody else may be waiting for this loop.
            await self.sleep(0)

    def _prepared(self, row: ReplayRow | BadReplayRow) -> tuple[str, float | None, dict[str, Value]] | None:
        if isinstance(row, BadReplayRow):
            self._complain(row.line, row.reason)
            return None
        try:
            values = row.values
            item = _NAME.sub(lambda name: self._part(values.get(name[1]), name[1]), self._template)
            recorded = None
            if self._time_column is not None:
                recorded = as_seconds(values.get(self._time_column), self._time_unit)
            names = values if self._fields is None else self._fields
            event = {name: as_text(name, values.get(name)) for name in names}
        except ValueError as error:
            self._complain(row.line, str(error))
            return None
        if item not in self._latest and len(self._latest) >= self._max_items:
            self._complain(row.line, f"item {item[:60]} is one more than max_items = {self._max_items}")
            return None
        return item, recorded, event

    def _part(self, value: object, column: str) -> str:
        text = as_text(column, value)
        if not text:
            raise ValueError(f"column {column} is empty, and the item's name is made of it")
        return text

    def _publish(self, item: str, event: dict[str, Value]) -> None:
        self._latest[item] = event
        self.published += 1
        if self.publisher.wants(item):
            self.update(item, event)

    def _complain(self, line: int, reason: str) -> None:
        self.bad_rows += 1
        now = self.clock()
        if self._complained is None or now - self._complained >= COMPLAINT_INTERVAL:
            self._complained = now
            log.warning("row skipped", file=str(self._path), line=line, reason=reason, skipped=self.bad_rows)
