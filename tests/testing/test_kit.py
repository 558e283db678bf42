"""The testing kit itself: what other tests lean on must not give way."""

from __future__ import annotations

import pytest

from penstock.client.events import ClientEvent, EndOfSnapshot, Overflow, Recovering, SnapshotCleared, Update
from penstock.client.requests import StreamWishes
from penstock.kernel.identity import SessionIds
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import State
from penstock.kernel.session import Binding
from penstock.kernel.timers import Timed
from penstock.testing import Clock, Harness, MemoryChannel, Meter, Model, Peer, Setting, TruthSource
from penstock.testing.judges import (
    CLEARED,
    TableJudge,
    judge_end_of_snapshot,
    judge_events,
    judge_list,
    judge_states,
    judge_unfiltered,
)
from penstock.testing.meter import Sent, Spent, judge_bandwidth, judge_pace, paced


def updates(*values: State) -> list[ClientEvent]:
    return [Update(1, 1, state, (), False) for state in values]


# -- clock, channel, harness ------------------------------------------------------------------------------------------


def test_a_clock_stands_still_until_it_is_moved_and_never_goes_back() -> None:
    clock = Clock(5.0)
    assert clock() == clock() == 5.0
    clock.advance(1.5)
    assert clock() == 6.5
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-0.1)


def test_a_channel_keeps_what_is_written_and_knows_its_room() -> None:
    channel = MemoryChannel(limit=20)
    assert channel.write([b"one\r\n", b"two\r\n"]) == 10
    assert channel.room() == 10
    assert channel.take() == ["one", "two"]
    assert channel.take() == []
    assert channel.data == b"one\r\ntwo\r\n"
    assert MemoryChannel().room() is None


def test_a_channel_complains_when_it_is_written_to_after_its_end() -> None:
    channel = MemoryChannel()
    channel.finish(True)
    with pytest.raises(AssertionError, match="after the end"):
        channel.write([b"late\r\n"])


def test_the_harness_stops_at_every_deadline_on_the_way() -> None:
    harness = Harness()
    times: list[float] = []

    class Ticker(Timed):
        def expire(self, now: float) -> None:
            times.append(now - start)
            harness.kernel.set_timer(self, now + 0.5)

    start = harness.clock.now
    harness.kernel.set_timer(Ticker(), start + 0.5)
    harness.advance(1.9)
    assert times == [0.5, 1.0, 1.5]
    assert harness.clock.now == start + 1.9


def test_the_harness_notices_a_kernel_that_never_rests() -> None:
    harness = Harness()

    class Busy(Kernel):
        def turn(self) -> None:
            super().turn()
            harness.waker.wake()

    harness.kernel = Busy(harness.clock, harness.waker, SessionIds("test", bytes), SessionLimits())
    harness.waker.wake()
    with pytest.raises(AssertionError, match="1000 turns"):
        harness.turn()


# -- peer -------------------------------------------------------------------------------------------------------------


def test_a_peer_loses_what_it_has_not_read_when_it_is_cut_and_gets_it_again() -> None:
    harness = Harness()
    peer = Peer(harness)
    peer.open()
    peer.subscribe("a", "x", Mode.RAW)
    for number in range(3):
        harness.publish("a", x=str(number))
    peer.cut(50)
    assert peer.state.received == 2
    peer.bind()
    events = peer.receive()
    assert Recovering(2, 0) in events
    assert [entry.values for entry in peer.seen[1, 1] if isinstance(entry, Update)] == [("0",), ("1",), ("2",)]


def test_a_peer_binds_as_it_is_told() -> None:
    peer = Peer(Harness())
    peer.open(StreamWishes(polling=True))
    assert peer.is_looped
    peer.bind(StreamWishes(content_length=400))
    assert peer.channel.limit == 400
    assert peer.session._connection.binding == Binding()
    assert not peer.session.closed


# -- model ------------------------------------------------------------------------------------------------------------


def test_the_model_expects_what_a_naive_reader_would() -> None:
    model = Model()
    model.publish("a", {"x": "0"})
    model.subscribe(1, "a", "x y", Mode.MERGE, True)
    model.subscribe(2, "a", "y x", Mode.RAW, True)
    model.subscribe(3, "a", "x", Mode.MERGE, False)
    model.publish("a", {"y": "1"})
    model.publish("b", {"x": "9"})
    expected = {number: [lane.events for lane in lanes] for number, lanes in model.subscriptions.items()}
    assert expected == {1: [[("0", None), ("0", "1")]], 2: [[("1", None)]], 3: [[("0",)]]}


def test_the_judge_wants_every_raw_event_or_the_number_of_the_missing() -> None:
    events: list[State] = [("1",), ("2",), ("3",)]
    judge_events(events, updates(*events), complete=True)
    judge_events(events, [Overflow(1, 1, 2), *updates(("3",))], complete=True)
    judge_events(events, updates(("1",)), complete=False)
    for history in (
        updates(("1",), ("2",)),
        updates(("1",), ("3",)),
        updates(("1",), ("1",), ("2",), ("3",)),
        [Overflow(1, 1, 1), *updates(("3",))],
        [*updates(*events), Overflow(1, 1, 1)],
        updates(*events, ("3",)),
    ):
        with pytest.raises(AssertionError):
            judge_events(events, history, complete=True)


