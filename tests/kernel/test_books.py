"""What is remembered and what is passed on: clearing, buffers, selectors, prefilters, events that come too late.

COMMAND mode is in `test_command`. Specification: General Concepts 3.3 (table 2) and 3.4.
"""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Event, ItemGrant, Value
from penstock.kernel.session import Binding
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
POLL = Binding(polling=True)
DATA = ("U", "EOS", "OV", "CS")


def data(channel: MemoryChannel) -> list[str]:
    return [line for line in channel.take() if line.split(",")[0] in DATA]


def burst(harness: Harness, values: str) -> None:
    for value in values:
        harness.publish("a", x=value)


# -- clearing ---------------------------------------------------------------------------------------------------------


def test_clearing_a_merge_item_makes_its_fields_null(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x y")
    harness.publish("a", x="1", y="2")
    harness.feed.clear_snapshot("a")
    harness.turn()
    assert data(channel) == ["U,1,1,1|2", "U,1,1,#|#"]
    harness.subscribe(session, 2, "a", "x y", snapshot=True)
    assert data(channel) == ["U,2,1,#|#"]
    harness.publish("a", y="3")
    assert data(channel) == ["U,1,1,|3", "U,2,1,|3"]


def test_clearing_a_distinct_item_is_told_and_leaves_no_history(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT)
    burst(harness, "12")
    harness.feed.clear_snapshot("a")
    burst(harness, "3")
    assert data(channel) == ["U,1,1,1", "U,1,1,2", "CS,1,1", "U,1,1,3"]
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT, snapshot=True)
    assert data(channel) == ["U,2,1,3", "EOS,2,1"]


def test_events_that_wait_when_a_distinct_item_is_cleared_are_dropped_unless_unfiltered(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, snapshot=True)
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT, unfiltered=True)
    channel.take()
    channel.congest()
    burst(harness, "12")
    harness.feed.clear_snapshot("a")
    burst(harness, "3")
    channel.relieve()
    harness.turn()
    assert data(channel) == ["EOS,1,1", "CS,1,1", "U,1,1,3", "U,2,1,1", "U,2,1,2", "CS,2,1", "U,2,1,3"]


def test_raw_clients_are_not_told_of_a_clearing(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    burst(harness, "1")
    harness.feed.clear_snapshot("a")
    harness.turn()
    assert data(channel) == ["U,1,1,1"]
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT, snapshot=True)
    assert data(channel) == ["EOS,2,1"]


def test_what_happened_before_the_mode_was_chosen_is_part_of_the_snapshot(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.subscribe(session, 2, "b", "x", Mode.RAW)
    for item in "ab":
        harness.publish(item, x="1")
        harness.publish(item, x="2")
    channel.take()
    harness.subscribe(session, 3, "a", "x", Mode.MERGE, snapshot=True)
    harness.subscribe(session, 4, "b", "x", Mode.DISTINCT, snapshot=True)
    assert data(channel) == ["U,3,1,2", "U,4,1,1", "U,4,1,2", "EOS,4,1"]
    assert harness.source.complaints == []


@pytest.mark.parametrize(("granted", "asked", "expected"), [(2, None, "34"), (2, 5, "34"), (4, 1, "4"), (4, 0, "")])
def test_the_length_of_a_distinct_snapshot_is_granted_per_item(
    harness: Harness, granted: int, asked: int | None, expected: str
) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", snapshot_length=granted),)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, granted=grant)
    burst(harness, "01234")
    channel.take()
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT, snapshot=True, snapshot_length=asked, granted=grant)
    assert data(channel) == [*[f"U,2,1,{value}" for value in expected], "EOS,2,1"]


@pytest.mark.parametrize(("granted", "asked", "expected"), [(2, None, "34"), (2, 5, "34"), (4, 1, "4"), (0, None, "")])
@pytest.mark.parametrize("others", [0, 3])
def test_the_length_of_a_distinct_snapshot_holds_for_those_who_come_before_its_end(
    harness: Harness, granted: int, asked: int | None, expected: str, others: int
) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", snapshot_length=granted),)
    for number in (1, 2):
        harness.subscribe(session, number, "a", "x", Mode.DISTINCT, snapshot=True, snapshot_length=asked, granted=grant)
        for value in range(others) if number == 1 else range(others, 5):
            harness.feed.update("a", {"x": str(value)}, snapshot=True)
    harness.publish("a", x="new")
    lines = data(channel)
    for number in (1, 2):
        own = [line for line in lines if line.split(",")[1] == str(number)]
        expectation = [*[f"U,{number},1,{value}" for value in expected], f"EOS,{number},1", f"U,{number},1,new"]
        assert own == expectation


