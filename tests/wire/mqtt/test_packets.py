"""Packets of MQTT: read whole, byte by byte and with bytes behind them; whatever else comes is MqttError."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.mqtt.errors import MqttError
from penstock.wire.mqtt.packets import (
    CONNACK,
    DISCONNECT,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    MqttAnswer,
    MqttMessage,
    MqttPacket,
    MqttReader,
    acknowledge,
    connect,
    disconnect,
    message_properties,
    publish,
    subscribe,
)
from penstock.wire.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    RECEIVE_MAXIMUM,
    RESPONSE_TOPIC,
    encode_properties,
    read_properties,
    variable,
)

# What a broker sends, as the standard prints it, and what is read of it: kind, identifier, codes.
ANSWERS = [
    (False, b"\x20\x02\x01\x00", (CONNACK, 0, (0,))),
    # The old codes have other numbers now: version, client, server, password, authorization.
    (False, b"\x20\x02\x00\x01", (CONNACK, 0, (0x84,))),
    (False, b"\x20\x02\x00\x02", (CONNACK, 0, (0x85,))),
    (False, b"\x20\x02\x00\x03", (CONNACK, 0, (0x88,))),
    (False, b"\x20\x02\x00\x04", (CONNACK, 0, (0x86,))),
    (False, b"\x20\x02\x00\x05", (CONNACK, 0, (0x87,))),
    (True, b"\x20\x06\x00\x00\x03\x21\x00\x14", (CONNACK, 0, (0,))),
    (True, b"\x20\x03\x00\x86\x00", (CONNACK, 0, (0x86,))),
    (False, b"\x40\x02\x12\x34", (PUBACK, 0x1234, ())),
    (True, b"\x40\x03\x12\x34\x10", (PUBACK, 0x1234, (0x10,))),
    (True, b"\x50\x04\x00\x01\x97\x00", (PUBREC, 1, (0x97,))),
    (False, b"\x62\x02\x00\x07", (PUBREL, 7, ())),
    (False, b"\x90\x04\x00\x02\x01\x80", (SUBACK, 2, (1, 0x80))),
    (True, b"\x90\x05\x00\x02\x00\x01\x87", (SUBACK, 2, (1, 0x87))),
    (False, b"\xd0\x00", (PINGRESP, 0, ())),
    (True, b"\xe0\x01\x8e", (DISCONNECT, 0, (0x8E,))),
    (True, b"\xe0\x00", (DISCONNECT, 0, ())),
    (True, b"\xe0\x05\x8d\x03\x1f\x00\x00", (DISCONNECT, 0, (0x8D,))),
    (True, b"\x20\x02\x00\x00", (CONNACK, 0, (0,))),
    (False, b"\x20\x02\x00\x09", (CONNACK, 0, (0x80,))),
    (False, b"\x70\x02\x12\x34", (PUBCOMP, 0x1234, ())),
    (True, b"\xb0\x05\x12\x34\x00\x00\x11", (UNSUBACK, 0x1234, (0, 0x11))),
    (False, b"\xb0\x02\x00\x02", (UNSUBACK, 2, ())),
]

MESSAGES = [
    (False, b"\x30\x06\x00\x03a/bx", MqttMessage("a/b", b"x")),
    (False, b"\x3b\x07\x00\x03a/b\x00\x0a", MqttMessage("a/b", b"", 1, retain=True, dup=True, packet_id=10)),
    (True, b"\x34\x09\x00\x03a/b\x00\x0a\x00x", MqttMessage("a/b", b"x", 2, packet_id=10)),
    (False, b"\x32\x05\x00\x01a\x12\x34", MqttMessage("a", b"", 1, packet_id=0x1234)),
    (False, b"\x30\x02\x00\x00", MqttMessage("", b"")),
    (False, b"\x30\x03\x00\x01a", MqttMessage("a", b"")),
    (False, b"\x30\x7f\x00\x01a" + b"x" * 124, MqttMessage("a", b"x" * 124)),
    (False, b"\x30\x80\x01\x00\x01a" + b"x" * 125, MqttMessage("a", b"x" * 125)),
    (False, b"\x30\x80\x80\x01\x01\x2c" + b"a" * 16_382, MqttMessage("a" * 300, b"a" * 16_082)),
]

WRONG = [
    (False, b"\x36\x07\x00\x03a/b\x00\x0a", "quality of service 3"),
    (False, b"\x32\x05\x00\x03a/b", "ends within its topic"),
    (False, b"\x30\x01\x00", "ends within its topic"),
    (False, b"\x30\x03\x00\x02a", "ends within its topic"),
    (False, b"\x32\x04\x00\x01a\x01", "ends within its topic"),
    (False, b"\x32\x07\x00\x03a/b\x00\x00", "packet identifier 0"),
    (False, b"\x30\x03\x00\x01\xff", "not UTF-8"),
    (False, b"\x30\xff\xff\xff\xff\x7f", "more than four bytes"),
    (False, b"\x30\xff\xff\xff\x7f", "expected at most"),
    (False, b"\x10\x00", "does not send packets of kind 1"),
    (False, b"\xe0\x00", "does not send packets of kind 14"),
    (False, b"\x20\x01\x00", "too short"),
    (False, b"\x40\x01\x00", "no packet identifier"),
    (False, b"\x90\x01\x00", "no packet identifier"),
    (True, b"\x40\x06\x00\x01\x00\x02\x21\x00", "properties are longer than their length says"),
    (True, b"\x40\x06\x00\x01\x00\x02\x1f\x00", "ends within a length"),
    (True, b"\x40\x07\x00\x01\x00\x03\x1f\x00\x01", "ends within a text"),
    (True, b"\x40\x08\x00\x01\x00\xff\xff\xff\xff\x01", "more than four bytes"),
    (True, b"\x40\x05\x00\x01\x00\xff\xff", "ends within a number"),
    (True, b"\x30\x04\x00\x01a\x05", "ends within its properties"),
    (True, b"\x30\x05\x00\x01a\x01\x7f", "does not exist"),
    (True, b"\x30\x03\x00\x01a", "before its properties"),
]


def pieces(data: bytes, is_new: bool) -> list[MqttPacket]:
    reader = MqttReader(is_new)
    return [packet for at in range(len(data)) for packet in reader.feed(data[at : at + 1])]


@pytest.mark.parametrize(("is_new", "data", "expected"), ANSWERS)
def test_answers_are_read_whole_and_byte_by_byte(
    is_new: bool, data: bytes, expected: tuple[int, int, tuple[int, ...]]
) -> None:
    for found in (MqttReader(is_new).feed(data + data[:1]), pieces(data, is_new)):
        (answer,) = found
        assert isinstance(answer, MqttAnswer)
        assert (answer.kind, answer.packet_id, answer.codes) == expected


def test_what_a_broker_says_of_itself_is_read() -> None:
    (answer,) = MqttReader(is_new=True).feed(b"\x20\x06\x01\x00\x03\x21\x00\x14")
    assert isinstance(answer, MqttAnswer)
    assert (answer.session_present, answer.properties.numbers[RECEIVE_MAXIMUM]) == (True, 20)


@pytest.mark.parametrize(("is_new", "data", "expected"), MESSAGES)
def test_messages_are_read_whole_and_byte_by_byte(is_new: bool, data: bytes, expected: MqttMessage) -> None:
    for found in (MqttReader(is_new).feed(data + b"\x30"), pieces(data, is_new)):
        (message,) = found
        assert isinstance(message, MqttMessage)
        for name in ("topic", "payload", "qos", "retain", "dup", "packet_id"):
            assert getattr(message, name) == getattr(expected, name)


@pytest.mark.parametrize(("is_new", "data", "words"), WRONG)
def test_what_the_standard_forbids_is_an_error_that_says_so(is_new: bool, data: bytes, words: str) -> None:
    with pytest.raises(MqttError, match=words):
        MqttReader(is_new).feed(data)
    with pytest.raises(MqttError, match=words):
        pieces(data, is_new)


@given(st.binary(max_size=200), st.booleans())
def test_any_other_bytes_are_packets_or_an_error(data: bytes, is_new: bool) -> None:
    with contextlib.suppress(MqttError):
        MqttReader(is_new).feed(data)


@given(
    st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
    st.binary(max_size=300),
    st.integers(0, 2),
    st.booleans(),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3),
    st.booleans(),
)
def test_a_message_that_was_written_is_read_again(
    topic: str, payload: bytes, qos: int, retain: bool, users: list[tuple[str, str]], is_new: bool
) -> None:
    properties = message_properties(users, "text/plain", "answers", "c1")
    sent = MqttMessage(topic, payload, qos, retain, packet_id=77 if qos else 0, properties=properties)
    (read,) = pieces(publish(sent, is_new), is_new)
    assert isinstance(read, MqttMessage)
    assert (read.topic, read.payload, read.qos, read.retain) == (topic, payload, qos, retain)
    if is_new:
        assert read.properties.users == users
        kinds = (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA)
        assert [read.properties.text(kind) for kind in kinds] == ["text/plain", "answers", "c1"]


def test_requests_are_written_as_the_standard_prints_them() -> None:
    assert connect("c", False, 30, True, None, None) == b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x1e\x00\x01c"
    assert connect("c", True, 30, False, "u", "p", 60) == (
        b"\x10\x19\x00\x04MQTT\x05\xc0\x00\x1e\x05\x11\x00\x00\x00\x3c\x00\x01c\x00\x01u\x00\x01p"
    )
    assert connect("c", True, 258, True, "u", None) == (b"\x10\x11\x00\x04MQTT\x05\x82\x01\x02\x00\x00\x01c\x00\x01u")
    message = MqttMessage("a", b"x", 2, retain=True, dup=True, packet_id=258)
    assert publish(message, False) == b"\x3d\x06\x00\x01a\x01\x02x"
    assert publish(message, True) == b"\x3d\x07\x00\x01a\x01\x02\x00x"
    assert subscribe(10, False, [("a/b", 1), ("c", 2)]) == b"\x82\x0c\x00\x0a\x00\x03a/b\x01\x00\x01c\x02"
    assert subscribe(10, True, [("a", 0)]) == b"\x82\x07\x00\x0a\x00\x00\x01a\x00"
    assert acknowledge(PUBREL, 258) == b"\x62\x02\x01\x02"
    assert (disconnect(False), disconnect(True)) == (b"\xe0\x00", b"\xe0\x01\x00")


@pytest.mark.parametrize(
    ("number", "data"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16_384, b"\x80\x80\x01")]
)
def test_lengths_have_seven_bits_in_each_byte(number: int, data: bytes) -> None:
    assert variable(number) == data


def test_a_packet_may_have_sixteen_mebibytes_and_no_more() -> None:
    assert MqttReader(is_new=False).feed(b"\x30" + variable(16_777_216)) == []
    with pytest.raises(MqttError, match="a packet of 16777217 bytes: expected at most 16777216"):
        MqttReader(is_new=False).feed(b"\x30" + variable(16_777_217))


# Identifiers of properties by the form of their values: table 2-4 of the standard.
NUMBERS = {
    1: (0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A),
    2: (0x13, 0x21, 0x22, 0x23),
    4: (0x02, 0x11, 0x18, 0x27),
}
TEXTS = (0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F)


def test_every_property_has_the_form_of_the_standard() -> None:
    numbers = [(kind, (kind + 1) * 257 % 256**size) for size, kinds in NUMBERS.items() for kind in kinds]
    body = b"".join(
        bytes([kind]) + ((kind + 1) * 257 % 256**size).to_bytes(size, "big")
        for size, kinds in NUMBERS.items()
        for kind in kinds
    )
    body += b"\x0b\xac\x02" + b"".join(bytes([kind, 0, 1, kind]) for kind in TEXTS)
    body += b"\x26\x00\x01a\x00\x02bc" * 2
    texts = [(kind, bytes([kind])) for kind in TEXTS]
    data = variable(len(body)) + body
    assert encode_properties([*numbers, (0x0B, 300)], texts, [("a", "bc")] * 2) == data
    found, end = read_properties(b"?" + data + b"?", 1)
    assert end == 1 + len(data)
    assert found.numbers == dict([*numbers, (0x0B, 300)])
    assert found.texts == dict(texts)
    assert found.users == [("a", "bc")] * 2
    assert found.text(0x03) == "\x03"
    assert found.text(0x99) is None


@pytest.mark.parametrize("kind", [0x00, 0x04, 0x0A, 0x0C, 0x10, 0x14, 0x1B, 0x1D, 0x1E, 0x20, 0x2B])
def test_there_are_no_other_properties(kind: int) -> None:
    with pytest.raises(MqttError, match=f"property {kind:#04x} does not exist"):
        read_properties(bytes([1, kind]), 0)


def test_what_just_fits_is_written() -> None:
    assert variable(268_435_455) == b"\xff\xff\xff\x7f"
    (read,) = MqttReader(is_new=True).feed(publish(MqttMessage("x" * 65_535, b""), is_new=True))
    assert isinstance(read, MqttMessage)
    assert read.topic == "x" * 65_535


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(ValueError, match="expected 0 to 268435455"):
        variable(-1)
    with pytest.raises(ValueError, match="expected 0 to 268435455"):
        variable(268_435_456)
    with pytest.raises(ValueError, match="expected at most 65535"):
        publish(MqttMessage("x" * 65_536, b""), is_new=True)
