"""Items come and go with their subscribers; modes, snapshots and their end. TLCP chapter 3, "Snapshot vs Real-Time"."""

from __future__ import annotations

import pytest

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.follower import Follower
from penstock.kernel.item import Item, Mode
from penstock.kernel.ports import DISTINCT_HISTORY, CheckedEvent, Event, ItemGrant
from penstock.kernel.session import Binding
from penstock.testing import Harness

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def data(lines: list[str]) -> list[str]:
    return [line for line in lines if line.split(",")[0] in ("U", "EOS", "OV", "UNSUB")]


# -- on demand --------------------------------------------------------------------------------------------------------


def test_the_adapter_is_asked_for_the_first_subscriber_and_told_of_the_last(harness: Harness) -> None:
    one, _ = harness.open(QUIET)
    other, _ = harness.open(QUIET)
    harness.subscribe(one, 1, "a", "x")
    harness.subscribe(other, 1, "a", "y")
    harness.subscribe(other, 2, "a", "x", Mode.RAW)
    assert harness.source.calls == [("subscribe", "a")]
    one.unsubscribe(1)
    other.unsubscribe(2)
    assert harness.source.calls == [("subscribe", "a")]
    other.unsubscribe(1)
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]
    harness.publish("a", x="late")
    assert harness.feed.unwanted_events == 1


def test_an_item_that_stands_twice_in_a_group_is_asked_for_once_and_updates_both(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a a", "x")
    assert harness.source.calls == [("subscribe", "a")]
    harness.publish("a", x="1")
    assert data(channel.take()) == ["U,1,1,1", "U,1,2,1"]
    session.unsubscribe(1)
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]


def test_an_item_starts_afresh_when_it_is_subscribed_again(harness: Harness) -> None:
    harness.source.snapshots = False
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", snapshot=True)
    harness.publish("a", x="old")
    session.unsubscribe(1)
    harness.turn()
    channel.take()
    harness.subscribe(session, 2, "a", "x", snapshot=True)
    assert data(channel.take()) == []
    harness.subscribe(session, 3, "b", "x", Mode.DISTINCT)
    session.unsubscribe(3)
    harness.subscribe(session, 3, "b", "x", Mode.MERGE)


# -- MERGE ------------------------------------------------------------------------------------------------------------


def test_the_second_subscriber_gets_the_snapshot_without_the_adapter_being_asked(harness: Harness) -> None:
    harness.source.state["a"] = {"x": "1", "y": "2"}
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "a", "x", snapshot=True)
    harness.publish("a", y="3")
    second, channel = harness.open(QUIET)
    harness.subscribe(second, 1, "a", "y x", snapshot=True)
    assert data(channel.take()) == ["U,1,1,3|1"]
    assert harness.source.calls == [("subscribe", "a")]


def test_without_a_snapshot_the_first_event_after_the_subscription_brings_all_fields(harness: Harness) -> None:
    harness.source.state["a"] = {"x": "1", "y": "2"}
    first, _ = harness.open(QUIET)
    harness.subscribe(first, 1, "a", "x y", snapshot=True)
    second, channel = harness.open(QUIET)
    harness.subscribe(second, 1, "a", "x y")
    assert data(channel.take()) == []
    harness.publish("a", y="3")
    assert data(channel.take()) == ["U,1,1,1|3"]


