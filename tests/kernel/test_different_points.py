"""Sessions that want the same but have had other values: each group goes on when the other has gone."""

from __future__ import annotations

from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
# Seconds after which sessions that could share their work do.
SETTLED = 20.0


def subscribed(harness: Harness) -> tuple[Session, MemoryChannel]:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a b", "x y", snapshot=False)
    return session, channel


def test_sessions_of_one_kind_at_different_points_end_one_group_after_the_other() -> None:
    harness = Harness()
    early, early_channel = subscribed(harness)
    harness.publish("a", x="1", y="y")
    harness.advance(SETTLED)
    # It has not had the values of item a, so its next line is another.
    late, late_channel = subscribed(harness)
    harness.advance(SETTLED)
    early_channel.take()
    late_channel.take()
    harness.publish("a", x="2", y="y")
    assert (early_channel.take(), late_channel.take()) == (["U,1,1,2|"], ["U,1,1,2|y"])
    early.notify(b"MSGDONE,*,1,\r\n")
    late.close(31, "ended")
    harness.advance(SETTLED)
    early_channel.take()
    harness.publish("a", x="3", y="y")
    assert early_channel.take() == ["U,1,1,3|"]
    early.close(31, "ended")
    assert not harness.kernel.sessions


def test_a_group_that_is_left_takes_in_who_comes_to_its_point() -> None:
    harness = Harness()
    early, _ = subscribed(harness)
    harness.publish("a", x="1", y="y")
    harness.advance(SETTLED)
    late, _ = subscribed(harness)
    harness.advance(SETTLED)
    early.close(31, "ended")
    # Both have had nothing of item b, and the same of item a since it has changed altogether.
    third, third_channel = subscribed(harness)
    harness.publish("a", x="2", y="z")
    harness.advance(SETTLED)
    third_channel.take()
    harness.publish("a", x="3", y="z")
    assert third_channel.take() == ["U,1,1,3|"]
    late.close(31, "ended")
    harness.publish("a", x="4", y="z")
    assert third_channel.take() == ["U,1,1,4|"]
    third.close(31, "ended")
    assert not harness.kernel.sessions
