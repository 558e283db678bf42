"""An item: its mode, its books, and the views through which clients see it.

Who is subscribed is known by the views' lanes. Items come and go with their subscribers: see `feed`.
Specification: General Concepts 3.2.5 and 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.kernel.books import COMMAND_FIELD, KEY_FIELD, BadEvent, CommandBook, DistinctBook, MergeBook
from penstock.kernel.custom import CustomizedItem
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.follower import Follower
from penstock.kernel.lane import Lane, QueueLane
from penstock.kernel.ports import CheckedEvent, Codec, Customizer, Event, ItemGrant, Selector, State
from penstock.kernel.rows import RowLayout
from penstock.kernel.timers import Timed
from penstock.kernel.view import CommandView, EventView, MergeView, View

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel

# A patch restores the meaning of a value, not its exact text, which RAW mode requires.
JSON_PATCH = "P"


class Mode(Enum):
    """How the events of an item are understood for a client."""

    RAW = "RAW"
    MERGE = "MERGE"
    DISTINCT = "DISTINCT"
    COMMAND = "COMMAND"


class Item(Timed):
    """Bound to MERGE, DISTINCT or COMMAND by the first who asks for one of them; RAW goes with any."""

    def __init__(self, kernel: Kernel, serial: int, granted: ItemGrant, has_snapshot: bool) -> None:
        super().__init__()
        self.name = granted.name
        # Distinguishes this subscription at the data adapter from former ones to the same item.
        self.serial = serial
        # Which outboxes are paced together: see `Outbox.group`.
        self.group = crc32(granted.name.encode(errors="replace"))
        self.mode: Mode | None = None
        self.subscribers = 0
        # Those of them that are not clients: they keep the item at the adapter, and have no grant for it.
        self.keepers = 0
        # From the data adapter, ever since it was subscribed there.
        self.events = 0
        # Kept without subscribers: the mode is undecided again when the last view goes, so all books are always kept.
        self.pinned = False
        self._kernel = kernel
        self._views: dict[tuple[Mode, tuple[str, ...], int, int, bool], View] = {}
        self._raw_views: list[EventView] = []
        # Those who follow its events as they come, as views in RAW mode do; others follow the book of their mode.
        self._raw_followers: tuple[Follower, ...] = ()
        self._in_snapshot = has_snapshot
        # As long as the mode is undecided, all three are kept.
        self._merge = MergeBook()
        self._distinct = DistinctBook(granted.snapshot_length)
        # Lanes that wait for the last events of a DISTINCT snapshot, and how many of the kept ones they want: which
        # these are is known only at its end.
        self._owed: dict[Lane, int | None] = {}
        self._command = CommandBook()
        self._orders: Mapping[str, str] = {}
        self._default_order = kernel.limits.default_diff_order
        self._gap = 1 / granted.prefilter_frequency if granted.prefilter_frequency else 0.0
        self._gate_open = True
        self._ahead: Event | None = None

    # -- subscribers ----------------------------------------------------------------------------------------------

    @property
    def audience(self) -> int:
        """Clients that are subscribed to it; whoever only keeps it is none."""
        return self.subscribers - self.keepers

    def grant(self, granted: ItemGrant) -> None:
        """What applies to the item from now on; only as long as no client has it."""
        self._distinct.resize(granted.snapshot_length)
        self._gap = 1 / granted.prefilter_frequency if granted.prefilter_frequency else 0.0

    @property
    def in_snapshot(self) -> bool:
        """Whether more of the snapshot is to come."""
        return self._in_snapshot

    @property
    def is_prefiltered(self) -> bool:
        return self._gap > 0

    def check_mode(self, mode: Mode) -> None:
        """Refuse a mode that conflicts with the one this item is bound to."""
        if mode is not Mode.RAW and self.mode is not None and self.mode is not mode:
            raise Refusal(
                Reason.MODE,
                f"Item {self.name} is subscribed in {self.mode.value} mode; {mode.value} conflicts with it",
            )

    def view(
        self, mode: Mode, fields: tuple[str, ...], codec: Codec, selector: Selector | None, filtered: bool
    ) -> View:
        """The view for these fields and this codec, made when it is the first."""
        key = (mode, fields, id(codec), id(selector), filtered)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._make_view(mode, fields, codec, selector, filtered)
            view.differences = self._differences(mode, fields)
        return view

    def _make_view(
        self, mode: Mode, fields: tuple[str, ...], codec: Codec, selector: Selector | None, filtered: bool
    ) -> View:
        if mode is Mode.MERGE:
            positions = [self._merge.position(name) for name in fields]
            merge_view = MergeView(fields, codec, selector, positions, filtered)
            self._merge.views.append(merge_view)
            return merge_view
        if mode is Mode.COMMAND:
            command_view = CommandView(fields, codec, selector, fields.index(KEY_FIELD), fields.index(COMMAND_FIELD))
            self._command.views.append(command_view)
            return command_view
        event_view = EventView(fields, codec, selector)
        (self._raw_views if mode is Mode.RAW else self._distinct.views).append(event_view)
        return event_view

    def attach(self, lane: Lane, mode: Mode, snapshot_length: int | None) -> None:
        """A new lane joins its view; it gets the snapshot, or the part known so far, if it wants one."""
        view = lane.view
        view.add(lane)
        if mode is Mode.RAW:
            return
        self.mode = mode
        if not lane.wants_snapshot:
            return
        if isinstance(view, MergeView):
            self._merge.welcome(view, lane, None)
            return
        if isinstance(view, CommandView):
            self._command.welcome(view, lane, None)
        elif isinstance(view, EventView):
            if self._in_snapshot:
                lane.wants_snapshot = False
                self._owed[lane] = snapshot_length
                return
            self._distinct.welcome(view, lane, snapshot_length)
        if not self._in_snapshot:
            _tell_end(lane)

    def owes_snapshot(self, lane: Lane) -> bool:
        """Whether the lane is to get a part of the snapshot when the end of it is known."""
        return lane in self._owed

    def detach(self, lane: Lane) -> None:
        """A lane leaves; a view without lanes goes with it."""
        view = lane.view
        view.remove(lane)
        self._owed.pop(lane, None)
        if view.members:
            return
        self._views = {key: other for key, other in self._views.items() if other is not view}
        for views in (self._raw_views, self._merge.views, self._distinct.views, self._command.views):
            with suppress(ValueError):
                views.remove(view)  # type: ignore[arg-type]
        self._open_mode()

    def _open_mode(self) -> None:
        """An item that is kept without subscribers takes on any mode again."""
        if self.pinned and not self._views and not self._followers():
            self.mode = None

    def _followers(self) -> tuple[Follower, ...]:
        books = self._merge.followers + self._distinct.followers + self._command.followers
        return self._raw_followers + books

    # -- customized for one subscription --------------------------------------------------------------------------

    def customize(self, mode: Mode, customizer: Customizer, selector: Selector | None) -> CustomizedItem:
        """One that follows this one for a subscription that is about to begin; it knows already what this one does."""
        granted = ItemGrant(self.name, snapshot_length=self._distinct.length)
        made = CustomizedItem(self, Item(self._kernel, self.serial, granted, self._in_snapshot), customizer, selector)
        made.item.declare_differences(self._orders)
        if mode is not Mode.RAW:
            made.item.mode = mode
        if mode is Mode.MERGE:
            self._merge.introduce(made)
        elif mode is Mode.DISTINCT:
            self._distinct.introduce(made)
        elif mode is Mode.COMMAND:
            self._command.introduce(made)
        self.join(mode, made)
        return made

    # -- followers ------------------------------------------------------------------------------------------------

    def join(self, mode: Mode, follower: Follower) -> None:
        """Tell one what happens from now on."""
        if mode is Mode.RAW:
            self._raw_followers += (follower,)
            return
        self.mode = mode
        if mode is Mode.MERGE:
            self._merge.followers += (follower,)
        elif mode is Mode.DISTINCT:
            self._distinct.followers += (follower,)
        else:
            self._command.followers += (follower,)

    def leave(self, gone: Follower) -> None:
        """One that follows this one does not any more."""
        self._raw_followers = _without(self._raw_followers, gone)
        self._merge.followers = _without(self._merge.followers, gone)
        self._distinct.followers = _without(self._distinct.followers, gone)
        self._command.followers = _without(self._command.followers, gone)
        self._open_mode()

    def picture(self, mode: Mode) -> tuple[list[Event], bool, Mapping[str, str]]:
        """What a newcomer in this mode would be given: events; whether more of the snapshot is to come; and difference
        formats by field. What the prefilter holds back is part of it.
        """
        events: list[Event] = []
        if mode is Mode.MERGE:
            if self._merge.has_state or self._ahead is not None:
                events.append({**self._merge.whole(), **(self._ahead or {})})
        elif mode is Mode.DISTINCT:
            events += self._distinct.history()
            if self._ahead is not None:
                events.append(self._ahead)
        elif mode is Mode.COMMAND:
            events += self._command.rows()
        return events, self._in_snapshot, self._orders

    def show(self, event: Event, snapshot: bool) -> None:
        """Of an item that follows another: an event, or all that it is now. Raises BadEvent."""
        snapshot = snapshot and self._in_snapshot
        if not snapshot:
            self.end_of_snapshot()
        if self.mode is None:
            for view in self._raw_views:
                view.publish(event, snapshot)
        elif self.mode is Mode.MERGE and self._raw_followers:
            whole, event = event, {**dict.fromkeys(self._merge.whole()), **event}
            self._take(self._replacing(whole), snapshot)
        else:
            event = self._replacing(event)
            self._take(event, snapshot)
        # What it takes in is complete for them as well: fields that are gone are null.
        for follower in self._raw_followers:
            follower.follow(event, event, snapshot)

    def remember_only(self, event: Event) -> None:
        """Of an item that follows another: what was before its subscription. Raises BadEvent."""
        if self.mode is Mode.MERGE:
            self._merge.record(event)
        elif self.mode is Mode.DISTINCT:
            self._distinct.record(event)
        else:
            self._command.record(event)

    def _replacing(self, event: Event) -> Event:
        """What an event does not carry is null, in a state and in a row: it is whole."""
        if self.mode is Mode.MERGE:
            self._merge.forget_values()
        elif self.mode is Mode.COMMAND:
            return self._command.replacing(event)
        return event

    # -- events ---------------------------------------------------------------------------------------------------

    def update(self, event: CheckedEvent, snapshot: bool) -> None:
        """An event from the data adapter. Raises BadEvent when it cannot be understood; it is then dropped."""
        self.events += 1
        snapshot = snapshot and self._in_snapshot
        if not snapshot:
            self.end_of_snapshot()
        for view in self._raw_views:
            if view.selects(event):
                view.publish(event, snapshot)
        for follower in self._raw_followers:
            follower.follow(event, event, snapshot)
        if self._gap and not snapshot and self.mode in (Mode.MERGE, Mode.DISTINCT):
            self._prefilter(event)
        else:
            self._publish(event, snapshot)

    def update_row(self, layout: RowLayout, row: State) -> None:
        """The same for a checked row that is not part of a snapshot."""
        merge = self._merge
        if (
            self.mode is not Mode.MERGE
            or self._gap
            or self.pinned
            or self._raw_views
            or self._raw_followers
            or not merge.takes_rows()
        ):
            self.update(layout.event(row), False)
            return
        self.events += 1
        if self._in_snapshot:
            self.end_of_snapshot()
        self._kernel.tally.events_passed += 1
        merge.publish_row(layout, row)

    def _publish(self, event: Event, snapshot: bool) -> None:
        self._kernel.tally.events_passed += 1
        self._take(event, snapshot)

    def _take(self, event: Event, snapshot: bool) -> None:
        if self.mode is Mode.MERGE:
            self._merge.publish(self._merge.record(event), snapshot)
            if snapshot:
                self._in_snapshot = False
        elif self.mode is Mode.DISTINCT:
            self._distinct.publish(self._distinct.record(event), snapshot)
        elif self.mode is Mode.COMMAND:
            self._command.publish(self._command.record(event), snapshot)
        if self.mode is None or self.pinned:
            self._remember(event)

    def _remember(self, event: Event) -> None:
        """Record an event in the books of the other modes: a client may still ask for one of them."""
        if self.mode is not Mode.MERGE:
            self._merge.record(event)
        if self.mode is not Mode.DISTINCT:
            self._distinct.record(event)
        if self.mode is not Mode.COMMAND and KEY_FIELD in event:
            with suppress(BadEvent):
                self._command.record(event)

    def _prefilter(self, event: Event) -> None:
        """Let an event through, or keep it, merged with those kept before, until the gate opens again."""
        if self._gate_open:
            self._pass(event)
        elif self._ahead is None or self.mode is Mode.DISTINCT:
            self._ahead = event
        else:
            self._ahead = {**self._ahead, **event}

    def _pass(self, event: Event) -> None:
        self._gate_open = False
        self._kernel.set_timer(self, self._kernel.clock() + self._gap)
        self._publish(event, False)

    def expire(self, now: float) -> None:
        """The prefilter's gate opens."""
        self._gate_open = True
        ahead = self._ahead
        if ahead is not None:
            self._ahead = None
            self._pass(ahead)

    def end_of_snapshot(self) -> None:
        """The data adapter has sent all of its snapshot, or has begun to send real-time events."""
        if not self._in_snapshot:
            return
        self._in_snapshot = False
        for lane, length in self._owed.items():
            lane.wants_snapshot = True
            if isinstance(lane.view, EventView):
                self._distinct.welcome(lane.view, lane, length)
        self._owed.clear()
        for view in (*self._distinct.views, *self._command.views):
            for lane in view.lanes:
                if lane.wants_snapshot:
                    _tell_end(lane)
        for follower in self._followers():
            follower.end_of_snapshot()

    def take_raw(self, event: CheckedEvent) -> None:
        """An event for those in RAW mode alone: the others get a snapshot in its place."""
        self.events += 1
        for view in self._raw_views:
            if view.selects(event):
                view.publish(event, False)

    def take_repair(self, event: CheckedEvent) -> None:
        """An event of a repair that was made elsewhere: for all but those in RAW mode. Raises BadEvent."""
        self._ahead = None
        self._take(event, self._in_snapshot)

    def forget(self) -> None:
        """What is known of an item that is only wanted in RAW mode is not whole: a snapshot of it is to come."""
        self._in_snapshot = True
        self._ahead = None
        self._merge.clear()
        self._merge.has_state = False
        self._distinct.clear()
        self._command.clear()

    def miss(self, count: int, raw: bool, others: bool) -> None:
        """So many events never came here: clients that are to have every event are told so, in order with the others.

        `raw` and `others` say who lacks them: those in RAW mode, and those who want another mode unfiltered.
        """
        for key, view in self._views.items():
            if raw if key[0] is Mode.RAW else others:
                for lane in view.lanes:
                    if isinstance(lane, QueueLane):
                        lane.miss(count)

    def repair(self, events: Sequence[CheckedEvent], complete: bool, complaints: list[str]) -> None:
        """The data adapter has come back with a new snapshot: bring clients up to date without starting again.

        RAW has no snapshot and so no repair. What `complete` means is in `books`.
        """
        if events or complete:
            # What was kept for the prefilter's gate is older than the snapshot.
            self._ahead = None
        snapshot = self._in_snapshot
        is_open = self.mode is None or self.pinned
        if self.mode is Mode.MERGE or is_open:
            self._follow(self._merge, events, complete, complaints, snapshot)
        if self.mode is Mode.DISTINCT or is_open:
            self._follow(self._distinct, events, complete, complaints, snapshot)
        if self.mode is Mode.COMMAND:
            self._follow(self._command, events, complete, complaints, snapshot)
        elif is_open:
            # The mode is undecided: its events need not be valid as a table.
            self._follow(self._command, events, complete, [], snapshot)
        self.end_of_snapshot()

    def _follow(
        self,
        book: MergeBook | DistinctBook | CommandBook,
        events: Sequence[Event],
        complete: bool,
        complaints: list[str],
        snapshot: bool,
    ) -> None:
        clears, way = book.repair(events, complete, complaints)
        # Those who take events as they come are told once, by the book of the mode.
        told = self._raw_followers if self.mode is not None and book is self._book() else ()
        if clears:
            book.clear()
            for follower in told:
                follower.clear()
        for event in way:
            book.publish(book.record(event), snapshot)
            for follower in told:
                follower.repaired(event, snapshot)

    def _book(self) -> MergeBook | DistinctBook | CommandBook:
        """That of the mode."""
        if self.mode is Mode.MERGE:
            return self._merge
        return self._command if self.mode is Mode.COMMAND else self._distinct

    def clear(self) -> None:
        """The data adapter wants the item to be empty."""
        self._ahead = None
        self._merge.clear()
        self._distinct.clear()
        self._command.clear()
        for follower in self._raw_followers:
            follower.clear()

    def declare_differences(self, orders: Mapping[str, str]) -> None:
        """The difference formats that the data adapter wants tried, in order, for some fields."""
        self._orders = {**self._orders, **orders}
        for key, view in self._views.items():
            view.differences = self._differences(key[0], view.fields)
        for follower in self._followers():
            follower.declare_differences(orders)

    def _differences(self, mode: Mode, fields: tuple[str, ...]) -> tuple[str, ...]:
        orders = tuple([self._orders.get(name, self._default_order) for name in fields])
        if mode is Mode.RAW:
            orders = tuple([order.replace(JSON_PATCH, "") for order in orders])
        return orders if any(orders) else ()


def _tell_end(lane: Lane) -> None:
    lane.tell(lane.view.codec.end_of_snapshot(lane.subscription, lane.position))


def _without(followers: tuple[Follower, ...], gone: Follower) -> tuple[Follower, ...]:
    return tuple([follower for follower in followers if follower is not gone])