def test_the_adapters_snapshot_goes_only_to_those_who_want_one(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.subscribe(session, 2, "a", "x", snapshot=True)
    harness.subscribe(session, 3, "a", "x", Mode.RAW)
    channel.take()
    harness.feed.update("a", {"x": "initial"}, snapshot=True)
    harness.turn()
    assert data(channel.take()) == ["U,2,1,initial"]
    harness.publish("a", x="next")
    assert sorted(data(channel.take())) == ["U,1,1,next", "U,2,1,next", "U,3,1,next"]


def test_an_event_that_changes_no_subscribed_field_is_not_sent(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.publish("a", x="1")
    channel.take()
    harness.publish("a", x="1")
    harness.publish("a", y="2")
    assert channel.take() == []


def test_a_second_snapshot_event_is_an_ordinary_update(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.subscribe(session, 2, "a", "x", snapshot=True)
    channel.take()
    for value in "12":
        harness.feed.update("a", {"x": value}, snapshot=True)
    harness.turn()
    assert data(channel.take()) == ["U,2,1,1", "U,1,1,2", "U,2,1,2"]


def test_a_field_that_no_event_has_carried_is_null(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x nowhere y")
    harness.publish("a", x="1", y="")
    assert data(channel.take()) == ["U,1,1,1|#|$"]


def test_every_field_of_a_raw_event_stands_for_itself(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x y", Mode.RAW)
    harness.publish("a", x="1", y="2")
    harness.publish("a", x="1")
    harness.publish("a", x="1")
    assert data(channel.take()) == ["U,1,1,1|2", "U,1,1,|#", "U,1,1,|"]


# -- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [(Mode.MERGE, Mode.DISTINCT), (Mode.DISTINCT, Mode.MERGE), (Mode.COMMAND, Mode.MERGE), (Mode.MERGE, Mode.COMMAND)],
)
def test_a_mode_that_conflicts_with_the_items_own_is_refused_and_leaves_no_trace(
    harness: Harness, first: Mode, second: Mode
) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "b", "key command", first)
    channel.take()
    text = f"Item b is subscribed in {first.value} mode; {second.value} conflicts with it"
    with pytest.raises(Refusal, match=text) as caught:
        harness.subscribe(session, 2, "a b", "key command", second)
    assert caught.value.reason is Reason.MODE
    assert harness.source.calls == [("subscribe", "b")]
    assert channel.take() == []
    assert 2 not in session.subscriptions


def test_raw_goes_with_any_mode_and_binds_the_item_to_none(harness: Harness) -> None:
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.subscribe(session, 2, "a", "x", Mode.DISTINCT)
    harness.subscribe(session, 3, "a", "x", Mode.RAW)
    with pytest.raises(Refusal):
        harness.subscribe(session, 4, "a", "x", Mode.MERGE)


# -- DISTINCT ---------------------------------------------------------------------------------------------------------


def history(harness: Harness, count: int) -> None:
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT)
    for number in range(count):
        harness.publish("news", x=str(number))


def test_a_later_subscriber_gets_the_recent_events_then_the_end_of_the_snapshot(harness: Harness) -> None:
    history(harness, DISTINCT_HISTORY + 3)
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True)
    harness.publish("news", x="new")
    expected = [f"U,1,1,{number}" for number in range(3, DISTINCT_HISTORY + 3)]
    assert data(channel.take()) == [*expected, "EOS,1,1", "U,1,1,new"]


def test_the_snapshot_may_be_shorter_than_the_history(harness: Harness) -> None:
    history(harness, 5)
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True, snapshot_length=2)
    assert data(channel.take()) == ["U,1,1,3", "U,1,1,4", "EOS,1,1"]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("length", "expected"), [(0, []), (2, ["U,1,1,3", "U,1,1,4"]), (9, ["U,1,1,0", "U,1,1,1"])])
def test_the_first_subscriber_too_gets_no_more_of_the_snapshot_than_it_wants(
    harness: Harness, length: int, expected: list[str], ended: bool
) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True, snapshot_length=length)
    for number in range(5):
        harness.feed.update("news", {"x": str(number)}, snapshot=True)
    if ended:
        harness.feed.end_of_snapshot("news")
    harness.publish("news", x="new")
    lines = data(channel.take())
    assert lines[: len(expected)] == expected
    assert lines[min(length, 5) :] == ["EOS,1,1", "U,1,1,new"]


def test_a_subscriber_that_leaves_during_the_snapshot_is_not_sent_its_end(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True, snapshot_length=2)
    harness.subscribe(session, 2, "news", "x", Mode.DISTINCT)
    harness.feed.update("news", {"x": "1"}, snapshot=True)
    session.unsubscribe(1)
    harness.feed.end_of_snapshot("news")
    harness.turn()
    assert channel.take()[-1] == "UNSUB,1"


def test_without_a_snapshot_there_is_neither_history_nor_its_end(harness: Harness) -> None:
    history(harness, 5)
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT)
    harness.feed.end_of_snapshot("news")
    harness.turn()
    assert data(channel.take()) == []


def test_the_first_subscriber_hears_the_end_when_the_adapter_says_so(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True)
    assert data(channel.take()) == []
    harness.feed.update("news", {"x": "1"}, snapshot=True)
    harness.feed.update("news", {"x": "2"}, snapshot=True)
    harness.turn()
    # More may come than the snapshot may have: which are the last of them is not known yet.
    assert data(channel.take()) == []
    harness.feed.end_of_snapshot("news")
    harness.feed.end_of_snapshot("news")
    harness.turn()
    assert data(channel.take()) == ["U,1,1,1", "U,1,1,2", "EOS,1,1"]


