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
        ({"type": "integer"}, 3, "3", "type"),
        ({"type": "number"}, 1.5, "1.5", "type"),
        ({"type": "null"}, None, 0, "type"),
        ({"type": "array"}, [], {}, "type"),
        ({"type": "object"}, {}, [], "type"),
        ({"type": ["string", "null"]}, None, 1, "type"),
        ({"const": 1}, 1, True, "const"),
        ({"enum": ["a", 2]}, 2, "b", "enum"),
        ({"minimum": 1}, 1, 0, "minimum"),
        ({"maximum": 1}, 1, 2, "maximum"),
        ({"exclusiveMinimum": 1}, 2, 1, "exclusiveMinimum"),
        ({"exclusiveMaximum": 1}, 0, 1, "exclusiveMaximum"),
        ({"multipleOf": 0.1}, 0.3, 0.35, "multipleOf"),
        # So near that only the rounding of fractions can be the reason.
        ({"multipleOf": 1}, 1e-9, 1.1e-9, "multipleOf"),
        ({"multipleOf": 0.1}, 0, 10**400, "multipleOf"),
        ({"multipleOf": 1e-10}, 0, 1e308, "multipleOf"),
        ({"minLength": 1}, "a", "", "minLength"),
        ({"maxLength": 1}, "a", "ab", "maxLength"),
        ({"pattern": "^a+$"}, "aa", "b", "pattern"),
        # What is longer is not matched.
        ({"pattern": "^a+$"}, "a" * 512, "a" * 513, "pattern"),
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


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, 1),
        ("integer", "x"),
        ({"type": 5}, 1),
        ({"type": []}, 1),
        ({"enum": 1}, 2),
        ({"minimum": "5"}, 1),
        ({"minimum": True}, 0),
        ({"maximum": False}, 1),
        ({"multipleOf": 0}, 1),
        ({"multipleOf": -2}, 1),
        ({"minLength": "5"}, "a"),
        ({"minLength": 1.5, "maxLength": 0.5}, "a"),
        ({"maxItems": "0"}, [1]),
        ({"pattern": 5}, "a"),
        ({"pattern": "(a+)+b"}, "a"),
        ({"required": "a"}, {}),
        ({"properties": ["a"]}, {"a": 1}),
        ({"oneOf": []}, 1),
        ({"oneOf": "a"}, 1),
        ({"items": "a"}, [1]),
    ],
)
def test_a_term_that_is_none_is_not_checked(schema: Any, value: Any) -> None:
    assert complaints(value, schema) == []


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": ["string", "null"]}, 1.5, "{type=number found, string, null expected}"),
        # What is of another type is not looked at any further.
        ({"type": "string", "minimum": 5, "const": "a"}, 1, "{type=integer found, string expected}"),
        ({"required": ["a", "b", "c"]}, {"b": 1}, "{required=[required property 'a' not found, required property 'c'"),
        ({"oneOf": [{"minimum": 0}, {"maximum": 9}]}, 5, "but 2 are valid"),
        ({"minItems": 2}, [1], "must have at least 2 items but found 1"),
        ({"maxLength": 2}, "abc", "must have at most 2 characters but found 3"),
        ({"const": "a" * 198}, "", f'the constant value "{"a" * 198}"}}'),
        ({"const": "a" * 199}, "", f'the constant value "{"a" * 199}…}}'),
    ],
)
def test_what_is_wrong_is_told(schema: Any, value: Any, text: str) -> None:
    (told,) = complaints(value, schema)
    assert text in told


def test_the_place_inside_a_value_is_told() -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    assert complaints({"a": ["x", 1]}, schema) == ["/a/1: {type=integer found, string expected}"]


def test_each_value_of_an_array_can_have_a_schema_of_its_own() -> None:
    schema = {"items": [{"type": "string"}, {"type": "integer"}]}
    assert complaints(["a", "b", "c"], schema) == ["/1: {type=string found, integer expected}"]
    assert complaints(["a"], schema) == []


def test_properties_that_are_not_named_can_have_a_schema() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert complaints({"a": "x", "b": 1}, schema) == []
    assert complaints({"a": 1, "b": "x"}, schema) == [
        "/a: {type=integer found, string expected}",
        "/b: {type=string found, integer expected}",
    ]
    assert complaints({"b": "x"}, {"additionalProperties": True}) == []


def test_complaints_and_comparisons_have_an_end() -> None:
    assert len(complaints([1] * 100, {"items": {"type": "string"}})) == MAX_COMPLAINTS == 20
    assert len(complaints([1] * 20, {"items": {"type": "string"}})) == 20
    (told,) = complaints([1] * 30_000, {"items": {"type": "integer"}})
    assert "size=" in told


def test_a_value_with_more_than_one_complaint_does_not_make_them_too_many() -> None:
    schema = {"items": {"minimum": 5, "multipleOf": 7}}
    assert len(complaints([5, 1], schema)) == 3
    assert len(complaints([5, *[1] * 10], schema)) == MAX_COMPLAINTS


def test_the_last_value_that_may_be_compared_is_compared() -> None:
    # The first comparison is that of the array.
    schema = {"items": {"type": "integer"}}
    assert complaints([*[1] * 19_998, "x"], schema) == ["/19998: {type=string found, integer expected}"]
    assert complaints([1] * 20_000, schema) == ["/19999: {size=more than 20000 values to check}"]


def test_nothing_is_compared_any_more_when_there_are_enough_complaints() -> None:
    inner = {"type": ["integer", "array"], "items": {"type": "integer"}}
    found = complaints([*["x"] * MAX_COMPLAINTS, [1] * 30_000], {"items": inner})
    assert len(found) == MAX_COMPLAINTS


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
        ({"const": 1, "default": 2, "enum": [3]}, 1),
        ({"default": 2, "enum": [3]}, 2),
        ({"enum": [3, 4], "type": "integer"}, 3),
        ({"type": "object"}, {}),
        ({"type": "object", "properties": ["r"]}, {}),
        ({"type": "integer", "minimum": 3, "maximum": 5}, 3),
        ({"type": "integer", "minimum": -3, "maximum": 5}, 0),
        ({"type": "integer", "minimum": True}, 0),
    ],
)
def test_a_property_has_an_initial_value(schema: Any, value: Any) -> None:
    assert initial_value(schema) == value
