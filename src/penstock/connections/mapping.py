"""Payload mapping: from the bytes of a message to envelopes of the Ditto protocol, and back. No code is ever run.

`Ditto` reads and writes the protocol itself, `Raw` passes the payload of live messages on as it is, `Template` fills in
a document whose texts have the templates of docs/brokers.md.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.connections.document import MappingDefinition
from penstock.connections.errors import MAPPING_FAILED, invalid
from penstock.connections.message import InboundMessage
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import Envelope, UnreadableMessage, parse_envelope
from penstock.wire.ditto.topic import Criterion
from penstock.wire.records.formats import decode_text
from penstock.wire.records.mapping import RecordView
from penstock.wire.records.record import DeliveredRecord, PoisonRecord
from penstock.wire.records.template import Expression, Template, TemplateError

ENGINES = ("Ditto", "Raw", "Template")

PROTOCOL = "application/vnd.eclipse.ditto+json"

# Depth of a template's document.
MAX_DEPTH = 32


class PayloadMapping(ABC):
    """One entry of `payloadMapping`."""

    # Whether it has anything to say about messages in, and about messages out.
    reads = True
    writes = True

    @abstractmethod
    def incoming(self, message: InboundMessage, headers: Mapping[str, Json], separator: str) -> list[bytes]:
        """Envelopes, as texts; raises what is wrong with the message. `headers` belong to each of them."""

    @abstractmethod
    def outgoing(self, envelope: Envelope) -> tuple[bytes, str]:
        """A payload and its type; raises what is wrong with the envelope."""


class DittoMapping(PayloadMapping):
    """The protocol, as it is on the WebSocket."""

    def incoming(self, message: InboundMessage, headers: Mapping[str, Json], separator: str) -> list[bytes]:
        try:
            given = msgspec.json.decode(message.payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MAPPING_FAILED.of(f"it is not JSON: {error}") from None
        if not isinstance(given, dict) or not isinstance(given.get("headers", {}), dict):
            raise MAPPING_FAILED.of("expected an object with topic, path and headers")
        if headers:
            # The protocol's own headers first: those of the mapping decide.
            own = {name.lower(): value for name, value in (given.get("headers") or {}).items()}
            given["headers"] = {**own, **headers}
            return [msgspec.json.encode(given)]
        return [message.payload]

    def outgoing(self, envelope: Envelope) -> tuple[bytes, str]:
        return envelope.to_bytes(), PROTOCOL


class RawMapping(PayloadMapping):
    """Live messages whose payload is whatever it is. In, headers say for whom it is."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        _only(options, "Raw", ())
        self._other = DittoMapping()

    def incoming(self, message: InboundMessage, headers: Mapping[str, Json], separator: str) -> list[bytes]:
        known = {**message.headers, **{name: str(value) for name, value in headers.items()}}
        subject, thing = known.get("ditto-message-subject"), known.get("ditto-message-thing-id")
        if subject is None or thing is None:
            missing = "ditto-message-subject" if subject is None else "ditto-message-thing-id"
            raise MAPPING_FAILED.of(f"a raw message needs the header {missing}; the source can set it in headerMapping")
        direction = known.get("ditto-message-direction", "to").lower()
        if direction not in ("to", "from"):
            raise MAPPING_FAILED.of(f"ditto-message-direction = '{direction}': expected to or from")
        namespace, colon, name = thing.partition(":")
        if not colon:
            raise MAPPING_FAILED.of(f"ditto-message-thing-id = '{thing}': expected NAMESPACE:NAME")
        feature = known.get("ditto-message-feature-id")
        box = "inbox" if direction == "to" else "outbox"
        place = f"/features/{feature}/{box}" if feature else f"/{box}"
        kind = known.get("content-type", "application/octet-stream")
        sent = {name: value for name, value in headers.items() if not name.startswith("ditto-message-")}
        envelope = {
            "topic": f"{namespace}/{name}/things/live/messages/{subject}",
            "path": f"{place}/messages/{subject}",
            "headers": {"response-required": False, **sent, "content-type": kind},
            "value": _content(message.payload, kind),
        }
        return [msgspec.json.encode(envelope)]

    def outgoing(self, envelope: Envelope) -> tuple[bytes, str]:
        if envelope.topic.criterion is not Criterion.MESSAGES:
            return self._other.outgoing(envelope)
        kind = str(envelope.headers.get("content-type", "application/json"))
        value = envelope.value
        if value is msgspec.UNSET:
            return b"", kind
        if isinstance(value, msgspec.Raw):
            value = msgspec.json.decode(bytes(value))
        if _is_json(kind):
            return msgspec.json.encode(value), kind
        if not isinstance(value, str):
            return msgspec.json.encode(value), kind
        if kind.startswith("text/"):
            return value.encode(), kind
        try:
            return base64.b64decode(value, validate=True), kind
        except ValueError:
            return value.encode(), kind