def test_the_judge_wants_merge_states_in_order_once_and_the_last() -> None:
    states: list[State] = [("1",), ("2",), ("1",), ("3",)]
    for history in (updates(("3",)), updates(("1",), ("3",)), updates(*states)):
        judge_states(states, history, complete=True)
    judge_states(states, updates(("2",)), complete=False)
    judge_states([], [], complete=True)
    for history in (
        [],
        updates(("1",)),
        updates(("3",), ("3",)),
        updates(("3",), ("2",), ("3",)),
        updates(("9",), ("3",)),
        [Overflow(1, 1, 1), *updates(("3",))],
    ):
        with pytest.raises(AssertionError):
            judge_states(states, history, complete=True)


def test_the_judge_does_not_demand_what_was_on_its_way_at_the_end() -> None:
    model = Model()
    model.subscribe(1, "a", "x", Mode.RAW, False)
    model.publish("a", {"x": "1"})
    with pytest.raises(AssertionError):
        model.judge({})
    model.unsubscribe(1)
    model.publish("a", {"x": "2"})
    model.judge({})
    with pytest.raises(AssertionError):
        model.judge({(1, 1): updates(("1",), ("2",))})


CS = SnapshotCleared(1, 1)


def test_the_judge_wants_every_unfiltered_event_or_its_loss_told_in_time() -> None:
    events: list[State] = [("1",), ("2",), CLEARED, ("3",)]
    judge_unfiltered(events, [*updates(("1",), ("2",)), CS, *updates(("3",))], complete=True)
    # What is kept of a snapshot may come after the loss of something later.
    judge_unfiltered(events, [Overflow(1, 1, 1), *updates(("1",)), CS, *updates(("3",))], complete=True)
    for history in (
        [*updates(("1",)), CS, *updates(("3",))],
        [*updates(("1",)), CS, *updates(("3",)), Overflow(1, 1, 1)],
        [*updates(("1",), ("2",)), CS, Overflow(1, 1, 1), *updates(("3",))],
        updates(("1",), ("2",), ("3",)),
        [*updates(("2",)), CS, Overflow(1, 1, 1), *updates(("3",))],
    ):
        with pytest.raises(AssertionError):
            judge_unfiltered(events, history, complete=True)


def test_the_judge_wants_a_list_in_order_with_its_last_event_and_whole_where_nothing_may_be_lost() -> None:
    events: list[State] = [("1",), ("2",), CLEARED, ("3",), ("4",), ("5",)]
    judge_list(events, [*updates(("1",)), CS, *updates(("3",), ("4",), ("5",))], complete=True, whole=True)
    judge_list(events, [*updates(("2",)), CS, *updates(("3",), ("5",))], complete=True, whole=False)
    judge_list(events, updates(("1",)), complete=False, whole=True)
    for history in (
        [*updates(("2",)), CS, *updates(("3",), ("4",), ("5",))],
        [CS, *updates(("3",), ("5",))],
        [CS, *updates(("3",), ("4",))],
    ):
        with pytest.raises(AssertionError):
            judge_list(events, history, complete=True, whole=True)
    for history in (
        updates(("3",), ("5",)),
        [*updates(("3",)), CS, *updates(("5",))],
        [CS, *updates(("4",), ("3",), ("5",))],
        [CS, *updates(("3",), ("4",))],
        [CS, Overflow(1, 1, 1), *updates(("5",))],
    ):
        with pytest.raises(AssertionError):
            judge_list(events, history, complete=True, whole=False)


def test_the_judge_wants_commands_that_fit_and_in_the_end_the_table() -> None:
    events: list[State] = [("a", "ADD", "1"), ("a", "UPDATE", "2"), ("b", "ADD", "3"), ("b", "DELETE", None)]
    judge = TableJudge(("key", "command", "x"), {})
    judge.judge(events, updates(*events), complete=True)
    judge.judge(events, updates(("a", "ADD", "2")), complete=True)
    judge.judge(events, updates(("a", "ADD", "1"), ("b", "ADD", "3")), complete=False)
    for history in (
        updates(("a", "UPDATE", "2")),
        updates(("a", "ADD", "1"), ("a", "ADD", "2")),
        updates(("a", "ADD", "2"), ("b", "DELETE", None)),
        updates(("a", "ADD", "1")),
        updates(("a", "ADD", "9"), ("a", "UPDATE", "2")),
        updates(("a", "ADD", "2"), ("b", "ADD", "3")),
        [*updates(("a", "ADD", "2")), CS],
    ):
        with pytest.raises(AssertionError):
            judge.judge(events, history, complete=True)
    # One that wants no snapshot knows the rows that are there.
    TableJudge(("key", "command"), {"b": ("b", None)}).judge([("b", "DELETE")], updates(("b", "DELETE")), complete=True)


