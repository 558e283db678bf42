"""Acknowledgements: which ones a sender asks for, one that a subscriber issues, and all of a signal together.

Who waits for whom is in `doors.ditto.live_channel`. Upstream documentation: "Acknowledgements / Quality of Service".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from penstock.wire.ditto.document import Json, NotJson, parse, text_of
from penstock.wire.ditto.envelope import Envelope, Headers, answer_headers
from penstock.wire.ditto.errors import ACK_LABEL_INVALID, ACK_TIMEOUT, HEADER_INVALID, STATUS_INVALID, UNKNOWN_TOPIC
from penstock.wire.ditto.ids import EntityId, entity_id
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.topic import Criterion, Topic

# Issued by the server itself: the change is on the disk, it is in the search index, a subscriber has answered.
PERSISTED: Final = "twin-persisted"
SEARCH_PERSISTED: Final = "search-persisted"
LIVE_RESPONSE: Final = "live-response"
BUILT_IN: Final = (PERSISTED, SEARCH_PERSISTED, LIVE_RESPONSE)

WEAK: Final = "ditto-weak-ack"

# Labels that one signal may ask for, or one connection may declare.
MAX_LABELS: Final = 20

_LABEL = re.compile(r"[a-zA-Z0-9_:-]{3,165}", re.ASCII)


def labels_in(headers: Headers, name: str) -> tuple[str, ...] | None:
    """The labels that a header lists: as a list, as JSON, or separated by commas; None if it is not there."""
    given = headers.get(name)
    if given is None:
        return None
    labels: Json = given
    if type(given) is str:
        try:
            labels = parse(given) if given.startswith("[") else [each.strip() for each in given.split(",") if each]
        except NotJson:
            raise HEADER_INVALID.of(given, name, "list of labels") from None
    if type(labels) is not list or any(type(each) is not str for each in labels):
        raise HEADER_INVALID.of(text_of(given), name, "list of labels")
    if len(labels) > MAX_LABELS:
        raise HEADER_INVALID.of(f"{len(labels)} labels", name, f"list of at most {MAX_LABELS} labels")
    for label in labels:
        check_label(label)
    return tuple(dict.fromkeys(labels))


def check_label(label: str) -> None:
    if _LABEL.fullmatch(label) is None:
        raise ACK_LABEL_INVALID.of(label)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One that a subscriber issues."""

    topic: Topic
    entity: EntityId
    label: str
    headers: Headers
    status: int
    value: Json | UnsetType = UNSET


def parse_acknowledgement(envelope: Envelope) -> Acknowledgement:
    """Raises the error to answer with."""
    topic = envelope.topic
    entity = entity_id(topic.namespace, topic.name)
    if topic.group is EntityGroup.CONNECTIONS or entity is None or topic.subject is None:
        told = "The topic of an acknowledgement is NS/NAME/things/CHANNEL/acks/LABEL, or NS/NAME/policies/acks/LABEL."
        raise UNKNOWN_TOPIC.of(topic, description=told)
    check_label(topic.subject)
    if topic.subject in BUILT_IN:
        raise ACK_LABEL_INVALID.of(topic.subject, description="This label is issued by the server alone.")
    status = 200 if envelope.status is None else envelope.status
    if not 100 <= status <= 599:
        raise STATUS_INVALID.of(status)
    value: Json | UnsetType = envelope.value if not isinstance(envelope.value, Raw) else UNSET
    return Acknowledgement(topic, entity, topic.subject, envelope.headers, status, value)


@dataclass(slots=True)
class Gathering:
    """All that one signal asks for, and what has come of it so far. The first one of a label counts."""

    topic: Topic
    headers: Headers
    labels: tuple[str, ...]
    got: dict[str, dict[str, Json]] = field(default_factory=dict)
    # The response of a subscriber to a live signal, as it came.
    response: Envelope | None = None

    def take(self, label: str, status: int, value: Json | UnsetType, headers: Headers) -> None:
        if label not in self.labels or label in self.got:
            return
        told: dict[str, Json] = {"status": status}
        if not isinstance(value, UnsetType):
            told["payload"] = value
        told["headers"] = {**headers, "correlation-id": self.headers.get("correlation-id")}
        self.got[label] = told

    @property
    def is_complete(self) -> bool:
        return len(self.got) == len(self.labels)

    @property
    def custom(self) -> tuple[str, ...]:
        return tuple([label for label in self.labels if label not in BUILT_IN])

    def missing(self) -> tuple[str, ...]:
        return tuple([label for label in self.labels if label not in self.got])

    def expire(self, seconds: float) -> None:
        """What has not come until now has failed."""
        for label in self.missing():
            error = ACK_TIMEOUT.of(f"{seconds * 1000:,.0f}")
            self.take(label, error.status, error.as_value(), {})

    @property
    def status(self) -> int:
        states = [int(each["status"]) for each in self.got.values()]
        if len(states) == 1:
            return states[0]
        return 200 if all(200 <= each < 300 for each in states) else 424

    def value(self) -> dict[str, Json]:
        """In the order in which they were asked for."""
        return {label: self.got[label] for label in self.labels if label in self.got}

    def envelope(self) -> Envelope:
        """All of them as one message."""
        topic = replace(self.topic, criterion=Criterion.ACKS, action=None, subject=None)
        return Envelope(topic, headers=answer_headers(self.headers), value=self.value(), status=self.status)
