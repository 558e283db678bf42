"""A feed: the items of one data adapter. It subscribes an item there for its first client and unsubscribes it after
the last.

There are two entrances. `update`, `updates` and `rows` trust nothing: they check and copy every event.
`publish_checked` and `publish_checked_by_name` take a `CheckedEvent`, from ready-made adapters that have checked it
where it came in.

Events of items that nobody is subscribed to, and invalid ones, are counted, dropped and reported to the adapter's
owner. What is valid in each mode is in `books`. Valid events go to the recorder, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from penstock.kernel.books import BadEvent, CommandBook
from penstock.kernel.item import Item, Mode
from penstock.kernel.ports import CheckedEvent, ItemGrant, State, Value
from penstock.kernel.quick import checked_row, clean_event
from penstock.kernel.rows import RowLayout, is_unicode

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import DataSource, ItemRecorder
    from penstock.kernel.subscription import SubscriptionRequest

# Items that nobody is subscribed to are reported once each, and after this many only counted: an adapter that
# publishes everything all the time would fill the log.
MAX_UNWANTED_ITEMS = 1_000

# Seconds for which events of an item that was just unsubscribed count as late, and how many such items are remembered.
GRACE = 10.0
MAX_RELEASED = 1_000

# Events kept of an item that no client has subscribed to yet: the first one's grant says how many it gets of them.
KEPT_HISTORY = 100

# How many characters of a name or a value a report quotes.
MAX_ECHO = 60

# Requests for subscriptions that are kept, one for each number: clients of one kind number theirs alike.
MAX_REQUESTS = 100

# Layouts of rows that are kept. An adapter has a few; one that has more only makes its items find their places again.
MAX_LAYOUTS = 100


class Feed:
    """The way in for updates, and the registry of the adapter's live items."""

    def __init__(self, kernel: Kernel, adapter_set: str, name: str, source: DataSource) -> None:
        self.adapter_set = adapter_set
        self.name = name
        self.items: dict[str, Item] = {}
        # From the data adapter, whatever became of them.
        self.events = 0
        # Events dropped because nobody is subscribed to the item, and because they were invalid.
        self.unwanted_events = 0
        self.bad_events = 0
        # Records what happens; None if nothing does.
        self.recorder: ItemRecorder | None = None
        self._kernel = kernel
        self._source = source
        self._serial = 0
        self._unwanted_items: set[str] = set()
        # When items were unsubscribed, the oldest first.
        self._released: dict[str, float] = {}
        self._layouts: dict[tuple[str, ...], RowLayout] = {}
        # The latest of each number.
        self._requests: dict[int, SubscriptionRequest] = {}

    def same_request(self, request: SubscriptionRequest) -> SubscriptionRequest:
        """The request, as one object for all clients that ask for the same: each would take memory in each of them."""
        if request.grant.facts is not None:
            return request
        requests = self._requests
        known = requests.get(request.number)
        if known is not None and known == request:
            return known
        if len(requests) >= MAX_REQUESTS:
            requests.clear()
        requests[request.number] = request
        return request

    def forget_requests(self) -> None:
        """Nobody asks for anything any more."""
        self._requests.clear()

    def item(self, granted: ItemGrant) -> Item:
        """The live item, or a new one that nobody is subscribed to yet."""
        item = self.items.get(granted.name)
        if item is None:
            self._serial += 1
            item = Item(self._kernel, self._serial, granted, self._source.has_snapshot(granted.name))
        elif item.subscribers == item.keepers:
            item.grant(granted)
        return item

    def pin(self, name: str) -> None:
        """Keep an item subscribed at the adapter, whether any client is or not, until `unpin`."""
        item = self.kept_item(name)
        if not item.pinned:
            item.pinned = True
            self.keep(item, Mode.RAW)

    def unpin(self) -> None:
        """Release all pinned items."""
        for item in [item for item in self.items.values() if item.pinned]:
            item.pinned = False
            self.stop_keeping(item)

    def kept_item(self, name: str) -> Item:
        """The live item, or a new one, for somebody without a grant; the first client's grant will apply to it."""
        return self.items.get(name) or self.item(ItemGrant(name, snapshot_length=KEPT_HISTORY))

    def keep(self, item: Item, mode: Mode) -> None:
        """`acquire` for somebody who is not a client."""
        item.keepers += 1
        self.acquire(item, mode)

    def stop_keeping(self, item: Item) -> None:
        item.keepers -= 1
        self.release(item)

    def bind(self, item: Item, mode: Mode) -> None:
        """The item is about to be joined in this mode: the source is told if it has only been wanted in RAW mode."""
        if item.mode is None and mode is not Mode.RAW and item.subscribers:
            self._source.bind(item.name, mode)

    def acquire(self, item: Item, mode: Mode) -> None:
        """Another lane needs the item: register it, and subscribe it at the adapter if it is the first."""
        item.subscribers += 1
        if item.subscribers == 1:
            self.items[item.name] = item
            self._source.subscribe(item.name, item.serial, mode)

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

    def tidy(self, now: float) -> None:
        """Forget items that were unsubscribed long ago."""
        for name, released in list(self._released.items()):
            if released + GRACE > now:
                break
            del self._released[name]

    def _live(self, item: str, serial: int | None) -> Item | None:
        live = self.items.get(item)
        if live is None or (serial is not None and serial != live.serial):
            self.unwanted_events += 1
            # An event with a serial is only late.
            if serial is None:
                self._complain_unwanted(item)
            return None
        return live

    def _is_only_recorded(self, item: str) -> bool:
        """Whether an item that nobody is subscribed to is still recorded."""
        return self.recorder is not None and item not in self.items and self.recorder.wants(item)

    def _complain_unwanted(self, item: str) -> None:
        told = self._unwanted_items
        released = self._released.get(item)
        if released is not None and self._kernel.clock() < released + GRACE:
            return
        if item not in told and len(told) < MAX_UNWANTED_ITEMS:
            told.add(item)
            self._source.complain(item, "the item has no subscribers; logged once per item")

    # -- the entrance that trusts nothing -------------------------------------------------------------------------

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False, serial: int | None = None) -> None:
        """An event of an item: the fields that changed and their new values; `snapshot` marks the initial state.

        `serial` is what `subscribe` was called with: it identifies an event that is late, of a former subscription.
        """
        self._count(1)
        recorder = self.recorder
        if recorder is not None and self._is_only_recorded(item):
            self._record_only(item, event, snapshot)
            return
        live = self._live(item, serial)
        if live is None:
            return
        try:
            checked = check_event(event)
            live.update(checked, snapshot)
        except BadEvent as bad:
            self._drop(item, bad)
            return
        if recorder is not None:
            recorder.record(item, "snapshot" if snapshot else "update", checked)

    def updates(self, events: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        """Many events, of any items, in order."""
        # The same as `update`, inlined, because most events come this way.
        items, recorder = self.items, self.recorder
        for item, event in events:
            self._count(1)
            live = items.get(item)
            if live is None:
                if recorder is not None and recorder.wants(item):
                    self._record_only(item, event, False)
                    continue
                self.unwanted_events += 1
                self._complain_unwanted(item)
                continue
            try:
                checked = check_event(event)
                live.update(checked, False)
            except BadEvent as bad:
                self._drop(item, bad)
                continue
            if recorder is not None:
                recorder.record(item, "update", checked)

    def rows(self, fields: tuple[str, ...], rows: Iterable[Sequence[Value]]) -> None:
        """Many events of any items that carry the same fields, in order: each row is an item and the values."""
        layout = self._layouts.get(fields) or self._new_layout(fields)
        width = layout.width
        items, recorder = self.items, self.recorder
        for given in rows:
            row: State | None = checked_row(given, width)
            if row is None:
                row = self._convert(given, layout)
                if row is None:
                    continue
            item = row[0]
            assert item is not None
            live = items.get(item)
            if live is None or recorder is not None:
                self.updates([(item, layout.event(row))])
                continue
            self._count(1)
            try:
                live.update_row(layout, row)
            except BadEvent as bad:
                self._drop(item, bad)

    def _new_layout(self, fields: tuple[Any, ...]) -> RowLayout:
        """Raises ValueError: without names nothing can be made of the rows."""
        for number, name in enumerate(fields):
            if not isinstance(name, str) or not is_unicode(name):
                raise ValueError(f"field name {_echo(repr(name))} is not text that UTF-8 can encode")
            if name in fields[:number]:
                raise ValueError(f"field {_echo(name)!r} is named twice")
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
        layout = self._layouts[fields] = RowLayout(fields)
        return layout

    def _convert(self, given: Any, layout: RowLayout) -> State | None:
        """A row that is not plain, with what is in it written out; None if it is dropped."""
        item = ""
        try:
            if isinstance(given, str) or not isinstance(given, Sequence) or not given:
                raise BadEvent(f"a row that is a {type(given).__name__}, not an item and its values")
            if not isinstance(given[0], str):
                raise BadEvent(f"a row whose item is a {type(given[0]).__name__}, not text")
            item = str(given[0])
            if len(given) != layout.width + 1:
                raise BadEvent(f"a row of {len(given) - 1} values; expected {layout.width}, one for each field")
            event = check_event(dict(zip(layout.fields, given[1:], strict=True)))
        except BadEvent as bad:
            self._count(1)
            self._drop(item, bad)
            return None
        return (item, *event.values())

    def _record_only(self, item: str, event: Mapping[str, Value], snapshot: bool) -> None:
        assert self.recorder is not None
        try:
            checked = check_event(event)
        except BadEvent as bad:
            self._drop(item, bad)
        else:
            self.recorder.record(item, "snapshot" if snapshot else "update", checked)

    def _count(self, events: int) -> None:
        self.events += events
        self._kernel.tally.events_in += events

    def _drop(self, item: str, bad: BadEvent) -> None:
        self.bad_events += 1
        self._source.complain(item, str(bad))

    # -- the entrance for events that have been checked -----------------------------------------------------------

    def publish_checked(self, events: Iterable[tuple[Item, CheckedEvent, bool]]) -> None:
        """Many events with their items and whether each is of a snapshot.

        Those that are late for an item that has gone are dropped.
        """
        recorder = self.recorder
        for item, event, snapshot in events:
            self._count(1)
            if item.subscribers:
                try:
                    item.update(event, snapshot)
                except BadEvent as bad:
                    self._drop(item.name, bad)
                    continue
            elif not self._is_only_recorded(item.name):
                self.unwanted_events += 1
                continue
            if recorder is not None:
                recorder.record(item.name, "snapshot" if snapshot else "update", event)

    def publish_checked_by_name(self, events: Iterable[tuple[str, CheckedEvent, bool]], recorded: bool = False) -> None:
        """By names of items, for a producer that keeps their states itself and does not know who is subscribed.

        Events of items that nobody is subscribed to are recorded, if wanted, and that is all; nobody complains.
        `recorded`: none of them is recorded, because the producer has done so, or repeats what was recorded before, as
        for somebody who has just subscribed.
        """
        items = self.items
        recorder = None if recorded else self.recorder
        for name, event, snapshot in events:
            self._count(1)
            item = items.get(name)
            if item is not None:
                try:
                    item.update(event, snapshot)
                except BadEvent as bad:
                    self._drop(name, bad)
                    continue
            if recorder is not None:
                recorder.record(name, "snapshot" if snapshot else "update", event)

    def repair(self, item: Item, events: Sequence[CheckedEvent], complete: bool) -> None:
        """The snapshot of an adapter that was lost and has come back; ordinary events bring clients up to date.

        `complete` means that no events are an empty item; else they mean that nothing is known of it.
        It is recorded as the snapshot it is, or as a clear if it is an empty one.
        """
        if not item.subscribers:
            return
        self._count(len(events))
        complaints: list[str] = []
        item.repair(events, complete, complaints)
        self.bad_events += len(complaints)
        for complaint in complaints:
            self._source.complain(item.name, complaint)
        if self.recorder is None:
            return
        if complete and not events:
            self.recorder.record(item.name, "clear", None)
        for event in _sensible(events) if complaints else events:
            self.recorder.record(item.name, "snapshot", event)

    # -- from both ------------------------------------------------------------------------------------------------

    def end_of_snapshot(self, item: str, serial: int | None = None) -> None:
        """All of the snapshot has been published."""
        live = self._live(item, serial)
        if live is not None:
            live.end_of_snapshot()

    def clear_snapshot(self, item: str, serial: int | None = None, recorded: bool = False) -> None:
        """The item is empty from now on. `recorded`: as with `publish_checked_by_name`."""
        if not self._is_only_recorded(item):
            live = self._live(item, serial)
            if live is None:
                return
            live.clear()
        if self.recorder is not None and not recorded:
            self.recorder.record(item, "clear", None)

    def declare_differences(self, item: str, orders: Mapping[str, str], serial: int | None = None) -> None:
        """Difference formats to try for fields, in order: `{"text": "PT"}`. P is JSON Patch, T is TLCP-diff."""
        live = self._live(item, serial)
        if live is not None:
            live.declare_differences(orders)


def _sensible(events: Iterable[CheckedEvent]) -> list[CheckedEvent]:
    """The valid events of a table's snapshot, in the form that `CommandBook.repair` takes."""
    table = CommandBook()
    sensible = []
    for event in events:
        with suppress(BadEvent):
            table.record(event)
            sensible.append(event)
    return sensible


def check_event(event: Mapping[str, Value]) -> CheckedEvent:
    """A copy of the event, because the adapter may use its own again, if all its values are text or null.

    Numbers are converted to text; anything else is refused, and so is text that UTF-8 cannot encode.
    """
    clean: CheckedEvent | None = clean_event(event)
    if clean is not None:
        return clean
    if type(event) is not dict and not isinstance(event, Mapping):
        raise BadEvent(f"an event that is a {type(event).__name__}, not fields and their values")
    # Any: adapters do not always respect the types.
    checked: dict[Any, Any] = dict(event)
    for name, value in checked.items():
        if not isinstance(name, str):
            raise BadEvent(f"field name {_echo(repr(name))} is not text")
        if not is_unicode(name):
            raise BadEvent(f"field name {_echo(name)!r} holds an unpaired surrogate, which UTF-8 cannot encode")
        if value is None:
            continue
        if type(value) is not str:
            value = checked[name] = _written_out(name, value)
        if not is_unicode(value):
            raise BadEvent(f"the value of field {_echo(name)!r} holds an unpaired surrogate, which UTF-8 cannot encode")
    return cast(CheckedEvent, checked)


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
