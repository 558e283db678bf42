from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing.ditto_reader import read_item, read_streaming_event, read_twin_event
from penstock.wire.ditto.document import MAX_LONG, MIN_LONG, encode
from penstock.wire.ditto.envelope import parse_envelope
from penstock.wire.ditto.errors import DEMAND_NOT_POSITIVE, DittoError
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.streaming import (
    Cancel,
    Complete,
    Created,
    DemandRequest,
    Next,
    NextFrames,
    StreamFailed,
    SubscribeForPersistedEvents,
    parse_command,
)
from penstock.wire.ditto.topic import Criterion, StreamingAction, Topic, parse_topic, policy_topic, thing_topic

from .values import TEXT, VALUES

ENTITY = "org.eclipse.ditto/thing-2/things/twin/streaming"


def topic(action: str) -> Topic:
    return thing_topic("org.eclipse.ditto", "thing-2", Criterion.STREAMING, action)


# -- the conversation that upstream's documentation and our notes print, byte for byte ---------------------------------

COMMANDS = [
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/subscribeForPersistedEvents",'
        '"headers":{"correlation-id":"a"},"path":"/","value":{"fromHistoricalRevision":1,"toHistoricalRevision":10}}',
        SubscribeForPersistedEvents(topic("subscribeForPersistedEvents"), {"correlation-id": "a"}, HistoryRange(1, 10)),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/request","headers":{"correlation-id":"b"},'
        '"path":"/","value":{"subscriptionId":"0","demand":1}}',
        DemandRequest(topic("request"), {"correlation-id": "b"}, "0", 1),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/cancel","headers":{},"path":"/",'
        '"value":{"subscriptionId":"0"}}',
        Cancel(topic("cancel"), {}, "0"),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/subscribeForPersistedEvents","headers":{},"path":"/",'
        '"value":{"fromHistoricalTimestamp":"2022-10-24T11:44:36Z","toHistoricalTimestamp":"2022-10-24T11:44:37.5Z",'
        '"filter":"exists(features/bamboo)"}}',
        SubscribeForPersistedEvents(
            topic("subscribeForPersistedEvents"),
            {},
            HistoryRange(after=1666611876000000000, before=1666611877500000000, filter="exists(features/bamboo)"),
        ),
    ),
]
HEADERS = {"correlation-id": "b", "content-type": "application/json"}
EVENTS = [
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/created",'
        '"headers":{"correlation-id":"a","content-type":"application/json"},"path":"/","value":{"subscriptionId":"0"}}',
        Created(topic("created"), {"correlation-id": "a", "content-type": "application/json"}, "0"),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/next",'
        '"headers":{"correlation-id":"b","content-type":"application/json"},"path":"/","value":{"subscriptionId":"0",'
        '"item":{"topic":"org.eclipse.ditto/thing-2/things/twin/events/created","headers":{},"path":"/",'
        '"value":{"thingId":"org.eclipse.ditto:thing-2","attributes":{"counter":0}},"revision":1,'
        '"timestamp":"2024-01-01T00:00:00.123Z"}}}',
        Next(
            topic("next"),
            HEADERS,
            "0",
            {
                "topic": "org.eclipse.ditto/thing-2/things/twin/events/created",
                "headers": {},
                "path": "/",
                "value": {"thingId": "org.eclipse.ditto:thing-2", "attributes": {"counter": 0}},
                "revision": 1,
                "timestamp": "2024-01-01T00:00:00.123Z",
            },
        ),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/complete",'
        '"headers":{"correlation-id":"b","content-type":"application/json"},"path":"/","value":{"subscriptionId":"0"}}',
        Complete(topic("complete"), HEADERS, "0"),
    ),
    (
        '{"topic":"org.eclipse.ditto/thing-2/things/twin/streaming/failed",'
        '"headers":{"correlation-id":"b","content-type":"application/json"},"path":"/","value":{"subscriptionId":"0",'
        '"error":{"status":400,"error":"streaming.subscription.protocol.error","message":"The number of requested'
        ' elements must be > 0 (see reactive-streams specification, rule 3.9)"}}}',
        StreamFailed(topic("failed"), HEADERS, "0", DEMAND_NOT_POSITIVE.of()),
    ),
]


@pytest.mark.parametrize(("text", "command"), COMMANDS[:3])
def test_the_commands_of_the_examples_are_read_and_written(text: str, command: Any) -> None:
    assert parse_command(parse_envelope(text)) == command
    assert command.envelope().to_bytes().decode() == text


