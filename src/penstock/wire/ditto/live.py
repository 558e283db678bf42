"""Signals of the live channel: messages to and from things, commands that a device answers, events that it sends.

The server stores none of them: it passes them on to those who may receive them, and answers back to the sender. Who may
do what is in `twins.live`. Upstream documentation: "Messages", "Twin/live channel".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import Raw, UnsetType

from penstock.wire.ditto.control import Signals
from penstock.wire.ditto.document import Json, encode
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import (
    MESSAGE_SUBJECT_INVALID,
    MESSAGE_TOO_LARGE,
    STATUS_INVALID,
    UNKNOWN_PATH,
    UNKNOWN_TOPIC,
    UNSUPPORTED_SIGNAL,
)
from penstock.wire.ditto.ids import EntityId, entity_id
from penstock.wire.ditto.kinds import COMMANDS, EVENTS, Action, EntityGroup
from penstock.wire.ditto.pointer import Pointer, unescape
from penstock.wire.ditto.resource import parse_resource
from penstock.wire.ditto.thing_errors import THING_ID_INVALID
from penstock.wire.ditto.topic import Criterion, TopicChannel

# Bytes of a message's value.
MAX_MESSAGE_BYTES: Final = 250 * 1024

# A message by which somebody who has no rights yet asks a device for some.
CLAIM: Final = "claim"

_MESSAGE_PATH = re.compile(r"/(?:features/([^/]+)/)?(inbox|outbox)/messages/(.+)", re.DOTALL)
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f]{1,256}")


class LiveKind(Enum):
    MESSAGE = Signals.MESSAGES
    COMMAND = Signals.LIVE_COMMANDS
    EVENT = Signals.LIVE_EVENTS

    @property
    def signals(self) -> Signals:
        """What a client asks for to receive them."""
        return Signals(self.value)


@dataclass(frozen=True, slots=True)
class LiveSignal:
    """`pointer` is the place in the thing, or in its mailboxes, that permissions are about."""

    kind: LiveKind
    envelope: Envelope
    entity: EntityId
    pointer: Pointer
    action: Action | None = None

    @property
    def is_response(self) -> bool:
        return self.envelope.status is not None

    @property
    def is_claim(self) -> bool:
        return self.kind is LiveKind.MESSAGE and self.pointer == ("inbox", "messages", CLAIM)

    @property
    def correlation(self) -> str:
        return str(self.envelope.headers.get("correlation-id"))


def parse_live(envelope: Envelope) -> LiveSignal:
    """Raises the error to answer with."""
    topic = envelope.topic
    if topic.group is not EntityGroup.THINGS or topic.channel is not TopicChannel.LIVE:
        raise UNSUPPORTED_SIGNAL.of(topic)
    entity = entity_id(topic.namespace, topic.name)
    if entity is None:
        raise THING_ID_INVALID.of(topic.entity)
    if envelope.status is not None and not 100 <= envelope.status <= 599:
        raise STATUS_INVALID.of(envelope.status)
    if topic.criterion is Criterion.MESSAGES:
        return _message(envelope, entity)
    if topic.criterion is Criterion.COMMANDS and topic.action in COMMANDS:
        pointer = parse_resource(topic.group, envelope.path).pointer
        return LiveSignal(LiveKind.COMMAND, envelope, entity, pointer, Action(topic.action))
    if topic.criterion is Criterion.EVENTS and topic.action in EVENTS:
        pointer = parse_resource(topic.group, envelope.path).pointer
        return LiveSignal(LiveKind.EVENT, envelope, entity, pointer, Action(topic.action))
    raise UNKNOWN_TOPIC.of(topic, description="The topic is not one that a client can send on the live channel.")


def _message(envelope: Envelope, entity: EntityId) -> LiveSignal:
    found = _MESSAGE_PATH.fullmatch(envelope.path)
    if found is None:
        told = (
            "The path of a message is /inbox/messages/SUBJECT or /outbox/messages/SUBJECT, after /features/ID for one."
        )
        raise UNKNOWN_PATH.of(envelope.path, description=told)
    feature, mailbox, subject = found[1], found[2], found[3]
    if envelope.topic.subject != subject:
        raise MESSAGE_SUBJECT_INVALID.of(subject, description="The subjects in topic and path must be the same.")
    if _SUBJECT.fullmatch(subject) is None:
        raise MESSAGE_SUBJECT_INVALID.of(subject)
    check_size(envelope.value)
    pointer: Pointer = (mailbox, "messages", *subject.split("/"))
    if feature is not None:
        pointer = ("features", unescape(feature), *pointer)
    return LiveSignal(LiveKind.MESSAGE, envelope, entity, pointer)


def check_size(value: Json | Raw | UnsetType) -> None:
    if isinstance(value, UnsetType):
        return
    size = len(encode(value))
    if size > MAX_MESSAGE_BYTES:
        raise MESSAGE_TOO_LARGE.of(f"{size / 1024:,.1f}", MAX_MESSAGE_BYTES // 1024)