def test_the_judge_wants_the_end_of_a_snapshot_once_and_in_its_place() -> None:
    end = EndOfSnapshot(1, 1)
    judge_end_of_snapshot(1, [*updates(("1",)), end, *updates(("2",))], complete=True, exact=True)
    judge_end_of_snapshot(None, updates(("1",)), complete=True, exact=True)
    judge_end_of_snapshot(1, [], complete=False, exact=True)
    for count, history in ((1, updates(("1",))), (0, [end, end]), (None, [end]), (2, [*updates(("1",)), end])):
        with pytest.raises(AssertionError):
            judge_end_of_snapshot(count, history, complete=True, exact=True)


# -- truth ------------------------------------------------------------------------------------------------------------


def test_a_source_of_truths_tells_a_newcomer_where_its_items_are() -> None:
    source = TruthSource({"m": Mode.MERGE, "d": Mode.DISTINCT, "c": Mode.COMMAND})
    harness = Harness(source=source)
    for x in "12":
        source.publish("m", {"x": x})
        source.publish("d", {"x": x})
        source.publish("c", {"key": "k", "command": "ADD", "x": x})
    source.publish("c", {"key": "gone", "command": "ADD"})
    source.publish("c", {"key": "gone", "command": "DELETE"})
    peer = Peer(harness)
    peer.open()
    peer.subscribe("m", "x", Mode.MERGE, True)
    peer.subscribe("d", "x", Mode.DISTINCT, True)
    peer.subscribe("c", "key command x", Mode.COMMAND, True)
    peer.receive()
    found = {
        number: [event.values for event in seen if isinstance(event, Update)] for (number, _), seen in peer.seen.items()
    }
    assert found == {1: [("2",)], 2: [("1",), ("2",)], 3: [("k", "ADD", "2")]}


# -- meter ------------------------------------------------------------------------------------------------------------


def test_the_meter_knows_when_a_notification_was_first_written_and_what_was_free() -> None:
    harness = Harness(overhead=10)
    peer = Peer(harness)
    peer.open()
    peer.subscribe("a", "x", Mode.RAW)
    harness.advance(1.0)
    harness.publish("a", x="1")
    peer.cut(0)
    harness.advance(1.0)
    peer.bind()
    harness.publish("a", x="2")
    peer.receive()
    peer.meter.read(peer.channel)
    start = harness.clock.now - 2.0
    assert [sent.time - start for sent in peer.meter.sent] == [0.0, 0.0, 1.0, 2.0]
    updates = [spent for spent in peer.meter.spent if spent.size in (9, 19)]
    assert [(spent.time - start, spent.size, spent.free) for spent in updates] == [
        (1.0, 19, False),
        (2.0, 9, True),
        (2.0, 19, False),
    ]
    assert Meter().sent == []


def test_the_judge_measures_the_pace_by_the_limits_between_two_updates() -> None:
    limit = Setting(0.0, 1.0)
    limit.change(10.0, 10.0)
    limit.change(20.0, None)
    for earlier, later, fits in (
        (1.0, 2.0, True),
        (1.0, 1.9, False),
        (9.95, 10.05, True),
        (11.0, 11.05, False),
        (19.99, 20.0, True),
        (30.0, 30.0, True),
    ):
        pair = [Sent(earlier, earlier), Sent(later, later)]
        if fits:
            judge_pace(pair, limit)
        else:
            with pytest.raises(AssertionError):
                judge_pace(pair, limit)


def test_the_pace_is_that_of_each_rows_updates() -> None:
    rows = updates(("a", "ADD"), ("a", "UPDATE"), ("b", "UPDATE"), ("a", "UPDATE"), ("a", "DELETE"), ("a", "UPDATE"))
    timed = [
        (Sent(float(time), float(time)), event) for time, event in enumerate([*rows, CS, *updates(("a", "UPDATE"))])
    ]
    found = [[sent.time for sent in part] for part in paced(Mode.COMMAND, ("key", "command"), timed) if part]
    assert sorted(found) == [[1.0, 3.0], [2.0], [5.0], [7.0]]
    assert len(paced(Mode.MERGE, ("key", "command"), timed)[0]) == 7


def test_the_judge_lets_no_second_carry_more_than_the_limit_but_for_a_line_alone() -> None:
    limit = Setting(0.0, None)
    limit.change(10.0, 0.8)
    for spent in (
        [Spent(9.9, 1_000, False), Spent(10.1, 100, False)],
        [Spent(11.0, 50, False), Spent(11.5, 50, False), Spent(12.0, 50, False)],
        [Spent(11.0, 500, False)],
        [Spent(11.0, 90, False), Spent(11.5, 90, True)],
    ):
        judge_bandwidth(spent, limit)
    for spent in (
        [Spent(11.0, 60, False), Spent(11.9, 60, False)],
        [Spent(11.0, 1, False), Spent(11.5, 500, False)],
        [Spent(11.0, 90, True), Spent(11.5, 90, False)],
    ):
        with pytest.raises(AssertionError):
            judge_bandwidth(spent, limit)
