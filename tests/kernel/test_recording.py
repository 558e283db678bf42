"""What the kernel hands to its recorder, and items that are kept without subscribers so that nothing is missed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from penstock.client.events import ClientEvent as ClientEvent
from penstock.client.events import EndOfSnapshot, Update
from penstock.kernel.errors import Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import CheckedEvent, Event, ItemGrant
from penstock.testing import Harness, Peer

Record = tuple[str, str, Mapping[str, str | None] | None]


class ListRecorder:
    """Wants what does not begin with `un`."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def wants(self, item: str) -> bool:
        return not item.startswith("un")

    def record(self, item: str, kind: Literal["update", "snapshot", "clear"], event: Event | None) -> None:
        if self.wants(item):
            self.records.append((item, kind, event))


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.feed.recorder = ListRecorder()
    return made


def records(harness: Harness) -> list[Record]:
    recorder = harness.feed.recorder
    assert isinstance(recorder, ListRecorder)
    return recorder.records


def subscriber(harness: Harness, item: str, fields: str, mode: Mode) -> Peer:
    peer = Peer(harness)
    peer.open()
    peer.subscribe(item, fields, mode, snapshot=mode is not Mode.RAW)
    return peer


def values(events: list[ClientEvent]) -> list[tuple[str | None, ...]]:
    return [tuple(event.values) for event in events if isinstance(event, Update)]


# -- what is recorded ---------------------------------------------------------------------------------------------


def test_events_of_a_subscribed_item_are_recorded_in_order(harness: Harness) -> None:
    harness.source.state["a"] = {"x": "0"}
    subscriber(harness, "a", "x", Mode.MERGE)
    harness.feed.update("a", {"x": 1, "y": None})  # type: ignore[dict-item]
    harness.feed.updates([("a", {"x": "2"}), ("a", {"x": "3"})])
    item = harness.feed.items["a"]
    harness.feed.publish_checked([(item, CheckedEvent({"x": "4"}), False), (item, CheckedEvent({"x": "5"}), True)])
    harness.feed.publish_checked_by_name([("a", CheckedEvent({"x": "6"}), False)])
    harness.feed.clear_snapshot("a")
    assert records(harness) == [
        ("a", "snapshot", {"x": "0"}),
        ("a", "update", {"x": "1", "y": None}),
        ("a", "update", {"x": "2"}),
        ("a", "update", {"x": "3"}),
        ("a", "update", {"x": "4"}),
        ("a", "snapshot", {"x": "5"}),
        ("a", "update", {"x": "6"}),
        ("a", "clear", None),
    ]


def test_events_of_items_that_nobody_is_subscribed_to_are_recorded_without_complaint(harness: Harness) -> None:
    feed = harness.feed
    feed.update("a", {"x": "1"})
    feed.update("a", {"x": "2"}, snapshot=True)
    feed.updates([("b", {"x": "3"})])
    feed.publish_checked_by_name([("c", CheckedEvent({"x": "4"}), False)])
    feed.clear_snapshot("a")
    assert records(harness) == [
        ("a", "update", {"x": "1"}),
        ("a", "snapshot", {"x": "2"}),
        ("b", "update", {"x": "3"}),
        ("c", "update", {"x": "4"}),
        ("a", "clear", None),
    ]
    assert harness.source.complaints == []
    assert (feed.unwanted_events, feed.bad_events) == (0, 0)


def test_what_the_recorder_does_not_want_is_complained_of_as_ever(harness: Harness) -> None:
    feed = harness.feed
    feed.update("un1", {"x": "1"})
    feed.updates([("un2", {"x": "1"})])
    feed.clear_snapshot("un3")
    assert [item for item, _ in harness.source.complaints] == ["un1", "un2", "un3"]
    assert feed.unwanted_events == 3
    assert records(harness) == []


def test_what_is_not_wanted_of_subscribed_items_is_not_recorded(harness: Harness) -> None:
    peer = subscriber(harness, "un", "x", Mode.MERGE)
    harness.publish("un", x="1")
    assert values(peer.receive()) == [("1",)]
    assert records(harness) == []


BAD: list[Any] = [5, {"x": b"1"}, {"x": "\ud800"}, {7: "x"}]


@pytest.mark.parametrize("event", BAD)
@pytest.mark.parametrize("subscribed", [True, False])
def test_bad_events_are_complained_of_and_not_recorded(harness: Harness, event: Any, subscribed: bool) -> None:
    if subscribed:
        subscriber(harness, "a", "x", Mode.MERGE)
    harness.feed.update("a", event)
    harness.feed.updates([("a", event), ("a", {"x": "1"})])
    assert records(harness) == [("a", "update", {"x": "1"})]
    assert harness.feed.bad_events == len(harness.source.complaints) == 2


