"""The requests of the vendor's load test toolkit (4.1.0), byte by byte: it is in no package registry.

It speaks TLCP 2.0, creates every session by a poll over HTTP and streams over HTTP or WebSocket. Some of its lines end
in CR-LF, one of them in "&" and CR-LF.
"""

from __future__ import annotations

import pytest

from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Http, tags

pytestmark = pytest.mark.interop

PROTOCOL = "TLCP-2.0.0"
HEADERS = {"User-Agent": "Lightstreamer-client-simulator", "Content-Type": "text/plain; charset=UTF-8"}
CREATION = (
    "LS_polling=true&LS_cause=new.api&LS_polling_millis=0&LS_idle_millis=0&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg"
    "&LS_adapter_set=TEST&LS_user=user1&LS_password=pass1\r\n"
)
SUBSCRIPTION = (
    "LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE&LS_group=i1&LS_schema=x&LS_data_adapter=HAND&LS_snapshot=true"
    "&LS_session="
)
MESSAGE = "LS_reqId=2&LS_message=ping&LS_outcome=false&LS_ack=false&LS_session="


@pytest.fixture
def exchange(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.port)


def post(http: Http, name: str, body: str) -> None:
    http.post(name, body, f"LS_protocol={PROTOCOL}", headers=HEADERS)
    assert http.read_head() == 200


def created(exchange: Exchange) -> str:
    with exchange.http() as http:
        post(http, "create_session", CREATION)
        lines = http.read_body().decode().split("\r\n")[:-1]
    assert tags(lines) == ["CONOK", "SERVNAME", "CLIENTIP", "CONS", "LOOP"]
    return lines[0].split(",")[1]


def test_the_toolkit_streams_over_http(server: BackgroundServer, exchange: Exchange) -> None:
    session = created(exchange)
    server.adapter.state["i1"] = {"x": "first"}
    with exchange.http() as stream, exchange.http() as control:
        post(stream, "bind_session", f"LS_cause=loop1&LS_session={session}&\r\n")
        assert tags(stream.read_until("CONS")) == ["CONOK", "CONS"]
        post(control, "control", SUBSCRIPTION + session)
        assert control.read_body() == b"REQOK,1\r\n"
        assert stream.read_until("U") == ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,first"]
        post(control, "msg", MESSAGE + session)
        assert control.read_body() == b"REQOK,2\r\n"
        server.update("i1", x="second")
        assert stream.read_until("U")[-1] == "U,1,1,second"
        assert server.metadata.messages == ["ping"]


def test_the_toolkit_streams_over_a_websocket(server: BackgroundServer, exchange: Exchange) -> None:
    session = created(exchange)
    server.adapter.state["i1"] = {"x": "first"}
    with exchange.socket(f"{PROTOCOL}.lightstreamer.com") as socket:
        socket.connection.send(f"bind_session\r\nLS_cause=loop1&LS_session={session}")
        assert tags(socket.read_until("CONS")) == ["CONOK", "CONS"]
        socket.connection.send("control\r\n" + SUBSCRIPTION + session)
        assert socket.read_until("U") == ["REQOK,1", "SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,first"]
        socket.connection.send("msg\r\n" + MESSAGE + session)
        server.update("i1", x="second")
        assert socket.read_until("U") == ["U,1,1,second"]
        assert server.metadata.messages == ["ping"]
