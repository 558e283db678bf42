"""A subscription: the items of a group, the fields of a schema, one mode. Its lanes, one per item, are the stream's.

What may be subscribed is decided before, by the metadata adapter; what is sent, in `lane` and `view`.
Specification: General Concepts 3.3, tables 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.kernel.books import COMMAND_FIELD, KEY_FIELD
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.item import Item, Mode
from penstock.kernel.lane import Lane, MergeLane, QueueLane
from penstock.kernel.ports import Grant, Limits, Statistics
from penstock.kernel.table import TableLane
from penstock.kernel.view import CommandView, View

if TYPE_CHECKING:
    from penstock.kernel.custom import CustomizedItem
    from penstock.kernel.outbox import Outbox
    from penstock.kernel.ports import ItemGrant
    from penstock.kernel.ruling import Ruling
    from penstock.kernel.session import Session
    from penstock.kernel.stream import OwnStream


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What the client asks for, and what it is granted."""

    # The types are imported at run time, because a compiled dataclass needs those of its fields when it is made.
    number: int
    feed: Feed
    grant: Grant
    mode: Mode
    snapshot: bool = False
    snapshot_length: int | None = None
    # None: no limit.
    max_frequency: float | None = None
    unfiltered: bool = False
    # None: the mode's default; 0: no limit.
    buffer_size: int | None = None
    # Events are gathered, but not sent until `activate`.
    silent: bool = False


