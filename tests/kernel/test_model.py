"""Everything at once, at random: two clients of one kernel against the naive model of what they must have seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.client.events import MessageDone
from penstock.client.requests import StreamWishes
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.testing import Harness, Model, Peer

pytestmark = pytest.mark.timeout(900)

ITEMS = ("a", "b", "c")
SCHEMAS = ("x", "x y", "z y x")
VALUES = st.one_of(st.none(), st.sampled_from(["", "1", "2", "#", "a|b", "%41", "\r\n", "\u00e9\U0001f600"]))
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, min_size=1, max_size=3)

WISHES = st.one_of(
    st.just(StreamWishes()),
    st.builds(StreamWishes, content_length=st.integers(220, 400)),
    st.just(StreamWishes(polling=True)),
    st.just(StreamWishes(polling=True, idle_millis=2_000)),
)

# Long enough that no session ends by itself.
PATIENCE = SessionLimits(session_timeout_millis=10**8, session_recovery_millis=10**8, max_buffer_size=4)


class Customer:
    """A peer, and the model of what it must see in its present session."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.peer = Peer(harness)
        self.model = Model()
        self.open()

    def open(self) -> None:
        state = self.model.state
        self.model = Model()
        self.model.state = state
        self.messages = 0
        self.peer.seen.clear()
        self.peer.events.clear()
        self.peer.open()
        self.subscribe("a b", "x y", Mode.RAW, False, None)
        self.subscribe("a b a", "z y x", Mode.MERGE, True, None)
        self.subscribe("b c", "x y", Mode.MERGE, False, 0.5)

    def subscribe(
        self,
        items: str,
        fields: str,
        mode: Mode,
        snapshot: bool,
        frequency: float | None,
        buffer_size: int | None = None,
    ) -> None:
        number = self.peer.subscribe(items, fields, mode, snapshot, frequency, buffer_size)
        self.model.subscribe(number, items, fields, mode, snapshot)

    @property
    def must_bind(self) -> bool:
        return self.peer.is_looped or self.peer.channel.aborted

    def bind(self, wishes: StreamWishes, back: int) -> None:
        """Bind again; where nothing forces the client to, it takes its connection for dead."""
        peer = self.peer
        kept = peer.session._log.first
        point = None if peer.is_looped else max(peer.state.received - back, 0)
        if point is None or point >= kept:
            peer.bind(wishes, point)
            return
        with pytest.raises(Refusal) as caught:
            peer.bind(wishes, point)
        assert caught.value.reason is Reason.RECOVERY
        peer.session.close(32, "given up")
        self.open()

    def settle(self) -> None:
        """Let everything that is due reach the client."""
        peer = self.peer
        for _ in range(500):
            if peer.channel.aborted:
                self.bind(StreamWishes(), 0)
            peer.channel.relieve()
            peer.session.constrain(None)
            self.harness.advance(20.0)
            peer.receive()
            if not peer.is_looped and not peer.channel.aborted:
                return
            self.bind(StreamWishes(), 0)
        raise AssertionError("The client never comes to rest")


