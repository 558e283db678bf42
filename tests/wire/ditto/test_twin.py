from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from penstock.testing.ditto_reader import read_twin_event
from penstock.wire.ditto.document import text_of
from penstock.wire.ditto.envelope import error_response, parse_envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.kinds import COMMANDS, Action
from penstock.wire.ditto.resource import Part
from penstock.wire.ditto.rql import parse_rql
from penstock.wire.ditto.thing_errors import THING_NOT_FOUND
from penstock.wire.ditto.topic import Criterion, parse_topic, thing_topic
from penstock.wire.ditto.twin import (
    MAX_PATHS,
    MAX_RETRIEVED,
    Command,
    EventItems,
    RetrieveSeveral,
    TwinEvent,
    created,
    done,
    parse_command,
    retrieved,
)
from tests.support.effort import tries

from .values import TEXT, VALUES

# A moment in microseconds.
NOON = 1_700_000_000_000_000

TWIN = "org.eclipse.ditto/thing-2/things/twin"


def read(action: str, path: str = "/", entity: str = TWIN, **members: Any) -> Any:
    message = {"topic": f"{entity}/commands/{action}", "headers": {"correlation-id": "c"}, "path": path, **members}
    return parse_command(parse_envelope(json.dumps(message)))


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "path", "members", "part"),
    [
        ("create", "/", {"value": {"thingId": "org.eclipse.ditto:thing-2"}}, Part.THING),
        ("create", "/", {"value": {}}, Part.THING),
        ("modify", "/", {"value": {"attributes": {"x": 1}}}, Part.THING),
        ("modify", "/attributes", {"value": {"x": 1}}, Part.ATTRIBUTES),
        ("modify", "/attributes/counter", {"value": 5}, Part.ATTRIBUTE),
        ("modify", "/attributes/counter", {"value": None}, Part.ATTRIBUTE),
        ("modify", "/features/f/properties/p", {"value": True}, Part.PROPERTY),
        ("modify", "/policyId", {"value": "a:b"}, Part.POLICY_ID),
        ("merge", "/", {"value": {"attributes": {"x": None}}}, Part.THING),
        ("merge", "/attributes", {"value": None}, Part.ATTRIBUTES),
        ("merge", "/attributes/x", {"value": {"y": None}}, Part.ATTRIBUTE),
        ("merge", "/definition", {"value": None}, Part.DEFINITION),
        ("delete", "/", {}, Part.THING),
        ("delete", "/features/f", {}, Part.FEATURE),
        ("retrieve", "/", {}, Part.THING),
        ("retrieve", "/features/f/desiredProperties", {}, Part.DESIRED_PROPERTIES),
    ],
)
def test_a_command_names_an_action_an_entity_and_a_part(action: str, path: str, members: Any, part: Part) -> None:
    command = read(action, path, **members)
    assert isinstance(command, Command)
    assert (command.action, command.resource.part) == (action, part)
    assert command.entity == EntityId("org.eclipse.ditto", "thing-2")
    assert command.value == members.get("value", UNSET)


def test_a_retrieve_may_select_fields() -> None:
    command = read("retrieve", fields="thingId,attributes(x)")
    assert command.fields.pointers == (("thingId",), ("attributes", "x"))


def test_policies_take_the_same_commands() -> None:
    command = read("modify", "/entries/E", "a/b/policies", value={"subjects": {}, "resources": {}})
    assert (command.resource.part, str(command.entity)) == (Part.ENTRY, "a:b")
    assert str(done(command).topic) == "a/b/policies/commands/modify"


@pytest.mark.parametrize("entity", ["//things/twin", "_/_/things/twin"])
def test_several_things_are_retrieved_at_once(entity: str) -> None:
    command = read("retrieve", "/", entity, value={"thingIds": ["a:b", "c:d"]})
    assert isinstance(command, RetrieveSeveral)
    assert command.entities == (EntityId("a", "b"), EntityId("c", "d"))
    assert retrieved(command, []).status == 200


