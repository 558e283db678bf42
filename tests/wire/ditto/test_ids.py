from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.ids import EntityId, entity_id, parse_policy_id, parse_thing_id
from penstock.wire.ditto.items import ItemName, item_of_thing, thing_of_item

from .values import TEXT

NAMES = st.one_of(TEXT, st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True))
ITEMS = st.builds(ItemName, NAMES, NAMES, NAMES.filter(bool))


@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [
        ("org.eclipse.ditto:thing-2", "org.eclipse.ditto", "thing-2"),
        (":nameless-space", "", "nameless-space"),
        ("a:b:c", "a", "b:c"),
        ("a-b.c_1:x y", "a-b.c_1", "x y"),
        ("ns:数", "ns", "数"),
        ("a:" + "x" * 254, "a", "x" * 254),
    ],
)
def test_an_identifier_is_a_namespace_and_a_name(text: str, namespace: str, name: str) -> None:
    assert parse_thing_id(text) == EntityId(namespace, name)
    assert parse_policy_id(text) == EntityId(namespace, name)
    assert str(EntityId(namespace, name)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:",
        ":",
        "1a:b",
        "a..b:c",
        "a.:c",
        ".a:c",
        "a b:c",
        "a:b/c",
        "a:b\n",
        "a:bü",
        "ä:b",
        "_a:b",
        "a.1:b",
        "a:" + "x" * 255,
        "a:\ud800",
    ],
)
def test_anything_else_is_error_400_for_things_and_policies(text: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_thing_id(text)
    assert (caught.value.status, caught.value.code) == (400, "things:id.invalid")
    assert caught.value.href == "https://www.eclipse.dev/ditto/basic-namespaces-and-names.html#namespaced-id"
    with pytest.raises(DittoError) as caught:
        parse_policy_id(text)
    assert (caught.value.status, caught.value.code) == (400, "policies:id.invalid")


# -- items as things ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "thing"),
    [
        (("DEMO", "QUOTE_ADAPTER", "item1"), "DEMO.QUOTE_ADAPTER:item1"),
        (("my-set", "2nd", "a/b=c"), "my-u002dset.x-z2nd:a=2Fb=3Dc"),
        (("a.b", "😀", "x:y z"), "a-u002eb.x-z-U01f600:x:y z"),
        (("", "_", "ü\n"), "x-z.x-z_:=FC=0A"),
        (("x-z", "x", "X"), "x-u002dz.x:X"),
    ],
)
def test_an_item_is_called_as_documented(item: tuple[str, str, str], thing: str) -> None:
    name = ItemName(*item)
    assert str(thing_of_item(name)) == thing
    assert item_of_thing(parse_thing_id(thing)) == name


def test_the_examples_for_readers_are_right() -> None:
    lines = (Path(__file__).parents[3] / "docs" / "ditto.md").read_text().splitlines()
    start = lines.index("| adapter set | data adapter | item | thing |") + 2
    examples = [re.findall("`([^`]*)`", line) for line in lines[start : lines.index("", start)]]
    assert len(examples) == 3
    for *item, thing in examples:
        assert str(thing_of_item(ItemName(*item))) == thing


@given(ITEMS)
@example(ItemName("é", "É", "a"))
def test_every_item_is_found_again_by_the_thing_it_is(name: ItemName) -> None:
    thing = thing_of_item(name)
    assert thing is not None
    assert entity_id(thing.namespace, thing.name) == thing
    assert item_of_thing(thing) == name


@given(ITEMS, ITEMS)
def test_two_items_are_never_the_same_thing(one: ItemName, other: ItemName) -> None:
    assert (thing_of_item(one) == thing_of_item(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "a:b",
        ":b",
        "a.b.c:d",
        "a-b.c:d",
        "a-u0041.b:c",
        "a-u00E4.b:c",
        "a.b:=41",
        "a.b:=2f",
        "a.b:=",
        "a.b:=2",
        "x-za.b:c",
        "a-U000041.b:c",
        "a-Uffffff.b:c",
        "a-ud800.b:c",
    ],
)
def test_identifiers_that_no_item_has_are_of_no_item(text: str) -> None:
    assert item_of_thing(parse_thing_id(text)) is None


def test_an_item_whose_identifier_would_be_too_long_is_no_thing() -> None:
    assert thing_of_item(ItemName("S", "D", "x" * 252)) is not None
    assert thing_of_item(ItemName("S", "D", "x" * 253)) is None
    assert thing_of_item(ItemName("S", "D", "")) is None