# -- buffers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "unfiltered", "asked", "granted", "expected"),
    [
        (Mode.MERGE, False, None, None, ["U 5"]),
        (Mode.MERGE, False, 1, None, ["U 5"]),
        (Mode.MERGE, False, 2, None, ["U 4", "U 5"]),
        (Mode.MERGE, False, 2, 1, ["U 5"]),
        (Mode.MERGE, False, 0, None, ["U 2", "U 3", "U 4", "U 5"]),
        (Mode.MERGE, False, 0, 3, ["U 3", "U 4", "U 5"]),
        (Mode.MERGE, True, None, None, ["OV 1", "U 2", "U 3", "U 4", "U 5"]),
        (Mode.MERGE, True, 1, None, ["OV 1", "U 2", "U 3", "U 4", "U 5"]),
        (Mode.DISTINCT, False, None, None, ["U 2", "U 3", "U 4", "U 5"]),
        (Mode.DISTINCT, False, None, 3, ["U 3", "U 4", "U 5"]),
        (Mode.DISTINCT, False, 1, None, ["U 5"]),
        (Mode.DISTINCT, False, 100, None, ["U 2", "U 3", "U 4", "U 5"]),
        (Mode.DISTINCT, True, 1, 1, ["OV 1", "U 2", "U 3", "U 4", "U 5"]),
        (Mode.RAW, True, 1, 1, ["OV 1", "U 2", "U 3", "U 4", "U 5"]),
    ],
)
def test_a_buffer_keeps_the_latest_events(
    mode: Mode, unfiltered: bool, asked: int | None, granted: int | None, expected: list[str]
) -> None:
    harness = Harness(SessionLimits(max_buffer_size=4))
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", max_buffer_size=granted),)
    harness.subscribe(session, 1, "a", "x", mode, unfiltered=unfiltered, buffer_size=asked, granted=grant)
    channel.take()
    channel.congest()
    burst(harness, "12345")
    channel.relieve()
    harness.turn()
    assert [line.replace(",1,1,", " ") for line in data(channel)] == expected


def test_a_merge_buffer_does_not_repeat_what_the_client_has_when_the_states_between_were_dropped(
    harness: Harness,
) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", buffer_size=2)
    burst(harness, "1")
    channel.take()
    channel.congest()
    burst(harness, "212")
    channel.relieve()
    harness.turn()
    assert data(channel) == ["U,1,1,2"]


def test_a_merge_buffer_is_released_one_state_per_interval(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", buffer_size=2, max_frequency=1.0)
    burst(harness, "1234")
    assert data(channel) == ["U,1,1,1"]
    harness.advance(1.0)
    assert data(channel) == ["U,1,1,3"]
    harness.advance(1.0)
    assert data(channel) == ["U,1,1,4"]


def test_unfiltered_merge_tells_events_that_change_nothing(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", unfiltered=True)
    burst(harness, "11")
    assert data(channel) == ["U,1,1,1", "U,1,1,"]


def test_a_distinct_snapshot_is_not_bound_by_the_buffer_size(harness: Harness) -> None:
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "a", "x", Mode.DISTINCT)
    burst(harness, "123")
    session, _ = harness.open(POLL)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, snapshot=True, buffer_size=1)
    burst(harness, "45")
    assert data(harness.bind(session, POLL)) == ["U,1,1,1", "U,1,1,2", "U,1,1,3", "EOS,1,1", "U,1,1,5"]


def test_items_that_wait_do_not_count_as_notifications_that_wait() -> None:
    harness = Harness(SessionLimits(max_unbound_notifications=3))
    session, _ = harness.open(POLL)
    harness.subscribe(session, 1, "a b c d e", "x")
    for item in "abcde":
        harness.publish(item, x="1")
    assert not session.closed
    assert len(data(harness.bind(session, POLL))) == 5


def test_notifications_that_have_gone_with_one_poll_do_not_count_for_the_next() -> None:
    harness = Harness(SessionLimits(max_unbound_notifications=3))
    session, _ = harness.open(POLL)
    for number in range(1, 5):
        harness.subscribe(session, number, "a", "x")
        harness.bind(session, POLL)
    assert not session.closed


# -- grants -----------------------------------------------------------------------------------------------------------


