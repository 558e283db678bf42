"""A feed: the items of one data adapter. It subscribes an item there for its first client and gives it up after the
last.

Events of items that nobody is subscribed to are counted and dropped: they are late, or the adapter's mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.kernel.books import BadEvent
from penstock.kernel.item import Item
from penstock.kernel.ports import Event, Value

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import DataSource, ItemGrant


class Feed:
    """The way in for updates, and the registry of the adapter's live items."""

    def __init__(self, kernel: Kernel, adapter_set: str, name: str, source: DataSource) -> None:
        self.adapter_set = adapter_set
        self.name = name
        self.items: dict[str, Item] = {}
        # Events dropped because nobody is subscribed to the item, and because they made no sense.
        self.unwanted_events = 0
        self.bad_events = 0
        self._kernel = kernel
        self._source = source
        self._serial = 0

    def item(self, granted: ItemGrant) -> Item:
        """The live item, or a new one that nobody is subscribed to yet."""
        item = self.items.get(granted.name)
        if item is None:
            self._serial += 1
            item = Item(self._kernel, self._serial, granted, self._source.has_snapshot(granted.name))
        return item

    def acquire(self, item: Item) -> None:
        """Another lane needs the item: register it, and subscribe it at the adapter if it is the first."""
        item.subscribers += 1
        if item.subscribers == 1:
            self.items[item.name] = item
            self._source.subscribe(item.name, item.serial)

    def release(self, item: Item) -> None:
        """A lane has left the item."""
        item.subscribers -= 1
        if item.subscribers == 0:
            del self.items[item.name]
            self._source.unsubscribe(item.name)

    def _live(self, item: str, serial: int | None) -> Item | None:
        live = self.items.get(item)
        if live is None or (serial is not None and serial != live.serial):
            self.unwanted_events += 1
            return None
        return live

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False, serial: int | None = None) -> None:
        """An event of an item: the fields that changed and their new values; `snapshot` marks the initial state.

        `serial` is what `subscribe` was called with: an event that is late for a former subscription is told by it.
        """
        live = self._live(item, serial)
        if live is None:
            return
        try:
            live.update(_checked(event), snapshot)
        except BadEvent as bad:
            self.bad_events += 1
            self._source.complain(item, str(bad))

    def end_of_snapshot(self, item: str, serial: int | None = None) -> None:
        """All of the snapshot has been published."""
        live = self._live(item, serial)
        if live is not None:
            live.end_of_snapshot()

    def clear_snapshot(self, item: str, serial: int | None = None) -> None:
        """The item is empty from now on."""
        live = self._live(item, serial)
        if live is not None:
            live.clear()

    def declare_differences(self, item: str, orders: Mapping[str, str], serial: int | None = None) -> None:
        """Difference formats to try for fields, in order: `{"text": "PT"}`. P is JSON Patch, T is TLCP-diff."""
        live = self._live(item, serial)
        if live is not None:
            live.declare_differences(orders)


def _checked(event: Mapping[str, Value]) -> Event:
    """The event, if all its values are text or null; numbers are written out, anything else is refused."""
    for value in event.values():
        if value is not None and type(value) is not str:
            return _written_out(event)
    return event


def _written_out(event: Mapping[str, object]) -> Event:
    found: dict[str, Value] = {}
    for name, value in event.items():
        if not isinstance(name, str):
            raise BadEvent(f"field name {name!r} is not text")
        if value is None or isinstance(value, str):
            found[name] = None if value is None else str(value)
        elif isinstance(value, int | float):
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise BadEvent(f"the value of field {name[:60]!r} is a {type(value).__name__}, not text")
    return found
