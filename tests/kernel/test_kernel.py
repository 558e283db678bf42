from __future__ import annotations

import pytest

from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import EndedSession
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription
from penstock.testing import Harness


def refusal(harness: Harness, session_id: str) -> Reason:
    with pytest.raises(Refusal) as caught:
        harness.kernel.find_session(session_id)
    return caught.value.reason


def test_a_session_is_found_by_its_identifier_and_by_nothing_less(harness: Harness) -> None:
    session, _ = harness.open()
    assert harness.kernel.find_session(session.id) is session
    guessed = session.id[:17] + "f" * 32 + session.id[49:]
    assert refusal(harness, guessed) is Reason.UNKNOWN_SESSION
    assert refusal(harness, "") is Reason.UNKNOWN_SESSION


def test_a_session_of_another_node_is_told_apart_from_an_unknown_one(harness: Harness) -> None:
    elsewhere = SessionIds("elsewhere", lambda size: bytes(size)).new()
    assert refusal(harness, elsewhere) is Reason.FOREIGN_SESSION


def test_a_session_beyond_the_most_allowed_is_refused_until_one_ends() -> None:
    harness = Harness(SessionLimits(max_sessions=1))
    session, _ = harness.open()
    with pytest.raises(Refusal, match="maximum number of sessions reached: 1") as caught:
        harness.open()
    assert caught.value.reason is Reason.MAX_SESSIONS
    session.close(Cause.DESTROYED_BY_CLIENT, "done")
    harness.open()


def test_a_data_adapter_that_is_not_there_is_refused_by_name_with_those_that_are(harness: Harness) -> None:
    with pytest.raises(Refusal, match="ELSE is not a data adapter of set TEST; it has HAND") as caught:
        harness.kernel.feed("TEST", "ELSE")
    assert caught.value.reason is Reason.DATA_ADAPTER


def test_it_is_dirty_from_the_first_update_that_a_stream_has_to_send_until_the_turn(harness: Harness) -> None:
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x")
    seen: list[object] = [harness.kernel.is_dirty]
    harness.feed.update("a", {"x": "1"})
    seen.append(harness.kernel.is_dirty)
    harness.turn()
    seen.append(harness.kernel.is_dirty)
    assert seen == [False, True, False]


def test_a_session_closed_while_nobody_was_bound_tells_its_cause_until_the_time_out() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=4_000))
    session, channel = harness.open()
    channel.cut()
    session.close(Cause.CLOSED_BY_SERVER, "by the administrator")
    with pytest.raises(EndedSession) as caught:
        harness.kernel.find_session(session.id)
    assert (caught.value.cause, caught.value.message) == (Cause.CLOSED_BY_SERVER, "by the administrator")
    harness.advance(3.999)
    assert refusal(harness, session.id) is Reason.ENDED_SESSION
    harness.advance(0.001)
    assert refusal(harness, session.id) is Reason.UNKNOWN_SESSION


def test_a_session_whose_client_was_told_of_the_end_leaves_nothing_behind(harness: Harness) -> None:
    session, channel = harness.open()
    session.close(Cause.CLOSED_BY_SERVER, "over")
    assert channel.take()[-1] == "END,32,over"
    assert refusal(harness, session.id) is Reason.UNKNOWN_SESSION


def test_what_is_remembered_of_ended_sessions_is_forgotten_in_time() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=1_000))
    for _ in range(3):
        session, channel = harness.open()
        channel.cut()
        session.close(Cause.CLOSED_BY_SERVER, "")
        harness.advance(2.0)
    assert len(harness.kernel._ended) == 1


def test_the_observer_hears_of_every_end_once(harness: Harness) -> None:
    heard: list[tuple[str, int | None, str]] = []

    class Observer:
        def subscription_closed(self, session: Session, subscription: Subscription) -> None:
            pass

        def session_closed(self, session: Session, cause: int | None, message: str) -> None:
            heard.append((session.id, cause, message))

    harness.kernel.observer = Observer()
    session, _ = harness.open()
    session.close(31, "bye")
    session.close(32, "again")
    assert heard == [(session.id, 31, "bye")]


def test_stopping_ends_every_session_with_48_after_its_last_updates(harness: Harness) -> None:
    session, channel = harness.open()
    _, other = harness.open()
    harness.subscribe(session, 1, "a", "x")
    channel.take()
    harness.source.publish("a", {"x": "1"})
    harness.kernel.stop()
    assert channel.take() == ["U,1,1,1", "END,48,The server is shutting down"]
    assert other.take()[-1] == "END,48,The server is shutting down"
    assert channel.closes_socket
    assert other.closes_socket


def test_everything_sent_in_one_turn_is_one_write_per_session(harness: Harness) -> None:
    session, channel = harness.open()
    harness.subscribe(session, 1, "a b", "x")
    writes = channel.writes
    for number in range(10):
        harness.source.publish("a", {"x": str(number)})
        harness.source.publish("b", {"x": str(number)})
    harness.turn()
    assert channel.writes == writes + 1
    assert len(channel.take()[-20:]) == 20
