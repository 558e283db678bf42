from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from penstock.wire.ditto.live import MAX_MESSAGE_BYTES
from tests.adapters.access.world import password_of
from tests.conformance.ditto.phrases import row
from tests.doors.ditto.site import Site
from tests.doors.ditto.world import ALL, READ, Message, Peer, World, refusal

TOPIC = "ns/thing/things/live"
ASK = f"{TOPIC}/messages/ask"
MESSAGES = {"thing:/": ALL, "policy:/": ALL, "message:/": ALL}
NOT_FOUND = (404, "things:thing.notfound")


def live(topic: str, path: str, value: Any = None, *, status: Any = None, **headers: Any) -> Message:
    message: Message = {"topic": topic, "path": path, "headers": {"correlation-id": "c", **headers}}
    return message | ({} if value is None else {"value": value}) | ({} if status is None else {"status": status})


def message(value: Any = "hello", path: Any = "/inbox/messages/ask", status: Any = None, **headers: Any) -> Message:
    return live(f"{TOPIC}/messages/{path.partition('/messages/')[2]}", path, value, status=status, **headers)


def pair(world: World, **readers: Any) -> tuple[Peer, Peer]:
    """Its owner, who sends, and a device that receives messages, commands and events."""
    entries = {
        name: {"subjects": {f"nginx:{name}": {"type": "t"}}, "resources": resources}
        for name, resources in {"owner": MESSAGES, "device": MESSAGES, **readers}.items()
    }
    owner = world.connect()
    value = {"attributes": {"x": 1}, "_policy": {"policyId": "ns:thing", "entries": entries}}
    assert owner.command("create", value=value)["status"] == 201
    return owner, listening(world, "device")


def listening(world: World, user: str, **more: Any) -> Peer:
    peer = world.connect(user, **more)
    for signals in ("MESSAGES", "LIVE-COMMANDS", "LIVE-EVENTS"):
        assert peer.say(f"START-SEND-{signals}") == [f"START-SEND-{signals}:ACK"]
    return peer


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.message.answer")
def test_a_message_is_passed_on_and_its_answer_comes_back(world: World) -> None:
    owner, device = pair(world)
    assert owner.say(message("hello", **{"content-type": "text/plain"})) == []
    (heard,) = device.hear()
    assert (heard["topic"], heard["path"], heard["value"]) == (ASK, "/inbox/messages/ask", "hello")
    assert heard["headers"]["content-type"] == "text/plain"
    assert heard["headers"]["ditto-originator"] == "nginx:owner"
    answer = live(ASK, "/outbox/messages/ask", "fine", status=418, **{"content-type": "text/plain"})
    assert device.say(answer) == []
    (came,) = owner.hear()
    assert (came["topic"], came["value"], came["status"]) == (ASK, "fine", 418)
    assert came["headers"]["correlation-id"] == "c"
    # A second answer is for nobody.
    assert device.say(answer) == []
    assert owner.hear() == []


@pytest.mark.parametrize(
    "path",
    [
        row("message.inbox", "/inbox/messages/ask"),
        row("message.outbox", "/outbox/messages/ask/more"),
        row("message.feature", "/features/lamp/inbox/messages/ask"),
    ],
)
def test_things_and_features_have_two_mailboxes(world: World, path: str) -> None:
    owner, device = pair(world)
    owner.say(message(path=path))
    assert [heard["path"] for heard in device.hear()] == [path]


@pytest.mark.conformance("ditto.message.timeout")
def test_a_message_without_an_answer_is_408_after_its_timeout(world: World) -> None:
    owner, device = pair(world)
    owner.say(message(timeout="5s"))
    world.advance(4)
    assert owner.hear() == []
    world.advance(1)
    (came,) = owner.hear()
    assert refusal([came]) == (408, "command.timeout")
    device.hear()
    device.say(live(ASK, "/outbox/messages/ask", "late", status=200))
    assert owner.hear() == []


@pytest.mark.parametrize(
    "headers",
    [
        row("message.not-required", {"response-required": False}),
        row("message.timeout.zero", {"timeout": 0}),
        row("message.no-acks", {"requested-acks": []}),
    ],
)
def test_a_message_that_wants_no_answer_gets_none(world: World, headers: Message) -> None:
    owner, device = pair(world)
    assert owner.say(message(**headers)) == []
    assert len(device.hear()) == 1
    device.say(live(ASK, "/outbox/messages/ask", "fine", status=200))
    world.advance(100)
    assert owner.hear() == []


