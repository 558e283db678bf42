"""The functions of `build/native.c` against their twins in Python, on random arguments: same results, same refusals."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.build.choice import EXTENSION
from penstock.build.compiler import Impossible, check, compile_sources
from penstock.kernel import rows
from penstock.wire import frames
from penstock.wire.tlcp import values

# The sources are compiled first, if they have not been.
pytestmark = pytest.mark.timeout(300)

# What has a form of its own on the wire, text of every width that Python stores, and halves of surrogate pairs.
ODD = [
    "",
    "#",
    "$",
    "^",
    "^4",
    "#a",
    "%",
    "|",
    "\r\n",
    "a|b%c",
    "\u00e9",
    "\u20ac|",
    "\U0001f600\n",
    "\ud800",
    "\U0001f600\udfff",
]
TEXT = st.one_of(
    st.sampled_from(ODD), st.text(max_size=8), st.sampled_from(["plain", "12.5", "x" * 60, "x" * 70 + "|", "y" * 2_000])
)
VALUES = st.one_of(st.none(), TEXT)


class Text(str):
    """Text, but not plain: it has to be converted."""


# What adapters publish by mistake, or as numbers.
ANYTHING = st.one_of(VALUES, st.integers(), st.floats(), st.booleans(), st.binary(max_size=2), st.builds(Text, TEXT))


@pytest.fixture(scope="module")
def native() -> ModuleType:
    """The module itself, whichever build these tests run in."""
    try:
        check()
    except Impossible as lack:
        pytest.skip(f"nothing to compare with: {lack}")
    [found] = compile_sources(2).glob(f"{EXTENSION}.*")
    spec = importlib.util.spec_from_file_location(EXTENSION, found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, with its type, or the type of what it raises."""
    try:
        found = function(*arguments)
    except Exception as error:
        return type(error)
    return type(found), found


@given(st.lists(st.tuples(VALUES, VALUES, st.booleans()), max_size=12))
def test_value_lists_have_the_same_bytes(native: ModuleType, fields: list[tuple[str | None, str | None, bool]]) -> None:
    new = tuple([new for new, _, _ in fields])
    old = tuple([new if is_same else old for new, old, is_same in fields])
    # Equal, but not the same object.
    copy = tuple([None if value is None else "".join(list(value)) for value in new])
    for before in (None, old, copy, new):
        assert native.value_list(new, before) == values.value_list(new, before)


@given(st.lists(VALUES, min_size=300, max_size=300))
def test_long_value_lists_have_the_same_bytes(native: ModuleType, new: list[str | None]) -> None:
    old = tuple([value if number % 9 else "old" for number, value in enumerate(new)])
    assert native.value_list(tuple(new), old) == values.value_list(tuple(new), old)
    assert native.value_list(tuple(new), None) == values.value_list(tuple(new), None)


def test_value_lists_of_different_length_are_refused_by_both(native: ModuleType) -> None:
    assert outcome(native.value_list, ("a",), ("a", "b")) is ValueError
    assert outcome(values.value_list, ("a",), ("a", "b")) is ValueError


@given(
    st.integers(0, 4), st.one_of(st.lists(ANYTHING, max_size=5), st.lists(ANYTHING, max_size=5).map(tuple), ANYTHING)
)
def test_the_same_rows_are_plain(native: ModuleType, width: int, row: Any) -> None:
    assert outcome(native.checked_row, row, width) == outcome(rows.checked_row, row, width)


@given(
    st.one_of(st.dictionaries(st.one_of(TEXT, st.integers(), st.builds(Text, TEXT)), ANYTHING, max_size=4), ANYTHING)
)
def test_the_same_events_are_plain_and_they_are_copied(native: ModuleType, event: Any) -> None:
    found = native.clean_event(event)
    assert found == rows.clean_event(event)
    assert found is None or found is not event


@given(st.lists(VALUES, min_size=1, max_size=6), st.data())
def test_rows_are_merged_and_fields_picked_alike(
    native: ModuleType, start: list[str | None], data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(0, len(start) - 1), max_size=5))
    row = ("item", *data.draw(st.lists(VALUES, min_size=len(places), max_size=len(places))))
    one, other = start.copy(), start.copy()
    native.merge_row(one, places, row)
    rows.merge_row(other, places, row)
    assert one == other
    before = data.draw(st.one_of(st.none(), st.just(tuple([other[place] for place in places])), st.just(("b",))))
    picked = native.pick(one, places, before)
    assert picked == rows.pick(other, places, before)
    assert (picked is before) == (rows.pick(other, places, before) is before)


def test_a_row_that_does_not_fit_its_places_is_refused_by_both(native: ModuleType) -> None:
    for merge in (native.merge_row, rows.merge_row):
        assert outcome(merge, [None], [0], ("item", "a", "b")) is ValueError
        assert outcome(merge, [None], [1], ("item", "a")) is IndexError
    for pick in (native.pick, rows.pick):
        assert outcome(pick, [None], [1], None) is IndexError


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_frames_have_the_same_bytes(native: ModuleType, size: int) -> None:
    assert native.text_frame(b"x" * size) == frames.text_frame(b"x" * size)


def test_nothing_but_the_right_kind_of_argument_is_accepted(native: ModuleType) -> None:
    for function in ("value_list", "checked_row", "merge_row", "pick"):
        assert outcome(getattr(native, function), 1) is TypeError
        assert outcome(getattr(native, function), 1, None, 3) is TypeError
    assert outcome(native.text_frame, "text") is TypeError
    assert outcome(native.value_list, (1,), None) is TypeError


def test_it_keeps_no_reference_to_what_it_is_given(native: ModuleType) -> None:
    """A counter that goes wrong crashes much later, and somewhere else."""
    value = "".join(["a text", " of its own"])
    row, old, places = ["item", value, None], ("b", "b"), [0, 1]
    merged: list[str | None] = [None, None]
    tracked: list[object] = [value, row, old, places, merged]
    before = [sys.getrefcount(each) for each in tracked]
    for _ in range(1_000):
        native.value_list((value, value), old)
        native.checked_row(row, 2)
        native.clean_event({"a": value})
        native.merge_row(merged, places, ("item", value, value))
        native.pick(merged, places, old)
        native.pick(merged, places, (value, value))
        native.merge_row(merged, places, ("item", None, None))
        native.text_frame(b"payload")
    assert [sys.getrefcount(each) for each in tracked] == before
