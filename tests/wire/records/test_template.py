"""Texts with parts of a record in braces."""

from __future__ import annotations

import pytest

from penstock.wire.records.formats import decode_json, decode_text
from penstock.wire.records.mapping import RecordView
from penstock.wire.records.record import BrokerRecord, DeliveredRecord, PoisonRecord
from penstock.wire.records.template import Template, TemplateError, text_of

RECORD = DeliveredRecord(
    "quotes",
    b'{"price": 1.10, "size": 300, "open": true, "legs": [{"id": "a"}, {"id": "b"}], "my.name": "dot", "none": null}',
    key=b"acme",
    headers=[("trace-id", b"1"), ("trace-id", b"2"), ("bad", b"\xff")],
    offset=7,
    millis=1_700_000_000_123,
)


def view(record: BrokerRecord = RECORD) -> RecordView:
    return RecordView(record, decode_text, decode_json)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{key}", "acme"),
        ("quote.{key}", "quote.acme"),
        ("{topic}/{key}@{offset}", "quotes/acme@7"),
        ("{ key }", "acme"),
        ("{topic[0]}", "quotes"),
        ("{{{key}}}", "{acme}"),
        ("{timestamp}", "1700000000123"),
        # As it was written, not as a float would be.
        ("{value.price}", "1.10"),
        ("{value.size}", "300"),
        ("{value.open}", "true"),
        ("{value.legs[1].id}", "b"),
        ("{value.legs}", '[{"id":"a"},{"id":"b"}]'),
        ("{value['my.name']}", "dot"),
        # The last of several.
        ("{headers['trace-id']}", "2"),
        ("nothing", "nothing"),
    ],
)
def test_an_expression_is_replaced_by_its_part_of_the_record(template: str, text: str) -> None:
    assert Template(template).value(view()) == text
    assert Template(template).name(view()) == text


@pytest.mark.parametrize(
    "template",
    [
        "{value.missing}",
        "{topic[1]}",
        "{value.none}",
        "{value.legs[2]}",
        "{value.price.deeper}",
        "{partition}",
        "{headers.other}",
    ],
)
def test_what_is_not_there_is_null_as_a_value_and_no_name(template: str) -> None:
    assert Template(template).value(view()) is None
    assert Template(f"a{template}b").value(view()) == "ab"
    with pytest.raises(PoisonRecord, match="which is part of"):
        Template(template).name(view())


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{price}", "expected one of topic, key, value"),
        ("{}", "expected one of topic, key, value"),
        ("{value.}", "expected members as in value.price"),
        ("{value[x]}", "expected members as in value.price"),
        ("{value.a[1}", "expected members as in value.price"),
        ("{topic.a}", "expected the number of a level, as in topic[0]"),
        ("{offset.a}", "offset has no members"),
        ("{headers}", "expected the name of one header"),
        ("{headers.a.b}", "expected the name of one header"),
        ("a{", "a single {"),
        ("a}b", "a single }"),
        ("{key", "a single {"),
    ],
)
def test_a_template_that_cannot_be_understood_says_what_is_allowed(template: str, words: str) -> None:
    with pytest.raises(TemplateError) as raised:
        Template(template)
    assert words in str(raised.value)


def test_bytes_that_are_not_text_or_json_are_poison() -> None:
    record = DeliveredRecord("t", b"{", key=b"\xff")
    with pytest.raises(PoisonRecord, match="its value: it is not JSON"):
        Template("{value.a}").value(view(record))
    with pytest.raises(PoisonRecord, match="its key: it is not UTF-8: byte 0xff at 0"):
        Template("{key}").value(view(record))
    with pytest.raises(PoisonRecord, match="not UTF-8"):
        Template("{headers.bad}").value(view())


def test_values_of_other_formats_have_a_text() -> None:
    import datetime
    import decimal

    day = datetime.datetime(2026, 11, 18, 9, tzinfo=datetime.UTC)
    assert text_of(decimal.Decimal("1.10")) == "1.10"
    assert text_of(day) == "2026-11-18T09:00:00+00:00"
    assert text_of(b"\x00\xff") == "AP8="
    assert text_of({"when": day, "raw": b"\x00", "price": decimal.Decimal("1.10")}) == (
        '{"when":"2026-11-18T09:00:00Z","raw":"AA==","price":"1.10"}'
    )
    assert text_of(False) == "false"
    assert text_of(datetime.timedelta(seconds=1.5)) == "1.5"
