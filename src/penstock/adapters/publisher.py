"""The way in for a data adapter's events: straight into the kernel from the event loop, in order from any other thread.

A thread that publishes faster than the kernel takes events in has to wait; the event loop never does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Condition, get_ident
from typing import TYPE_CHECKING, Any

from penstock.kernel.feed import Feed
from penstock.kernel.ports import Value
from penstock.log import get

if TYPE_CHECKING:
    import pyarrow

log = get(__name__)

# Calls from other threads that may wait to be taken in, and how many are before everybody else has a turn.
MAX_WAITING = 10_000
CALLS_PER_TURN = 1_000


class Publisher:
    """Made on the event loop that the kernel runs on."""

    def __init__(self, feed: Feed, label: str) -> None:
        self._feed = feed
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._room = Condition()
        self._scheduled = False
        self._closed = False
        # Why the adapter has no more data, if it has said so.
        self.failure: str | None = None

    def wants(self, item: str) -> bool:
        """Whether somebody is subscribed to the item."""
        return item in self._feed.items

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        if get_ident() == self._thread:
            self._feed.update(item, event, snapshot)
        else:
            self._post(self._feed.update, item, dict(event), snapshot)

    def updates(self, events: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        if get_ident() == self._thread:
            self._feed.updates(events)
        else:
            self._post(self._feed.updates, list(events))

    def update_table(self, table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> None:
        from penstock.adapters.arrow import rows  # pyarrow takes its time to load

        self.updates(rows(table, item))

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
        """Nothing more is taken in; threads that wait for room are let go."""
        with self._room:
            self._closed = True
            self._calls.clear()
            self._room.notify_all()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if get_ident() == self._thread:
            function(*arguments)
        else:
            self._post(function, *arguments)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        with self._room:
            while len(self._calls) >= MAX_WAITING and not self._closed:
                self._room.wait()
            if self._closed:
                return
            self._calls.append((function, arguments))
            if self._scheduled:
                return
            self._scheduled = True
        self._loop.call_soon_threadsafe(self._take_in)

    def _take_in(self) -> None:
        with self._room:
            count = min(len(self._calls), CALLS_PER_TURN)
            calls = [self._calls.popleft() for _ in range(count)]
            self._scheduled = bool(self._calls)
            self._room.notify_all()
        for function, arguments in calls:
            function(*arguments)
        if self._scheduled:
            self._loop.call_soon(self._take_in)
