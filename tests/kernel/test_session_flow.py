"""Sessions that cannot take everything: congestion. Lanes hold, see `test_lane`; bandwidth is in `test_bandwidth`."""

from __future__ import annotations

from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def test_a_congested_session_conflates_merge_and_sends_the_latest_when_relieved(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x y")
    harness.publish("a", x="1", y="1")
    channel.take()
    channel.congest()
    for number in range(2, 10):
        harness.publish("a", x=str(number))
    assert channel.take() == []
    channel.relieve()
    harness.turn()
    assert channel.take() == ["U,1,1,9|"]


def test_changes_that_cancel_each_other_out_while_congested_are_not_sent(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    channel.take()
    channel.congest()
    harness.publish("a", x="2")
    harness.publish("a", x="1")
    channel.relieve()
    harness.turn()
    assert channel.take() == []
    harness.publish("a", x="2")
    assert channel.take() == ["U,1,1,2"]


def test_a_congested_session_keeps_raw_events_and_tells_how_many_it_had_to_drop() -> None:
    harness = Harness(SessionLimits(max_buffer_size=3))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a b", "x", Mode.RAW)
    channel.take()
    channel.congest()
    for number in range(5):
        harness.publish("a", x=str(number))
    harness.publish("b", x="only")
    channel.relieve()
    harness.turn()
    assert channel.take() == ["OV,1,1,2", "U,1,1,2", "U,1,1,3", "U,1,1,4", "U,1,2,only"]
    channel.congest()
    harness.publish("a", x="5")
    channel.relieve()
    harness.turn()
    assert channel.take() == ["U,1,1,5"]


def test_other_sessions_do_not_notice_that_one_is_congested(harness: Harness) -> None:
    slow, slow_channel = harness.open(QUIET)
    fast, fast_channel = harness.open(QUIET)
    for session in (slow, fast):
        harness.subscribe(session, 1, "a", "x")
    fast_channel.take()
    slow_channel.take()
    slow_channel.congest()
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    assert fast_channel.take() == ["U,1,1,1", "U,1,1,2"]
    slow_channel.relieve()
    harness.turn()
    assert slow_channel.take() == ["U,1,1,2"]


def test_notifications_keep_their_order_through_congestion(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    channel.take()
    channel.congest()
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.publish("a", x="1")
    harness.submit(session, "hello", progressive=1)
    session.unsubscribe(1)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.publish("a", x="2")
    channel.relieve()
    harness.turn()
    assert channel.take() == [
        "SUBOK,1,1,1",
        "CONF,1,unlimited,unfiltered",
        "MSGDONE,*,1,",
        "UNSUB,1",
        "SUBOK,1,1,1",
        "CONF,1,unlimited,unfiltered",
        "U,1,1,2",
    ]


def test_a_subscription_that_ended_while_congested_leaves_neither_updates_nor_losses() -> None:
    harness = Harness(SessionLimits(max_buffer_size=1))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    channel.take()
    channel.congest()
    for number in range(4):
        harness.publish("a", x=str(number))
    session.unsubscribe(1)
    channel.relieve()
    harness.turn()
    assert channel.take() == ["UNSUB,1"]


def test_relief_without_congestion_changes_nothing(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    channel.relieve()
    harness.publish("a", x="1")
    assert channel.take() == ["U,1,1,1"]


def test_a_new_connection_starts_free_of_the_old_ones_congestion(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    channel.congest()
    harness.publish("a", x="1")
    channel.cut()
    channel = harness.bind(session, QUIET, recovery_from=2)
    assert channel.take()[2:] == ["PROG,2", "U,1,1,1"]