class TemplateMapping(PayloadMapping):
    """A document with templates: `incoming` makes an envelope of a message, `outgoing` a payload of an envelope."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        _only(options, "Template", ("incoming", "outgoing", "format"))
        self._format = options.get("format", "json")
        if self._format not in ("json", "text"):
            raise invalid(f"options.format = '{self._format}': expected json or text")
        self._incoming = None
        if "incoming" in options:
            given = options["incoming"]
            if not isinstance(given, dict) or not isinstance(given.get("topic"), str):
                raise invalid("options.incoming: expected an object with topic, path and value")
            _only(given, "Template.incoming", ("topic", "path", "value", "headers", "fields"))
            self._incoming = _Filled({"path": "/", **given}, "options.incoming")
        self._outgoing = _Filled(options["outgoing"], "options.outgoing") if "outgoing" in options else None
        self.reads, self.writes = self._incoming is not None, self._outgoing is not None
        if not self.reads and not self.writes:
            raise invalid("options: a Template needs incoming, outgoing, or both")

    def incoming(self, message: InboundMessage, headers: Mapping[str, Json], separator: str) -> list[bytes]:
        assert self._incoming is not None
        place = message.place
        record = DeliveredRecord(
            message.topic,
            message.payload,
            key=message.key,
            headers=[(name, value.encode()) for name, value in message.headers.items()],
            offset=None if place is None else place.offset,
        )
        view = RecordView(record, decode_text, decode_text if self._format == "text" else _decode_json, separator)
        try:
            envelope = self._incoming.of(view)
        except PoisonRecord as poison:
            raise MAPPING_FAILED.of(str(poison)) from None
        envelope["headers"] = {**(envelope.get("headers") or {}), **headers}
        return [msgspec.json.encode(envelope)]

    def outgoing(self, envelope: Envelope) -> tuple[bytes, str]:
        assert self._outgoing is not None
        value = envelope.value
        payload = None if value is msgspec.UNSET else msgspec.json.encode(value)
        told = {
            **{str(name): value for name, value in envelope.headers.items() if isinstance(value, str)},
            "path": envelope.path,
            "timestamp": envelope.timestamp or "",
            **({} if envelope.revision is None else {"revision": str(envelope.revision)}),
            **({} if envelope.status is None else {"status": str(envelope.status)}),
        }
        record = DeliveredRecord(
            str(envelope.topic),
            payload,
            key=envelope.topic.entity.encode(),
            headers=[(name, text.encode()) for name, text in told.items()],
        )
        try:
            filled = self._outgoing.of(RecordView(record, decode_text, _decode_json, "/"))
        except PoisonRecord as poison:
            raise MAPPING_FAILED.of(str(poison)) from None
        if self._format == "text":
            return (filled if isinstance(filled, str) else msgspec.json.encode(filled).decode()).encode(), "text/plain"
        return msgspec.json.encode(filled), "application/json"


class _Filled:
    """JSON whose texts are templates. A text that is one expression becomes what it stands for, with its type."""

    def __init__(self, given: Any, where: str, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise invalid(f"{where}: deeper than {MAX_DEPTH}")
        self._members: dict[str, _Filled] | None = None
        self._entries: list[_Filled] | None = None
        self._template: Template | None = None
        self._plain = given
        self._is_name = where.endswith((".topic", ".path"))
        if isinstance(given, dict):
            self._members = {name: _Filled(value, f"{where}.{name}", depth + 1) for name, value in given.items()}
        elif isinstance(given, list):
            self._entries = [_Filled(value, f"{where}[{at}]", depth + 1) for at, value in enumerate(given)]
        elif isinstance(given, str):
            try:
                self._template = Template(given)
            except TemplateError as error:
                raise invalid(f"{where}: {error}") from None

    def of(self, view: RecordView) -> Any:
        if self._members is not None:
            return {name: value.of(view) for name, value in self._members.items()}
        if self._entries is not None:
            return [value.of(view) for value in self._entries]
        template = self._template
        if template is None:
            return self._plain
        if self._is_name:
            return template.name(view)
        if isinstance(template.only, Expression):
            return template.only.of(view)
        return template.value(view)


def mappings_of(names: Sequence[str], definitions: Mapping[str, MappingDefinition]) -> list[PayloadMapping]:
    """Those of a source or target; none means the protocol itself."""
    return [_mapping(name, definitions) for name in names] or [DittoMapping()]


def _mapping(name: str, definitions: Mapping[str, MappingDefinition]) -> PayloadMapping:
    definition = definitions.get(name)
    engine, options = (name, {}) if definition is None else (definition.mapping_engine, definition.options)
    if engine == "Ditto":
        _only(options, "Ditto", ())
        return DittoMapping()
    if engine in ("Raw", "RawMessage"):
        return RawMapping(options)
    if engine == "Template":
        try:
            return TemplateMapping(options)
        except Exception as error:
            raise invalid(f"mappingDefinitions.{name}: {getattr(error, 'message', error)}") from None
    reason = "; a Template does without code" if engine == "JavaScript" else ""
    raise invalid(
        f"payloadMapping: '{engine}' is not supported: expected {', '.join(ENGINES)}, or one of them"
        f" in mappingDefinitions{reason}"
    )


def read_envelope(text: bytes) -> Envelope:
    """As the protocol has it; raises MAPPING_FAILED."""
    try:
        return parse_envelope(text)
    except UnreadableMessage as unreadable:
        raise unreadable.error from None


def _only(options: Mapping[str, Any], engine: str, known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            raise invalid(f"options.{name} of {engine} does not exist; expected {', '.join(known) or 'no options'}")


def _decode_json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PoisonRecord(f"it is not JSON: {error}") from None


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().endswith(("/json", "+json"))


def _content(payload: bytes, kind: str) -> Json:
    """As messages over HTTP have it: JSON, text, or Base64."""
    if _is_json(kind):
        try:
            return msgspec.json.decode(payload) if payload else None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MAPPING_FAILED.of(f"it is not JSON, as its content-type says: {error}") from None
    if kind.startswith("text/"):
        try:
            return payload.decode()
        except UnicodeDecodeError:
            raise MAPPING_FAILED.of("it is not UTF-8, as its content-type says") from None
    return base64.b64encode(payload).decode()