@pytest.mark.parametrize(
    ("action", "path", "entity", "members", "code"),
    [
        ("create", "/", TWIN, {}, "json.field.missing"),
        ("modify", "/attributes/x", TWIN, {}, "json.field.missing"),
        ("merge", "/attributes/x", TWIN, {}, "json.field.missing"),
        ("create", "/attributes", TWIN, {"value": {}}, "protocoladapter:unknown.path"),
        ("modify", "/foo", TWIN, {"value": 1}, "protocoladapter:unknown.path"),
        ("modify", "/attributes//x", TWIN, {"value": 1}, "json.pointer.invalid"),
        ("modify", "/attributes", TWIN, {"value": 1}, "json.invalid"),
        ("modify", "/attributes", TWIN, {"value": {"a/b": 1}}, "json.key.invalid"),
        ("modify", "/", TWIN, {"value": {"thingId": "x:y"}}, "things:id.notsettable"),
        ("merge", "/", TWIN, {"value": {"thingId": "x:y"}}, "things:id.notsettable"),
        ("merge", "/", TWIN, {"value": None}, "things:merge.invalid"),
        ("merge", "/", TWIN, {"value": {"thingId": None}}, "things:merge.invalid"),
        ("merge", "/", TWIN, {"value": {"policyId": None}}, "things:merge.invalid"),
        ("merge", "/policyId", TWIN, {"value": None}, "things:merge.invalid"),
        ("merge", "/", TWIN, {"value": 5}, "json.invalid"),
        ("merge", "/attributes", TWIN, {"value": 5}, "json.invalid"),
        ("merge", "/entries", "a/b/policies", {"value": {}}, "signal.unsupported"),
        ("modify", "/", "a/b/policies", {"value": {"policyId": "x:y"}}, "policies:id.notsettable"),
        ("delete", "/policyId", TWIN, {}, "protocoladapter:unknown.path"),
        ("retrieve", "/", TWIN, {"fields": "a("}, "json.fieldselector.invalid"),
        ("retrieve", "/", "1a/b/things/twin", {}, "things:id.invalid"),
        ("retrieve", "/", "1a/b/policies", {}, "policies:id.invalid"),
        ("retrieve", "/", "/x/things/live", {}, "signal.unsupported"),
        ("retrieve", "/", "_/c/connections", {}, "signal.unsupported"),
        ("created", "/", TWIN, {"value": {}}, "protocoladapter:unknown.topicpath"),
        ("migrate", "/", TWIN, {"value": {}}, "json.field.missing"),
        ("delete", "/", "//things/twin", {}, "things:id.invalid"),
        ("retrieve", "/", "//things/twin", {}, "json.field.missing"),
        ("retrieve", "/", "//things/twin", {"value": {"thingIds": "a:b"}}, "json.invalid"),
        ("retrieve", "/", "//things/twin", {"value": {"thingIds": [1]}}, "json.invalid"),
        ("retrieve", "/", "//things/twin", {"value": {"thingIds": ["a"]}}, "things:id.invalid"),
        ("retrieve", "/", "//things/twin", {"value": {"thingIds": ["a:b"] * (MAX_RETRIEVED + 1)}}, "json.invalid"),
    ],
)
def test_a_bad_command_is_error_400(action: str, path: str, entity: str, members: Any, code: str) -> None:
    with pytest.raises(DittoError) as caught:
        read(action, path, entity, **members)
    assert (caught.value.status, caught.value.code) == (400, code)


PATHS = st.sampled_from(
    [
        "/",
        "/attributes",
        "/attributes/x",
        "/features",
        "/features/f",
        "/features/f/properties",
        "/definition",
        "/policyId",
        "/features/f/definition",
        "/entries",
        "/entries/E",
        "/entries/E/subjects",
        "/entries/E/resources/thing:/",
        "//",
        "/x",
    ]
)
FIELDS = st.sampled_from(
    [
        "thingId",
        "policyId",
        "attributes",
        "features",
        "definition",
        "_policy",
        "entries",
        "subjects",
        "resources",
        "thing:/",
        "grant",
        "properties",
        "a:b",
        "a/b",
    ]
)
SHAPES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["a:b", "READ", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=tries(300))
@given(st.sampled_from(COMMANDS), st.sampled_from(["a/b/things/twin", "a/b/policies", "//things/twin"]), PATHS, SHAPES)
def test_any_value_at_any_path_is_a_command_or_error_400(action: str, entity: str, path: str, value: Any) -> None:
    status = 0
    try:
        assert read(action, path, entity, value=value).path == path
    except DittoError as error:
        status = error.status
    assert status in (0, 400)


# -- responses ---------------------------------------------------------------------------------------------------------


