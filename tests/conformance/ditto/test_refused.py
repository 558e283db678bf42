"""What this server does not do is refused, over HTTP and on a WebSocket: nobody is to count on what does not happen."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from penstock.wire.ditto.unsupported import NAMES
from tests.conformance.ditto.phrases import row
from tests.doors.ditto.site import EVENTS, MERGE, Site, policy
from tests.doors.ditto.world import World, command

THINGS = (f"/things/ns:refused-{number}" for number in itertools.count())

NOT_SUPPORTED = (400, "header.notsupported")

VALUES = {
    "live-channel-condition": "gt(attributes/a,time:now)",
    "live-channel-timeout-strategy": "use-twin",
    "allow-policy-lockout": "true",
}
assert set(VALUES) == set(NAMES), "each header that is refused is tried"


@pytest.fixture
def thing(alice: httpx.Client) -> str:
    address = next(THINGS)
    assert alice.put(address, json={"attributes": {"a": 1}}).status_code == 201
    return address


def told(answer: dict[str, Any]) -> tuple[int, str]:
    """In upstream's form: with its status, a code, what is wrong and what to do."""
    assert answer["message"]
    assert answer["description"]
    return answer["status"], answer["error"]


def error(answer: httpx.Response) -> tuple[int, str]:
    found = told(answer.json())
    assert found[0] == answer.status_code
    return found


def refusal(answers: list[Any]) -> tuple[int, str]:
    (answer,) = answers
    assert answer["topic"].endswith("/errors")
    assert answer["status"] == answer["value"]["status"]
    return told(answer["value"])


@pytest.mark.parametrize("name", [row(f"refused.{name}", name) for name in VALUES])
def test_a_header_that_asks_for_what_is_not_done_is_refused(
    world: World, alice: httpx.Client, thing: str, name: str
) -> None:
    given = {name: VALUES[name]}
    assert error(alice.put(f"{thing}/attributes/a", json=2, headers=given)) == NOT_SUPPORTED
    assert error(alice.put(f"{thing}/attributes/a", json=2, params=given)) == NOT_SUPPORTED
    assert error(alice.patch(thing, content="{}", headers={**MERGE, **given})) == NOT_SUPPORTED
    assert error(alice.get(thing, params=given)) == NOT_SUPPORTED
    assert error(alice.get("/things", params={"ids": "ns:x", **given})) == NOT_SUPPORTED
    assert error(alice.get(thing, headers={**EVENTS, **given})) == NOT_SUPPORTED
    assert error(alice.put("/policies/ns:refused", json=policy(), headers=given)) == NOT_SUPPORTED
    assert alice.get(f"{thing}/attributes/a").json() == 1
    peer = world.connect()
    assert refusal(peer.say(command("create", value={}, headers=given))) == NOT_SUPPORTED
    assert peer.command("retrieve")["status"] == 404
    topic = "ns/thing/things/twin/streaming/subscribeForPersistedEvents"
    assert refusal(peer.say({"topic": topic, "path": "/", "headers": given})) == NOT_SUPPORTED


@pytest.mark.conformance("ditto.refused.not")
def test_values_that_ask_for_nothing_more_are_taken(world: World, alice: httpx.Client, thing: str) -> None:
    given = {"requested-acks": '["twin-persisted"]', "channel": "twin", "allow-policy-lockout": "false"}
    assert alice.put(f"{thing}/attributes/a", json=2, headers=given).status_code == 204
    assert alice.put(f"{thing}/attributes/a", json=3, params={"requested-acks": "twin-persisted"}).status_code == 204
    peer = world.connect()
    headers = {"requested-acks": ["twin-persisted"], "version": 2}
    assert peer.command("create", value={}, headers=headers)["status"] == 201


@pytest.mark.conformance("ditto.refused.elsewhere")
def test_the_live_channel_and_acknowledgements_are_for_single_things(alice: httpx.Client, thing: str) -> None:
    live = {"channel": "live"}
    assert error(alice.get("/things", params={"ids": "ns:x", **live})) == NOT_SUPPORTED
    assert error(alice.get("/things", headers={**EVENTS, **live})) == NOT_SUPPORTED
    assert error(alice.get("/search/things", params=live)) == NOT_SUPPORTED
    assert error(alice.put("/policies/ns:refused", json=policy(), headers=live)) == NOT_SUPPORTED
    acks = {"requested-acks": "my-ack"}
    assert error(alice.put("/policies/ns:refused", json=policy(), headers=acks)) == NOT_SUPPORTED
    assert error(alice.put(thing, json={}, headers={"channel": "other"})) == (400, "header.invalid")
    assert error(alice.put(thing, json={}, headers={"requested-acks": "x"})) == (400, "acknowledgement:label.invalid")


