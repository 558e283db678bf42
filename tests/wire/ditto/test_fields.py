from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.fields import MAX_DEPTH, MAX_LENGTH, MAX_POINTERS, Fields, parse_fields
from penstock.wire.ditto.pointer import MISSING, get, print_pointer

from .values import OBJECTS

THING: dict[str, Any] = {
    "thingId": "a:b",
    "attributes": {"x": 1, "y": {"z": 2, "w": None}, "list": [{"q": 1}]},
    "features": {
        "lamp": {"properties": {"on": True, "level": 5}},
        "fan": {"definition": ["n:n:1"], "properties": {"on": False}},
    },
    "_revision": 3,
}


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ("thingId", ["/thingId"]),
        ("/thingId", ["/thingId"]),
        (
            "thingId,attributes(acceleration,someData(foo,bar/baz)),features/key",
            [
                "/thingId",
                "/attributes/acceleration",
                "/attributes/someData/foo",
                "/attributes/someData/bar/baz",
                "/features/key",
            ],
        ),
        ("a, b ,a", ["/a", "/b"]),
        ("features/*/properties", ["/features/*/properties"]),
    ],
)
def test_a_selector_is_a_list_of_pointers(text: str, pointers: list[str]) -> None:
    assert [print_pointer(each) for each in parse_fields(text).pointers] == pointers


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        ",a",
        "a(b",
        "a)b",
        "a(b))",
        "(a)",
        "a()",
        "a(b)c",
        "a(b)(c)",
        "a//b",
        "/",
        "a(b,)",
        ")(",
        " ",
        "x" * (MAX_LENGTH + 1),
        "a(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1),
        ",".join(f"f{n}" for n in range(MAX_POINTERS + 1)),
    ],
)
def test_a_bad_selector_is_error_400(text: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_fields(text)
    assert (caught.value.status, caught.value.code) == (400, "json.fieldselector.invalid")


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("thingId", {"thingId": "a:b"}),
        ("attributes/x", {"attributes": {"x": 1}}),
        ("attributes(x,y/z)", {"attributes": {"x": 1, "y": {"z": 2}}}),
        ("attributes/y/w", {"attributes": {"y": {"w": None}}}),
        ("attributes,attributes/x", {"attributes": THING["attributes"]}),
        ("attributes/nope", {}),
        ("attributes/x/deeper,thingId", {"thingId": "a:b"}),
        ("attributes/list/q", {}),
        ("nope", {}),
        (
            "features/*/properties/on",
            {"features": {"lamp": {"properties": {"on": True}}, "fan": {"properties": {"on": False}}}},
        ),
        (
            "features/*/properties/on,features/fan/definition",
            {
                "features": {
                    "lamp": {"properties": {"on": True}},
                    "fan": {"definition": ["n:n:1"], "properties": {"on": False}},
                }
            },
        ),
        ("_revision", {"_revision": 3}),
    ],
)
def test_nothing_but_the_selected_fields_is_left(text: str, selected: Any) -> None:
    assert parse_fields(text).select(THING) == selected


def test_a_feature_that_is_selected_twice_is_there_once() -> None:
    thing = {"features": {"f": None, "g": {"properties": {"p": 1, "q": 2}}}}
    assert parse_fields("features/f,features/*").select(thing) == thing
    assert parse_fields("features/g/properties/p,features/*/properties/q").select(thing) == {
        "features": {"g": {"properties": {"p": 1, "q": 2}}}
    }


def test_selecting_changes_nothing() -> None:
    before = repr(THING)
    parse_fields("features/*/properties/on,features/fan/definition").select(THING)
    assert repr(THING) == before


def test_it_is_known_whether_a_field_is_named() -> None:
    assert parse_fields("thingId,_revision").names("_revision")
    assert not parse_fields("thingId").names("_revision")


@given(OBJECTS, st.data())
def test_what_is_selected_is_what_was_there(document: Any, data: st.DataObject) -> None:
    keys = sorted(document)
    chosen = data.draw(st.lists(st.sampled_from(keys or ["x"]), min_size=1, max_size=3))
    left = Fields(tuple((key,) for key in chosen)).select(document)
    assert left == {key: value for key, value in document.items() if key in chosen}
    for key in chosen:
        assert get(left, (key,)) is get(document, (key,)) or get(document, (key,)) is MISSING
