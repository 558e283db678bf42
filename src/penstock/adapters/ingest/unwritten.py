"""What clients may not see yet: events of policy `ack` wait here until they are on the disk, in order.

If clients saw them earlier, and the server died in between, the next one would show them an older value: sessions of a
cluster outlive a hub. Only of single events: `batches` publishes what is on the disk anyway.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass

from penstock.journal.errors import Fenced, JournalError
from penstock.journal.gatherer import Gatherer
from penstock.kernel.feed import Feed
from penstock.kernel.ports import CheckedEvent

# Name of an item, the event, and whether it is of a snapshot.
NamedEvent = tuple[str, CheckedEvent, bool]


@dataclass(frozen=True, slots=True)
class _Entry:
    """Either events, or what is to be done to one item when its turn comes."""

    number: int
    on_disk: Future[None]
    items: Collection[str]
    events: list[NamedEvent]
    action: Callable[[], None] | None = None


class UnwrittenEvents:
    """Of one adapter; on the event loop. Everything that the adapter publishes goes through here, or through
    `catch_up` first.
    """

    def __init__(self, feed: Feed, gatherer: Gatherer) -> None:
        self._feed = feed
        self._gatherer = gatherer
        self._loop = asyncio.get_running_loop()
        self._entries: deque[_Entry] = deque()
        self._number = 0
        # Items that somebody has subscribed to meanwhile, by the number of the entry with their snapshot: what comes
        # before it is in it.
        self._joined: dict[str, int] = {}

    def publish(self, events: list[NamedEvent]) -> None:
        """When all that has been recorded by now is on the disk."""
        self._add({item for item, _, _ in events}, events)

    def act(self, item: str, action: Callable[[], None]) -> None:
        """The same for what is not an event."""
        self._add((item,), [], action)

    def join(self, item: str, snapshot: list[CheckedEvent], finish: Callable[[], None]) -> bool:
        """Somebody subscribes: publish the snapshot when it is true on the disk. False if it is already."""
        if not any(item in entry.items for entry in self._entries):
            return False
        self._joined[item] = self._number + 1
        self._add((item,), [(item, event, True) for event in snapshot], finish)
        return True

    def catch_up(self) -> None:
        """Publish all that is on the disk."""
        entries = self._entries
        while entries and entries[0].on_disk.done():
            self._publish(entries.popleft())

    def _add(self, items: Collection[str], events: list[NamedEvent], action: Callable[[], None] | None = None) -> None:
        self._number += 1
        try:
            on_disk = self._gatherer.on_disk()
        except JournalError as error:
            on_disk = Future()
            on_disk.set_exception(error)
        self._entries.append(_Entry(self._number, on_disk, items, events, action))
        on_disk.add_done_callback(self._written)

    def _written(self, on_disk: Future[None]) -> None:
        """On the journal's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.catch_up)

    def _publish(self, entry: _Entry) -> None:
        # If the disk has refused it clients get it all the same, as from adapters that are not journaled: the sender is
        # told. If another process owns the journal now it is for that one to say what is true.
        if isinstance(entry.on_disk.exception(), Fenced):
            return
        events, joined = entry.events, self._joined
        if joined:
            if all(joined.get(item, 0) > entry.number for item in entry.items):
                return
            events = [each for each in events if joined.get(each[0], 0) <= entry.number]
        self._feed.publish_checked_by_name(events, recorded=True)
        if entry.action is not None:
            entry.action()
        for item in entry.items if joined else ():
            if joined.get(item) == entry.number:
                del joined[item]
