"""What a target is told, and how: which signals it subscribes to, and the message that each becomes."""

from __future__ import annotations

from urllib.parse import quote, unquote_plus

from penstock.connections.document import ConnectionDocument, TargetDocument
from penstock.connections.errors import invalid
from penstock.connections.facts import EnvelopeFacts
from penstock.connections.mapping import mappings_of
from penstock.connections.message import OutboundMessage
from penstock.connections.placeholders import checked_text
from penstock.wire.ditto.control import StartSending, parse_control
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.topic import Criterion, TopicChannel

_ALLOWED = frozenset({"header", "thing", "policy", "entity", "feature", "topic", "resource", "connection", "time"})

# Topics of a target, and what a client on a WebSocket would send for the same.
TOPICS = {
    "_/_/things/twin/events": "START-SEND-EVENTS",
    "_/_/things/live/messages": "START-SEND-MESSAGES",
    "_/_/things/live/commands": "START-SEND-LIVE-COMMANDS",
    "_/_/things/live/events": "START-SEND-LIVE-EVENTS",
    "_/_/policies/announcements": "START-SEND-POLICY-ANNOUNCEMENTS",
}


class TargetRules:
    """Checked when they are made; raises what is wrong with the document."""

    def __init__(self, document: ConnectionDocument, number: int) -> None:
        target: TargetDocument = document.targets[number]
        where = f"targets[{number}]"
        self.connection = document.id
        self.target = target
        self.subjects = tuple(target.authorization_context)
        # Lines for the conversation, one for each topic.
        self.lines = tuple([_line(topic, where) for topic in target.topics])
        self._mappings = mappings_of(target.payload_mapping, document.mapping_definitions)
        if not all(mapping.writes for mapping in self._mappings):
            raise invalid(f"{where}.payloadMapping: the Template of a target needs options.outgoing")
        self._address = checked_text(target.address, _ALLOWED, f"{where}.address")
        self._headers = {
            name.lower(): checked_text(text, _ALLOWED, f"{where}.headerMapping.{name}")
            for name, text in target.header_mapping.items()
        }
        self.label = target.issued_acknowledgement_label
        if self.label is not None:
            self.label = self.label.replace("{{connection:id}}", document.id).replace(
                "{{ connection:id }}", document.id
            )
            if not self.label.startswith(f"{document.id}:") and document.id:
                raise invalid(
                    f"{where}.issuedAcknowledgementLabel = '{self.label}': expected it to begin with '{document.id}:'"
                )

    def messages(self, envelope: Envelope, now_micros: int) -> list[OutboundMessage]:
        """What a signal becomes, nothing if its address is filtered out; raises the error to count."""
        headers = {name: value for name, value in envelope.headers.items() if isinstance(value, str)}
        facts = EnvelopeFacts(self.connection, headers, "", envelope, now_micros)
        if self._address.may_leave_out and self._address.maybe(facts.resolve) is None:
            return []
        address = self._address.of(facts.resolve)
        found = []
        for mapping in self._mappings:
            payload, kind = mapping.outgoing(envelope)
            told = {"content-type": kind}
            for name, text in self._headers.items():
                value = text.maybe(facts.resolve)
                if value is not None:
                    told[name] = value
            found.append(OutboundMessage(address, payload, told, self.target.qos))
        return found

    def acknowledgement(self, envelope: Envelope, status: int) -> dict[str, object] | None:
        """What the server is told when the broker has the message, if somebody waits for that."""
        wanted = envelope.headers.get("requested-acks")
        if self.label is None or not isinstance(wanted, list) or self.label not in wanted:
            return None
        topic = envelope.topic
        channel = TopicChannel.TWIN if topic.criterion is Criterion.EVENTS else topic.channel
        return {
            "topic": f"{topic.namespace}/{topic.name}/things/{channel}/acks/{self.label}",
            "path": "/",
            "headers": {"correlation-id": envelope.headers.get("correlation-id")},
            "status": status,
        }


def _line(topic: str, where: str) -> str:
    """As a WebSocket has it; raises what is wrong with it."""
    name, _, query = topic.partition("?")
    start = TOPICS.get(name)
    if start is None:
        raise invalid(f"{where}.topics: '{name}' is not supported; expected {', '.join(TOPICS)}")
    pairs = []
    for pair in query.split("&") if query else ():
        key, equals, value = pair.partition("=")
        if key not in ("namespaces", "filter", "extraFields") or not equals:
            raise invalid(f"{where}.topics: '{key}' is not a parameter; expected namespaces, filter or extraFields")
        # Documents have it as it is, or URL encoded.
        pairs.append(f"{key}={quote(unquote_plus(value), safe='')}")
    line = f"{start}?{'&'.join(pairs)}" if pairs else start
    try:
        control = parse_control(line)
    except DittoError as error:
        raise invalid(f"{where}.topics: '{topic}': {error.message}", error.description) from None
    assert isinstance(control, StartSending)
    return line
