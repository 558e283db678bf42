from __future__ import annotations

import asyncio
import contextlib
import gzip

import pytest
from websockets.exceptions import ConnectionClosed

from tests.conformance.phrases import HEAD, add, answer, batch, close_code, create, upgrade
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

QUERY = "LS_protocol=TLCP-2.4.0"
SHORT = {"limits.request_limit": 1000}


@pytest.mark.conformance("limit.request.http")
@pytest.mark.config(SHORT)
def test_a_request_longer_than_announced_is_413(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(polling=True).ljust(1000, "x"))
        assert tags(answer(http)) == [*HEAD, "LOOP"]
        http.post("create_session", "x" * 1001)
        assert http.read_head() == 413
        assert "1000" in http.read_body().decode()
        assert http.is_closed()


@pytest.mark.conformance("limit.request.chunked")
@pytest.mark.config(SHORT)
def test_a_chunked_request_longer_than_announced_is_413(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.send(f"POST /lightstreamer/msg.txt?{QUERY} HTTP/1.1\r\nHost: h\r\n".encode())
        http.send(b"Transfer-Encoding: chunked\r\n\r\n" + b"258\r\n" + b"x" * 600 + b"\r\n258\r\n" + b"x" * 600)
        assert http.read_head() == 413
        assert "1000" in http.read_body().decode()
        assert http.is_closed()


@pytest.mark.conformance("limit.request.compressed")
@pytest.mark.config(SHORT)
def test_a_compressed_request_longer_than_announced_is_refused_before_it_is_unpacked(exchange: Exchange) -> None:
    with exchange.http() as http:
        body = gzip.compress(b"x" * 10_000)
        assert len(body) < 1000
        http.post("create_session", body, headers={"Content-Encoding": "gzip"})
        (line,) = answer(http)
        assert line.startswith("CONERR,67,Request longer than 1000 bytes")


@pytest.mark.conformance("limit.request.ws")
@pytest.mark.config(SHORT)
def test_a_message_longer_than_announced_closes_the_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.connection.send("wsok".ljust(1000))
        assert socket.read_line().startswith("ERROR,67,")
        socket.connection.send("wsok".ljust(1001))
        assert close_code(socket) == 1009


@pytest.mark.conformance("limit.request.ws-fragments")
@pytest.mark.config(SHORT)
def test_a_message_in_frames_longer_than_announced_in_all_closes_the_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        # The server may close before the last frame is out.
        with contextlib.suppress(ConnectionClosed):
            socket.connection.send(iter(["x" * 600, "x" * 600]))
        assert close_code(socket) == 1009


@pytest.mark.conformance("limit.header")
@pytest.mark.config({"limits.header_limit": 1024})
def test_a_request_head_longer_than_configured_is_431(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("heartbeat", headers={"X-Filler": "x" * 1100})
        assert http.read_head() == 431
        assert "1024" in http.read_body().decode()
        assert http.is_closed()
    with exchange.http() as http:
        http.send(b"GET /lightstreamer/" + b"x" * 1100)
        assert http.read_head() == 431


@pytest.mark.conformance("limit.read-time-out")
@pytest.mark.config({"limits.read_timeout_millis": 60, "limits.idle_timeout_millis": 20_000})
def test_a_request_that_does_not_get_complete_is_408(exchange: Exchange) -> None:
    with exchange.http() as body, exchange.http() as head:
        body.post("heartbeat", "LS_", headers={"Content-Length": "10"})
        head.send(b"POST /lightstreamer/")
        for http in (body, head):
            assert http.read_head() == 408
            assert "60 ms" in http.read_body().decode()
            assert http.is_closed()


@pytest.mark.conformance("limit.idle-time-out.http")
@pytest.mark.config({"limits.idle_timeout_millis": 200, "limits.read_timeout_millis": 20_000})
def test_an_http_connection_without_request_is_closed_and_one_that_streams_is_not(exchange: Exchange) -> None:
    with exchange.stream(keepalive_millis=1000) as stream, exchange.http() as used, exchange.http() as unused:
        used.post("heartbeat")
        assert answer(used) == ["REQOK"]
        assert used.is_closed()
        assert unused.is_closed()
        assert stream.read_line() == "PROBE"


@pytest.mark.conformance("limit.idle-time-out.ws")
@pytest.mark.config({"limits.idle_timeout_millis": 200})
def test_a_websocket_without_session_is_closed_and_one_that_streams_is_not(exchange: Exchange) -> None:
    with exchange.socket() as idle, exchange.socket() as streaming:
        streaming.create(keepalive_millis=1000)
        assert close_code(idle) == 1008
        assert streaming.read_line() == "PROBE"


@pytest.mark.conformance("limit.connections")
@pytest.mark.config({"limits.connections_per_address": 2})
def test_more_connections_of_one_address_than_configured_are_503(exchange: Exchange) -> None:
    with exchange.http() as first, exchange.socket() as second:
        first.post("heartbeat")
        assert answer(first) == ["REQOK"]
        second.send("wsok")
        assert second.read_line() == "WSOK"
        with exchange.http() as third:
            assert third.read_head() == 503
            assert "at most 2" in third.read_body().decode()
            assert third.is_closed()
        first.post("heartbeat", headers={"Connection": "close"})
        assert answer(first) == ["REQOK"]
    status = 503
    while status == 503:  # Until the server has noticed that the two are gone.
        with exchange.http() as again:
            again.get("/health")
            status = again.read_head()
    assert status == 200


@pytest.mark.conformance("limit.unanswered.ws")
@pytest.mark.config({"limits.max_unanswered_requests": 3})
def test_more_unanswered_requests_of_a_websocket_than_configured_wait_to_be_read(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = server.call(asyncio.Event)

    async def authenticate(*_: object) -> None:
        await gate.wait()

    monkeypatch.setattr(server.metadata, "authenticate", authenticate)
    with exchange.socket() as socket:
        socket.send("create_session", create(reduce_head=True))
        for number in range(1, 51):
            socket.send("control", params(reqId=number, op="constrain"))
        server.call(gate.set)
        assert socket.read_line().startswith("CONOK,")
        assert [socket.read_line() for _ in range(50)] == [f"REQOK,{number}" for number in range(1, 51)]


@pytest.mark.conformance("limit.messages")
@pytest.mark.config({"limits.max_pending_messages": 3})
def test_more_messages_without_an_outcome_than_configured_wait_to_be_taken_in(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = server.call(asyncio.Event)

    async def message(*_: object) -> None:
        await gate.wait()

    monkeypatch.setattr(server.metadata, "message", message)
    with exchange.socket() as socket:
        socket.create()
        for number in range(1, 11):
            socket.send("msg", params(reqId=number, message="m", msg_prog=number))
        assert [socket.read_line() for _ in range(3)] == ["REQOK,1", "REQOK,2", "REQOK,3"]
        # The fourth waits for its place; what is no message does not.
        socket.send("wsok")
        assert socket.read_line() == "WSOK"
        server.call(gate.set)
        lines = [socket.read_line() for _ in range(17)]
        assert [line for line in lines if line.startswith("REQ")] == [f"REQOK,{number}" for number in range(4, 11)]


@pytest.mark.conformance("limit.unanswered.http")
@pytest.mark.config({"limits.max_unanswered_requests": 3})
def test_more_unanswered_requests_of_an_http_connection_than_configured_wait_to_be_read(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        for number in range(50):
            http.post("control", params(session=stream.session, reqId=number, op="constrain"))
        assert [answer(http) for _ in range(50)] == [[f"REQOK,{number}"] for number in range(50)]


@pytest.mark.conformance("limit.subscriptions")
@pytest.mark.config({"limits.max_subscriptions_per_session": 2})
def test_more_subscriptions_of_a_session_than_configured_are_refused(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(1), add(2)) == ["REQOK,1", "REQOK,2"]
        (line,) = batch(exchange, stream.session, add(3, group="b"))
        assert line.startswith("REQERR,3,65,LS_subId: The session has reached 2 subscriptions")
        assert server.adapter.subscribed == {"a"}


@pytest.mark.conformance("limit.items")
@pytest.mark.config({"limits.max_items_per_subscription": 2})
def test_more_items_of_a_subscription_than_configured_are_refused(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, add(1, group="a b c"))
        assert line.startswith("REQERR,1,21,LS_group: More than 2 items")
        assert server.adapter.subscribed == set()


@pytest.mark.conformance("ws.origin")
@pytest.mark.config({"stream.allow_websocket_origins": ("https://page.example.com",)})
def test_a_websocket_of_an_origin_that_is_not_allowed_is_403(exchange: Exchange) -> None:
    for origin, status in (("https://evil.example.com", 403), ("https://page.example.com", 101)):
        with exchange.http() as http:
            http.get("/lightstreamer", headers=upgrade("TLCP-2.4.0.lightstreamer.com", Origin=origin))
            assert http.read_head() == status
            if status == 403:
                assert origin in http.read_body().decode()
