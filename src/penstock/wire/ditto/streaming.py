"""The seven messages of a streaming subscription: three commands of the client, four events of the server.

When each may be sent is decided in `subscriptions`. Specification: "Commands from Client to Ditto" and the section
after it; the schemas of the values are upstream's `protocol-streaming-subscription-*.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, Raw

from penstock.wire.ditto.document import MAX_LONG, Json, expect, expect_long, text_of
from penstock.wire.ditto.envelope import Envelope, Headers, answer_headers
from penstock.wire.ditto.errors import FIELD_MISSING, UNKNOWN_PATH, UNKNOWN_TOPIC, DittoError, wrong_type
from penstock.wire.ditto.ids import entity_id
from penstock.wire.ditto.instant import parse_instant, print_instant
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.policy_errors import POLICY_ID_INVALID
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.thing_errors import THING_ID_INVALID
from penstock.wire.ditto.topic import Criterion, StreamingAction, Topic
from penstock.wire.ditto.unsupported import check_headers, check_no_thing

# -- what a client sends -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubscribeForPersistedEvents:
    """Answer with Created, whether or not the entity exists: nothing is looked up before the first request."""

    topic: Topic
    headers: Headers
    selection: HistoryRange

    def envelope(self) -> Envelope:
        chosen = self.selection
        value: dict[str, Json] = {}
        if chosen.from_revision != 0:
            value["fromHistoricalRevision"] = chosen.from_revision
        if chosen.to_revision != MAX_LONG:
            value["toHistoricalRevision"] = chosen.to_revision
        if chosen.after is not None:
            value["fromHistoricalTimestamp"] = print_instant(chosen.after)
        if chosen.before is not None:
            value["toHistoricalTimestamp"] = print_instant(chosen.before)
        if chosen.filter is not None:
            value["filter"] = chosen.filter
        return _envelope(self.topic, StreamingAction.SUBSCRIBE, self.headers, value)


@dataclass(frozen=True, slots=True)
class DemandRequest:
    """The client can take `demand` more items. It may be less than one; then the subscription fails."""

    topic: Topic
    headers: Headers
    subscription: str
    demand: int

    def envelope(self) -> Envelope:
        value = {"subscriptionId": self.subscription, "demand": self.demand}
        return _envelope(self.topic, StreamingAction.REQUEST, self.headers, value)


@dataclass(frozen=True, slots=True)
class Cancel:
    topic: Topic
    headers: Headers
    subscription: str

    def envelope(self) -> Envelope:
        return _envelope(self.topic, StreamingAction.CANCEL, self.headers, {"subscriptionId": self.subscription})


StreamCommand = SubscribeForPersistedEvents | DemandRequest | Cancel

# -- what the server sends ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Created:
    topic: Topic
    headers: Headers
    subscription: str

    def envelope(self) -> Envelope:
        value = {"subscriptionId": self.subscription}
        return _envelope(self.topic, StreamingAction.CREATED, answer_headers(self.headers), value)


@dataclass(frozen=True, slots=True)
class Next:
    """One item: for things and policies the envelope of one event; of a search, one page of things."""

    topic: Topic
    headers: Headers
    subscription: str
    item: Json | Raw

    def envelope(self) -> Envelope:
        name = "items" if self.topic.criterion is Criterion.SEARCH else "item"
        value = {"subscriptionId": self.subscription, name: self.item}
        return _envelope(self.topic, StreamingAction.NEXT, answer_headers(self.headers), value)


@dataclass(frozen=True, slots=True)
class Complete:
    topic: Topic
    headers: Headers
    subscription: str

    def envelope(self) -> Envelope:
        value = {"subscriptionId": self.subscription}
        return _envelope(self.topic, StreamingAction.COMPLETE, answer_headers(self.headers), value)


@dataclass(frozen=True, slots=True)
class StreamFailed:
    topic: Topic
    headers: Headers
    subscription: str
    error: DittoError

    def envelope(self) -> Envelope:
        value = {"subscriptionId": self.subscription, "error": self.error.as_value()}
        return _envelope(self.topic, StreamingAction.FAILED, answer_headers(self.headers), value)


StreamEvent = Created | Next | Complete | StreamFailed


def _envelope(topic: Topic, action: StreamingAction, headers: Headers, value: Json) -> Envelope:
    return Envelope(topic.streaming(action), headers=headers, value=value)


class NextFrames:
    """The `next` messages between two commands, which differ only in their item. Nothing is encoded twice."""

    def __init__(self, topic: Topic, headers: Headers, subscription: str) -> None:
        whole = Next(topic, headers, subscription, Raw(b"null")).envelope().to_bytes()
        # The item comes last in the message: only the ends of two objects follow it.
        self._before = whole[: -len(b"null}}")]

    def frame(self, item: bytes) -> bytes:
        """The message with this item, which is already JSON."""
        return b"".join((self._before, item, b"}}"))


# -- reading -----------------------------------------------------------------------------------------------------------


def parse_command(envelope: Envelope) -> StreamCommand:
    """What a client wants. Raises the error to answer with, as an error response: there is no subscription to fail."""
    topic = envelope.topic
    action = streaming_action(topic)
    if action not in (StreamingAction.SUBSCRIBE, StreamingAction.REQUEST, StreamingAction.CANCEL):
        raise UNKNOWN_TOPIC.of(topic, description=f"Streaming action name <{action}> cannot be sent by a client.")
    check_headers(envelope.headers)
    check_no_thing(envelope.headers)
    _check(envelope)
    if action is StreamingAction.SUBSCRIBE:
        return SubscribeForPersistedEvents(topic, envelope.headers, _selection(envelope))
    value = members(envelope)
    subscription = subscription_in(value)
    if action is StreamingAction.CANCEL:
        return Cancel(topic, envelope.headers, subscription)
    demand = value.get("demand")
    return DemandRequest(topic, envelope.headers, subscription, 0 if demand is None else expect_long(demand, "/demand"))


def streaming_action(topic: Topic) -> StreamingAction:
    """What the message is; raises an error for a topic of something else."""
    if topic.criterion is not Criterion.STREAMING or topic.action is None:
        raise UNKNOWN_TOPIC.of(topic, description="The topic is not one of a streaming subscription.")
    return StreamingAction(topic.action)


def _check(envelope: Envelope) -> None:
    topic = envelope.topic
    if envelope.path not in ("/", ""):
        raise UNKNOWN_PATH.of(envelope.path, description="The path of a streaming message is '/'.")
    if topic.group is not EntityGroup.CONNECTIONS and entity_id(topic.namespace, topic.name) is None:
        raise (POLICY_ID_INVALID if topic.group is EntityGroup.POLICIES else THING_ID_INVALID).of(topic.entity)


def members(envelope: Envelope) -> dict[str, Json]:
    """The value. A missing one counts as an empty object, so that the error names the missing member."""
    value: Json = envelope.value
    if value is UNSET or value is None:
        return {}
    expect(value, dict, "/value")
    return dict(value)


def subscription_in(value: dict[str, Json]) -> str:
    """The subscription that the message is about; raises an error if it does not say."""
    if value.get("subscriptionId") is None:
        raise FIELD_MISSING.of("/subscriptionId")
    return str(expect(value["subscriptionId"], str, "/subscriptionId"))


def _selection(envelope: Envelope) -> HistoryRange:
    value = members(envelope)
    first, last, text = (
        value.get("fromHistoricalRevision"),
        value.get("toHistoricalRevision"),
        value.get("filter"),
    )
    return HistoryRange(
        0 if first is None else expect_long(first, "/fromHistoricalRevision"),
        MAX_LONG if last is None else expect_long(last, "/toHistoricalRevision"),
        _instant(value, "fromHistoricalTimestamp"),
        _instant(value, "toHistoricalTimestamp"),
        None if text is None else str(expect(text, str, "/filter")),
    )


def _instant(value: dict[str, Json], name: str) -> int | None:
    text = value.get(name)
    if text is None:
        return None
    expect(text, str, f"/{name}")
    instant = parse_instant(text)
    if instant is None:
        raise wrong_type(text_of(text), f"/{name}", "ISO-8601 timestamp")
    return instant
