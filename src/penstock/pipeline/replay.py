"""A past range of entities once more, as live items: as it was, or up to a thousand times as fast. No Spark, no JVM.

Events go out in batches, each when its first event is due. A server that keeps it waiting, or a machine that slept,
shifts what follows: nothing is skipped, and nothing comes in a burst. Not here: replaying files (adapters.replay).
Read next: docs/pipeline.md, "Replay".
"""

from __future__ import annotations

import heapq
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from penstock.history.reader import History, JournaledEvent
from penstock.journal.entity import parts_of
from penstock.journal.selection import EventSelection
from penstock.pipeline.errors import BadOption
from penstock.pipeline.options import micros
from penstock.pipeline.outlet import MODES, Delivery
from penstock.pipeline.place import Place

SLOWEST, FASTEST = 1.0, 1_000.0
KINDS = ("update", "snapshot")

# Seconds: events so close together, on the wall clock, go out in one batch; each batch is a sync of the server's disk.
TOGETHER = 0.02
# Rows of one batch at most.
MAX_ROWS = 5_000
# Seconds behind that are caught up with; more shifts the rest.
TOLERANCE = 1.0


class Out(Protocol):
    """The part of an Outlet that is needed."""

    def put_batch(self, query: str, batch: int, table: pa.Table, mode: str) -> Delivery: ...


@dataclass(frozen=True)
class Replayed:
    """What was published; `skipped` are events without fields: clear, marks of batches, what is not an object."""

    events: int
    batches: int
    skipped: int
    # Seconds by which the end came late, because of pauses that were not caught up with.
    shifted: float


def past(history: History, entities: Sequence[str], since: datetime, until: datetime) -> Iterator[JournaledEvent]:
    """Events of all entities that match, in the order in which they were journaled. Raises BadOption."""
    if since.tzinfo is None or until.tzinfo is None:
        raise BadOption("since and until need their zone, such as +00:00 or Z")
    if since >= until:
        raise BadOption(f"since is {since.isoformat()}, which is not before until, {until.isoformat()}")
    names = history.summary().column("entity")
    if len(names) and entities:
        names = names.filter(EventSelection(entities=tuple(entities)).matches(names))
    chosen = sorted(names.to_pylist())
    if not chosen:
        raise BadOption(f"entities is {', '.join(entities)!r}; no journaled entity has such a name")
    streams = [history.events_between(name, micros(since), micros(until)) for name in chosen]
    return heapq.merge(*streams, key=lambda event: event.sequence)


def open_history(place: Place) -> History:
    place.check_directory("a replay")
    return History(place.journal, place.lake)


class Replay:
    """`run` once. Items are named by `item`: `{item}` stands for the item of the entity, `{entity}` for all of it."""

    def __init__(
        self,
        out: Out,
        *,
        speed: float = 1.0,
        mode: str = "MERGE",
        item: str = "{item}",
        query: str | None = None,
        max_rows: int = MAX_ROWS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not SLOWEST <= speed <= FASTEST:
            raise BadOption(f"speed is {speed:g}; allowed: {SLOWEST:g} to {FASTEST:g}")
        if mode not in MODES:
            raise BadOption(f"mode is {mode!r}; allowed: {', '.join(MODES)}")
        if not item:
            raise BadOption("item is empty; expected a name such as replay.{item}")
        self._out = out
        self._speed = speed
        self._mode = mode
        self._item = item
        self._query = query or f"replay-{uuid.uuid4()}"
        self._max_rows = max_rows
        self._clock = clock
        self._sleep = sleep
        # The last value of every field of an item, or of its row: a batch's rows have the same columns, and null is
        # not the same as unchanged.
        self._known: dict[tuple[str, str | None], dict[str, str | None]] = {}

    def run(self, events: Iterable[JournaledEvent]) -> Replayed:
        """Publish until the events end."""
        count = batches = skipped = 0
        anchor: float | None = None
        first = latest = 0
        shifted = 0.0
        rows: list[dict[str, str | None]] = []
        # On the clock: when the rows that wait are to go out.
        due = 0.0
        for event in events:
            fields = _fields(event)
            if fields is None:
                skipped += 1
                continue
            if anchor is None:
                anchor, first = self._clock(), event.timestamp
            # Timestamps need not rise; what was journaled later is not published earlier.
            latest = max(latest, event.timestamp)
            moment = anchor + (latest - first) / 1e6 / self._speed
            if rows and (moment > due + TOGETHER or len(rows) >= self._max_rows):
                late = self._publish(batches, rows, due)
                batches += 1
                anchor += late
                moment += late
                shifted += late
                rows = []
            if not rows:
                due = moment
            rows.append(self._row(event, fields))
            count += 1
        if rows:
            shifted += self._publish(batches, rows, due)
            batches += 1
        return Replayed(count, batches, skipped, shifted)

    def _publish(self, batch: int, rows: list[dict[str, str | None]], due: float) -> float:
        """Wait until they are due, then send; by how much the rest is to be shifted."""
        wait = due - self._clock()
        if wait > 0:
            self._sleep(wait)
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: pa.array([row.get(name) for row in rows], pa.string()) for name in names})
        self._out.put_batch(self._query, batch, table, self._mode)
        late = self._clock() - due
        return late if late > TOLERANCE else 0.0

    def _row(self, event: JournaledEvent, fields: dict[str, str | None]) -> dict[str, str | None]:
        parts = parts_of(event.entity)
        item = event.entity if parts is None else parts[2]
        name = self._item.replace("{item}", item).replace("{entity}", event.entity)
        if self._mode == "DISTINCT":
            return {**fields, "item": name}
        whole = (name, fields.get("key") if self._mode == "COMMAND" else None)
        if fields.get("command") == "DELETE":
            self._known.pop(whole, None)
            return {**fields, "item": name}
        known = self._known.setdefault(whole, {})
        known.update(fields)
        return {**known, "item": name}


def _fields(event: JournaledEvent) -> dict[str, str | None] | None:
    """The fields of an update, as text; None for an event that has none."""
    if event.kind not in KINDS or event.value is None:
        return None
    try:
        value = json.loads(event.value)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    # `item` is the name of the column that names the item.
    return {name: _text(one) for name, one in value.items() if name != "item"}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))
