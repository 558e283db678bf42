"""Binding, silence, time limits and the end of a session. Specification: TLCP chapter 1, "Session Life Cycle"."""

from __future__ import annotations

import pytest

from penstock.kernel.connection import TAIL_RESERVE
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.limits import SessionLimits
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False)


def head(harness: Harness, number: int, keepalive: int = 5_000) -> str:
    session = list(harness.kernel.sessions.values())[number]
    return f"CONOK,{session.id},50000,{keepalive},*"


def is_over(session: Session) -> bool:
    return session.closed


def is_cut(channel: MemoryChannel) -> bool:
    return channel.aborted


# -- binding ----------------------------------------------------------------------------------------------------------


def test_a_binding_opens_with_the_head_and_the_constraints(harness: Harness) -> None:
    session, channel = harness.open()
    assert channel.take() == [head(harness, 0), "CONS,unlimited"]
    session.rebind()
    assert channel.take() == ["LOOP,0"]
    assert channel.finished
    assert not channel.closes_socket


def test_a_client_that_wants_a_reduced_head_never_hears_of_constraints(harness: Harness) -> None:
    session, channel = harness.open()
    session.tells_constraints = False
    session.rebind()
    channel = harness.bind(session)
    session.constrain(50.0)
    assert channel.take() == [head(harness, 0)]


def test_what_happens_while_unbound_is_sent_in_order_after_the_next_binding(harness: Harness) -> None:
    session, channel = harness.open()
    harness.subscribe(session, 1, "a", "x")
    session.rebind()
    harness.publish("a", x="1")
    harness.subscribe(session, 2, "b", "x")
    harness.publish("b", x="2")
    harness.publish("a", x="3")
    session.unsubscribe(2)
    channel = harness.bind(session)
    assert channel.take()[2:] == ["U,1,1,3", "SUBOK,2,1,1", "CONF,2,unlimited,filtered", "UNSUB,2"]


def test_a_session_bound_elsewhere_ends_the_old_connection_with_40_and_goes_on(harness: Harness) -> None:
    session, old = harness.open()
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    harness.source.publish("a", {"x": "2"})  # Sent, but its turn has not come.
    old.take()
    new = harness.bind(session)
    assert old.take() == ["END,40,The session has been bound to another connection"]
    assert old.closes_socket
    assert new.take()[2:] == ["U,1,1,2"]
    harness.publish("a", x="3")
    assert new.take() == ["U,1,1,3"]


def test_too_many_subscriptions_or_items_and_a_number_in_use_are_refused() -> None:
    harness = Harness(SessionLimits(max_subscriptions_per_session=2, max_items_per_subscription=2))
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x")
    for number, items, reason, text in [
        (1, "a", Reason.INVALID, "Subscription number 1 is in use"),
        (2, "a b c", Reason.GROUP, "More than 2 items"),
    ]:
        with pytest.raises(Refusal, match=text) as caught:
            harness.subscribe(session, number, items, "x")
        assert caught.value.reason is reason
    harness.subscribe(session, 2, "a", "x")
    with pytest.raises(Refusal, match="reached 2 subscriptions"):
        harness.subscribe(session, 3, "a", "x")


def test_a_subscription_that_does_not_exist_cannot_be_ended(harness: Harness) -> None:
    session, _ = harness.open()
    with pytest.raises(Refusal, match="Subscription 9 not found") as caught:
        session.unsubscribe(9)
    assert caught.value.reason is Reason.UNKNOWN_SUBSCRIPTION


# -- silence ----------------------------------------------------------------------------------------------------------