def test_a_response_is_on_the_topic_of_the_command_with_a_status() -> None:
    command = read("modify", "/attributes/x", value=1)
    answer = json.loads(created(command, 1).to_bytes())
    assert answer == {
        "topic": f"{TWIN}/commands/modify",
        "headers": {"correlation-id": "c", "content-type": "application/json"},
        "path": "/attributes/x",
        "value": 1,
        "status": 201,
    }
    assert json.loads(done(command).to_bytes()) == {**{k: v for k, v in answer.items() if k != "value"}, "status": 204}
    assert json.loads(retrieved(read("retrieve"), Raw(b'{"a":1}')).to_bytes())["value"] == {"a": 1}
    assert retrieved(read("retrieve"), {}).status == 200


def test_an_error_is_on_the_topic_of_errors() -> None:
    command = read("retrieve")
    answer = error_response(THING_NOT_FOUND.of(command.entity), command.topic, command.headers)
    assert json.loads(answer.to_bytes()) == {
        "topic": f"{TWIN}/errors",
        "headers": {"correlation-id": "c", "content-type": "application/json"},
        "path": "/",
        "value": {
            "status": 404,
            "error": "things:thing.notfound",
            "message": "The Thing with ID 'org.eclipse.ditto:thing-2' could not be found or requester had insufficient"
            " permissions to access it.",
            "description": "Check if the ID of your requested Thing was correct and you have sufficient permissions.",
        },
        "status": 404,
    }


# -- events ------------------------------------------------------------------------------------------------------------

CREATED_AT = 1_704_067_200_123_000
EVENT = (
    '{"topic":"org.eclipse.ditto/thing-2/things/twin/events/created","headers":{"content-type":"application/json"},'
    '"path":"/","value":{"thingId":"org.eclipse.ditto:thing-2","attributes":{"counter":0}},"revision":1,'
    '"timestamp":"2024-01-01T00:00:00.123Z"}'
)


def event(action: Action, path: str, value: Any, revision: int = 1, timestamp: int = CREATED_AT) -> TwinEvent:
    topic = thing_topic("org.eclipse.ditto", "thing-2", Criterion.EVENTS, action)
    return TwinEvent(topic, path, value, revision, timestamp, {"content-type": "application/json"})


def test_the_event_of_the_example_is_written_and_read() -> None:
    told = event(Action.CREATED, "/", {"thingId": "org.eclipse.ditto:thing-2", "attributes": {"counter": 0}})
    assert told.envelope().to_bytes().decode() == EVENT
    assert read_twin_event(parse_envelope(EVENT)) == told
    assert told.action is Action.CREATED


def test_a_merge_is_told_as_its_patch_with_the_type_of_patches() -> None:
    envelope = event(Action.MERGED, "/attributes", {"x": None}).envelope()
    assert envelope.headers == {"content-type": "application/merge-patch+json"}
    assert json.loads(envelope.to_bytes())["value"] == {"x": None}


def test_a_deletion_has_no_value() -> None:
    told = event(Action.DELETED, "/attributes/x", UNSET)
    assert "value" not in json.loads(told.envelope().to_bytes())
    assert read_twin_event(parse_envelope(told.envelope().to_bytes())) == told


def test_an_event_may_carry_extra_fields() -> None:
    assert json.loads(event(Action.DELETED, "/", UNSET).envelope({"attributes": {}}).to_bytes())["extra"] == {
        "attributes": {}
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": None}, "required </revision> field"),
        ({"timestamp": None}, "required </timestamp> field"),
        ({"path": "/foo"}, "does not correspond to any known"),
        ({"topic": f"{TWIN}/commands/create"}, "is not supported"),
        ({"topic": f"{TWIN}/events/create"}, "is not supported"),
    ],
)
def test_what_lacks_something_is_no_event(change: Any, message: str) -> None:
    with pytest.raises(DittoError, match=message):
        read_twin_event(parse_envelope(json.dumps({**json.loads(EVENT), **change})))


def test_an_event_at_no_time_is_none() -> None:
    with pytest.raises(DittoError, match="ISO-8601 timestamp"):
        read_twin_event(replace(parse_envelope(EVENT), timestamp="now"))


def test_only_a_deletion_lacks_a_value() -> None:
    without = {name: value for name, value in json.loads(EVENT).items() if name != "value"}
    with pytest.raises(DittoError, match="required </value> field"):
        read_twin_event(parse_envelope(json.dumps(without)))


KNOWN = {"thingId": "org.eclipse.ditto:thing-2", "_revision": 1, "_modified": "2024-01-01T00:00:00.123Z"}


