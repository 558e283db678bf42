"""What journaled events become as rows of a typed table, and what goes to its side table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.history.catalog import _LEAVES, TWIN_KINDS
from penstock.history.projection import Projection, pointer_of, pointer_parts
from penstock.history.typed_table import TableColumn, TypedTable
from penstock.journal.record import SCHEMA

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

READINGS = TypedTable(
    "plant.readings",
    "PLANT",
    "READINGS",
    (
        TableColumn("machine", "string", "machine", is_part=True),
        TableColumn("celsius", "double", "celsius"),
        TableColumn("note", "string", "a note"),
    ),
    item="reading.{machine}",
)


def batch(*events: tuple[str, str | None] | tuple[str, str | None, str, str]) -> Any:
    """Entity and value, perhaps kind and path; each with a sequence of its own."""
    rows = []
    for number, (entity, value, *rest) in enumerate(events, start=1):
        kind, path = rest or ("update", "")
        rows.append(
            {
                "sequence": number,
                "entity": entity,
                "revision": number + 10,
                "timestamp": NOON,
                "kind": kind,
                "path": path,
                "value": value,
                "headers": None,
            }
        )
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def rows(table: TypedTable, *events: Any) -> list[dict[str, Any]]:
    made = Projection(table).rows(batch(*events))
    assert made.schema.equals(table.schema)
    found: list[dict[str, Any]] = made.to_pylist()
    return found


def test_fields_are_columns_with_types_beside_those_that_every_table_has() -> None:
    value = '{"celsius":"61.5","a note":"hot","more":"1"}'
    assert rows(READINGS, ("PLANT/READINGS/reading.press", value)) == [
        {
            "time": NOON,
            "item": "reading.press",
            "revision": 11,
            "machine": "press",
            "celsius": 61.5,
            "note": "hot",
            "sequence": 1,
            "received": NOON,
            "kind": "update",
            "misfits": 0,
        }
    ]


def test_a_field_that_an_event_does_not_have_is_null() -> None:
    found = rows(READINGS, ("PLANT/READINGS/reading.a", '{"celsius":null}'), ("PLANT/READINGS/reading.b", None))
    assert [(row["machine"], row["celsius"], row["note"], row["misfits"]) for row in found] == [
        ("a", None, None, 0),
        ("b", None, None, 0),
    ]


def test_items_of_other_patterns_and_adapters_are_no_rows() -> None:
    names = ("PLANT/READINGS/reading.", "PLANT/READINGS/xreading.a", "PLANT/READINGS2/reading.a", "PLANT/READINGS#q")
    assert rows(READINGS, *((name, "{}") for name in names)) == []


@pytest.mark.parametrize(
    ("pattern", "item", "parts"),
    [
        ("{a}.{b}", "x.y.z", ("x", "y.z")),
        ("{a}-{b}", "-x-y", ("-x", "y")),
        ("{a}*", "xyz", ("x",)),
        ("a?{b}", "a/c", ("c",)),
        ("a.{b}.", "a.x..", ("x.",)),
        ("({a})", "(\n)", ("\n",)),
        ("{a}.{b}", ".y", None),
        ("a.{b}", "A.x", None),
    ],
)
def test_parts_of_an_item_are_as_short_as_the_rest_allows(
    pattern: str, item: str, parts: tuple[str, ...] | None
) -> None:
    found = TypedTable("s.t", "S", "A", (), item=pattern).item_expression().fullmatch(item)
    assert (None if found is None else found.groups()) == parts


def test_a_value_that_does_not_fit_is_null_counted_and_in_the_side_table() -> None:
    events = (
        ("PLANT/READINGS/reading.a", '{"celsius":"hot","a note":"x"}'),
        ("PLANT/READINGS/reading.b", "no JSON"),
        ("PLANT/READINGS/reading.c", '["celsius"]'),
        ("PLANT/READINGS/reading.d", '{"celsius":"1"}'),
    )
    found = rows(READINGS, *events)
    assert [(row["machine"], row["celsius"], row["note"], row["misfits"]) for row in found] == [
        ("a", None, "x", 1),
        ("b", None, None, 1),
        ("c", None, None, 1),
        ("d", 1.0, None, 0),
    ]
    side = rows(READINGS.side(), *events)
    assert [
        (row["item"], row["revision"], row["column_name"], row["column_type"], row["value"], row["reason"])
        for row in side
    ] == [
        ("reading.b", 12, None, None, "no JSON", "the value is not JSON"),
        ("reading.c", 13, None, None, '["celsius"]', "the value is not a JSON object"),
        ("reading.a", 11, "celsius", "double", "hot", "the value is not a number"),
    ]
    assert [row["sequence"] for row in side] == [2, 3, 1]


def test_a_part_of_the_items_name_may_have_a_type_and_may_not_fit() -> None:
    table = TypedTable("s.t", "S", "A", (TableColumn("n", "int", "n", is_part=True),), item="m{n}")
    assert [(row["n"], row["misfits"]) for row in rows(table, ("S/A/m7", "{}"), ("S/A/mx", "{}"))] == [
        (7, 0),
        (None, 1),
    ]
    assert [row["value"] for row in rows(table.side(), ("S/A/m7", "{}"), ("S/A/mx", "{}"))] == ["x"]


def test_the_time_is_that_of_the_event_where_a_field_has_it() -> None:
    table = TypedTable("s.t", "S", "A", (), time="at")
    events = (("S/A/a", '{"at":"2026-01-30T06:00:00Z"}'), ("S/A/b", '{"at":"early"}'), ("S/A/c", "{}"))
    found = rows(table, *events)
    assert [row["time"] for row in found] == [datetime(2026, 1, 30, 6, tzinfo=UTC), None, None]
    assert {row["received"] for row in found} == {NOON}
    assert [(row["column_name"], row["value"]) for row in rows(table.side(), *events)] == [("time", "early")]


# -- things -----------------------------------------------------------------------------------------------------------

POWER = TypedTable(
    "ditto.power",
    "DITTO",
    "THINGS",
    (
        TableColumn("watts", "double", "/attributes/power/watts"),
        TableColumn("on", "boolean", "/features/lamp/properties/on"),
    ),
    kinds=TWIN_KINDS,
    shape="changes",
)


def thing(kind: str, path: str, value: str | None) -> tuple[str, str | None, str, str]:
    return ("DITTO/THINGS/plant:lathe", value, kind, path)


def test_a_change_of_a_thing_has_what_it_says_of_each_pointer() -> None:
    found = rows(
        POWER,
        thing("created", "/", '{"attributes":{"power":{"watts":7.5}},"features":{"lamp":{"properties":{"on":true}}}}'),
        thing("modified", "/attributes/power/watts", "8"),
        thing("merged", "/attributes", '{"power":{"watts":9,"amps":1}}'),
        thing("modified", "/features/lamp/properties", '{"on":false}'),
        thing("modified", "/attributes/power/watts/deeper", "1"),
        thing("merged", "/attributes/power", '{"watts":"many"}'),
        thing("deleted", "/attributes", None),
    )
    assert [(row["item"], row["watts"], row["on"], row["misfits"]) for row in found] == [
        ("plant:lathe", 7.5, True, 0),
        ("plant:lathe", 8.0, None, 0),
        ("plant:lathe", 9.0, None, 0),
        ("plant:lathe", None, False, 0),
        ("plant:lathe", None, None, 0),
        ("plant:lathe", None, None, 1),
        ("plant:lathe", None, None, 0),
    ]


def leaves(root: str, *events: Any) -> list[tuple[int, str, str | None, float | None]]:
    table = TypedTable("ditto.x", "DITTO", "THINGS", _LEAVES, kinds=TWIN_KINDS, shape="leaves", root=root)
    return [(row["sequence"], row["path"], row["value"], row["number"]) for row in rows(table, *events)]


def test_attributes_are_rows_by_path() -> None:
    events = (
        thing("created", "/", '{"policyId":"p:q","attributes":{"a":{"b/c":1,"d":"x"},"e":[1]},"features":{"f":{}}}'),
        thing("merged", "/attributes/a", '{"d":null}'),
        thing("modified", "/attributes", "{}"),
        thing("deleted", "/attributes/e", None),
        thing("deleted", "/", None),
        thing("modified", "/features/f", '{"properties":{"on":true}}'),
    )
    assert leaves("/attributes", *events) == [
        (1, "/attributes/a/b~1c", "1", 1.0),
        (1, "/attributes/a/d", "x", None),
        (1, "/attributes/e", "[1]", None),
        (2, "/attributes/a/d", None, None),
        (3, "/attributes", "{}", None),
        (4, "/attributes/e", None, None),
        (5, "/attributes", None, None),
    ]


def test_features_have_their_name() -> None:
    columns = (TableColumn("feature", "string", "feature"), *_LEAVES)
    table = TypedTable("ditto.features", "DITTO", "THINGS", columns, kinds=TWIN_KINDS, shape="leaves", root="/features")
    found = rows(
        table,
        thing("created", "/", '{"features":{"lamp":{"properties":{"on":true}},"fan":{"properties":{"rpm":50}}}}'),
        thing("modified", "/features/fan/properties/rpm", "60"),
    )
    assert [(row["feature"], row["path"], row["value"], row["number"]) for row in found] == [
        ("lamp", "/features/lamp/properties/on", "true", None),
        ("fan", "/features/fan/properties/rpm", "50", 50.0),
        ("fan", "/features/fan/properties/rpm", "60", 60.0),
    ]


def test_a_change_that_is_not_json_is_one_row_and_one_misfit() -> None:
    table = TypedTable("ditto.x", "DITTO", "THINGS", _LEAVES, kinds=TWIN_KINDS, shape="leaves")
    events = (thing("modified", "/attributes/a", "1"), thing("modified", "/", "{"))
    assert [(row["path"], row["misfits"]) for row in rows(table, *events)] == [("/attributes/a", 0), ("", 1)]
    assert [(row["sequence"], row["reason"]) for row in rows(table.side(), *events)] == [(2, "the value is not JSON")]


def test_a_document_may_be_deep() -> None:
    depth = 500
    value = '{"a":' * depth + "1" + "}" * depth
    assert leaves("/attributes", thing("modified", "/attributes", value)) == [
        (1, "/attributes" + "/a" * depth, "1", 1.0)
    ]


@pytest.mark.parametrize("steps", [(), ("a",), ("a/b", "c~d"), ("~1",)])
def test_pointers_can_be_read_as_they_were_written(steps: tuple[str, ...]) -> None:
    assert pointer_parts(pointer_of(steps)) == steps
