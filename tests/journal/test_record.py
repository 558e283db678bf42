from __future__ import annotations

from typing import Any

import pytest

from penstock.journal.errors import BadRecord
from penstock.journal.record import SCHEMA, Columns, arrays, numbered
from tests.journal.world import NOON


def test_rows_become_typed_columns() -> None:
    given = Columns()
    given.add("stock/1", NOON, "update", "", '{"price":"1.5"}')
    given.add("thing:2", NOON + 1, "delete", "/features", None, '{"origin":"x"}')
    batch = numbered(arrays(given), 7, [3, 1])
    assert batch.schema == SCHEMA
    batch.validate(full=True)
    assert [{**row, "timestamp": row["timestamp"].timestamp()} for row in batch.to_pylist()] == [
        {
            "sequence": 7,
            "entity": "stock/1",
            "revision": 3,
            "timestamp": NOON / 1e6,
            "kind": "update",
            "path": "",
            "value": '{"price":"1.5"}',
            "headers": None,
        },
        {
            "sequence": 8,
            "entity": "thing:2",
            "revision": 1,
            "timestamp": (NOON + 1) / 1e6,
            "kind": "delete",
            "path": "/features",
            "value": None,
            "headers": '{"origin":"x"}',
        },
    ]


def test_only_a_value_and_headers_may_be_missing() -> None:
    assert [each.name for each in SCHEMA if each.nullable] == ["value", "headers"]


@pytest.mark.parametrize("text", ["", "\0", "ß€😀", "a\r\nb", "x" * 100_000])
def test_any_text_comes_back_as_it_was(text: str) -> None:
    given = Columns([text or "e"], [0], [text], [text], [text], [text])
    batch = numbered(arrays(given), 1, [1])
    assert [batch.column(name)[0].as_py() for name in ("kind", "path", "value", "headers")] == [text] * 4


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"entities": ["a", ""]}, "column entity holds an empty name at 1"),
        ({"entities": ["a", None]}, "column entity holds None at 1"),
        ({"entities": ["a", 5]}, "column entity holds 5 at 1; it must be string"),
        ({"kinds": [None, "update"]}, "column kind holds None at 0"),
        ({"paths": ["", b"\xff"]}, "column path holds b'.xff' at 1"),
        ({"values": ["x", "\ud800"]}, "column value holds '.ud800' at 1; it must be string"),
        ({"values": [["x"], None]}, r"column value holds \['x'\] at 0"),
        ({"timestamps": [1, "now"]}, "column timestamp holds 'now' at 1; it must be timestamp"),
        ({"timestamps": [1, 2**63]}, "column timestamp holds 9223372036854775808 at 1"),
        ({"timestamps": [1]}, "column timestamp has 1 values; entity has 2"),
        ({"headers": [None, None, None]}, "column headers has 3 values; entity has 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_column_value_and_place(changed: dict[str, Any], complaint: str) -> None:
    good: dict[str, Any] = {
        "entities": ["a", "b"],
        "timestamps": [1, 2],
        "kinds": ["update", "update"],
        "paths": ["", ""],
        "values": ["x", None],
        "headers": [None, None],
    }
    with pytest.raises(BadRecord, match=complaint):
        arrays(Columns(**{**good, **changed}))
