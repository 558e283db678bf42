"""Requests through proxies: the client is the one that a configured proxy names, and nobody else is believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.background import BackgroundServer
from tests.support.proxy import version_1
from tests.support.raw import CID, PROTOCOL, Exchange, Http, Socket, Stream, params

CLIENT, OTHER = "198.51.100.7", "198.51.100.8"
PROXIES = '["127.0.0.1", "10.0.0.0/8"]'
LISTENERS = f"""
[listeners.standard]
port = 0
proxies = {{ addresses = {PROXIES}, client_header = "Forwarded" }}

[listeners.real-ip]
port = 0
proxies = {{ addresses = {PROXIES}, client_header = "X-Real-IP" }}

[listeners.strangers]
port = 0
proxies = {{ addresses = ["192.0.2.1"], client_header = "X-Forwarded-For" }}

[listeners.both]
port = 0
proxies = {{ addresses = {PROXIES}, client_header = "X-Forwarded-For", proxy_protocol = true }}

[listeners.plain]
port = 0

[listeners.api-behind]
port = 0
serves = "api"
proxies = {{ addresses = {PROXIES}, client_header = "X-Forwarded-For" }}
"""


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackgroundServer]:
    file = tmp_path / "penstock.toml"
    file.write_text(LISTENERS)
    marker = request.node.get_closest_marker("config")
    settings: dict[str, object] = {
        "stream.proxies.addresses": ["127.0.0.1", "10.0.0.0/8"],
        "stream.proxies.client_header": "X-Forwarded-For",
        **(marker.args[0] if marker else {}),
    }
    with BackgroundServer(settings, file) as running:
        yield running


def create(http: Http, headers: Mapping[str, str]) -> Stream:
    """A session over a connection of a proxy."""
    http.post("create_session", f"{params(adapter_set='TEST')}&LS_cid={CID}", headers=headers)
    http.read_head()
    return Stream(http, http.read_until("CONS", "CONERR"))


def seen(server: BackgroundServer, listener: str, headers: Mapping[str, str]) -> tuple[str, int]:
    """Address and port of the client that the metadata adapter is told; CLIENTIP must say the same."""
    with create(Http(server.host, server.port_of(listener)), headers) as stream:
        client = server.metadata.clients[-1]
        assert f"CLIENTIP,{client.address}" in stream.head
        assert server.call(server.server.kernel.find_session, stream.session).client.address == client.address
        return client.address, client.port


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CLIENT, (CLIENT, 0)),
        (f"{CLIENT}:4711", (CLIENT, 4711)),
        ("2001:db8::7", ("2001:db8::7", 0)),
        # The client has written the first ones: it may write anything.
        (f"192.0.2.99, {CLIENT}", (CLIENT, 0)),
        (f"<nonsense>, {CLIENT}", (CLIENT, 0)),
        (f"127.0.0.1, {CLIENT}", (CLIENT, 0)),
        # Through several proxies.
        (f"192.0.2.99, {CLIENT}, 10.1.2.3, 10.4.5.6", (CLIENT, 0)),
        # A client that is a proxy itself, or has one that does not tell.
        ("10.1.2.3", ("10.1.2.3", 0)),
        ("unknown, 10.1.2.3", ("10.1.2.3", 0)),
    ],
)
def test_the_client_is_the_last_one_that_is_no_proxy(
    server: BackgroundServer, value: str, expected: tuple[str, int]
) -> None:
    assert seen(server, "stream", {"X-Forwarded-For": value}) == expected


@pytest.mark.parametrize(
    ("listener", "headers"),
    [
        ("standard", {"Forwarded": f'for=192.0.2.99, for="{CLIENT}:4711";proto=https, for=10.1.2.3'}),
        ("standard", {"Forwarded": f'for="{CLIENT}:4711"', "X-Forwarded-For": OTHER, "X-Real-IP": OTHER}),
        ("real-ip", {"X-Real-IP": f"{CLIENT}:4711", "X-Forwarded-For": OTHER}),
    ],
)
def test_each_listener_has_the_header_of_its_proxies_and_no_other(
    server: BackgroundServer, listener: str, headers: Mapping[str, str]
) -> None:
    assert seen(server, listener, headers) == (CLIENT, 4711)


def test_a_proxy_that_names_nobody_asks_for_itself(server: BackgroundServer) -> None:
    assert seen(server, "stream", {"Forwarded": f"for={CLIENT}"})[0] == "127.0.0.1"
    assert seen(server, "standard", {"Forwarded": "for=unknown"})[0] == "127.0.0.1"


def test_a_header_means_nothing_where_none_is_configured(server: BackgroundServer) -> None:
    headers = {"X-Forwarded-For": CLIENT, "Forwarded": f"for={CLIENT}", "X-Real-IP": CLIENT}
    assert seen(server, "plain", headers)[0] == "127.0.0.1"
    # Adapters can look for themselves.
    assert server.metadata.clients[-1].headers["x-forwarded-for"] == CLIENT


def test_a_header_of_a_stranger_is_refused_and_nothing_else_of_it(
    server: BackgroundServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"), Http(server.host, server.port_of("strangers")) as http:
        for _ in range(3):
            http.post("create_session", params(adapter_set="TEST"), headers={"X-Forwarded-For": CLIENT})
            assert http.read_head() == 403
            assert http.read_body() == b"X-Forwarded-For is accepted here from the configured proxies only\n"
        assert server.metadata.clients == []
        with create(http, {}) as stream:
            assert "CLIENTIP,127.0.0.1" in stream.head
    (line,) = [record.getMessage() for record in caplog.records if "forwarding header" in record.getMessage()]
    assert "forwarding header refused" in line


@pytest.mark.parametrize(
    ("listener", "headers", "text"),
    [
        ("stream", {"X-Forwarded-For": "somewhere"}, "X-Forwarded-For: 'somewhere' is not an address\n"),
        ("stream", {"X-Forwarded-For": f"{CLIENT}, <b>, 10.1.2.3"}, "X-Forwarded-For: '<b>' is not an address\n"),
        ("standard", {"Forwarded": CLIENT}, "Forwarded: it is not a list of pairs such as for=192.0.2.7\n"),
    ],
)
def test_a_broken_header_is_refused_with_what_is_wrong(
    server: BackgroundServer, listener: str, headers: Mapping[str, str], text: str
) -> None:
    with Http(server.host, server.port_of(listener)) as http:
        http.get("/health", headers=headers)
        assert http.read_head() == 400
        assert http.read_body() == text.encode()
        # The proxy can go on: other clients share its connection.
        http.get("/health")
        assert http.read_head() == 200


def test_each_request_of_a_connection_has_a_client_of_its_own(server: BackgroundServer) -> None:
    with Http(server.host, server.port) as http:
        for address in (CLIENT, OTHER, CLIENT):
            body = f"{params(adapter_set='TEST', polling=True, polling_millis=0)}&LS_cid={CID}"
            http.post("create_session", body, headers={"X-Forwarded-For": address})
            http.read_head()
            assert f"CLIENTIP,{address}" in http.read_body().decode()
    assert [client.address for client in server.metadata.clients] == [CLIENT, OTHER, CLIENT]


def socket_of(server: BackgroundServer, address: str) -> Socket:
    url = f"ws://{server.host}:{server.port}/lightstreamer"
    return Socket(url, f"{PROTOCOL}.lightstreamer.com", {"X-Forwarded-For": address})


def test_a_websocket_has_the_client_of_its_handshake(server: BackgroundServer) -> None:
    with socket_of(server, CLIENT) as socket:
        assert f"CLIENTIP,{CLIENT}" in socket.create()
    assert server.metadata.clients[-1].address == CLIENT


def test_behind_the_proxy_protocol_the_header_is_that_of_the_proxy_named_there(server: BackgroundServer) -> None:
    port = server.port_of("both")
    http = Http(server.host, port)
    http.send(version_1("10.1.2.3", 1))
    with create(http, {"X-Forwarded-For": CLIENT}) as stream:
        assert f"CLIENTIP,{CLIENT}" in stream.head
    with Http(server.host, port) as http:
        http.send(version_1(CLIENT, 1))
        http.get("/health", headers={"X-Forwarded-For": OTHER})
        assert http.read_head() == 403


@pytest.mark.config({"limits.connections_per_address": 2})
def test_the_limit_of_connections_is_for_clients_while_they_are_answered(
    server: BackgroundServer, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        idle = stack.enter_context(Http(server.host, server.port))
        for _ in range(5):
            # The pool of a proxy: none of them is a client's yet, and what was answered is nobody's any more.
            http = stack.enter_context(Http(server.host, server.port))
            http.get("/health", headers={"X-Forwarded-For": CLIENT})
            assert http.read_head() == 200
            http.read_body()
        stack.enter_context(create(Http(server.host, server.port), {"X-Forwarded-For": CLIENT}))
        stack.enter_context(socket_of(server, CLIENT))
        with caplog.at_level("WARNING"):
            idle.get("/health", headers={"X-Forwarded-For": CLIENT})
            assert idle.read_head() == 503
        assert idle.read_body() == b"Too many connections from this address; at most 2 are allowed\n"
        assert [record for record in caplog.records if "connection refused" in record.getMessage()]
        with pytest.raises(InvalidStatus):
            socket_of(server, CLIENT)
        idle.get("/health", headers={"X-Forwarded-For": OTHER})
        assert idle.read_head() == 200
    # Whatever has gone is counted no more.
    with create(Http(server.host, server.port), {"X-Forwarded-For": OTHER}):
        census = server.server.stream.connection_census
        while server.call(len, census) != 1:
            pass


@pytest.mark.config({"limits.sessions_per_address": 1})
def test_the_limit_of_sessions_is_for_clients(server: BackgroundServer) -> None:
    with (
        create(Http(server.host, server.port), {"X-Forwarded-For": CLIENT}),
        create(Http(server.host, server.port), {"X-Forwarded-For": OTHER}) as other,
        create(Http(server.host, server.port), {"X-Forwarded-For": CLIENT}) as again,
    ):
        assert other.head[0].startswith("CONOK,")
        assert again.head[0].startswith("CONERR,8,")


def test_the_api_port_has_the_same_rules(server: BackgroundServer) -> None:
    with Exchange(server.host, server.port_of("api-behind")).http() as http:
        http.get("/health", headers={"X-Forwarded-For": f"{CLIENT}:4711"})
        assert http.read_head() == 200
        http.read_body()
        http.get("/health", headers={"X-Forwarded-For": "x"})
        assert http.read_head() == 400
