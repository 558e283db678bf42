"""A feed: the items of one data adapter. It subscribes an item there for its first client and gives it up after the
last.

Events of items that nobody is subscribed to, and those that make no sense, are counted and dropped, and the adapter's
owner is told. What each mode takes for sense is in `books`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.kernel.books import BadEvent
from penstock.kernel.item import Item
from penstock.kernel.ports import Event, Value

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import DataSource, ItemGrant

# Items that nobody is subscribed to are complained of once each, and after this many no more, only counted: an adapter
# that publishes everything all the time would fill the log.
MAX_UNWANTED_ITEMS = 1_000

# Seconds for which events of an item that has just been given up are merely late; and how many such items are known.
GRACE = 10.0
MAX_RELEASED = 1_000

# How much of a name or a value a complaint repeats.
MAX_ECHO = 60


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
        self._unwanted_items: set[str] = set()
        # When items were given up, the oldest first.
        self._released: dict[str, float] = {}

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
            self._released.pop(item.name, None)
            self._released[item.name] = self._kernel.clock()
            if len(self._released) > MAX_RELEASED:
                del self._released[next(iter(self._released))]
            self._source.unsubscribe(item.name)

    def _live(self, item: str, serial: int | None) -> Item | None:
        live = self.items.get(item)
        if live is None or (serial is not None and serial != live.serial):
            self.unwanted_events += 1
            # With a serial it is merely late.
            if serial is None:
                self._complain_unwanted(item)
            return None
        return live

    def _complain_unwanted(self, item: str) -> None:
        told = self._unwanted_items
        released = self._released.get(item)
        if released is not None and self._kernel.clock() < released + GRACE:
            return
        if item not in told and len(told) < MAX_UNWANTED_ITEMS:
            told.add(item)
            self._source.complain(item, "nobody is subscribed to this item; it is not mentioned again")

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

    def updates(self, events: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        """Many events, of any items, in order."""
        # What `update` does, without its calls: this is how most events come.
        items = self.items
        for item, event in events:
            live = items.get(item)
            if live is None:
                self.unwanted_events += 1
                self._complain_unwanted(item)
                continue
            try:
                live.update(_checked(event), False)
            except BadEvent as bad:
                self.bad_events += 1
                self._source.complain(item, str(bad))

    def publish(self, events: Iterable[tuple[Item, Event, bool]]) -> None:
        """Many events with their items and whether each is of a snapshot, from a producer that is trusted.

        Nothing is checked: each event must be a mapping that is never changed, its values text that UTF-8 can carry, or
        null. Those that are late for an item that has gone are dropped.
        """
        for item, event, snapshot in events:
            if item.subscribers:
                try:
                    item.update(event, snapshot)
                except BadEvent as bad:
                    self.bad_events += 1
                    self._source.complain(item.name, str(bad))
            else:
                self.unwanted_events += 1

    def repair(self, item: Item, events: Sequence[Event], complete: bool) -> None:
        """The snapshot of an adapter that was lost and has come back; clients are led to it by ordinary events.

        `complete` means that no events are an empty item; else they mean that nothing is known of it. Trusted like
        `publish`.
        """
        if not item.subscribers:
            return
        complaints: list[str] = []
        item.repair(events, complete, complaints)
        self.bad_events += len(complaints)
        for complaint in complaints:
            self._source.complain(item.name, complaint)

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
    """A copy of the event, for the adapter may use its own again, if all its values are text or null.

    Numbers are written out; anything else is refused, and so is text that UTF-8 cannot carry.
    """
    if type(event) is not dict and not isinstance(event, Mapping):
        raise BadEvent(f"an event that is a {type(event).__name__}, not fields and their values")
    checked = dict(event)
    try:
        names = "".join(checked)
    except TypeError:
        given: list[object] = list(checked)
        wrong = next(name for name in given if not isinstance(name, str))
        raise BadEvent(f"field name {_echo(repr(wrong))} is not text") from None
    # Most text is ASCII and knows it; asked here and not in a function, for this is done with every value.
    if not names.isascii() and not _is_unicode(names):
        found = next(name for name in checked if not _is_unicode(name))
        raise BadEvent(f"field name {_echo(found)!r} holds half a surrogate pair, which UTF-8 cannot carry")
    for name, value in checked.items():
        if value is None:
            continue
        if type(value) is not str:
            value = checked[name] = _written_out(name, value)
        if not value.isascii() and not _is_unicode(value):
            raise BadEvent(f"the value of field {_echo(name)!r} holds half a surrogate pair, which UTF-8 cannot carry")
    return checked


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _written_out(name: str, value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:
            raise BadEvent(f"the value of field {_echo(name)!r} is a number too long to be written out") from None
    raise BadEvent(f"the value of field {_echo(name)!r} is a {type(value).__name__}, not text")


def _echo(text: str) -> str:
    return text[:MAX_ECHO]
