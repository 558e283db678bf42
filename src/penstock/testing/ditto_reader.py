"""Events of the Ditto door, as a client reads them. For tests and tools.

Strict: what a server may not say is an error. How messages are written, and how commands are read, is in `wire.ditto`.
"""

from __future__ import annotations

from msgspec import UNSET

from penstock.wire.ditto.document import Json, encode, expect, expect_long, text_of
from penstock.wire.ditto.envelope import Envelope, parse_envelope
from penstock.wire.ditto.errors import FIELD_MISSING, UNKNOWN_TOPIC, DittoError, wrong_type
from penstock.wire.ditto.instant import NANOS_PER_MICRO, parse_instant
from penstock.wire.ditto.kinds import EVENTS, Action
from penstock.wire.ditto.resource import parse_resource
from penstock.wire.ditto.streaming import (
    Complete,
    Created,
    Next,
    StreamEvent,
    StreamFailed,
    members,
    streaming_action,
    subscription_in,
)
from penstock.wire.ditto.topic import Criterion, StreamingAction
from penstock.wire.ditto.twin import TwinEvent


def read_twin_event(envelope: Envelope) -> TwinEvent:
    """A change of a twin; raises an error for anything else."""
    topic = envelope.topic
    if topic.criterion is not Criterion.EVENTS or topic.action not in EVENTS:
        raise UNKNOWN_TOPIC.of(topic, description="The topic is not one of an event.")
    if envelope.revision is None:
        raise FIELD_MISSING.of("/revision")
    if envelope.timestamp is None:
        raise FIELD_MISSING.of("/timestamp")
    instant = parse_instant(envelope.timestamp)
    if instant is None:
        raise wrong_type(text_of(envelope.timestamp), "/timestamp", "ISO-8601 timestamp")
    if envelope.value is UNSET and topic.action != Action.DELETED:
        raise FIELD_MISSING.of("/value")
    parse_resource(topic.group, envelope.path)
    return TwinEvent(
        topic, envelope.path, envelope.value, envelope.revision, instant // NANOS_PER_MICRO, envelope.headers
    )


def read_streaming_event(envelope: Envelope) -> StreamEvent:
    """A message of a streaming subscription; raises an error for what a server never sends."""
    topic, headers = envelope.topic, envelope.headers
    action = streaming_action(topic)
    if action not in (
        StreamingAction.CREATED,
        StreamingAction.NEXT,
        StreamingAction.COMPLETE,
        StreamingAction.FAILED,
    ):
        raise UNKNOWN_TOPIC.of(topic, description=f"Streaming action name <{action}> cannot be sent by a server.")
    value = members(envelope)
    subscription = subscription_in(value)
    if action is StreamingAction.CREATED:
        return Created(topic, headers, subscription)
    if action is StreamingAction.COMPLETE:
        return Complete(topic, headers, subscription)
    if action is StreamingAction.NEXT:
        if "item" not in value:
            raise FIELD_MISSING.of("/item")
        return Next(topic, headers, subscription, value["item"])
    return StreamFailed(topic, headers, subscription, _error(value))


def read_item(message: Json) -> Envelope:
    """Read the envelope that is the item of another one; raises UnreadableMessage."""
    return parse_envelope(encode(message))


def _error(value: dict[str, Json]) -> DittoError:
    if value.get("error") is None:
        raise FIELD_MISSING.of("/error")
    error = expect(value["error"], dict, "/error")
    for name in ("status", "error", "message"):
        if error.get(name) is None:
            raise FIELD_MISSING.of(f"/error/{name}")
    description, href = error.get("description"), error.get("href")
    return DittoError(
        expect_long(error["status"], "/error/status"),
        expect(error["error"], str, "/error/error"),
        expect(error["message"], str, "/error/message"),
        None if description is None else expect(description, str, "/error/description"),
        None if href is None else expect(href, str, "/error/href"),
    )