def test_each_item_has_the_lower_of_the_asked_and_the_granted_frequency_and_the_highest_is_told(
    harness: Harness,
) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", max_frequency=1.0), ItemGrant("b", max_frequency=10.0))
    subscription = harness.subscribe(session, 1, "", "x", max_frequency=5.0, granted=grant)
    assert channel.take()[-1] == "CONF,1,5.0,filtered"
    for item in "ab":
        harness.publish(item, x="1")
        harness.publish(item, x="2")
    channel.take()
    harness.advance(0.2)
    assert data(channel) == ["U,1,2,2"]
    harness.advance(0.8)
    assert data(channel) == ["U,1,1,2"]
    subscription.reconfigure(None)
    harness.turn()
    assert channel.take() == ["CONF,1,10.0,filtered"]


@pytest.mark.parametrize(
    ("grant", "mode", "reason"),
    [
        (ItemGrant("a", max_frequency=5.0), Mode.MERGE, Reason.UNFILTERED_LIMITED),
        (ItemGrant("a", max_frequency=5.0), Mode.COMMAND, Reason.UNFILTERED_LIMITED),
        (ItemGrant("a", prefilter_frequency=5.0), Mode.MERGE, Reason.UNFILTERED_PREFILTERED),
        (ItemGrant("a", prefilter_frequency=5.0), Mode.DISTINCT, Reason.UNFILTERED_PREFILTERED),
    ],
)
def test_an_item_that_is_limited_cannot_be_unfiltered(
    harness: Harness, grant: ItemGrant, mode: Mode, reason: Reason
) -> None:
    session, channel = harness.open(QUIET)
    channel.take()
    with pytest.raises(Refusal) as caught:
        harness.subscribe(session, 1, "a", "key command", mode, unfiltered=True, granted=(grant,))
    assert caught.value.reason is reason
    assert channel.take() == []
    harness.subscribe(session, 1, "a", "key command", Mode.RAW, granted=(grant,))


# -- selectors --------------------------------------------------------------------------------------------------------


def is_loud(event: Event) -> bool:
    return event.get("loud") == "1"


@pytest.mark.parametrize("mode", list(Mode))
def test_a_selector_lets_some_events_pass_for_its_subscription_only(harness: Harness, mode: Mode) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "key command", mode, selector=is_loud)
    harness.subscribe(session, 2, "a", "key command", mode)
    channel.take()
    for key, loud in (("k", "0"), ("l", "1"), ("m", "0")):
        harness.publish("a", key=key, command="ADD", loud=loud)
    lines = data(channel)
    assert [line for line in lines if line.startswith("U,1")] == ["U,1,1,l|ADD"]
    assert len([line for line in lines if line.startswith("U,2")]) == 3


def test_a_selector_chooses_from_the_snapshot_too(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "d", "loud", Mode.DISTINCT)
    harness.subscribe(session, 2, "c", "key command", Mode.COMMAND)
    for key, loud in (("k", "0"), ("l", "1")):
        harness.publish("d", x=key, loud=loud)
        harness.publish("c", key=key, command="ADD", loud=loud)
    channel.take()
    harness.subscribe(session, 3, "d", "x", Mode.DISTINCT, snapshot=True, selector=is_loud)
    harness.subscribe(session, 4, "c", "key command", Mode.COMMAND, snapshot=True, selector=is_loud)
    assert data(channel) == ["U,3,1,l", "EOS,3,1", "U,4,1,l|ADD", "EOS,4,1"]


