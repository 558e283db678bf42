"""Frequency limits: never early, nothing lost that must not be, and no harm from what comes too late."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def updates(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("U,")]


def test_the_first_update_goes_at_once_and_the_next_after_the_interval(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", max_frequency=2.0)
    assert channel.take()[-1] == "CONF,1,2.0,filtered"
    harness.publish("a", x="1")
    assert channel.take() == ["U,1,1,1"]
    harness.publish("a", x="2")
    harness.publish("a", x="3")
    harness.advance(0.499)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["U,1,1,3"]


def test_the_limit_holds_for_each_item_by_itself(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a b", "x", max_frequency=1.0)
    channel.take()
    harness.publish("a", x="1")
    harness.publish("b", x="1")
    assert channel.take() == ["U,1,1,1", "U,1,2,1"]


def test_the_snapshot_from_the_adapter_counts_as_an_update(harness: Harness) -> None:
    harness.source.state["a"] = {"x": "0"}
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", snapshot=True, max_frequency=1.0)
    assert updates(channel.take()) == ["U,1,1,0"]
    harness.publish("a", x="1")
    harness.advance(0.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["U,1,1,1"]


def test_the_snapshot_for_a_later_subscriber_counts_as_an_update(harness: Harness) -> None:
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "a", "x")
    harness.publish("a", x="0")
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", snapshot=True, max_frequency=1.0)
    assert updates(channel.take()) == ["U,1,1,0"]
    harness.publish("a", x="1")
    harness.advance(0.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["U,1,1,1"]


def test_a_first_update_that_changes_nothing_counts_as_an_update(harness: Harness) -> None:
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "a", "x")
    harness.publish("a", x="0")
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", max_frequency=1.0)
    harness.publish("a", other="z")
    assert updates(channel.take()) == ["U,1,1,0"]
    harness.publish("a", x="1")
    assert channel.take() == []


def test_a_queue_is_released_one_event_per_interval(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, max_frequency=10.0)
    channel.take()
    for number in range(4):
        harness.publish("a", x=str(number))
    assert channel.take() == ["U,1,1,0"]
    for number in range(1, 4):
        harness.advance(0.1)
        assert channel.take() == [f"U,1,1,{number}"]
    harness.advance(10.0)
    assert channel.take() == []


def test_distinct_events_beyond_the_buffer_are_dropped_in_silence_unless_unfiltered() -> None:
    harness = Harness(SessionLimits(max_buffer_size=2))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT)
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT, unfiltered=True)
    channel.take()
    channel.congest()
    for number in range(5):
        harness.publish("a", x=str(number))
    channel.relieve()
    harness.turn()
    assert channel.take() == ["U,1,1,3", "U,1,1,4", "OV,2,1,3", "U,2,1,3", "U,2,1,4"]


def test_the_limit_is_kept_across_connections(harness: Harness) -> None:
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", max_frequency=0.1)
    harness.publish("a", x="1")
    session.rebind()
    harness.publish("a", x="2")
    harness.advance(5.0)
    channel = harness.bind(session, QUIET)
    assert updates(channel.take()) == []
    harness.advance(4.999)
    assert updates(channel.take()) == []
    harness.advance(0.001)
    assert updates(channel.take()) == ["U,1,1,2"]


def test_an_interval_that_ends_while_unbound_lets_the_update_go_with_the_next_binding(harness: Harness) -> None:
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", max_frequency=1.0)
    harness.publish("a", x="1")
    session.rebind()
    harness.publish("a", x="2")
    harness.advance(2.0)
    channel = harness.bind(session, QUIET)
    assert updates(channel.take()) == ["U,1,1,2"]


def test_an_interval_that_ends_after_the_unsubscription_does_nothing(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    for mode, name in ((Mode.MERGE, "a"), (Mode.DISTINCT, "b")):
        harness.subscribe(session, 1, name, "x", mode, max_frequency=1.0)
        for number in range(3):
            harness.publish(name, x=str(number))
        session.unsubscribe(1)
        harness.turn()
        channel.take()
        harness.advance(5.0)
        assert channel.take() == []


def test_a_higher_limit_ends_the_interval_under_way_earlier(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    subscription = harness.subscribe(session, 1, "a", "x", max_frequency=0.1)
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    channel.take()
    subscription.reconfigure(2.0)
    harness.turn()
    assert channel.take() == ["CONF,1,2.0,filtered"]
    harness.advance(0.5)
    assert channel.take() == ["U,1,1,2"]


def test_lifting_the_limit_releases_what_is_held(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    subscription = harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, max_frequency=0.1)
    for number in range(4):
        harness.publish("a", x=str(number))
    channel.take()
    subscription.reconfigure(None)
    harness.turn()
    assert channel.take() == ["CONF,1,unlimited,filtered", "U,1,1,1", "U,1,1,2", "U,1,1,3"]


def test_a_lower_limit_counts_from_the_next_update_on(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    subscription = harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    subscription.reconfigure(1.0)
    channel.take()
    harness.publish("a", x="2")
    harness.publish("a", x="3")
    assert updates(channel.take()) == ["U,1,1,2"]
    harness.advance(1.0)
    assert channel.take() == ["U,1,1,3"]


def test_unfiltered_dispatching_cannot_be_limited(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    subscription = harness.subscribe(session, 1, "a", "x", unfiltered=True)
    assert channel.take()[-1] == "CONF,1,unlimited,unfiltered"
    with pytest.raises(Refusal, match="Subscription 1 is unfiltered") as caught:
        subscription.reconfigure(1.0)
    assert caught.value.reason is Reason.UNFILTERED


def test_a_limit_does_not_apply_to_raw(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW, max_frequency=0.1)
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    assert updates(channel.take()) == ["U,1,1,1", "U,1,1,2"]


@given(
    frequency=st.floats(0.05, 500.0),
    pauses=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=40),
    mode=st.sampled_from([Mode.MERGE, Mode.DISTINCT]),
)
def test_two_updates_are_never_closer_than_the_interval(frequency: float, pauses: list[float], mode: Mode) -> None:
    harness = Harness(SessionLimits(session_timeout_millis=10**9))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", mode, max_frequency=frequency)
    times: list[float] = []
    write = channel.write

    def timed_write(lines: list[bytes]) -> int:
        times.extend(harness.clock.now for line in lines if line.startswith(b"U,"))
        return write(lines)

    channel.write = timed_write  # type: ignore[method-assign,assignment]
    for number, pause in enumerate(pauses):
        harness.publish("a", x=str(number))
        harness.advance(pause)
    harness.advance(len(pauses) / frequency + 1.0)
    assert all(later >= earlier + 1.0 / frequency for earlier, later in pairwise(times))
    if mode is Mode.DISTINCT:
        assert len(times) == len(pauses)
    else:
        assert updates(channel.take())[-1] == f"U,1,1,{len(pauses) - 1}"
