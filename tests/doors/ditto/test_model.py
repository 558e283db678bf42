"""Streaming subscriptions against a model that keeps nothing but lists and sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.wire.ditto.document import MAX_LONG
from penstock.wire.ditto.subscriptions import IDLE_SECONDS, REMEMBERED_SECONDS
from tests.doors.ditto.world import Message, Peer, kind
from tests.doors.ditto.world_memory import MemoryWorld

THINGS = ("ns:one", "ns:two", "ns:missing")
OVER = (400, "streaming.subscription.protocol.error")
UNKNOWN = (404, "streaming.subscription.not.found")
MISSING = (404, "things:thing.notfound")
SILENT = (408, "streaming.subscription.timeout")

# The first of two connections says more, and mostly about its last subscription.
PEER = st.sampled_from([0, 0, 0, 1])
BACK = st.sampled_from([0, 0, 0, 0, 1, 2, 5])


@dataclass
class Model:
    """What is known of one subscription. `history` is what it reads, from the first request on."""

    id: str
    thing: str
    first: int
    touched: float
    history: list[int] | None = None
    asked: int = 0
    sent: int = 0
    ended: float | None = None
    end: str | None = None


class Subscriptions(RuleBasedStateMachine):
    """Two connections. Every rule says something, or lets time pass, and compares all that came of it."""

    @initialize(size=st.integers(1, 7))
    def begin(self, size: int) -> None:
        self.world = MemoryWorld(size)
        self.world.port.lengths = {"ns:one": 9, "ns:two": 1}
        self.peers: list[Peer] = [self.world.connect(), self.world.connect()]
        self.known: list[list[Model]] = [[], []]
        self.writable = [True, True]
        for at in (0, 0, 1):
            self.subscribe(at, "ns:one", 0)

    @property
    def now(self) -> float:
        return self.world.clock()

    # -- what is expected ------------------------------------------------------------------------------------------

    def flow(self, at: int, model: Model) -> list[Any]:
        """What a subscription sends now, from scratch."""
        if model.ended is not None or model.history is None or not self.writable[at]:
            return []
        most = min(model.asked, len(model.history))
        expected: list[Any] = [("next", model.id, revision) for revision in model.history[model.sent : most]]
        if most > model.sent:
            model.sent = most
            model.touched = self.now
        if most == len(model.history):
            self.over(model, "complete")
            expected.append(("complete", model.id))
        return expected

    def over(self, model: Model, end: str) -> None:
        model.ended, model.end = self.now, end

    def find(self, at: int, id: str) -> Model | None:
        """Of those that are remembered."""
        found = [model for model in self.known[at] if model.id == id]
        if not found or (found[0].ended is not None and self.now >= found[0].ended + REMEMBERED_SECONDS):
            return None
        return found[0]

    # -- what was heard --------------------------------------------------------------------------------------------

    def short(self, message: Message) -> Any:
        value = message["value"]
        if kind(message) == "next":
            return "next", value["subscriptionId"], value["item"]["revision"]
        if kind(message) == "failed":
            return "failed", value["subscriptionId"], (value["error"]["status"], value["error"]["error"])
        return kind(message), value["subscriptionId"]

    def compare(self, heard: list[Message], expected: list[Any]) -> None:
        """In order for each subscription; between them there is none."""
        short = [self.short(message) for message in heard]
        for id in {each[1] for each in (*short, *expected)}:
            assert [each for each in short if each[1] == id] == [each for each in expected if each[1] == id]

    # -- rules -----------------------------------------------------------------------------------------------------

    @rule(at=PEER, thing=st.sampled_from(THINGS), first=st.sampled_from([0, 2, -2, 99]))
    def subscribe(self, at: int, thing: str, first: int) -> None:
        number = self.peers[at].subscribe(thing, fromHistoricalRevision=first)
        assert number == str(len(self.known[at]))
        self.known[at].append(Model(number, thing, first, self.now))

    def id_of(self, at: int, back: int) -> str:
        """Of the subscription that was made so many before the last one; of none if there are not as many."""
        return str(len(self.known[at]) - 1 - back)

    @rule(at=PEER, back=BACK, demand=st.sampled_from([-1, 0, 1, 1, 2, 2, 3, 5, MAX_LONG]))
    def request(self, at: int, back: int, demand: int) -> None:
        id = self.id_of(at, back)
        model = self.find(at, id)
        heard = self.peers[at].request(id, demand)
        self.compare(heard, self.requested(at, id, model, demand))

    def living(self) -> list[tuple[int, Model]]:
        return [(at, model) for at, models in enumerate(self.known) for model in models if model.ended is None]

    @precondition(lambda self: self.living())
    @rule(which=st.integers(0, 20), demand=st.sampled_from([1, 1, 2, 3, 5, 5, 9]))
    def read_on(self, which: int, demand: int) -> None:
        """What an honest client does most of the time."""
        living = self.living()
        at, model = living[which % len(living)]
        heard = self.peers[at].request(model.id, demand, model.thing)
        self.compare(heard, self.requested(at, model.id, model, demand))

    @precondition(lambda self: self.living())
    @rule(which=st.integers(0, 20), demand=st.sampled_from([1, 1, 2, 3]))
    def read_a_little(self, which: int, demand: int) -> None:
        self.read_on(which, demand)

    def requested(self, at: int, id: str, model: Model | None, demand: int) -> list[Any]:
        if model is None:
            return [("failed", id, UNKNOWN)]
        if model.ended is not None:
            return [("failed", id, OVER)]
        model.touched = self.now
        if demand <= 0:
            self.over(model, "failed")
            return [("failed", id, OVER)]
        model.asked = min(MAX_LONG, model.asked + demand)
        if model.history is None:
            length = self.world.port.lengths.get(model.thing, 0)
            if not length:
                self.over(model, "failed")
                return [("failed", id, MISSING)]
            first = max(1, length + model.first + 1 if model.first < 0 else model.first)
            model.history = list(range(first, length + 1))
        return self.flow(at, model)

    @rule(at=PEER, back=BACK)
    def cancel(self, at: int, back: int) -> None:
        id = self.id_of(at, back)
        model = self.find(at, id)
        heard = self.peers[at].cancel(id)
        if model is None:
            self.compare(heard, [("failed", id, UNKNOWN)])
            return
        assert heard == []
        if model.ended is None:
            self.over(model, "cancelled")

    @rule(thing=st.sampled_from(THINGS[:2]), count=st.integers(1, 4))
    def write(self, thing: str, count: int) -> None:
        self.world.port.lengths[thing] += count

    @rule(at=PEER)
    def fill(self, at: int) -> None:
        """The socket takes no more."""
        self.writable[at] = False
        self.peers[at].connection.set_writable(False)
        assert self.peers[at].hear() == []

    @rule(at=PEER)
    def drain(self, at: int) -> None:
        self.writable[at] = True
        self.peers[at].connection.set_writable(True)
        heard = self.peers[at].hear()
        self.compare(heard, [each for model in self.known[at] for each in self.flow(at, model)])

    @rule(seconds=st.sampled_from([0.1, 0.1, 0.1, 1.0, 1.0, 9.9, 10.0, 59.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)
        for at, peer in enumerate(self.peers):
            expected: list[Any] = []
            for model in self.known[at]:
                if model.ended is None and self.now >= model.touched + IDLE_SECONDS:
                    self.over(model, "failed")
                    expected.append(("failed", model.id, SILENT))
            self.compare(peer.hear(), expected)

    # -- always ----------------------------------------------------------------------------------------------------

    @invariant()
    def no_more_than_asked_for(self) -> None:
        for models in self.known:
            for model in models:
                assert model.sent <= model.asked
                assert model.asked or model.end in (None, "failed", "cancelled")

    @invariant()
    def what_is_over_is_let_go(self) -> None:
        flowing = sum(1 for models in self.known for model in models if model.history is not None and not model.end)
        assert sum(1 for history in self.world.port.opened if not history.closed) == flowing


Subscriptions.TestCase.settings = settings(stateful_step_count=50)
TestSubscriptions = Subscriptions.TestCase