def test_a_command_that_does_not_fit_is_not_recorded(harness: Harness) -> None:
    subscriber(harness, "a", "key command", Mode.COMMAND)
    missing = CheckedEvent({"key": "k", "command": "DELETE"})
    harness.feed.update("a", missing)
    harness.feed.updates([("a", missing)])
    harness.feed.publish_checked([(harness.feed.items["a"], missing, False)])
    harness.feed.publish_checked_by_name([("a", missing, False)])
    assert records(harness) == []
    assert harness.feed.bad_events == 4


def test_a_recorded_event_is_a_copy(harness: Harness) -> None:
    event: dict[str, str | None] = {"x": "1"}
    harness.feed.update("a", event)
    event["x"] = "2"
    assert records(harness) == [("a", "update", {"x": "1"})]


def test_what_a_producer_has_recorded_itself_is_not_recorded_again(harness: Harness) -> None:
    peer = subscriber(harness, "a", "x", Mode.DISTINCT)
    harness.feed.publish_checked_by_name(
        [("a", CheckedEvent({"x": "1"}), True), ("b", CheckedEvent({"x": "2"}), False)], recorded=True
    )
    harness.feed.end_of_snapshot("a")
    harness.turn()
    harness.feed.clear_snapshot("a", recorded=True)
    harness.turn()
    assert values(peer.receive()) == [("1",)]
    assert records(harness) == []
    assert harness.feed.unwanted_events == 0


def test_late_events_of_an_item_that_has_come_back_are_not_recorded(harness: Harness) -> None:
    first = subscriber(harness, "a", "x", Mode.MERGE)
    old = harness.feed.items["a"]
    first.unsubscribe(1)
    harness.turn()
    harness.feed.publish_checked([(old, CheckedEvent({"x": "1"}), False)])
    subscriber(harness, "a", "x", Mode.MERGE)
    harness.feed.publish_checked([(old, CheckedEvent({"x": "2"}), False)])
    harness.feed.update("a", {"x": "3"}, serial=old.serial)
    # While nobody was subscribed it was the truth; after that it is not known what came in between.
    assert records(harness) == [("a", "update", {"x": "1"})]


def test_a_repair_is_recorded_as_the_snapshot_it_is(harness: Harness) -> None:
    subscriber(harness, "a", "key command x", Mode.COMMAND)
    item = harness.feed.items["a"]
    rows = [CheckedEvent({"key": "k", "command": "ADD", "x": "1"}), CheckedEvent({"key": "l", "command": "ADD"})]
    nonsense = CheckedEvent({"key": "m", "command": "DELETE"})
    harness.feed.repair(item, [rows[0], nonsense, rows[1]], complete=True)
    harness.feed.repair(item, [], complete=False)
    harness.feed.repair(item, [], complete=True)
    assert records(harness) == [("a", "snapshot", rows[0]), ("a", "snapshot", rows[1]), ("a", "clear", None)]
    assert harness.feed.bad_events == 1
    assert [item for item, _ in harness.source.complaints] == ["a"]


def test_every_event_is_recorded_whatever_the_prefilter_lets_through(harness: Harness) -> None:
    session, _ = harness.open()
    granted = (ItemGrant("a", prefilter_frequency=1.0),)
    harness.subscribe(session, 1, "a", "x", granted=granted)
    for number in range(5):
        harness.publish("a", x=str(number))
    assert [event for _, _, event in records(harness)] == [{"x": str(number)} for number in range(5)]


# -- items that are kept ------------------------------------------------------------------------------------------


def test_a_pinned_item_is_subscribed_until_it_is_let_go(harness: Harness) -> None:
    harness.feed.pin("a")
    harness.feed.pin("a")
    harness.publish("a", x="1")
    peer = subscriber(harness, "a", "x", Mode.MERGE)
    peer.unsubscribe(1)
    harness.publish("a", x="2")
    assert harness.source.calls == [("subscribe", "a")]
    assert records(harness) == [("a", "update", {"x": "1"}), ("a", "update", {"x": "2"})]
    harness.feed.unpin()
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]
    assert not harness.feed.items


def test_an_item_that_is_let_go_stays_for_its_subscribers(harness: Harness) -> None:
    harness.feed.pin("a")
    peer = subscriber(harness, "a", "x", Mode.MERGE)
    harness.feed.unpin()
    harness.publish("a", x="1")
    assert values(peer.receive()) == [("1",)]
    peer.unsubscribe(1)
    assert harness.source.calls == [("subscribe", "a"), ("unsubscribe", "a")]


def test_an_item_that_has_subscribers_can_be_pinned(harness: Harness) -> None:
    peer = subscriber(harness, "a", "x", Mode.MERGE)
    harness.feed.pin("a")
    peer.unsubscribe(1)
    assert harness.source.calls == [("subscribe", "a")]


