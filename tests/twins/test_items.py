from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.ditto.item_events import event_of_item
from penstock.twins.history import PastMoment
from penstock.twins.items import base_of, change_of_item, changes_of_item, fields_in, fields_told
from penstock.twins.record import Record
from penstock.wire.ditto.document import decode
from penstock.wire.ditto.items import ItemName, thing_of_item
from penstock.wire.ditto.pointer import print_pointer
from penstock.wire.ditto.topic import Criterion, thing_topic
from tests.twins.world import NOON, SECOND

THING = thing_of_item(ItemName("DEMO", "STOCKS", "item1"))
assert THING is not None
ID = str(THING)
TOPIC = thing_topic(THING.namespace, THING.name, Criterion.EVENTS)


def record(revision: int, kind: str, fields: dict[str, Any] | None) -> Record:
    value = None if fields is None else json.dumps(fields)
    return Record(revision + 7, "DEMO/STOCKS/item1", revision, NOON + revision * SECOND, kind, "", value)


@pytest.mark.parametrize(
    ("revision", "kind", "fields", "expected"),
    [
        (1, "snapshot", {"a": "1", "b": None}, ("created", "/", {"thingId": ID, "attributes": {"a": "1"}})),
        (1, "update", {"a/b": "1"}, ("created", "/", {"thingId": ID, "attributes": {"a/b": "1"}})),
        (2, "update", {"a": "2", "b": None}, ("merged", "/attributes", {"a": "2", "b": None})),
        (2, "snapshot", {"a": "2"}, ("merged", "/attributes", {"a": "2"})),
        (2, "update", {}, ("merged", "/attributes", {})),
        (
            1,
            "update",
            {"key": "k", "command": "ADD", "p": "1"},
            ("created", "/", {"thingId": ID, "features": {"k": {"properties": {"p": "1"}}}}),
        ),
        (
            2,
            "update",
            {"key": "", "command": "UPDATE", "p": None},
            ("merged", "/features", {"": {"properties": {"p": None}}}),
        ),
        (2, "update", {"key": "a/b", "command": "DELETE"}, ("merged", "/features", {"a/b": None})),
        # Fields that happen to have these names are no rows.
        (2, "update", {"key": "k", "command": "go"}, ("merged", "/attributes", {"key": "k", "command": "go"})),
        (2, "update", {"key": None, "command": "ADD"}, ("merged", "/attributes", {"key": None, "command": "ADD"})),
        (3, "clear", None, ("modified", "/", {"thingId": ID})),
        (3, "batch", {"batch": "7"}, None),
        (3, "update", None, None),
        (3, "update", {"a": 5}, None),
    ],
)
def test_a_record_of_an_item_is_an_event_of_its_thing(
    revision: int, kind: str, fields: dict[str, Any] | None, expected: tuple[str, str, Any] | None
) -> None:
    event = event_of_item(TOPIC, record(revision, kind, fields))
    if expected is None:
        assert event is None
        return
    assert event is not None
    envelope = decode(event.envelope().to_bytes())
    assert envelope["topic"] == f"DEMO.STOCKS/item1/things/twin/events/{expected[0]}"
    assert (envelope["path"], envelope["value"]) == expected[1:]
    assert (envelope["revision"], envelope["timestamp"]) == (revision, f"2023-11-14T22:13:2{revision}Z")
    partial = event.partial()
    assert partial["thingId"] == ID
    assert partial["_revision"] == revision


@pytest.mark.parametrize(
    ("revision", "fields", "told"),
    [
        # Only what is not null is in a thing that is new.
        (1, {"a": "1", "b": None}, {"a"}),
        (2, {"a": "1", "b": None}, {"a", "b"}),
        (1, {"key": "k", "command": "ADD", "p": "1"}, {"key", "command", "p"}),
        (2, {"key": "k", "command": "ADD", "p": "1"}, {"key", "command", "p"}),
        (2, {"key": "k", "command": "DELETE"}, {"key", "command"}),
        (2, {}, set()),
    ],
)
def test_the_event_of_a_thing_tells_which_fields_of_its_item_it_is_about(
    revision: int, fields: dict[str, str | None], told: set[str]
) -> None:
    given = record(revision, "update", fields)
    change = change_of_item(ID, given)
    assert change is not None
    assert set(fields_told(print_pointer(change.pointer), json.dumps(change.value))) == told
    assert fields_in(given) == list(fields)


def test_an_event_without_a_value_tells_no_fields() -> None:
    assert fields_told("/attributes", None) == []
    assert fields_in(record(3, "clear", None)) == []


def fold(records: list[Record], moment: PastMoment) -> dict[str, Any] | None:
    twin = moment.fold(changes_of_item(ID, records), base_of(ID))
    return None if twin is None else twin.document


def test_the_history_of_an_item_is_that_of_its_thing() -> None:
    records = [
        record(1, "snapshot", {"bid": "3", "ask": "4"}),
        record(2, "update", {"bid": "2"}),
        record(3, "update", {"ask": None}),
        record(4, "clear", None),
        record(5, "update", {"bid": "1"}),
    ]
    assert fold(records, PastMoment(revision=2)) == {"thingId": ID, "attributes": {"bid": "2", "ask": "4"}}
    assert fold(records, PastMoment(revision=3)) == {"thingId": ID, "attributes": {"bid": "2"}}
    assert fold(records, PastMoment(revision=4)) == {"thingId": ID}
    assert fold(records, PastMoment(before=(NOON + 3 * SECOND) * 1000)) == {
        "thingId": ID,
        "attributes": {"bid": "2", "ask": "4"},
    }
    # What retention dropped is unknown, what came since is not.
    assert fold(records[1:], PastMoment(revision=2)) == {"thingId": ID, "attributes": {"bid": "2"}}
    assert fold(records, PastMoment(before=NOON * 1000)) is None


FIELDS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.none() | st.text(max_size=3), max_size=3)
ROWS = st.tuples(st.sampled_from(["k", "l"]), st.sampled_from(["ADD", "UPDATE", "DELETE"]), FIELDS)


@given(st.lists(FIELDS | st.just(None), max_size=10))
def test_attributes_are_the_fields_as_they_are(events: list[dict[str, str | None] | None]) -> None:
    fields: dict[str, str | None] = {}
    records = []
    for number, event in enumerate(events, 1):
        fields = {} if event is None else {**fields, **event}
        records.append(record(number, "clear" if event is None else "update", event))
    expected = {name: value for name, value in fields.items() if value is not None}
    document = fold(records, PastMoment(revision=len(events)))
    assert (document or {}).get("attributes", {}) == expected


@given(st.lists(ROWS, max_size=10))
def test_features_are_the_rows_as_they_are(events: list[tuple[str, str, dict[str, str | None]]]) -> None:
    rows: dict[str, dict[str, str | None]] = {}
    records = []
    for number, (key, command, fields) in enumerate(events, 1):
        if command == "DELETE":
            rows.pop(key, None)
        else:
            rows[key] = {**rows.get(key, {}), **fields}
        records.append(record(number, "update", {"key": key, "command": command, **fields}))
    document = fold(records, PastMoment(revision=len(events)))
    found = {key: feature["properties"] for key, feature in (document or {}).get("features", {}).items()}
    assert found == {key: {n: v for n, v in row.items() if v is not None} for key, row in rows.items()}


def test_what_is_no_record_of_an_item_is_no_change() -> None:
    odd = Record(1, "e", 1, NOON, "update", "", "{not json")
    assert change_of_item(ID, odd) is None