def test_a_newcomer_does_not_keep_others_from_a_change_that_the_selector_withheld(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", selector=is_loud)
    harness.publish("a", x="1", loud="1")
    harness.publish("a", x="2", loud="0")
    assert data(channel) == ["U,1,1,1"]
    harness.subscribe(session, 2, "a", "x", snapshot=True, selector=is_loud)
    assert data(channel) == ["U,2,1,2"]
    harness.publish("a", x="2", loud="1")
    assert data(channel) == ["U,1,1,2"]


def test_what_the_selector_withheld_reaches_one_that_waits_for_its_interval_too(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", selector=is_loud, max_frequency=1.0)
    harness.publish("a", x="1", loud="1")
    harness.publish("a", x="2", loud="0")
    harness.subscribe(session, 2, "a", "x", snapshot=True, selector=is_loud)
    assert data(channel) == ["U,1,1,1", "U,2,1,2"]
    harness.publish("a", x="2", loud="1")
    harness.advance(1.0)
    assert data(channel) == ["U,1,1,2"]


# -- the prefilter ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"), [(Mode.MERGE, ["U,1,1,2|3"]), (Mode.DISTINCT, ["U,1,1,#|3"])], ids=["MERGE", "DISTINCT"]
)
def test_a_prefilter_thins_out_the_events_for_all(harness: Harness, mode: Mode, expected: list[str]) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", prefilter_frequency=2.0),)
    harness.subscribe(session, 1, "a", "x y", mode, granted=grant)
    harness.subscribe(session, 2, "a", "x", Mode.RAW, granted=grant)
    harness.publish("a", x="1", y="1")
    assert sorted(data(channel)) == ["U,1,1,1|1", "U,2,1,1"]
    harness.publish("a", x="2")
    harness.publish("a", y="3")
    assert data(channel) == ["U,2,1,2", "U,2,1,#"]
    harness.advance(0.499)
    assert data(channel) == []
    harness.advance(0.001)
    assert data(channel) == expected
    harness.publish("a", x="5")
    channel.take()
    harness.advance(0.5)
    assert len(data(channel)) == 1
    harness.advance(0.5)
    harness.publish("a", x="6")
    now = data(channel)
    assert "U,2,1,6" in now
    assert any(line.startswith("U,1,1,6|") for line in now), "the gate has been open for a while"


def test_a_prefilter_leaves_snapshots_and_commands_alone(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", prefilter_frequency=0.1),)
    harness.subscribe(session, 1, "a", "key command", Mode.COMMAND, granted=grant)
    grant = (ItemGrant("d", prefilter_frequency=0.1),)
    harness.subscribe(session, 2, "d", "x", Mode.DISTINCT, snapshot=True, granted=grant)
    channel.take()
    for key in "kl":
        harness.publish("a", key=key, command="ADD")
        harness.feed.update("d", {"x": key}, snapshot=True)
    harness.feed.end_of_snapshot("d")
    harness.turn()
    assert len(data(channel)) == 5


def test_what_a_prefilter_holds_goes_with_a_clearing_and_with_the_last_subscriber(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    grant = (ItemGrant("a", prefilter_frequency=1.0),)
    harness.subscribe(session, 1, "a", "x", granted=grant)
    burst(harness, "12")
    harness.feed.clear_snapshot("a")
    harness.advance(1.0)
    assert data(channel) == ["U,1,1,1", "U,1,1,#"]
    burst(harness, "34")
    session.unsubscribe(1)
    harness.subscribe(session, 1, "a", "x", granted=grant)
    channel.take()
    harness.advance(5.0)
    assert data(channel) == []


# -- events that come too late, or are none ---------------------------------------------------------------------------


def test_events_for_a_former_subscription_are_told_by_its_serial(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, snapshot=True)
    former = harness.feed.items["a"].serial
    session.unsubscribe(1)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, snapshot=True)
    present = harness.feed.items["a"].serial
    assert present != former
    channel.take()
    harness.feed.update("a", {"x": "late"}, serial=former)
    harness.feed.end_of_snapshot("a", serial=former)
    harness.feed.clear_snapshot("a", serial=former)
    harness.feed.declare_differences("a", {"x": "T"}, serial=former)
    assert harness.feed.unwanted_events == 4
    harness.feed.update("a", {"x": "new"}, snapshot=True, serial=present)
    harness.feed.end_of_snapshot("a", serial=present)
    harness.turn()
    assert data(channel) == ["U,1,1,new", "EOS,1,1"]


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (2.5, "2.5"), (True, "true"), (False, "false"), (None, "#"), ("", "$")]
)
def test_numbers_are_written_out(harness: Harness, value: object, text: str) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    event: dict[str, Value] = {"x": value}  # type: ignore[dict-item]
    harness.feed.update("a", event)
    harness.turn()
    assert data(channel) == [f"U,1,1,{text}"]


def test_an_event_with_anything_else_is_dropped_and_the_adapter_told(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    channel.take()
    harness.feed.update("a", {"x": b"bytes"})  # type: ignore[dict-item]
    harness.feed.update("a", {"x": 1, 2: "x"})  # type: ignore[dict-item]
    harness.turn()
    assert channel.take() == []
    assert harness.source.complaints == [
        ("a", "the value of field 'x' is a bytes, not text"),
        ("a", "field name 2 is not text"),
    ]
    assert harness.feed.bad_events == 2