@pytest.mark.conformance("ditto.message.permission")
def test_messages_need_write_to_send_and_read_to_receive(world: World) -> None:
    some = {"message:/inbox/messages/ask": {"grant": ["READ", "WRITE"], "revoke": []}}
    owner, device = pair(world, some=some, reader={"thing:/": READ})
    listener = listening(world, "some")
    listening(world, "reader")
    owner.say(message())
    owner.say(message(path="/inbox/messages/other", **{"correlation-id": "d"}))
    assert [heard["topic"].rpartition("/")[2] for heard in listener.hear()] == ["ask"]
    assert len(device.hear()) == 2
    assert world.connect("some").say(message(**{"correlation-id": "e"})) == []
    assert refusal(world.connect("some").say(message(path="/inbox/messages/other"))) == NOT_FOUND
    assert refusal(world.connect("reader").say(message())) == (403, "messages:send.notallowed")
    assert refusal(world.connect("nobody").say(message())) == NOT_FOUND


@pytest.mark.conformance("ditto.message.claim")
def test_a_claim_needs_no_permission(world: World) -> None:
    _, device = pair(world)
    stranger = world.connect("stranger")
    assert stranger.say(message("please", "/inbox/messages/claim")) == []
    assert [heard["value"] for heard in device.hear()] == ["please"]
    device.say(live(f"{TOPIC}/messages/claim", "/inbox/messages/claim", "yours", status=200))
    assert [came["value"] for came in stranger.hear()] == ["yours"]


@pytest.mark.conformance("ditto.message.own")
def test_a_connection_does_not_receive_what_it_sends(world: World) -> None:
    pair(world)
    owner = listening(world, "owner")
    assert owner.say(message(timeout=0)) == []


@pytest.mark.conformance("ditto.message.filter")
def test_namespaces_and_filters_choose_messages(world: World) -> None:
    owner, device = pair(world)
    device.say("START-SEND-MESSAGES?filter=like(topic:subject,%22as*%22)&namespaces=ns")
    owner.say(message(timeout=0))
    owner.say(message(path="/inbox/messages/other", timeout=0))
    assert [heard["path"] for heard in device.hear()] == ["/inbox/messages/ask"]
    device.say("STOP-SEND-MESSAGES")
    owner.say(message(timeout=0))
    assert device.hear() == []


@pytest.mark.conformance("ditto.message.slow")
def test_a_device_that_reads_slowly_is_told_what_it_lost(world: World) -> None:
    owner, device = pair(world)
    device.connection.set_writable(False)
    for _ in range(205):
        owner.say(message(timeout=0))
    assert device.hear() == []
    device.connection.set_writable(True)
    *heard, complaint = device.hear()
    assert len(heard) == 200
    assert refusal([complaint]) == (429, "too.many.requests")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        row("message.bad.path", live(ASK, "/attributes"), (400, "protocoladapter:unknown.path")),
        row("message.bad.subject", live(ASK, "/inbox/messages/other"), (400, "messages:subject.invalid")),
        row("message.bad.space", message(path="/inbox/messages/a b"), (400, "messages:subject.invalid")),
        row("message.bad.size", message("x" * MAX_MESSAGE_BYTES), (413, "messages:payload.toolarge")),
        row("message.bad.thing", live("ns/no/things/live/messages/ask", "/inbox/messages/ask"), NOT_FOUND),
        row(
            "message.bad.twin",
            live("ns/thing/things/twin/messages/ask", "/inbox/messages/ask"),
            (400, "signal.unsupported"),
        ),
        row("message.bad.status", message(status=7), (400, "json.invalid")),
        row("message.bad.timeout", message("hello", timeout=0, **{"response-required": True}), (400, "header.invalid")),
        row("live.bad.action", live(f"{TOPIC}/commands/migrate", "/"), (400, "protocoladapter:unknown.topicpath")),
    ],
)
def test_a_bad_signal_is_an_error_response(world: World, sent: Message, expected: tuple[int, str]) -> None:
    owner, device = pair(world)
    assert refusal(owner.say(sent)) == expected
    assert device.hear() == []


@pytest.mark.conformance("ditto.message.duplicate")
def test_a_correlation_id_that_is_waited_for_is_409(world: World) -> None:
    owner, _ = pair(world)
    owner.say(message())
    assert refusal(owner.say(message())) == (409, "acknowledgement:request.duplicate.correlation-id")


