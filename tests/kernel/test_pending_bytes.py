"""How much may wait for one session: bytes of events, whatever their number, and the bytes encoded in one turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.item import Mode
from penstock.kernel.lane import ENTRY
from penstock.kernel.limits import SessionLimits
from penstock.kernel.outbox import SHARE
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
CAP = 10_000
BIG = "x" * (1_000 - ENTRY)


def capped() -> tuple[Harness, Session, MemoryChannel]:
    harness = Harness(SessionLimits(max_pending_bytes=CAP))
    session, channel = harness.open(QUIET)
    return harness, session, channel


def test_raw_events_beyond_the_bytes_are_dropped_oldest_first_and_told() -> None:
    harness, session, channel = capped()
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    channel.take()
    channel.congest()
    for number in range(25):
        harness.publish("a", x=f"{number:03}" + BIG[3:])
        assert session.held <= CAP
    channel.relieve()
    harness.turn()
    first, *events = channel.take()
    assert first == f"OV,1,1,{25 - len(events)}"
    assert [event[6:9] for event in events] == [f"{number:03}" for number in range(25 - len(events), 25)]
    assert len(events) >= 7
    assert session.held == 0


def test_a_busy_item_does_not_cost_a_rare_one_its_latest_event() -> None:
    harness, session, channel = capped()
    harness.subscribe(session, 1, "busy rare", "x", Mode.RAW)
    channel.take()
    channel.congest()
    for _ in range(20):
        harness.publish("busy", x=BIG)
    harness.publish("rare", x="here")
    harness.publish("busy", x=BIG)
    channel.relieve()
    harness.turn()
    assert "U,1,2,here" in channel.take()


def test_of_a_table_updates_are_dropped_first_and_in_silence() -> None:
    harness, session, channel = capped()
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND)
    harness.publish("t", key="kept", command="ADD", x="")
    for number in range(9):
        harness.publish("t", key=str(number), command="ADD", x="")
    channel.take()
    channel.congest()
    harness.publish("t", key="kept", command="DELETE")
    for number in range(9):
        harness.publish("t", key=str(number), command="UPDATE", x=BIG)
    harness.publish("t", key="late", command="ADD", x=BIG)
    assert session.held <= CAP
    channel.relieve()
    harness.turn()
    lines = channel.take()
    assert not [line for line in lines if line.startswith("OV")]
    assert lines[0] == "U,1,1,kept|DELETE|#"
    assert lines[-1].startswith("U,1,1,late|ADD|")


def test_of_a_table_additions_that_are_dropped_are_told() -> None:
    harness, session, channel = capped()
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND)
    channel.take()
    channel.congest()
    for number in range(15):
        harness.publish("t", key=str(number), command="ADD", x=BIG)
        assert session.held <= CAP
    channel.relieve()
    harness.turn()
    first, *rows = channel.take()
    assert first == f"OV,1,1,{15 - len(rows)}"
    assert len(rows) >= 7


def test_parked_updates_of_a_table_are_within_the_bytes_too() -> None:
    harness, session, _ = capped()
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND, max_frequency=1.0)
    for number in range(30):
        harness.publish("t", key=str(number), command="ADD", x="")
        harness.publish("t", key=str(number), command="UPDATE", x="1")
    for number in range(30):
        harness.publish("t", key=str(number), command="UPDATE", x=BIG)
        assert session.held <= CAP
    harness.advance(2.0)
    assert session.held == 0


def test_a_large_snapshot_and_a_burst_reach_a_client_that_keeps_up_whole() -> None:
    harness = Harness()
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "t", "key command x", Mode.COMMAND)
    for number in range(5_000):
        harness.source.publish("t", {"key": str(number), "command": "ADD", "x": BIG[:100]})
    harness.turn()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND, snapshot=True)
    assert sum(line.startswith("U,1,1,") for line in channel.take()) == 5_000
    harness.subscribe(session, 2, "raw", "x", Mode.RAW)
    channel.take()
    for number in range(5_000):
        harness.source.publish("raw", {"x": str(number)})
    harness.turn()
    assert channel.take() == [f"U,2,1,{number}" for number in range(5_000)]


@pytest.mark.parametrize("unfiltered", [False, True])
def test_a_snapshot_larger_than_any_buffer_waits_whole_for_a_client_that_is_away(unfiltered: bool) -> None:
    harness = Harness(SessionLimits(max_buffer_size=10))
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "t", "key command", Mode.COMMAND)
    for number in range(50):
        harness.publish("t", key=str(number), command="ADD")
    session, channel = harness.open(QUIET)
    channel.congest()
    harness.subscribe(session, 1, "t", "key command", Mode.COMMAND, snapshot=True, unfiltered=unfiltered)
    channel.take()
    channel.relieve()
    harness.turn()
    rows = [line for line in channel.take() if line.startswith(("U,", "EOS", "OV"))]
    assert (len(rows), rows[-1]) == (51, "EOS,1,1")


def test_what_is_encoded_in_one_turn_is_bounded_and_merge_goes_on_with_the_latest() -> None:
    harness, session, channel = capped()
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    for number in range(1_000):
        harness.source.publish("a", {"x": f"{number:03}" + BIG[3:]})
    assert sum(map(len, session.own().outbox.lines)) <= CAP + 1_100
    harness.turn()
    lines = channel.take()
    assert lines[-1].startswith("U,1,1,999x")
    assert len(lines) < 20
    harness.publish("a", x="next")
    assert channel.take() == ["U,1,1,next"]


def test_what_has_waited_is_encoded_in_shares_so_that_fresher_data_may_overtake_it() -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "raw merged", "x", Mode.RAW)
    harness.subscribe(session, 2, "merged", "x")
    channel.take()
    channel.congest()
    for number in range(100):
        harness.publish("raw", x=f"{number:02}" * 1_000)
    harness.publish("merged", x="old")
    channel.relieve()
    harness.kernel.turn()
    shown = channel.take()
    assert SHARE <= sum(map(len, shown)) <= SHARE + 4_000
    harness.source.publish("merged", {"x": "new"})
    harness.turn()
    rest = channel.take()
    assert "U,2,1,new" in rest
    assert "U,2,1,old" not in shown + rest
    assert sum(line.startswith("U,1,1,") for line in shown + rest) == 100


STEPS = st.lists(
    st.tuples(st.sampled_from(["raw", "distinct", "table", "congest", "relieve", "wait", "clear"]), st.integers(0, 8)),
    max_size=60,
)


@given(STEPS)
def test_bytes_are_counted_back_to_nothing_when_everything_has_gone(steps: list[tuple[str, int]]) -> None:
    harness = Harness(SessionLimits(max_pending_bytes=1_000, max_buffer_size=5))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "raw", "x", Mode.RAW)
    harness.subscribe(session, 2, "distinct", "x", Mode.DISTINCT, max_frequency=2.0, buffer_size=3)
    harness.subscribe(session, 3, "table", "key command x", Mode.COMMAND, max_frequency=1.0, snapshot=True)
    rows: set[str] = set()
    for step, number in steps:
        if step in ("raw", "distinct"):
            harness.publish(step, x="x" * number * 20)
        elif step == "table":
            key = str(number % 4)
            command = "ADD" if key not in rows else "DELETE" if number > 6 else "UPDATE"
            (rows.discard if command == "DELETE" else rows.add)(key)
            harness.publish("table", key=key, command=command, x="x" * number * 20)
        elif step == "clear":
            harness.feed.clear_snapshot("table" if number % 2 else "distinct")
            harness.turn()
            if number % 2:
                rows.clear()
        elif step == "wait":
            harness.advance(number / 8)
        elif step == "congest":
            channel.congest()
        else:
            channel.relieve()
            harness.turn()
        assert session.held >= 0
    channel.relieve()
    harness.advance(10.0)
    assert session.held == 0
    channel.congest()
    harness.publish("raw", x="left")
    for subscription in (1, 2, 3):
        session.unsubscribe(subscription)
    assert session.held == 0
