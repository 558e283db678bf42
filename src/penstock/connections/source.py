"""What a source does with a message: mapping, headers, enforcement; and where the answers to it go."""

from __future__ import annotations

from dataclasses import replace

from penstock.connections.document import ConnectionDocument, SourceDocument
from penstock.connections.errors import ENFORCEMENT_FAILED, invalid
from penstock.connections.facts import EnvelopeFacts
from penstock.connections.mapping import DittoMapping, mappings_of, read_envelope
from penstock.connections.message import InboundMessage, OutboundMessage
from penstock.connections.placeholders import PlaceholderText, checked_text
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.topic import Criterion

# What a message itself can tell, before it is mapped.
_MESSAGE = frozenset({"header", "source", "connection", "time"})
_ENVELOPE = _MESSAGE | {"thing", "policy", "entity", "feature", "topic", "resource"}
_FILTER = frozenset({"thing", "policy", "entity", "feature"})


class SourceRules:
    """Checked when they are made; raises what is wrong with the document."""

    def __init__(self, document: ConnectionDocument, number: int) -> None:
        source: SourceDocument = document.sources[number]
        where = f"sources[{number}]"
        self.connection = document.id
        self.source = source
        self.subjects = tuple(source.authorization_context)
        # What divides the levels of a topic's name, for templates.
        self.separator = "/" if document.connection_type.startswith("mqtt") else "."
        self._mappings = mappings_of(source.payload_mapping, document.mapping_definitions)
        if not all(mapping.reads for mapping in self._mappings):
            raise invalid(f"{where}.payloadMapping: the Template of a source needs options.incoming")
        # A Template may have nothing to say about answers.
        self._answering = self._mappings[0] if self._mappings[0].writes else DittoMapping()
        self._headers = {
            name.lower(): checked_text(text, _MESSAGE, f"{where}.headerMapping.{name}")
            for name, text in source.header_mapping.items()
        }
        self._input: PlaceholderText | None = None
        self._filters: list[PlaceholderText] = []
        if source.enforcement is not None:
            self._input = checked_text(
                source.enforcement.input, frozenset({"header", "source"}), f"{where}.enforcement.input"
            )
            self._filters = [
                checked_text(text, _FILTER, f"{where}.enforcement.filters") for text in source.enforcement.filters
            ]
            if not self._filters:
                raise invalid(f"{where}.enforcement.filters: expected at least one, such as {{{{ thing:id }}}}")
        acks = source.acknowledgement_requests
        self._acks = [] if acks is None else acks.includes
        self._reply: PlaceholderText | None = None
        self._reply_headers: dict[str, PlaceholderText] = {}
        self._reply_types: frozenset[str] = frozenset()
        reply = source.reply_target
        if reply is not None and reply.enabled:
            self._reply = checked_text(reply.address, _ENVELOPE, f"{where}.replyTarget.address")
            self._reply_types = frozenset(reply.expected_response_types)
            self._reply_headers = {
                name.lower(): checked_text(text, _ENVELOPE, f"{where}.replyTarget.headerMapping.{name}")
                for name, text in reply.header_mapping.items()
            }

    def envelopes(self, message: InboundMessage, now_micros: int) -> list[Envelope]:
        """What a message asks for; raises the error that its sender is told."""
        facts = EnvelopeFacts(self.connection, message.headers, message.address, None, now_micros)
        headers: dict[str, Json] = {}
        if "correlation-id" in message.headers:
            headers["correlation-id"] = message.headers["correlation-id"]
        if "reply-to" in message.headers:
            headers["reply-to"] = message.headers["reply-to"]
        for name, text in self._headers.items():
            value = text.maybe(facts.resolve)
            if value is not None:
                headers[name] = value
        found = []
        for mapping in self._mappings:
            for text_of_envelope in mapping.incoming(message, headers, self.separator):
                envelope = read_envelope(text_of_envelope)
                self._enforce(envelope, facts)
                found.append(self._asking(envelope))
        return found

    def _enforce(self, envelope: Envelope, facts: EnvelopeFacts) -> None:
        if self._input is None:
            return
        given = self._input.of(facts.resolve)
        about = EnvelopeFacts(self.connection, facts.headers, facts.address, envelope, facts.now_micros)
        if not any(text.maybe(about.resolve) == given for text in self._filters):
            raise ENFORCEMENT_FAILED.of(envelope.topic.entity)

    def _asking(self, envelope: Envelope) -> Envelope:
        """With the acknowledgements that the source asks for, where the message names none."""
        if not self._acks or "requested-acks" in envelope.headers:
            return envelope
        if envelope.topic.criterion not in (Criterion.COMMANDS, Criterion.MESSAGES):
            return envelope
        return replace(envelope, headers={**envelope.headers, "requested-acks": list(self._acks)})

    # -- answers ----------------------------------------------------------------------------------------------------

    @property
    def replies(self) -> bool:
        return self._reply is not None

    def reply(self, envelope: Envelope, address: str, now_micros: int) -> OutboundMessage | None:
        """An answer on its way back; None if nobody wants it, or nobody says where to."""
        if self._reply is None or _type_of(envelope) not in self._reply_types:
            return None
        headers = {name: value for name, value in envelope.headers.items() if isinstance(value, str)}
        facts = EnvelopeFacts(self.connection, headers, address, envelope, now_micros)
        place = self._reply.maybe(facts.resolve)
        if place is None:
            return None
        payload, kind = self._answering.outgoing(envelope)
        told = {"content-type": kind}
        if "correlation-id" in headers:
            told["correlation-id"] = headers["correlation-id"]
        for name, text in self._reply_headers.items():
            value = text.maybe(facts.resolve)
            if value is not None:
                told[name] = value
        return OutboundMessage(place, payload, told, self.source.qos)


def _type_of(envelope: Envelope) -> str:
    if envelope.topic.criterion is Criterion.ERRORS:
        return "error"
    if envelope.topic.criterion is Criterion.ACKS and envelope.status is not None and envelope.status >= 400:
        return "nack"
    return "response"
