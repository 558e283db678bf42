"""Commands to twins and policies, the responses to them, and the events they cause.

What a part of a thing is, and which values it accepts, is in `resource`; whether a command succeeds is decided by the
rules of twins.
Upstream documentation: "Ditto Protocol specification", Things and Policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from penstock.wire.ditto.document import Json, decode, encode, expect
from penstock.wire.ditto.envelope import JSON_TYPE, MERGE_PATCH_TYPE, Envelope, Headers, answer_headers
from penstock.wire.ditto.errors import FIELD_MISSING, UNKNOWN_PATH, UNKNOWN_TOPIC, UNSUPPORTED_SIGNAL, wrong_type
from penstock.wire.ditto.fields import Fields, parse_fields
from penstock.wire.ditto.ids import EntityId, entity_id, parse_thing_id
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.kinds import COMMANDS, EVENTS, Action, EntityGroup
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.migration import parse_migration
from penstock.wire.ditto.patch_keys import check_pattern_keys
from penstock.wire.ditto.pointer import parse_pointer, put
from penstock.wire.ditto.policy_errors import POLICY_ID_IN_MESSAGE, POLICY_ID_INVALID
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.resource import Part, Resource, check_value, parse_resource
from penstock.wire.ditto.rql import Query
from penstock.wire.ditto.thing_errors import MERGE_INVALID, THING_ID_IN_MESSAGE, THING_ID_INVALID
from penstock.wire.ditto.topic import Criterion, Topic, TopicChannel
from penstock.wire.ditto.unsupported import (
    check_headers,
    check_no_patch,
    check_plain,
    check_present,
    check_unconditional,
)

# How many things one command may retrieve.
MAX_RETRIEVED = 100

# Encoded paths that the items of one history cache. Few paths of a thing change; others are encoded each time.
MAX_PATHS = 256

# The header in which events, and retrieved past states, carry the headers that were journaled with them.
HISTORICAL_HEADERS = "historical-headers"

# Fields that identify the entity, and can be neither removed nor merged away.
_FIXED: Final = ("thingId", "policyId")

# -- commands ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """One command to one entity. The value of those that have none is UNSET."""

    action: Action
    topic: Topic
    headers: Headers
    path: str
    entity: EntityId
    resource: Resource
    value: Json | UnsetType = UNSET
    fields: Fields | None = None


@dataclass(frozen=True, slots=True)
class RetrieveSeveral:
    """Retrieves those of these things that the client may read."""

    topic: Topic
    headers: Headers
    path: str
    entities: tuple[EntityId, ...]
    fields: Fields | None


def parse_command(envelope: Envelope) -> Command | RetrieveSeveral:
    """What a client wants; raises the error to answer with."""
    topic = envelope.topic
    if topic.criterion is not Criterion.COMMANDS or topic.action not in (*COMMANDS, Action.MIGRATE):
        raise UNKNOWN_TOPIC.of(topic, description="The topic is not one of a command that a client can send.")
    if topic.channel is TopicChannel.LIVE or topic.group is EntityGroup.CONNECTIONS:
        raise UNSUPPORTED_SIGNAL.of(topic)
    action = Action(topic.action)
    check_headers(envelope.headers)
    fields = None if envelope.fields is None else parse_fields(envelope.fields)
    if topic.is_about_several:
        check_plain(envelope.headers)
        return _retrieve_several(envelope, action, fields)
    if topic.group is EntityGroup.POLICIES:
        check_unconditional(envelope.headers)
    if action is not Action.RETRIEVE:
        check_present(envelope.headers)
    if action is not Action.MERGE:
        check_no_patch(envelope.headers)
    entity = entity_id(topic.namespace, topic.name)
    if entity is None:
        raise (POLICY_ID_INVALID if topic.group is EntityGroup.POLICIES else THING_ID_INVALID).of(topic.entity)
    resource = parse_resource(topic.group, envelope.path)
    value: Json | UnsetType = UNSET
    if action in (Action.CREATE, Action.MODIFY, Action.MERGE):
        value = envelope.value
        if isinstance(value, UnsetType):
            raise FIELD_MISSING.of("/value")
        _check(action, topic, entity, resource, value)
    elif action is Action.MIGRATE:
        value = envelope.value
        if topic.group is not EntityGroup.THINGS:
            raise UNSUPPORTED_SIGNAL.of(topic)
        if resource.pointer:
            raise UNKNOWN_PATH.of(envelope.path, description="The path of a migration must be '/'.")
        parse_migration(value)
    elif action is Action.DELETE and resource.part is Part.POLICY_ID:
        raise UNKNOWN_PATH.of(envelope.path, description="The policy ID of a thing cannot be deleted.")
    return Command(action, topic, envelope.headers, envelope.path, entity, resource, value, fields)


def _retrieve_several(envelope: Envelope, action: Action, fields: Fields | None) -> RetrieveSeveral:
    topic = envelope.topic
    if action is not Action.RETRIEVE or topic.group is not EntityGroup.THINGS:
        raise THING_ID_INVALID.of(topic.entity)
    value: Json = envelope.value
    if value is UNSET or value is None or expect(value, dict, "/value").get("thingIds") is None:
        raise FIELD_MISSING.of("/thingIds")
    given = expect(value["thingIds"], list, "/thingIds")
    if len(given) > MAX_RETRIEVED:
        raise wrong_type(f"{len(given)} IDs", "/thingIds", f"JsonArray with at most {MAX_RETRIEVED} elements")
    entities = tuple(parse_thing_id(expect(each, str, "/thingIds")) for each in given)
    return RetrieveSeveral(topic, envelope.headers, envelope.path, entities, fields)


def _check(action: Action, topic: Topic, entity: EntityId, resource: Resource, value: Json) -> None:
    if action is Action.CREATE and resource.pointer:
        raise UNKNOWN_PATH.of("/".join(("", *resource.pointer)), description="The path of a create must be '/'.")
    if action is Action.MERGE:
        if topic.group is EntityGroup.POLICIES:
            raise UNSUPPORTED_SIGNAL.of(topic)
        check_patch(resource, value)
    else:
        check_value(resource, value)
    if resource.part is Part.THING and value.get("thingId", str(entity)) != str(entity):
        raise THING_ID_IN_MESSAGE.of()
    if resource.part is Part.POLICY and value.get("policyId", str(entity)) != str(entity):
        raise POLICY_ID_IN_MESSAGE.of()


def check_patch(resource: Resource, patch: Json) -> None:
    """Refuse a merge patch that cannot lead to a valid entity. Null deletes, so it is valid except at the root."""
    if resource.part in (Part.THING, Part.POLICY_ID) and patch is None:
        raise MERGE_INVALID.of()
    check_pattern_keys(patch)
    if resource.part is Part.THING:
        expect(patch, dict, "/")
        for name in _FIXED:
            if name in patch and patch[name] is None:
                raise MERGE_INVALID.of(description=f"The field '{name}' cannot be removed.")
    check_value(resource, _without_nulls(patch))


def _without_nulls(patch: Json) -> Json:
    """The result of a patch where nothing was before."""
    if type(patch) is not dict:
        return patch
    return {key: _without_nulls(value) for key, value in patch.items() if value is not None}


# -- responses ---------------------------------------------------------------------------------------------------------


def created(command: Command, value: Json | Raw) -> Envelope:
    """201: something new was created."""
    return _response(command, 201, value)


def tried(command: Command, value: Json | Raw) -> Envelope:
    """202: what a command would have done."""
    return _response(command, 202, value)


def done(command: Command) -> Envelope:
    """204: something was changed or deleted."""
    return _response(command, 204, UNSET)


def retrieved(command: Command | RetrieveSeveral, value: Json | Raw) -> Envelope:
    """200, with the value."""
    return _response(command, 200, value)


def _response(command: Command | RetrieveSeveral, status: int, value: Json | Raw | UnsetType) -> Envelope:
    headers = answer_headers(command.headers)
    return Envelope(command.topic, command.path, headers, value, status=status)


# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TwinEvent:
    """One change, as it is journaled: `timestamp` is in microseconds since 1970, a value that is missing is UNSET.

    A `Raw` is already JSON, from the journal. `kept` are the headers that were journaled with it, if any.
    """

    topic: Topic
    path: str
    value: Json | Raw | UnsetType
    revision: int
    timestamp: int
    headers: Headers
    kept: Json | Raw | None = None

    @property
    def action(self) -> Action:
        return Action(self.topic.action or "")

    def envelope(self, extra: Json | None = None) -> Envelope:
        """The message for it."""
        kind = MERGE_PATCH_TYPE if self.topic.action == Action.MERGED else JSON_TYPE
        headers = answer_headers(self.headers, kind)
        if self.kept is not None:
            headers[HISTORICAL_HEADERS] = self.kept
        return Envelope(
            self.topic,
            self.path,
            headers,
            self.value,
            revision=self.revision,
            timestamp=print_instant(self.timestamp * NANOS_PER_MICRO),
            extra=extra,
        )

    def partial(self) -> dict[str, Json]:
        """The part of the thing that this event contains: filters are evaluated on it, and server-sent events carry it.

        An event that deletes contains only the thing's identity.
        """
        known: dict[str, Json] = {"thingId": self.topic.entity}
        value: Json = self.value
        if value is not UNSET:
            told = decode(bytes(value)) if isinstance(value, Raw) else value
            pointer = parse_pointer(self.path)
            known = put(known, pointer, told) if pointer else {**known, **(told if type(told) is dict else {})}
        known["_revision"] = self.revision
        known["_modified"] = print_instant(self.timestamp * NANOS_PER_MICRO)
        return known

    def fits(self, query: Query, now: int, extra: Json = None) -> bool:
        """Whether a filter is true of what this event contains, together with its extra fields.

        `now` is what `time:now` means, in microseconds since 1970.
        """
        told = self.partial()
        return matches(query, told if extra is None else merge(extra, told), now, self._placeholders())

    def _placeholders(self) -> dict[str, Json]:
        """What filters may use of an event besides the thing."""
        # Plain texts: a filter does not treat a member of an enumeration as text.
        topic = self.topic
        return {
            "topic:full": str(topic),
            "topic:namespace": topic.namespace,
            "topic:entityName": topic.name,
            "topic:entityId": topic.entity,
            "topic:group": str(topic.group),
            "topic:channel": str(topic.channel),
            "topic:criterion": str(topic.criterion),
            "topic:action": str(topic.action),
            "topic:action-subject": str(topic.action),
            "resource:type": "thing",
            "resource:path": self.path,
        }


_BEFORE_PATH: Final = b',"path":'
_KEPT: Final = f',"{HISTORICAL_HEADERS}":'.encode()


class EventItems:
    """The items of one history: events of one entity with the same headers, written without encoding anything twice."""

    def __init__(self, topic: Topic, headers: Headers) -> None:
        self._heads: dict[str, bytes] = {}
        for action in EVENTS:
            kind = MERGE_PATCH_TYPE if action is Action.MERGED else JSON_TYPE
            head = {"topic": str(topic.event(action)), "headers": answer_headers(headers, kind)}
            self._heads[action.value] = encode(head)[:-1] + _BEFORE_PATH
        self._paths: dict[str, bytes] = {}

    def item(
        self, kind: str, path: str, value: str | None, revision: int, timestamp: int, kept: str | None = None
    ) -> bytes:
        """One event from its columns in the journal: its value and its headers are already JSON, or None."""
        told = "" if value is None else f',"value":{value}'
        tail = f'{told},"revision":{revision},"timestamp":"{print_instant(timestamp * NANOS_PER_MICRO)}"}}'
        head = self._heads[kind]
        if kept is not None:
            # The headers come last before the path, and are never empty.
            head = b"".join((head[: -len(b"}" + _BEFORE_PATH)], _KEPT, kept.encode(), b"}", _BEFORE_PATH))
        return b"".join((head, self._path(path), tail.encode()))

    def _path(self, path: str) -> bytes:
        encoded = self._paths.get(path)
        if encoded is None:
            if len(self._paths) >= MAX_PATHS:
                self._paths.clear()
            encoded = self._paths[path] = encode(path)
        return encoded
