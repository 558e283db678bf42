"""Bandwidth: in no second more than the limit, over time nearly all of it, and every item its turn.

What counts are the data notifications; heads, keep-alives and the like go at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.bandwidth import Budget
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
DATA = (b"U,", b"SUBOK", b"CONF", b"OV", b"EOS", b"MSGDONE", b"UNSUB")


class Meter:
    """When how many bytes of data went through a channel."""

    def __init__(self, harness: Harness) -> None:
        self.clock = harness.clock
        self.sent: list[tuple[float, int]] = []

    def attach(self, channel: MemoryChannel) -> None:
        write = channel.write

        def metered(lines: Sequence[bytes]) -> int:
            self.sent.append((self.clock.now, sum(len(line) for line in lines if line.startswith(DATA))))
            return write(lines)

        channel.write = metered  # type: ignore[method-assign]

    @property
    def total(self) -> int:
        return sum(size for _, size in self.sent)

    def most(self, since: float = 0.0) -> int:
        """The most that any window of one second has carried."""
        sent = [(time, size) for time, size in self.sent if time >= since]
        return max((sum(size for time, size in sent if end < time + 1.0 and time <= end) for end, _ in sent), default=0)


def metered(harness: Harness, kbps: float | None, items: str = "a", mode: Mode = Mode.MERGE) -> tuple[Session, Meter]:
    session, channel = harness.open(QUIET, max_bandwidth=kbps)
    meter = Meter(harness)
    meter.attach(channel)
    harness.subscribe(session, 1, items, "x", mode)
    return session, meter


def updates(channel: MemoryChannel) -> list[str]:
    return [line for line in channel.take() if line.startswith("U,")]


# -- the budget -------------------------------------------------------------------------------------------------------


@given(
    kbps=st.floats(0.5, 100.0),
    steps=st.lists(st.tuples(st.integers(1, 60), st.floats(0.0, 0.7)), min_size=1, max_size=80),
)
def test_a_budget_never_lets_more_than_the_limit_into_a_second(kbps: float, steps: list[tuple[int, float]]) -> None:
    budget = Budget(kbps)
    now = 1_000.0
    sent: list[tuple[float, int]] = []
    for size, pause in steps:
        now += pause
        when = budget.free_at(now, size)
        assert when >= now
        now = when
        # It keeps its word: asked again at that time, it says now.
        assert budget.free_at(now, size) == now
        budget.spend(now, size)
        sent.append((now, size))
        window = sum(size for time, size in sent if now < time + 1.0)
        assert window <= kbps * 125 or window == size


def test_what_is_left_of_a_pause_changes_in_proportion_to_the_limit() -> None:
    # 8 kbit/s are 1,000 bytes a second: 500 of them take half a second, a tenth of which is allowed in advance.
    for kbps, pause in ((8.0, 0.4), (16.0, 0.15), (6.0, 17 / 30)):
        budget = Budget(8.0)
        budget.spend(10.0, 500)
        budget.change(10.0, kbps)
        assert budget.free_at(10.0, 1) == pytest.approx(10.0 + pause)


def test_a_line_longer_than_a_whole_second_goes_alone() -> None:
    budget = Budget(1.0)
    budget.spend(1_000.0, 10)
    assert budget.free_at(1_000.0, 500) == 1_001.0
    budget.spend(1_001.0, 500)
    assert budget.free_at(1_001.0, 10) == pytest.approx(1_001.0 + 4.0 - 0.1, abs=0.01)


# -- the guarantee ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.RAW])
@pytest.mark.parametrize("kbps", [4.0, 40.0])
def test_no_second_carries_more_than_the_limit_and_in_the_long_run_nearly_all_is_used(
    harness: Harness, kbps: float, mode: Mode
) -> None:
    _, meter = metered(harness, kbps, "a b c", mode)
    for number in range(2_000):
        for item in "abc":
            harness.publish(item, x=f"{number:0{number % 30}}")
        harness.advance(0.01)
    limit = kbps * 1_000 / 8
    assert meter.most() <= limit
    assert 0.9 * limit * 20 <= meter.total <= limit * 21


@given(
    kbps=st.floats(1.0, 20.0),
    bursts=st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 2.0)), min_size=1, max_size=20),
)
def test_bursts_and_pauses_do_not_break_the_limit(kbps: float, bursts: list[tuple[int, float]]) -> None:
    harness = Harness()
    _, meter = metered(harness, kbps, "a b", Mode.RAW)
    for count, pause in bursts:
        for number in range(count):
            harness.publish("ab"[number % 2], x="v" * number)
        harness.advance(pause)
    assert meter.most() <= kbps * 1_000 / 8


def test_a_limit_does_not_delay_what_fits(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=100.0)
    harness.subscribe(session, 1, "a", "x")
    for number in range(10):
        harness.publish("a", x=str(number))
        assert updates(channel) == [f"U,1,1,{number}"]
        harness.advance(0.1)


def test_what_waits_is_conflated_in_merge_mode(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.5)
    harness.subscribe(session, 1, "a", "x")
    harness.advance(10.0)
    harness.publish("a", x="0" * 50)
    assert len(updates(channel)) == 1
    for number in range(1, 100):
        harness.publish("a", x=str(number))
    harness.advance(10.0)
    assert updates(channel) == ["U,1,1,99"]


def test_a_rare_item_is_not_starved_by_a_busy_one(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=2.0)
    harness.subscribe(session, 1, "busy rare", "x", Mode.RAW)
    harness.advance(5.0)
    for number in range(200):
        harness.publish("busy", x=f"{number:030}")
    harness.publish("rare", x="here")
    harness.advance(1.0)
    assert "U,1,2,here" in updates(channel)


# -- changes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(20.0, 2.0), (2.0, 20.0), (None, 2.0), (20.0, 20.0)])
def test_a_new_limit_holds_at_once(harness: Harness, before: float | None, after: float) -> None:
    session, meter = metered(harness, before, "a", Mode.RAW)
    for number in range(50):
        harness.publish("a", x=f"{number:020}")
    harness.advance(0.5)
    changed = harness.clock.now
    session.constrain(after)
    for number in range(500):
        harness.publish("a", x=f"{number:020}")
        harness.advance(0.01)
    sent = sum(size for time, size in meter.sent if time > changed)
    assert meter.most(since=changed) <= after * 125
    assert sent >= 0.9 * after * 125 * 4


def test_lifting_the_limit_lets_everything_go_in_order(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.01)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    for number in range(5):
        harness.publish("a", x=str(number))
    assert channel.take()[1:] == ["CONS,0.01", "SUBOK,1,1,1"]
    session.constrain(None)
    harness.publish("a", x="5")
    lines = channel.take()
    assert lines == ["CONS,unlimited", "CONF,1,unlimited,unfiltered", *[f"U,1,1,{number}" for number in range(6)]]


def test_a_subscription_made_while_the_limit_is_lifted_is_announced_before_its_updates(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.01)
    harness.subscribe(session, 1, "a", "x")
    harness.subscribe(session, 2, "a", "x")
    channel.take()
    session.constrain(None)
    harness.source.publish("a", {"x": "1"})  # Before the turn.
    harness.turn()
    lines = channel.take()
    assert lines.index("SUBOK,2,1,1") < lines.index("U,2,1,1")


def test_a_wider_limit_shortens_the_pause_under_way(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.01)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    session.constrain(10.0)
    harness.advance(1.0)
    assert updates(channel) == ["U,1,1,1"]


# -- together with the rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["bandwidth first", "congestion first"])
def test_a_session_both_congested_and_over_its_bandwidth_waits_for_both(harness: Harness, order: str) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=1.0)
    harness.subscribe(session, 1, "a", "x")
    harness.advance(5.0)
    harness.publish("a", x="0" * 100)
    channel.take()
    channel.congest()
    harness.publish("a", x="1")
    if order == "bandwidth first":
        harness.advance(2.0)
        assert channel.take() == []
        channel.relieve()
        harness.turn()
    else:
        channel.relieve()
        harness.turn()
        assert channel.take() == []
        harness.advance(1.0)
    assert channel.take() == ["U,1,1,1"]


@pytest.mark.parametrize("idle_millis", [0, 10_000])
def test_the_limit_is_kept_across_polls(harness: Harness, idle_millis: int) -> None:
    session, meter = metered(harness, 4.0, "a", Mode.RAW)
    session.rebind()
    for number in range(600):
        harness.publish("a", x=f"{number:020}")
        if session.channel is None:
            meter.attach(channel := MemoryChannel())
            channel.session = session
            session.bind(channel, Binding(polling=True, idle_millis=idle_millis), [])
            harness.turn()
        harness.advance(0.02)
    assert meter.most() <= 500
    assert meter.total >= 0.9 * 500 * 12


def test_a_poll_over_the_bandwidth_waits_for_its_data(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=1.0)
    harness.subscribe(session, 1, "a", "x")
    harness.advance(5.0)
    harness.publish("a", x="0" * 100)
    session.rebind()
    harness.publish("a", x="1")
    channel = harness.bind(session, Binding(polling=True, idle_millis=10_000))
    channel.take()
    harness.advance(0.5)
    assert channel.take() == []
    harness.advance(0.5)
    assert channel.take() == ["U,1,1,1", "LOOP,0"]


def test_what_is_sent_again_for_recovery_counts_again(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=1.0)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.advance(5.0)
    harness.publish("a", x="0" * 90)
    harness.advance(5.0)
    channel.cut()
    channel = harness.bind(session, QUIET, recovery_from=0)
    harness.publish("a", x="1")
    assert updates(channel) == ["U,1,1," + "0" * 90]
    harness.advance(0.9)
    assert updates(channel) == []
    harness.advance(0.5)
    assert updates(channel) == ["U,1,1,1"]


def test_a_session_closed_while_a_line_waits_sends_it_no_more(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.01)
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    session.close(48, "over")
    harness.advance(100.0)
    assert channel.take() == ["END,48,over"]


def test_what_the_transport_adds_to_each_write_counts(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=4.0)
    channel.overhead = 40
    meter = Meter(harness)
    meter.attach(channel)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    for number in range(200):
        harness.publish("a", x=f"{number:020}")
        harness.advance(0.05)
    meter.sent = [(time, size + 40) for time, size in meter.sent]
    assert meter.most() <= 500
    assert meter.total >= 0.9 * 500 * 10


def test_notifications_that_have_gone_do_not_count_as_waiting() -> None:
    harness = Harness(SessionLimits(max_unbound_notifications=10))
    session, channel = harness.open(QUIET, max_bandwidth=4.0)
    for number in range(1, 30):
        harness.submit(session, "hello", progressive=number)
        harness.advance(0.1)
    assert "MSGDONE,*,29," in channel.take()
    for number in range(30, 50):
        harness.submit(session, "hello", progressive=number)
    assert session.closed


@pytest.mark.parametrize("kbps", [None, 2.0])
def test_a_session_of_a_saturated_server_rests_and_then_goes_on(harness: Harness, kbps: float | None) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=kbps)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.kernel.set_strain(0.5)
    for number in range(40):
        harness.publish("a", x=str(number))
    harness.advance(20.0)
    assert updates(channel) == [f"U,1,1,{number}" for number in range(40)]


def test_what_comes_while_a_session_rests_is_merged_and_goes_when_the_rest_is_over(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    harness.kernel.set_strain(0.5)
    harness.publish("a", x="1")
    assert channel.take() == ["U,1,1,1"]
    for value in "234":
        harness.publish("a", x=value)
    harness.advance(0.49)
    assert channel.take() == []
    harness.advance(0.01)
    assert channel.take() == ["U,1,1,4"]