ROW = {"key": "k", "command": "ADD", "x": "0"}


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.MERGE, [("k", "UPDATE", "2")]),
        (Mode.DISTINCT, [("k", "ADD", "0"), ("k", "UPDATE", "1"), ("k", "UPDATE", "2")]),
        (Mode.COMMAND, [("k", "ADD", "2")]),
        (Mode.RAW, []),
    ],
)
def test_the_first_subscriber_of_a_pinned_item_gets_its_snapshot_from_the_kernel(
    snapshots: bool, mode: Mode, expected: list[tuple[str, ...]]
) -> None:
    harness = Harness(snapshots=snapshots)
    harness.source.state["a"] = dict(ROW)
    harness.feed.pin("a")
    if not snapshots:
        harness.feed.update("a", ROW)
    for number in (1, 2):
        harness.feed.update("a", {"key": "k", "command": "UPDATE", "x": str(number)})
    peer = subscriber(harness, "a", "key command x", mode)
    events = peer.receive()
    assert values(events) == expected
    assert any(isinstance(event, EndOfSnapshot) for event in events) == (mode in (Mode.DISTINCT, Mode.COMMAND))
    harness.feed.update("a", {"key": "k", "command": "UPDATE", "x": "3"})
    harness.turn()
    assert values(peer.receive()) == [("k", "UPDATE", "3")]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
def test_a_snapshot_that_comes_after_the_first_subscriber_reaches_it(harness: Harness, mode: Mode) -> None:
    harness.feed.pin("a")
    peer = subscriber(harness, "a", "key command x", mode)
    assert values(peer.receive()) == []
    harness.feed.update("a", ROW, snapshot=True)
    harness.feed.end_of_snapshot("a")
    harness.turn()
    events = peer.receive()
    assert values(events) == [("k", "ADD", "0")]
    assert any(isinstance(event, EndOfSnapshot) for event in events) == (mode is not Mode.MERGE)


@pytest.mark.parametrize("first", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
@pytest.mark.parametrize("second", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
def test_a_pinned_item_is_free_for_another_mode_when_its_subscribers_have_gone(
    harness: Harness, first: Mode, second: Mode
) -> None:
    harness.feed.pin("a")
    harness.feed.update("a", ROW)
    one = subscriber(harness, "a", "key command x", first)
    harness.feed.update("a", {"key": "k", "command": "UPDATE", "x": "1"})
    harness.turn()
    if second is not first:
        with pytest.raises(Refusal):
            subscriber(harness, "a", "key command x", second)
    one.unsubscribe(1)
    other = subscriber(harness, "a", "key command x", second)
    expected = {
        Mode.MERGE: [("k", "UPDATE", "1")],
        Mode.DISTINCT: [("k", "ADD", "0"), ("k", "UPDATE", "1")],
        Mode.COMMAND: [("k", "ADD", "1")],
    }
    assert values(other.receive()) == expected[second]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
def test_a_repair_reaches_all_the_books_of_a_pinned_item(harness: Harness, mode: Mode) -> None:
    harness.feed.pin("a")
    harness.feed.update("a", ROW)
    one = subscriber(harness, "a", "key command x", mode)
    harness.feed.repair(
        harness.feed.items["a"], [CheckedEvent({"key": "l", "command": "ADD", "x": "9"})], complete=True
    )
    harness.turn()
    one.unsubscribe(1)
    for other_mode in (Mode.MERGE, Mode.DISTINCT, Mode.COMMAND):
        other = subscriber(harness, "a", "key command x", other_mode)
        assert values(other.receive()) == [("l", "ADD", "9")]
        other.unsubscribe(1)


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (3, 3), (50, 50), (1_000, 100)])
def test_what_the_first_subscriber_is_granted_holds_for_a_pinned_item(harness: Harness, length: int, kept: int) -> None:
    harness.feed.pin("a")
    for number in range(200):
        harness.feed.update("a", {"x": str(number)})
    session, channel = harness.open()
    channel.take()
    granted = (ItemGrant("a", snapshot_length=length),)
    harness.subscribe(session, 1, "a", "x", Mode.DISTINCT, snapshot=True, granted=granted)
    lines = [line for line in channel.take() if line.startswith("U,")]
    assert lines == [f"U,1,1,{number}" for number in range(200 - kept, 200)]


def test_a_prefilter_that_the_first_subscriber_is_granted_holds_for_a_pinned_item(harness: Harness) -> None:
    harness.feed.pin("a")
    session, channel = harness.open()
    harness.subscribe(session, 1, "a", "x", granted=(ItemGrant("a", prefilter_frequency=1.0),))
    channel.take()
    for number in range(5):
        harness.publish("a", x=str(number))
    assert [line for line in channel.take() if line.startswith("U,")] == ["U,1,1,0"]
    harness.advance(1.5)
    assert [line for line in channel.take() if line.startswith("U,")] == ["U,1,1,4"]
