"""Events that make no sense, and events that are merely huge: what is dropped is logged, and nobody else notices.

Over real sockets: tests/doors/stream/test_bad_events.py. What is done with each, and why: docs/decisions.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import thread_time

import pytest

from penstock.adapters.api import DataAdapter
from penstock.adapters.source import GuardedSource
from penstock.client.events import Subscribed, Update
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import MAX_RELEASED, MAX_UNWANTED_ITEMS
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import ItemGrant, State, Value
from penstock.log.lines import JsonFormatter, TextFormatter
from penstock.testing import Harness, Peer

MEGABYTE = 1_000_000
LOG = "penstock.adapters.source"
FIELDS = "key command x"

# Halves of surrogate pairs: Python's text can hold them, UTF-8 cannot.
LONE = ["\ud800", "\udfff", "a\udc00b", "\ude00\ud83d", "é\ud800", "x" * 1_000 + "\ud800"]


class Bench:
    """A kernel whose data adapter is guarded and logged as in a server. Two clients: one of item t, one of another."""

    def __init__(self, mode: Mode, limits: SessionLimits | None = None) -> None:
        self.harness = Harness(limits)
        self.harness.feed = self.feed = self.harness.kernel.add_feed(
            "TEST", "GUARDED", GuardedSource("TEST", "GUARDED", DataAdapter())
        )
        self.client, self.other = Peer(self.harness), Peer(self.harness)
        for peer, item in ((self.client, "t"), (self.other, "quiet")):
            peer.open()
            peer.subscribe(item, FIELDS, mode)

    def publish(self, event: object, item: str = "t") -> None:
        """What the adapter says, sense or not, and the turn it belongs to."""
        self.feed.update(item, event)  # type: ignore[arg-type]
        self.harness.turn()

    def values(self) -> list[State]:
        return values(self.client)

    def still_works(self) -> None:
        """Both sessions go on, that of the item the bad event was for included."""
        for peer, item in ((self.client, "t"), (self.other, "quiet")):
            self.publish({"key": "good", "command": "ADD", "x": "fine"}, item)
            assert values(peer)[-1][2] == "fine"
            assert not peer.session.closed


def values(peer: Peer) -> list[State]:
    return [event.values for event in peer.receive() if isinstance(event, Update)]


def complaints(caplog: pytest.LogCaptureFixture) -> list[Mapping[str, object]]:
    """The fields of all that was logged; it must be warnings of the guard, and fit into lines of any format."""
    found: list[Mapping[str, object]] = []
    for record in caplog.records:
        assert (record.name, record.levelno, record.getMessage()) == (LOG, logging.WARNING, "event dropped")
        for formatter in (TextFormatter(), JsonFormatter()):
            line = formatter.format(record)
            assert len(line.encode()) < 2_000
            assert "\n" not in line
        found.append(record.__dict__["fields"])
    return found


def complaint(reason: str, item: str = "t") -> dict[str, object]:
    return {"adapter_set": "TEST", "adapter": "GUARDED", "item": item, "reason": reason}


# -- events that no mode understands ----------------------------------------------------------------------------------

UTF8 = "holds an unpaired surrogate, which UTF-8 cannot encode"
COMMAND_EVENT: Mapping[object, object] = {"key": "k", "command": "ADD"}

NONSENSE = [
    pytest.param(None, "an event that is a NoneType, not fields and their values", id="no event"),
    pytest.param("x=1", "an event that is a str, not fields and their values", id="text"),
    pytest.param([("x", "1")], "an event that is a list, not fields and their values", id="pairs"),
    pytest.param({**COMMAND_EVENT, "x": b"1"}, "the value of field 'x' is a bytes, not text", id="bytes"),
    pytest.param({**COMMAND_EVENT, "x": ["1"]}, "the value of field 'x' is a list, not text", id="list"),
    pytest.param({**COMMAND_EVENT, "x": {}}, "the value of field 'x' is a dict, not text", id="dictionary"),
    pytest.param({**COMMAND_EVENT, "x": 1j}, "the value of field 'x' is a complex, not text", id="complex number"),
    pytest.param(
        {**COMMAND_EVENT, "x": 10**5_000},
        "the value of field 'x' is a number too long to be written out",
        id="number of 5,000 digits",
    ),
    pytest.param({**COMMAND_EVENT, 7: "1"}, "field name 7 is not text", id="numbered field"),
    pytest.param({**COMMAND_EVENT, None: "1"}, "field name None is not text", id="field without name"),
    pytest.param({**COMMAND_EVENT, b"x" * 9_999: "1"}, f"field name b'{'x' * 58} is not text", id="name of bytes"),
    pytest.param(
        {**COMMAND_EVENT, "y" * 9_999: object()},
        f"the value of field '{'y' * 60}' is a object, not text",
        id="object under a long name",
    ),
    *[
        pytest.param({**COMMAND_EVENT, "x": text}, f"the value of field 'x' {UTF8}", id=ascii(text[-9:]))
        for text in LONE
    ],
    pytest.param({**COMMAND_EVENT, "\ud800": "1"}, f"field name '\\ud800' {UTF8}", id="surrogate in a field name"),
]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("event", "reason"), NONSENSE)
def test_an_event_that_no_mode_understands_is_dropped_and_logged(
    caplog: pytest.LogCaptureFixture, mode: Mode, event: object, reason: str
) -> None:
    bench = Bench(mode)
    bench.publish(event)
    assert bench.values() == []
    assert complaints(caplog) == [complaint(reason)]
    assert bench.feed.bad_events == 1
    bench.still_works()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
def test_nothing_of_an_event_that_is_dropped_is_remembered(mode: Mode) -> None:
    bench = Bench(mode)
    bench.publish({**COMMAND_EVENT, "x": "before"})
    bench.publish({**COMMAND_EVENT, "x": "after", "y": b"bad"})
    newcomer = Peer(bench.harness)
    newcomer.open()
    newcomer.subscribe("t", FIELDS, mode, snapshot=True)
    assert values(newcomer) == [("k", "ADD", "before")]


def test_a_bad_event_does_not_touch_what_a_frequency_limit_holds_back() -> None:
    bench = Bench(Mode.MERGE)
    slow = Peer(bench.harness)
    slow.open()
    slow.subscribe("t", FIELDS, max_frequency=1.0)
    bench.publish({"x": "1"})
    bench.publish({"x": "2"})
    bench.publish({"x": "\ud800"})
    bench.harness.advance(1.0)
    assert [state[2] for state in values(slow)] == ["1", "2"]


# -- events that COMMAND mode does not understand ---------------------------------------------------------------------

EXPECTED = "expected ADD, UPDATE or DELETE"

MISFITS = [
    pytest.param({"command": "ADD", "x": "1"}, "an event without key", id="no key"),
    pytest.param({"key": None, "command": "ADD"}, "an event without key", id="null key"),
    pytest.param({"key": "", "command": "ADD"}, "an event without key", id="empty key"),
    pytest.param({"key": "k", "x": "1"}, f"command None; {EXPECTED}", id="no command"),
    pytest.param({"key": "k", "command": None}, f"command None; {EXPECTED}", id="null command"),
    pytest.param({"key": "k", "command": ""}, f"command ''; {EXPECTED}", id="empty command"),
    pytest.param({"key": "k", "command": "add"}, f"command 'add'; {EXPECTED}", id="command in small letters"),
    pytest.param({"key": "k", "command": "EXPLODE"}, f"command 'EXPLODE'; {EXPECTED}", id="unknown command"),
    pytest.param({"key": "k", "command": 1}, f"command '1'; {EXPECTED}", id="number as command"),
    pytest.param(
        {"key": "k", "command": "C" * 10 * MEGABYTE}, f"command '{'C' * 60}'; {EXPECTED}", id="command of 10 MB"
    ),
    pytest.param({"key": "k", "command": "DELETE"}, "DELETE of key 'k', which is not there", id="DELETE of nothing"),
    pytest.param(
        {"key": "k" * 10 * MEGABYTE, "command": "DELETE"},
        f"DELETE of key '{'k' * 60}', which is not there",
        id="DELETE of a key of 10 MB",
    ),
    pytest.param({"key": "\ud800", "command": "ADD"}, f"the value of field 'key' {UTF8}", id="surrogate in the key"),
]


@pytest.mark.parametrize(("event", "reason"), MISFITS)
def test_a_command_that_does_not_fit_is_dropped_and_logged(
    caplog: pytest.LogCaptureFixture, event: dict[str, Value], reason: str
) -> None:
    bench = Bench(Mode.COMMAND)
    bench.publish(event)
    assert bench.values() == []
    assert complaints(caplog) == [complaint(reason)]
    assert bench.feed.bad_events == 1
    bench.still_works()


def test_the_second_of_two_deletions_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Mode.COMMAND)
    for command in ("ADD", "DELETE", "DELETE"):
        bench.publish({"key": "k", "command": command})
    assert [state[:2] for state in bench.values()] == [("k", "ADD"), ("k", "DELETE")]
    assert complaints(caplog) == [complaint("DELETE of key 'k', which is not there")]
    bench.still_works()


def test_an_update_of_a_missing_key_is_its_addition_and_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Mode.COMMAND)
    bench.publish({"key": "k", "command": "UPDATE", "x": "1"})
    bench.publish({"key": "k", "command": "UPDATE", "x": "2"})
    assert bench.values() == [("k", "ADD", "1"), ("k", "UPDATE", "2")]
    assert complaints(caplog) == []


def test_a_command_that_does_not_fit_still_reaches_raw_clients(caplog: pytest.LogCaptureFixture) -> None:
    """RAW is a dumb pipe: what an event means to COMMAND mode is not its business."""
    bench = Bench(Mode.COMMAND)
    raw = Peer(bench.harness)
    raw.open()
    raw.subscribe("t", FIELDS, Mode.RAW)
    bench.publish({"key": "k", "command": "EXPLODE", "x": "1"})
    assert bench.values() == []
    assert values(raw) == [("k", "EXPLODE", "1")]
    assert len(complaints(caplog)) == 1


@pytest.mark.parametrize("mode", [Mode.RAW, Mode.MERGE, Mode.DISTINCT])
def test_keys_and_commands_mean_nothing_to_the_other_modes(caplog: pytest.LogCaptureFixture, mode: Mode) -> None:
    bench = Bench(mode)
    bench.publish({"key": "", "command": "EXPLODE", "x": "1"})
    assert bench.values() == [("", "EXPLODE", "1")]
    assert complaints(caplog) == []


# -- items that nobody asked for --------------------------------------------------------------------------------------

NOBODY = "the item has no subscribers; logged once per item"


@pytest.mark.parametrize("item", ["nobody's", "", "\x00", "\ud800", "T", "t " * 500])
def test_events_for_an_item_that_nobody_asked_for_are_dropped_and_logged_once(
    caplog: pytest.LogCaptureFixture, item: str
) -> None:
    bench = Bench(Mode.MERGE)
    for number in range(5):
        bench.publish({"x": str(number)}, item)
    bench.feed.end_of_snapshot(item)
    bench.feed.clear_snapshot(item)
    bench.feed.declare_differences(item, {"x": "T"})
    assert complaints(caplog) == [complaint(NOBODY, item)]
    assert bench.feed.unwanted_events == 8
    assert item not in bench.feed.items
    bench.still_works()


def test_events_after_the_last_unsubscription_are_dropped_and_a_new_subscription_knows_nothing_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(Mode.MERGE)
    number = bench.client.subscribe("brief", "x")
    bench.publish({"x": "1"}, "brief")
    bench.client.unsubscribe(number)
    bench.publish({"x": "2"}, "brief")
    assert complaints(caplog) == []
    bench.client.receive()
    bench.client.subscribe("brief", "x", snapshot=True)
    assert bench.values() == []
    bench.publish({"x": "3"}, "brief")
    assert bench.values() == [("3",)]


def test_an_event_that_says_which_subscription_it_is_for_is_merely_late(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Mode.MERGE)
    bench.feed.update("t", {"x": "late"}, serial=bench.feed.items["t"].serial - 1)
    bench.feed.update("brief", {"x": "late"}, serial=1)
    assert bench.feed.unwanted_events == 2
    assert complaints(caplog) == []


def test_an_adapter_that_publishes_whatever_comes_does_not_fill_the_log_nor_the_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(Mode.MERGE)
    for number in range(2 * MAX_UNWANTED_ITEMS):
        bench.publish({"x": "1"}, f"item {number}")
    assert len(caplog.records) == MAX_UNWANTED_ITEMS
    assert bench.feed.unwanted_events == 2 * MAX_UNWANTED_ITEMS
    assert set(bench.feed.items) == {"t", "quiet"}


# -- strange, but in order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "text",
    [
        "\x00",
        "a\x00b",
        "\r\n",
        "\x1b[2J",
        "\ufeff",
        "\ufffe",
        "\u2028",
        "|#$^%,",
        "^5",
        "🐟" * 3,
        "e\u0301",
        "\U0010ffff",
    ],
    ids=ascii,
)
def test_text_that_utf_8_can_carry_arrives_as_it_is(caplog: pytest.LogCaptureFixture, mode: Mode, text: str) -> None:
    bench = Bench(mode)
    bench.publish({"key": text, "command": "ADD", "x": text, f"name {text}": text})
    assert bench.values() == [(text, "ADD", text)]
    assert complaints(caplog) == []


def test_an_empty_event_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Mode.MERGE)
    bench.publish({"x": "1"})
    bench.publish({})
    assert bench.values() == [(None, None, "1")]
    assert complaints(caplog) == []


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT, Mode.COMMAND])
def test_an_adapter_may_use_its_dictionary_again(mode: Mode) -> None:
    bench = Bench(mode)
    event: dict[str, Value] = {"key": "k", "command": "ADD", "x": "1"}
    bench.publish(event)
    event.clear()
    newcomer = Peer(bench.harness)
    newcomer.open()
    newcomer.subscribe("t", FIELDS, mode, snapshot=True)
    assert values(newcomer) == [("k", "ADD", "1")]


def test_an_adapter_may_use_its_dictionary_again_while_a_prefilter_holds_the_event(harness: Harness) -> None:
    session, channel = harness.open()
    grant = (ItemGrant("t", prefilter_frequency=1.0),)
    harness.subscribe(session, 1, "t", "x", Mode.DISTINCT, granted=grant)
    event: dict[str, Value] = {"x": "1"}
    harness.feed.update("t", event)
    event["x"] = "2"
    harness.feed.update("t", event)
    event["x"] = "never published"
    harness.advance(1.0)
    assert [line for line in channel.take() if line.startswith("U")] == ["U,1,1,1", "U,1,1,2"]


# -- huge -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "pattern",
    ["x", "é", "🐟", "\x00", "x" * 999 + "%", "x" * 998 + "\r\n"],
    ids=["ASCII", "Latin", "beyond", "NUL", "escaped", "lines"],
)
def test_a_value_of_10_mb_arrives_whole(mode: Mode, pattern: str) -> None:
    bench = Bench(mode)
    text = pattern * (10 * MEGABYTE // len(pattern.encode()))
    bench.publish({"key": "k", "command": "ADD", "x": text})
    # Not by the whole tuple: pytest would explain at length how 10 MB differ.
    ((key, command, value),) = bench.values()
    assert (key, command) == ("k", "ADD")
    assert value is not None
    assert len(value) == len(text)
    assert value == text, "the value has changed on its way"
    bench.still_works()


def names(count: int) -> list[str]:
    return [f"f{number}" for number in range(count)]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_event_of_10_000_fields_arrives_whole(mode: Mode) -> None:
    bench = Bench(mode)
    fields = ["key", "command", *names(10_000)]
    bench.client.subscribe("wide", " ".join(fields), mode)
    bench.publish({"key": "k", "command": "ADD", **{name: name for name in names(10_000)}}, "wide")
    assert bench.values() == [("k", "ADD", *names(10_000))]
    bench.still_works()


@pytest.mark.parametrize("mode", list(Mode))
def test_an_event_may_carry_10_000_fields_that_nobody_asked_for(mode: Mode) -> None:
    bench = Bench(mode)
    bench.publish({"key": "k", "command": "ADD", "x": "1", **{name: name for name in names(10_000)}})
    assert bench.values() == [("k", "ADD", "1")]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("changed", [1, 10_000], ids=["one field changes", "all fields change"])
def test_a_hundred_updates_of_10_000_fields_take_no_more_than_moments(mode: Mode, changed: int) -> None:
    """A few milliseconds each, not counting those of other processes. What is quadratic in the number of fields would
    take minutes.
    """
    bench = Bench(mode)
    fields = ["key", "command", *names(10_000)]
    bench.client.subscribe("wide", " ".join(fields), mode)
    started = thread_time()
    for number in range(100):
        event = dict.fromkeys(names(changed), f"{number}")
        bench.publish({"key": "k", "command": "UPDATE", **event}, "wide")
    seen = bench.values()
    assert thread_time() - started < 20.0
    assert len(seen) == 100
    assert seen[-1][1 + changed] == "99"


def test_a_group_of_10_000_items_is_accepted_and_each_item_updated() -> None:
    bench = Bench(Mode.MERGE)
    number = bench.client.subscribe(" ".join(names(10_000)), "x")
    told = [event for event in bench.client.receive() if isinstance(event, Subscribed)][-1]
    assert (told.subscription, told.items) == (number, 10_000)
    for name in names(10_000):
        bench.feed.update(name, {"x": name})
    bench.harness.turn()
    updates = [event for event in bench.client.receive() if isinstance(event, Update)]
    assert {(event.item, event.values[0]) for event in updates} == set(enumerate(names(10_000), start=1))
    bench.client.unsubscribe(number)
    assert set(bench.feed.items) == {"t", "quiet"}
    bench.still_works()


def test_a_group_of_10_001_items_is_refused_and_leaves_no_trace() -> None:
    bench = Bench(Mode.MERGE)
    with pytest.raises(Refusal, match="More than 10000 items") as caught:
        bench.client.subscribe(" ".join(names(10_001)), "x")
    assert caught.value.reason is Reason.GROUP
    assert set(bench.feed.items) == {"t", "quiet"}
    bench.still_works()


def test_an_event_of_an_item_that_has_just_been_given_up_is_late_and_not_complained_of() -> None:
    harness = Harness()
    session, _ = harness.open()
    harness.subscribe(session, 1, "a", "x")
    session.unsubscribe(1)
    harness.feed.update("a", {"x": "1"})
    assert (harness.feed.unwanted_events, harness.source.complaints) == (1, [])
    harness.advance(10.0)
    harness.feed.update("a", {"x": "2"})
    assert [item for item, _ in harness.source.complaints] == ["a"]


def test_only_so_many_items_that_were_given_up_are_remembered() -> None:
    harness = Harness()
    session, _ = harness.open()
    for number in range(1, MAX_RELEASED + 2):
        harness.subscribe(session, number, f"i{number}", "x")
        session.unsubscribe(number)
    for number in (1, 2, MAX_RELEASED + 1):
        harness.feed.update(f"i{number}", {"x": "1"})
    assert [item for item, _ in harness.source.complaints] == ["i1"]
