from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journal.entity import batch_entity, entity_of, parts_of

NAMES = st.text(st.sampled_from("aB/%#2F 5é"), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("parts", "entity"),
    [
        (("WELCOME", "STOCKS", "item1"), "WELCOME/STOCKS/item1"),
        (("a/b", "50%", "x"), "a%2Fb/50%25/x"),
        (("S", "A", "with/two/slashes 100%"), "S/A/with/two/slashes 100%"),
        (("S", "A", ""), "S/A/"),
    ],
)
def test_an_entity_is_set_adapter_and_item(parts: tuple[str, str, str], entity: str) -> None:
    assert entity_of(*parts) == entity
    assert parts_of(entity) == parts


@given(NAMES, NAMES, st.text(max_size=8))
def test_the_parts_of_an_entity_are_those_it_was_made_of(adapter_set: str, adapter: str, item: str) -> None:
    assert parts_of(entity_of(adapter_set, adapter, item)) == (adapter_set, adapter, item)


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_the_batches_of_a_query_are_never_an_item_nor_those_of_another_query(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert parts_of(batch_entity(*one)) is None
    assert (batch_entity(*one) == batch_entity(*other)) == (one == other)


def test_an_entity_of_anything_else_has_no_parts() -> None:
    assert parts_of("org.example:thing-1") is None
    assert parts_of("SET/ADAPTER#query") is None
