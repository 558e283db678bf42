"""Values and the data schemas that describe them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.wot.schema import MAX_COMPLAINTS, complaints
from penstock.twins.wot.skeleton import initial_value


@pytest.mark.parametrize(
    ("schema", "good", "bad", "term"),
    [
        ({"type": "boolean"}, True, 1, "type"),
        ({"type": "integer"}, 3.0, 3.5, "type"),
        ({"type": "number"}, 1, True, "type"),
        ({"type": "string"}, "", None, "type"),
        ({"const": 1}, 1, True, "const"),
        ({"enum": ["a", 2]}, 2, "b", "enum"),
        ({"minimum": 1}, 1, 0, "minimum"),
        ({"maximum": 1}, 1, 2, "maximum"),
        ({"exclusiveMinimum": 1}, 2, 1, "exclusiveMinimum"),
        ({"exclusiveMaximum": 1}, 0, 1, "exclusiveMaximum"),
        ({"multipleOf": 0.1}, 0.3, 0.35, "multipleOf"),
        ({"minLength": 1}, "a", "", "minLength"),
        ({"maxLength": 1}, "a", "ab", "maxLength"),
        ({"pattern": "^a+$"}, "aa", "b", "pattern"),
        ({"minItems": 1}, [0], [], "minItems"),
        ({"maxItems": 0}, [], [1], "maxItems"),
        ({"required": ["a"]}, {"a": 1}, {}, "required"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}, "additionalProperties"),
        ({"oneOf": [{"type": "string"}, {"minimum": 5}]}, 6, 1, "oneOf"),
    ],
)
def test_a_term_of_a_schema_is_checked(schema: Any, good: Any, bad: Any, term: str) -> None:
    assert complaints(good, schema) == []
    (told,) = complaints(bad, schema)
    assert told.startswith(f": {{{term}=")


def test_the_place_inside_a_value_is_told() -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    assert complaints({"a": ["x", 1]}, schema) == ["/a/1: {type=integer found, string expected}"]


def test_complaints_and_comparisons_have_an_end() -> None:
    assert len(complaints([1] * 100, {"items": {"type": "string"}})) == MAX_COMPLAINTS
    (told,) = complaints([1] * 30_000, {"items": {"type": "integer"}})
    assert "size=" in told


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "default": 4}, 4),
        ({"const": "c"}, "c"),
        ({"enum": ["e"]}, "e"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "number", "maximum": -1}, -1.0),
        ({"type": "object", "properties": {"r": {"type": "integer"}}}, {"r": 0}),
        ({"type": "array"}, []),
        ({"type": "string"}, ""),
        ({"type": "boolean"}, False),
        ({}, None),
        (1, None),
        ({"enum": [], "type": "integer"}, 0),
        ({"enum": 2, "type": "string"}, ""),
    ],
)
def test_a_property_has_an_initial_value(schema: Any, value: Any) -> None:
    assert initial_value(schema) == value
