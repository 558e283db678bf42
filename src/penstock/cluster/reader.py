"""The reader of items, at an edge: the hub's data adapters, seen over a fabric that drops, repeats and reorders.

An interest is asked for until its picture is there; what overtakes the picture is held. Happenings that do not follow
the last one, a hub that is new, messages that never came: the reader asks again, and brings clients up to date. Who
cannot be, because every event counts, is told how many are missing. Pure: see `owner`, the other end.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import cast

from penstock.cluster.derived import real_name
from penstock.kernel.books import BadEvent
from penstock.kernel.feed import Feed
from penstock.kernel.item import Item, Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import CheckedEvent
from penstock.wire.fabric import messages
from penstock.wire.fabric.messages import (
    CLEAR,
    DIFFERENCES,
    END_OF_SNAPSHOT,
    REPAIR,
    SNAPSHOT,
    UPDATE,
    Alive,
    Happened,
    Happening,
    HubBeat,
    Interest,
    NoItem,
    Picture,
    Release,
    encode,
)

# Seconds until what was not answered is asked for again.
PATIENCE = 2.0

# Seconds that a data adapter of a new hub has for its snapshot, before clients are shown the part that is there. Until
# then they keep what they have.
SNAPSHOT_PATIENCE = 5.0

# Happenings held for one item until its picture is there. Above it they are forgotten, and it is asked for once more.
MAX_HELD = 10_000

# Happenings of unknown items that are kept because a picture may follow, and for how many ticks.
MAX_STRAYS = 10_000
STRAY_TICKS = 3

# Messages of a stream that have come before one that is missing; above it, the missing ones are given up.
MAX_AHEAD = 10_000


class _State(IntEnum):
    # No picture of it yet from this hub.
    ASKED = 0
    LIVE = 1
    # A happening is missing.
    GAP = 2
    # Live so far in RAW mode; the picture of another mode is asked for.
    BINDING = 3
    # Clients have what a former hub knew; the adapter of this one is still sending its snapshot.
    WAITING = 4


class _Part:
    """An item that clients of this edge want."""

    __slots__ = (
        "asked",
        "feed",
        "handle",
        "held",
        "is_patient",
        "item",
        "joined",
        "mode",
        "name",
        "number",
        "question",
        "state",
        "ticket",
        "waits_since",
        "whole",
    )

    def __init__(self, ticket: int, feed: Feed, item: Item, mode: Mode) -> None:
        self.ticket = ticket
        self.feed = feed
        self.item = item
        self.name = item.name
        self.mode = mode
        self.state = _State.ASKED
        # How often there was something to ask; when it was asked last, None while there is nothing to be answered.
        self.question = 0
        self.asked: float | None = None
        # Whether there was a picture of it ever, and one in its present mode.
        self.joined = False
        self.whole = False
        # What the hub calls it, 0 if unknown, and the number of the last happening that clients have.
        self.handle = 0
        self.number = 0
        self.held: dict[int, Happening] = {}
        self.is_patient = True
        self.waits_since = 0.0

    def has_waited(self, now: float) -> bool:
        """Whether clients are to see the part of the snapshot that is there. In MERGE mode there are no parts."""
        return (
            self.state is _State.WAITING
            and self.is_patient
            and self.mode is not Mode.MERGE
            and now - self.waits_since >= SNAPSHOT_PATIENCE
        )

    def ends_waiting(self, happening: Happening) -> bool:
        """Whether the snapshot may be whole with this."""
        return self.asked is None and (happening.kind != SNAPSHOT or self.mode is Mode.MERGE)


class _Heard:
    """The messages of a stream that have come."""

    __slots__ = ("_ahead", "last", "target")

    def __init__(self) -> None:
        # All up to this one; some after it.
        self.last = 0
        self._ahead: set[int] = set()
        # What the beat before had said that there is.
        self.target = 0

    def add(self, sequence: int) -> None:
        if sequence == self.last + 1:
            self.last = sequence
            while self._ahead and self.last + 1 in self._ahead:
                self.last += 1
                self._ahead.discard(self.last)
        elif sequence > self.last:
            self._ahead.add(sequence)

    @property
    def lacks_much(self) -> bool:
        return len(self._ahead) > MAX_AHEAD

    def give_up(self) -> None:
        """What has not come by now is not waited for."""
        self.last = max(self.last, self.target, *self._ahead, 0)
        self._ahead.clear()


class FabricSource:
    """The hub's data adapter as the kernel's data source."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.feed: Feed
        self.parts: dict[str, _Part] = {}

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        self.parts[item] = self._reader.want(self.feed, self.feed.items[item], mode)

    def bind(self, item: str, mode: Mode) -> None:
        self._reader.bind(self.parts[item], mode)

    def unsubscribe(self, item: str) -> None:
        self._reader.release(self.parts.pop(item))

    def has_snapshot(self, item: str) -> bool:
        """The picture says when there is no more of it."""
        return True

    def complain(self, item: str, complaint: str) -> None:
        """The hub has complained already."""


