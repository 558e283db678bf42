from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from penstock.store.search_index import FILE, MANY, IndexMark, SearchIndex, ThingUpdate
from penstock.wire.ditto.index_entries import entries_of, for_search, ranges_of
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.rql import parse_rql

ME = ("nginx:me",)


@pytest.fixture
def index(url: str, tmp_path: Path) -> Iterator[SearchIndex]:
    if not url.startswith("sqlite"):
        engine = create_engine(url)
        with engine.begin() as connection:
            for table in ("search_values", "search_things", "search_readers", "search_state"):
                connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
        engine.dispose()
    index = SearchIndex.open("" if url.startswith("sqlite") else url, tmp_path)
    yield index
    index.close()


def update(document: dict[str, Any], revision: int = 1, before: dict[str, Any] | None = None) -> ThingUpdate:
    new = entries_of(document)
    old = None if before is None else entries_of(before)
    mark = IndexMark(document["policyId"], revision, revision * 10)
    if old is None:
        return ThingUpdate(document["thingId"], mark, None, tuple(new))
    return ThingUpdate(document["thingId"], mark, tuple(old - new), tuple(new - old))


def thing(id: str, policy: str = "p:p", **attributes: Any) -> dict[str, Any]:
    return {"thingId": id, "policyId": policy, "attributes": attributes}


def found(index: SearchIndex, filter: str | None, **asked: Any) -> list[str]:
    node = None if filter is None else ranges_of(for_search(parse_rql(filter)))
    options: dict[str, Any] = {"subjects": ME, "namespaces": None, "after": "", "count": 1000, **asked}
    return index.candidates(node, **options)


def test_things_are_proposed_by_their_values_in_the_order_of_ids(index: SearchIndex) -> None:
    things = [thing("a:2", x=1), thing("a:1", x=1), thing("b:1", x=2)]
    index.apply([update(each) for each in things], [("p:p", ME)])
    assert found(index, "eq(attributes/x,1)") == ["a:1", "a:2"]
    assert found(index, "gt(attributes/x,1)") == ["a:1", "a:2", "b:1"]
    assert found(index, "in(attributes/x,2,3)") == ["b:1"]
    assert found(index, None) == ["a:1", "a:2", "b:1"]
    assert found(index, None, after="a:1", count=1) == ["a:2"]
    assert found(index, None, namespaces=["b"]) == ["b:1"]
    assert found(index, "eq(attributes/x,1)", namespaces=["b", "c"]) == []
    assert found(index, None, namespaces=[]) == []


def test_only_what_somebody_may_read_is_proposed(index: SearchIndex) -> None:
    index.apply([update(thing("a:1", "p:1")), update(thing("a:2", "p:2"))], [("p:1", ME), ("p:2", ["nginx:other"])])
    assert found(index, None) == ["a:1"]
    assert found(index, None, subjects=("nginx:other", *ME)) == ["a:1", "a:2"]
    assert found(index, None, subjects=()) == []
    index.apply([], [("p:1", [])])
    assert found(index, None) == []


def test_a_difference_leaves_the_same_as_a_replacement(index: SearchIndex) -> None:
    before, after = thing("a:1", x=1, y=1), thing("a:1", x=2, z=[1, 2])
    index.apply([update(before)], [("p:p", ME)])
    # Again is the same as once.
    for _ in range(2):
        index.apply([update(after, 2, before)])
    assert found(index, "eq(attributes/x,1)") == found(index, "exists(attributes/y)") == []
    assert found(index, "eq(attributes/z,2)") == ["a:1"]
    assert index.marks() == {"a:1": IndexMark("p:p", 2, 20)}
    index.apply([ThingUpdate("a:1", None, None, ())])
    assert index.marks() == {}
    assert found(index, None) == found(index, "exists(attributes/x)") == []


def test_marks_and_readers_say_what_the_index_has(index: SearchIndex) -> None:
    index.apply([update(thing("a:1"), 7)], [("p:p", ["x", "y"]), ("p:q", ["x"])])
    assert index.marks() == {"a:1": IndexMark("p:p", 7, 70)}
    assert index.readers() == {"p:p": {"x", "y"}, "p:q": {"x"}}


@pytest.mark.parametrize(
    "filter",
    [
        None,
        'eq(attributes/color,"red")',
        'and(eq(attributes/color,"red"),gt(attributes/n,2500))',
        "gt(attributes/n,100)",
        "and(gt(attributes/n,100),lt(attributes/n,110))",
        "or(lt(attributes/n,3),eq(attributes/n,2000))",
        'or(and(eq(attributes/color,"red"),lt(attributes/n,9)),and(eq(attributes/color,"blue"),gt(attributes/n,5990)))',
        "not(exists(attributes/n))",
        'like(attributes/color,"r*")',
        "and(exists(attributes/color),exists(attributes/n))",
        "gt(attributes/n,5800)",
    ],
)
def test_page_after_page_everything_that_matches_is_proposed_once(many: SearchIndex, filter: str | None) -> None:
    query = None if filter is None else for_search(parse_rql(filter))
    expected = [each["thingId"] for each in MANY_THINGS if query is None or matches(query, each, 0)]
    proposed: list[str] = []
    after = ""
    while page := found(many, filter, after=after, count=97):
        proposed += page
        after = page[-1]
    assert proposed == sorted(set(proposed))
    assert set(expected) <= set(proposed)
    if filter is not None and "not(" not in filter:
        # Nearly nothing else: numbers and texts are compared in the index.
        assert len(proposed) <= len(expected) + 2


# More than are counted, so that searches go through things in their order as well.
COUNT = MANY + 1000
random.seed(23)
MANY_THINGS = [thing(f"a:{number:05}", n=number, color=random.choice(["red", "blue"])) for number in range(COUNT)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    index = SearchIndex.open("", tmp_path_factory.mktemp("many"))
    index.apply([update(each) for each in MANY_THINGS], [("p:p", ME)])
    yield index
    index.close()


def test_who_may_read_few_of_many_is_not_shown_the_others(many: SearchIndex) -> None:
    many.apply([update(thing("z:mine", "p:mine", n=1))], [("p:mine", ["nginx:few"])])
    try:
        for filter in (None, "gt(attributes/n,0)", "eq(attributes/n,1)"):
            assert found(many, filter, subjects=("nginx:few",)) == ["z:mine"]
    finally:
        many.apply([ThingUpdate("z:mine", None, None, ())], [("p:mine", [])])


@pytest.mark.parametrize("damage", [b"this is not a database" * 100, b""])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE).write_bytes(damage)
    index = SearchIndex.open("", tmp_path)
    assert index.marks() == {}
    index.close()


def test_tables_of_another_layout_are_made_anew(tmp_path: Path) -> None:
    index = SearchIndex.open("", tmp_path)
    index.apply([update(thing("a:1"))])
    index.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE search_state SET layout = 999")
    connection.close()
    index = SearchIndex.open("", tmp_path)
    assert index.marks() == {}
    index.close()
    index = SearchIndex.open("", tmp_path)
    index.apply([update(thing("a:1"))])
    index.close()
    index = SearchIndex.open("", tmp_path)
    assert list(index.marks()) == ["a:1"]
    index.close()
