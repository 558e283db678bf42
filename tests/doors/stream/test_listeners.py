"""Listeners with names of their own: where they are, what is served there, and what is refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.config import load
from penstock.server import Server
from penstock.services.errors import StartError
from tests.support.background import BackgroundServer
from tests.support.raw import CID, Exchange, params
from tests.support.tls import CERTIFICATES, trusting_context

LISTENERS = f"""
[server]
name = "Main"

[listeners.public]
port = 0
server_name = "Public entrance"
control_link_address = "node7.example.com:8080"

[listeners.secure]
port = 0
[listeners.secure.tls]
certificate = "{CERTIFICATES}/certificate.pem"
private_key = "{CERTIFICATES}/private_key.pem"

[listeners.control]
port = 0
new_sessions = false

[listeners.old]
port = 0
doors = ["text6"]

[listeners.new]
port = 0
doors = ["tlcp"]
paths = ["/lightstreamer"]

[listeners.probes]
serves = "api"
port = 0
paths = ["/health"]
"""
TEXT6 = f"LS_op2=create&LS_cid={CID}&LS_adapter_set=TEST&LS_polling=true"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BackgroundServer]:
    file = tmp_path / "penstock.toml"
    file.write_text(LISTENERS)
    with BackgroundServer({}, file) as running:
        yield running


def at(server: BackgroundServer, listener: str) -> Exchange:
    return Exchange(server.host, server.port_of(listener), trusting_context() if listener == "secure" else None)


def status(exchange: Exchange, path: str) -> int:
    with exchange.http() as http:
        http.get(path)
        return http.read_head()


def text6(exchange: Exchange) -> tuple[int, dict[str, str], bytes]:
    with exchange.http() as http:
        http.post("create_session", TEXT6, query="")
        http.read_head()
        return http.status, http.headers, http.read_body()


def test_every_listener_is_listed_with_its_name_and_where_it_is(server: BackgroundServer) -> None:
    found = server.call(server.server.listeners)
    assert [(each.name, each.tls) for each in found] == [
        ("stream", False),
        ("public", False),
        ("secure", True),
        ("control", False),
        ("old", False),
        ("new", False),
        ("api", False),
        ("probes", False),
    ]
    assert len({each.port for each in found} - {0}) == len(found)
    line = server.call(server.server.ready_line)
    assert line.startswith(f"penstock: ready  stream=http://127.0.0.1:{server.port}  api=http://127.0.0.1:")
    assert f"  public=http://127.0.0.1:{server.port_of('public')}" in line
    assert f"  secure=https://127.0.0.1:{server.port_of('secure')}" in line


@pytest.mark.parametrize("listener", ["stream", "public", "secure", "new"])
def test_sessions_are_opened_at_every_listener_and_adapters_are_told_by_which(
    server: BackgroundServer, listener: str
) -> None:
    with at(server, listener).stream() as stream:
        assert stream.head[0].startswith("CONOK,")
    assert [(client.listener, client.secure) for client in server.metadata.clients] == [
        (listener, listener == "secure")
    ]


def test_each_listener_announces_its_name_and_a_rebind_elsewhere_the_other(server: BackgroundServer) -> None:
    with at(server, "stream").stream() as stream:
        assert "SERVNAME,Main" in stream.head
        with at(server, "public").http() as http:
            http.post("bind_session", params(session=stream.session))
            http.read_head()
            assert "SERVNAME,Public entrance" in http.read_until("CONS")
        with at(server, "public").http() as http:
            http.post("bind_session", params(session=stream.session))
            http.read_head()
            assert not [line for line in http.read_until("CONS") if line.startswith("SERVNAME")]


def test_each_listener_announces_its_control_link(server: BackgroundServer) -> None:
    with at(server, "stream").stream() as stream, at(server, "public").stream() as public:
        assert stream.head[0].split(",")[4] == "*"
        assert public.head[0].split(",")[4] == "node7.example.com:8080"


def test_a_listener_without_new_sessions_refuses_them_with_70_and_serves_the_others(server: BackgroundServer) -> None:
    control = at(server, "control")
    with control.stream() as stream:
        assert stream.head == ["CONERR,70,Sessions cannot be opened at this port"]
    with control.socket() as found:
        assert found.create() == ["CONERR,70,Sessions cannot be opened at this port"]
    with at(server, "stream").stream() as stream:
        added = control.control(stream.session, reqId=1, op="add", subId=1, group="i", schema="f", mode="MERGE")
        assert added == ["REQOK,1"]
        with control.http() as http:
            http.post("bind_session", params(session=stream.session))
            http.read_head()
            assert http.read_line().startswith("CONOK,")
    assert len(server.metadata.clients) == 1


def test_the_text_protocol_has_no_number_for_that(server: BackgroundServer) -> None:
    status, _, body = text6(at(server, "control"))
    assert (status, body) == (500, b"Sessions cannot be opened at this port\n")
    assert server.metadata.clients == []


def test_a_listener_without_tlcp_refuses_its_clients_with_71(server: BackgroundServer) -> None:
    old = at(server, "old")
    refusal = "CONERR,71,TLCP clients are not served at this port"
    with old.stream() as stream:
        assert stream.head == [refusal]
    with old.socket() as found:
        found.send("wsok")
        assert found.read_line() == "WSOK"
        assert found.create() == [refusal]
    with at(server, "stream").stream() as stream:
        assert old.request("bind_session", params(session=stream.session)) == [refusal]
        refused = old.control(stream.session, reqId=7, op="constrain", requested_max_bandwidth=5)
        assert refused == ["REQERR,7,65,LS_protocol: TLCP is not served at this port"]
        assert old.request("heartbeat", params(session=stream.session)) == [
            "ERROR,65,LS_protocol: TLCP is not served at this port"
        ]
    assert text6(old)[2].startswith(b"OK\r\n")


def test_a_listener_without_the_text_protocol_answers_it_with_a_page(server: BackgroundServer) -> None:
    status, headers, body = text6(at(server, "new"))
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"<p>The text protocol is not served at this port." in body
    assert server.metadata.clients == []


def test_only_the_paths_of_a_listener_are_served(server: BackgroundServer) -> None:
    assert status(at(server, "stream"), "/health") == 200
    assert status(at(server, "new"), "/health") == 404
    assert status(at(server, "new"), "/") == 404
    assert status(at(server, "new"), "/x/lightstreamer/control.txt") == 404
    assert status(at(server, "probes"), "/health") == 200
    assert status(at(server, "probes"), "/healthy") == 404
    assert status(at(server, "api"), "/openapi.json") == 200
    for path in ("/openapi.json", "/health/../openapi.json", "/%68ealth/..%2fopenapi.json", "//openapi.json"):
        assert status(at(server, "probes"), path) == 404


def test_a_listener_that_cannot_be_opened_stops_the_start_and_leaves_nothing_open(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"

    async def main(serves: str, port: int, free: int) -> None:
        file.write_text(f'listeners.more = {{ port = {port}, serves = "{serves}" }}\n')
        settings = {"stream.port": free if serves == "stream" else 0, "api.port": free if serves == "api" else 0}
        server = Server(load(file, {**settings, "log.level": "error", "demo.enabled": False}).config, [])
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}"):
            await server.start()
        socket.create_server(("127.0.0.1", free)).close()

    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        with closing(socket.create_server(("127.0.0.1", 0))) as other:
            free = other.getsockname()[1]
        for serves in ("stream", "api"):
            asyncio.run(main(serves, taken.getsockname()[1], free))
