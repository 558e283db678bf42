"""The way in for a data adapter's events: straight into the kernel from the event loop, in order from any other thread.

A thread that publishes faster than the kernel can process has to wait; the event loop never does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from threading import Condition, get_ident
from typing import TYPE_CHECKING, Any

from penstock.adapters.faults import CONTAINED
from penstock.kernel.feed import Feed
from penstock.kernel.ports import Value
from penstock.log import get

if TYPE_CHECKING:
    import pyarrow

log = get(__name__)

# Events from other threads that may wait to be taken in, and how many are before everybody else has a turn. A list of
# more is taken in by as many at a time; other threads may come in between.
MAX_WAITING = 10_000
EVENTS_PER_TURN = 1_000


class Publisher:
    """Made on the event loop that the kernel runs on."""

    def __init__(self, feed: Feed, label: str) -> None:
        self._feed = feed
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        # What to call, with what, and how many events that is.
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...], int]] = deque()
        self._waiting = 0
        self._room = Condition()
        self._scheduled = False
        self._closed = False
        # Why the adapter has no more data, if it has said so.
        self.failure: str | None = None

    @property
    def waiting(self) -> int:
        """Events from other threads that have not been taken in."""
        return self._waiting

    def wants(self, item: str) -> bool:
        """Whether somebody is subscribed to the item."""
        return item in self._feed.items

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        if get_ident() == self._thread:
            self._feed.update(item, event, snapshot)
        else:
            self._post(self._feed.update, (item, dict(event), snapshot))

    def updates(self, events: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        if get_ident() == self._thread:
            self._feed.updates(events)
        else:
            # Copied, like a single event: the adapter may use its own again.
            copied = ((item, dict(event)) for item, event in events)
            while batch := list(islice(copied, EVENTS_PER_TURN)):
                self._post(self._feed.updates, (batch,), len(batch))

    def update_rows(self, fields: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
        names = tuple(fields)
        if get_ident() == self._thread:
            self._feed.rows(names, rows)
        else:
            copied = map(tuple, rows)
            while batch := list(islice(copied, EVENTS_PER_TURN)):
                self._post(self._feed.rows, (names, batch), len(batch))

    def update_table(self, table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> None:
        from penstock.adapters.arrow import rows  # pyarrow takes its time to load

        self.update_rows(*rows(table, item))

    def end_of_snapshot(self, item: str) -> None:
        self._call(self._feed.end_of_snapshot, item)

    def clear_snapshot(self, item: str) -> None:
        self._call(self._feed.clear_snapshot, item)

    def declare_differences(self, item: str, orders: Mapping[str, str]) -> None:
        self._call(self._feed.declare_differences, item, dict(orders))

    def fail(self, reason: str) -> None:
        self.failure = reason
        log.error("data adapter has failed", adapter=self._label, reason=reason)

    def close(self) -> None:
        """Nothing more is accepted; threads that wait for room return."""
        with self._room:
            self._closed = True
            self._calls.clear()
            self._waiting = 0
            self._room.notify_all()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if get_ident() == self._thread:
            function(*arguments)
        else:
            self._post(function, arguments)

    def _post(self, function: Callable[..., None], arguments: tuple[Any, ...], events: int = 1) -> None:
        with self._room:
            while self._waiting >= MAX_WAITING and not self._closed:
                self._room.wait()
            if self._closed:
                return
            self._calls.append((function, arguments, events))
            self._waiting += events
            if not self._scheduled:
                self._scheduled = True
                # Within the lock: the loop is there as long as this is not closed.
                self._loop.call_soon_threadsafe(self._take_in)

    def _take_in(self) -> None:
        with self._room:
            calls, count = [], 0
            while self._calls and count < EVENTS_PER_TURN:
                call = self._calls.popleft()
                calls.append(call)
                count += call[2]
            self._waiting -= count
            self._scheduled = bool(self._calls)
            if self._scheduled:
                self._loop.call_soon(self._take_in)
            self._room.notify_all()
        for function, arguments, _ in calls:
            try:
                with CONTAINED:
                    function(*arguments)
            except Exception:
                # The thread that made the call has gone on, so it can only be logged.
                log.exception("data adapter published an invalid event", adapter=self._label, call=function.__name__)
