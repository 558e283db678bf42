"""Items that are watched without a session: the same states as a client would see, and the same item for both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.events import Update
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed, check_event
from penstock.kernel.item import Mode
from penstock.kernel.ports import Event, ItemGrant, State
from penstock.kernel.watch import ItemWatch
from penstock.testing import Harness, Peer, TruthSource
from penstock.testing.hands import HandSource
from tests.support.effort import tries

WATCHABLE = [Mode.MERGE, Mode.DISTINCT]


def watched(harness: Harness, items: str, fields: str, mode: Mode = Mode.MERGE) -> tuple[ItemWatch, list[State]]:
    states: list[State] = []
    watch = ItemWatch(harness.feed, mode, tuple(items.split()), tuple(fields.split()), states.append)
    watch.start()
    return watch, states


def test_each_change_is_handed_on_with_all_fields(harness: Harness) -> None:
    _, states = watched(harness, "i", "x y")
    harness.publish("i", x="1")
    harness.publish("i", y="2")
    harness.publish("i", z="3")
    assert states == [("1", None), ("1", "2")]


def test_the_snapshot_is_no_event_but_its_values_are_known_later(harness: Harness) -> None:
    harness.source.state["i"] = {"x": "0", "y": "0"}
    _, states = watched(harness, "i", "x y")
    assert states == []
    harness.publish("i", y="1")
    assert states == [("0", "1")]


def test_distinct_events_stand_for_themselves(harness: Harness) -> None:
    _, states = watched(harness, "i", "x y", Mode.DISTINCT)
    harness.publish("i", x="1")
    harness.publish("i", x="1")
    harness.publish("i", y="2")
    assert states == [("1", None), ("1", None), (None, "2")]


def test_items_of_one_watch_are_one_flow(harness: Harness) -> None:
    _, states = watched(harness, "a b a", "x")
    harness.publish("a", x="1")
    harness.publish("b", x="1")
    assert states == [("1",), ("1",), ("1",)]


def test_many_watches_and_a_client_share_one_item_at_the_adapter(harness: Harness) -> None:
    first, _ = watched(harness, "i", "x")
    second, states = watched(harness, "i", "y")
    session, _ = harness.open()
    harness.subscribe(session, 1, "i", "x")
    assert harness.source.calls == [("subscribe", "i")]
    first.stop()
    session.unsubscribe(1)
    harness.publish("i", y="1")
    assert states == [("1",)]
    second.stop()
    assert harness.source.calls == [("subscribe", "i"), ("unsubscribe", "i")]
    assert not second.running


def test_a_watch_in_another_mode_than_that_of_a_client_is_refused_and_follows_nothing(harness: Harness) -> None:
    session, _ = harness.open()
    harness.subscribe(session, 1, "b", "x", Mode.DISTINCT)
    harness.source.calls.clear()
    with pytest.raises(Refusal) as refused:
        watched(harness, "a b", "x")
    assert refused.value.reason is Reason.MODE
    assert harness.source.calls == []


@pytest.mark.parametrize("mode", [Mode.RAW, Mode.COMMAND])
def test_other_modes_cannot_be_watched(harness: Harness, mode: Mode) -> None:
    with pytest.raises(Refusal, match="MERGE and DISTINCT can"):
        watched(harness, "i", "x", mode)


def test_the_first_client_brings_its_grant_to_an_item_that_is_only_watched(harness: Harness) -> None:
    watched(harness, "i", "x", Mode.DISTINCT)
    for number in range(5):
        harness.publish("i", x=str(number))
    session, channel = harness.open()
    granted = (ItemGrant("i", snapshot_length=2),)
    harness.subscribe(session, 1, "i", "x", Mode.DISTINCT, snapshot=True, granted=granted)
    assert [line for line in channel.take() if line.startswith("U")] == ["U,1,1,3", "U,1,1,4"]


def test_the_source_is_told_when_an_item_known_in_raw_mode_is_watched_in_another(harness: Harness) -> None:
    session, _ = harness.open()
    harness.subscribe(session, 1, "i", "x", Mode.RAW)
    assert harness.source.bound == []
    watched(harness, "i", "x")
    assert harness.source.bound == [("i", Mode.MERGE)]


def test_a_pinned_item_takes_any_mode_when_its_watch_has_gone(harness: Harness) -> None:
    harness.feed.pin("i")
    watch, _ = watched(harness, "i", "x")
    watch.stop()
    _, states = watched(harness, "i", "x", Mode.DISTINCT)
    harness.publish("i", x="1")
    assert states == [("1",)]


VALUES = st.sampled_from([None, "", "1", "2"])
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, min_size=1)
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("publish"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("publish"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("clear"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("repair"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("end"), st.sampled_from("ij"), EVENTS),
    st.tuples(st.just("watch"), st.sampled_from(["i", "j", "i j"]), st.just({})),
    st.tuples(st.just("stop"), st.just(""), st.just({})),
)


class Pair:
    """Watches, each beside a client's subscription to the same without snapshot."""

    def __init__(self, mode: Mode, unended: bool) -> None:
        self.mode = mode
        self.source = TruthSource(dict.fromkeys("ij", mode), frozenset("ij") if unended else frozenset())
        self.harness = Harness(source=self.source)
        self.peer = Peer(self.harness)
        self.peer.open()
        self.running: list[tuple[ItemWatch, int]] = []
        self.told: dict[int, list[State]] = {}

    def do(self, step: str, item: str, event: Event) -> None:
        feed = self.harness.feed
        if step == "watch":
            self.watch(item)
        elif step == "stop":
            if self.running:
                watch, number = self.running.pop(0)
                watch.stop()
                self.peer.unsubscribe(number)
        elif step == "publish":
            self.source.publish(item, event)
        elif step == "clear":
            self.source.clear(item)
        elif item in feed.items and step == "repair":
            feed.repair(feed.items[item], [check_event(event)], True)
        elif item in feed.items:
            feed.end_of_snapshot(item)
        # At once, so that nothing is conflated.
        self.harness.turn()

    def watch(self, items: str) -> None:
        states: list[State] = []
        watch = ItemWatch(self.harness.feed, self.mode, tuple(items.split()), ("x", "y"), states.append)
        # Which of the two is first must not matter.
        if len(self.told) % 2:
            watch.start()
        number = self.peer.subscribe(items, "x y", self.mode, False, None, None, False, None, None)
        if not watch.running:
            watch.start()
        self.told[number] = states
        self.running.append((watch, number))

    def seen(self, number: int) -> list[State]:
        """In the order in which they came, whatever the item."""
        return [event.values for event in self.events if isinstance(event, Update) and event.subscription == number]

    def judge(self) -> None:
        self.events = self.peer.receive()
        for number, states in self.told.items():
            assert states == self.seen(number)


@pytest.mark.parametrize("mode", WATCHABLE)
@settings(max_examples=tries(150))
@given(steps=st.lists(STEPS, max_size=30), unended=st.booleans())
def test_a_watch_sees_what_a_subscription_without_snapshot_is_sent(
    mode: Mode, steps: list[tuple[str, str, Event]], unended: bool
) -> None:
    pair = Pair(mode, unended)
    for step, item, event in steps:
        pair.do(step, item, event)
    pair.judge()


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def feed_served(self, feed: Feed) -> None:
        self.seen.append(("served", feed.name))

    def feed_withdrawn(self, feed: Feed) -> None:
        self.seen.append(("withdrawn", feed.name))


def test_who_watches_is_told_of_data_adapters_that_come_and_go(harness: Harness) -> None:
    observer = Observer()
    harness.kernel.feed_observers.append(observer)
    harness.kernel.add_feed("TEST", "OTHER", HandSource())
    harness.kernel.withdraw("TEST", "OTHER")
    assert observer.seen == [("served", "OTHER"), ("withdrawn", "OTHER")]
    assert ("TEST", "OTHER") not in harness.kernel.feeds
