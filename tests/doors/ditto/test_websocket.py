"""The socket of /ws/2 on a whole server: handshake, credentials, frames, compression, and how much may wait."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from penstock.doors.ditto import websocket
from penstock.doors.ditto.streaming import SOME_BYTES
from penstock.wire.deflate import COMPRESSED_BYTES
from tests.adapters.access.world import AUDIENCE, password_of
from tests.doors.ditto.site import SECRET, Site
from tests.doors.ditto.world import Message, command, failure, kind, kinds, revisions, streaming
from tests.support.witness import ErrorLog
from tests.wire import frames

LONG = 20.0


def basic(user: str, password: str | None = None) -> str:
    given = f"{user}:{password_of(user) if password is None else password}"
    return "Basic " + base64.b64encode(given.encode()).decode()


def bearer(user: str, seconds: float = 60.0) -> str:
    return jwt.encode({"aud": AUDIENCE, "sub": user, "exp": time.time() + seconds}, SECRET, "HS256")


class Client:
    """A connected client that speaks JSON."""

    def __init__(self, link: ClientConnection) -> None:
        self.link = link

    def send(self, message: Message | str) -> None:
        self.link.send(message if isinstance(message, str) else json.dumps(message))

    def hear(self) -> Any:
        text = self.link.recv(timeout=LONG)
        assert isinstance(text, str)
        return json.loads(text) if text.startswith("{") else text

    def ask(self, message: Message | str) -> Any:
        self.send(message)
        return self.hear()

    def request(self, number: str, demand: int, id: str) -> None:
        self.send(streaming(id, "request", {"subscriptionId": number, "demand": demand}))


@contextmanager
def client(site: Site, authorization: str | None = None, path: str = "/ws/2", **options: Any) -> Iterator[Client]:
    headers = dict(options.pop("headers", {}))
    if authorization is not None:
        headers["Authorization"] = authorization
    address = f"ws://127.0.0.1:{site.server.api_port}{path}"
    with connect(address, additional_headers=headers, max_size=None, **options) as link:
        yield Client(link)


def refused(site: Site, authorization: str | None = None, **options: Any) -> tuple[int, Any]:
    with pytest.raises(InvalidStatus) as caught, client(site, authorization, **options):
        pass
    return caught.value.response.status_code, caught.value.response


# -- what may be asked for ---------------------------------------------------------------------------------------------


def test_a_socket_declares_what_it_acknowledges_in_the_address_or_a_header(site: Site) -> None:
    for options in ({"path": "/ws/2?declared-acks=my-ack"}, {"headers": {"Declared-Acks": "an-ack"}}):
        with client(site, basic("alice"), **options):
            status, response = refused(site, basic("alice"), **options)
            assert (status, json.loads(response.body)["error"]) == (409, "acknowledgement:label.not.unique")
    status, response = refused(site, basic("alice"), path="/ws/2?declared-acks=x")
    assert (status, json.loads(response.body)["error"]) == (400, "acknowledgement:label.invalid")
    assert refused(site, path="/ws/2?declared-acks=my-ack")[0] == 401


# -- who may come in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param(basic("alice", "wrong"), id="wrong password"),
        pytest.param(basic("nobody", "secret"), id="unknown user"),
        pytest.param("Basic !!!", id="no base64"),
        pytest.param("Bearer nonsense", id="no token"),
        pytest.param("Digest alice", id="another scheme"),
    ],
)
def test_without_the_right_credentials_it_is_401_before_the_upgrade(site: Site, authorization: str | None) -> None:
    status, response = refused(site, authorization)
    assert status == 401
    assert response.headers.get_all("WWW-Authenticate") == ['Basic realm="Ditto", charset="UTF-8"', "Bearer"]
    assert json.loads(bytes(response.body))["error"] == "gateway:authentication.failed"


@pytest.mark.parametrize("path", ["/ws/2", "/ws/2/", "/ws/2?x=y"])
def test_a_user_with_a_password_is_let_in(site: Site, path: str) -> None:
    with client(site, basic("alice"), path) as alice:
        assert alice.ask("START-SEND-EVENTS") == "START-SEND-EVENTS:ACK"


def test_a_user_with_a_token_is_let_in_and_is_another_subject_than_one_with_a_password(site: Site) -> None:
    with client(site, f"Bearer {bearer('alice')}") as alice:
        created = alice.ask(command("create", value={}, id="ws:token"))
        assert created["status"] == 201
        policy = alice.ask(command("retrieve", id="ws:token", group="policies"))
        assert list(policy["value"]["entries"]["DEFAULT"]["subjects"]) == ["idp:alice"]


def test_there_is_no_websocket_elsewhere(site: Site) -> None:
    assert refused(site, basic("alice"), path="/ws/1")[0] == 404
    assert refused(site, basic("alice"), path="/api/2/things")[0] == 404


def test_a_handshake_that_is_none_is_refused(site: Site) -> None:
    request = (
        "GET /ws/2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Authorization: {basic('alice')}\r\nSec-WebSocket-Version: 7\r\nSec-WebSocket-Key: AAAA\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.server.api_port), LONG) as link:
        link.sendall(request.encode())
        assert link.recv(65_536).split(b"\r\n")[0] in (b"HTTP/1.1 400 Bad Request", b"HTTP/1.1 426 Upgrade Required")


def test_pages_of_other_origins_are_refused_where_that_is_configured(tmp_path: Path) -> None:
    with Site(tmp_path, {"stream.allow_websocket_origins": ["https://good.example"]}) as strict:
        assert refused(strict, basic("alice"), headers={"Origin": "https://bad.example"})[0] == 403
        with client(strict, basic("alice"), headers={"Origin": "https://good.example"}) as alice:
            assert alice.ask("STOP-SEND-EVENTS") == "STOP-SEND-EVENTS:ACK"


def test_a_connection_ends_with_its_token_unless_a_new_one_comes(site: Site) -> None:
    with client(site, f"Bearer {bearer('alice', -26.0)}") as alice:
        # The server grants half a minute, of which three seconds are left: time enough to come in on a busy machine.
        error = alice.hear()
        assert (error["status"], error["value"]["message"]) == (401, "The token has expired.")
        with pytest.raises(ConnectionClosed) as caught:
            alice.hear()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1008


def test_a_token_of_somebody_else_ends_the_connection(site: Site) -> None:
    with client(site, f"Bearer {bearer('alice')}") as alice:
        assert alice.ask(f"JWT-TOKEN?jwtToken={bearer('bob')}")["status"] == 401
        with pytest.raises(ConnectionClosed):
            alice.hear()


def test_a_new_token_of_the_same_user_is_taken(site: Site) -> None:
    with client(site, f"Bearer {bearer('alice')}") as alice:
        alice.send(f"JWT-TOKEN?jwtToken={bearer('alice', 600)}")
        assert alice.ask("STOP-SEND-EVENTS") == "STOP-SEND-EVENTS:ACK"


# -- the log -----------------------------------------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    """The fields of the only line of this event about carol, whom no other test has; it may still be on its way."""
    deadline = time.monotonic() + LONG
    while not (found := [one for one in caplog.records if one.msg == event and ":carol" in str(one.__dict__)]):
        assert time.monotonic() < deadline, f"no line {event}"
        time.sleep(0.01)
    (record,) = found
    assert record.levelno == logging.INFO
    fields: dict[str, Any] = record.__dict__["fields"]
    return fields


def test_a_socket_is_one_line_when_it_is_opened_and_one_when_it_is_closed(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    user = {"user": "nginx:carol", "address": "127.0.0.1"}
    with caplog.at_level(logging.DEBUG, websocket.__name__):
        with client(site, basic("carol")) as connected:
            assert logged(caplog, "socket opened") == {**user, "listener": "api"}
            assert connected.ask("START-SEND-MESSAGES") == "START-SEND-MESSAGES:ACK"
        expected = {**user, "reason": "the client has disconnected", "received": 1, "sent": 1}
        assert logged(caplog, "socket closed") == expected


def test_the_line_of_a_socket_that_the_server_has_closed_says_why_and_has_no_secret(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = bearer("carol"), bearer("alice")
    with caplog.at_level(logging.DEBUG, websocket.__name__), client(site, f"Bearer {first}") as connected:
        connected.ask(f"JWT-TOKEN?jwtToken={second}")
        assert logged(caplog, "socket closed")["reason"] == reason_told(connected)
    lines = "".join(str(record.__dict__) for record in caplog.records)
    assert "socket opened" in lines
    for secret in (first, second, first.rpartition(".")[2], second.rpartition(".")[2], password_of("carol")):
        assert secret not in lines


def reason_told(connected: Client) -> str:
    """What the client is told of the end."""
    with pytest.raises(ConnectionClosed) as caught:
        connected.link.recv(timeout=LONG)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.reason


def test_a_client_that_is_not_let_in_has_neither_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, websocket.__name__):
        refused(site, basic("alice", "wrong"))
    assert [record for record in caplog.records if record.msg == "socket opened"] == []


# -- frames ------------------------------------------------------------------------------------------------------------


def test_binary_messages_are_ignored_also_in_pieces(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        alice.link.send(b"START-SEND-EVENTS")
        alice.link.send([b"START-", b"SEND-", b"EVENTS"])
        assert alice.ask("STOP-SEND-EVENTS") == "STOP-SEND-EVENTS:ACK"


def test_a_message_may_come_in_pieces(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        alice.link.send(["START-", "", "SEND-", "EVENTS"])
        assert alice.hear() == "START-SEND-EVENTS:ACK"


@pytest.mark.parametrize("compression", ["deflate", None])
def test_a_message_that_is_too_long_ends_the_connection(site: Site, compression: str | None) -> None:
    with client(site, basic("alice"), compression=compression) as alice:
        alice.send("x" * (websocket.MAX_MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosed) as caught:
            alice.hear()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


def test_text_that_is_none_ends_the_connection(site: Site) -> None:
    with client(site, basic("alice"), compression=None) as alice:
        alice.link.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed) as caught:
            alice.hear()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1007


@pytest.mark.parametrize("size", [10, COMPRESSED_BYTES * 3, 90_000])
def test_messages_of_any_size_come_whole_with_and_without_compression(site: Site, size: int) -> None:
    text = "".join(chr(97 + number % 26) for number in range(size))
    for compression in ("deflate", None):
        id = f"ws:size-{size}-{compression}"
        with client(site, basic("alice"), compression=compression) as alice:
            assert alice.ask(command("create", value={"attributes": {"t": text}}, id=id))["status"] == 201
            assert alice.ask(command("retrieve", "/attributes/t", id=id))["value"] == text


def test_long_messages_are_compressed_for_clients_that_offer_it(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        assert alice.link.response is not None
        assert "permessage-deflate" in alice.link.response.headers["Sec-WebSocket-Extensions"]
        received = _bytes_received(site, "deflate"), _bytes_received(site, None)
    assert received[0] < received[1] / 10


def _bytes_received(site: Site, compression: str | None) -> int:
    """By the frames that a long answer takes."""
    id = f"ws:compressed-{compression}"
    with client(site, basic("alice"), compression=compression) as alice:
        assert alice.ask(command("create", value={"attributes": {"t": "x" * 80_000}}, id=id))["status"] == 201
        sizes: list[int] = []
        protocol = alice.link.protocol
        receive = protocol.receive_data

        def count(data: bytes | bytearray) -> None:
            sizes.append(len(data))
            receive(data)

        protocol.receive_data = count  # type: ignore[method-assign]
        assert alice.ask(command("retrieve", id=id))["status"] == 200
        return sum(sizes)


def test_messages_that_are_short_only_while_they_are_compressed_are_all_answered(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        for _ in range(30):
            alice.send("x" * 1_000_000)
        for _ in range(30):
            assert alice.hear()["value"]["error"] == "json.invalid"
        assert alice.ask("STOP-SEND-EVENTS") == "STOP-SEND-EVENTS:ACK"


def test_pings_are_answered(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        assert alice.link.ping().wait(LONG)


def test_a_client_that_answers_no_ping_is_cut_off(tmp_path: Path) -> None:
    with Site(tmp_path, {"limits.idle_timeout_millis": 500}) as hasty, opened(hasty) as link:
        assert read_all(link) == [frames.ServerFrame(True, frames.PING, b"")]


def test_a_client_that_answers_pings_is_kept_although_it_says_nothing(tmp_path: Path) -> None:
    with Site(tmp_path, {"limits.idle_timeout_millis": 500}) as hasty, opened(hasty) as link:
        for _ in range(6):
            assert link.recv(65_536) == b"\x89\x00"
            link.sendall(frames.frame(frames.PONG))
        link.sendall(frames.text("STOP-SEND-EVENTS"))
        assert b"STOP-SEND-EVENTS:ACK" in link.recv(65_536)


def opened(site: Site, behind: bytes = b"") -> socket.socket:
    """A bare connection that has become a socket; `behind` comes with the request."""
    request = (
        f"GET /ws/2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: {basic('alice')}"
        "\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    link = socket.create_connection(("127.0.0.1", site.server.api_port), LONG)
    link.sendall(request.encode() + behind)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = link.recv(1)
        assert data
        head += data
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    return link


def read_all(link: socket.socket) -> list[frames.ServerFrame]:
    received = b""
    try:
        while data := link.recv(65_536):
            received += data
    except ConnectionResetError:
        pass
    return list(frames.server_frames(received))


WORDS = {"close": frames.close(1000), "ping": frames.frame(frames.PING, b"x"), "text": frames.text("x"), "end": None}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_what_a_client_says_after_it_was_sent_away_is_not_answered_or_logged(
    site: Site, word: bytes | None, errors: ErrorLog
) -> None:
    with opened(site) as link:
        link.sendall(frames.text("JWT-TOKEN?jwtToken=x"))
        goodbye = b""
        # The last of the frames, which begin with an answer to the token.
        while not re.search(rb"\x88([\x02-\x7d])\x03", goodbye, re.DOTALL):
            goodbye += link.recv(1)
        for _ in range(goodbye[-2] - 1):
            assert link.recv(1)
        if word is None:
            link.shutdown(socket.SHUT_WR)
        else:
            link.sendall(word + word)
        assert read_all(link) == []


def test_events_that_come_after_a_client_has_closed_its_side_are_dropped(site: Site, errors: ErrorLog) -> None:
    with client(site, basic("alice")) as writer, opened(site) as link:
        link.sendall(frames.text("START-SEND-EVENTS"))
        assert b"START-SEND-EVENTS:ACK" in link.recv(65_536)
        link.sendall(frames.close(1000) + frames.frame(frames.PING, b"x"))
        for number in range(20):
            writer.ask(command("create", value={}, id=f"ws:half-{number}"))
        assert read_all(link)[-1].opcode == frames.CLOSE


# -- histories and events over a real socket ---------------------------------------------------------------------------


def test_a_history_is_streamed_as_it_is_asked_for(site: Site) -> None:
    id = "ws:history"
    with client(site, basic("alice")) as alice:
        alice.ask(command("create", value={"attributes": {"n": 0}}, id=id))
        for number in range(1, 10):
            assert alice.ask(command("modify", "/attributes/n", number, id=id))["status"] == 204
        number = alice.ask(streaming(id, "subscribeForPersistedEvents", {}))["value"]["subscriptionId"]
        alice.request(number, 4, id)
        assert revisions([alice.hear() for _ in range(4)]) == [1, 2, 3, 4]
        alice.request(number, 100, id)
        *items, end = [alice.hear() for _ in range(7)]
        assert revisions(items) == [5, 6, 7, 8, 9, 10]
        assert kind(end) == "complete"


# What a client may get wrong, by the status and code of the answer: an error response, or a subscription that failed.
BAD: dict[str, tuple[Message | str, tuple[int, str]]] = {
    "no JSON": ("{bad", (400, "json.invalid")),
    "unknown topic": ({"topic": "a/b/c", "path": "/"}, (400, "protocoladapter:unknown.topicpath")),
    "wrong type": (streaming("ws:bad", "request", {"subscriptionId": 0, "demand": 1}), (400, "json.invalid")),
    "no id": (streaming("ws:bad", "request", {"demand": 1}), (400, "json.field.missing")),
    "foreign id": (
        streaming("ws:bad", "request", {"subscriptionId": "7", "demand": 1}),
        (404, "streaming.subscription.not.found"),
    ),
    "bad timestamp": (
        streaming("ws:bad", "subscribeForPersistedEvents", {"fromHistoricalTimestamp": "soon"}),
        (400, "json.invalid"),
    ),
    "bad path": (command("modify", "/nowhere", 1, id="ws:bad"), (400, "protocoladapter:unknown.path")),
    "bad control": ("START-SEND-EVENTS?filter=eq(", (400, "rql.expression.invalid")),
}


@pytest.mark.parametrize("name", BAD)
def test_after_bad_input_the_socket_stays_usable(site: Site, name: str) -> None:
    message, expected = BAD[name]
    with client(site, basic("alice")) as alice:
        value = alice.ask(message)["value"]
        error = value.get("error") if isinstance(value.get("error"), dict) else value
        assert (error["status"], error["error"]) == expected
        assert alice.ask(streaming("ws:bad", "subscribeForPersistedEvents", {}))["value"] == {"subscriptionId": "0"}


@pytest.mark.parametrize(
    ("options", "demand", "expected"),
    [
        ({}, 0, (400, "streaming.subscription.protocol.error")),
        ({}, -1, (400, "streaming.subscription.protocol.error")),
        ({}, 1e30, None),
        ({"fromHistoricalRevision": 2, "toHistoricalRevision": 1}, 1, None),
        ({"filter": "eq(attributes/x"}, 1, (400, "rql.expression.invalid")),
    ],
)
def test_after_a_bad_subscription_the_socket_stays_usable(
    site: Site, options: Message, demand: float, expected: tuple[int, str] | None
) -> None:
    id = "ws:wrong"
    site.of("alice").put(f"/things/{id}", json={})
    with client(site, basic("alice")) as alice:
        alice.ask(streaming(id, "subscribeForPersistedEvents", options))
        alice.send(streaming(id, "request", {"subscriptionId": "0", "demand": demand}))
        last = alice.hear()
        while kind(last) == "next":
            last = alice.hear()
        assert (failure([last]) if expected else kind(last)) == (expected or "complete")
        assert alice.ask(command("retrieve", id=id))["status"] == 200


def test_changes_over_http_are_events_on_the_socket(site: Site) -> None:
    with client(site, basic("alice")) as alice:
        alice.ask("START-SEND-EVENTS?namespaces=ws.live")
        http = site.of("alice")
        assert http.put("/things/ws.live:x", json={"attributes": {"a": 1}}).status_code == 201
        assert http.put("/things/ws.live:x/attributes/a", json=2).status_code == 204
        events = [alice.hear(), alice.hear()]
        assert kinds(events) == ["created", "modified"]
        assert events[1]["value"] == 2


def test_an_item_s_history_is_streamed_like_a_thing_s(site: Site) -> None:
    site.feed('{"item":"boiler","fields":{"t":"20"}}\n{"item":"boiler","fields":{"t":"21"}}\n')
    id = "SITE.SENSORS:boiler"
    with client(site, basic("alice")) as alice, client(site, basic("bob")) as bob:
        for each, expected in ((alice, ["next", "next", "complete"]), (bob, ["failed"])):
            number = each.ask(streaming(id, "subscribeForPersistedEvents", {}))["value"]["subscriptionId"]
            each.request(number, 9, id)
            answers = [each.hear() for _ in expected]
            assert kinds(answers) == expected


def test_an_item_s_updates_are_events_for_those_who_name_its_namespace_and_may_see_it(site: Site) -> None:
    with client(site, basic("alice")) as alice, client(site, basic("bob")) as bob:
        for each in (alice, bob):
            assert each.ask("START-SEND-EVENTS?namespaces=SITE.SENSORS") == "START-SEND-EVENTS:ACK"
        site.feed('{"item":"pump","fields":{"t":"1"}}\n{"item":"public","fields":{"t":"2"}}\n')
        heard = sorted([alice.hear(), alice.hear()], key=lambda event: str(event["topic"]))
        assert [event["topic"] for event in heard] == [
            "SITE.SENSORS/public/things/twin/events/created",
            "SITE.SENSORS/pump/things/twin/events/created",
        ]
        assert heard[1]["value"] == {"thingId": "SITE.SENSORS:pump", "attributes": {"t": "1"}}
        assert bob.hear()["topic"] == "SITE.SENSORS/public/things/twin/events/created"


def test_a_client_that_does_not_read_is_not_sent_more_and_holds_up_nobody(site: Site) -> None:
    id = "ws:slow"
    text = "x" * 50_000
    with client(site, basic("alice")) as alice:
        alice.ask(command("create", value={"attributes": {"t": text}}, id=id))
        for _ in range(200):
            assert alice.ask(command("modify", "/attributes/t", text, id=id))["status"] == 204
    # A client of this library reads no more than it has room for: here, one message.
    options: dict[str, Any] = {"compression": None, "max_queue": 1}
    with client(site, basic("alice"), **options) as slow, client(site, basic("alice")) as other:
        numbers = [slow.ask(streaming(id, "subscribeForPersistedEvents", {}))["value"]["subscriptionId"] for _ in "ab"]
        for number in numbers:
            slow.request(number, 2**62, id)
        assert 0 < waiting(site) <= websocket.HIGH_WATER + 2 * SOME_BYTES
        assert other.ask("START-SEND-EVENTS") == "START-SEND-EVENTS:ACK"
        heard = [slow.hear() for _ in range(2 * 202)]
        for number in numbers:
            own = [message for message in heard if message["value"]["subscriptionId"] == number]
            assert revisions(own[:-1]) == list(range(1, 202))
            assert kind(own[-1]) == "complete"


def test_a_client_that_reads_live_events_too_slowly_is_told_how_many_it_has_lost(site: Site) -> None:
    http, path = site.of("alice"), "/things/ws.lossy:x"
    assert site.server.ditto is not None
    losses = site.server.ditto.service.losses
    before = losses.events
    with client(site, basic("alice"), compression=None, max_queue=1) as slow:
        slow.ask("START-SEND-EVENTS?namespaces=ws.lossy")
        assert http.put(path, json={}).status_code == 201
        sent = 1
        while losses.events < before + 5:
            assert http.put(f"{path}/attributes/t", json="x" * 90_000).status_code in (201, 204)
            sent += 1
        heard: list[Any] = []
        while not heard or "revision" in heard[-1]:
            heard.append(slow.hear())
        *events, complaint = heard
        assert [event["revision"] for event in events] == list(range(1, sent - 4))
        assert (complaint["status"], complaint["value"]["error"]) == (429, "too.many.requests")
        assert complaint["value"]["message"].startswith("5 events were lost here")
        assert http.put(f"{path}/attributes/t", json="y").status_code == 204
        assert slow.hear()["revision"] == sent + 1


def test_a_client_that_never_reads_is_cut_off(tmp_path: Path) -> None:
    with Site(tmp_path, {"limits.write_timeout_millis": 200}) as site:
        check_that_it_is_cut_off(site)


def check_that_it_is_cut_off(site: Site) -> None:
    id = "ws:stuck"
    with client(site, basic("alice")) as alice:
        alice.ask(command("create", value={"attributes": {"t": "x" * 90_000}}, id=id))
        for _ in range(80):
            assert alice.ask(command("modify", "/attributes/t", "y" * 90_000, id=id))["status"] == 204
    # Its library would wait ten seconds for the answer to its farewell, which it cannot read.
    with client(site, basic("alice"), compression=None, max_queue=1, close_timeout=0.1) as stuck:
        number = stuck.ask(streaming(id, "subscribeForPersistedEvents", {}))["value"]["subscriptionId"]
        stuck.request(number, 2**62, id)
        assert waiting(site) > websocket.HIGH_WATER
        deadline = time.monotonic() + LONG
        while site.call(_unsent, site):
            assert time.monotonic() < deadline, "it was never cut off"


def waiting(site: Site) -> int:
    """Bytes that wait to be sent on all sockets, once one of them takes no more."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        sizes = site.call(_unsent, site)
        if any(size > websocket.HIGH_WATER for size in sizes):
            # Whatever was going to come on top of it has had its turn.
            return max(site.call(_unsent, site))
    raise AssertionError("no socket was ever full")


def _unsent(site: Site) -> list[int]:
    assert site.server.ditto is not None
    return [each.transport.get_write_buffer_size() for each in site.server.ditto._sockets.open]


def test_the_server_closes_its_sockets_when_it_stops(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        context = client(site, basic("alice"))
        alice = context.__enter__()
        assert alice.ask("STOP-SEND-EVENTS") == "STOP-SEND-EVENTS:ACK"
    with pytest.raises(ConnectionClosed) as caught:
        alice.hear()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1012
    context.__exit__(None, None, None)
