"""Frequency limits over time: decimal rates, never early, no bursts, kept whatever becomes of the connection.

The rules for one connection are in `test_lane`, for the rows of a table in `test_command`.
Specification: General Concepts 3.3.2 ("ensured even across consecutive polling connections") and 3.3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.events import Update
from penstock.client.requests import StreamWishes
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.kernel.subscription import Subscription
from penstock.kernel.timers import Timed
from penstock.testing import Harness, MemoryChannel, Peer

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
FIELDS = "key command x"
FILTERABLE = (Mode.MERGE, Mode.DISTINCT, Mode.COMMAND)

# The last bit of a sum of times may differ from that of a multiple.
ROUNDING = 1e-9

PATIENT = SessionLimits(session_timeout_millis=10**9, session_recovery_millis=10**9)


def data(channel: MemoryChannel) -> list[str]:
    """The updates since the last time."""
    return [line for line in channel.take() if line.startswith("U,")]


class Pacemaker(Timed):
    """Something paced that does nothing when its time has come."""

    def expire(self, now: float) -> None: ...


class Watcher:
    """A client of item t that notes when each update was sent. What is sent again by a recovery is not new."""

    def __init__(
        self, harness: Harness, mode: Mode, max_frequency: float | None, wishes: StreamWishes | None = None
    ) -> None:
        self.harness = harness
        self.wishes = wishes or StreamWishes()
        self.peer = Peer(harness)
        self.peer.open(self.wishes)
        number, _ = self.peer.state.subscribe("t", FIELDS, mode=mode.value)
        self.subscription: Subscription = harness.subscribe(
            self.peer.session, number, "t", FIELDS, mode, max_frequency=max_frequency
        )
        self.times: list[float] = []
        self.last: str | None = None
        self._count = 0

    def publish(self) -> None:
        """The item changes."""
        self._count += 1
        self.harness.publish("t", key="k", command="UPDATE", x=str(self._count))
        self.look()

    def look(self) -> None:
        for event in self.peer.receive():
            if isinstance(event, Update):
                self.times.append(self.harness.clock.now)
                self.last = event.values[2]

    def pass_time(self, seconds: float) -> None:
        """Look at every moment at which anything may happen."""
        until = self.harness.clock.now + seconds
        while (deadline := self.harness.kernel.next_deadline()) is not None and deadline < until:
            self.harness.advance(max(0.0, deadline - self.harness.clock.now))
            self.look()
        self.harness.advance(until - self.harness.clock.now)
        self.look()

    def forget_addition(self) -> None:
        """Let the row be there: its ADD is bound by no limit."""
        self.publish()
        self.pass_time(1_000.0)
        self.times.clear()

    @property
    def count(self) -> int:
        return self._count

    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.times)]


# -- decimal rates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize("rate", [0.3, 2.5, 1 / 3, 7.77, 99.9])
def test_under_a_busy_item_updates_are_evenly_spread_at_a_decimal_rate(mode: Mode, rate: float) -> None:
    harness = Harness(PATIENT)
    watcher = Watcher(harness, mode, rate)
    watcher.forget_addition()
    tick = 1 / rate / 20
    for _ in range(20 * 20):
        watcher.publish()
        watcher.pass_time(tick)
    assert len(watcher.times) in (20, 21)
    assert watcher.gaps() == pytest.approx([1 / rate] * (len(watcher.times) - 1), abs=ROUNDING)


@pytest.mark.parametrize("mode", FILTERABLE)
def test_a_burst_after_a_long_silence_is_still_one_update_per_interval(harness: Harness, mode: Mode) -> None:
    """An interval that nobody used is gone: it does not add up to a right to send several at once."""
    watcher = Watcher(harness, mode, 2.5)
    watcher.forget_addition()
    for _ in range(10):
        watcher.publish()
    assert len(watcher.times) == 1
    watcher.pass_time(0.4 - ROUNDING)
    assert len(watcher.times) == 1
    watcher.pass_time(2 * ROUNDING)
    assert len(watcher.times) == 2


@pytest.mark.parametrize("rate", [0.3, 2.5])
def test_a_rare_item_is_not_delayed(harness: Harness, rate: float) -> None:
    watcher = Watcher(harness, Mode.MERGE, rate)
    expected: list[float] = []
    for _ in range(10):
        watcher.publish()
        expected.append(harness.clock.now)
        watcher.pass_time(1 / rate + 0.001)
    assert watcher.times == expected


# -- never early ------------------------------------------------------------------------------------------------------

RATES = st.one_of(st.sampled_from([0.1, 0.3, 1.0, 2.5, 3.0, 7.0]), st.floats(0.05, 200.0))
PAUSES = st.lists(st.one_of(st.just(0.0), st.floats(0.0, 3.0)), min_size=1, max_size=30)


def keeps_the_rate(watcher: Watcher, rate: float) -> None:
    """No gap is shorter than the interval, and in the end the client has the latest."""
    watcher.pass_time((watcher.count + 1) / rate + 1.0)
    assert all(later + ROUNDING >= earlier + 1 / rate for earlier, later in pairwise(watcher.times))
    assert watcher.last == str(watcher.count)


@given(rate=RATES, pauses=PAUSES, mode=st.sampled_from(FILTERABLE))
def test_updates_are_never_early(rate: float, pauses: list[float], mode: Mode) -> None:
    watcher = Watcher(Harness(PATIENT), mode, rate)
    watcher.forget_addition()
    for pause in pauses:
        watcher.publish()
        watcher.pass_time(pause)
    keeps_the_rate(watcher, rate)


@given(
    rate=RATES,
    steps=st.lists(
        st.tuples(st.sampled_from(["publish", "congest", "relieve", "cut", "recover"]), st.floats(0.0, 2.0)),
        min_size=1,
        max_size=30,
    ),
    mode=st.sampled_from(FILTERABLE),
)
def test_updates_are_never_early_whatever_becomes_of_the_connection(
    rate: float, steps: list[tuple[str, float]], mode: Mode
) -> None:
    watcher = Watcher(Harness(PATIENT), mode, rate)
    watcher.forget_addition()
    peer = watcher.peer
    for step, pause in steps:
        match step:
            case "publish":
                watcher.publish()
            case "congest":
                peer.channel.congest()
            case "relieve":
                peer.channel.relieve()
            case "cut":
                # What was sent has been read: what a recovery sends again could not be told from new updates.
                watcher.look()
                peer.channel.cut()
            case "recover" if peer.channel.session is None:
                peer.bind()
        watcher.harness.turn()
        watcher.look()
        watcher.pass_time(pause)
    if peer.channel.session is None:
        peer.bind()
    peer.channel.relieve()
    watcher.publish()
    keeps_the_rate(watcher, rate)


@given(rate=RATES, pauses=PAUSES, mode=st.sampled_from(FILTERABLE), idle_millis=st.sampled_from([0, 500, 5_000]))
def test_updates_are_never_early_across_polls(rate: float, pauses: list[float], mode: Mode, idle_millis: int) -> None:
    poll = StreamWishes(polling=True, polling_millis=0, idle_millis=idle_millis)
    watcher = Watcher(Harness(PATIENT), mode, rate, poll)
    watcher.publish()
    watcher.pass_time(20.0)
    while poll_again(watcher):
        pass
    watcher.times.clear()
    for pause in pauses:
        watcher.publish()
        poll_again(watcher)
        watcher.pass_time(pause)
    for _ in range(3 * len(pauses) + 10):
        poll_again(watcher)
        watcher.pass_time(1 / rate)
    assert all(later + ROUNDING >= earlier + 1 / rate for earlier, later in pairwise(watcher.times))
    assert watcher.last == str(watcher.count)


def poll_again(watcher: Watcher) -> bool:
    """Poll if the last one is over; whether it brought an update."""
    before = len(watcher.times)
    if watcher.peer.is_looped:
        watcher.peer.bind(watcher.wishes)
        watcher.look()
    return len(watcher.times) > before


# -- the interval under way goes on -----------------------------------------------------------------------------------


def rebind(watcher: Watcher) -> None:
    watcher.peer.session.rebind()
    watcher.look()
    watcher.pass_time(1.0)
    watcher.peer.bind()
    watcher.look()


def recover(watcher: Watcher) -> None:
    watcher.peer.cut()
    watcher.pass_time(1.0)
    watcher.peer.bind()
    watcher.look()


def recover_twice(watcher: Watcher) -> None:
    recover(watcher)
    watcher.peer.cut()
    watcher.peer.bind()
    watcher.look()


def congest(watcher: Watcher) -> None:
    watcher.peer.channel.congest()
    watcher.pass_time(1.0)
    watcher.peer.channel.relieve()
    watcher.harness.turn()
    watcher.look()


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize("trouble", [rebind, recover, recover_twice, congest])
def test_the_interval_under_way_goes_on(mode: Mode, trouble: Callable[[Watcher], None]) -> None:
    harness = Harness(PATIENT)
    watcher = Watcher(harness, mode, 0.3)
    watcher.forget_addition()
    watcher.publish()
    start = harness.clock.now
    assert watcher.times == [start]
    watcher.publish()
    trouble(watcher)
    assert watcher.times == [start]
    watcher.pass_time(10.0)
    assert watcher.times == pytest.approx([start, start + 1 / 0.3], abs=ROUNDING)
    assert watcher.last == str(watcher.count)


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize("idle_millis", [0, 30_000], ids=["synchronous", "asynchronous"])
def test_the_limit_is_kept_across_polls(mode: Mode, idle_millis: int) -> None:
    """A client that polls every tenth of a second has no more than one that streams."""
    harness = Harness(PATIENT)
    watcher = Watcher(harness, mode, 2.5, StreamWishes(polling=True, polling_millis=0, idle_millis=idle_millis))
    for _ in range(100):
        watcher.publish()
        poll_again(watcher)
        watcher.pass_time(0.1)
    # The first may be the addition of the row, which is bound by no limit.
    gaps = watcher.gaps()[1:]
    assert len(gaps) > 20
    assert gaps == pytest.approx([0.4] * len(gaps), abs=0.1 + ROUNDING)
    assert min(gaps) >= 0.4 - ROUNDING


# -- another rate during an interval ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize(
    ("before", "elapsed", "after", "next_at"),
    [
        pytest.param(0.1, 1.0, 2.5, 1.4, id="higher: the new interval, from now on"),
        pytest.param(0.1, 9.9, 2.5, 10.0, id="higher: the old interval ends first"),
        pytest.param(2.5, 0.1, 0.1, 0.4, id="lower: the interval under way is not made longer"),
        pytest.param(0.1, 1.0, None, 1.0, id="lifted: at once"),
        pytest.param(0.3, 1.0, 0.3, 1 / 0.3, id="the same: nothing changes"),
    ],
)
def test_a_new_rate_during_an_interval(
    mode: Mode, before: float, elapsed: float, after: float | None, next_at: float
) -> None:
    harness = Harness(PATIENT)
    watcher = Watcher(harness, mode, before)
    watcher.forget_addition()
    watcher.publish()
    start = harness.clock.now
    watcher.publish()
    watcher.pass_time(elapsed)
    watcher.subscription.reconfigure(after)
    harness.turn()
    watcher.look()
    watcher.pass_time(next_at - elapsed + ROUNDING)
    assert watcher.times == pytest.approx([start, start + next_at], abs=2 * ROUNDING)
    if after is None:
        return
    # From here on only the new rate counts.
    second = watcher.times[-1]
    watcher.publish()
    watcher.pass_time(3 / after)
    assert watcher.times[2:] == pytest.approx([second + 1 / after], abs=4 * ROUNDING)


@given(rates=st.lists(st.tuples(RATES, st.floats(0.0, 5.0)), min_size=1, max_size=12), mode=st.sampled_from(FILTERABLE))
def test_after_a_change_of_rate_the_gaps_keep_to_the_lower_of_both(
    rates: list[tuple[float, float]], mode: Mode
) -> None:
    """Under an item that changes all the time no two updates are closer than the shortest interval in force between."""
    harness = Harness(PATIENT)
    watcher = Watcher(harness, mode, rates[0][0])
    watcher.forget_addition()
    changes = [(harness.clock.now, rates[0][0])]
    for rate, seconds in rates:
        watcher.subscription.reconfigure(rate)
        changes.append((harness.clock.now, rate))
        harness.turn()
        watcher.look()
        for _ in range(10):
            watcher.publish()
            watcher.pass_time(seconds / 10)
    for earlier, later in pairwise(watcher.times):
        # The rate in force when the interval began, and all that came before it ended.
        begun = [rate for when, rate in changes if when <= earlier]
        between = [begun[-1], *[rate for when, rate in changes if earlier <= when <= later]]
        assert later + ROUNDING >= earlier + 1 / max(between)


def test_one_that_has_nothing_new_after_its_interval_keeps_no_other_waiting(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a b", "x", max_frequency=1.0)
    for item, value in (("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("b", "2")):
        harness.publish(item, x=value)
    channel.take()
    harness.clock.move_to(harness.clock.now + 1.0)
    harness.kernel.turn()
    assert data(channel) == ["U,1,2,2"]


def test_only_what_is_due_first_of_all_asks_for_a_turn_when_it_is_paced(harness: Harness) -> None:
    harness.open(QUIET)
    # Until only its keep-alive is to come.
    harness.advance(5.0)
    for interval, asks in ((300.0, False), (1.0, True), (2.0, False)):
        harness.kernel.pace(Pacemaker(), interval, 0)
        assert harness.waker.asked is asks
        harness.turn()


def test_what_did_not_fit_a_connection_begins_its_interval_when_it_goes(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=700)
    harness.subscribe(session, 1, "a b", "x", max_frequency=1.0)
    harness.publish("b", x="b" * 400)
    harness.publish("a", x="1" * 300)
    assert channel.finished
    harness.publish("a", x="2")
    harness.advance(2.0)
    channel = harness.bind(session, QUIET, limit=10_000)
    assert data(channel) == ["U,1,1," + "1" * 300]
    harness.advance(0.99)
    assert data(channel) == []
    harness.advance(0.02)
    assert data(channel) == ["U,1,1,2"]


def test_rows_that_did_not_fit_a_connection_begin_their_interval_when_they_go(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=700)
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND, max_frequency=1.0)
    harness.publish("t", key="k", command="ADD", x="b" * 300)
    harness.publish("t", key="k", command="UPDATE", x="1" * 300)
    assert channel.finished
    harness.publish("t", key="k", command="UPDATE", x="2")
    harness.advance(2.0)
    channel = harness.bind(session, QUIET, limit=10_000)
    assert data(channel) == ["U,1,1,|UPDATE|" + "1" * 300]
    harness.advance(0.99)
    assert data(channel) == []
    harness.advance(0.02)
    assert data(channel) == ["U,1,1,||2"]


def test_rows_without_a_limit_any_more_go_with_those_that_did_not_fit_a_connection(harness: Harness) -> None:
    session, channel = harness.open(QUIET, limit=700)
    subscription = harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND, max_frequency=1.0)
    harness.publish("t", key="k", command="ADD", x="b" * 300)
    harness.publish("t", key="k", command="UPDATE", x="1" * 300)
    assert channel.finished
    harness.advance(2.0)
    harness.publish("t", key="k", command="UPDATE", x="2")
    subscription.reconfigure(None)
    harness.publish("t", key="l", command="ADD", x="3")
    channel = harness.bind(session, QUIET, limit=10_000)
    assert data(channel) == ["U,1,1,|UPDATE|" + "1" * 300, "U,1,1,||2", "U,1,1,l|ADD|3"]


def test_what_the_bandwidth_held_back_begins_its_interval_when_it_goes(harness: Harness) -> None:
    """A steady trickle that has used up most of the second, then a line that has to wait for room."""
    session, channel = harness.open(QUIET, max_bandwidth=8.0)
    harness.subscribe(session, 1, "trickle", "x", Mode.RAW)
    harness.subscribe(session, 2, "a", "x", max_frequency=2.0)
    harness.advance(2.0)
    for _ in range(20):
        harness.publish("trickle", x="t" * 40)
        harness.publish("trickle", x="")
        harness.advance(0.06)
    times = []
    for number in range(200):
        harness.publish("a", x=f"{number} " + "a" * 300)
        times += [harness.clock.now] * len([line for line in data(channel) if line.startswith("U,2,1,")])
        harness.advance(0.01)
        times += [harness.clock.now] * len([line for line in data(channel) if line.startswith("U,2,1,")])
    assert len(times) >= 3
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.49
