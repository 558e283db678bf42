"""Polling connections: synchronous and asynchronous. Specification: TLCP chapter 2, `LS_polling` and its companions."""

from __future__ import annotations

import pytest

from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding
from penstock.testing import Harness

SYNCHRONOUS = Binding(polling=True)


def asynchronous(idle_millis: int, polling_millis: int = 0) -> Binding:
    return Binding(polling=True, idle_millis=idle_millis, polling_millis=polling_millis)


def test_a_synchronous_poll_answers_at_once_even_with_nothing(harness: Harness) -> None:
    session, channel = harness.open(SYNCHRONOUS)
    assert [line.split(",")[0] for line in channel.take()] == ["CONOK", "CONS", "LOOP"]
    assert channel.finished
    assert not session.closed


def test_a_synchronous_poll_brings_what_has_gathered(harness: Harness) -> None:
    session, _ = harness.open(SYNCHRONOUS)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    channel = harness.bind(session, SYNCHRONOUS)
    assert channel.take()[2:] == ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,1", "LOOP,0"]
    channel = harness.bind(session, SYNCHRONOUS)
    assert channel.take()[2:] == ["LOOP,0"]


def test_an_asynchronous_poll_ends_with_the_turn_that_brings_the_first_data(harness: Harness) -> None:
    session, _ = harness.open(SYNCHRONOUS)
    harness.subscribe(session, 1, "a", "x")
    harness.bind(session, SYNCHRONOUS)
    channel = harness.bind(session, asynchronous(10_000))
    channel.take()
    harness.advance(9.0)
    assert channel.take() == []
    harness.source.publish("a", {"x": "1"})
    harness.source.publish("a", {"x": "2"})
    harness.turn()
    assert channel.take() == ["U,1,1,1", "U,1,1,2", "LOOP,0"]


def test_an_asynchronous_poll_ends_empty_after_its_idle_time(harness: Harness) -> None:
    session, channel = harness.open(asynchronous(10_000))
    assert channel.take()[0] == f"CONOK,{session.id},50000,10000,*"
    harness.advance(9.999)
    assert channel.take() == ["CONS,unlimited"][1:]
    harness.advance(0.001)
    assert channel.take() == ["LOOP,0"]


def test_idle_and_polling_times_are_kept_within_bounds() -> None:
    harness = Harness(SessionLimits(max_idle_millis=2_000, max_polling_millis=1_000, session_timeout_millis=4_000))
    session, channel = harness.open(asynchronous(60_000, polling_millis=60_000))
    assert channel.take()[0].endswith(",2000,*")
    harness.advance(2.0)
    assert channel.take() == ["LOOP,1000"]
    harness.advance(4.999)
    assert not session.closed
    harness.advance(0.001)
    assert session.closed


def test_a_poll_is_neither_probed_nor_synchronized() -> None:
    harness = Harness(SessionLimits(sync_millis=1_000))
    _, channel = harness.open(
        Binding(polling=True, idle_millis=20_000, keepalive_millis=1_000, inactivity_millis=1_000)
    )
    channel.take()
    harness.advance(19.9)
    assert channel.take() == []
    assert not channel.aborted


def test_a_constraint_told_during_a_poll_ends_it(harness: Harness) -> None:
    session, channel = harness.open(asynchronous(10_000))
    channel.take()
    session.constrain(100.0)
    assert channel.take() == ["CONS,100", "LOOP,0"]
    assert channel.finished


def test_a_constraint_that_is_not_told_ends_no_poll(harness: Harness) -> None:
    session, channel = harness.open(asynchronous(10_000))
    session.tells_constraints = False
    channel.take()
    session.constrain(100.0)
    harness.turn()
    assert channel.take() == []
    assert not channel.finished


def test_a_poll_that_breaks_is_recovered_like_any_connection(harness: Harness) -> None:
    session, _ = harness.open(SYNCHRONOUS)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    channel = harness.bind(session, asynchronous(10_000))
    assert channel.finished  # All of it was sent, and nothing may have arrived.
    harness.publish("a", x="2")
    channel = harness.bind(session, asynchronous(10_000), recovery_from=0)
    assert channel.take()[2:] == ["PROG,0", "SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,1", "U,1,1,2", "LOOP,0"]


def test_a_poll_cut_while_it_waits_keeps_the_session_for_the_recovery_time() -> None:
    harness = Harness(SessionLimits(session_recovery_millis=5_000, session_timeout_millis=1_000))
    session, channel = harness.open(asynchronous(10_000))
    harness.advance(3.0)
    channel.cut()
    harness.advance(4.999)
    assert not session.closed
    channel = harness.bind(session, asynchronous(10_000), recovery_from=0)
    channel.take()
    harness.advance(10.0)
    assert channel.take() == ["LOOP,0"]
    harness.advance(1.0)
    assert session.closed


@pytest.mark.parametrize("idle_millis", [0, 10_000])
def test_a_poll_of_limited_length_brings_one_part_after_the_other(harness: Harness, idle_millis: int) -> None:
    session, _ = harness.open(SYNCHRONOUS)
    harness.subscribe(session, 1, "a", "x")
    harness.bind(session, SYNCHRONOUS)
    session.subscriptions[1].reconfigure(None)
    for number in range(20):
        harness.submit(session, "m", progressive=number + 1)
    found: list[str] = []
    for _ in range(20):
        channel = harness.bind(session, asynchronous(idle_millis), limit=300)
        lines = channel.take()
        assert channel.size <= 300
        found += lines[2:-1]
        if not found[-1:] or found[-1] == "MSGDONE,*,20,":
            break
        assert lines[-1] == "LOOP,0"
    assert found == ["CONF,1,unlimited,filtered", *[f"MSGDONE,*,{number + 1}," for number in range(20)]]


def test_an_update_for_a_poll_whose_client_is_gone_waits_for_the_next(harness: Harness) -> None:
    session, _ = harness.open(SYNCHRONOUS)
    harness.subscribe(session, 1, "a", "x")
    harness.bind(session, SYNCHRONOUS)
    channel = harness.bind(session, asynchronous(10_000))
    channel.take()
    channel.broken = True
    harness.publish("a", x="1")
    assert channel.take() == []
    assert channel.aborted
    # Repeated by the client's HTTP library, without a word that something was missed.
    assert harness.bind(session, SYNCHRONOUS).take()[2:] == ["U,1,1,1", "LOOP,0"]
