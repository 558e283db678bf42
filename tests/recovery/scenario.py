"""A small life of a session that can be repeated exactly, over a network that breaks where the test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.client.events import (
    ClientEvent,
    Configured,
    EndOfSnapshot,
    MessageDone,
    MessageFailed,
    Overflow,
    Subscribed,
    Unsubscribed,
    Update,
)
from penstock.client.requests import StreamWishes
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.testing import Harness, Peer

DATA = (
    Configured,
    EndOfSnapshot,
    MessageDone,
    MessageFailed,
    Overflow,
    Subscribed,
    Unsubscribed,
    Update,
)

STREAMING = StreamWishes()
SHORT = StreamWishes(content_length=240)
POLLING = StreamWishes(polling=True)
LONG_POLLING = StreamWishes(polling=True, idle_millis=5_000)

Step = Callable[[Harness, Peer], object]

# The number of the MERGE subscription.
MERGED = 1

# What happens, one thing after the other. Every kind of data notification, connection notifications in between, values
# with everything that has to be escaped, and several updates in one turn.
STEPS: tuple[Step, ...] = (
    lambda harness, peer: harness.source.state.update(a={"x": "snap", "y": None}),
    lambda harness, peer: peer.subscribe("a b", "x y", snapshot=True),
    lambda harness, peer: peer.subscribe("a", "y x", Mode.RAW),
    lambda harness, peer: harness.publish("a", x="1", y="\u00e9\U0001f600|%"),
    lambda harness, peer: harness.advance(5.0),
    lambda harness, peer: harness.source.publish("b", {"x": "0"}),
    lambda harness, peer: harness.source.publish("b", {"x": "1"}),
    lambda harness, peer: peer.session.constrain(None),
    lambda harness, peer: harness.submit(peer.session, "hello", "chat", 1),
    lambda harness, peer: peer.subscribe("news", "x", Mode.DISTINCT, snapshot=True),
    lambda harness, peer: harness.publish("news", x="one, two\r\nthree"),
    lambda harness, peer: harness.publish("a", x="", y="#"),
    lambda harness, peer: peer.unsubscribe(2),
    lambda harness, peer: harness.submit(peer.session, "late", "chat", 4, max_wait_millis=1_000),
    lambda harness, peer: harness.advance(6.0),
    lambda harness, peer: harness.publish("a", x="end"),
    lambda harness, peer: harness.publish("b", x="end", y="end"),
)


@dataclass(frozen=True, slots=True)
class Cut:
    """The network breaks when the client has read `size` more bytes; it recovers from `back` before what it has."""

    size: int
    back: int = 0
    wishes: StreamWishes | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """How the client connects, and after how many steps it reads: until then everything is on its way, or waits.

    Where connections end by themselves between two readings, a cut moves those ends, and other MERGE updates are
    conflated: then only the last update of each item can be compared.
    """

    wishes: StreamWishes
    pace: int
    may_conflate: bool = False


class Run:
    """One run of the steps. When it is cut, the client recovers at once: nothing happens in between."""

    def __init__(self, manner: Manner, cuts: Sequence[Cut] = (), limits: SessionLimits | None = None) -> None:
        self.manner = manner
        self.harness = Harness(limits)
        self.peer = Peer(self.harness)
        self.wishes = manner.wishes
        # Bytes read after the head of the first connection: before it there is no session to recover.
        self.read = 0
        self._cuts = iter(cuts)
        self._cut = next(self._cuts, None)
        self._quota = 0 if self._cut is None else self._cut.size

    def play(self) -> list[ClientEvent]:
        """Run all steps; the data notifications as the client has got them."""
        self.peer.open(self.wishes)
        for count, step in enumerate(STEPS, start=1):
            step(self.harness, self.peer)
            if count % self.manner.pace == 0:
                self._settle()
        self._settle()
        return self._essence()

    def _essence(self) -> list[ClientEvent]:
        found: list[ClientEvent] = [event for event in self.peer.events if isinstance(event, DATA)]
        if not self.manner.may_conflate:
            return found
        merged = [event for event in found if isinstance(event, Update) and event.subscription == MERGED]
        last = {event.item: Update(MERGED, event.item, event.values, (), False) for event in merged}
        return [*(event for event in found if event not in merged), *(last[item] for item in sorted(last))]

    def _settle(self) -> None:
        """Read all there is, binding and breaking as it comes."""
        peer = self.peer
        if peer.is_looped:
            peer.bind(self.wishes)
        before = peer.state.received
        while True:
            if self._cut is not None and peer.unread >= self._quota:
                self._break(self._cut)
                continue
            size = peer.unread
            self._quota -= size
            self.read += size
            peer.receive()
            # A poll that does not wait comes back empty for ever: the next is for the next step.
            if not peer.is_looped or (self.wishes is POLLING and peer.state.received == before):
                return
            before = peer.state.received
            peer.bind(self.wishes)

    def _break(self, cut: Cut) -> None:
        peer = self.peer
        self.read += self._quota
        peer.cut(self._quota)
        self._cut = next(self._cuts, None)
        self._quota = 0 if self._cut is None else self._cut.size
        wishes = cut.wishes or self.wishes
        if peer.is_looped:
            peer.bind(wishes)
        else:
            # Going back is for fun, and only as far as the server can.
            point = max(peer.state.received - cut.back, peer.session.log.first)
            peer.bind(wishes, min(point, peer.state.received))


def every_cut(manner: Manner) -> Iterator[int]:
    """All the places where the stream can be cut."""
    run = Run(manner)
    run.play()
    return iter(range(run.read + 1))
