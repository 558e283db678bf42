from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.document import same
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.pointer import (
    MISSING,
    BadPointer,
    check_keys,
    delete,
    get,
    keys_of,
    parse_pointer,
    print_pointer,
    put,
)

from .values import KEYS, OBJECTS, VALUES

POINTERS = st.lists(KEYS, max_size=5).map(tuple)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("/", ()),
        ("", ()),
        ("/attributes/location", ("attributes", "location")),
        ("attributes/location", ("attributes", "location")),
        ("/attributes/", ("attributes",)),
        ("/a~0b", ("a~b",)),
        ("/a~1b", ("a/b",)),
        ("/a~01b", ("a~1b",)),
        ("/a~2b~", ("a~2b~",)),
    ],
)
def test_a_pointer_is_read_as_its_keys(text: str, keys: tuple[str, ...]) -> None:
    assert parse_pointer(text) == keys_of(text) == keys


@given(POINTERS)
def test_a_pointer_that_is_printed_is_parsed_again(pointer: tuple[str, ...]) -> None:
    assert parse_pointer(print_pointer(pointer)) == pointer


@pytest.mark.parametrize("text", ["//", "/a//b", "a//", "/x" * 1000])
def test_a_pointer_with_consecutive_slashes_or_too_many_is_invalid(text: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_pointer(text)
    assert (caught.value.status, caught.value.code) == (400, "json.pointer.invalid")
    with pytest.raises(BadPointer) as bad:
        keys_of(text)
    assert str(bad.value) == text


@given(VALUES, POINTERS, VALUES)
def test_what_is_put_is_found_and_what_is_deleted_is_not(document: Any, pointer: tuple[str, ...], value: Any) -> None:
    changed = put(document, pointer, value)
    assert same(get(changed, pointer), value)
    assert get(delete(changed, pointer), pointer) is MISSING


@given(OBJECTS, POINTERS.filter(bool), VALUES)
def test_the_document_before_is_left_alone(document: Any, pointer: tuple[str, ...], value: Any) -> None:
    before = repr(document)
    put(document, pointer, value)
    delete(document, pointer)
    assert repr(document) == before


@given(OBJECTS, KEYS, KEYS, VALUES)
def test_what_is_beside_stays(document: Any, key: str, other: str, value: Any) -> None:
    if key != other:
        assert get(put(document, (key,), value), (other,)) is get(document, (other,))
        assert get(delete(document, (key,)), (other,)) is get(document, (other,))


def test_null_is_a_value_and_not_missing() -> None:
    assert get({"a": None}, ("a",)) is None
    assert get({"a": None}, ("a", "b")) is MISSING
    assert get({"a": [1]}, ("a", "0")) is MISSING


def test_what_is_missing_on_the_way_is_made_and_what_is_no_object_gives_way() -> None:
    assert put({}, ("a", "b"), 1) == {"a": {"b": 1}}
    assert put({"a": 5, "c": 6}, ("a", "b"), 1) == {"a": {"b": 1}, "c": 6}


def test_deleting_what_is_not_there_changes_nothing() -> None:
    document = {"a": {"b": 1}}
    assert delete(document, ("x",)) is document
    assert delete(document, ("a", "x")) == document
    assert delete(document, ("a", "b", "c")) == document


# The first and the last of the control characters, of both kinds.
CONTROL = [{character: 1} for character in "\x00\x1f\x7f\x80\x9f"]


@pytest.mark.parametrize("value", [{"a/b": 1}, {"": 1}, {"a": [{"b\n": 1}]}, *CONTROL])
def test_keys_without_a_pointer_of_dittos_are_refused(value: Any) -> None:
    with pytest.raises(DittoError) as caught:
        check_keys(value)
    assert (caught.value.status, caught.value.code) == (400, "json.key.invalid")


def test_other_keys_are_not() -> None:
    check_keys({"größe": [{"a b": {"~": 1}}], "x.y-z": None})
    check_keys(dict.fromkeys(" ~\xa0"))
