"""The items of a remote data adapter: which are wanted here, which are subscribed there, and how the two are brought
together. One owner of each item's state.

    IDLE           not subscribed there: nobody is connected
    SUBSCRIBING    SUB is out; its updates are taken already
      done         -> ACTIVE; or, if nobody wants it any more or somebody wants it anew, USB -> UNSUBSCRIBING
      failed       -> FAILED, or gone if nobody wants it: what was never subscribed is not unsubscribed
    ACTIVE         nobody wants it -> USB, UNSUBSCRIBING
    UNSUBSCRIBING  any outcome -> gone, or SUB again if somebody wants it anew
    FAILED         tried again after a while, unless the adapter has refused it; and when the adapter comes back

There is never more than one pending request for an item, because the published SDKs lose answers then. When the adapter
is lost, wanted items are IDLE; when it is back they are subscribed again, and what comes until the end of the snapshot
is gathered and passed to the kernel as a repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from typing import cast

from penstock.adapters.remote.calls import CallOutcome, Unanswered, Why
from penstock.adapters.remote.link import Phase, RemoteLink
from penstock.kernel.feed import Feed
from penstock.kernel.item import Item, Mode
from penstock.kernel.ports import CheckedEvent
from penstock.log import get
from penstock.wire.ari.notifications import AriEndOfSnapshot, AriUpdate, ClearSnapshot, DeclareDifferences
from penstock.wire.ari.replies import Done, ExceptionKind, Failed, Reply
from penstock.wire.ari.requests import SubscribeItem, UnsubscribeItem
from penstock.wire.ari.values import JSON_PATCH, TEXT_DIFFERENCE

log = get(__name__)

# The letters of difference formats, from theirs to the kernel's.
_FORMATS = str.maketrans({JSON_PATCH: "P", TEXT_DIFFERENCE: "T"})


class RemoteItemState(Enum):
    IDLE = auto()
    SUBSCRIBING = auto()
    ACTIVE = auto()
    UNSUBSCRIBING = auto()
    FAILED = auto()


class RemoteItem:
    """One item."""

    __slots__ = (
        "events",
        "flows",
        "gathers",
        "identifier",
        "item",
        "name",
        "sends_snapshots",
        "served",
        "state",
        "timer",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = RemoteItemState.IDLE
        # What the kernel wants, None if nothing; and what the present SUB is for, under which identifier.
        self.item: Item | None = None
        self.served: Item | None = None
        self.identifier = ""
        # Whether updates go straight to the kernel. Not before the first one, and not during a repair.
        self.flows = False
        # What is gathered for a repair.
        self.gathers = False
        self.events: list[CheckedEvent] = []
        # Whether this item has ever had a snapshot with something in it: an empty one then means an empty item.
        self.sends_snapshots = False
        # Ends the gathering, or the waiting after a failure.
        self.timer: asyncio.TimerHandle | None = None

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class RemoteItems:
    """All of them."""

    def __init__(self, link: RemoteLink, feed: Feed, repair_seconds: float, retry_seconds: float) -> None:
        self._link = link
        self._feed = feed
        self._repair_seconds = repair_seconds
        self._retry_seconds = retry_seconds
        self._entries: dict[str, RemoteItem] = {}
        self._by_identifier: dict[str, RemoteItem] = {}
        # By identifiers of SUBs that were not answered in time.
        self._given_up: dict[str, RemoteItem] = {}
        self._loop = asyncio.get_running_loop()

    # -- what the kernel wants ------------------------------------------------------------------------------------

    def want(self, item: Item) -> None:
        entry = self._entries.get(item.name)
        if entry is None:
            entry = self._entries[item.name] = RemoteItem(item.name)
        entry.item = item
        entry.sends_snapshots = False
        if entry.state is RemoteItemState.IDLE and self._link.phase is Phase.READY:
            self._subscribe(entry, repair=False)

    def unwant(self, name: str) -> None:
        entry = self._entries[name]
        entry.item = None
        self._forget_identifier(entry)
        if entry.state is RemoteItemState.ACTIVE:
            self._unsubscribe(entry)
        elif entry.state in (RemoteItemState.IDLE, RemoteItemState.FAILED):
            self._remove(entry)

    # -- what the link tells --------------------------------------------------------------------------------------

    def ready(self) -> None:
        for entry in list(self._entries.values()):
            self._subscribe(entry, repair=entry.served is entry.item)

    def lost(self) -> None:
        self._by_identifier.clear()
        self._given_up.clear()
        for entry in list(self._entries.values()):
            entry.cancel_timer()
            entry.gathers = entry.flows = False
            entry.events = []
            entry.state = RemoteItemState.IDLE
            if entry.item is None:
                del self._entries[entry.name]

    # -- requests -------------------------------------------------------------------------------------------------

    def _subscribe(self, entry: RemoteItem, repair: bool) -> None:
        """`repair`: the kernel's item has had events of a former subscription."""
        entry.cancel_timer()
        self._given_up.pop(entry.identifier, None)
        entry.state = RemoteItemState.SUBSCRIBING
        if not repair:
            # Known from the first notification on.
            entry.served = None
        entry.flows = False
        entry.gathers = repair
        entry.events = []
        served = entry.item
        entry.identifier = self._link.ask(
            SubscribeItem(entry.name), lambda outcome: self._subscribed(entry, served, outcome)
        )
        self._by_identifier[entry.identifier] = entry
        if repair:
            entry.timer = self._loop.call_later(self._repair_seconds, self._repair, entry, False)

    def _subscribed(self, entry: RemoteItem, item: Item | None, outcome: CallOutcome) -> None:
        if isinstance(outcome, Unanswered) and outcome.why is Why.LOST:
            return
        if isinstance(outcome, Done):
            if entry.item is item:
                entry.state = RemoteItemState.ACTIVE
            else:
                self._unsubscribe(entry)
            return
        self._forget_identifier(entry)
        entry.cancel_timer()
        entry.gathers = False
        if entry.item is None:
            self._remove(entry)
        elif entry.item is not item:
            self._subscribe(entry, repair=False)
        else:
            self._fail(entry, outcome)

    def _fail(self, entry: RemoteItem, outcome: CallOutcome) -> None:
        entry.state = RemoteItemState.FAILED
        reason = outcome.message if isinstance(outcome, Failed) else _why(outcome)
        log.warning(
            "remote adapter refused an item",
            adapter_set=self._feed.adapter_set,
            adapter=self._feed.name,
            item=entry.name,
            reason=reason,
        )
        if isinstance(outcome, Unanswered):
            self._given_up[entry.identifier] = entry
        if not (isinstance(outcome, Failed) and outcome.kind is ExceptionKind.SUBSCRIPTION):
            entry.timer = self._loop.call_later(self._retry_seconds, self._retry, entry)

    def _retry(self, entry: RemoteItem) -> None:
        self._subscribe(entry, repair=entry.served is entry.item)

    def _unsubscribe(self, entry: RemoteItem) -> None:
        entry.state = RemoteItemState.UNSUBSCRIBING
        self._forget_identifier(entry)
        self._link.ask(UnsubscribeItem(entry.name), lambda outcome: self._unsubscribed(entry, outcome))

    def _unsubscribed(self, entry: RemoteItem, outcome: CallOutcome) -> None:
        if isinstance(outcome, Unanswered) and outcome.why is Why.LOST:
            return
        if entry.item is None:
            self._remove(entry)
        else:
            self._subscribe(entry, repair=entry.served is entry.item)

    def answered_late(self, reply: Reply) -> None:
        """A SUB that was given up has been done after all: undo it there, then do it properly."""
        if not isinstance(reply, Done) or reply.method != SubscribeItem.method:
            return
        entry = self._given_up.pop(reply.request, None)
        if entry is not None and entry.state is RemoteItemState.FAILED and entry.identifier == reply.request:
            entry.cancel_timer()
            self._unsubscribe(entry)

    def _forget_identifier(self, entry: RemoteItem) -> None:
        self._by_identifier.pop(entry.identifier, None)

    def _remove(self, entry: RemoteItem) -> None:
        entry.cancel_timer()
        self._given_up.pop(entry.identifier, None)
        del self._entries[entry.name]

    # -- notifications --------------------------------------------------------------------------------------------

    def updated(self, updates: Sequence[AriUpdate]) -> None:
        """The hot path: one check of the identifier for each, and all are passed on together."""
        entries = self._by_identifier
        batch: list[tuple[Item, CheckedEvent, bool]] = []
        # What `wire.ari` has read out of UTF-8 is text or null, and nobody else has these tuples.
        checked = cast(Sequence[tuple[int, str, str, bool, CheckedEvent]], updates)
        for _, _, identifier, snapshot, event in checked:
            entry = entries.get(identifier)
            # None: it comes late, nobody wants the item any more.
            if entry is not None and (entry.flows or self._starts_to_flow(entry, snapshot, event)):
                item = entry.served
                assert item is not None
                batch.append((item, event, snapshot))
        self._feed.publish_checked(batch)

    def _starts_to_flow(self, entry: RemoteItem, snapshot: bool, event: CheckedEvent) -> bool:
        """Whether an update may go on; while a repair is being gathered, the snapshot may not."""
        if snapshot:
            entry.sends_snapshots = True
            if entry.gathers:
                entry.events.append(event)
                if entry.item is not None and entry.item.mode is Mode.MERGE:
                    # Its snapshot is one event, and nobody has to tell its end.
                    self._repair(entry, True)
                return False
        self._touch(entry)
        return True

    def _touch(self, entry: RemoteItem) -> None:
        """Something has come that is not of a repair."""
        if entry.gathers:
            self._repair(entry, True)
        entry.served = entry.item
        entry.flows = True

    def notified(self, packet: AriEndOfSnapshot | ClearSnapshot | DeclareDifferences) -> None:
        entry = self._by_identifier.get(packet.subscription)
        if entry is None or entry.item is None:
            return
        serial = entry.item.serial
        if isinstance(packet, DeclareDifferences):
            orders = {name: order.translate(_FORMATS) for name, order in packet.orders.items() if order is not None}
            self._feed.declare_differences(entry.name, orders, serial)
        elif isinstance(packet, ClearSnapshot) and entry.gathers:
            # What was gathered is void, and it is known that the item is empty.
            entry.events = []
            entry.sends_snapshots = True
        else:
            self._touch(entry)
            if isinstance(packet, AriEndOfSnapshot):
                self._feed.end_of_snapshot(entry.name, serial)
            else:
                self._feed.clear_snapshot(entry.name, serial)

    def _repair(self, entry: RemoteItem, ended: bool) -> None:
        """The new snapshot has ended, or there has been enough waiting for it."""
        entry.cancel_timer()
        events, entry.events = entry.events, []
        entry.gathers = False
        entry.flows = True
        if entry.item is not None:
            self._feed.repair(entry.item, events, complete=ended and entry.sends_snapshots)


def _why(outcome: CallOutcome) -> str:
    return outcome.why.value if isinstance(outcome, Unanswered) else "its answer belongs to another request"