def test_timestamps_and_filter_are_read_and_written() -> None:
    text, command = COMMANDS[3]
    assert parse_command(parse_envelope(text)) == command
    assert parse_command(parse_envelope(command.envelope().to_bytes())) == command


@pytest.mark.parametrize(("text", "event"), EVENTS)
def test_the_events_of_the_examples_are_written_and_read(text: str, event: Any) -> None:
    assert event.envelope().to_bytes().decode() == text
    assert read_streaming_event(parse_envelope(text)) == event


def test_the_item_of_a_next_is_an_event_of_the_thing() -> None:
    event = read_streaming_event(parse_envelope(EVENTS[1][0]))
    assert isinstance(event, Next)
    twin = read_twin_event(read_item(event.item))
    assert (twin.action, twin.revision, twin.path) == ("created", 1, "/")


def test_messages_about_policies_have_no_channel() -> None:
    text = '{"topic":"a/b/policies/streaming/subscribeForPersistedEvents","path":"/"}'
    command = parse_command(parse_envelope(text))
    assert isinstance(command, SubscribeForPersistedEvents)
    created = Created(command.topic, command.headers, "7").envelope()
    assert str(created.topic) == "a/b/policies/streaming/created"
    assert created.topic == policy_topic("a", "b", Criterion.STREAMING, StreamingAction.CREATED)


def test_a_connection_needs_no_namespace() -> None:
    text = '{"topic":"_/some-connection/connections/streaming/subscribeForPersistedEvents","path":"/"}'
    assert parse_command(parse_envelope(text)).topic.entity == "some-connection"


def read(action: str, value: Any, **members: Any) -> Any:
    message = {"topic": f"{ENTITY}/{action}", "path": "/", "value": value, **members}
    return parse_command(parse_envelope(json.dumps(message)))


def test_without_options_all_of_the_history_is_asked_for() -> None:
    everything = HistoryRange(0, 9223372036854775807, None, None, None)
    assert read("subscribeForPersistedEvents", {}).selection == everything
    assert read("subscribeForPersistedEvents", None).selection == everything
    absent = parse_envelope(json.dumps({"topic": f"{ENTITY}/subscribeForPersistedEvents", "path": "/"}))
    command = parse_command(absent)
    assert isinstance(command, SubscribeForPersistedEvents)
    assert command.selection == everything


@pytest.mark.parametrize(
    ("demand", "taken"), [(1, 1), (0, 0), (-1, -1), (1e30, MAX_LONG), (-1e30, MIN_LONG), (25.0, 25), (2**70, MAX_LONG)]
)
def test_a_demand_is_a_whole_number_that_saturates(demand: Any, taken: int) -> None:
    assert read("request", {"subscriptionId": "0", "demand": demand}).demand == taken


def test_a_demand_that_is_missing_is_zero() -> None:
    assert read("request", {"subscriptionId": "0"}).demand == 0


@pytest.mark.parametrize("action", ["request", "cancel"])
@pytest.mark.parametrize("value", [None, {}, {"demand": 1}, {"subscriptionId": None}])
def test_a_command_without_a_subscription_id_is_error_400(action: str, value: Any) -> None:
    with pytest.raises(DittoError) as caught:
        read(action, value)
    assert (caught.value.status, caught.value.code) == (400, "json.field.missing")
    assert caught.value.message == "JSON did not include required </subscriptionId> field!"


@pytest.mark.parametrize(
    ("action", "value", "pointer"),
    [
        ("request", [], "/value"),
        ("request", {"subscriptionId": 0, "demand": 1}, "/subscriptionId"),
        ("request", {"subscriptionId": "0", "demand": "1"}, "/demand"),
        ("request", {"subscriptionId": "0", "demand": 1.5}, "/demand"),
        ("request", {"subscriptionId": "0", "demand": True}, "/demand"),
        ("cancel", {"subscriptionId": {}}, "/subscriptionId"),
        ("subscribeForPersistedEvents", 5, "/value"),
        ("subscribeForPersistedEvents", {"fromHistoricalRevision": "1"}, "/fromHistoricalRevision"),
        ("subscribeForPersistedEvents", {"toHistoricalRevision": 1.5}, "/toHistoricalRevision"),
        ("subscribeForPersistedEvents", {"fromHistoricalTimestamp": 5}, "/fromHistoricalTimestamp"),
        ("subscribeForPersistedEvents", {"fromHistoricalTimestamp": "yesterday"}, "/fromHistoricalTimestamp"),
        ("subscribeForPersistedEvents", {"toHistoricalTimestamp": "2024-13-01T00:00:00Z"}, "/toHistoricalTimestamp"),
        ("subscribeForPersistedEvents", {"filter": 1}, "/filter"),
    ],
)
def test_a_value_of_the_wrong_type_is_error_400_that_names_it(action: str, value: Any, pointer: str) -> None:
    with pytest.raises(DittoError) as caught:
        read(action, value)
    assert (caught.value.status, caught.value.code) == (400, "json.invalid")
    assert f"for <{pointer}> is not of type" in caught.value.message