# -- live commands and events ------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.live.command")
def test_a_live_command_is_answered_by_the_device_and_changes_no_twin(world: World) -> None:
    owner, device = pair(world)
    assert owner.say(live(f"{TOPIC}/commands/modify", "/attributes/x", 7)) == []
    (heard,) = device.hear()
    assert (heard["topic"], heard["path"], heard["value"]) == (f"{TOPIC}/commands/modify", "/attributes/x", 7)
    device.say(live(f"{TOPIC}/commands/modify", "/attributes/x", status=204))
    assert [came["status"] for came in owner.hear()] == [204]
    assert owner.command("retrieve", "/attributes/x")["value"] == 1


@pytest.mark.conformance("ditto.live.retrieve")
def test_who_retrieves_live_sees_what_may_be_read(world: World) -> None:
    resources = {"thing:/": READ, "thing:/attributes/secret": {"grant": [], "revoke": ["READ"]}}
    _, device = pair(world, some=resources)
    some = world.connect("some")
    assert some.say(live(f"{TOPIC}/commands/retrieve", "/attributes")) == []
    device.hear()
    device.say(live(f"{TOPIC}/commands/retrieve", "/attributes", {"x": 5, "secret": 6}, status=200))
    assert [came["value"] for came in some.hear()] == [{"x": 5}]
    assert refusal(some.say(live(f"{TOPIC}/commands/modify", "/attributes/x", 7))) == (
        403,
        "things:thing.notmodifiable",
    )
    assert refusal(world.connect("nobody").say(live(f"{TOPIC}/commands/retrieve", "/"))) == NOT_FOUND


@pytest.mark.conformance("ditto.live.events")
def test_a_live_event_goes_to_those_who_may_read_it_and_has_no_answer(world: World) -> None:
    owner, device = pair(world, some={"thing:/attributes/x": READ})
    some = listening(world, "some")
    assert owner.say(live(f"{TOPIC}/events/modified", "/attributes", {"x": 5, "y": 6})) == []
    assert [heard["value"] for heard in device.hear()] == [{"x": 5, "y": 6}]
    assert [heard["value"] for heard in some.hear()] == [{"x": 5}]
    assert world.connect().command("retrieve", "/attributes/x")["value"] == 1


# -- acknowledgements --------------------------------------------------------------------------------------------------


@pytest.mark.conformance("ditto.acks.custom")
def test_a_change_waits_for_the_acknowledgement_of_a_subscriber(world: World) -> None:
    owner, _ = pair(world)
    device = world.connect("device", declared=("my:label",))
    device.say("START-SEND-EVENTS")
    asking = {"requested-acks": ["twin-persisted", "my:label"], "correlation-id": "c"}
    change = {"topic": "ns/thing/things/twin/commands/modify", "path": "/attributes/x", "value": 2, "headers": asking}
    assert owner.say(change) == []
    (event,) = device.hear()
    assert event["headers"]["requested-acks"] == ["my:label"]
    device.say(live("ns/thing/things/twin/acks/my:label", "/", {"ok": 1}, status=202))
    (came,) = owner.hear()
    assert (came["topic"], came["status"]) == ("ns/thing/things/twin/acks", 200)
    assert came["value"]["twin-persisted"]["status"] == 204
    assert came["value"]["my:label"] == {"status": 202, "payload": {"ok": 1}, "headers": {"correlation-id": "c"}}


@pytest.mark.conformance("ditto.acks.failed")
def test_one_that_fails_or_does_not_come_makes_it_424(world: World) -> None:
    owner, _ = pair(world)
    asking = {"requested-acks": ["twin-persisted", "nobody:label"], "timeout": "2s"}
    change = {"topic": "ns/thing/things/twin/commands/modify", "path": "/attributes/x", "value": 2, "headers": asking}
    assert owner.say(change) == []
    world.advance(2)
    (came,) = owner.hear()
    assert came["status"] == 424
    assert came["value"]["nobody:label"]["status"] == 408
    assert came["value"]["nobody:label"]["payload"]["error"] == "acknowledgement:request.timeout"


@pytest.mark.conformance("ditto.acks.weak")
def test_a_subscriber_that_does_not_get_an_event_acknowledges_it_weakly(world: World) -> None:
    owner, _ = pair(world)
    device = world.connect("device", declared=("my:label",))
    device.say("START-SEND-EVENTS?filter=eq(attributes/x,99)")
    asking = {"requested-acks": ["my:label"], "correlation-id": "c"}
    change = {"topic": "ns/thing/things/twin/commands/modify", "path": "/attributes/x", "value": 2, "headers": asking}
    (came,) = owner.say(change)
    assert came["value"]["my:label"]["headers"]["ditto-weak-ack"] is True
    assert came["status"] == 200