class Fleet(RuleBasedStateMachine):
    harness: Harness
    customers: list[Customer]

    @initialize(recovery=st.sampled_from([300, 1_000_000]))
    def start(self, recovery: int) -> None:
        self.harness = Harness(replace(PATIENCE, max_recovery_length=recovery))
        self.customers = [Customer(self.harness) for _ in range(2)]

    # -- the adapter --------------------------------------------------------------------------------------------------

    @rule(burst=st.lists(st.tuples(st.sampled_from(ITEMS), EVENTS), min_size=1, max_size=12), turn=st.booleans())
    def publish(self, burst: list[tuple[str, dict[str, str | None]]], turn: bool) -> None:
        for item, event in burst:
            for customer in self.customers:
                customer.model.publish(item, event)
            self.harness.source.publish(item, event)
        if turn:
            self.harness.turn()

    # -- clients ------------------------------------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 1),
        items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3).map(" ".join),
        fields=st.sampled_from(SCHEMAS),
        mode=st.sampled_from([Mode.MERGE, Mode.RAW]),
        snapshot=st.booleans(),
        frequency=st.sampled_from([None, None, 1.0, 10.0]),
        buffer_size=st.sampled_from([None, None, 0, 2]),
    )
    def subscribe(
        self,
        who: int,
        items: str,
        fields: str,
        mode: Mode,
        snapshot: bool,
        frequency: float | None,
        buffer_size: int | None,
    ) -> None:
        self.customers[who].subscribe(items, fields, mode, snapshot, frequency, buffer_size)

    @rule(who=st.integers(0, 1), data=st.data())
    def unsubscribe(self, who: int, data: st.DataObject) -> None:
        customer = self.customers[who]
        if customer.model.subscriptions:
            number = data.draw(st.sampled_from(sorted(customer.model.subscriptions)))
            customer.peer.unsubscribe(number)
            customer.model.unsubscribe(number)

    @rule(who=st.integers(0, 1), frequency=st.sampled_from([None, 0.5, 100.0]), data=st.data())
    def reconfigure(self, who: int, frequency: float | None, data: st.DataObject) -> None:
        session = self.customers[who].peer.session
        merged = [number for number, sub in session.subscriptions.items() if sub.request.mode is Mode.MERGE]
        if merged:
            session.subscription(data.draw(st.sampled_from(merged))).reconfigure(frequency)

    @rule(who=st.integers(0, 1), bandwidth=st.sampled_from([None, 0.5, 5.0, 500.0]))
    def constrain(self, who: int, bandwidth: float | None) -> None:
        self.customers[who].peer.session.constrain(bandwidth)

    @rule(who=st.integers(0, 1))
    def send_message(self, who: int) -> None:
        customer = self.customers[who]
        customer.messages += 1
        self.harness.submit(customer.peer.session, "hello", "S", customer.messages)

    # -- the network --------------------------------------------------------------------------------------------------

    @rule(who=st.integers(0, 1), size=st.one_of(st.none(), st.integers(0, 200)))
    def receive(self, who: int, size: int | None) -> None:
        self.customers[who].peer.receive(size)

    @rule(who=st.integers(0, 1), size=st.one_of(st.none(), st.integers(0, 200)))
    def cut(self, who: int, size: int | None) -> None:
        customer = self.customers[who]
        if not customer.must_bind:
            customer.peer.cut(size)

    @rule(who=st.integers(0, 1), wishes=WISHES, back=st.sampled_from([0, 0, 0, 1, 2, 7]))
    def bind(self, who: int, wishes: StreamWishes, back: int) -> None:
        self.customers[who].bind(wishes, back)

    @rule(who=st.integers(0, 1))
    def force_rebind(self, who: int) -> None:
        self.customers[who].peer.session.rebind()

    @rule(who=st.integers(0, 1), point=st.integers(0, 60))
    def ask_for_a_point_that_is_not_kept(self, who: int, point: int) -> None:
        session = self.customers[who].peer.session
        kept = range(session._log.first, session._log.reached + 1)
        if point not in kept:
            before = session.channel, list(session._lines), session._log.sent
            with pytest.raises(Refusal) as caught:
                self.harness.bind(session, recovery_from=point)
            assert caught.value.reason is Reason.RECOVERY
            assert before == (session.channel, session._lines, session._log.sent)

    @rule(who=st.integers(0, 1), congested=st.booleans())
    def congest(self, who: int, congested: bool) -> None:
        channel = self.customers[who].peer.channel
        if congested:
            channel.congest()
        else:
            channel.relieve()

    # -- time ---------------------------------------------------------------------------------------------------------

    @rule(seconds=st.one_of(st.just(0.0), st.floats(0.0, 3.0)))
    def advance(self, seconds: float) -> None:
        self.harness.advance(seconds)

    # -- the judgement ------------------------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "customers"))
    @invariant()
    def connections_of_limited_length_keep_to_it(self) -> None:
        for customer in self.customers:
            limit = customer.peer.channel.limit
            assert limit is None or customer.peer.channel.size <= limit

    def teardown(self) -> None:
        if not hasattr(self, "customers"):
            return
        for customer in self.customers:
            customer.settle()
        for customer in self.customers:
            customer.model.judge(customer.peer.seen)
            outcomes = [event.progressive for event in customer.peer.events if isinstance(event, MessageDone)]
            assert outcomes == list(range(1, customer.messages + 1))
            assert customer.peer.state.received == customer.peer.session._log.sent


TestFleet = Fleet.TestCase
TestFleet.settings = settings(stateful_step_count=40, max_examples=max(200, settings().max_examples))