@pytest.mark.parametrize("action", ["created", "next", "complete", "failed", "error"])
def test_a_client_cannot_send_what_is_the_servers_to_send(action: str) -> None:
    with pytest.raises(DittoError) as caught:
        read(action, {"subscriptionId": "0"})
    assert (caught.value.status, caught.value.code) == (400, "protocoladapter:unknown.topicpath")


def test_a_server_cannot_send_what_is_the_clients_to_send() -> None:
    with pytest.raises(DittoError, match=r"unknown\.topicpath"):
        read_streaming_event(parse_envelope(COMMANDS[1][0]))
    with pytest.raises(DittoError, match=r"unknown\.topicpath"):
        read_streaming_event(parse_envelope('{"topic":"a/b/things/twin/events/created","path":"/"}'))


def test_the_path_is_the_root() -> None:
    with pytest.raises(DittoError) as caught:
        read("request", {"subscriptionId": "0", "demand": 1}, path="/attributes")
    assert (caught.value.status, caught.value.code) == (400, "protocoladapter:unknown.path")


@pytest.mark.parametrize(
    ("entity", "code"), [("1a/b/things/twin", "things:id.invalid"), ("a//policies", "policies:id.invalid")]
)
def test_an_invalid_identifier_is_error_400(entity: str, code: str) -> None:
    text = json.dumps({"topic": f"{entity}/streaming/subscribeForPersistedEvents", "path": "/"})
    with pytest.raises(DittoError) as caught:
        parse_command(parse_envelope(text))
    assert (caught.value.status, caught.value.code) == (400, code)


@pytest.mark.parametrize(
    ("action", "value", "missing"),
    [
        ("next", {"subscriptionId": "0"}, "/item"),
        ("failed", {"subscriptionId": "0"}, "/error"),
        ("failed", {"subscriptionId": "0", "error": {"error": "x", "message": "y"}}, "/error/status"),
        ("complete", {}, "/subscriptionId"),
    ],
)
def test_an_event_that_lacks_a_member_is_refused(action: str, value: Any, missing: str) -> None:
    text = json.dumps({"topic": f"{ENTITY}/{action}", "path": "/", "value": value})
    with pytest.raises(DittoError, match=f"required <{missing}> field"):
        read_streaming_event(parse_envelope(text))


@given(VALUES, TEXT, st.dictionaries(st.sampled_from(["correlation-id", "x"]), TEXT))
def test_a_next_that_is_put_together_is_the_one_that_is_encoded(item: Any, subscription: str, headers: Any) -> None:
    where = parse_topic("a/b/things/twin/streaming/request")
    whole = Next(where, headers, subscription, item).envelope().to_bytes()
    assert NextFrames(where, headers, subscription).frame(encode(item)) == whole


@given(
    st.sampled_from(["subscribeForPersistedEvents", "request", "cancel"]),
    VALUES
    | st.dictionaries(
        st.sampled_from(
            [
                "subscriptionId",
                "demand",
                "fromHistoricalRevision",
                "toHistoricalTimestamp",
                "filter",
                "toHistoricalRevision",
            ]
        ),
        VALUES,
    ),
)
def test_any_value_is_a_command_or_error_400(action: str, value: Any) -> None:
    status = 0
    try:
        assert read(action, value).topic.action == action
    except DittoError as error:
        status = error.status
    assert status in (0, 400)


OPTIONS = st.builds(
    HistoryRange,
    st.integers(MIN_LONG, MAX_LONG),
    st.integers(MIN_LONG, MAX_LONG),
    st.none() | st.integers(0, 4 * 10**18),
    st.none() | st.integers(0, 4 * 10**18),
    st.none() | TEXT,
)


@given(OPTIONS)
def test_any_selection_is_written_and_read(selection: HistoryRange) -> None:
    command = SubscribeForPersistedEvents(topic("subscribeForPersistedEvents"), {}, selection)
    assert parse_command(parse_envelope(command.envelope().to_bytes())) == command
