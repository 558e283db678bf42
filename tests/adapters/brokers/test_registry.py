"""Avro and Protobuf with a schema registry: a stand-in that speaks the usual interface over HTTP."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from penstock.adapters.brokers.registry import SchemaRegistry
from penstock.wire.records.record import PoisonRecord

QUOTE = {
    "type": "record",
    "name": "Quote",
    "fields": [{"name": "symbol", "type": "string"}, {"name": "money", "type": "Money"}],
}
MONEY = {
    "type": "record",
    "name": "Money",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


class StandIn:
    """Schemas by path; `asked` lists every request."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, object]] = {}
        self.asked: list[str] = []
        self.authorization: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.authorization = self.headers.get("Authorization")
                status, answer = outer.answers.get(self.path, (404, {"error_code": 40403}))
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.close()


def framed(number: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + data


def avro(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)  # type: ignore[arg-type]
    return out.getvalue()


def test_avro_is_decoded_with_a_schema_and_those_it_refers_to_each_fetched_once(stand_in: StandIn) -> None:
    import datetime
    import decimal

    reference = {"name": "Money", "subject": "money/1", "version": 3}
    stand_in.answers["/schemas/ids/7"] = 200, {"schema": json.dumps(QUOTE), "references": [reference]}
    stand_in.answers["/subjects/money%2F1/versions/3"] = 200, {"schema": json.dumps(MONEY)}
    registry = SchemaRegistry(f"{stand_in.address}/", "ada", "secret")
    at = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC)
    value = {"symbol": "acme", "money": {"amount": decimal.Decimal("1.10"), "at": at}}
    whole = {**QUOTE, "fields": [QUOTE["fields"][0], {"name": "money", "type": MONEY}]}
    data = framed(7, avro(whole, value))
    assert registry.decode_avro(data) == value
    assert registry.decode_avro(data) == value
    assert stand_in.asked == ["/schemas/ids/7", "/subjects/money%2F1/versions/3"]
    assert stand_in.authorization == f"Basic {base64.b64encode(b'ada:secret').decode()}"


def proto() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="quote.proto", package="market", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    quote = file.message_type.add(name="Quote")
    text, message = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    number = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
    one = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    quote.field.add(name="symbol_name", number=1, type=text, label=one)
    quote.field.add(name="at", number=2, type=message, type_name=".google.protobuf.Timestamp", label=one)
    inner = quote.nested_type.add(name="Level")
    inner.field.add(name="size", number=1, type=number, label=one)
    return file


def test_protobuf_is_decoded_by_the_message_that_the_record_names(stand_in: StandIn) -> None:
    stand_in.answers["/schemas/ids/8?format=serialized"] = (
        200,
        {"schemaType": "PROTOBUF", "schema": base64.b64encode(proto().SerializeToString()).decode()},
    )
    registry = SchemaRegistry(stand_in.address)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(proto())
    quote = message_factory.GetMessageClass(pool.FindMessageTypeByName("market.Quote"))(symbol_name="acme")
    level = message_factory.GetMessageClass(pool.FindMessageTypeByName("market.Quote.Level"))(size=5)
    quote.at.FromMilliseconds(1_000)
    # Zigzag: one index, 1; and two of them, 1 and 0.
    assert registry.decode_protobuf(framed(8, b"\x02\x02" + quote.SerializeToString())) == {
        "symbol_name": "acme",
        "at": "1970-01-01T00:00:01Z",
    }
    assert registry.decode_protobuf(framed(8, b"\x04\x02\x00" + level.SerializeToString())) == {"size": 5}
    # The first message is a single zero.
    assert registry.decode_protobuf(framed(8, b"\x00")) == {}
    for wrong in (b"", b"\x02", b"\x02\x08", b"\x7f", b"\x01", b"\xff" * 12, b"\x02\x02\xff"):
        with pytest.raises(PoisonRecord):
            registry.decode_protobuf(framed(8, wrong))


def test_what_the_registry_says_wrong_is_told_in_one_sentence_and_asked_again_later(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = SchemaRegistry(stand_in.address, "ada", "secret")
    cases: list[tuple[int, object, str]] = [
        (404, {}, "schema 1: the registry answered 404 Not Found"),
        (200, b"<html>", "schema 2: the registry's answer is not JSON"),
        (200, [], "schema 3: the registry's answer is not an object"),
        (200, {"schema": 5}, "schema 4: the registry's answer has no schema"),
        (200, {"schema": "{}"}, "schema 5: it is not a schema of Avro"),
        (200, {"schemaType": "JSON", "schema": "{}"}, "schema 6: it is a schema of JSON, not of AVRO"),
        (200, {"schema": '"int"', "references": [{}]}, "schema 7: a reference without subject"),
    ]
    for number, (status, answer, words) in enumerate(cases, 1):
        stand_in.answers[f"/schemas/ids/{number}"] = status, answer
        for _ in range(2):
            with pytest.raises(PoisonRecord) as raised:
                registry.decode_avro(framed(number, b"\x02"))
            assert words in str(raised.value)
            assert "secret" not in str(raised.value)
    # Each was asked for once: a registry in trouble is not asked for every record.
    assert len(stand_in.asked) == len(cases)
    monkeypatch.setattr("penstock.adapters.brokers.registry.RETRY", 0.0)
    stand_in.answers["/schemas/ids/1"] = 200, {"schema": '"int"'}
    assert registry.decode_avro(framed(1, b"\x02")) == 1


def test_references_that_go_round_in_circles_end(stand_in: StandIn) -> None:
    circle = {"schema": '"int"', "references": [{"name": "A", "subject": "a", "version": 1}]}
    stand_in.answers["/schemas/ids/1"] = stand_in.answers["/subjects/a/versions/1"] = 200, circle
    with pytest.raises(PoisonRecord, match="more than 16 deep"):
        SchemaRegistry(stand_in.address).decode_avro(framed(1, b"\x02"))


def test_data_that_does_not_fit_is_poison(stand_in: StandIn) -> None:
    stand_in.answers["/schemas/ids/1"] = 200, {"schema": json.dumps(MONEY)}
    registry = SchemaRegistry(stand_in.address)
    for data in (b"", b"\x00\x00", b"\x01" + bytes(8), b"{}"):
        with pytest.raises(PoisonRecord, match="does not begin with a zero byte"):
            registry.decode_avro(data)
    for data in (b"", b"\xff" * 20, b"\x08"):
        with pytest.raises(PoisonRecord, match="does not fit schema 1"):
            registry.decode_avro(framed(1, data))


def test_a_registry_that_is_not_there_is_told() -> None:
    with pytest.raises(PoisonRecord, match="the registry does not answer"):
        SchemaRegistry("http://127.0.0.1:9").decode_avro(framed(1, b""))


@pytest.mark.parametrize("address", ["registry:8081", "ftp://x", "http://", "http://ada:secret@x"])
def test_an_address_that_is_not_one_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ValueError, match="registry") as raised:
        SchemaRegistry(address)
    assert "secret" not in str(raised.value)
