"""A subscription as a program uses it: an asynchronous iterator of updates with names instead of numbers.

It outlives connections and sessions; `connection` subscribes it anew whenever a new session had to be opened.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.errors import ClientError
from penstock.client.events import Update

# Updates that wait for a reader; beyond it the oldest are dropped and counted as lost.
MAX_WAITING = 10_000

# From here on nothing more is read from the server until the reader has made room. A reader that takes nothing for so
# many seconds is not waited for: others share the connection.
CROWDED = MAX_WAITING // 2
READER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ItemUpdate:
    """All fields of an item as they are now, and those that have changed."""

    item: str
    values: Mapping[str, str | None]
    changed: Mapping[str, str | None]
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class SubscriptionWishes:
    """What is asked of the server, again for each new session."""

    items: tuple[str, ...]
    fields: tuple[str, ...]
    mode: str
    data_adapter: str | None
    snapshot: bool | int
    max_frequency: float | str | None


class Subscription:
    """Iterate over it; `close` when no more updates are wanted. Iteration raises if the server refuses it."""

    def __init__(self, wishes: SubscriptionWishes, on_close: Callable[[Subscription], None]) -> None:
        self.wishes = wishes
        # Events that the server had to drop, or that came faster than they were read.
        self.lost = 0
        # How often a new session had to be opened: in between anything may have been missed.
        self.restarts = 0
        self._on_close = on_close
        self._waiting: deque[ItemUpdate] = deque()
        self._arrived = asyncio.Event()
        # Set while there is room, and whether its reader let time run out when there was none.
        self._room = asyncio.Event()
        self._abandoned = False
        # Items, counted from 1, whose snapshots have come whole in this session.
        self._whole: set[int] = set()
        self._closed = False
        self._failure: ClientError | None = None

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ItemUpdate:
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self._abandoned = False
        if len(self._waiting) <= CROWDED:
            self._room.set()
        return self._waiting.popleft()

    @property
    def is_whole(self) -> bool:
        """Whether the snapshots of all items have come to their ends, and have been read."""
        return len(self._whole) == len(self.wishes.items) and not self._waiting

    def close(self) -> None:
        """Unsubscribe; what has arrived before can still be read."""
        if not self._closed:
            self._closed = True
            self._arrived.set()
            self._room.set()
            self._on_close(self)

    # -- for the connection ---------------------------------------------------------------------------------------

    def take(self, update: Update) -> None:
        """An update has come."""
        if self._closed:
            return
        fields = self.wishes.fields
        values = dict(zip(fields, update.values, strict=True))
        changed = {fields[index]: update.values[index] for index in update.changed}
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(ItemUpdate(self.wishes.items[update.item - 1], values, changed, update.is_snapshot))
        self._arrived.set()

    def end_snapshot(self, item: int) -> None:
        """The snapshot of an item, counted from 1, has come whole."""
        self._whole.add(item)

    def begin_again(self) -> None:
        """A new session: snapshots come again."""
        self.restarts += 1
        self._whole.clear()

    @property
    def is_crowded(self) -> bool:
        """Whether its reader should be waited for."""
        return len(self._waiting) > CROWDED and not self._abandoned and not self._closed

    async def catch_up(self) -> None:
        """Until the reader has made room, or has let its time run out."""
        while self.is_crowded:
            before = self._waiting[0]
            self._room.clear()
            try:
                async with asyncio.timeout(READER_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                self._abandoned = self._waiting[0] is before

    def end(self, failure: ClientError | None) -> None:
        """Nothing will come any more."""
        self._closed = True
        self._failure = failure
        self._arrived.set()


def names(given: Sequence[str] | str) -> tuple[str, ...]:
    """A list of names, or a text with spaces between them."""
    found = tuple(given.split() if isinstance(given, str) else given)
    if not found or any(not name or " " in name for name in found):
        raise ValueError(f"{given!r} is not a list of names; expected at least one name, without spaces in it")
    return found
