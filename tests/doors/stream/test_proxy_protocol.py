"""Listeners behind a proxy that speaks the PROXY protocol: who the client is, and who is refused."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.background import BackgroundServer
from tests.support.proxy import LOCAL, version_1, version_2
from tests.support.raw import TIMEOUT, Exchange, Http, params
from tests.support.tls import CERTIFICATES, trusting_context

PROXY = ["127.0.0.1"]
LISTENERS = f"""
[listeners.secure]
port = 0
proxies = {{ addresses = ["127.0.0.0/8"], proxy_protocol = true }}
[listeners.secure.tls]
certificate = "{CERTIFICATES}/certificate.pem"
private_key = "{CERTIFICATES}/private_key.pem"

[listeners.elsewhere]
port = 0
proxies = {{ addresses = ["192.0.2.0/24", "2001:db8::/32"], proxy_protocol = true }}

[listeners.api-behind]
port = 0
serves = "api"
proxies = {{ addresses = ["127.0.0.1"], proxy_protocol = true }}
"""


class Proxied(Exchange):
    """Connections that a proxy has opened for somebody."""

    def __init__(self, host: str, port: int, header: bytes, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(host, port, tls)
        self.header = header

    def http(self) -> Http:
        http = Http(self.host, self.port)
        http.send(self.header)
        if self._tls is not None:
            http.socket = self._tls.wrap_socket(http.socket, server_hostname="localhost")
        return http


def settings(**more: object) -> dict[str, object]:
    return {"stream.proxies.addresses": PROXY, "stream.proxies.proxy_protocol": True, **more}


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackgroundServer]:
    file = tmp_path / "penstock.toml"
    file.write_text(LISTENERS)
    marker = request.node.get_closest_marker("config")
    with BackgroundServer(settings(**(marker.args[0] if marker else {})), file) as running:
        yield running


HEADERS = [version_1("198.51.100.7", 4711), version_2("198.51.100.7", 4711, b"\x04\x00\x01x")]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("listener", ["stream", "secure"])
def test_the_client_is_the_one_that_the_proxy_names(server: BackgroundServer, header: bytes, listener: str) -> None:
    tls = trusting_context() if listener == "secure" else None
    with Proxied(server.host, server.port_of(listener), header, tls).stream() as stream:
        assert "CLIENTIP,198.51.100.7" in stream.head
        session = server.call(server.server.kernel.find_session, stream.session)
        assert session.client.address == "198.51.100.7"
    (client,) = server.metadata.clients
    assert (client.address, client.port, client.listener) == ("198.51.100.7", 4711, listener)


def test_a_client_of_ipv6_has_its_own_address(server: BackgroundServer) -> None:
    with Proxied(server.host, server.port, version_2("2001:db8::7", 1)).stream() as stream:
        # The same text that adapters and the log have.
        assert "CLIENTIP,2001:db8::7" in stream.head


def test_a_websocket_has_the_client_of_its_connection(server: BackgroundServer) -> None:
    with Proxied(server.host, server.port, version_2("198.51.100.7", 4711)).http() as http:
        http.send(
            b"GET /lightstreamer HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Protocol: TLCP-2.4.0.lightstreamer.com\r\n\r\n"
        )
        assert http.read_head() == 101
        body = f"create_session\r\n{params(adapter_set='TEST')}&LS_cid=x".encode()
        http.send(bytes([0x81, 0x80 | len(body), 0, 0, 0, 0]) + body)
        received = b""
        while b"CONS" not in received:
            received += http.socket.recv(4096)
        assert b"CLIENTIP,198.51.100.7" in received
    (client,) = server.metadata.clients
    assert (client.address, client.port) == ("198.51.100.7", 4711)


@pytest.mark.parametrize("header", [LOCAL, b"PROXY UNKNOWN\r\n"])
def test_a_proxy_that_speaks_for_itself_is_the_client(server: BackgroundServer, header: bytes) -> None:
    with Proxied(server.host, server.port, header).stream() as stream:
        assert "CLIENTIP,127.0.0.1" in stream.head


@pytest.mark.parametrize("listener", ["stream", "secure"])
def test_a_header_may_come_byte_by_byte(server: BackgroundServer, listener: str) -> None:
    http = Http(server.host, server.port_of(listener))
    http.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in version_2("198.51.100.7", 1):
        http.send(bytes([byte]))
    if listener == "secure":
        http.socket = trusting_context().wrap_socket(http.socket, server_hostname="localhost")
    with http:
        http.get("/health")
        assert http.read_head() == 200


def test_the_api_port_can_have_a_proxy_as_well(server: BackgroundServer) -> None:
    header = version_1("198.51.100.7", 4711)
    with Proxied(server.host, server.port_of("api-behind"), header).http() as http:
        http.get("/health")
        assert http.read_head() == 200
    with Exchange(server.host, server.port_of("api-behind")).http() as http:
        http.get("/health")
        assert http.read_head() == 400


def answer(exchange: Exchange) -> tuple[int, str]:
    with exchange.http() as http:
        status = http.read_head()
        body = http.read_body().decode()
        assert http.is_closed()
        return status, body


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "The connection does not begin with a PROXY header\n"),
        (b"PROXY TCP4 1.2.3.4 here 1 1\r\n", "The PROXY line has 'here', which is not an address of TCP4\n"),
        (b"PROXY " + b"x" * 200, "The PROXY line is longer than 107 bytes\n"),
    ],
)
def test_a_broken_header_is_refused_with_what_is_wrong(server: BackgroundServer, header: bytes, text: str) -> None:
    assert answer(Proxied(server.host, server.port, header)) == (400, text)
    assert server.metadata.clients == []


def test_a_stranger_is_refused_whatever_it_says(server: BackgroundServer) -> None:
    port = server.port_of("elsewhere")
    for header in (version_1("192.0.2.7", 1), LOCAL, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"):
        found = answer(Proxied(server.host, port, header))
        assert found == (403, "Connections are accepted here from the configured proxies only\n")
    assert server.metadata.clients == []


def test_a_listener_with_tls_closes_a_connection_without_a_right_header(server: BackgroundServer) -> None:
    port = server.port_of("secure")
    with pytest.raises((ssl.SSLError, OSError)):
        Http(server.host, port, trusting_context())
    with Http(server.host, port) as http:
        http.send(b"PROXY nonsense\r\n")
        assert http.is_closed()


def test_refusals_are_logged_once(server: BackgroundServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "penstock.transport.greeting"):
        for _ in range(3):
            answer(Proxied(server.host, server.port, b"PROXY nonsense\r\n"))
    (line,) = [record for record in caplog.records if record.name == "penstock.transport.greeting"]
    assert "PROXY header refused" in line.getMessage()


@pytest.mark.config({"limits.handshake_timeout_millis": 200})
def test_a_peer_that_takes_too_long_is_refused(server: BackgroundServer) -> None:
    found = answer(Proxied(server.host, server.port, b"PROXY TCP4 1.2.3.4"))
    assert found == (408, "The PROXY header was not complete after 0.2 s\n")


@pytest.mark.config({"stream.max_connections": 8})
def test_peers_that_say_nothing_keep_nobody_out(server: BackgroundServer) -> None:
    silent = [socket.create_connection((server.host, server.port), TIMEOUT) for _ in range(20)]
    try:
        with Proxied(server.host, server.port, LOCAL).http() as http:
            http.get("/health")
            assert http.read_head() == 200
    finally:
        for each in silent:
            each.close()


def test_a_peer_that_goes_before_its_header_is_complete_leaves_nothing(server: BackgroundServer) -> None:
    for begin in (b"", b"PRO"):
        with Http(server.host, server.port) as http:
            http.send(begin)
    with Proxied(server.host, server.port, LOCAL).http() as http:
        http.get("/health")
        assert http.read_head() == 200
    assert server.call(lambda: len(server.server.stream.connection_census)) <= 1


@pytest.mark.config({"limits.connections_per_address": 1})
def test_the_limit_of_connections_is_for_the_client_and_not_for_the_proxy(server: BackgroundServer) -> None:
    one, other = version_1("198.51.100.7", 1), version_1("198.51.100.8", 2)
    with Proxied(server.host, server.port, one).stream(), Proxied(server.host, server.port, other).stream():
        status, text = answer(Proxied(server.host, server.port, one))
        assert (status, text) == (503, "Too many connections from this address; at most 1 are allowed\n")


@pytest.mark.config({"limits.sessions_per_address": 1})
def test_the_limit_of_sessions_is_for_the_client_and_not_for_the_proxy(server: BackgroundServer) -> None:
    one, other = version_1("198.51.100.7", 1), version_1("198.51.100.8", 2)
    with Proxied(server.host, server.port, one).stream(), Proxied(server.host, server.port, other).stream() as second:
        assert second.head[0].startswith("CONOK,")
        with Proxied(server.host, server.port, one).stream() as third:
            assert third.head[0].startswith("CONERR,8,")
