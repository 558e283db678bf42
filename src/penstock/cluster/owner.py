"""The owner of items, at a hub: who wants which, what happens to them, and what each edge is sent of it.

Every happening of an item has a number, and every message a place in its stream, so that edges notice what they lack:
they ask again and get the item's picture (`reader`). Sets, sessions and calls of edges are in `guests`. Pure: whoever
has the fabric calls `received`, `flush` at the end of a loop turn that `wake` asked for, and `beat` once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from penstock.cluster.derived import DerivedItems, is_derived
from penstock.kernel.custom import CustomizedItem
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.follower import Follower
from penstock.kernel.item import Item, Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import Event
from penstock.wire.fabric import messages
from penstock.wire.fabric.messages import (
    CLEAR,
    DIFFERENCES,
    END_OF_SNAPSHOT,
    REPAIR,
    SNAPSHOT,
    UPDATE,
    Alive,
    HubBeat,
    Interest,
    NewHappening,
    NoItem,
    Picture,
    Release,
    Stranger,
    encode,
    encode_happened,
)

# Beats without a word from an edge after which it counts as lost. Beats, not seconds: a hub that was frozen has missed
# its own, and must not take everybody for dead.
MAX_SILENCE = 5

# Beats for which an edge may ask for a derived item that is not known: its sessions are still being adopted.
ADOPTION = 30

# Times in a row that an edge has counted its interests differently before it is asked to say all of them again.
MAX_DISAGREEMENTS = 3

# The most that goes in one message: happenings, and bytes, unless a single happening is larger.
MAX_HAPPENINGS = 2_000
MAX_PAYLOAD = 512 * 1024

# Adapter set, data adapter, and item, by the name that edges ask for.
ItemKey = tuple[str, str, str]


class _Stream:
    """Messages for the edges that want the same items."""

    __slots__ = ("edges", "number", "pending", "sequence", "taps")

    def __init__(self, number: int, edges: frozenset[str]) -> None:
        self.number = number
        self.edges = edges
        self.sequence = 0
        self.pending: list[NewHappening] = []
        # How many items' happenings go here.
        self.taps = 0


class ItemTap(Follower):
    """Hands on what happens to an item, as its data adapter has said it. One for all edges that want the item."""

    __slots__ = ("_customized", "_feed", "_kept", "_owner", "edges", "handle", "item", "key", "number", "stream")

    def __init__(
        self, owner: ItemOwner, key: ItemKey, handle: int, feed: Feed, kept: Item, customized: CustomizedItem | None
    ) -> None:
        self._owner = owner
        self.key = key
        self.handle = handle
        self._feed = feed
        # The item of the data adapter; the one that is tapped may be derived from it.
        self._kept = kept
        self._customized = customized
        self.item = kept if customized is None else customized.item
        self.edges: frozenset[str] = frozenset()
        # Of the latest happening.
        self.number = 0
        self.stream: _Stream | None = None

    def start(self, mode: Mode) -> None:
        # It follows before the adapter is told, which may publish at once.
        self.item.join(Mode.RAW, self)
        if self._customized is None:
            self.bind(mode)
        self._feed.keep(self._kept, mode)

    def bind(self, mode: Mode) -> None:
        """Have the item keep what the mode needs, from now on. Raises a Refusal if another mode is in use."""
        self.item.check_mode(mode)
        if self._customized is not None and mode is not (self.item.mode or Mode.RAW):
            raise Refusal(Reason.MODE, "What was granted in one mode cannot be had in another")
        if mode is not Mode.RAW:
            self._feed.bind(self._kept, mode)
            self.item.mode = mode

    def stop(self) -> None:
        self.item.leave(self)
        if self._customized is not None:
            self._customized.leave()
        self._feed.stop_keeping(self._kept)

    def belongs_to(self, feed: Feed) -> bool:
        return self._feed is feed

    # -- from the item --------------------------------------------------------------------------------------------

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        self._add(SNAPSHOT if snapshot else UPDATE, event)

    def repaired(self, event: Event, snapshot: bool) -> None:
        self._add(REPAIR, event)

    def clear(self) -> None:
        self._add(CLEAR, None)

    def end_of_snapshot(self) -> None:
        self._add(END_OF_SNAPSHOT, None)

    def declare_differences(self, orders: Mapping[str, str]) -> None:
        self._add(DIFFERENCES, orders)

    def _add(self, kind: int, event: Mapping[str, str | None] | None) -> None:
        self.number += 1
        stream = self.stream
        if stream is not None:
            if not stream.pending:
                self._owner.add_dirty(stream)
            stream.pending.append((self.handle, self.number, kind, event))


class _Wanted:
    """An interest of an edge. `tap` is None if it could not be had."""

    __slots__ = ("is_confirmed", "key", "mode", "question", "tap", "ticket")

    def __init__(self, ticket: int, key: ItemKey, mode: Mode) -> None:
        self.ticket = ticket
        self.question = 0
        self.key = key
        self.mode = mode
        self.tap: ItemTap | None = None
        # Whether it has been asked for since the edge last said Hello.
        self.is_confirmed = True


class _Edge:
    __slots__ = ("age", "disagreements", "name", "owed", "run", "silence", "ticket_sum", "tickets", "wanted")

    def __init__(self, name: str, run: str) -> None:
        self.name = name
        self.run = run
        self.wanted: dict[int, _Wanted] = {}
        self.tickets: dict[ItemKey, int] = {}
        self.ticket_sum = 0
        # Streams that go on without it, or not at all, and whose last message it may not have.
        self.owed: dict[int, int] = {}
        # Beats since it came, and since its last word.
        self.age = 0
        self.silence = 0
        self.disagreements = 0


class ItemOwner:
    """`send` is to one edge, `spread` to several; `wake` asks for `flush` at the end of the current loop turn.

    `received`, `greeted` and `lost` are told of edges by the name that the fabric knows them by. Nothing here raises
    because of what an edge says.
    """

    def __init__(
        self,
        kernel: Kernel,
        epoch: int,
        derived: DerivedItems,
        send: Callable[[str, bytes], None],
        spread: Callable[[frozenset[str], bytes], None],
        wake: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        # Happenings and pictures that were sent, ever.
        self.happenings = 0
        self.pictures = 0
        self._kernel = kernel
        self._derived = derived
        self._send = send
        self._spread = spread
        self._wake = wake
        self._is_awake = False
        self._edges: dict[str, _Edge] = {}
        self._taps: dict[ItemKey, ItemTap] = {}
        self._handles = 0
        self._streams: dict[frozenset[str], _Stream] = {}
        self._stream_numbers = 0
        self._dirty: list[_Stream] = []
        # Whether an edge may have items of an adapter set already; None: it always may.
        self.serves: Callable[[str, str], bool] | None = None
        # Whether a data adapter of an adapter set that is not there will be; None: it never will.
        self.awaits: Callable[[str, str], bool] | None = None
        # Pictures that are to be sent, in order.
        self._asked: dict[tuple[str, int], None] = {}

    @property
    def items(self) -> int:
        """How many items edges want."""
        return len(self._taps)

    @property
    def edges(self) -> dict[str, int]:
        """The edges that are known, and how many items each wants."""
        return {name: len(edge.wanted) for name, edge in self._edges.items()}

    # -- edges ----------------------------------------------------------------------------------------------------

    def greeted(self, edge: str, run: str) -> None:
        """An edge has said Hello; the caller welcomes it after this. What it wants it will say again."""
        known = self._edges.get(edge)
        if known is not None and known.run == run:
            known.silence = 0
            known.disagreements = 0
            for wanted in known.wanted.values():
                wanted.is_confirmed = False
            return
        self.lost(edge)
        self._edges[edge] = _Edge(edge, run)

    def lost(self, edge: str) -> None:
        """An edge is gone: nothing is kept for it."""
        gone = self._edges.pop(edge, None)
        if gone is not None:
            for ticket in list(gone.wanted):
                self._drop(gone, ticket)

    def received(self, edge: str, message: messages.FabricMessage) -> None:
        """An Interest, a Release or an Alive; others are none of its business."""
        known = self._edges.get(edge)
        if isinstance(message, Interest):
            if known is None:
                self._send(edge, encode(Stranger(self.epoch)))
            elif known.run == message.run:
                known.silence = 0
                self._want(known, message)
        elif isinstance(message, Release):
            if known is not None and known.run == message.run:
                known.silence = 0
                self._drop(known, message.ticket)
        elif isinstance(message, Alive):
            self._hear(edge, known, message)

    def _hear(self, name: str, edge: _Edge | None, alive: Alive) -> None:
        if alive.epoch > self.epoch:
            # It has a younger hub than this one.
            return
        if edge is None or edge.run != alive.run or alive.epoch < self.epoch:
            self._send(name, encode(Stranger(self.epoch)))
            return
        edge.silence = 0
        for stream, sequence in alive.received.items():
            if edge.owed.get(stream, sequence + 1) <= sequence:
                del edge.owed[stream]
        if (alive.interests, alive.ticket_sum) == (len(edge.wanted), edge.ticket_sum):
            edge.disagreements = 0
            return
        confirmed = [ticket for ticket, wanted in edge.wanted.items() if wanted.is_confirmed]
        if (alive.interests, alive.ticket_sum) == (len(confirmed), sum(confirmed)):
            for ticket in edge.wanted.keys() - set(confirmed):
                self._drop(edge, ticket)
            return
        # A message may have been lost, or is still under way.
        edge.disagreements += 1
        if edge.disagreements >= MAX_DISAGREEMENTS:
            edge.disagreements = 0
            self._send(name, encode(Stranger(self.epoch)))

    def settled(self, edge: str) -> None:
        """An edge may have what it had to wait for; it would ask again only later."""
        known = self._edges.get(edge)
        if known is not None:
            for wanted in list(known.wanted.values()):
                if wanted.tap is None:
                    self._want(
                        known, Interest(known.run, wanted.ticket, wanted.question, *wanted.key, wanted.mode.value)
                    )

    def withdraw(self, feed: Feed) -> None:
        """A data adapter is about to stop: its items are no longer to be had."""
        for edge in self._edges.values():
            for wanted in list(edge.wanted.values()):
                if wanted.tap is not None and wanted.tap.belongs_to(feed):
                    self._drop(edge, wanted.ticket)

    # -- interests ------------------------------------------------------------------------------------------------

    def _want(self, edge: _Edge, interest: Interest) -> None:
        ticket = interest.ticket
        key = (interest.adapter_set, interest.data_adapter, interest.item)
        wanted = edge.wanted.get(ticket)
        if wanted is not None and interest.question < wanted.question:
            return
        former = edge.tickets.get(key, ticket)
        if former > ticket:
            # It has come late: the edge has released it since.
            return
        if former < ticket:
            self._drop(edge, former)
        try:
            mode = Mode(interest.mode)
        except ValueError:
            self._refuse(edge, interest, Reason.MODE, f"{interest.mode} is not a mode")
            return
        if wanted is not None and wanted.key != key:
            self._drop(edge, ticket)
            wanted = None
        if wanted is None:
            wanted = edge.wanted[ticket] = _Wanted(ticket, key, mode)
            edge.tickets[key] = ticket
            edge.ticket_sum += ticket
        wanted.question = interest.question
        wanted.is_confirmed = True
        if self.serves is not None and not self.serves(edge.name, interest.adapter_set):
            return
        try:
            tap = self._tap(edge, key, mode)
        except Refusal as refusal:
            self._refuse(edge, interest, refusal.reason, refusal.message)
            return
        if tap is None:
            return
        wanted.mode = mode
        if wanted.tap is None:
            wanted.tap = tap
            self._retarget(tap, tap.edges | {edge.name})
        self._asked[edge.name, ticket] = None
        self._call()

    def _tap(self, edge: _Edge, key: ItemKey, mode: Mode) -> ItemTap | None:
        """That of the item, in this mode; a new one if need be. None if it is not known yet whether it can be had."""
        adapter_set, data_adapter, name = key
        tap = self._taps.get(key)
        if tap is not None:
            tap.bind(mode)
            return tap
        try:
            feed = self._kernel.feed(adapter_set, data_adapter)
        except Refusal:
            if self.awaits is not None and self.awaits(adapter_set, data_adapter):
                return None
            raise
        customized: CustomizedItem | None = None
        if is_derived(name):
            derivation = self._derived.find(name)
            if derivation is None:
                if edge.age < ADOPTION:
                    return None
                raise Refusal(Reason.UNKNOWN_SUBSCRIPTION, "The hub does not know what the subscription chooses")
            if derivation.mode is not mode:
                raise Refusal(Reason.MODE, f"{derivation.item} was granted in {derivation.mode.value} mode")
            item = feed.kept_item(derivation.item)
            item.check_mode(mode)
            feed.bind(item, mode)
            customized = item.customize(mode, derivation.customizer or _same, derivation.selector)
        else:
            item = feed.kept_item(name)
            item.check_mode(mode)
        self._handles += 1
        tap = self._taps[key] = ItemTap(self, key, self._handles, feed, item, customized)
        tap.start(mode)
        return tap

    def _refuse(self, edge: _Edge, interest: Interest, reason: Reason, text: str) -> None:
        refusal = NoItem(self.epoch, edge.run, interest.ticket, interest.question, reason.name, text)
        self._send(edge.name, encode(refusal))

    def _drop(self, edge: _Edge, ticket: int) -> None:
        wanted = edge.wanted.pop(ticket, None)
        if wanted is None:
            return
        edge.ticket_sum -= ticket
        if edge.tickets.get(wanted.key) == ticket:
            del edge.tickets[wanted.key]
        self._asked.pop((edge.name, ticket), None)
        tap = wanted.tap
        if tap is None:
            return
        self._retarget(tap, tap.edges - {edge.name})
        if not tap.edges:
            del self._taps[tap.key]
            tap.stop()

    # -- streams --------------------------------------------------------------------------------------------------

    def _retarget(self, tap: ItemTap, edges: frozenset[str]) -> None:
        """What happens to the item from now on is for these edges."""
        # What has happened goes first, because messages of several streams would change its order.
        self._flush_streams()
        tap.edges = edges
        before = tap.stream
        if before is not None:
            before.taps -= 1
            if not before.taps:
                self._retire(before)
        tap.stream = None
        if edges:
            stream = self._streams.get(edges)
            if stream is None:
                self._stream_numbers += 1
                stream = self._streams[edges] = _Stream(self._stream_numbers, edges)
            stream.taps += 1
            tap.stream = stream

    def _retire(self, stream: _Stream) -> None:
        del self._streams[stream.edges]
        for name in stream.edges:
            edge = self._edges.get(name)
            if edge is not None and stream.sequence:
                edge.owed[stream.number] = stream.sequence

    def add_dirty(self, stream: _Stream) -> None:
        """A stream has something to send."""
        self._dirty.append(stream)
        if not self._is_awake:
            self._call()

    def _call(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def flush(self) -> None:
        """The end of a loop turn: send what has happened in it, then the pictures that were asked for."""
        self._is_awake = False
        self._flush_streams()
        asked, self._asked = self._asked, {}
        for name, ticket in asked:
            edge = self._edges[name]
            wanted = edge.wanted[ticket]
            tap = wanted.tap
            assert tap is not None
            events, in_snapshot, orders = tap.item.picture(wanted.mode)
            self.pictures += 1
            picture = Picture(
                self.epoch,
                edge.run,
                ticket,
                wanted.question,
                tap.handle,
                tap.number,
                wanted.mode.value,
                cast("tuple[messages.Event, ...]", tuple(events)),
                in_snapshot,
                dict(orders),
            )
            self._send(name, encode(picture))

    def _flush_streams(self) -> None:
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        for stream in dirty:
            pending, stream.pending = stream.pending, []
            self.happenings += len(pending)
            for start in range(0, len(pending), MAX_HAPPENINGS):
                self._spread_all(stream, pending[start : start + MAX_HAPPENINGS])

    def _spread_all(self, stream: _Stream, happenings: list[NewHappening]) -> None:
        """In halves, and halves of these, if they are too large for one message."""
        parts = [happenings]
        while parts:
            part = parts.pop()
            payload = encode_happened(self.epoch, stream.number, stream.sequence + 1, part)
            half = len(part) // 2
            if len(payload) > MAX_PAYLOAD and half:
                parts += [part[half:], part[:half]]
                continue
            stream.sequence += 1
            self._spread(stream.edges, payload)

    def beat(self) -> None:
        """About once a second: tell every edge what it should have; those that say nothing are lost."""
        self._flush_streams()
        for edge in list(self._edges.values()):
            edge.age += 1
            edge.silence += 1
            if edge.silence > MAX_SILENCE:
                self.lost(edge.name)
        sent: dict[str, dict[int, int]] = {name: dict(edge.owed) for name, edge in self._edges.items()}
        for stream in self._streams.values():
            if stream.sequence:
                for name in stream.edges:
                    sent[name][stream.number] = stream.sequence
        for name, sequences in sent.items():
            self._send(name, encode(HubBeat(self.epoch, sequences)))


def _same(event: Event) -> Event | None:
    return event