@pytest.mark.conformance("ditto.acks.built-in")
def test_the_server_acknowledges_what_is_on_the_disk_and_in_the_index(world: World) -> None:
    owner, _ = pair(world)
    asking = {"requested-acks": ["twin-persisted", "search-persisted"]}
    change = {"topic": "ns/thing/things/twin/commands/modify", "path": "/attributes/x", "value": 2, "headers": asking}
    heard = owner.say(change)
    world.work.call(world.work_is_done())
    (came,) = [*heard, *owner.hear()]
    assert [came["value"][label]["status"] for label in asking["requested-acks"]] == [204, 204]
    plain = {**change, "headers": {"requested-acks": ["twin-persisted"]}}
    assert owner.ask(plain)["status"] == 204


@pytest.mark.conformance("ditto.acks.live")
def test_a_message_can_ask_for_acknowledgements_besides_its_answer(world: World) -> None:
    owner, device = pair(world)
    other = listening(world, "device", declared=("my:label",))
    headers: Message = {"requested-acks": ["live-response", "my:label"]}
    owner.say(message(**headers))
    assert len(device.hear()) == len(other.hear()) == 1
    device.say(live(ASK, "/outbox/messages/ask", "fine", status=200))
    assert owner.hear() == []
    other.say(live(f"{TOPIC}/acks/my:label", "/", status=200))
    (came,) = owner.hear()
    assert came["value"]["live-response"]["payload"] == "fine"
    assert came["status"] == 200


@pytest.mark.parametrize(
    ("label", "code"),
    [
        row("acks.not-declared", "other:label", "acknowledgement:label.not.declared"),
        row("acks.built-in.issued", "twin-persisted", "acknowledgement:label.invalid"),
        row("acks.bad-label", "a", "acknowledgement:label.invalid"),
    ],
)
def test_only_declared_labels_can_be_issued(world: World, label: str, code: str) -> None:
    device = world.connect("device", declared=("my:label",))
    assert refusal(device.say(live(f"{TOPIC}/acks/{label}", "/", status=200))) == (400, code)


@pytest.mark.conformance("ditto.acks.gone")
def test_who_is_gone_waits_no_longer(world: World) -> None:
    owner, device = pair(world)
    change = {
        "topic": "ns/thing/things/twin/commands/modify",
        "path": "/attributes/x",
        "value": 2,
        "headers": {"requested-acks": ["nobody:label"], "correlation-id": "c"},
    }
    owner.say(change)
    owner.connection.lost()
    again = world.connect()
    assert again.say(message(timeout="9s")) == []
    again.connection.lost()
    assert world.connect().say(change) == []
    assert device.hear()


@pytest.mark.conformance("ditto.acks.refused-command")
def test_a_command_that_fails_is_answered_with_its_error_alone(world: World) -> None:
    owner, _ = pair(world)
    change = {
        "topic": "ns/no/things/twin/commands/modify",
        "path": "/attributes/x",
        "value": 2,
        "headers": {"requested-acks": ["my:label"]},
    }
    assert refusal(owner.say(change)) == NOT_FOUND
    assert owner.connection.due() is None


# -- HTTP and sockets --------------------------------------------------------------------------------------------------


@contextmanager
def device(site: Site, query: str = "") -> Iterator[ClientConnection]:
    headers = {"authorization": httpx.BasicAuth("alice", password_of("alice"))._auth_header}
    with connect(f"ws://{site.host}:{site.api_port}/ws/2{query}", additional_headers=headers) as socket:
        for signals in ("MESSAGES", "LIVE-COMMANDS", "EVENTS"):
            socket.send(f"START-SEND-{signals}")
            assert socket.recv(timeout=30) == f"START-SEND-{signals}:ACK"
        yield socket


def echo(socket: ClientConnection, count: int = 1) -> threading.Thread:
    """Answers so many messages with what they say."""
    import json

    def run() -> None:
        for _ in range(count):
            heard = json.loads(socket.recv(timeout=60))
            answer = {**heard, "status": 201, "path": heard["path"].replace("inbox", "outbox")}
            socket.send(json.dumps(answer))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def lamp(alice: httpx.Client) -> str:
    assert alice.put("/things/live:lamp", json={"attributes": {"x": 1}}).status_code == 201
    return "/things/live:lamp"


