from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.access import Access, Rights, Subjects
from penstock.twins.search import Search, SortOrder, indexed
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.fields import parse_fields
from penstock.wire.ditto.index_entries import key_of
from penstock.wire.ditto.rql import parse_rql

BY_X = SortOrder((("/attributes/x", False), ("/thingId", False)))
DOWN = SortOrder((("/attributes/x", True), ("/thingId", False)))
ALL = {"grant": ["READ"], "revoke": []}


def twin(**attributes: Json) -> Twin:
    return Twin({"thingId": "ns:t", "policyId": "ns:t", "attributes": attributes}, 3, 1_000_000, 2_000_000)


def rights(**resources: Any) -> Rights:
    given = {f"thing:/{name.replace('_', '/').strip('/')}": effect for name, effect in resources.items()}
    policy = {"entries": {"E": {"subjects": {"me": {}}, "resources": given or {"thing:/": ALL}}}}
    return Access(policy).rights(Subjects(["me"]))


def found(filter: str, twin: Twin, rights: Rights) -> bool:
    return Search(parse_rql(filter), BY_X, None, 10_000_000).look(twin, rights) is not None


def test_a_thing_is_a_result_if_its_reader_sees_that_it_matches() -> None:
    assert found("eq(attributes/x,1)", twin(x=1), rights())
    assert not found("eq(attributes/x,1)", twin(x=2), rights())
    assert not found("eq(attributes/x,1)", twin(x=1), Access({"entries": {}}).rights(Subjects(["me"])))


def test_a_hidden_property_looks_missing() -> None:
    hidden = rights(_=ALL, attributes_x={"grant": [], "revoke": ["READ"]})
    assert not found("eq(attributes/x,1)", twin(x=1), hidden)
    assert not found("exists(attributes/x)", twin(x=1), hidden)
    # Whatever the value is: the answer reveals nothing.
    assert found("not(eq(attributes/x,1))", twin(x=1), hidden)
    assert BY_X.values(Search(None, BY_X, None, 0).look(twin(x=1), hidden)) == (None, "ns:t")


def test_special_fields_can_be_searched_and_selected() -> None:
    assert found('and(eq(_revision,3),lt(_modified,time:now),eq(_namespace,"ns"))', twin(), rights())
    search = Search(None, BY_X, parse_fields("thingId,_revision"), 0)
    assert search.result(twin(x=1), rights(), None) == {"thingId": "ns:t", "_revision": 3}
    assert Search(None, BY_X, None, 0).result(twin(x=1), rights(), None) == twin(x=1).document


def test_the_index_has_what_can_be_searched() -> None:
    entries = indexed(twin(x=1))
    assert {("/attributes/x", key_of(1)), ("/_revision", key_of(3)), ("/_namespace", key_of("ns"))} <= entries


def test_values_are_ordered_by_kind_and_then_by_value() -> None:
    values: list[Json] = [True, "b", 2, None, "a", -1, {"o": 1}, 1.5, False]
    rows = [BY_X.values(twin(x=value).document) for value in values]
    ordered = [row[0] for row in sorted(rows, key=BY_X.key)]
    # An object cannot be compared: it counts as missing.
    assert ordered == [None, None, -1, 1.5, 2, "a", "b", False, True]
    assert [row[0] for row in sorted(rows, key=DOWN.key)] == ordered[::-1]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 2, -1),
        (2, 1.5, 1),
        (2, 2.0, 0),
        ("a", "b", -1),
        ("b", "a", 1),
        (False, True, -1),
        (None, None, 0),
        (None, 0, -1),
        (5, "5", -1),
        ("z", {}, -1),
        ({}, False, -1),
        (True, {}, 1),
        # What cannot be compared is equal.
        ({"o": 1}, {"o": 2}, 0),
        ([1], {"o": 2}, 0),
    ],
)
def test_two_values_are_compared_by_kind_and_then_by_value(one: Json, other: Json, expected: int) -> None:
    assert BY_X.compare((one, "ns:t"), (other, "ns:t")) == expected
    assert BY_X.compare((other, "ns:t"), (one, "ns:t")) == -expected
    assert DOWN.compare((one, "ns:t"), (other, "ns:t")) == -expected
    assert BY_X.compare((one, "ns:a"), (other, "ns:b")) == (expected or -1)


def test_values_of_another_order_are_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="zip"):
        BY_X.compare((1, "ns:t"), (1, "ns:t", "more"))


def test_things_are_sorted_by_id_alone_or_by_more() -> None:
    assert SortOrder((("/thingId", False),)).is_by_id is True
    assert SortOrder((("/thingId", True),)).is_by_id is False
    assert BY_X.is_by_id is False


def test_the_id_decides_between_equals() -> None:
    rows = [("a", "ns:2"), ("a", "ns:1")]
    assert sorted(rows, key=BY_X.key) == sorted(rows, key=DOWN.key) == [("a", "ns:1"), ("a", "ns:2")]


def test_an_array_is_sorted_by_its_smallest_or_its_largest() -> None:
    assert BY_X.values(twin(x=[3, 1, 2]).document) == (1, "ns:t")
    assert DOWN.values(twin(x=[3, 1, 2]).document) == (3, "ns:t")
    assert BY_X.values(twin(x=[3, 1]).document) == (1, "ns:t")
    assert DOWN.values(twin(x=[1, 3]).document) == (3, "ns:t")
    assert BY_X.values(twin(x=[]).document) == BY_X.values(twin().document) == (None, "ns:t")


def test_readers_are_all_who_were_granted_anything_of_a_thing() -> None:
    def entry(name: str, **resources: Any) -> dict[str, Any]:
        given = {f"{kind}:/": {"grant": grant, "revoke": []} for kind, grant in resources.items()}
        return {"subjects": {name: {}}, "resources": given}

    entries = {"A": entry("a", thing=["READ"]), "B": entry("b", policy=["READ"]), "C": entry("c", thing=["WRITE"])}
    assert Access({"entries": entries}).readers() == {"a"}
