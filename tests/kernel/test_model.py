"""Everything at once, at random: two clients of one kernel against the naive model of what they must have seen.

Items of every mode; all kinds of subscriptions; limits that come and go; connections that break, end and clog.
`make test PROFILE=long` looks much longer than the default profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from penstock.kernel.ports import Customizer, Event, Value
from penstock.testing import Harness, Model, Peer, Setting, TruthSource
from penstock.testing.meter import judge_bandwidth, judge_pace, paced
from tests.support.effort import tries

pytestmark = pytest.mark.timeout(3_600)

# An item is bound to one of three modes; RAW goes with any.
MODES = {
    **dict.fromkeys(("m1", "m2", "m3"), Mode.MERGE),
    **dict.fromkeys(("d1", "d2", "d3"), Mode.DISTINCT),
    **dict.fromkeys(("c1", "c2", "c3"), Mode.COMMAND),
}
# Their adapter does not say by itself that the snapshot is over.
UNENDED = frozenset(("d2", "c2"))
SCHEMAS = {
    Mode.RAW: ("x", "x key command", "y z"),
    Mode.MERGE: ("x", "x y", "z y x"),
    Mode.DISTINCT: ("x", "x y", "z x"),
    Mode.COMMAND: ("key command x y", "z y command key"),
}

VALUES = st.one_of(st.none(), st.sampled_from(["", "1", "2", "#", "a|b", "%41", "\r\n", "\u00e9\U0001f600"]))
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, min_size=1, max_size=3)
COMMANDS = st.builds(
    lambda event, key, command: {**event, "key": key, "command": command},
    EVENTS,
    st.sampled_from("abc"),
    st.sampled_from(["ADD", "UPDATE", "UPDATE", "DELETE"]),
)
PUBLISHED = st.one_of(
    st.tuples(st.sampled_from(["m1", "m2", "m3", "d1", "d2", "d3"]), EVENTS),
    st.tuples(st.sampled_from(["c1", "c2", "c3"]), COMMANDS),
)

FREQUENCIES = [None, 0.5, 0.7, 3.3, 10.0]
BANDWIDTHS = [None, 0.3, 1.5, 5.0, 500.0]
# None is the mode's default, 0 no limit.
BUFFERS = [None, 0, 1, 3]

WISHES = st.one_of(
    st.just(StreamWishes()),
    st.builds(StreamWishes, content_length=st.integers(220, 400)),
    st.just(StreamWishes(polling=True)),
    st.just(StreamWishes(polling=True, idle_millis=2_000)),
)

# Long enough that no session ends by itself.
PATIENCE = SessionLimits(session_timeout_millis=10**8, session_recovery_millis=10**8)
# The protection of unlimited buffers: one that is soon exceeded, and one that never is.
TIGHT, WIDE = 4, 1_000


def _hiding(event: Event) -> Event:
    return {**event, "x": None}


def _marking(event: Event) -> Event:
    return {**event, "y": f"{event.get('x') or ''}!", "key": (event.get("key") or "").upper()}


def _forgetting(event: Event) -> Event:
    return {field: value for field, value in event.items() if field not in ("y", "z") or value != "1"}


def _dropping(event: Event) -> Event | None:
    return None if event.get("x") in ("1", None) else event


def _deleting(event: Event) -> Event | None:
    """Rows go and come back by what is in them."""
    if "command" in event and len(event.get("x") or "") % 2 == 0:
        return {"key": event["key"], "command": "DELETE"}
    return None if event.get("y") == "#" else event


# What metadata adapters make of events for single subscriptions; for most of them nothing.
CUSTOMIZERS = [None, None, None, dict, _hiding, _marking, _forgetting, _dropping, _deleting]

# So that what was sent before a limit is changed can be told from what is sent after.
TICK = 1 / 1_024

LONG_STEPS = 50_000


class Customer:
    """A peer, and the model of what it must see in its present session."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.peer = Peer(harness)
        self.model = Model(MODES)
        self.open()

    def open(self, bandwidth: float | None = None) -> None:
        self.model = self.model.successor()
        self.messages = 0
        self.frequencies: dict[int, Setting] = {}
        self.bandwidth = Setting(self.harness.clock.now, bandwidth)
        self.peer.seen.clear()
        self.peer.events.clear()
        self.peer.open(max_bandwidth=bandwidth)
        self.subscribe("m1 d1 c1", "x key command", Mode.RAW)
        self.subscribe("m1 m2 m1", "z y x", Mode.MERGE, True)
        self.subscribe("d1 d2", "x y", Mode.DISTINCT, True, frequency=3.3)
        self.subscribe("c1 c2", "key command x", Mode.COMMAND, True, frequency=0.7)

    def subscribe(
        self,
        items: str,
        fields: str,
        mode: Mode,
        snapshot: bool = False,
        frequency: float | None = None,
        buffer_size: int | None = None,
        unfiltered: bool = False,
        length: int | None = None,
        customizer: Customizer | None = None,
    ) -> None:
        number = self.peer.subscribe(
            items, fields, mode, snapshot, frequency, buffer_size, unfiltered, length, customizer
        )
        whole = not buffer_size and self.harness.kernel.limits.max_buffer_size == WIDE
        self.model.subscribe(
            number,
            items,
            fields,
            mode,
            snapshot,
            snapshot_length=length,
            unfiltered=unfiltered,
            whole=whole,
            customizer=customizer,
        )
        self.frequencies[number] = Setting(self.harness.clock.now, frequency)

    def unsubscribe(self, number: int) -> None:
        self.peer.unsubscribe(number)
        self.model.unsubscribe(number)

    @property
    def filtered(self) -> list[int]:
        return [number for number, sub in self.peer.session.subscriptions.items() if not sub.unfiltered]

    def reconfigure(self, number: int, frequency: float | None) -> None:
        self.peer.session.subscription(number).reconfigure(frequency)
        self.frequencies[number].change(self.harness.clock.now, frequency)

    def constrain(self, bandwidth: float | None) -> None:
        self.harness.advance(TICK)
        self.peer.session.constrain(bandwidth)
        self.bandwidth.change(self.harness.clock.now, bandwidth)
        self.harness.turn()
        self.harness.advance(TICK)

    @property
    def must_bind(self) -> bool:
        return self.peer.is_looped or self.peer.channel.aborted

    def bind(self, wishes: StreamWishes, back: int) -> None:
        """Bind again; where nothing forces the client to, it takes its connection for dead."""
        peer = self.peer
        kept = peer.session.log.first
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
        """Let everything that is due reach the client; only what a long queue holds back is set free."""
        peer = self.peer
        for _ in range(500):
            if peer.channel.aborted:
                self.bind(StreamWishes(), 0)
            peer.channel.relieve()
            self.constrain(None)
            for item in MODES:
                self.harness.feed.end_of_snapshot(item)
            for number in self.filtered:
                request = peer.session.subscription(number).request
                if request.mode is Mode.DISTINCT or request.buffer_size is not None:
                    self.reconfigure(number, None)
            self.harness.advance(20.0)
            peer.receive()
            if not peer.is_looped and not peer.channel.aborted:
                return
            self.bind(StreamWishes(), 0)
        raise AssertionError("The client never comes to rest")

    def judge(self) -> None:
        peer = self.peer
        self.model.judge(peer.seen)
        outcomes = [event.progressive for event in peer.events if isinstance(event, MessageDone)]
        assert outcomes == list(range(1, self.messages + 1))
        assert peer.state.received == peer.session.log.sent == len(peer.data)
        peer.meter.read(peer.channel)
        judge_bandwidth(peer.meter.spent, self.bandwidth)
        for number, lanes in (self.model.subscriptions | self.model.ended).items():
            for position, lane in enumerate(lanes, start=1):
                if not lane.unfiltered:
                    timed = [
                        (sent, event)
                        for sent, event in zip(peer.meter.sent, peer.data, strict=True)
                        if getattr(event, "subscription", 0) == number and getattr(event, "item", 0) == position
                    ]
                    for updates in paced(lane.mode, lane.fields, timed):
                        judge_pace(updates, self.frequencies[number])


