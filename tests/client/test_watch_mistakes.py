"""What `penstock watch` says of ordinary mistakes: one line each, and an exit code for each kind."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass

import pytest

from tests.support.background import BackgroundServer
from tests.support.forge import Forked
from tests.support.tls import CERTIFICATES, TLS

FIELDS = ("--fields", "x y")

# Seconds that a command may take. Far more than it should: only a failure is slow.
PATIENCE = 45.0


@dataclass(frozen=True)
class Found:
    """What a command has left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Found:
    process = Forked(arguments)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    return Found(process.wait(PATIENCE), stdout, stderr)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["TEST", "a", *FIELDS, "--mode", "FAST"], 2, "--mode is 'FAST'; it must be one of MERGE, DISTINCT, COMMAND"),
        (["TEST", "a", "--fields", " "], 2, "--fields: ' ' is not a list of names"),
        (["TEST", "a b", *FIELDS], 2, "ITEM: ['a b'] is not a list of names"),
        (["TEST", "a\udcff", *FIELDS], 2, "ITEM is not UTF-8"),
        (["TEST", "a", *FIELDS, "--count", "0"], 2, "--count is 0; expected 1 or more"),
        (["TEST", "a", *FIELDS, "--max-frequency", "-1"], 2, "--max-frequency is -1; expected a number above 0"),
        (["TEST", "a", *FIELDS, "--ca", "missing.pem"], 2, "missing.pem cannot be read: No such file or directory"),
        (["NOWHERE", "a", *FIELDS], 1, "NOWHERE/DEFAULT: Requested Adapter Set not available (code 2)"),
        (["TEST", "a", *FIELDS, "--adapter", "NOPE"], 1, "TEST/NOPE: Data Adapter not found (code 17)"),
        (["TEST", "a", *FIELDS, "--user", "nobody"], 1, "User/password check failed (code 1)"),
        (["TEST", "a", *FIELDS, "--mode", "COMMAND"], 1, "COMMAND mode needs a field named key (code 15)"),
    ],
    ids=["mode", "fields", "item", "bytes", "count", "frequency", "ca", "set", "adapter", "user", "no key"],
)
def test_what_cannot_be_watched_is_told_in_one_line(
    server: BackgroundServer, arguments: list[str], code: int, words: str
) -> None:
    found = run("watch", *arguments, "--url", server.url)
    assert (found.returncode, found.stdout) == (code, "")
    assert words in found.stderr
    assert found.stderr.startswith("penstock: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8080", "expected http, https, ws or wss, a host, and a port if needed"),
        ("http://localhost:port", "is not a server address"),
        ("http://localhost:99999", "is not a server address"),
        ("http://[::1", "is not a server address"),
        ("http://.:8080", "is not a server address"),
        ("http://ada:secret@localhost:8080", "'http://localhost:8080': user and password must be given separately"),
    ],
)
def test_what_is_no_address_is_a_wrong_option(url: str, words: str) -> None:
    found = run("watch", "TEST", "a", *FIELDS, "--url", url)
    assert found.returncode == 2
    assert words in found.stderr
    assert "secret" not in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9", "nothing listens there (connection refused)"),
        ("http://nowhere.invalid:8080", "the host name cannot be resolved"),
        ("http://127.0.0.1:{api}", "it answers with HTTP status 404; expected a WebSocket"),
        ("https://127.0.0.1:{stream}", "this port does not use TLS"),
        ("http://127.0.0.1:{tls}", "a port with TLS needs https:// or wss://"),
        ("https://127.0.0.1:{tls}", "self-signed certificate; --ca FILE trusts the certificates in a file"),
    ],
    ids=["port", "host", "api", "no tls", "tls", "certificate"],
)
@pytest.mark.config(TLS)
def test_a_server_that_cannot_be_reached_is_told_in_one_line(server: BackgroundServer, url: str, words: str) -> None:
    place = url.format(api=server.api_port, stream=server.port, tls=server.tls_port)
    found = run("watch", "TEST", "a", *FIELDS, "--url", place)
    assert found.returncode == 3
    assert found.stderr.startswith(f"penstock: {place}: ")
    assert words in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.config(TLS)
def test_over_tls_the_certificates_to_trust_may_be_given(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1", "y": None}
    options = ("--url", f"https://localhost:{server.tls_port}", "--ca", str(CERTIFICATES / "certificate.pem"))
    found = run("watch", "TEST", "a", *FIELDS, *options, "--count", "1")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.endswith("a  x=1  y=-\n")


def test_a_server_that_never_answers_can_be_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = Forked(("watch", "TEST", "a", *FIELDS, "--url", url))
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            command.send_signal(signal.SIGINT)
            assert command.communicate(timeout=PATIENCE) == ("", "")
            assert command.wait(PATIENCE) == 0