class Reader:
    """All items of an edge. `send` is to the hub; `refused` is told of an item that could not be had, and why.

    `run` is that of the Hello which the caller says when there is a way to a hub, and whenever one says Stranger.
    """

    def __init__(
        self, kernel: Kernel, run: str, send: Callable[[bytes], None], refused: Callable[[Feed, str, str], None]
    ) -> None:
        # Of the latest hub; 0 before the first.
        self.epoch = 0
        # What has come from hubs that are none any more, of items that nobody here wants, or makes no sense.
        self.dropped = 0
        # How often items had to be brought up to date because something had not come.
        self.repairs = 0
        self._kernel = kernel
        self._run = run
        self._send = send
        self._refused = refused
        self._sources: dict[tuple[str, str], FabricSource] = {}
        self._now = 0.0
        self._tickets = 0
        self._ticket_sum = 0
        self._parts: dict[int, _Part] = {}
        self._by_handle: dict[int, _Part] = {}
        self._asking: dict[int, _Part] = {}
        self._streams: dict[int, _Heard] = {}
        # By handle: ticks since the first of them, and the happenings.
        self._strays: dict[int, list[Happening]] = {}
        self._stray_ages: dict[int, int] = {}
        self._stray_count = 0

    @property
    def items(self) -> int:
        """How many items are wanted here."""
        return len(self._parts)

    @property
    def unanswered(self) -> int:
        """How many of them wait for the hub."""
        return len(self._asking)

    # -- feeds ----------------------------------------------------------------------------------------------------

    def serve(self, adapter_set: str, data_adapter: str) -> Feed:
        """Let clients subscribe to the items of a data adapter of the hub."""
        source = FabricSource(self)
        source.feed = Feed(self._kernel, adapter_set, data_adapter, source)
        self._sources[adapter_set, data_adapter] = source
        self._kernel.serve(source.feed)
        return source.feed

    def withdraw(self, adapter_set: str, data_adapter: str) -> None:
        """The data adapter is no more; its sessions have been closed."""
        source = self._sources.pop((adapter_set, data_adapter))
        self._kernel.withdraw(adapter_set, data_adapter)
        for part in list(source.parts.values()):
            self.release(part)

    # -- what clients want ----------------------------------------------------------------------------------------

    def want(self, feed: Feed, item: Item, mode: Mode) -> _Part:
        self._tickets += 1
        part = self._parts[self._tickets] = _Part(self._tickets, feed, item, mode)
        self._ticket_sum += part.ticket
        self._ask(part)
        return part

    def bind(self, part: _Part, mode: Mode) -> None:
        """Somebody wants it in a mode, for the first time; what those in RAW mode get waits for the picture too."""
        part.mode = mode
        part.whole = False
        part.item.forget()
        if part.state is not _State.ASKED:
            part.state = _State.BINDING
        self._ask(part)

    def release(self, part: _Part) -> None:
        if self._parts.pop(part.ticket, None) is None:
            return
        self._ticket_sum -= part.ticket
        self._asking.pop(part.ticket, None)
        if part.handle:
            self._by_handle.pop(part.handle, None)
        self._send(encode(Release(self._run, part.ticket)))

    def _ask(self, part: _Part) -> None:
        """What there is to know has to be known anew: former answers do not count."""
        part.question += 1
        self._repeat(part)

    def _repeat(self, part: _Part) -> None:
        part.asked = self._now
        self._asking[part.ticket] = part
        feed = part.feed
        ask = Interest(self._run, part.ticket, part.question, feed.adapter_set, feed.name, part.name, part.mode.value)
        self._send(encode(ask))

    def _ask_all(self) -> None:
        for part in self._parts.values():
            self._ask(part)

    # -- the hub --------------------------------------------------------------------------------------------------

    def welcomed(self, epoch: int) -> None:
        """A hub has answered Hello: say what is wanted here."""
        if epoch < self.epoch:
            return
        if epoch > self.epoch:
            self._begin(epoch)
        self._ask_all()

    def _begin(self, epoch: int) -> None:
        """Another hub. Clients keep what they have until its pictures are there."""
        self.epoch = epoch
        self._by_handle.clear()
        self._streams.clear()
        self._forget_strays()
        for part in self._parts.values():
            part.state = _State.ASKED
            part.handle = part.number = 0
            part.held.clear()
            part.is_patient = True

    def received(self, message: messages.FabricMessage) -> None:
        """Happened, HubBeat, Picture or NoItem; others are none of its business."""
        if not isinstance(message, Happened | HubBeat | Picture | NoItem):
            return
        if isinstance(message, Picture | NoItem) and message.run != self._run:
            # For the process before this one, which had the same name and may have wanted another item by this ticket.
            self.dropped += 1
            return
        if message.epoch != self.epoch:
            if message.epoch < self.epoch:
                self.dropped += 1
                return
            self._begin(message.epoch)
            self._ask_all()
        if isinstance(message, Happened):
            self._take(message)
        elif isinstance(message, HubBeat):
            self._compare(message)
        elif isinstance(message, Picture):
            self._see(message)
        else:
            self._give_up(message)

    def tick(self, now: float) -> None:
        """About once a second: tell the hub what is there, and ask again for what is not."""
        self._now = now
        received = {number: heard.last for number, heard in self._streams.items()}
        self._send(encode(Alive(self.epoch, self._run, received, len(self._parts), self._ticket_sum)))
        for part in list(self._asking.values()):
            if part.asked is not None and now - part.asked >= PATIENCE:
                self._repeat(part)
        for part in self._parts.values():
            if part.has_waited(now):
                part.is_patient = False
                self._ask(part)
        for handle, age in list(self._stray_ages.items()):
            if age >= STRAY_TICKS:
                self._forget_stray(handle)
            else:
                self._stray_ages[handle] = age + 1

    # -- happenings -----------------------------------------------------------------------------------------------

    def _take(self, message: Happened) -> None:
        heard = self._streams.get(message.stream)
        if heard is None:
            heard = self._streams[message.stream] = _Heard()
        heard.add(message.sequence)
        by_handle, live = self._by_handle, _State.LIVE
        self._kernel.tally.events_in += len(message.happenings)
        for happening in message.happenings:
            part = by_handle.get(happening.handle)
            if part is None:
                self._stray(happening)
            elif part.state is live and happening.number == part.number + 1:
                part.number = happening.number
                event = happening.event
                if happening.kind == UPDATE and event is not None:
                    # The same as `_apply`, inlined, because most happenings are updates.
                    feed = part.feed
                    feed.events += 1
                    try:
                        part.item.update(cast(CheckedEvent, event), False)
                    except BadEvent:
                        feed.bad_events += 1
                else:
                    self._apply(part, happening)
            elif happening.number > part.number:
                self._hold(part, happening)

    def _apply(self, part: _Part, happening: Happening) -> None:
        kind, event, item = happening.kind, happening.event, part.item
        if kind == END_OF_SNAPSHOT:
            item.end_of_snapshot()
        elif kind == CLEAR:
            item.clear()
        elif event is None:
            self.dropped += 1
        elif kind == DIFFERENCES:
            item.declare_differences({field: order for field, order in event.items() if order is not None})
        else:
            part.feed.events += 1
            try:
                # A snapshot that a new hub's adapter sends to clients which have had theirs is not for RAW mode.
                if kind == REPAIR or (kind == SNAPSHOT and not item.in_snapshot):
                    item.take_repair(cast(CheckedEvent, event))
                else:
                    item.update(cast(CheckedEvent, event), kind == SNAPSHOT)
            except BadEvent:
                part.feed.bad_events += 1

    def _hold(self, part: _Part, happening: Happening) -> None:
        """It does not follow the last one, or what it follows is not known yet."""
        if len(part.held) >= MAX_HELD:
            part.held.clear()
        part.held[happening.number] = happening
        if part.state is _State.LIVE:
            part.state = _State.GAP
            self._ask(part)
        elif part.state is _State.GAP:
            self._catch_up(part)
        elif part.state is _State.WAITING and part.ends_waiting(happening):
            self._ask(part)

    def _catch_up(self, part: _Part) -> None:
        """Apply what is held as far as nothing is missing."""
        held = part.held
        while (happening := held.pop(part.number + 1, None)) is not None:
            part.number += 1
            self._apply(part, happening)
        if held:
            part.state = _State.GAP
        else:
            part.state = _State.LIVE

    def _stray(self, happening: Happening) -> None:
        """Of an item that is not known by this handle: its picture may be late."""
        if self._stray_count >= MAX_STRAYS or not self._asking:
            self.dropped += 1
            return
        self._stray_count += 1
        self._strays.setdefault(happening.handle, []).append(happening)
        self._stray_ages.setdefault(happening.handle, 0)

    def _forget_stray(self, handle: int) -> list[Happening]:
        self._stray_ages.pop(handle, None)
        strays = self._strays.pop(handle, [])
        self._stray_count -= len(strays)
        return strays

    def _forget_strays(self) -> None:
        self._strays.clear()
        self._stray_ages.clear()
        self._stray_count = 0

    # -- beats ----------------------------------------------------------------------------------------------------

    def _compare(self, beat: HubBeat) -> None:
        """What the hub has sent with what has come. A message is given the time until the next beat to arrive."""
        for number in self._streams.keys() - beat.sent.keys():
            del self._streams[number]
        lacks = False
        for number, sequence in beat.sent.items():
            heard = self._streams.get(number)
            if heard is None:
                heard = self._streams[number] = _Heard()
            lacks = lacks or heard.last < heard.target or heard.lacks_much
            heard.target = max(heard.target, sequence)
        if lacks:
            for heard in self._streams.values():
                heard.give_up()
            # Which items the message was about is not known.
            self._ask_all()

    # -- pictures -------------------------------------------------------------------------------------------------

    def _see(self, picture: Picture) -> None:
        part = self._parts.get(picture.ticket)
        if part is None or picture.question != part.question or part.asked is None:
            return
        is_known = part.handle == picture.handle
        if is_known and picture.number <= part.number and part.state is _State.LIVE:
            # Nothing is missing.
            self._answered(part)
            return
        if is_known and picture.number < part.number:
            self._ask(part)
            return
        if not is_known:
            self._rename(part, picture)
        part.item.declare_differences(picture.orders)
        if part.whole and part.mode is not Mode.RAW and picture.in_snapshot and part.is_patient:
            self._answered(part)
            if part.state is not _State.WAITING:
                part.state = _State.WAITING
                part.waits_since = self._now
            return
        if part.joined:
            self._count_missed(part, picture.number)
        self._show(part, picture)
        part.joined = part.whole = part.is_patient = True
        part.number = picture.number
        for number in [number for number in part.held if number <= picture.number]:
            del part.held[number]
        self._answered(part)
        self._catch_up(part)
        if part.state is _State.GAP:
            self._ask(part)

    def _answered(self, part: _Part) -> None:
        part.asked = None
        self._asking.pop(part.ticket, None)

    def _rename(self, part: _Part, picture: Picture) -> None:
        """Another handle: its numbers have nothing to do with those before."""
        if part.handle:
            self._by_handle.pop(part.handle, None)
        part.handle = picture.handle
        self._by_handle[picture.handle] = part
        part.held = {stray.number: stray for stray in self._forget_stray(picture.handle)}
        part.number = picture.number
        if part.joined:
            # How many is not known; perhaps none.
            part.item.miss(1, raw=True, others=True)

    def _count_missed(self, part: _Part, number: int) -> None:
        """Tell those who are to have every event what they lack up to this number."""
        count = number - part.number
        missing = 0
        for each in range(part.number + 1, number + 1):
            happening = part.held.get(each)
            if happening is None:
                missing += 1
                continue
            if missing:
                part.item.miss(missing, raw=True, others=False)
                missing = 0
            if happening.kind == UPDATE and happening.event is not None:
                part.item.take_raw(cast(CheckedEvent, happening.event))
        if missing:
            part.item.miss(missing, raw=True, others=False)
        if count:
            part.item.miss(count, raw=False, others=True)

    def _show(self, part: _Part, picture: Picture) -> None:
        """Bring clients to where the item is: by a snapshot, or by the difference to what they have."""
        item, events = part.item, cast("tuple[CheckedEvent, ...]", picture.events)
        if part.mode is Mode.RAW:
            if not picture.in_snapshot:
                item.end_of_snapshot()
        elif part.whole:
            self.repairs += 1
            part.feed.repair(item, events, complete=True)
        else:
            part.feed.publish_checked([(item, event, True) for event in events])
            if not picture.in_snapshot:
                item.end_of_snapshot()

    def _give_up(self, refusal: NoItem) -> None:
        """The item cannot be had: the subscriptions that want it end."""
        part = self._parts.get(refusal.ticket)
        if part is None or refusal.question != part.question or part.asked is None:
            return
        # Those in RAW mode had it before another mode was asked for, and keep it.
        keeps_raw = part.state is _State.BINDING
        self._refused(part.feed, real_name(part.name), refusal.text)
        for session in list(self._kernel.sessions.values()):
            for number, subscription in list(session.subscriptions.items()):
                if part.item in subscription.items and not (keeps_raw and subscription.request.mode is Mode.RAW):
                    session.unsubscribe(number)
        if part.ticket in self._parts:
            part.mode = Mode.RAW
            part.item.mode = None
            self._ask(part)
