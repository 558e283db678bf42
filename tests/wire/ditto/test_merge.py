from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.document import same
from penstock.wire.ditto.merge import merge, merge_at
from penstock.wire.ditto.pointer import MISSING

# Few keys, so that a patch meets what is there at every level.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)

# RFC 7396, appendix A: the original, the patch, the result.
CASES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("original", "patch", "result"), CASES)
def test_the_examples_of_the_rfc_come_out_as_printed_there(original: Any, patch: Any, result: Any) -> None:
    before = repr(original), repr(patch)
    assert same(merge(original, patch), result)
    assert (repr(original), repr(patch)) == before


def test_objects_are_merged_at_every_level() -> None:
    before = {"a": {"b": {"c": 1, "d": 2}, "e": 3}}
    assert merge(before, {"a": {"b": {"d": None, "f": 4}}}) == {"a": {"b": {"c": 1, "f": 4}, "e": 3}}


def by_the_book(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2, line by line."""
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        target = dict(target)
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = by_the_book(target.get(name), value)
        return target
    return patch


@given(VALUES, VALUES)
def test_every_patch_does_what_the_rfc_says(target: Any, patch: Any) -> None:
    assert same(merge(target, patch), by_the_book(target, patch))


@given(VALUES, VALUES)
def test_applying_a_patch_twice_is_applying_it_once(target: Any, patch: Any) -> None:
    once = merge(target, patch)
    assert same(merge(once, patch), once)


def test_a_patch_is_applied_at_a_pointer_and_null_deletes_there() -> None:
    thing = {"attributes": {"a": 1, "b": {"c": 2}}}
    assert merge_at(thing, ("attributes", "b"), {"c": None, "d": 3}) == {"attributes": {"a": 1, "b": {"d": 3}}}
    assert merge_at(thing, ("attributes", "b"), None) == {"attributes": {"a": 1}}
    assert merge_at(thing, ("attributes", "x", "y"), 5) == {"attributes": {"a": 1, "b": {"c": 2}, "x": {"y": 5}}}
    assert merge_at(thing, (), None) is MISSING