def test_the_first_real_time_event_ends_a_snapshot_that_the_adapter_left_open(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True)
    harness.feed.update("news", {"x": "1"}, snapshot=True)
    harness.publish("news", x="2")
    assert data(channel.take()) == ["U,1,1,1", "EOS,1,1", "U,1,1,2"]


def test_an_adapter_without_snapshots_ends_them_at_once() -> None:
    harness = Harness(snapshots=False)
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True)
    assert data(channel.take()) == ["EOS,1,1"]


def test_the_end_of_the_snapshot_keeps_its_place_while_the_session_is_congested(harness: Harness) -> None:
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True)
    channel.take()
    channel.congest()
    harness.feed.update("news", {"x": "1"}, snapshot=True)
    harness.feed.end_of_snapshot("news")
    harness.publish("news", x="2")
    channel.relieve()
    harness.turn()
    assert data(channel.take()) == ["U,1,1,1", "EOS,1,1", "U,1,1,2"]


def test_the_snapshot_is_not_slowed_down_by_the_frequency_limit(harness: Harness) -> None:
    history(harness, 3)
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True, max_frequency=0.1)
    harness.publish("news", x="live")
    harness.publish("news", x="later")
    assert data(channel.take()) == ["U,1,1,0", "U,1,1,1", "U,1,1,2", "EOS,1,1", "U,1,1,live"]
    harness.subscribe(session, 2, "talk", "x", Mode.DISTINCT, snapshot=True, max_frequency=0.1)
    channel.take()
    for number in range(3):
        harness.feed.update("talk", {"x": str(number)}, snapshot=True)
    harness.feed.end_of_snapshot("talk")
    harness.turn()
    assert data(channel.take()) == ["U,2,1,0", "U,2,1,1", "U,2,1,2", "EOS,2,1"]


def test_a_snapshot_held_by_congestion_is_not_slowed_down_either_and_survives_an_overflow_with_its_end() -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "news", "x", Mode.DISTINCT, snapshot=True, max_frequency=0.1)
    channel.take()
    channel.congest()
    for number in range(3):
        harness.feed.update("news", {"x": str(number)}, snapshot=True)
    harness.feed.end_of_snapshot("news")
    for number in range(3, 5 + session.limits.max_buffer_size):
        harness.publish("news", x=str(number))
    channel.relieve()
    harness.turn()
    lines = data(channel.take())
    assert lines == ["U,1,1,0", "U,1,1,1", "U,1,1,2", "EOS,1,1", "U,1,1,5"]


# -- for those who hand an item on to other processes ------------------------------------------------------------------


class _Tap(Follower):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        self.told.append(dict(event))

    def repaired(self, event: Event, snapshot: bool) -> None:
        self.told.append(("repaired", dict(event)))

    def clear(self) -> None:
        self.told.append("clear")

    def end_of_snapshot(self) -> None:
        self.told.append("end")


def tapped(harness: Harness, mode: Mode) -> tuple[Item, _Tap]:
    item, tap = harness.feed.kept_item("a"), _Tap()
    item.join(Mode.RAW, tap)
    item.mode = None if mode is Mode.RAW else mode
    harness.feed.keep(item, mode)
    return item, tap


def test_whoever_only_keeps_an_item_is_no_audience() -> None:
    harness = Harness(snapshots=False)
    harness.feed.pin("a")
    item = harness.feed.items["a"]
    assert (item.subscribers, item.audience) == (1, 0)
    session, _ = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    assert (item.subscribers, item.audience) == (2, 1)
    session.unsubscribe(1)
    assert (item.subscribers, item.audience) == (1, 0)


