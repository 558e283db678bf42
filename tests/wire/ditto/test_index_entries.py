from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.index_entries import (
    MAX_PATH,
    MAX_TEXT,
    AllOf,
    Entry,
    KeyRange,
    RangeTree,
    entries_of,
    for_search,
    key_of,
    path_of,
    ranges_of,
)
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.rql import parse_rql
from tests.wire.ditto.values import OBJECTS, TEXT

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")


def holds(node: RangeTree | None, entries: set[Entry]) -> bool:
    """Whether an index with these entries of a document proposes it."""
    if node is None:
        return True
    if isinstance(node, KeyRange):
        if node.exact:
            return (node.path, node.low) in entries
        return any(path == node.path and node.low <= key < node.high for path, key in entries)
    return (all if isinstance(node, AllOf) else any)(holds(each, entries) for each in node.nodes)


@given(NUMBERS, NUMBERS)
def test_keys_of_numbers_are_ordered_as_the_numbers_are(one: float, other: float) -> None:
    if float(one) < float(other):
        assert key_of(one) < key_of(other)
    if float(one) == float(other):
        assert key_of(one) == key_of(other)


@given(TEXT, TEXT)
def test_keys_of_texts_are_ordered_as_the_texts_are(one: str, other: str) -> None:
    assert (key_of(one) < key_of(other)) == (one < other)


def test_kinds_are_ordered_and_never_mixed() -> None:
    keys = [key_of(value) for value in (None, False, True, -1e308, 0, 1e308, "", "z")]
    assert keys == sorted(keys)
    assert key_of(-0.0) == key_of(0)


def test_entries_have_every_value_with_its_path_and_arrays_at_the_path_of_the_array() -> None:
    document = {"attributes": {"a/b": [1, "x", {"c": True}]}, "features": {"lamp": {"properties": {"on": None}}}}
    paths = {path for path, _ in entries_of(document)}
    assert paths == {
        "/attributes",
        "/attributes/a~1b",
        "/attributes/a~1b/c",
        "/features",
        "/features/lamp",
        "/features/lamp/properties",
        "/features/lamp/properties/on",
        "/features/*",
        "/features/*/properties",
        "/features/*/properties/on",
    }
    assert ("/attributes/a~1b", key_of(1)) in entries_of(document)
    assert ("/attributes/a~1b/c", key_of(True)) in entries_of(document)


@pytest.mark.parametrize(
    "filter",
    [
        'eq(attributes/a,"x")',
        "eq(attributes/a,null)",
        "gt(attributes/a,5)",
        "le(attributes/a,5)",
        'lt(attributes/a,"m")',
        'ge(attributes/a,"m")',
        "ne(attributes/a,5)",
        "in(attributes/a,5,6,true)",
        'like(attributes/a,"x*")',
        'like(attributes/a,"xyz")',
        'like(attributes/a,"?yz")',
        'ilike(attributes/a,"X*")',
        "exists(attributes/a)",
        "empty(attributes/a)",
        "not(exists(attributes/a))",
        "and(exists(attributes/a),not(eq(attributes/a,5)))",
        "or(eq(attributes/a,5),exists(attributes/b))",
        "or(eq(attributes/a,5),not(exists(attributes/b)))",
        "lt(attributes/a,time:now)",
        "exists(features/*/properties/on)",
    ],
)
@pytest.mark.parametrize(
    "document",
    [
        {"attributes": {"a": value}}
        for value in (None, True, False, 0, 5, 6, 5.5, "x", "xyz", "m", "z", "", [], {}, [5, "x"], {"b": 1})
    ]
    + [{}, {"attributes": {"b": 5}}, {"features": {"f": {"properties": {"on": False}}}}],
)
def test_what_matches_is_in_the_ranges_of_the_filter(filter: str, document: Json) -> None:
    query = for_search(parse_rql(filter))
    if matches(query, document, 0):
        assert holds(ranges_of(query), entries_of(document))


@given(OBJECTS, st.sampled_from(COMPARISONS), st.sampled_from(["a", "b"]), NUMBERS | TEXT | st.booleans() | st.none())
def test_whatever_matches_is_in_the_ranges(attributes: dict[str, Any], operator: str, name: str, value: Json) -> None:
    from penstock.wire.ditto.rql import Comparison

    document = {"attributes": {**attributes, "a": value, "b": [value, attributes]}}
    query = for_search(Comparison(operator, f"attributes/{name}", value))
    if matches(query, document, 0):
        assert holds(ranges_of(query), entries_of(document))


def test_long_texts_and_paths_are_found_although_they_are_cut() -> None:
    long = "x" * (MAX_TEXT + 5)
    document = {"attributes": {"a": long + "y", "k" * 500: 1}}
    assert holds(ranges_of(parse_rql(f'eq(attributes/a,"{long}y")')), entries_of(document))
    assert holds(ranges_of(parse_rql(f'gt(attributes/a,"{long}x")')), entries_of(document))
    assert holds(ranges_of(parse_rql(f'lt(attributes/a,"{long}z")')), entries_of(document))
    assert holds(ranges_of(parse_rql(f"eq(attributes/{'k' * 500},1)")), entries_of(document))
    assert not holds(ranges_of(parse_rql(f"eq(attributes/{'k' * 499}j,1)")), entries_of(document))
    assert len(path_of("/" + "k" * 5000)) < MAX_PATH + 40


def test_only_a_filter_with_a_condition_that_must_be_met_narrows_a_search() -> None:
    assert ranges_of(parse_rql("not(eq(attributes/a,1))")) is None
    assert ranges_of(parse_rql("or(eq(attributes/a,1),not(eq(attributes/a,2)))")) is None
    assert isinstance(ranges_of(parse_rql("and(eq(attributes/a,1),not(eq(attributes/a,2)))")), KeyRange)


def test_ne_finds_only_what_has_the_property() -> None:
    query = for_search(parse_rql("ne(attributes/a,1)"))
    assert not matches(query, {"attributes": {}}, 0)
    assert matches(query, {"attributes": {"a": 2}}, 0)
    assert matches(for_search(parse_rql("or(not(ne(attributes/a,1)),eq(attributes/b,1))")), {}, 0)
