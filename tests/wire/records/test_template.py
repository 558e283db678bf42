"""Texts with parts of a record in braces."""

from __future__ import annotations

import pytest

from penstock.wire.records.formats import decode_json, decode_text, decoder
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


class Registry:
    """A registry that gives back what it is asked for."""

    def decode_avro(self, data: bytes) -> object:
        return ["avro", data]

    def decode_protobuf(self, data: bytes) -> object:
        return ["protobuf", data]


def test_a_format_is_known_by_its_name_and_some_need_a_registry() -> None:
    assert decoder("text", None)(b"1") == "1"
    assert decoder("json", None)(b"1") == 1
    for name in ("avro", "protobuf"):
        assert decoder(name, Registry())(b"1") == [name, b"1"]
        with pytest.raises(ValueError, match=f"{name} needs the address of a schema registry"):
            decoder(name, None)
    with pytest.raises(ValueError, match="expected text, json, avro or protobuf"):
        decoder("xml", Registry())


def test_a_time_is_part_of_a_record_only_if_the_broker_has_it() -> None:
    for millis, text in ((None, None), (0, "0"), (5, "5")):
        assert Template("{timestamp}").value(view(DeliveredRecord("t", b"1", millis=millis))) == text


def test_levels_of_a_topic_are_what_the_broker_divides() -> None:
    record = DeliveredRecord("a/b.c", b"1")
    found = RecordView(record, decode_text, decode_json, "/")
    assert [found.level(number) for number in range(3)] == ["a", "b.c", None]
    assert [view(record).level(number) for number in range(3)] == ["a/b", "c", None]


def test_key_and_value_are_decoded_once_and_only_if_they_are_looked_at() -> None:
    decoded: list[bytes] = []

    def decode(data: bytes) -> object:
        decoded.append(data)
        return data.decode()

    found = RecordView(DeliveredRecord("t", b"value", key=b"key"), decode, decode)
    assert found.part("topic") == "t"
    assert not decoded
    for _ in range(2):
        assert (found.part("key"), found.part("value")) == ("key", "value")
    assert decoded == [b"key", b"value"]


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
