"""Upstream messages: order, duplicates, gaps, time-outs. Specification: TLCP chapter 2, "Message Send Request"."""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.limits import SessionLimits
from penstock.kernel.messages import MAX_REMEMBERED, Message
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def opened(harness: Harness) -> tuple[Session, MemoryChannel]:
    session, channel = harness.open(QUIET)
    channel.take()
    return session, channel


def refused(harness: Harness, session: Session, sequence: str | None, progressive: int) -> Reason:
    with pytest.raises(Refusal, match=f"Message number {progressive}") as caught:
        harness.submit(session, "again", sequence, progressive)
    return caught.value.reason


def test_messages_of_a_sequence_are_processed_by_number_whatever_order_they_come_in(harness: Harness) -> None:
    session, channel = opened(harness)
    for number in (3, 1, 2, 4):
        harness.submit(session, f"m{number}", "S", number)
    assert harness.handler.delivered == ["m1", "m2", "m3", "m4"]
    assert channel.take() == [f"MSGDONE,S,{number}," for number in range(1, 5)]


def test_a_message_waits_until_the_one_before_has_its_outcome(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, channel = opened(harness)
    harness.submit(session, "m1", "S", 1)
    harness.submit(session, "m2", "S", 2)
    assert harness.handler.delivered == ["m1"]
    harness.handler.answer("fine, thanks")
    assert harness.handler.delivered == ["m1", "m2"]
    harness.handler.refuse(-4, "no")
    harness.turn()
    assert channel.take() == ["MSGDONE,S,1,fine%2C thanks", "MSGFAIL,S,2,-4,no"]


def test_sequences_do_not_wait_for_each_other_nor_do_unsequenced_messages(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, _ = opened(harness)
    harness.submit(session, "s1", "S", 1)
    harness.submit(session, "t1", "T", 1)
    harness.submit(session, "u7", None, 7)
    harness.submit(session, "u", None, None, outcome=False)
    assert harness.handler.delivered == ["s1", "t1", "u7", "u"]


def test_sessions_have_sequences_of_their_own(harness: Harness) -> None:
    one, _ = opened(harness)
    other, _ = opened(harness)
    harness.submit(one, "1", "S", 1)
    harness.submit(other, "2", "S", 1)
    assert harness.handler.delivered == ["1", "2"]


def test_a_number_taken_already_is_a_duplicate_whether_processed_or_waiting(harness: Harness) -> None:
    session, _ = opened(harness)
    harness.submit(session, "m1", "S", 1)
    harness.submit(session, "m3", "S", 3)
    assert refused(harness, session, "S", 1) is Reason.MESSAGE_DUPLICATE
    assert refused(harness, session, "S", 3) is Reason.MESSAGE_DUPLICATE
    harness.submit(session, "m2", "S", 2)
    assert harness.handler.delivered == ["m1", "m2", "m3"]


def test_one_missing_number_is_skipped_with_38_after_the_wait(harness: Harness) -> None:
    session, channel = opened(harness)
    harness.submit(session, "m2", "S", 2, max_wait_millis=3_000)
    harness.advance(2.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == [
        "MSGFAIL,S,1,38,The specified progressive number has been skipped by timeout",
        "MSGDONE,S,2,",
    ]


def test_several_missing_numbers_are_skipped_with_39_and_their_count(harness: Harness) -> None:
    session, channel = opened(harness)
    harness.submit(session, "m5", "S", 5, max_wait_millis=1_000)
    harness.advance(1.0)
    assert channel.take() == ["MSGFAIL,S,4,39,4", "MSGDONE,S,5,"]


def test_a_skipped_number_that_comes_after_all_is_too_low(harness: Harness) -> None:
    session, _ = opened(harness)
    harness.submit(session, "m2", "S", 2, max_wait_millis=0)
    harness.advance(0.0)
    assert harness.handler.delivered == ["m2"]
    assert refused(harness, session, "S", 1) is Reason.MESSAGE_TOO_LOW
    assert refused(harness, session, "S", 2) is Reason.MESSAGE_DUPLICATE


def test_the_wait_of_one_message_lets_all_before_it_go(harness: Harness) -> None:
    session, channel = opened(harness)
    harness.submit(session, "m3", "S", 3, max_wait_millis=20_000)
    harness.submit(session, "m6", "S", 6, max_wait_millis=1_000)
    harness.submit(session, "m8", "S", 8, max_wait_millis=20_000)
    harness.advance(1.0)
    assert channel.take() == ["MSGFAIL,S,2,39,2", "MSGDONE,S,3,", "MSGFAIL,S,5,39,2", "MSGDONE,S,6,"]
    assert harness.handler.delivered == ["m3", "m6"]
    harness.submit(session, "m7", "S", 7)
    assert harness.handler.delivered == ["m3", "m6", "m7", "m8"]


def test_a_wait_that_ends_while_another_message_is_being_processed_counts_afterwards(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, channel = opened(harness)
    harness.submit(session, "m1", "S", 1)
    harness.submit(session, "m3", "S", 3, max_wait_millis=1_000)
    harness.advance(5.0)
    assert harness.handler.delivered == ["m1"]
    harness.handler.answer()
    harness.advance(0.0)
    assert harness.handler.delivered == ["m1", "m3"]
    harness.handler.answer()
    harness.turn()
    assert [line[:13] for line in channel.take()] == ["MSGDONE,S,1,", "MSGFAIL,S,2,3", "MSGDONE,S,3,"]


@pytest.mark.parametrize("wish", [None, 10**9])
def test_the_server_bounds_the_wait(wish: int | None) -> None:
    harness = Harness(SessionLimits(missing_message_timeout_millis=2_000))
    session, _ = opened(harness)
    harness.submit(session, "m2", "S", 2, max_wait_millis=wish)
    harness.advance(1.999)
    assert harness.handler.delivered == []
    harness.advance(0.001)
    assert harness.handler.delivered == ["m2"]


def test_without_an_outcome_wanted_there_is_none_but_order_holds(harness: Harness) -> None:
    session, channel = opened(harness)
    harness.submit(session, "m2", "S", 2, outcome=False)
    harness.submit(session, "m1", "S", 1, outcome=False)
    harness.submit(session, "u1", None, 1, outcome=False)
    assert harness.handler.delivered == ["m1", "m2", "u1"]
    assert channel.take() == []


def test_unsequenced_numbers_may_come_in_any_order_but_once(harness: Harness) -> None:
    session, channel = opened(harness)
    for number in (2, 5, 1):
        harness.submit(session, "u", None, number)
    assert channel.take() == ["MSGDONE,*,2,", "MSGDONE,*,5,", "MSGDONE,*,1,"]
    for number in (1, 2, 5):
        assert refused(harness, session, None, number) is Reason.MESSAGE_DUPLICATE
    harness.submit(session, "u", None, 4)


def test_a_gap_given_up_to_bound_memory_is_too_low_rather_than_a_duplicate(harness: Harness) -> None:
    session, _ = opened(harness)
    for number in range(3, 3 + MAX_REMEMBERED + 1):
        harness.submit(session, "u", None, number)
    assert refused(harness, session, None, 2) is Reason.MESSAGE_TOO_LOW
    assert refused(harness, session, None, 500) in (Reason.MESSAGE_TOO_LOW, Reason.MESSAGE_DUPLICATE)
    harness.submit(session, "u", None, 3 + MAX_REMEMBERED + 1)
    assert len(harness.handler.delivered) == MAX_REMEMBERED + 2


def test_outcomes_wait_for_the_next_binding_and_can_be_recovered(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, channel = opened(harness)
    harness.submit(session, "m1", "S", 1)
    channel.cut()
    harness.handler.answer("yes")
    channel = harness.bind(session, QUIET, recovery_from=0)
    assert channel.take()[2:] == ["PROG,0", "MSGDONE,S,1,yes"]
    channel.cut()
    channel = harness.bind(session, QUIET, recovery_from=0)
    assert channel.take()[2:] == ["PROG,0", "MSGDONE,S,1,yes"]


def test_a_hundred_waiting_messages_answered_at_once_do_not_nest(harness: Harness) -> None:
    session, _ = opened(harness)
    for number in range(5_000, 1, -1):
        harness.submit(session, str(number), "S", number)
    harness.submit(session, "1", "S", 1)
    assert harness.handler.delivered == [str(number) for number in range(1, 5_001)]


def test_an_answer_after_the_end_of_the_session_is_nobodys_business(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, _ = opened(harness)
    harness.submit(session, "m1", "S", 1)
    harness.submit(session, "m2", "S", 2)
    session.close(31, "bye")
    harness.handler.answer()
    assert harness.handler.delivered == ["m1"]


# -- outcomes told to whoever waits for them ---------------------------------------------------------------------------


class Outcome:
    """Listens for the outcome of one message."""

    def __init__(self) -> None:
        self.told: list[tuple[int | None, str]] = []

    def __call__(self, code: int | None, text: str) -> None:
        self.told.append((code, text))


def test_the_listener_of_a_message_is_told_of_its_success_and_the_client_is_not(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, channel = opened(harness)
    outcome = Outcome()
    session.messages.submit(Message("m", None, None, False, outcome), None)
    assert outcome.told == []
    harness.handler.answer("fine")
    harness.turn()
    assert outcome.told == [(None, "fine")]
    assert channel.take() == []


def test_the_listener_of_a_message_is_told_of_its_failure(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, channel = opened(harness)
    outcome = Outcome()
    session.messages.submit(Message("m", None, None, False, outcome), None)
    harness.handler.refuse(-4, "no")
    harness.turn()
    assert outcome.told == [(-4, "no")]
    assert channel.take() == []


def test_a_listener_is_told_even_when_the_session_has_closed_meanwhile(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, _ = opened(harness)
    outcome = Outcome()
    session.messages.submit(Message("m", None, None, False, outcome), None)
    session.close(31, "over")
    assert outcome.told == []
    harness.handler.answer()
    assert outcome.told == [(None, "")]


def test_a_listener_and_the_client_may_both_be_told(harness: Harness) -> None:
    session, channel = opened(harness)
    outcome = Outcome()
    session.messages.submit(Message("m", "S", 1, True, outcome), None)
    harness.turn()
    assert outcome.told == [(None, "")]
    assert channel.take() == ["MSGDONE,S,1,"]


def test_messages_with_listeners_do_not_wait_for_one_another(harness: Harness) -> None:
    harness.handler.answers_at_once = False
    session, _ = opened(harness)
    outcomes = [Outcome(), Outcome()]
    for outcome in outcomes:
        session.messages.submit(Message("same", None, None, False, outcome), None)
    assert harness.handler.delivered == ["same", "same"]
    harness.handler.answer()
    assert [len(outcome.told) for outcome in outcomes] == [1, 0]
