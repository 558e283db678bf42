"""The testing kit itself: what other tests lean on must not give way."""

from __future__ import annotations

import pytest

from penstock.client.events import Overflow, Recovering, Update
from penstock.client.requests import StreamWishes
from penstock.kernel.item import Mode
from penstock.kernel.ports import State
from penstock.kernel.session import Binding
from penstock.kernel.timers import Timed
from penstock.testing import Clock, Harness, MemoryChannel, Model, Peer
from penstock.testing.model import judge_events, judge_states


def updates(*values: State) -> list[Update | Overflow]:
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

    class Busy:
        dirty = True
        closed = False

        def flush(self) -> None:
            harness.kernel.add_dirty(self)  # type: ignore[arg-type]

    harness.kernel.add_dirty(Busy())  # type: ignore[arg-type]
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
    assert peer.session._binding == Binding()
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
