"""Events as rows: the same as events by name, whatever the mode; what is wrong with a row, and what it does then."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.kernel.feed import MAX_LAYOUTS
from penstock.kernel.item import Mode
from penstock.kernel.ports import Event, ItemGrant
from penstock.testing import Harness

FIELDS = ("x", "y")


class Recorder:
    """Records everything, also of items that nobody is subscribed to."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, Event | None]] = []

    def wants(self, item: str) -> bool:
        return True

    def record(self, item: str, kind: str, event: Event | None) -> None:
        self.records.append((item, kind, event))


def sent(mode: Mode, fields: str, *rows: Any, as_rows: bool, **wishes: Any) -> list[str]:
    """What a client of item `t` is sent, if the rows come as they are, or as events by name."""
    harness = Harness(snapshots=False)
    session, channel = harness.open()
    harness.subscribe(session, 1, "t", fields, mode, **wishes)
    channel.take()
    for row in rows:
        if as_rows:
            harness.feed.rows(FIELDS, [row])
        else:
            harness.feed.update(row[0], dict(zip(FIELDS, row[1:], strict=True)))
        harness.turn()
    return channel.take()


ROWS = (("t", "1", "a"), ("t", "1", None), ["t", "2", "a|b"], ("t", "2", "a|b"), ("t", "", "\u20ac"))


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT, Mode.RAW])
@pytest.mark.parametrize("fields", ["x y", "y x", "y", "x z y"])
def test_rows_are_sent_as_events_by_name_are(mode: Mode, fields: str) -> None:
    expected = sent(mode, fields, *ROWS, as_rows=False)
    assert len(expected) >= 3
    assert sent(mode, fields, *ROWS, as_rows=True) == expected


def test_rows_pass_selectors_and_prefilters_as_events_do() -> None:
    for wishes in (
        {"selector": lambda event: event["x"] != "1"},
        {"granted": (ItemGrant("t", prefilter_frequency=1.0),)},
        {"unfiltered": True},
    ):
        expected = sent(Mode.MERGE, "x y", *ROWS, as_rows=False, **wishes)
        assert sent(Mode.MERGE, "x y", *ROWS, as_rows=True, **wishes) == expected


def test_rows_of_a_table_are_commands() -> None:
    harness = Harness(snapshots=False)
    session, channel = harness.open()
    harness.subscribe(session, 1, "t", "key command x", Mode.COMMAND)
    channel.take()
    harness.feed.rows(
        ("key", "command", "x"), [("t", "a", "ADD", "1"), ("t", "a", "NONE", "2"), ("t", "a", "UPDATE", "3")]
    )
    harness.turn()
    assert channel.take() == ["U,1,1,a|ADD|1", "U,1,1,|UPDATE|3"]
    assert harness.source.complaints == [("t", "command 'NONE'; expected ADD, UPDATE or DELETE")]
    assert (harness.feed.events, harness.feed.bad_events) == (3, 1)


def test_numbers_in_a_row_are_written_out() -> None:
    assert sent(Mode.MERGE, "x y", ("t", 1, 2.5), ("t", True, None), as_rows=True) == ["U,1,1,1|2.5", "U,1,1,true|#"]


@pytest.mark.parametrize(
    ("row", "item", "complaint"),
    [
        (("t", "1"), "t", "a row of 1 values; expected 2, one for each field"),
        (("t", "1", "2", "3"), "t", "a row of 3 values; expected 2, one for each field"),
        (("t", "1", b"2"), "t", "the value of field 'y' is a bytes, not text"),
        (("t", "1", "\ud800"), "t", "the value of field 'y' holds an unpaired surrogate, which UTF-8 cannot encode"),
        ((7, "1", "2"), "", "a row whose item is a int, not text"),
        ("text", "", "a row that is a str, not an item and its values"),
        ((), "", "a row that is a tuple, not an item and its values"),
        (None, "", "a row that is a NoneType, not an item and its values"),
    ],
)
def test_a_bad_row_is_dropped_and_reported_and_the_others_go_on(row: Any, item: str, complaint: str) -> None:
    harness = Harness(snapshots=False)
    session, channel = harness.open()
    harness.subscribe(session, 1, "t", "x y")
    channel.take()
    harness.feed.rows(FIELDS, [row, ("t", "fine", None)])
    harness.turn()
    assert harness.source.complaints == [(item, complaint)]
    assert channel.take() == ["U,1,1,fine|#"]
    assert (harness.feed.events, harness.feed.bad_events) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (("x", "x"), "field 'x' is named twice"),
        (("x", 7), "field name 7 is not text that UTF-8 can encode"),
        (("\ud800",), "is not text that UTF-8 can encode"),
    ],
)
def test_fields_that_cannot_be_names_are_refused(fields: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Harness().feed.rows(fields, [])


def test_rows_of_items_that_nobody_wants_are_counted_and_reported_once() -> None:
    harness = Harness(snapshots=False)
    harness.feed.rows(FIELDS, [("t", "1", "2"), ("t", "3", "4")])
    assert (harness.feed.events, harness.feed.unwanted_events) == (2, 2)
    assert harness.source.complaints == [("t", "the item has no subscribers; logged once per item")]


def test_rows_are_recorded_as_events_whether_anybody_is_subscribed_or_not() -> None:
    harness = Harness(snapshots=False)
    harness.feed.recorder = recorder = Recorder()
    session, channel = harness.open()
    harness.subscribe(session, 1, "t", "x y")
    channel.take()
    harness.feed.rows(FIELDS, [("t", "1", "2"), ("other", "3", None)])
    harness.turn()
    assert recorder.records == [("t", "update", {"x": "1", "y": "2"}), ("other", "update", {"x": "3", "y": None})]
    assert channel.take() == ["U,1,1,1|2"]
    assert harness.feed.events == 2


def test_a_list_that_is_used_again_does_not_change_what_was_published() -> None:
    harness = Harness(snapshots=False)
    session, _ = harness.open()
    harness.subscribe(session, 1, "t", "x y", Mode.DISTINCT)
    row: list[str | None] = ["t", "1", "2"]
    harness.feed.rows(FIELDS, [row])
    row[1] = "changed"
    late, others = harness.open()
    harness.subscribe(late, 1, "t", "x y", Mode.DISTINCT, snapshot=True)
    assert "U,1,1,1|2" in others.take()


def test_items_follow_adapters_that_change_their_fields_from_row_to_row() -> None:
    harness = Harness(snapshots=False)
    session, channel = harness.open()
    harness.subscribe(session, 1, "t", "f1 f2")
    channel.take()
    for number in range(MAX_LAYOUTS * 2):
        harness.feed.rows((f"f{number}",), [("t", "a")])
        harness.feed.rows(("f2", "f1"), [("t", f"{number}", "b")])
    harness.turn()
    assert channel.take()[-1] == f"U,1,1,|{MAX_LAYOUTS * 2 - 1}"
    assert len(harness.feed._layouts) <= MAX_LAYOUTS
