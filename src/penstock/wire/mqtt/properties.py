"""Properties of MQTT 5: the part of a packet that 3.1.1 does not have. Those that nobody here asks for are skipped."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.wire.mqtt.errors import MqttError

SESSION_EXPIRY = 0x11
CONTENT_TYPE = 0x03
RESPONSE_TOPIC = 0x08
CORRELATION_DATA = 0x09
SERVER_KEEP_ALIVE = 0x13
REASON_STRING = 0x1F
RECEIVE_MAXIMUM = 0x21
MAXIMUM_QOS = 0x24
USER_PROPERTY = 0x26
MAXIMUM_PACKET_SIZE = 0x27

# How long the value of each is: bytes, or one of the three forms below.
_VARIABLE, _TEXT, _PAIR = -1, -2, -3
_FORMS: dict[int, int] = {
    0x01: 1,
    0x02: 4,
    CONTENT_TYPE: _TEXT,
    RESPONSE_TOPIC: _TEXT,
    CORRELATION_DATA: _TEXT,
    0x0B: _VARIABLE,
    SESSION_EXPIRY: 4,
    0x12: _TEXT,
    SERVER_KEEP_ALIVE: 2,
    0x15: _TEXT,
    0x16: _TEXT,
    0x17: 1,
    0x18: 4,
    0x19: 1,
    0x1A: _TEXT,
    0x1C: _TEXT,
    REASON_STRING: _TEXT,
    RECEIVE_MAXIMUM: 2,
    0x22: 2,
    0x23: 2,
    MAXIMUM_QOS: 1,
    0x25: 1,
    USER_PROPERTY: _PAIR,
    MAXIMUM_PACKET_SIZE: 4,
    0x28: 1,
    0x29: 1,
    0x2A: 1,
}

MAX_VARIABLE = 268_435_455


def variable(number: int) -> bytes:
    """A number of at most 28 bits, seven in each byte."""
    if not 0 <= number <= MAX_VARIABLE:
        raise ValueError(f"{number}: expected 0 to {MAX_VARIABLE}")
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(value: str) -> bytes:
    return binary(value.encode())


def binary(value: bytes) -> bytes:
    if len(value) > 65_535:
        raise ValueError(f"a text of {len(value)} bytes: expected at most 65535")
    return len(value).to_bytes(2, "big") + value


def read_variable(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    number = 0
    for shift in (0, 7, 14, 21):
        if at >= len(data):
            raise MqttError("a packet ends within a number")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise MqttError("a number has more than four bytes")


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2
    if end > len(data):
        raise MqttError("a packet ends within a length")
    end += data[at] << 8 | data[at + 1]
    if end > len(data):
        raise MqttError("a packet ends within a text")
    return data[at + 2 : end], end


class Properties:
    """Those of one packet: numbers, texts as bytes, and pairs of users, which may have the same name."""

    __slots__ = ("numbers", "texts", "users")

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.texts: dict[int, bytes] = {}
        self.users: list[tuple[str, str]] = []

    def text(self, kind: int) -> str | None:
        found = self.texts.get(kind)
        return None if found is None else found.decode("utf-8", "replace")


def read_properties(data: bytes, at: int) -> tuple[Properties, int]:
    """The properties, and where they end."""
    size, at = read_variable(data, at)
    end = at + size
    if end > len(data):
        raise MqttError("a packet ends within its properties")
    found = Properties()
    while at < end:
        kind, at = read_variable(data, at)
        form = _FORMS.get(kind)
        if form is None:
            raise MqttError(f"property {kind:#04x} does not exist")
        if form == _PAIR:
            name, at = read_binary(data, at)
            value, at = read_binary(data, at)
            found.users.append((name.decode("utf-8", "replace"), value.decode("utf-8", "replace")))
        elif form == _TEXT:
            found.texts[kind], at = read_binary(data, at)
        elif form == _VARIABLE:
            found.numbers[kind], at = read_variable(data, at)
        else:
            found.numbers[kind] = int.from_bytes(data[at : at + form], "big")
            at += form
    if at != end:
        raise MqttError("properties are longer than their length says")
    return found, end


def encode_properties(
    numbers: Sequence[tuple[int, int]] = (),
    texts: Sequence[tuple[int, bytes]] = (),
    users: Sequence[tuple[str, str]] = (),
) -> bytes:
    out = bytearray()
    for kind, number in numbers:
        out.append(kind)
        form = _FORMS[kind]
        out += variable(number) if form == _VARIABLE else number.to_bytes(form, "big")
    for kind, value in texts:
        out.append(kind)
        out += binary(value)
    for name, user_value in users:
        out.append(USER_PROPERTY)
        out += text(name) + text(user_value)
    return variable(len(out)) + bytes(out)
