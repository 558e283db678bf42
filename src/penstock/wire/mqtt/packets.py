"""Packets that a client sends, as bytes, and those that a broker sends, as objects. `MqttReader` cuts the stream."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.wire.mqtt.errors import OLD_REASONS, MqttError
from penstock.wire.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    RESPONSE_TOPIC,
    SESSION_EXPIRY,
    Properties,
    encode_properties,
    read_properties,
    text,
    variable,
)

CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 2, 3, 4, 5, 6, 7
SUBACK, UNSUBACK, PINGRESP, DISCONNECT = 9, 11, 13, 14

# A larger packet ends the connection, because all of it would have to be in memory.
MAX_PACKET_BYTES = 16 * 1024 * 1024

NO_PROPERTIES = Properties()

PING = b"\xc0\x00"


class MqttMessage:
    """A PUBLISH. `packet_id` is 0 where the quality of service has none."""

    __slots__ = ("dup", "packet_id", "payload", "properties", "qos", "retain", "topic")

    def __init__(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        packet_id: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.dup = dup
        self.packet_id = packet_id
        self.properties = properties


class MqttAnswer:
    """Any other packet of a broker: its kind, the packet it answers, and the codes in it, those of version 5."""

    __slots__ = ("codes", "kind", "packet_id", "properties", "session_present")

    def __init__(
        self,
        kind: int,
        packet_id: int = 0,
        codes: Sequence[int] = (),
        session_present: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        self.kind = kind
        self.packet_id = packet_id
        self.codes = tuple(codes)
        self.session_present = session_present
        self.properties = properties

    @property
    def code(self) -> int:
        return self.codes[0] if self.codes else 0


MqttPacket = MqttMessage | MqttAnswer


class MqttReader:
    """Bytes in any pieces to packets. `is_new` is whether the broker speaks version 5."""

    def __init__(self, is_new: bool) -> None:
        self._is_new = is_new
        self._rest = b""

    def feed(self, data: bytes) -> list[MqttPacket]:
        """The packets that are complete; raises MqttError for what is none."""
        if self._rest:
            data = self._rest + data
        found: list[MqttPacket] = []
        at = 0
        size = len(data)
        while size - at >= 2:
            length = data[at + 1]
            body = at + 2
            if length > 127:
                length &= 127
                shift = 7
                while True:
                    if body >= size:
                        length = -1
                        break
                    byte = data[body]
                    body += 1
                    length |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
                    if shift > 21:
                        raise MqttError("the length of a packet has more than four bytes")
                if length < 0:
                    break
            if length > MAX_PACKET_BYTES:
                raise MqttError(f"a packet of {length} bytes: expected at most {MAX_PACKET_BYTES}")
            end = body + length
            if end > size:
                break
            first = data[at]
            if first >> 4 == PUBLISH:
                found.append(self._message(first, data, body, end))
            else:
                found.append(self._answer(first >> 4, data[body:end]))
            at = end
        self._rest = data[at:]
        return found

    def _message(self, first: int, data: bytes, at: int, end: int) -> MqttMessage:
        qos = first >> 1 & 3
        if qos == 3:
            raise MqttError("a message has quality of service 3")
        if at + 2 > end:
            raise MqttError("a message ends within its topic")
        begin = at + 2
        at = begin + (data[at] << 8 | data[at + 1])
        if at + (2 if qos else 0) > end:
            raise MqttError("a message ends within its topic")
        try:
            topic = data[begin:at].decode()
        except UnicodeDecodeError:
            raise MqttError("the topic of a message is not UTF-8") from None
        packet_id = 0
        if qos:
            packet_id = data[at] << 8 | data[at + 1]
            at += 2
            if not packet_id:
                raise MqttError("a message has packet identifier 0")
        properties = NO_PROPERTIES
        if self._is_new:
            if at >= end:
                raise MqttError("a message ends before its properties")
            if data[at]:
                properties, used = read_properties(data[at:end], 0)
                at += used
            else:
                at += 1
        return MqttMessage(topic, data[at:end], qos, bool(first & 1), bool(first & 8), packet_id, properties)

    def _answer(self, kind: int, body: bytes) -> MqttAnswer:
        if kind == CONNACK:
            return self._connack(body)
        if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
            if len(body) < 2:
                raise MqttError("an answer has no packet identifier")
            properties = read_properties(body, 3)[0] if self._is_new and len(body) > 3 else NO_PROPERTIES
            return MqttAnswer(kind, body[0] << 8 | body[1], body[2:3], properties=properties)
        if kind in (SUBACK, UNSUBACK):
            if len(body) < 2:
                raise MqttError("an answer has no packet identifier")
            properties, at = read_properties(body, 2) if self._is_new else (NO_PROPERTIES, 2)
            return MqttAnswer(kind, body[0] << 8 | body[1], body[at:], properties=properties)
        if kind == PINGRESP:
            return MqttAnswer(kind)
        if kind == DISCONNECT and self._is_new:
            properties = read_properties(body, 1)[0] if len(body) > 1 else NO_PROPERTIES
            return MqttAnswer(kind, codes=body[:1], properties=properties)
        raise MqttError(f"a broker does not send packets of kind {kind}")

    def _connack(self, body: bytes) -> MqttAnswer:
        if len(body) < 2:
            raise MqttError("the answer to CONNECT is too short")
        code = body[1] if self._is_new else OLD_REASONS.get(body[1], 0x80 if body[1] else 0)
        properties = read_properties(body, 2)[0] if self._is_new and len(body) > 2 else NO_PROPERTIES
        return MqttAnswer(CONNACK, codes=(code,), session_present=bool(body[0] & 1), properties=properties)


# -- what a client sends -----------------------------------------------------------------------------------------------


def connect(
    client_id: str,
    is_new: bool,
    keep_alive: int,
    clean: bool,
    user: str | None,
    password: str | None,
    session_seconds: int = 0,
) -> bytes:
    """With `clean` the broker forgets what it knew of this client; else it keeps a session for so many seconds."""
    flags = (2 if clean else 0) | (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    body = text("MQTT") + bytes([5 if is_new else 4, flags]) + keep_alive.to_bytes(2, "big")
    if is_new:
        body += encode_properties([(SESSION_EXPIRY, session_seconds)] if session_seconds else ())
    body += text(client_id)
    if user is not None:
        body += text(user)
    if password is not None:
        body += text(password)
    return _packet(0x10, body)


def subscribe(packet_id: int, is_new: bool, filters: Sequence[tuple[str, int]]) -> bytes:
    body = packet_id.to_bytes(2, "big") + (b"\x00" if is_new else b"")
    for topic, qos in filters:
        body += text(topic) + bytes([qos])
    return _packet(0x82, body)


def publish(message: MqttMessage, is_new: bool) -> bytes:
    first = 0x30 | (8 if message.dup else 0) | message.qos << 1 | (1 if message.retain else 0)
    body = text(message.topic)
    if message.qos:
        body += message.packet_id.to_bytes(2, "big")
    if is_new:
        given = message.properties
        texts = [(kind, given.texts[kind]) for kind in sorted(given.texts)]
        body += encode_properties((), texts, given.users)
    return _packet(first, body + message.payload)


def acknowledge(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP: all is well."""
    return bytes([kind << 4 | (2 if kind == PUBREL else 0), 2, packet_id >> 8, packet_id & 255])


def disconnect(is_new: bool) -> bytes:
    return b"\xe0\x00" if not is_new else b"\xe0\x01\x00"


def message_properties(
    users: Sequence[tuple[str, str]], content_type: str | None, response_topic: str | None, correlation: str | None
) -> Properties:
    found = Properties()
    found.users = list(users)
    for kind, value in (
        (CONTENT_TYPE, content_type),
        (RESPONSE_TOPIC, response_topic),
        (CORRELATION_DATA, correlation),
    ):
        if value is not None:
            found.texts[kind] = value.encode()
    return found


def _packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + variable(len(body)) + body
