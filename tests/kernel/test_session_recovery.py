"""Recovery as a session does it. Specification: TLCP chapter 1, "Session Recovery"."""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False)
SENT = ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,1", "U,1,1,2", "U,1,1,3"]


def recovered(harness: Harness, recovery_from: int) -> list[str]:
    (session,) = harness.kernel.sessions.values()
    return harness.bind(session, QUIET, recovery_from=recovery_from).take()[2:]


def prepare(harness: Harness) -> None:
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    for number in "123":
        harness.publish("a", x=number)


@pytest.mark.parametrize("point", range(6))
def test_the_stream_goes_on_after_any_point_that_is_kept(harness: Harness, point: int) -> None:
    prepare(harness)
    assert recovered(harness, point) == [f"PROG,{point}", *SENT[point:]]


def test_a_recovery_may_be_recovered_from_a_later_and_from_an_earlier_point(harness: Harness) -> None:
    prepare(harness)
    for point in (2, 4, 0, 5, 1):
        assert recovered(harness, point) == [f"PROG,{point}", *SENT[point:]]


def test_a_point_beyond_what_was_sent_is_refused_and_changes_nothing(harness: Harness) -> None:
    prepare(harness)
    (session,) = harness.kernel.sessions.values()
    channel = session.channel
    with pytest.raises(Refusal, match="Recovery from 6 is not possible; only from 0 to 5") as caught:
        recovered(harness, 6)
    assert caught.value.reason is Reason.RECOVERY
    assert session.channel is channel
    harness.publish("a", x="4")
    assert channel is not None
    assert not channel.finished  # type: ignore[attr-defined]
    assert channel.take()[-1] == "U,1,1,4"  # type: ignore[attr-defined]


def test_a_binding_without_recovery_confirms_everything_before_it(harness: Harness) -> None:
    prepare(harness)
    (session,) = harness.kernel.sessions.values()
    session.rebind()
    channel = harness.bind(session, QUIET)
    channel.cut()
    with pytest.raises(Refusal, match="only from 5 to 5"):
        recovered(harness, 4)
    assert recovered(harness, 5) == ["PROG,5"]


def test_more_bytes_than_are_kept_cannot_be_recovered() -> None:
    harness = Harness(SessionLimits(max_recovery_length=50))
    prepare(harness)
    with pytest.raises(Refusal, match="only from 2 to 5"):
        recovered(harness, 1)
    assert recovered(harness, 2) == ["PROG,2", *SENT[2:]]


def test_what_is_older_than_the_longest_age_cannot_be_recovered() -> None:
    harness = Harness(SessionLimits(max_recovery_age_millis=10_000))
    prepare(harness)
    harness.advance(10.1)
    harness.publish("a", x="4")
    with pytest.raises(Refusal, match="only from 5 to 6"):
        recovered(harness, 4)
    assert recovered(harness, 5) == ["PROG,5", "U,1,1,4"]


def test_only_data_notifications_are_sent_again() -> None:
    harness = Harness(SessionLimits(sync_millis=1_000))
    session, channel = harness.open(Binding(keepalive_millis=1_000))
    harness.subscribe(session, 1, "a", "x")
    harness.advance(3.5)
    session.constrain(1_000.0)
    harness.advance(2.0)
    assert {"SYNC", "CONS"} <= {line.split(",")[0] for line in channel.take()}
    assert recovered(harness, 0) == ["PROG,0", *SENT[:2]]


def test_what_waits_behind_a_bandwidth_limit_comes_after_what_is_recovered(harness: Harness) -> None:
    session, channel = harness.open(QUIET, max_bandwidth=0.1)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    assert channel.take()[2:] == SENT[:1]
    channel.cut()
    harness.publish("a", x="2")
    channel = harness.bind(session, QUIET, recovery_from=0)
    assert channel.take()[2:] == ["PROG,0", *SENT[:1]]
    harness.advance(9.0)
    assert [line for line in channel.take() if line != "PROBE"] == [SENT[1], "U,1,1,2"]


def test_a_client_that_asked_for_more_than_it_needed_may_go_on_from_where_it_really_is(harness: Harness) -> None:
    prepare(harness)
    (session,) = harness.kernel.sessions.values()
    harness.bind(session, QUIET, limit=220, recovery_from=0)
    assert session.log.sent < 5
    harness.publish("a", x="4")
    assert recovered(harness, 5) == ["PROG,5", "U,1,1,4"]
    assert recovered(harness, 0) == ["PROG,0", *SENT, "U,1,1,4"]
    with pytest.raises(Refusal, match="only from 0 to 6"):
        recovered(harness, 7)


def test_an_update_that_goes_only_with_the_recovery_holds_back_the_next(harness: Harness) -> None:
    session, channel = harness.open()
    harness.subscribe(session, 1, "a", "x", max_frequency=1.0)
    harness.source.publish("a", {"x": "1"})  # Encoded, but the connection ends before the turn.
    channel.cut()
    harness.advance(0.8)
    harness.publish("a", x="2")
    channel = harness.bind(session, recovery_from=2)
    assert channel.take()[-1] == "U,1,1,1"
    harness.advance(0.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["U,1,1,2"]