def test_a_silent_connection_gets_a_probe_after_each_keep_alive_time_and_not_before(harness: Harness) -> None:
    _, channel = harness.open(Binding(keepalive_millis=2_000, send_sync=False))
    channel.take()
    harness.advance(1.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["PROBE"]
    harness.advance(4.0)
    assert channel.take() == ["PROBE", "PROBE"]


def test_data_puts_the_next_probe_off(harness: Harness) -> None:
    session, channel = harness.open(Binding(keepalive_millis=2_000, send_sync=False))
    harness.subscribe(session, 1, "a", "x")
    harness.advance(1.5)
    harness.publish("a", x="1")
    channel.take()
    harness.advance(1.9)
    assert channel.take() == []
    harness.advance(0.1)
    assert channel.take() == ["PROBE"]


@pytest.mark.parametrize(("wish", "granted"), [(None, 5_000), (1, 1_000), (2_500, 2_500), (10**9, 30_000)])
def test_the_keep_alive_time_is_kept_within_bounds(harness: Harness, wish: int | None, granted: int) -> None:
    _, channel = harness.open(Binding(keepalive_millis=wish, send_sync=False))
    assert channel.take()[0] == head(harness, 0, granted)
    harness.advance(granted / 1000)
    assert channel.take() == ["CONS,unlimited", "PROBE"][1:]


def test_sync_comes_at_its_interval_with_the_seconds_since_the_binding() -> None:
    harness = Harness(SessionLimits(sync_millis=10_000))
    session, channel = harness.open(Binding(keepalive_millis=30_000))
    channel.take()
    harness.advance(30.0)
    assert channel.take() == ["SYNC,10", "SYNC,20", "SYNC,30"]
    session.rebind()
    channel = harness.bind(session, QUIET)
    harness.advance(25.0)
    assert "SYNC" not in " ".join(channel.take())


def test_keep_alive_times_of_any_size_at_any_moment_never_keep_the_kernel_busy() -> None:
    """Once, last + interval and now - last disagreed in the last bit, and the alarm rang for ever."""
    harness = Harness(SessionLimits(max_streaming_millis=7_777, sync_millis=1_313))
    for step in range(150):
        harness.open(Binding(keepalive_millis=1_001 + 37 * step, inactivity_millis=1_009 + 41 * step))
        harness.advance(0.0137)
    harness.advance(20.0)


def test_a_client_silent_for_longer_than_it_promised_is_cut_off_but_may_recover() -> None:
    harness = Harness(SessionLimits(session_recovery_millis=5_000))
    session, channel = harness.open(Binding(inactivity_millis=3_000, send_sync=False))
    harness.subscribe(session, 1, "a", "x")
    harness.advance(2.0)
    session.touch()
    harness.advance(2.999)
    assert not is_cut(channel)
    harness.advance(0.001)
    assert is_cut(channel)
    harness.publish("a", x="1")
    channel = harness.bind(session, recovery_from=0)
    assert channel.take()[2:] == ["PROG,0", "SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,1"]


def test_a_promise_of_inactivity_is_kept_within_bounds(harness: Harness) -> None:
    _, channel = harness.open(Binding(inactivity_millis=1, send_sync=False))
    harness.advance(0.999)
    assert not is_cut(channel)
    harness.advance(0.001)
    assert is_cut(channel)


# -- time limits ------------------------------------------------------------------------------------------------------


def test_a_session_that_was_asked_to_bind_again_and_does_not_is_closed_after_the_time_out() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=4_000, session_recovery_millis=9_000))
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x")
    session.rebind()
    harness.advance(3.999)
    assert not is_over(session)
    harness.advance(0.001)
    assert is_over(session)
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]


def test_the_time_out_is_longer_by_the_delay_the_client_has_announced() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=4_000, max_polling_millis=2_000))
    session, channel = harness.open()
    session.rebind(1_500)
    assert channel.take()[-1] == "LOOP,0"
    harness.advance(5.499)
    assert not is_over(session)
    harness.advance(0.001)
    assert is_over(session)
    session, _ = harness.open()
    session.rebind(60_000)
    harness.advance(6.0)
    assert is_over(session)


def test_a_session_whose_connection_broke_is_kept_for_the_recovery_time() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=4_000, session_recovery_millis=9_000))
    session, channel = harness.open()
    channel.cut()
    harness.advance(8.999)
    assert not is_over(session)
    harness.advance(0.001)
    assert is_over(session)


def test_a_binding_in_time_starts_the_clock_anew() -> None:
    harness = Harness(SessionLimits(session_timeout_millis=4_000, session_recovery_millis=4_000))
    session, channel = harness.open(QUIET)
    for _ in range(3):
        channel.cut()
        harness.advance(3.9)
        channel = harness.bind(session, QUIET, recovery_from=0)
        harness.advance(60.0)
        assert not is_over(session)


def test_a_session_ends_with_48_after_its_longest_duration() -> None:
    harness = Harness(SessionLimits(max_session_duration_minutes=1))
    session, channel = harness.open(QUIET)
    harness.advance(59.999)
    assert not is_over(session)
    harness.advance(0.001)
    assert channel.take()[-1] == "END,48,The maximum session duration has been reached"
    assert is_over(session)