class Fleet(RuleBasedStateMachine):
    harness: Harness
    source: TruthSource
    customers: list[Customer]
    published: int

    # Steps of all runs together.
    steps = 0

    @initialize(
        recovery=st.sampled_from([300, 1_000_000]),
        buffer_size=st.sampled_from([TIGHT, WIDE]),
        overhead=st.sampled_from([0, 9]),
        calm=st.sampled_from([0.0, 0.3, 1_000.0]),
        delay=st.sampled_from([0, 0, 40]),
    )
    def start(self, recovery: int, buffer_size: int, overhead: int, calm: float, delay: int) -> None:
        self.source = TruthSource(MODES, UNENDED)
        limits = replace(PATIENCE, max_recovery_length=recovery, max_buffer_size=buffer_size, max_delay_millis=delay)
        self.harness = Harness(limits, source=self.source, overhead=overhead)
        self.harness.kernel.sharing.calm = calm
        self.customers = [Customer(self.harness) for _ in range(2)]
        self.published = 0

    # -- the adapter --------------------------------------------------------------------------------------------------

    @rule(burst=st.lists(PUBLISHED, min_size=1, max_size=12), turn=st.booleans())
    def publish(self, burst: list[tuple[str, dict[str, str | None]]], turn: bool) -> None:
        for item, event in burst:
            self._publish(item, event)
        if turn:
            self.harness.turn()

    def _publish(self, item: str, event: Mapping[str, Value]) -> None:
        for customer in self.customers:
            customer.model.publish(item, event)
        self.source.publish(item, event)

    @rule(
        items=st.lists(st.sampled_from(sorted(MODES)), min_size=1, max_size=3),
        count=st.integers(1, 40),
        pause=st.sampled_from([None, 0.0, 0.01, 0.13]),
        who=st.integers(0, 1),
        bandwidths=st.lists(st.sampled_from(BANDWIDTHS), max_size=3),
    )
    def stream(
        self, items: list[str], count: int, pause: float | None, who: int, bandwidths: list[float | None]
    ) -> None:
        """Many events, no two of them alike, one by one, while the limits of a client change; without a pause all in
        one turn."""
        customer = self.customers[who]
        for bandwidth in bandwidths or [customer.peer.session.max_bandwidth]:
            customer.constrain(bandwidth)
            for _ in range(count):
                self.published += 1
                for item in items:
                    self._publish(item, self._numbered(MODES[item]))
                if pause is not None:
                    self.harness.advance(pause)

    def _numbered(self, mode: Mode) -> dict[str, Value]:
        number = self.published
        event: dict[str, Value] = {"x": str(number), "y": str(number // 3), "z": "z" * (number * 7 % 60)}
        if mode is Mode.COMMAND:
            event["key"] = "abc"[number % 3]
            event["command"] = ("ADD", "UPDATE", "UPDATE", "DELETE")[number // 3 % 4]
        return event

    @rule(item=st.sampled_from(sorted(MODES)), turn=st.booleans())
    def clear(self, item: str, turn: bool) -> None:
        for customer in self.customers:
            customer.model.clear(item)
        self.source.clear(item)
        if turn:
            self.harness.turn()

    @rule(item=st.sampled_from(sorted(MODES)))
    def end_snapshot(self, item: str) -> None:
        self.harness.feed.end_of_snapshot(item)

    # -- clients ------------------------------------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 1),
        kind=st.sampled_from([Mode.MERGE, Mode.DISTINCT, Mode.COMMAND]),
        raw=st.sampled_from([False, False, False, True]),
        snapshot=st.booleans(),
        frequency=st.sampled_from(FREQUENCIES),
        buffer_size=st.sampled_from(BUFFERS),
        unfiltered=st.sampled_from([False, False, True]),
        length=st.sampled_from([None, None, 0, 2]),
        customizer=st.sampled_from(CUSTOMIZERS),
        data=st.data(),
    )
    def subscribe(
        self,
        who: int,
        kind: Mode,
        raw: bool,
        snapshot: bool,
        frequency: float | None,
        buffer_size: int | None,
        unfiltered: bool,
        length: int | None,
        customizer: Customizer | None,
        data: st.DataObject,
    ) -> None:
        mode = Mode.RAW if raw else kind
        known = sorted(MODES) if raw else [item for item, bound in MODES.items() if bound is kind]
        items = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3).map(" ".join))
        fields = data.draw(st.sampled_from(SCHEMAS[mode]))
        # Where nothing may be lost, what is cleared before the snapshot is over cannot be told from a loss.
        if mode is not Mode.DISTINCT or not snapshot or (unfiltered and not UNENDED.isdisjoint(items.split())):
            length = None
        self.customers[who].subscribe(
            items, fields, mode, snapshot, frequency, buffer_size, unfiltered, length, customizer
        )

    @rule(who=st.integers(0, 1), data=st.data())
    def unsubscribe(self, who: int, data: st.DataObject) -> None:
        customer = self.customers[who]
        if customer.model.subscriptions:
            customer.unsubscribe(data.draw(st.sampled_from(sorted(customer.model.subscriptions))))

    @rule(who=st.integers(0, 1), frequency=st.sampled_from(FREQUENCIES), data=st.data())
    def reconfigure(self, who: int, frequency: float | None, data: st.DataObject) -> None:
        customer = self.customers[who]
        if customer.filtered:
            customer.reconfigure(data.draw(st.sampled_from(customer.filtered)), frequency)

    @rule(who=st.integers(0, 1), bandwidth=st.sampled_from(BANDWIDTHS))
    def constrain(self, who: int, bandwidth: float | None) -> None:
        self.customers[who].constrain(bandwidth)

    @rule(who=st.integers(0, 1))
    def send_message(self, who: int) -> None:
        customer = self.customers[who]
        customer.messages += 1
        self.harness.submit(customer.peer.session, "hello", "S", customer.messages)

    @rule(who=st.integers(0, 1), bandwidth=st.sampled_from(BANDWIDTHS))
    def begin_again(self, who: int, bandwidth: float | None) -> None:
        customer = self.customers[who]
        customer.peer.session.close(31, "begun again")
        customer.open(bandwidth)

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
        kept = range(session.log.first, session.log.reached + 1)
        if point not in kept:
            before = session.channel, session.unsent, session.log.sent
            with pytest.raises(Refusal) as caught:
                self.harness.bind(session, recovery_from=point)
            assert caught.value.reason is Reason.RECOVERY
            assert before == (session.channel, session.unsent, session.log.sent)

    @rule(who=st.integers(0, 1), congested=st.booleans())
    def congest(self, who: int, congested: bool) -> None:
        channel = self.customers[who].peer.channel
        if congested:
            channel.congest()
        else:
            channel.relieve()

    # -- the machine --------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.5]))
    def strain(self, seconds: float) -> None:
        self.harness.kernel.set_strain(seconds)

    # -- time ---------------------------------------------------------------------------------------------------------

    @rule(seconds=st.one_of(st.just(0.0), st.floats(0.0, 3.0)))
    def advance(self, seconds: float) -> None:
        self.harness.advance(seconds)

    # -- the judgement ------------------------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "customers"))
    @invariant()
    def connections_of_limited_length_keep_to_it(self) -> None:
        Fleet.steps += 1
        for customer in self.customers:
            limit = customer.peer.channel.limit
            assert limit is None or customer.peer.channel.size <= limit

    def teardown(self) -> None:
        if not hasattr(self, "customers"):
            return
        for customer in self.customers:
            customer.settle()
        for customer in self.customers:
            customer.judge()


TestFleet = Fleet.TestCase
TestFleet.settings = settings(stateful_step_count=40, max_examples=max(tries(150), settings().max_examples))


@pytest.fixture(autouse=True, scope="module")
def counted() -> Iterator[None]:
    """The long profile is as long as it says."""
    yield
    print(f"{Fleet.steps} steps")
    if settings.get_current_profile_name() == "long":
        assert Fleet.steps >= LONG_STEPS
