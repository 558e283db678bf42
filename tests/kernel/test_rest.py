"""Rests between the writes of a session: configured (`max_delay_millis`), or asked for by a machine under strain."""

from __future__ import annotations

import pytest

from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def resting() -> Harness:
    return Harness(SessionLimits(max_delay_millis=30))


def test_the_first_update_after_a_pause_is_not_delayed_and_the_next_ones_share_a_write() -> None:
    harness = resting()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a b", "x")
    harness.subscribe(session, 2, "c", "x", Mode.RAW)
    harness.advance(1.0)
    channel.take()
    harness.publish("a", x="1")
    assert channel.take() == ["U,1,1,1"]
    writes = channel.writes
    for number in range(2, 9):
        harness.advance(0.004)
        harness.publish("a", x=str(number))
        harness.publish("c", x=str(number))
    assert channel.take() == []
    harness.advance(0.002)
    assert channel.take() == [f"U,{which},1,{number}" for number in range(2, 9) for which in (1, 2)]
    assert channel.writes == writes + 1


def test_nothing_waits_longer_than_the_delay() -> None:
    harness = resting()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.advance(1.0)
    channel.take()
    for number in range(500):
        harness.publish("a", x=str(number))
        published = harness.clock.now
        harness.advance(0.007)
        if channel.take() == []:
            harness.advance(0.03 - 0.007)
            assert channel.take(), f"event {number} of {published} has not come"


def test_answers_to_requests_and_a_new_connection_do_not_wait_for_the_rest() -> None:
    harness = resting()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    channel.take()
    session.confirm_constraints()
    assert channel.take() == ["CONS,unlimited"]
    session.rebind()
    assert "U,1,1,2" in harness.bind(session, QUIET).take()


def test_what_waits_for_the_end_of_a_rest_goes_before_a_bandwidth_limit_holds() -> None:
    harness = resting()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    channel.take()
    session.constrain(0.01)
    assert channel.take() == ["U,1,1,1", "U,1,1,2", "CONS,0.01"]


@pytest.mark.parametrize("strain", [0.01, 0.2])
def test_under_strain_the_longer_of_both_rests_holds_and_ends_with_it(strain: float) -> None:
    harness = resting()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.kernel.set_strain(strain)
    harness.advance(1.0)
    harness.publish("a", x="1")
    harness.publish("a", x="2")
    channel.take()
    rest = max(0.03, strain)
    harness.advance(rest - 0.001)
    assert channel.take() == []
    harness.advance(0.002)
    assert channel.take() == ["U,1,1,2"]
    harness.kernel.set_strain(0.0)
    assert harness.kernel.rest == 0.03


def test_a_session_relieved_during_its_rest_goes_on_after_it() -> None:
    harness = Harness(SessionLimits(max_delay_millis=1_000))
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.advance(2.0)
    harness.publish("a", x="1")
    channel.take()
    channel.congest()
    harness.publish("a", x="2")
    channel.relieve()
    harness.turn()
    assert channel.take() == []
    harness.advance(1.0)
    assert channel.take() == ["U,1,1,2"]


def test_with_rests_a_session_stays_within_its_bandwidth_and_uses_most_of_it() -> None:
    harness = resting()
    session, channel = harness.open(QUIET, max_bandwidth=8.0)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.advance(2.0)
    channel.take()
    before = channel.size
    for number in range(400):
        harness.publish("a", x=str(number))
        harness.advance(0.01)
    assert 0.9 * 4_000 <= channel.size - before <= 1.05 * 4_000