@pytest.mark.conformance("ditto.refused.version")
def test_another_version_of_the_api_is_refused(world: World) -> None:
    answer = world.connect().say(command("create", value={}, headers={"version": 1}))
    assert refusal(answer) == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        row("refused.condition.policy", "condition", "exists(entries)"),
        row("refused.at-historical.change", "at-historical-revision", "1"),
    ],
)
def test_a_header_that_does_not_go_with_the_command_is_refused(
    world: World, alice: httpx.Client, name: str, value: str
) -> None:
    headers = {name: value}
    assert error(alice.put("/policies/ns:refused", json=policy(), headers=headers)) == NOT_SUPPORTED
    message = command("create", value=policy(), headers=headers, group="policies")
    assert refusal(world.connect().say(message)) == NOT_SUPPORTED


@pytest.mark.parametrize(
    "name", [row(f"refused.several.{name}", name) for name in ("condition", "if-match", "at-historical-revision")]
)
def test_a_header_about_one_thing_is_refused_where_there_are_several(
    alice: httpx.Client, thing: str, name: str
) -> None:
    headers = {name: "1"}
    assert error(alice.get("/things", params={"ids": thing[8:]}, headers=headers)) == NOT_SUPPORTED
    assert error(alice.get("/things", headers={**EVENTS, **headers})) == NOT_SUPPORTED


@pytest.mark.conformance("ditto.refused.sse.extraFields")
def test_a_stream_with_extra_fields_is_refused(alice: httpx.Client, thing: str) -> None:
    assert error(alice.get(thing, params={"extraFields": "attributes"}, headers=EVENTS)) == NOT_SUPPORTED


UNKNOWN_PATH = (400, "protocoladapter:unknown.path")


@pytest.mark.parametrize(
    "value",
    [
        row("refused.policy.unknown", {**policy(), "later": 1}),
    ],
)
def test_a_policy_with_what_is_not_known_here_is_refused(world: World, alice: httpx.Client, value: Any) -> None:
    assert error(alice.put("/policies/ns:refused", json=value)) == UNKNOWN_PATH
    assert error(alice.put("/things/ns:refused", json={"_policy": value})) == UNKNOWN_PATH
    assert alice.get("/policies/ns:refused").status_code == 404
    message = command("create", value=value, group="policies")
    assert refusal(world.connect().say(message)) == UNKNOWN_PATH


DEFINITION = (400, "things:definition.identifier.invalid")


@pytest.mark.parametrize(
    "text",
    [
        row("definition.two-parts", "ns:name"),
        row("definition.four-parts", "a:b:c:d"),
        row("definition.empty-part", "a::c"),
        row("definition.slash", "org/eclipse:b:c"),
        row("definition.scheme", "ftp://example.org/model"),
        row("definition.host", "https:///model"),
        row("definition.space", "https://example.org/a model"),
    ],
)
def test_a_definition_that_is_none_is_refused(world: World, alice: httpx.Client, thing: str, text: str) -> None:
    assert error(alice.put(f"{thing}/definition", json=text)) == DEFINITION
    assert error(alice.put(thing, json={"definition": text})) == DEFINITION
    assert error(alice.put(f"{thing}/features/f", json={"definition": ["a:b:c", text]})) == DEFINITION
    assert error(alice.patch(thing, content=json.dumps({"definition": text}), headers=MERGE)) == DEFINITION
    message = command("create", value={"definition": text})
    assert refusal(world.connect().say(message)) == DEFINITION


@pytest.mark.parametrize(
    "text",
    [
        row("definition.identifier", "org.eclipse-ditto:Heating_Device:2.1.0"),
        row("definition.url", "https://example.org:8443/models/lamp-1.0.0.tm.jsonld?v=1#top"),
    ],
)
def test_a_definition_is_an_identifier_or_an_address(alice: httpx.Client, thing: str, text: str) -> None:
    assert alice.put(f"{thing}/definition", json=text).status_code == 201
    assert alice.get(f"{thing}/definition").json() == text


# -- commands that nobody waits for, or not for long -------------------------------------------------------------------


@pytest.mark.conformance("ditto.http.response-required")
def test_a_request_that_requires_no_response_is_202_and_done(alice: httpx.Client, thing: str) -> None:
    answer = alice.put(f"{thing}/attributes/a", json=2, params={"response-required": "false"})
    assert (answer.status_code, answer.content) == (202, b"")
    assert "correlation-id" in answer.headers
    # Commands are done in the order in which they come.
    assert alice.get(f"{thing}/attributes/a").json() == 2
    missing = alice.delete("/things/ns:missing", headers={"response-required": "false"})
    assert (missing.status_code, missing.content) == (202, b"")
    assert alice.get(thing, headers={"response-required": "false"}).status_code == 202
    assert error(alice.put(thing, content="{", headers={"response-required": "false"})) == (400, "json.invalid")
    assert error(alice.get(thing, headers={"response-required": "perhaps"})) == (400, "header.invalid")


@pytest.mark.conformance("ditto.http.timeout")
def test_a_timeout_that_is_none_is_refused(world: World, alice: httpx.Client, thing: str) -> None:
    assert alice.put(f"{thing}/attributes/a", json=2, params={"timeout": "30s"}).status_code == 204
    for text in ("soon", "0", "2m"):
        assert error(alice.put(f"{thing}/attributes/a", json=3, headers={"timeout": text})) == (400, "header.invalid")
    assert alice.get(f"{thing}/attributes/a").json() == 2
    message = command("create", value={}, headers={"timeout": "soon"})
    assert refusal(world.connect().say(message)) == (400, "header.invalid")