class Subscription:
    """A live subscription of one session."""

    __slots__ = (
        "_allowed",
        "_customized",
        "_silent",
        "items",
        "number",
        "request",
        "requested_frequency",
        "ruling",
        "session",
        "statistics",
        "unfiltered",
    )

    def __init__(self, session: Session, request: SubscriptionRequest) -> None:
        self.session = session
        self.request = request
        self.number = request.number
        self.requested_frequency = request.max_frequency
        # What the metadata adapter allows of each item, if it has decided again since the beginning.
        self._allowed: Limits = ()
        # What an administrator has set, for all items.
        self.ruling: Ruling | None = None
        self.unfiltered = request.unfiltered or request.mode is Mode.RAW
        # Tuples, because an empty list takes memory in each of many thousand subscriptions, and a short one more.
        self.items: tuple[Item, ...] = ()
        self._silent = request.silent
        # Items whose events are changed for this subscription.
        self._customized: tuple[CustomizedItem, ...] = ()
        # What became of the events of each item; known at the end, if somebody wants to be told.
        self.statistics: tuple[Statistics, ...] = ()

    def start(self, own: OwnStream) -> None:
        """Announce the subscription, then join every item; refused as a whole if one item does not allow it."""
        request = self.request
        # The same name may appear twice in a group.
        items: dict[str, Item] = {}
        for granted in request.grant.items:
            item = items.get(granted.name)
            if item is None:
                item = items[granted.name] = request.feed.item(granted)
            self._check(granted, item)
        self._announce()
        self.confirm()
        customized: list[CustomizedItem] = []
        for position, granted in enumerate(request.grant.items, start=1):
            self._join(own, granted, items[granted.name], position, customized)
        self.items = tuple([items[granted.name] for granted in request.grant.items])
        self._customized = tuple(customized)
        self.session.kernel.tally.subscribe_items(len(self.items))

    def _check(self, granted: ItemGrant, item: Item) -> None:
        request = self.request
        item.check_mode(request.mode)
        if request.unfiltered and request.mode is not Mode.RAW:
            if granted.max_frequency is not None:
                raise Refusal(
                    Reason.UNFILTERED_LIMITED,
                    f"Item {granted.name} is limited to {granted.max_frequency:g} updates/s; it cannot be unfiltered",
                )
            if item.is_prefiltered and request.mode in (Mode.MERGE, Mode.DISTINCT):
                raise Refusal(
                    Reason.UNFILTERED_PREFILTERED, f"Item {granted.name} is prefiltered; it cannot be unfiltered"
                )

    def _announce(self) -> None:
        fields = self.request.grant.fields
        codec = self.session.codec
        items = len(self.request.grant.items)
        if self.request.mode is not Mode.COMMAND:
            self.session.notify(codec.subscribed(self.number, items, len(fields)))
            return
        if KEY_FIELD not in fields:
            raise Refusal(Reason.NO_KEY_FIELD, f"COMMAND mode needs a field named {KEY_FIELD}")
        if COMMAND_FIELD not in fields:
            raise Refusal(Reason.NO_COMMAND_FIELD, f"COMMAND mode needs a field named {COMMAND_FIELD}")
        positions = fields.index(KEY_FIELD) + 1, fields.index(COMMAND_FIELD) + 1
        self.session.notify(codec.subscribed_command(self.number, items, len(fields), *positions))

    def _join(
        self, own: OwnStream, granted: ItemGrant, item: Item, position: int, customized: list[CustomizedItem]
    ) -> None:
        request = self.request
        grant = request.grant
        source, selector = item, grant.selector
        request.feed.bind(item, request.mode)
        if granted.customizer is not None:
            own_item = item.customize(request.mode, granted.customizer, selector)
            customized.append(own_item)
            # It has chosen already.
            source, selector = own_item.item, None
        view = source.view(request.mode, grant.fields, self.session.codec, selector, not self.unfiltered)
        lane = self._lane(own.outbox, granted, source, view, position)
        frequency = self._frequency(position - 1)
        lane.interval = 0.0 if frequency is None else 1.0 / frequency
        if self._silent:
            lane.mute()
        own.add(lane)
        source.attach(lane, request.mode, request.snapshot_length)
        request.feed.acquire(item, request.mode)

    def _lane(self, outbox: Outbox, granted: ItemGrant, item: Item, view: View, position: int) -> Lane:
        mode, snapshot = self.request.mode, self.request.snapshot
        if isinstance(view, CommandView) and not self.unfiltered:
            return TableLane(outbox, item, view, self.number, position, snapshot)
        size = self._buffer_size(granted)
        if mode is Mode.MERGE and size == 1:
            return MergeLane(outbox, item, view, self.number, position, snapshot)
        return QueueLane(outbox, item, view, self.number, position, snapshot, size, self.unfiltered)

    def _buffer_size(self, granted: ItemGrant) -> int:
        """Events that may wait; an unlimited buffer is limited by the server's own protection."""
        protection = self.session.limits.max_buffer_size
        if self.unfiltered:
            return protection
        size = self.request.buffer_size
        if size is None:
            size = 1 if self.request.mode is Mode.MERGE else 0
        allowed = granted.max_buffer_size
        if allowed is not None and (size == 0 or size > allowed):
            size = allowed
        return min(size, protection) if size else protection

    def _frequency(self, index: int) -> float | None:
        """The limit in force for an item: the lower of what is asked for and what is allowed; None means no limit."""
        if self.unfiltered:
            return None
        if self.ruling is not None:
            allowed = self.ruling.limit
        else:
            allowed = self._allowed[index] if self._allowed else self.request.grant.items[index].max_frequency
        limits = [limit for limit in (self.requested_frequency, allowed) if limit is not None]
        return min(limits) if limits else None

    @property
    def max_frequency(self) -> float | None:
        """The limit that holds, in updates a second: the highest of all items; with none, what was asked for."""
        frequencies = [self._frequency(index) for index in range(len(self.request.grant.items))]
        if not frequencies:
            frequencies = [None if self.unfiltered else self.requested_frequency]
        return None if None in frequencies else max(limit for limit in frequencies if limit is not None)

    def confirm(self) -> None:
        """Tell the client the frequency limit that holds."""
        self.session.notify(self.session.codec.configured(self.number, self.max_frequency, not self.unfiltered))

    def reconfigure(self, max_frequency: float | None, allowed: Limits = ()) -> None:
        """A new frequency limit asked for by the client. `allowed` has the most that the metadata adapter allows of
        each item from now on, if it has decided again.

        None lifts it as far as it is allowed. RAW has no limit: the client is only told what is in force.
        """
        if self.request.mode is Mode.RAW:
            self.confirm()
            return
        self._check_filtered()
        self.requested_frequency = max_frequency
        if allowed:
            self._allow(allowed)
        self._change_frequency()

    def allow_frequency(self, limits: Limits) -> None:
        """The most that the metadata adapter allows of each item from now on; what an administrator has set stays."""
        self._check_filtered()
        self._allow(limits)
        if self.ruling is None:
            self._change_frequency()

    def _allow(self, limits: Limits) -> None:
        if len(limits) != len(self.request.grant.items):
            raise ValueError(f"{len(limits)} limits for {len(self.request.grant.items)} items")
        self._allowed = limits

    def rule(self, ruling: Ruling | None) -> None:
        """A frequency limit set by an administrator; None: what the metadata adapter allows holds again."""
        self._check_filtered()
        self.ruling = ruling
        self._change_frequency()

    def _check_filtered(self) -> None:
        if self.unfiltered:
            raise Refusal(
                Reason.UNFILTERED, f"Subscription {self.number} is unfiltered; its frequency cannot be limited"
            )

    def _change_frequency(self) -> None:
        lanes = self.session.own().lanes_of(self.number)
        for index, lane in enumerate(lanes):
            frequency = self._frequency(index)
            lane.set_interval(0.0 if frequency is None else 1.0 / frequency)
        self.confirm()

    def is_common(self, own: OwnStream) -> bool:
        """Whether another session may have one just like it: nobody wants to be told what became of its events."""
        return (
            not self._silent
            and self.request.grant.facts is None
            and not self._customized
            and not any(lane.item.owes_snapshot(lane) for lane in own.lanes_of(self.number))
        )

    def activate(self) -> None:
        """Begin to send, if the subscription was silent."""
        if self._silent:
            own = self.session.own()
            self._silent = False
            for lane in own.lanes_of(self.number):
                lane.unmute()

    def stop(self, own: OwnStream) -> None:
        """Leave all items; nothing held is sent any more."""
        if self.request.grant.facts is not None:
            lanes = own.lanes_of(self.number)
            self.statistics = tuple([Statistics(lane.updates, lane.lost, lane.left_out()) for lane in lanes])
        own.remove(self.number)
        for customized in self._customized:
            customized.leave()
        self._customized = ()
        for item in self.items:
            self.request.feed.release(item)
        self.session.kernel.tally.subscribe_items(-len(self.items))
        self.items = ()