def test_who_follows_raw_events_is_told_of_clears_and_repairs() -> None:
    harness = Harness(snapshots=False)
    item, tap = tapped(harness, Mode.COMMAND)
    harness.publish("a", key="k", command="ADD", x="1")
    harness.feed.repair(item, [CheckedEvent({"key": "l", "command": "ADD"})], complete=True)
    harness.feed.repair(item, [], complete=True)
    harness.feed.clear_snapshot("a")
    assert tap.told == [
        {"key": "k", "command": "ADD", "x": "1"},
        ("repaired", {"key": "k", "command": "DELETE"}),
        ("repaired", {"key": "l", "command": "ADD"}),
        "clear",
        "clear",
    ]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (Mode.MERGE, [{"x": "1", "y": "1"}, {"x": "2", "y": None}]),
        (Mode.DISTINCT, [{"x": "1", "y": "1"}, {"x": "2"}]),
        (Mode.RAW, [{"x": "1", "y": "1"}, {"x": "2"}]),
    ],
)
def test_who_follows_raw_events_is_told_what_an_item_shows_that_follows_another(mode: Mode, told: list[Event]) -> None:
    item, tap = tapped(Harness(snapshots=False), mode)
    item.show(CheckedEvent({"x": "1", "y": "1"}), False)
    item.show(CheckedEvent({"x": "2"}), False)
    assert tap.told == told


def test_a_repair_is_not_told_as_long_as_no_mode_is_known() -> None:
    harness = Harness(snapshots=False)
    item, tap = tapped(harness, Mode.RAW)
    harness.feed.repair(item, [CheckedEvent({"x": "1"})], complete=True)
    assert tap.told == []


def test_a_picture_is_what_a_newcomer_would_be_given() -> None:
    harness = Harness(snapshots=False)
    for mode, wanted in (
        (Mode.MERGE, [{"x": "2", "y": "1", "key": "k", "command": "UPDATE"}]),
        (
            Mode.DISTINCT,
            [
                {"x": "1", "y": "1", "key": "k", "command": "ADD"},
                {"x": "2", "key": "k", "command": "UPDATE"},
            ],
        ),
        (Mode.COMMAND, [{"x": "2", "y": "1", "key": "k", "command": "ADD"}]),
        (Mode.RAW, []),
    ):
        item, tap = tapped(harness, mode)
        harness.publish("a", x="1", y="1", key="k", command="ADD")
        harness.publish("a", x="2", key="k", command="UPDATE")
        harness.feed.declare_differences("a", {"x": "T"})
        assert item.picture(mode) == (wanted, False, {"x": "T"})
        item.leave(tap)
        harness.feed.stop_keeping(item)


def test_a_picture_has_what_the_prefilter_holds_back() -> None:
    harness = Harness(snapshots=False)
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x", granted=(ItemGrant("a", prefilter_frequency=1.0),))
    harness.publish("a", x="1", y="1")
    harness.publish("a", x="2")
    assert harness.feed.items["a"].picture(Mode.MERGE)[0] == [{"x": "2", "y": "1"}]


def test_only_clients_that_are_to_have_every_event_are_told_of_those_that_never_came() -> None:
    harness = Harness(snapshots=False)
    session, channel = harness.open()
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.subscribe(session, 2, "a", "x", unfiltered=True)
    harness.subscribe(session, 3, "a", "x")
    item = harness.feed.items["a"]
    item.miss(2, raw=True, others=False)
    item.miss(3, raw=False, others=True)
    harness.turn()
    assert [line for line in channel.data.decode().split("\r\n") if line.startswith("OV")] == ["OV,1,1,2", "OV,2,1,3"]


def test_a_source_is_told_when_an_item_known_in_raw_mode_is_wanted_in_another() -> None:
    harness = Harness()
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x", Mode.RAW)
    harness.subscribe(session, 2, "a", "x", Mode.RAW)
    harness.subscribe(session, 3, "a", "x", Mode.MERGE)
    harness.subscribe(session, 4, "a", "x", Mode.MERGE)
    assert harness.source.calls == [("subscribe", "a")]
    assert harness.source.bound == [("a", Mode.MERGE)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.MERGE, ["U,2,1,l|ADD|#"]),
        (Mode.DISTINCT, ["U,2,1,l|ADD|#", "EOS,2,1"]),
        (Mode.COMMAND, ["U,2,1,l|ADD|#", "EOS,2,1"]),
    ],
)
def test_what_was_known_is_forgotten_before_a_whole_snapshot_comes(mode: Mode, expected: list[str]) -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "key command x", Mode.RAW)
    item = harness.feed.items["a"]
    item.end_of_snapshot()
    harness.publish("a", key="k", command="ADD", x="1")
    item.forget()
    item.update(CheckedEvent({"key": "l", "command": "ADD"}), True)
    item.end_of_snapshot()
    channel.take()
    harness.subscribe(session, 2, "a", "key command x", mode, snapshot=True)
    assert data(channel.take()) == expected