# -- addresses and methods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        row("http.unknown.root", ""),
        row("http.unknown.other", "/whoever/is/this"),
    ],
)
def test_an_address_with_nothing_there_is_404_in_the_form_of_ditto(alice: httpx.Client, path: str) -> None:
    answer = alice.get(path, headers={"correlation-id": "mine"})
    assert error(answer) == (404, "gateway:route.notfound")
    assert (answer.headers["content-type"], answer.headers["correlation-id"]) == ("application/json", "mine")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        row("http.method.POST", "POST", "/things/ns:x", "DELETE, GET, HEAD, PATCH, PUT"),
        row("http.method.PATCH", "PATCH", "/policies/ns:x", "DELETE, GET, HEAD, PUT"),
        row("http.method.OPTIONS", "OPTIONS", "/things", "GET, HEAD, POST"),
        row("http.method.unknown", "PROPFIND", "/things/ns:x/attributes", "DELETE, GET, HEAD, PATCH, PUT"),
    ],
)
def test_a_method_that_is_not_for_this_address_is_405(
    alice: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = alice.request(method, path)
    assert error(answer) == (405, "gateway:method.notallowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.conformance("ditto.http.HEAD")
def test_head_is_get_without_the_body(alice: httpx.Client, site: Site, thing: str) -> None:
    for path in (thing, f"{thing}/attributes/a", "/things?ids=ns:x", "/things/ns:missing", "/connections", "/nowhere"):
        get, head = alice.get(path), alice.head(path)
        assert head.status_code == get.status_code
        assert head.content == b""
        for name in ("content-length", "content-type", "etag"):
            assert head.headers.get(name) == get.headers.get(name)
    assert alice.head(thing, headers=EVENTS).headers["content-type"] == "application/json"
    assert site.client().head(thing).status_code == 401


@pytest.mark.conformance("ditto.errors.several")
def test_an_error_about_several_things_names_none_in_its_topic(world: World) -> None:
    for name in ("_/_", "/"):
        message = {"topic": f"{name}/things/twin/commands/retrieve", "path": "/", "value": {}}
        (answer,) = world.connect().say(message)
        assert answer["topic"] == "unknown/unknown/things/twin/errors"


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        row("condition.time", "lt(attributes/since,time:now)", 204),
        row("condition.time.offset", "gt(attributes/since,time:now-1h)", 412),
        row("condition.time.truncated", "lt(attributes/since,time:now[y])", 204),
        row("condition.time.millis", "lt(attributes/millis,time:now_epoch_millis-1d)", 204),
        row("condition.time.bad", "lt(attributes/since,time:now-1parsec)", 400),
    ],
)
def test_a_condition_knows_the_time(alice: httpx.Client, thing: str, condition: str, status: int) -> None:
    # As texts, both would be after any time of this century that is written with Z.
    value = {"since": "2020-05-01T00:00:00+02:00", "millis": 1_588_284_000_000}
    assert alice.put(f"{thing}/attributes", json=value).status_code == 204
    answer = alice.put(f"{thing}/attributes/x", json=1, headers={"condition": condition})
    assert answer.status_code == (201 if status == 204 else status)
    # Of the past, too.
    past = alice.get(thing, params={"condition": condition, "at-historical-revision": "2"})
    assert past.status_code == (200 if status == 204 else status)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        row("filter.time", "gt(attributes/until,time:now)", 1),
        row("filter.time.offset", "gt(attributes/until,time:now+36500d)", 0),
        row("filter.time.modified", "ge(_modified,time:now-1d)", 1),
    ],
)
def test_a_filter_of_events_knows_the_time(world: World, alice: httpx.Client, text: str, count: int) -> None:
    address = next(THINGS)
    alice.put(address, json={"attributes": {"until": "2099-01-01T00:00:00+00:00"}})
    history = alice.get(address, params={"from-historical-revision": "1", "filter": text}, headers=EVENTS)
    assert history.text.count("thingId") == count
    watcher, peer = world.connect(), world.connect()
    assert watcher.say(f"START-SEND-EVENTS?filter={text.replace('+', '%2B')}") == ["START-SEND-EVENTS:ACK"]
    peer.command("create", value={"attributes": {"until": "2099-01-01T00:00:00+00:00"}})
    assert len(watcher.heard) == count


@pytest.mark.conformance("ditto.item.condition")
def test_a_condition_is_asked_of_an_item(alice: httpx.Client, site: Site) -> None:
    site.feed('{"item":"conditional","fields":{"x":"1"}}\n')
    address = "/things/SITE.SENSORS:conditional"
    assert alice.get(address, params={"condition": 'eq(attributes/x,"1")'}).status_code == 200
    assert alice.get(address, params={"condition": 'eq(attributes/x,"2")'}).status_code == 412
