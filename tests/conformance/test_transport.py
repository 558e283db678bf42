from __future__ import annotations

import asyncio
import ssl
import warnings

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.conformance.phrases import HEAD, add, answer, batch, create, row
from tests.support.background import BackgroundServer
from tests.support.raw import TIMEOUT, Exchange, Http, Stream, params, tags
from tests.support.tls import TLS, trusting_context

QUERY = "LS_protocol=TLCP-2.4.0"
# -- HTTP/1.x ----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("http.1.0")
def test_an_http_1_0_stream_is_not_chunked_and_ends_with_its_connection(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream(version="1.0") as stream:
        assert "transfer-encoding" not in stream.http.headers
        assert stream.http.headers["connection"] == "close"
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        server.update("a", x="1")
        assert stream.read_line() == "U,1,1,1"
        exchange.control(stream.session, reqId=2, op="force_rebind")
        assert stream.http.read_body() == b"LOOP,0\r\n"


@pytest.mark.conformance("http.1.0.close")
def test_an_http_1_0_connection_is_closed_after_its_answer(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("heartbeat", version="1.0")
        assert answer(http) == ["REQOK"]
        assert http.headers["connection"] == "close"
        assert http.is_closed()


@pytest.mark.conformance("http.1.0.keep-alive")
def test_an_http_1_0_connection_is_kept_on_request(exchange: Exchange) -> None:
    with exchange.http() as http:
        for _ in range(3):
            http.post("heartbeat", version="1.0", headers={"Connection": "keep-alive"})
            assert answer(http) == ["REQOK"]
            assert http.headers["connection"] == "keep-alive"


@pytest.mark.conformance("http.1.1.keep-alive")
def test_an_http_1_1_connection_is_kept_until_told_otherwise(exchange: Exchange) -> None:
    with exchange.http() as http:
        for _ in range(3):
            http.post("heartbeat")
            assert answer(http) == ["REQOK"]
            assert http.headers.get("connection") != "close"
        http.post("heartbeat", headers={"Connection": "close"})
        assert answer(http) == ["REQOK"]
        assert http.headers["connection"] == "close"
        assert http.is_closed()


@pytest.mark.conformance("http.1.1.stream-close")
def test_a_stream_asked_to_close_its_connection_does_so_after_loop(exchange: Exchange) -> None:
    http = exchange.http()
    http.post("create_session", create(), headers={"Connection": "close"})
    http.read_head()
    with Stream(http, http.read_until("CONS")) as stream:
        assert http.headers["connection"] == "close"
        exchange.control(stream.session, reqId=1, op="force_rebind")
        assert http.read_body() == b"LOOP,0\r\n"
        assert http.is_closed()


@pytest.mark.conformance("http.pipelining")
def test_pipelined_requests_are_answered_in_their_order(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        requests = b""
        for number in range(20):
            body = params(session=stream.session, reqId=number, op="constrain").encode()
            head = f"POST /lightstreamer/control.txt?{QUERY} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
            requests += head.encode() + body
        http.send(requests)
        assert [answer(http) for _ in range(20)] == [[f"REQOK,{number}"] for number in range(20)]


@pytest.mark.conformance("http.pipelining.slow")
def test_a_quick_answer_does_not_overtake_a_slow_one(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(user="slow", ttl_millis=40))
        http.post("heartbeat")
        assert answer(http)[0].startswith("CONERR,5,")
        assert answer(http) == ["REQOK"]


@pytest.mark.conformance("http.pipelining.stream")
def test_a_request_behind_a_stream_waits_for_its_end(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        stream.http.post("heartbeat")
        exchange.control(stream.session, reqId=1, op="force_rebind")
        assert stream.http.read_body() == b"LOOP,0\r\n"
        assert answer(stream.http) == ["REQOK"]


@pytest.mark.conformance("http.expect-continue")
def test_a_client_that_waits_for_a_go_ahead_gets_it(exchange: Exchange) -> None:
    body = create(polling=True)
    with exchange.http() as http:
        http.post("create_session", b"", headers={"Expect": "100-continue", "Content-Length": str(len(body))})
        assert http.read_head() == 100
        http.send(body.encode())
        assert tags(answer(http)) == [*HEAD, "LOOP"]


@pytest.mark.conformance("http.expect-continue.pipelined")
def test_a_go_ahead_comes_after_the_answers_to_earlier_requests(exchange: Exchange) -> None:
    body = create(polling=True)
    headers = {"Expect": "100-continue", "Content-Length": str(len(body))}
    with exchange.http() as http:
        http.post("create_session", create(user="slow", ttl_millis=40))
        http.post("create_session", b"", headers=headers)
        assert answer(http)[0].startswith("CONERR,5,")
        assert http.read_head() == 100
        http.send(body.encode())
        assert tags(answer(http)) == [*HEAD, "LOOP"]


@pytest.mark.conformance("http.head")
def test_head_is_answered_like_get_without_a_body(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.get("/health")
        http.read_head()
        length = http.headers["content-length"]
        assert len(http.read_body()) == int(length)
        http.get("/health", method="HEAD")
        assert http.read_head() == 200
        assert http.headers["content-length"] == length
        http.post("heartbeat")
        assert answer(http) == ["REQOK"]


@pytest.mark.conformance("http.host")
def test_an_http_1_1_request_without_host_is_400(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.send(f"GET /lightstreamer/heartbeat.txt?{QUERY} HTTP/1.1\r\n\r\n".encode())
        assert http.read_head() == 400
        assert "Host" in http.read_body().decode()


@pytest.mark.conformance("http.malformed")
def test_bytes_that_are_no_http_request_are_400(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert http.read_head() == 400
        assert http.is_closed()


@pytest.mark.conformance("http.half-close")
def test_a_client_that_has_said_all_still_gets_its_answer(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(user="slow", ttl_millis=40))
        http.socket.shutdown(1)
        assert answer(http)[0].startswith("CONERR,5,")


@pytest.mark.conformance("ws.handshake")
def test_a_handshake_that_is_not_complete_is_refused(exchange: Exchange) -> None:
    complete = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "TLCP-2.4.0.lightstreamer.com",
    }
    for name, value in (("Sec-WebSocket-Key", "short"), ("Sec-WebSocket-Version", "12")):
        with exchange.http() as http:
            http.get("/lightstreamer", headers={**complete, name: value})
            assert http.read_head() in (400, 426)
    with exchange.http() as http:
        http.get("/elsewhere", headers=complete)
        assert http.read_head() == 404


@pytest.mark.conformance("ws.no-extensions")
def test_no_websocket_extension_is_negotiated(exchange: Exchange) -> None:
    with exchange.http() as http:
        headers = {
            "Connection": "keep-alive, Upgrade",
            "Upgrade": "WebSocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Protocol": "TLCP-2.4.0.lightstreamer.com",
            "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
        }
        http.get("/lightstreamer", headers=headers)
        assert http.read_head() == 101
        assert http.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert "sec-websocket-extensions" not in http.headers


@pytest.mark.conformance("ws.ping")
def test_a_ping_is_answered(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        assert socket.connection.ping("hello").wait(TIMEOUT)


# -- TLS ---------------------------------------------------------------------------------------------------------------


def client_context(lowest: ssl.TLSVersion, highest: ssl.TLSVersion) -> ssl.SSLContext:
    context = trusting_context()
    # The old versions must really be offered for their refusal to mean something.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = lowest
        context.maximum_version = highest
    return context


@pytest.mark.parametrize(
    ("version", "name"),
    [
        row("tls.1.2", ssl.TLSVersion.TLSv1_2, "TLSv1.2", config=TLS),
        row("tls.1.3", ssl.TLSVersion.TLSv1_3, "TLSv1.3", config=TLS),
    ],
)
def test_http_and_websocket_are_served_over_tls(server: BackgroundServer, version: ssl.TLSVersion, name: str) -> None:
    context = client_context(version, version)
    with Http(server.host, server.tls_port, context) as http:
        assert isinstance(http.socket, ssl.SSLSocket)
        assert http.socket.version() == name
        http.post("create_session", create(polling=True))
        assert tags(answer(http)) == [*HEAD, "LOOP"]
        http.post("create_session", create())
        http.read_head()
        assert tags(http.read_until("CONS")) == HEAD
    asyncio.run(_session_over_websocket(f"wss://localhost:{server.tls_port}/lightstreamer", context))
    assert all(client.secure for client in server.metadata.clients)


async def _session_over_websocket(url: str, context: ssl.SSLContext) -> None:
    """By the client for asyncio, because the other one reads and writes in two threads: with TLS 1.3 and on busy
    machines it waited for ever now and then. Of thousands of connections by one thread, none did.
    """
    subprotocols = [Subprotocol("TLCP-2.4.0.lightstreamer.com")]
    async with connect(url, ssl=context, subprotocols=subprotocols, compression=None, proxy=None) as socket:
        await socket.send("wsok")
        assert await socket.recv() == "WSOK\r\n"
        await socket.send(f"create_session\r\n{create()}")
        assert str(await socket.recv()).startswith("CONOK,")


@pytest.mark.conformance("tls.1.1")
@pytest.mark.config(TLS)
def test_tls_1_1_is_refused(server: BackgroundServer) -> None:
    context = client_context(ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError) as refused:
        Http(server.host, server.tls_port, context)
    # By an alert or by closing; a client that could not offer the version itself would fail for another reason.
    assert refused.value.reason in ("TLSV1_ALERT_PROTOCOL_VERSION", "UNEXPECTED_EOF_WHILE_READING")


@pytest.mark.conformance("tls.handshake-time-out")
@pytest.mark.config({**TLS, "limits.handshake_timeout_millis": 60})
def test_a_handshake_that_does_not_get_complete_is_cut_off(server: BackgroundServer) -> None:
    with Http(server.host, server.tls_port) as http:
        assert http.is_closed()
