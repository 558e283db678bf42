from __future__ import annotations

import pytest

from tests.conformance.ditto.phrases import row
from tests.doors.ditto.world import THING, World, command, refusal

UNKNOWN = "unknown/unknown/things/twin/errors"
TOPIC = (400, "protocoladapter:unknown.topicpath")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        row("envelope.not-json", "{bad", (400, "json.invalid")),
        row("envelope.empty", "", (400, "json.invalid")),
        row("envelope.not-object", "[1,2]", (400, "json.invalid")),
        row("envelope.nan", '{"topic":NaN}', (400, "json.invalid")),
        row("envelope.too-deep", "[" * 200 + "]" * 200, (400, "json.invalid")),
        row("envelope.no-topic", '{"path":"/"}', (400, "json.field.missing")),
        row("envelope.topic-number", '{"topic":1,"path":"/"}', (400, "json.invalid")),
        row("envelope.headers-list", '{"topic":"a/b/things/twin/commands/retrieve","path":"/","headers":[]}',
            (400, "json.invalid")),
        row("envelope.control-unknown", "START-SEND-NOTHING", (400, "json.invalid")),
    ],
)  # fmt: skip
def test_what_is_no_message_is_an_error_response_and_the_socket_goes_on(
    world: World, text: str, expected: tuple[int, str]
) -> None:
    peer = world.connect()
    answers = peer.say(text)
    assert refusal(answers) == expected
    assert answers[0]["topic"] == UNKNOWN
    assert peer.closed is None
    assert peer.command("create", value={})["status"] == 201


@pytest.mark.conformance("ditto.envelope.no-path")
def test_a_message_without_a_path_is_refused_on_its_own_topic(world: World) -> None:
    (answer,) = world.connect().say({"topic": "a/b/things/twin/commands/retrieve", "headers": {"correlation-id": "c"}})
    assert answer["topic"] == "a/b/things/twin/errors"
    assert answer["headers"] == {"correlation-id": "c", "content-type": "application/json"}
    assert answer["value"]["message"] == "JSON did not include required </path> field!"


@pytest.mark.parametrize(
    ("topic", "description"),
    [
        row("topic.namespace", "", "The topic path has no namespace part."),
        row("topic.name", "ns", "The topic path has no entity name part."),
        row("topic.group", "ns/x", "The topic path has no group part."),
        row("topic.group-unknown", "ns/x/plants/twin/commands/retrieve", "Group name <plants> is unknown."),
        row("topic.channel", "ns/x/things", "The topic path has no channel part."),
        row("topic.channel-unknown", "ns/x/things/triplet/commands/retrieve", "Channel name <triplet> is unknown."),
        row("topic.criterion", "ns/x/things/twin", "The topic path has no criterion part."),
        row("topic.criterion-unknown", "ns/x/things/twin/wishes/retrieve", "Criterion name <wishes> is unknown."),
        row("topic.policy-channel", "ns/x/policies/twin/commands/retrieve", "Criterion name <twin> is unknown."),
        row("topic.action", "ns/x/things/twin/commands", "The topic path has no action part."),
        row("topic.action-unknown", "ns/x/things/twin/commands/want", "Action name <want> is unknown."),
        row("topic.streaming-unknown", "ns/x/things/twin/streaming/foo", "Streaming action name <foo> is unknown."),
    ],
)
def test_a_topic_that_is_none_is_refused_naming_the_part_at_fault(world: World, topic: str, description: str) -> None:
    peer = world.connect()
    (answer,) = peer.say({"topic": topic, "path": "/", "headers": {"correlation-id": "c"}})
    assert refusal([answer]) == TOPIC
    assert answer["topic"] == UNKNOWN
    assert answer["headers"]["correlation-id"] == "c"
    assert answer["value"]["description"] == description
    assert peer.command("create", value={})["status"] == 201


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        row("unsupported.announcements", "ns/x/policies/announcements/a", (400, "signal.unsupported")),
        row("unsupported.connections", "_/x/connections/commands/retrieve", (400, "signal.unsupported")),
        row("unsupported.event", "ns/x/things/twin/events/created", TOPIC),
        row("unsupported.error", "ns/x/things/twin/errors", TOPIC),
    ],
)
def test_what_this_server_does_not_do_is_refused_in_so_many_words(
    world: World, topic: str, expected: tuple[int, str]
) -> None:
    peer = world.connect()
    assert refusal(peer.say({"topic": topic, "path": "/", "value": {}})) == expected
    assert peer.command("create", value={})["status"] == 201


@pytest.mark.conformance("ditto.header.correlation-id")
def test_the_correlation_id_comes_back_and_one_is_made_where_there_is_none(world: World) -> None:
    peer = world.connect()
    answer = peer.command("create", value={}, headers={"correlation-id": "mine"})
    assert answer["headers"]["correlation-id"] == "mine"
    made = [peer.command("retrieve")["headers"]["correlation-id"] for _ in range(2)]
    assert len(set(made)) == 2


@pytest.mark.conformance("ditto.header.absent")
def test_headers_may_be_absent(world: World) -> None:
    message = command("create", value={})
    del message["headers"]
    assert world.connect().ask(message)["status"] == 201


@pytest.mark.conformance("ditto.header.case")
def test_header_names_have_no_case_and_values_may_be_numbers(world: World) -> None:
    headers = {"Correlation-ID": "c", "version": 2, "Content-Type": "application/json"}
    answer = world.connect().command("create", value={}, headers=headers)
    assert answer["headers"]["correlation-id"] == "c"
    assert (answer["headers"]["version"], answer["status"]) == (2, 201)


@pytest.mark.conformance("ditto.header.response-required")
def test_a_command_that_requires_no_response_gets_none_not_even_an_error(world: World) -> None:
    peer = world.connect()
    headers = {"response-required": False}
    assert peer.say(command("create", value={}, headers=headers)) == []
    assert peer.say(command("create", value={}, headers=headers)) == []
    assert peer.say(command("modify", "/nowhere", {}, headers=headers)) == []
    assert peer.command("retrieve")["value"]["thingId"] == THING


@pytest.mark.conformance("ditto.header.invalid")
def test_a_header_of_the_wrong_type_is_refused(world: World) -> None:
    message = command("create", value={}, headers={"response-required": "perhaps"})
    assert refusal(world.connect().say(message)) == (400, "header.invalid")


@pytest.mark.conformance("ditto.topic.several")
def test_things_are_retrieved_together_by_a_topic_without_a_name(world: World) -> None:
    world.make("ns:one")
    world.make("ns:two")
    world.make("ns:hidden", user="somebody")
    peer = world.connect()
    value = {"thingIds": ["ns:two", "ns:missing", "ns:hidden", "ns:one"]}
    answer = peer.ask({"topic": "//things/twin/commands/retrieve", "path": "/", "value": value})
    assert answer["status"] == 200
    assert [thing["thingId"] for thing in answer["value"]] == ["ns:two", "ns:one"]
