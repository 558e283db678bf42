"""From a record to the event of an item."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.records.formats import decode_json, decode_text
from penstock.wire.records.mapping import RecordMapping, RecordMode
from penstock.wire.records.record import DeliveredRecord, PoisonRecord
from penstock.wire.records.template import TemplateError


def mapping(
    item: str = "{key}", fields: dict[str, str] | None = None, mode: RecordMode = "MERGE", row: str = "{key}"
) -> RecordMapping:
    return RecordMapping(item, fields or {"*": "{value}"}, mode, row, decode_text, decode_json)


def record(value: object, key: bytes | None = b"acme") -> DeliveredRecord:
    return DeliveredRecord("quotes", None if value is None else json.dumps(value).encode(), key=key, offset=7)


def test_all_members_of_an_object_are_fields_unless_others_are_named() -> None:
    assert mapping().event(record({"bid": 1, "ask": None})) == {"bid": "1", "ask": None}
    named = mapping(fields={"price": "{value.quote.bid}", "at": "{offset}"})
    assert named.event(record({"quote": {"bid": 1}})) == {"price": "1", "at": "7"}
    both = mapping(fields={"*": "{value.quote}", "who": "{key}"})
    assert both.event(record({"quote": {"bid": 1}, "other": 2})) == {"bid": "1", "who": "acme"}


def test_an_item_is_named_without_its_value_being_decoded() -> None:
    broken = DeliveredRecord("quotes", b"not JSON", key=b"acme")
    assert mapping("quote.{key}.x").item(broken) == "quote.acme.x"
    assert mapping("{topic}.{key}").item(broken) == "quotes.acme"
    with pytest.raises(PoisonRecord, match="not JSON"):
        mapping("{value.symbol}").item(broken)


def test_a_record_without_a_key_has_no_item_that_is_named_by_it() -> None:
    with pytest.raises(PoisonRecord, match="it has no key"):
        mapping("quote.{key}").item(record({}, key=None))


def test_a_key_that_is_not_text_names_an_item_as_its_format_says() -> None:
    def item(template: str, key: bytes) -> str:
        made = RecordMapping(template, {"*": "{value}"}, "MERGE", "{key}", decode_json, decode_json)
        return made.item(record({}, key=key))

    assert item("quote.{key}", b'"acme"') == "quote.acme"
    assert item("{key.id}.x", b'{"id": 5}') == "5.x"
    # Text has no members.
    with pytest.raises(PoisonRecord, match=r"it has no key\.id"):
        mapping("{key.id}").item(record({}))
    assert mapping("{key}-{key}").item(record({})) == "acme-acme"


def test_only_a_command_or_no_value_can_delete_a_row() -> None:
    named = mapping("positions", {"command": "{value.op}"}, "COMMAND")
    plain = mapping("positions", mode="COMMAND")
    assert [each.may_delete(record({"op": "UPDATE"})) for each in (named, plain)] == [True, False]
    assert [each.may_delete(record(None)) for each in (named, plain)] == [True, True]


def test_a_value_that_is_not_there_has_no_members_and_is_no_error() -> None:
    assert mapping(fields={"*": "{value.missing}", "who": "{key}"}).event(record({})) == {"who": "acme"}


def test_a_value_that_is_not_an_object_has_no_members() -> None:
    with pytest.raises(PoisonRecord, match="value is not an object"):
        mapping().event(record([1]))


def test_a_row_is_updated_by_a_value_and_deleted_by_none() -> None:
    table = mapping("positions", mode="COMMAND")
    assert table.event(record({"size": 1})) == {"size": "1", "key": "acme", "command": "UPDATE"}
    assert table.event(record(None)) == {"key": "acme", "command": "DELETE"}
    # Members that happen to be called so are not commands.
    assert table.event(record({"command": "start", "key": "x"})) == {"key": "acme", "command": "UPDATE"}


def test_a_command_can_be_part_of_the_record() -> None:
    table = mapping("positions", {"command": "{value.op}", "size": "{value.size}"}, "COMMAND", "{value.id}")
    assert table.event(record({"op": "DELETE", "id": 5})) == {"key": "5", "command": "DELETE", "size": None}
    with pytest.raises(PoisonRecord, match="its command is 'c'; expected ADD, UPDATE, DELETE"):
        table.event(record({"op": "c", "id": 5}))


def test_rows_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(TemplateError, match="rows are told apart"):
        mapping(mode="COMMAND", row="all")
    with pytest.raises(TemplateError, match="expected one expression"):
        mapping(fields={"*": "{value}x"})


@given(key=st.text(min_size=1), before=st.text("ab.", max_size=3), after=st.text("ab.", max_size=3))
def test_the_short_way_to_a_name_is_the_same_as_the_long_one(key: str, before: str, after: str) -> None:
    one = DeliveredRecord("t", b"1", key=key.encode("utf-8", "surrogatepass"))
    template = f"{before}{{key}}{after}"
    short = mapping(template)
    long = RecordMapping(template, {"*": "{value}"}, "MERGE", "{key}", lambda data: decode_text(data), decode_json)
    outcomes = []
    for one_mapping in (short, long):
        try:
            outcomes.append(one_mapping.item(one))
        except PoisonRecord as poison:
            outcomes.append(f"poison {'UTF-8' in str(poison)}")
    assert outcomes[0] == outcomes[1]