@pytest.mark.conformance("ditto.message.http")
def test_a_message_by_http_is_answered_with_what_the_device_answers(site: Site, alice: httpx.Client, lamp: str) -> None:
    with device(site) as socket:
        thread = echo(socket, 3)
        for kind, body in (("text/plain", b"hi"), ("application/json", b'{"a":1}'), ("application/x-y", b"\x00\xff")):
            answer = alice.post(f"{lamp}/inbox/messages/ask", content=body, headers={"content-type": kind})
            assert (answer.status_code, answer.content) == (201, body)
            assert answer.headers["content-type"].startswith(kind)
        thread.join()
        assert alice.post(f"{lamp}/inbox/messages/ask?timeout=0", content=b"x").status_code == 202
        answer = alice.post(f"{lamp}/features/f/outbox/messages/ask", params={"timeout": "10ms"}, content=b"x")
        assert (answer.status_code, answer.json()["error"]) == (408, "command.timeout")
        assert alice.post(f"{lamp}/inbox/claim?timeout=0").status_code == 202


@pytest.mark.conformance("ditto.message.sse")
def test_messages_are_streamed_as_server_sent_events(site: Site, alice: httpx.Client, lamp: str) -> None:
    bob = site.of("bob")
    places = {"inbox/messages": alice, "features/f/outbox/messages/ring": alice, "inbox/messages/ask": bob}
    with ExitStack() as stack:
        found = {}
        for place, client in places.items():
            events = {"accept": "text/event-stream"}
            stream = stack.enter_context(client.stream("GET", f"{lamp}/{place}", headers=events))
            assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            found[place] = stream.iter_lines()
            assert next(found[place]) == "data:"
        sent = (
            ("inbox/messages/ask", "text/plain", b"two\nlines"),
            ("features/f/outbox/messages/ring", "application/json", b'{"loud":true}'),
            ("features/f/outbox/messages/other", "application/json", b"1"),
            ("outbox/messages/ask", "application/json", b"2"),
            ("inbox/messages/a/b", "application/json", b'"quoted"'),
            ("inbox/messages/bytes", "application/x-y", b"\x00\xff"),
            ("features/f/outbox/messages/ring", "application/json", b"3"),
        )
        for path, kind, body in sent:
            answer = alice.post(f"{lamp}/{path}?timeout=0", content=body, headers={"content-type": kind})
            assert answer.status_code == 202, answer.text

        def said(place: str, count: int) -> list[str]:
            lines = (line for line in found[place] if line not in ("", "data:"))
            return [next(lines) for _ in range(count)]

        assert said("inbox/messages", 7) == [
            *("event:ask", "data:two", "data:lines"),
            *("event:a/b", 'data:"quoted"'),
            *("event:bytes", "data:AP8="),
        ]
        assert said("features/f/outbox/messages/ring", 4) == [
            *("event:ring", 'data:{"loud":true}'),
            *("event:ring", "data:3"),
        ]
        # Who may receive none gets none, and is not told why.
        assert [next(found["inbox/messages/ask"]) for _ in range(3)] == ["", "data:", ""]
    refused = alice.get(f"{lamp}/inbox/messages", params={"filter": "x"}, headers={"accept": "text/event-stream"})
    assert (refused.status_code, refused.json()["error"]) == (400, "header.notsupported")
    assert alice.get(f"{lamp}/inbox/messages/ask").status_code == 400


@pytest.mark.conformance("ditto.live.http")
def test_channel_live_asks_the_device(site: Site, alice: httpx.Client, lamp: str) -> None:
    with device(site) as socket:
        echo(socket)
        answer = alice.put(f"{lamp}/attributes/x", params={"channel": "live"}, json=5)
        assert (answer.status_code, answer.json()) == (201, 5)
    assert alice.get(f"{lamp}/attributes/x").json() == 1


@pytest.mark.conformance("ditto.acks.http")
def test_acknowledgements_by_http_are_one_answer(site: Site, alice: httpx.Client, lamp: str) -> None:
    asked = {"requested-acks": "twin-persisted,search-persisted,my:label", "timeout": "30s"}
    with device(site, "?declared-acks=my:label") as socket:
        socket.send("STOP-SEND-EVENTS")
        assert socket.recv(timeout=30) == "STOP-SEND-EVENTS:ACK"
        answer = alice.put(f"{lamp}/attributes/y", params=asked, json=5)
    assert (answer.status_code, answer.json()["twin-persisted"]["status"]) == (200, 201)
    assert answer.json()["search-persisted"]["status"] == 204
    assert answer.json()["my:label"]["headers"]["ditto-weak-ack"] is True


@pytest.mark.conformance("ditto.acks.unique")
def test_a_label_belongs_to_one_connection(site: Site) -> None:
    from websockets.exceptions import InvalidStatus

    with device(site, "?declared-acks=one:label"):
        with pytest.raises(InvalidStatus) as refused, device(site, "?declared-acks=one:label"):
            pass
        assert refused.value.response.status_code == 409