@pytest.mark.parametrize(
    ("action", "path", "value", "told"),
    [
        (Action.CREATED, "/", {"attributes": {"a": 1}}, {"attributes": {"a": 1}}),
        (Action.MODIFIED, "/attributes/a/b", 5, {"attributes": {"a": {"b": 5}}}),
        (Action.MODIFIED, "/attributes/a/b", Raw(b"[5]"), {"attributes": {"a": {"b": [5]}}}),
        (Action.MERGED, "/features/f", {"properties": {"p": None}}, {"features": {"f": {"properties": {"p": None}}}}),
        (Action.MERGED, "/", {"attributes": {"a": None}}, {"attributes": {"a": None}}),
        (Action.DELETED, "/attributes/a", UNSET, {}),
        (Action.DELETED, "/", UNSET, {}),
    ],
)
def test_an_event_is_a_thing_as_far_as_it_tells(action: Action, path: str, value: Any, told: Any) -> None:
    assert event(action, path, value).partial() == {**KNOWN, **told}


def test_a_filter_is_asked_of_what_the_event_tells_only() -> None:
    query = parse_rql("ge(attributes/counter,50)")
    assert event(Action.MODIFIED, "/attributes/counter", 50).fits(query, NOON)
    assert not event(Action.MODIFIED, "/attributes/other", 50).fits(query, NOON)
    assert event(Action.DELETED, "/", UNSET).fits(parse_rql('eq(_namespace,"org.eclipse.ditto")'), NOON)


def test_a_filter_is_asked_of_extra_fields_and_the_event_is_newer() -> None:
    told = event(Action.MODIFIED, "/attributes/counter", 50)
    extra = {"attributes": {"counter": 1, "kind": "meter"}}
    assert told.fits(parse_rql('and(eq(attributes/counter,50),eq(attributes/kind,"meter"))'), NOON, extra)
    assert not told.fits(parse_rql("eq(attributes/counter,1)"), NOON, extra)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic:full", "org.eclipse.ditto/thing-2/things/twin/events/modified"),
        ("topic:namespace", "org.eclipse.ditto"),
        ("topic:entityName", "thing-2"),
        ("topic:entityId", "org.eclipse.ditto:thing-2"),
        ("topic:group", "things"),
        ("topic:channel", "twin"),
        ("topic:criterion", "events"),
        ("topic:action", "modified"),
        ("topic:action-subject", "modified"),
        ("resource:type", "thing"),
        ("resource:path", "/attributes/counter"),
    ],
)
def test_a_filter_may_ask_for_topic_and_resource(name: str, value: str) -> None:
    told = event(Action.MODIFIED, "/attributes/counter", 50)
    assert told.fits(parse_rql(f'eq({name},"{value}")'), NOON)
    assert not told.fits(parse_rql(f'eq({name},"other")'), NOON)


@given(
    st.sampled_from(["created", "modified", "merged", "deleted"]),
    TEXT,
    VALUES,
    st.integers(1, 2**63 - 1),
    st.integers(0, 10**16),
    st.dictionaries(st.sampled_from(["correlation-id", "x"]), TEXT),
    st.none() | st.dictionaries(TEXT, VALUES, max_size=2),
)
def test_an_item_that_is_put_together_is_the_event_that_is_encoded(
    kind: str, path: str, value: Any, revision: int, timestamp: int, headers: Any, kept: Any
) -> None:
    topic = parse_topic("a/b/things/twin/streaming/subscribeForPersistedEvents")
    items = EventItems(topic, headers)
    text = None if kind == "deleted" else text_of(value)
    told = UNSET if text is None else value
    encoded = TwinEvent(topic.event(Action(kind)), path, told, revision, timestamp, headers, kept)
    journaled = None if kept is None else text_of(kept)
    for _ in range(2):
        assert items.item(kind, path, text, revision, timestamp, journaled) == encoded.envelope().to_bytes()


def test_however_many_paths_there_are_the_items_are_right_and_few_are_kept() -> None:
    items = EventItems(parse_topic("a/b/policies/streaming/request"), {})
    for number in range(600):
        item = json.loads(items.item("modified", f"/entries/{number}", "{}", number + 1, 0))
        assert (item["path"], item["topic"]) == (f"/entries/{number}", "a/b/policies/events/modified")
        assert len(items._paths) <= MAX_PATHS
