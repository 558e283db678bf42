"""A feed: the items of one data adapter. It subscribes an item at the adapter for the first client and gives it up
after the last.

Events for items nobody is subscribed to are counted and dropped: they are late, or the adapter's mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.kernel.item import Item
from penstock.kernel.ports import Value

if TYPE_CHECKING:
    from penstock.kernel.ports import DataSource


class Feed:
    """The way in for updates, and the registry of the adapter's live items."""

    def __init__(self, adapter_set: str, name: str, source: DataSource) -> None:
        self.adapter_set = adapter_set
        self.name = name
        self.items: dict[str, Item] = {}
        self.unwanted_events = 0
        self._source = source

    def item(self, name: str) -> Item:
        """The live item, or a new one that nobody is subscribed to yet."""
        item = self.items.get(name)
        return Item(name, self._source.has_snapshot(name)) if item is None else item

    def acquire(self, item: Item) -> None:
        """Another lane needs the item: register it, and subscribe it at the adapter if it is the first."""
        item.subscribers += 1
        if item.subscribers == 1:
            self.items[item.name] = item
            self._source.subscribe(item.name)

    def release(self, item: Item) -> None:
        """A lane has left the item."""
        item.subscribers -= 1
        if item.subscribers == 0:
            del self.items[item.name]
            self._source.unsubscribe(item.name)

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        """An event of an item: the fields that changed and their new values; `snapshot` marks the initial state."""
        live = self.items.get(item)
        if live is None:
            self.unwanted_events += 1
        else:
            live.update(event, snapshot)

    def end_of_snapshot(self, item: str) -> None:
        live = self.items.get(item)
        if live is not None:
            live.end_of_snapshot()
