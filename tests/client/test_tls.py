"""The asyncio client over TLS: whom it trusts, and what it says of servers that it cannot talk to."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Unreachable, connect
from penstock.client import connection as connections
from tests.support.background import BackgroundServer
from tests.support.tls import CERTIFICATES, TLS, trusting_context

PATIENCE = 45.0


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))


@pytest.fixture(scope="module")
def secure() -> Iterator[BackgroundServer]:
    """Reached by every address of this machine, of which its certificate names two."""
    with BackgroundServer({**TLS, "stream.host": "0.0.0.0"}) as running:
        running.adapter.state["a"] = {"x": "1"}
        yield running


async def first_value(url: str, tls: ssl.SSLContext | None = None, proxy: str | None = None) -> str | None:
    async with connect(url, adapter_set="TEST", tls=tls, proxy=proxy) as client:
        return (await anext(client.subscribe("a", "x"))).values["x"]


def obstacle(url: str, tls: ssl.SSLContext | None = None, proxy: str | None = None) -> str:
    """Why there is no connection."""
    found = []

    async def test() -> None:
        with pytest.raises(Unreachable) as error:
            await first_value(url, tls, proxy)
        found.append(str(error.value))

    run(test())
    return found[0]


@contextmanager
def another_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that does something else with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)


@pytest.mark.parametrize("scheme", ["https", "wss"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_updates_come_over_tls(secure: BackgroundServer, scheme: str, host: str) -> None:
    async def test() -> None:
        assert await first_value(f"{scheme}://{host}:{secure.tls_port}", trusting_context()) == "1"

    run(test())
    assert secure.metadata.clients[-1].listener == "stream.tls"


def test_without_a_context_the_authorities_of_the_system_are_trusted(
    secure: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "certificate.pem"))

    async def test() -> None:
        assert await first_value(f"https://localhost:{secure.tls_port}") == "1"

    run(test())


def test_the_program_of_the_page_works(secure: BackgroundServer, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    found = re.search(r"^```python penstock\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    program = found[1].replace("localhost:8443", f"localhost:{secure.tls_port}")
    program = program.replace("authority.pem", str(CERTIFICATES / "certificate.pem"))
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Status(connected=True, ")
        assert float(process.stdout.readline()) > 0
        process.kill()


def test_a_certificate_that_nobody_has_signed_is_not_accepted(secure: BackgroundServer) -> None:
    found = obstacle(f"https://localhost:{secure.tls_port}")
    assert found == "its certificate is not accepted: self-signed certificate"


def test_a_certificate_for_another_host_is_not_accepted(secure: BackgroundServer) -> None:
    found = obstacle(f"https://127.0.0.2:{secure.tls_port}", trusting_context())
    assert found.startswith("its certificate is not accepted: IP address mismatch")


def test_the_server_is_told_which_host_is_meant() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem")
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with another_server(serve) as port:
        found = obstacle(f"https://localhost:{port}", trusting_context())
    assert asked == ["localhost"]
    assert found == "it has closed the connection without an answer"


def test_a_port_without_tls_is_told(secure: BackgroundServer) -> None:
    assert obstacle(f"https://localhost:{secure.port}").startswith("this port does not use TLS; ")


def test_a_port_with_tls_is_told(secure: BackgroundServer) -> None:
    found = obstacle(f"http://localhost:{secure.tls_port}")
    assert found == "it has closed the connection without an answer; a port with TLS needs https:// or wss://"


def test_a_server_that_is_going_down_is_told(secure: BackgroundServer) -> None:
    gate = secure.server.gate
    secure.call(setattr, gate, "draining", True)
    try:
        assert obstacle(f"http://127.0.0.1:{secure.port}").startswith(
            "it accepts no clients at the moment (HTTP status 503), "
        )
    finally:
        secure.call(setattr, gate, "draining", False)


def test_a_port_for_something_else_is_told(secure: BackgroundServer) -> None:
    assert obstacle(f"http://127.0.0.1:{secure.api_port}").startswith("it answers with HTTP status 404; expected ")
    with another_server(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")) as port:
        assert obstacle(f"http://127.0.0.1:{port}").startswith("its answer is not HTTP; expected ")


def test_a_port_where_nobody_listens_is_told() -> None:
    assert obstacle("http://127.0.0.1:9") == "nothing listens there (connection refused)"
    # By name it has several addresses, which are all tried.
    assert obstacle("http://localhost:9") == "nothing listens there (connection refused)"


def test_a_host_that_nobody_knows_is_told() -> None:
    assert obstacle("http://nowhere.invalid:8080").startswith("the host name cannot be resolved: ")


def test_a_server_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPEN_SECONDS", 0.2)

    def say_nothing(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with another_server(say_nothing) as port:
        assert obstacle(f"http://127.0.0.1:{port}") == "it does not answer in time"


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("http://127.0.0.1:9", "nothing listens there (connection refused); the connection goes through a proxy"),
        ("socks9://127.0.0.1:9", "the proxy does not work: "),
        # Needs a package that is not there; it was this that nobody was told of.
        ("socks5://127.0.0.1:9", "the proxy does not work: "),
    ],
)
def test_a_proxy_that_does_not_work_is_told(proxy: str, reason: str) -> None:
    assert obstacle("http://127.0.0.1:8", proxy=proxy).startswith(reason)


def test_what_tls_is_for_an_address_without_is_refused() -> None:
    with pytest.raises(ValueError, match="tls is for addresses with https or wss"):
        connect("http://localhost:8080", tls=trusting_context())


def test_a_mistake_in_the_client_itself_is_raised_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("on purpose")

    async def test() -> None:
        client = connect("http://127.0.0.1:9")
        monkeypatch.setattr(connections, "subprotocol", broken)
        with pytest.raises(ZeroDivisionError):
            await client.__aenter__()

    run(test())