def test_the_longest_duration_counts_for_an_unbound_session_too() -> None:
    harness = Harness(SessionLimits(max_session_duration_minutes=0.05, session_timeout_millis=60_000))
    session, _ = harness.open(QUIET)
    session.rebind()
    harness.advance(3.0)
    with pytest.raises(Refusal) as caught:
        harness.kernel.find_session(session.id)
    assert caught.value.reason is Reason.ENDED_SESSION


def test_a_streaming_connection_is_asked_to_bind_again_after_its_longest_time() -> None:
    harness = Harness(SessionLimits(max_streaming_millis=3_000))
    session, channel = harness.open(QUIET)
    harness.advance(2.999)
    assert not channel.finished
    harness.advance(0.001)
    assert channel.take()[-1] == "LOOP,0"
    assert not is_over(session)


# -- the end ----------------------------------------------------------------------------------------------------------


def test_closing_ends_the_stream_with_cause_and_message_and_gives_up_all_items(harness: Harness) -> None:
    session, channel = harness.open()
    harness.subscribe(session, 1, "a b", "x")
    session.close(-5, "because, 100%", close_socket=False)
    assert channel.take()[-1] == "END,-5,because%2C 100%25"
    assert not channel.closes_socket
    assert harness.source.calls[2:] == [("unsubscribe", "a"), ("unsubscribe", "b")]
    harness.publish("a", x="1")
    assert harness.feed.unwanted_events == 1


def test_a_long_message_is_left_out_only_where_the_length_is_limited(harness: Harness) -> None:
    message = "m" * 36
    session, channel = harness.open(limit=10_000)
    session.close(0, message)
    assert channel.take()[-1] == "END,0,[Custom message skipped]"
    session, channel = harness.open()
    session.close(0, message)
    assert channel.take()[-1] == f"END,0,{message}"


@pytest.mark.parametrize("message", [",%\r\n|" * 7, "\u4f60" * 35, "\U0001f600" * 35], ids=["escapes", "han", "emoji"])
def test_the_last_line_fits_into_the_least_room_whatever_its_message_is_made_of(harness: Harness, message: str) -> None:
    session, channel = harness.open(limit=10_000)
    channel.limit = channel.size + TAIL_RESERVE
    session.close(0, message)
    assert channel.size <= channel.limit
    assert channel.take()[-1].startswith("END,0,")


def test_the_kernels_own_message_is_never_left_out() -> None:
    harness = Harness(SessionLimits(max_session_duration_minutes=1))
    _, channel = harness.open(QUIET, limit=10_000)
    harness.advance(60.0)
    assert channel.take()[-1] == "END,48,The maximum session duration has been reached"


def test_a_session_for_which_too_much_waits_is_closed_at_the_end_of_the_turn() -> None:
    harness = Harness(SessionLimits(max_unbound_notifications=10))
    session, channel = harness.open()
    channel.cut()
    harness.subscribe(session, 1, "a", "x", snapshot=True)
    for _ in range(4):
        session.subscriptions[1].reconfigure(None)
    harness.turn()
    assert not is_over(session)
    for _ in range(5):
        session.subscriptions[1].reconfigure(None)
    assert not is_over(session)
    harness.turn()
    assert is_over(session)
    with pytest.raises(Refusal) as caught:
        harness.kernel.find_session(session.id)
    assert caught.value.reason is Reason.ENDED_SESSION


def test_nothing_more_is_sent_to_a_closed_session(harness: Harness) -> None:
    session, channel = harness.open()
    harness.handler.answers_at_once = False
    harness.submit(session, "late", progressive=1)
    session.close(Cause.CLOSED_BY_SERVER, "over")
    harness.handler.answer("too late")
    harness.advance(60.0)
    assert channel.take()[-1] == "END,32,over"


# -- how its client is connected ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polling", "websocket", "expected"),
    [
        (False, True, "websocket"),
        (False, False, "http-streaming"),
        (True, True, "websocket-polling"),
        (True, False, "http-polling"),
    ],
)
def test_the_transport_is_that_of_the_connection_and_who_polls_has_one_between_polls(
    polling: bool, websocket: bool, expected: str
) -> None:
    harness = Harness()
    session = harness.kernel.open_session(harness.codec, harness.handler)
    assert session.transport == "none"
    channel = MemoryChannel()
    channel.websocket = websocket
    session.bind(channel, Binding(polling=polling, polling_millis=1_000, idle_millis=1_000), [])
    assert session.transport == expected
    session.rebind()
    assert session.channel is None
    assert session.transport == (expected if polling else "none")
