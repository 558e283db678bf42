"""Events that a metadata adapter changes or drops for one subscription: its client sees an item of its own, and nobody
else notices.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.item import Item, Mode
from penstock.kernel.ports import Customizer, Event, ItemGrant, Value
from penstock.testing import Harness, MemoryChannel, Model, Peer, TruthSource
from tests.support.effort import tries

BOUND = [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND]
FIELDS = "x y key command"


def hide(event: Event) -> Event:
    return {**event, "x": None}


def mark(event: Event) -> Event:
    return {**event, "y": f"{event.get('x') or ''}!"}


def rename(event: Event) -> Event:
    return {**event, "key": (event.get("key") or "").upper()}


def forget(event: Event) -> Event:
    """Fields that are not there are null."""
    return {field: value for field, value in event.items() if field != "x" or value != "2"}


def drop(event: Event) -> Event | None:
    return None if event.get("x") == "1" else event


def delete(event: Event) -> Event | None:
    """Rows go and come back by what is in them."""
    if event.get("x") == "1" and "command" in event:
        return {"key": event["key"], "command": "DELETE"}
    return None if event.get("x") == "2" else event


CUSTOMIZERS: list[Customizer | None] = [None, dict, hide, mark, rename, forget, drop, delete]

VALUES = st.sampled_from([None, "1", "2", "3"])
EVENTS = st.dictionaries(st.sampled_from("xy"), VALUES, min_size=1)
ROWS = st.builds(
    lambda event, key, command: {**event, "key": key, "command": command},
    EVENTS,
    st.sampled_from("ab"),
    st.sampled_from(["ADD", "UPDATE", "DELETE"]),
)


class Pair:
    """A client with customized subscriptions, and one beside it to whom nothing is changed."""

    def __init__(self, mode: Mode, ends_snapshot: bool) -> None:
        modes = {"i": mode}
        self.mode = mode
        self.source = TruthSource(modes, frozenset() if ends_snapshot else frozenset("i"))
        self.harness = Harness(source=self.source)
        self.clients = [(Peer(self.harness), Model(modes)) for _ in range(2)]
        for peer, _ in self.clients:
            peer.open()

    def publish(self, event: Event) -> None:
        for _, model in self.clients:
            model.publish("i", event)
        self.source.publish("i", event)

    def clear(self) -> None:
        for _, model in self.clients:
            model.clear("i")
        self.source.clear("i")

    def subscribe(
        self, who: int, raw: bool, snapshot: bool, length: int | None, unfiltered: bool, customizer: Customizer | None
    ) -> None:
        mode = Mode.RAW if raw else self.mode
        peer, model = self.clients[who]
        # Those of other modes have one length, and what is to be told of losses has no buffer to lose from.
        length = length if mode is Mode.DISTINCT and snapshot and not unfiltered else None
        unfiltered = unfiltered and not raw
        number = peer.subscribe(
            "i", FIELDS, mode, snapshot, None, None, unfiltered, length, customizer if not who else None
        )
        model.subscribe(
            number,
            "i",
            FIELDS,
            mode,
            snapshot,
            snapshot_length=length,
            unfiltered=unfiltered,
            whole=True,
            customizer=customizer if not who else None,
        )

    def unsubscribe(self, who: int) -> None:
        peer, model = self.clients[who]
        if model.subscriptions:
            number = min(model.subscriptions)
            peer.unsubscribe(number)
            model.unsubscribe(number)

    def judge(self) -> None:
        self.harness.feed.end_of_snapshot("i")
        self.harness.advance(20)
        for peer, model in self.clients:
            peer.receive()
            model.judge(peer.seen)


STEPS = st.one_of(
    st.tuples(st.just("publish"), EVENTS, ROWS),
    st.tuples(st.just("publish"), EVENTS, ROWS),
    st.tuples(st.just("turn")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("end")),
    st.tuples(
        st.just("subscribe"),
        st.integers(0, 1),
        st.sampled_from([False, False, True]),
        st.booleans(),
        st.sampled_from([None, 0, 1, 3]),
        st.sampled_from([False, False, True]),
        st.sampled_from(CUSTOMIZERS),
    ),
    st.tuples(st.just("unsubscribe"), st.integers(0, 1)),
)


@pytest.mark.parametrize("mode", BOUND)
@settings(max_examples=tries(60))
@given(steps=st.lists(STEPS, max_size=25), ends_snapshot=st.booleans(), customizer=st.sampled_from(CUSTOMIZERS[1:]))
def test_a_client_sees_what_its_customizer_makes_of_the_item_and_others_what_there_is(
    mode: Mode, steps: list[tuple[object, ...]], ends_snapshot: bool, customizer: Customizer
) -> None:
    pair = Pair(mode, ends_snapshot)
    # Always at least these, so that every example is about something.
    for event in ({"x": "1", "y": "1"}, {"x": "2", "y": "2"}, {"x": "3"}):
        pair.publish({**event, "key": event["x"], "command": "ADD"} if mode is Mode.COMMAND else event)
    pair.subscribe(0, False, True, None, False, customizer)
    for name, *arguments in steps:
        match name, arguments:
            case "publish", (dict() as event, dict() as row):
                pair.publish(row if mode is Mode.COMMAND else event)
            case "turn", ():
                pair.harness.turn()
            case "clear", ():
                pair.clear()
            case "end", ():
                pair.harness.feed.end_of_snapshot("i")
            case "subscribe", _:
                pair.subscribe(*arguments)  # type: ignore[arg-type]
            case "unsubscribe", (int() as who,):
                pair.unsubscribe(who)
    pair.judge()


# -- what each mode makes of it -----------------------------------------------------------------------------------


class Watched:
    """One item, one client with a customizer."""

    def __init__(self, harness: Harness, customizer: Customizer, mode: Mode, fields: str, **wishes: object) -> None:
        self.harness = harness
        self.session, self.channel = harness.open()
        granted = (ItemGrant("i", customizer=customizer),)
        harness.subscribe(self.session, 1, "i", fields, mode, granted=granted, **wishes)  # type: ignore[arg-type]

    def lines(self) -> list[str]:
        return updates(self.channel)


def updates(channel: MemoryChannel) -> list[str]:
    return [line for line in channel.take() if line.split(",")[0] in ("U", "CS", "EOS")]


def test_in_merge_mode_a_customizer_is_given_all_fields(harness: Harness) -> None:
    given: list[Event] = []

    def keep(event: Event) -> Event:
        given.append(dict(event))
        return event

    watched = Watched(harness, keep, Mode.MERGE, "x y")
    harness.publish("i", x="1", y="2")
    harness.publish("i", x="3")
    assert given == [{"x": "1", "y": "2"}, {"x": "3", "y": "2"}]
    assert watched.lines() == ["U,1,1,1|2", "U,1,1,3|"]


def test_in_command_mode_it_is_given_all_of_a_row_and_may_take_it_away(harness: Harness) -> None:
    def only_cheap(event: Event) -> Event:
        return {**event, "command": "DELETE"} if int(event.get("price") or 0) > 9 else event

    watched = Watched(harness, only_cheap, Mode.COMMAND, "key command price")
    for price in ("5", "20", "6"):
        harness.publish("i", key="a", command="UPDATE", price=price)
    assert [line.split(",", 3)[3] for line in watched.lines()] == ["a|ADD|5", "|DELETE|20", "|ADD|6"]


@pytest.mark.parametrize("mode", BOUND)
def test_what_it_does_not_return_is_null_whatever_was_there_before(harness: Harness, mode: Mode) -> None:
    watched = Watched(harness, forget, mode, "key command x")
    for x in ("3", "2"):
        harness.publish("i", key="a", command="UPDATE", x=x)
    assert [line.rpartition("|")[2] for line in watched.lines()] == ["3", "#"]


def test_a_selector_chooses_before_anything_is_changed(harness: Harness) -> None:
    watched = Watched(harness, hide, Mode.DISTINCT, "x y", selector=lambda event: event.get("x") == "1")
    harness.publish("i", x="1", y="kept")
    harness.publish("i", x="2", y="gone")
    assert watched.lines() == ["U,1,1,#|kept"]


def test_a_frequency_limit_holds_for_it_as_for_any_other(harness: Harness) -> None:
    watched = Watched(harness, mark, Mode.MERGE, "y", max_frequency=1.0)
    for number in range(10):
        harness.publish("i", x=str(number))
    assert watched.lines() == ["U,1,1,0!"]
    harness.advance(1.0)
    assert watched.lines() == ["U,1,1,9!"]


def test_declared_differences_hold_for_it_also_if_they_come_later(harness: Harness) -> None:
    watched = Watched(harness, dict, Mode.MERGE, "x")
    harness.feed.declare_differences("i", {"x": "T"})
    text = "a long text that changes little " * 4
    harness.publish("i", x=text)
    harness.publish("i", x=text + "!")
    assert watched.lines()[-1].startswith("U,1,1,^T")


def test_an_adapter_that_comes_back_repairs_it_as_well(harness: Harness) -> None:
    watched = Watched(harness, drop, Mode.COMMAND, "key command x", snapshot=True)
    for key, x in (("a", "2"), ("b", "1"), ("c", "3")):
        harness.publish("i", key=key, command="ADD", x=x)
    watched.lines()
    item = harness.feed.items["i"]
    fresh: list[dict[str, Value]] = [{"key": "a", "command": "ADD", "x": "4"}, {"key": "b", "command": "ADD", "x": "5"}]
    harness.feed.repair(item, fresh, True)  # type: ignore[arg-type]
    harness.turn()
    states = [line.split(",", 3)[3] for line in watched.lines()]
    assert states == ["|DELETE|#", "a|UPDATE|4", "b|ADD|5"]


def test_nothing_is_left_of_it_when_its_subscription_ends(harness: Harness) -> None:
    first = Watched(harness, mark, Mode.MERGE, "y")
    second = Watched(harness, hide, Mode.MERGE, "y")
    item = harness.feed.items["i"]
    first.session.unsubscribe(1)
    harness.publish("i", x="1", y="2")
    assert updates(first.channel) == []
    assert updates(second.channel) == ["U,1,1,2"]
    second.session.close(32, "bye")
    assert harness.feed.items == {}
    assert item._followers() == ()


def test_an_item_that_is_kept_takes_another_mode_when_its_last_customized_subscription_has_ended(
    harness: Harness,
) -> None:
    harness.feed.pin("i")
    item: Item = harness.feed.items["i"]
    for mode in (Mode.MERGE, Mode.DISTINCT, Mode.COMMAND):
        watched = Watched(harness, dict, mode, "key command x")
        assert item.mode is mode
        watched.session.unsubscribe(1)
        assert item.mode is None


def test_sessions_with_a_customizer_share_nothing_and_those_beside_them_do(harness: Harness) -> None:
    harness.kernel.sharing.calm = 0.1
    customized = [Watched(harness, mark, Mode.MERGE, "y") for _ in range(2)]
    plain = [harness.open()[0] for _ in range(2)]
    for session in plain:
        harness.subscribe(session, 1, "i", "y")
    harness.publish("i", x="1", y="2")
    for _ in range(10):
        harness.advance(0.2)
    assert [session.shares for session in plain] == [True, True]
    assert [watched.session.shares for watched in customized] == [False, False]
