"""Silent subscriptions, which gather until they are activated, and sessions that do not outlive their connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.kernel import EndedSession
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Admission, Grant, ItemGrant
from penstock.kernel.session import Binding, Session
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.testing import Harness, MemoryChannel
from penstock.wire.text6.codec import Text6Codec

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
ROW = "key command x"


@pytest.fixture
def harness() -> Harness:
    return older(Harness())


def older(harness: Harness) -> Harness:
    """Sessions of the protocol that has silent subscriptions."""
    harness.codec = Text6Codec()
    return harness


def opened(harness: Harness, max_bandwidth: float | None = None) -> tuple[Session, MemoryChannel]:
    session, channel = harness.open(QUIET, max_bandwidth=max_bandwidth)
    session.tells_constraints = False
    channel.take()
    return session, channel


def silent(
    harness: Harness,
    session: Session,
    number: int = 1,
    mode: Mode = Mode.MERGE,
    fields: str = "x",
    items: str = "a",
    snapshot: bool = False,
    max_frequency: float | None = None,
    unfiltered: bool = False,
    buffer_size: int | None = None,
) -> Subscription:
    session.subscribe(
        SubscriptionRequest(
            number=number,
            feed=harness.feed,
            grant=Grant(tuple(map(ItemGrant, items.split())), tuple(fields.split()), None),
            mode=mode,
            snapshot=snapshot,
            max_frequency=max_frequency,
            unfiltered=unfiltered,
            buffer_size=buffer_size,
            silent=True,
        )
    )
    harness.turn()
    return session.subscription(number)


def activate(harness: Harness, subscription: Subscription) -> None:
    subscription.activate()
    harness.turn()


@pytest.mark.parametrize(
    ("mode", "unfiltered", "buffer_size", "expected"),
    [
        pytest.param(Mode.RAW, False, None, ["1,1|1", "1,1|2", "1,1|3"], id="RAW"),
        pytest.param(Mode.MERGE, False, None, ["1,1|3"], id="MERGE"),
        pytest.param(Mode.MERGE, False, 2, ["1,1|2", "1,1|3"], id="MERGE, buffer of 2"),
        pytest.param(Mode.MERGE, False, 0, ["1,1|1", "1,1|2", "1,1|3"], id="MERGE, unlimited buffer"),
        pytest.param(Mode.MERGE, True, None, ["1,1|1", "1,1|2", "1,1|3"], id="MERGE, unfiltered"),
        pytest.param(Mode.DISTINCT, False, None, ["1,1|1", "1,1|2", "1,1|3"], id="DISTINCT"),
        pytest.param(Mode.DISTINCT, False, 1, ["1,1|3"], id="DISTINCT, buffer of 1"),
        pytest.param(Mode.DISTINCT, True, None, ["1,1|1", "1,1|2", "1,1|3"], id="DISTINCT, unfiltered"),
    ],
)
def test_nothing_is_sent_before_activation_and_what_the_mode_keeps_after_it(
    harness: Harness, mode: Mode, unfiltered: bool, buffer_size: int | None, expected: list[str]
) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=mode, unfiltered=unfiltered, buffer_size=buffer_size)
    for value in "123":
        harness.publish("a", x=value)
    harness.advance(10)
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == expected
    harness.publish("a", x="4")
    assert channel.take() == ["1,1|4"]


@pytest.mark.parametrize(
    ("unfiltered", "expected"),
    [
        pytest.param(False, ["1,1|k|ADD|2"], id="filtered"),
        pytest.param(True, ["1,1|k|ADD|1", "1,1|l||", "1,1|k|UPDATE|2", "1,1|l|DELETE|#"], id="unfiltered"),
    ],
)
def test_command_mode_gathers_rows(harness: Harness, unfiltered: bool, expected: list[str]) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=Mode.COMMAND, fields=ROW, unfiltered=unfiltered)
    harness.publish("a", key="k", command="ADD", x="1")
    harness.publish("a", key="l", command="ADD", x="1")
    harness.publish("a", key="k", command="UPDATE", x="2")
    harness.publish("a", key="l", command="DELETE")
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == expected
    harness.publish("a", key="k", command="DELETE")
    assert len(channel.take()) == 1


def test_activation_without_anything_gathered_sends_nothing_and_opens_the_way(harness: Harness) -> None:
    session, channel = opened(harness)
    for number, mode in enumerate((Mode.RAW, Mode.MERGE, Mode.DISTINCT), start=1):
        subscription = silent(harness, session, number, mode, items=mode.value)
        activate(harness, subscription)
        activate(harness, subscription)
        assert channel.take() == []
        harness.publish(mode.value, x="1")
        assert channel.take() == [f"{number},1|1"]


def test_a_snapshot_and_its_end_are_gathered_too(harness: Harness) -> None:
    first, _ = opened(harness)
    harness.subscribe(first, 1, "a", "x", Mode.DISTINCT)
    harness.subscribe(first, 2, "b", ROW, Mode.COMMAND)
    harness.publish("a", x="1")
    harness.publish("b", key="k", command="ADD", x="1")
    session, channel = opened(harness)
    tables = [
        silent(harness, session, 1, Mode.DISTINCT, snapshot=True),
        silent(harness, session, 2, Mode.COMMAND, ROW, "b", snapshot=True),
    ]
    assert channel.take() == []
    activate(harness, tables[1])
    assert channel.take() == ["2,1|k|ADD|1", "2,1,EOS"]
    activate(harness, tables[0])
    assert channel.take() == ["1,1|1", "1,1,EOS"]


@pytest.mark.parametrize(
    ("mode", "unfiltered"),
    [
        pytest.param(Mode.DISTINCT, False, id="DISTINCT"),
        pytest.param(Mode.COMMAND, False, id="COMMAND"),
        pytest.param(Mode.COMMAND, True, id="COMMAND, unfiltered"),
    ],
)
def test_the_end_of_an_empty_snapshot_waits_for_the_activation(harness: Harness, mode: Mode, unfiltered: bool) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=mode, fields=ROW, snapshot=True, unfiltered=unfiltered)
    harness.feed.end_of_snapshot("a")
    harness.turn()
    assert channel.take() == []
    harness.publish("a", key="k", command="ADD", x="1")
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == ["1,1,EOS", "1,1|k|ADD|1"]


def test_a_merge_snapshot_is_merged_with_what_follows(harness: Harness) -> None:
    harness.source.state["a"] = {"x": "1", "y": "1"}
    session, channel = opened(harness)
    subscription = silent(harness, session, fields="x y", snapshot=True)
    harness.publish("a", x="2")
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == ["1,1|2|1"]


def test_other_subscriptions_are_not_held_up(harness: Harness) -> None:
    session, channel = opened(harness)
    silent(harness, session, mode=Mode.RAW)
    harness.subscribe(session, 2, "a", "x", Mode.RAW)
    for value in "12":
        harness.publish("a", x=value)
        assert channel.take() == [f"2,1|{value}"]


def test_activation_while_the_connection_is_congested_waits_for_its_relief(harness: Harness) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=Mode.RAW)
    harness.publish("a", x="1")
    channel.congest()
    harness.publish("a", x="2")
    activate(harness, subscription)
    harness.publish("a", x="3")
    assert channel.take() == []
    channel.relieve()
    harness.turn()
    assert channel.take() == ["1,1|1", "1,1|2", "1,1|3"]


def test_the_relief_of_a_connection_does_not_wake_silent_subscriptions(harness: Harness) -> None:
    session, channel = opened(harness)
    tables = [
        silent(harness, session, 1, Mode.RAW),
        silent(harness, session, 2, Mode.MERGE),
        silent(harness, session, 3, Mode.COMMAND, ROW, "b"),
    ]
    channel.congest()
    harness.publish("a", x="1")
    harness.publish("b", key="k", command="ADD", x="1")
    channel.relieve()
    harness.turn()
    harness.publish("a", x="2")
    assert channel.take() == []
    for table in tables:
        activate(harness, table)
    assert channel.take() == ["1,1|1", "1,1|2", "2,1|2", "3,1|k|ADD|1"]


def test_a_silent_subscription_stays_so_across_bindings_and_may_be_activated_between_them(harness: Harness) -> None:
    session, channel = opened(harness)
    first = silent(harness, session, 1, Mode.RAW)
    second = silent(harness, session, 2, Mode.MERGE)
    harness.publish("a", x="1")
    session.rebind()
    assert channel.take() == ["LOOP"]
    harness.publish("a", x="2")
    channel = harness.bind(session, QUIET)
    assert channel.take()[1:] == []
    session.rebind()
    activate(harness, first)
    channel = harness.bind(session, QUIET)
    assert channel.take()[1:] == ["1,1|1", "1,1|2"]
    activate(harness, second)
    assert channel.take() == ["2,1|2"]


def test_a_silent_subscription_does_not_end_a_poll(harness: Harness) -> None:
    session, _ = opened(harness)
    silent(harness, session, mode=Mode.RAW)
    session.rebind()
    poll = harness.bind(session, Binding(polling=True, idle_millis=1000))
    harness.publish("a", x="1")
    harness.advance(0.9)
    assert poll.take()[1:] == []
    harness.advance(0.1)
    assert poll.take() == ["LOOP"]


def test_a_frequency_limit_begins_with_the_first_update_sent(harness: Harness) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=Mode.DISTINCT, max_frequency=1.0)
    for value in "12":
        harness.publish("a", x=value)
    harness.advance(5)
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == ["1,1|1"]
    harness.advance(0.999)
    assert channel.take() == []
    harness.advance(0.001)
    assert channel.take() == ["1,1|2"]


def test_a_new_frequency_limit_does_not_break_the_silence(harness: Harness) -> None:
    session, channel = opened(harness)
    merge = silent(harness, session, 1)
    rows = silent(harness, session, 2, Mode.COMMAND, ROW, "b")
    harness.publish("a", x="1")
    harness.publish("b", key="k", command="ADD", x="1")
    for subscription in (merge, rows):
        subscription.reconfigure(2.0)
        subscription.reconfigure(None)
        subscription.reconfigure(0.5)
    harness.advance(5)
    harness.publish("a", x="2")
    harness.publish("b", key="k", command="UPDATE", x="2")
    harness.advance(5)
    assert channel.take() == []
    activate(harness, merge)
    activate(harness, rows)
    assert channel.take() == ["1,1|2", "2,1|k|ADD|2"]


def test_intervals_that_begin_anew_with_a_binding_do_not_break_the_silence(harness: Harness) -> None:
    session, _ = opened(harness)
    subscription = silent(harness, session, max_frequency=1.0)
    harness.subscribe(session, 2, "b", "x", Mode.RAW)
    session.rebind()
    harness.publish("a", x="1")
    harness.publish("b", x="x" * 100)
    channel = harness.bind(session, QUIET, limit=160)
    harness.publish("b", x="y" * 100)
    assert channel.take()[-1] == "LOOP"
    channel = harness.bind(session, QUIET)
    harness.advance(3)
    assert channel.take()[1:] == ["2,1|" + "y" * 100]
    activate(harness, subscription)
    harness.advance(1)
    assert channel.take() == ["1,1|1"]


def test_a_bandwidth_limit_holds_for_what_was_gathered(harness: Harness) -> None:
    # 0.8 kbit/s are 100 bytes a second.
    session, channel = opened(harness, max_bandwidth=0.8)
    subscription = silent(harness, session, mode=Mode.RAW)
    for letter in "abc":
        harness.publish("a", x=letter * 60)
    harness.advance(10)
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == ["1,1|" + "a" * 60]
    harness.advance(0.5)
    assert channel.take() == []
    harness.advance(2)
    assert channel.take() == ["1,1|" + "b" * 60, "1,1|" + "c" * 60]


def test_a_full_buffer_drops_the_oldest_and_tells_losses_after_activation() -> None:
    harness = older(Harness(SessionLimits(max_buffer_size=2)))
    session, channel = opened(harness)
    raw = silent(harness, session, 1, Mode.RAW)
    distinct = silent(harness, session, 2, Mode.DISTINCT)
    for value in "12345":
        harness.publish("a", x=value)
    assert channel.take() == []
    activate(harness, raw)
    assert channel.take() == ["1,1,OV3", "1,1|4", "1,1|5"]
    activate(harness, distinct)
    assert channel.take() == ["2,1|4", "2,1|5"]


def test_what_is_gathered_counts_against_the_bytes_of_the_session() -> None:
    limit = 65_536
    harness = older(Harness(SessionLimits(max_pending_bytes=limit)))
    session, channel = opened(harness)
    raw = silent(harness, session, 1, Mode.RAW)
    rows = silent(harness, session, 2, Mode.COMMAND, ROW, "b")
    for number in range(200):
        harness.publish("a", x=f"{number:03}" * 300)
        harness.publish("b", key=str(number), command="ADD", x=f"{number:03}" * 300)
    assert session.held <= limit
    activate(harness, raw)
    lines = channel.take()
    lost = int(lines[0].removeprefix("1,1,OV"))
    assert lost + len(lines[1:]) == 200
    assert lines[-1] == "1,1|" + "199" * 300
    activate(harness, rows)
    lines = channel.take()
    assert lines[0].startswith("2,1,OV")
    assert session.held == 0


@pytest.mark.parametrize("mode", list(Mode))
def test_an_end_before_activation_leaves_nothing_behind(harness: Harness, mode: Mode) -> None:
    session, channel = opened(harness)
    for number in (1, 2):
        silent(harness, session, number, mode, ROW)
    for value in "12":
        harness.publish("a", key="k", command="ADD" if value == "1" else "UPDATE", x=value)
    session.unsubscribe(1)
    harness.turn()
    session.close(31, "")
    harness.advance(10)
    assert channel.take() == ["END 31"]
    assert session.held == 0
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]


def test_the_number_of_a_silent_subscription_that_ended_is_free(harness: Harness) -> None:
    session, channel = opened(harness)
    silent(harness, session, mode=Mode.RAW)
    harness.publish("a", x="1")
    session.unsubscribe(1)
    with pytest.raises(Refusal) as caught:
        session.subscription(1)
    assert caught.value.reason is Reason.UNKNOWN_SUBSCRIPTION
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.publish("a", x="2")
    assert channel.take() == ["1,1|2"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(Mode.MERGE, ["1,1|#|#|#"], id="MERGE: nulls"),
        pytest.param(Mode.DISTINCT, ["1,1|k|ADD|1"], id="DISTINCT: nothing is taken back"),
        pytest.param(Mode.COMMAND, [], id="COMMAND: the client never had the row"),
    ],
)
def test_a_snapshot_cleared_in_silence(harness: Harness, mode: Mode, expected: list[str]) -> None:
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=mode, fields=ROW)
    harness.publish("a", key="k", command="ADD", x="1")
    harness.feed.clear_snapshot("a")
    harness.turn()
    assert channel.take() == []
    activate(harness, subscription)
    assert channel.take() == expected


@given(
    st.sampled_from([Mode.RAW, Mode.MERGE, Mode.DISTINCT]),
    st.lists(st.sampled_from("123"), max_size=8),
    st.lists(st.sampled_from("123"), max_size=8),
    st.booleans(),
)
def test_a_silent_subscription_is_one_that_was_unbound_until_its_activation(
    mode: Mode, before: list[str], after: list[str], congested: bool
) -> None:
    """Whatever comes, it ends up with the lines of an ordinary one whose session was bound only then."""
    harness = older(Harness())
    session, channel = opened(harness)
    subscription = silent(harness, session, mode=mode)
    other, first = opened(harness)
    harness.subscribe(other, 1, "a", "x", mode)
    other.rebind()
    assert first.take() == ["LOOP"]
    if congested:
        channel.congest()
    for value in before:
        harness.publish("a", x=value)
    channel.relieve()
    harness.turn()
    assert channel.take() == []
    activate(harness, subscription)
    second = harness.bind(other, QUIET)
    for value in after:
        harness.publish("a", x=value)
    assert channel.take() == second.take()[1:]


# -- sessions that do not outlive their connection ---------------------------------------------------------------------


def unrecoverable(harness: Harness) -> tuple[Session, MemoryChannel]:
    session = harness.kernel.open_session(harness.codec, harness.handler, recoverable=False)
    session.adapter_set = "TEST"
    session.tells_constraints = False
    session.admit(Admission(), None)
    channel = harness.bind(session, QUIET)
    channel.take()
    return session, channel


def test_an_unrecoverable_session_is_closed_with_its_connection(harness: Harness) -> None:
    session, channel = unrecoverable(harness)
    harness.subscribe(session, 1, "a", "x")
    channel.cut()
    harness.turn()
    assert session.closed
    assert harness.kernel.sessions == {}
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]
    with pytest.raises(Refusal) as caught:
        harness.kernel.find_session(session.id)
    assert caught.value.reason is Reason.UNKNOWN_SESSION
    harness.publish("a", x="1")
    harness.advance(60)


def test_a_recoverable_session_is_kept(harness: Harness) -> None:
    session, channel = opened(harness)
    channel.cut()
    harness.turn()
    assert not session.closed
    assert harness.kernel.find_session(session.id) is session


def test_an_unrecoverable_session_outlives_a_connection_that_ends_with_loop(harness: Harness) -> None:
    session, channel = unrecoverable(harness)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    session.rebind()
    assert channel.take() == ["LOOP"]
    harness.publish("a", x="1")
    again = harness.bind(session, QUIET)
    assert again.take()[1:] == ["1,1|1"]
    session.rebind()
    harness.advance(60)
    assert session.closed


def test_an_unrecoverable_session_keeps_nothing_that_was_sent(harness: Harness) -> None:
    session, _ = unrecoverable(harness)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    for value in "123":
        harness.publish("a", x=value)
    session.rebind()
    with pytest.raises(Refusal) as caught:
        harness.bind(session, QUIET, recovery_from=1)
    assert caught.value.reason is Reason.RECOVERY


def test_an_unrecoverable_session_closed_while_unbound_says_why(harness: Harness) -> None:
    session, _ = unrecoverable(harness)
    session.rebind()
    session.close(Cause.DESTROYED_BY_CLIENT, "over")
    with pytest.raises(EndedSession) as caught:
        harness.kernel.find_session(session.id)
    assert caught.value.cause == Cause.DESTROYED_BY_CLIENT
