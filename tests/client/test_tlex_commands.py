"""The commands as a person types them, with a server process beside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME, Token
from penstock.wire.tlex.frames import PREAMBLE
from tests.support.forge import Forked

CONFIGURATION = """
[stream]
port = 0
[api]
port = 0
[tlex]
enabled = true
port = 0
poll_millis = 50
[demo]
enabled = false
"""


class Place:
    """A directory with a configuration and a database; `serve` runs the server there."""

    def __init__(self, directory: Path) -> None:
        self.configuration = directory / "penstock.toml"
        self.configuration.write_text(f'{CONFIGURATION}[server]\ndata_dir = "{directory / "data"}"\n')
        self.api = ""
        self._started: list[Forked] = []

    def serve(self, *options: str) -> Forked:
        """A server that is ready."""
        server = self.start("serve", "--config", str(self.configuration), *options)
        ready = re.search(r"api=(\S+)  tlex=127\.0\.0\.1:\d+", server.stdout.readline())
        assert ready is not None
        self.api = ready[1]
        return server

    def start(self, *arguments: str, token: str = "") -> Forked:
        process = Forked(arguments, environment={**os.environ, "PENSTOCK_TLEX_TOKEN": token} if token else None)
        self._started.append(process)
        return process

    def clear(self) -> None:
        """End what a test that has failed has left behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def run(self, *arguments: str, token: str = "", given: str | None = None) -> tuple[int, str, str]:
        process = self.start(*arguments, token=token)
        out, err = process.communicate(given, 30)
        return process.wait(), out, err

    def typed(self, *arguments: str) -> Result:
        """A command that needs no process of its own."""
        return CliRunner().invoke(app, ["tlex", *arguments, "--config", str(self.configuration)])

    def manage(self, *arguments: str) -> str:
        result = self.typed(*arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout.strip()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("place"))
    server = found.serve()
    found.manage("account", "add", "City of Delft")
    found.manage("tlc", "add", "City of Delft", "NLZH0023", "NLZH0024", "--domain", "Test")
    yield found
    server.terminate()
    server.communicate(timeout=20)
    found.clear()
    assert server.returncode == 0


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Place]:
    """Without a server, and without anything in its database."""
    found = Place(tmp_path)
    yield found
    found.clear()


def secret(place: Place, role: str, *options: str) -> str:
    return place.manage("token", "add", "City of Delft", "--domain", "test", "--role", role, *options)


def test_accounts_tokens_and_controllers_are_listed(place: Place) -> None:
    made = secret(place, "BROKER_ANALYST", "--tlc", "NLZH0023")
    assert re.fullmatch(r"[\w-]{43}", made)
    listed = place.manage("token", "list", "City of Delft")
    assert made not in listed
    assert "City of Delft\ttest\tBROKER_ANALYST\tNLZH0023\tgood" in listed
    controllers = json.loads(place.manage("tlc", "list", "--json"))
    assert [(each["domain"], each["identifier"], each["account"]) for each in controllers][:2] == [
        ("test", "NLZH0023", "City of Delft"),
        ("test", "NLZH0024", "City of Delft"),
    ]
    assert [each["name"] for each in json.loads(place.manage("account", "list", "--json"))] == ["City of Delft"]


def test_payloads_are_sent_received_and_watched(place: Place) -> None:
    broker, monitor, own = [secret(place, role) for role in ("BROKER_SYSTEM", "MONITOR_SYSTEM", "TLC_SYSTEM")]
    common = ("--domain", "test", "--api", place.api)
    receiving = place.start("tlex", "receive", "NLZH0023", "NLZH0024", *common, "--count", "4", token=broker)
    watching = place.start("tlex", "monitor", "NLZH0023", *common, "--count", "2", "--json", token=monitor)
    connected(receiving)
    connected(watching)
    code, out, err = place.run("tlex", "send", "NLZH0023", "hello", "wide world", *common, token=own)
    assert (code, out, err) == (0, "penstock: 2 sent\n", "")
    sending = ("tlex", "send", "NLZH0024", *common, "--hex", "--type", "5")
    assert place.run(*sending, token=own, given="00ff\n01\n")[:2] == (0, "penstock: 2 sent\n")
    received = [re.sub(r" \d{13} ", " ORIGIN ", line) for line in receiving.communicate(timeout=20)[0].splitlines()]
    assert received == [
        "NLZH0023 02 ORIGIN hello",
        "NLZH0023 02 ORIGIN wide world",
        "NLZH0024 05 ORIGIN 00ff",
        "NLZH0024 05 ORIGIN 01",
    ]
    watched = [json.loads(line) for line in watching.communicate(timeout=20)[0].splitlines()]
    assert [bytes.fromhex(each["payload"]) for each in watched] == [b"hello", b"wide world"]
    assert watched[0]["origin"] <= watched[0]["published"] <= watched[0]["sent"]


def connected(process: Forked) -> None:
    """Until a client says that it is."""
    assert process.stderr is not None
    assert process.stderr.readline() == "penstock: connected\n"


def test_a_controller_may_be_sent_to_and_receive(place: Place) -> None:
    own, broker = secret(place, "TLC_SYSTEM"), secret(place, "BROKER_SYSTEM")
    common = ("--domain", "test", "--api", place.api)
    receiving = place.start("tlex", "receive", "NLZH0024", *common, "--as", "tlc", "--count", "1", token=own)
    connected(receiving)
    assert place.run("tlex", "send", "NLZH0024", "green", *common, "--as", "broker", token=broker)[0] == 0
    assert receiving.communicate(timeout=20)[0].endswith(" green\n")


MISTAKES = [
    (("account", "add", "City of Delft"), 1, "penstock: Account 'City of Delft' exists already\n"),
    (("account", "remove", "City of Delft"), 1, "still owns controllers"),
    (("account", "remove", "Nobody"), 1, "penstock: Account 'Nobody' does not exist\n"),
    (("token", "add", "City of Delft", "--domain", "test", "--role", "KING"), 2, "--role = KING: expected one of "),
    (("token", "revoke", "unknown"), 1, "penstock: Token unknown does not exist\n"),
    (("tlc", "add", "City of Delft", "short", "--domain", "test"), 1, "identifier: 'short' is not 8 characters"),
    (("tlc", "add", "City of Delft", "NLZH0099", "--domain", "test", "--type", "X"), 2, "--type = X: expected one of"),
    (("tlc", "remove", "NOTTHERE", "--domain", "test"), 1, "Controller 'NOTTHERE' in domain 'test' does not exist"),
]


@pytest.mark.parametrize(("arguments", "code", "complaint"), MISTAKES)
def test_mistakes_are_one_line_and_an_exit_code(
    place: Place, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    result = place.typed(*arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert complaint in result.stderr


def test_a_database_that_fails_is_one_line_and_an_exit_code(empty: Place) -> None:
    empty.manage("account", "add", "City of Delft")
    with contextlib.closing(sqlite3.connect(empty.configuration.parent / "data" / "store.db")) as database:
        database.execute("DROP TABLE tlcs")
    result = empty.typed("tlc", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "penstock: the database fails: no such table: tlcs\n",
    )


def test_a_client_that_is_refused_says_why_and_fails(place: Place) -> None:
    common = ("--domain", "test", "--api", place.api)
    code, _, err = place.run("tlex", "receive", "NLZH0023", *common, token="nobody's")
    assert (code, err) == (1, "penstock: HTTP 401 Unauthorized\n")
    code, _, err = place.run("tlex", "send", "NLZH0023", "zz", "--hex", *common, token="x")
    assert (code, err) == (2, "penstock: TEXT = zz: expected bytes in hexadecimal\n")
    code, _, err = place.run("tlex", "send", "NLZH0023", "x", *common, "--as", "king", token="x")
    assert (code, err) == (2, "penstock: --as = king: expected one of tlc, broker\n")


def test_a_revoked_token_is_of_no_use(place: Place) -> None:
    made = secret(place, "TLC_SYSTEM", "--tlc", "NLZH0024")
    (row,) = [each for each in json.loads(place.manage("token", "list", "--json")) if each["tlcs"] == "NLZH0024"]
    place.manage("token", "revoke", row["uuid"])
    code, _, err = place.run("tlex", "send", "NLZH0024", "x", "--domain", "test", "--api", place.api, token=made)
    assert (code, err) == (1, "penstock: HTTP 401 Unauthorized\n")
    (row,) = [each for each in json.loads(place.manage("token", "list", "--json")) if each["tlcs"] == "NLZH0024"]
    assert row["state"] == "revoked"


def test_a_controller_that_is_removed_is_gone(place: Place) -> None:
    place.manage("tlc", "add", "City of Delft", "NLZH0077", "--domain", "test")
    place.manage("tlc", "remove", "NLZH0077", "--domain", "TEST")
    assert "NLZH0077" not in place.manage("tlc", "list")


def test_who_receives_waits_for_a_hub_that_is_restarted_and_says_so(empty: Place) -> None:
    place = empty
    # For as long as the one client is there that does not leave.
    place.configuration.write_text(
        place.configuration.read_text().replace("[tlex]", "[tlex]\nreconnect_millis = 20000")
    )
    place.manage("account", "add", "City of Delft")
    place.manage("tlc", "add", "City of Delft", "NLZH0023", "NLZH0024", "--domain", "Test")
    broker, own = secret(place, "BROKER_SYSTEM"), secret(place, "TLC_SYSTEM")
    server = place.serve()
    common = ("--domain", "test", "--api", place.api)
    receiving = place.start("tlex", "receive", "NLZH0023", *common, "--count", "1", token=broker)
    impatient = place.start("tlex", "receive", "NLZH0024", *common, "--patience", "0", token=broker)
    with stubborn(place, own):
        connected(receiving)
        connected(impatient)
        server.terminate()
        refused = "penstock: HTTP 503 Service Unavailable: The server is shutting down; try again in a moment; "
        assert receiving.stderr is not None
        assert receiving.stderr.readline() == "penstock: the hub asks to reconnect\n"
        assert receiving.stderr.readline() == f"{refused}next try in 0.5 s\n"
        _, said = impatient.communicate(timeout=20)
        assert (impatient.returncode, said.splitlines()[-1]) == (1, f"{refused}given up after 0 s")
    server.communicate(timeout=20)
    assert server.returncode == 0
    server = place.serve("--api-port", place.api.rpartition(":")[2])
    while (line := receiving.stderr.readline()) != "penstock: connected\n":
        assert re.search(r"; next try in \d\.\d s$", line), line
    assert place.run("tlex", "send", "NLZH0023", "here again", *common, token=own)[0] == 0
    assert receiving.communicate(timeout=20)[0].endswith(" here again\n")
    server.terminate()
    server.communicate(timeout=20)


@contextlib.contextmanager
def stubborn(place: Place, token: str) -> Iterator[None]:
    """A controller that stays connected though it is asked to leave."""
    details = {"securityMode": "NONE", "tlcIdentifier": "NLZH0023"}
    body = {"domain": "test", "type": "TLC", "protocol": "TCPStreaming_Singleplex", "details": details}
    answer = httpx.post(f"{place.api}/api/v1/sessions", json=body, headers={"X-Authorization": token}, trust_env=False)
    listener = answer.json()["details"]["listener"]
    with socket.create_connection((listener["host"], listener["port"]), 20) as connection:
        connection.sendall(PREAMBLE + Token(answer.json()["token"]).encode())
        stop = threading.Event()

        def keep_alive() -> None:
            while not stop.wait(1):
                connection.sendall(KEEP_ALIVE_FRAME)

        thread = threading.Thread(target=keep_alive)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def test_a_hub_that_is_not_there_is_not_waited_for(empty: Place) -> None:
    code, _, err = empty.run(
        "tlex", "receive", "NLZH0023", "--domain", "test", "--api", "http://127.0.0.1:1", token="x"
    )
    assert code == 3
    assert err == "penstock: the API port does not answer: nothing listens there (connection refused)\n"


@pytest.mark.parametrize(
    ("api", "options", "code", "words"),
    [
        ("localhost:8081", (), 2, "expected http or https, a host, and a port if needed"),
        ("http://localhost:port", (), 2, "is not a server address"),
        ("https://localhost:8081", ("--ca", "missing.pem"), 2, "missing.pem cannot be read: No such file or directory"),
        ("http://nowhere.invalid:8081", (), 3, "the host name cannot be resolved"),
        ("https://127.0.0.1:{port}", (), 3, "this port does not use TLS"),
        ("http://127.0.0.1:{port}/elsewhere", (), 1, "HTTP 404"),
    ],
    ids=["scheme", "port", "ca", "host", "no tls", "path"],
)
def test_a_hub_that_cannot_be_reached_is_told_in_one_line(
    place: Place, api: str, options: tuple[str, ...], code: int, words: str
) -> None:
    address = api.format(port=place.api.rpartition(":")[2])
    common = ("--domain", "test", "--api", address, *options)
    for command in (("receive", "NLZH0023"), ("send", "NLZH0023", "hello")):
        found, out, err = place.run("tlex", *command, *common, token="x")
        assert (found, out, err.count("\n")) == (code, "", 1)
        assert words in err


def test_a_token_that_cannot_be_one_is_refused_without_being_shown(place: Place) -> None:
    common = ("--domain", "test", "--api", place.api)
    code, _, err = place.run("tlex", "receive", "NLZH0023", *common, token="sec\nret")
    assert (code, err) == (2, "penstock: the token is empty, or has characters that are not allowed in tokens\n")


def test_whoever_reads_the_payloads_may_leave(place: Place) -> None:
    broker, own = secret(place, "BROKER_SYSTEM"), secret(place, "TLC_SYSTEM")
    common = ("--domain", "test", "--api", place.api)
    receiving = place.start("tlex", "receive", "NLZH0023", *common, token=broker)
    connected(receiving)
    receiving.stdout.close()
    assert place.run("tlex", "send", "NLZH0023", "hello", *common, token=own)[0] == 0
    assert receiving.wait(20) == 0
    assert receiving.stderr is not None
    with receiving.stdin, receiving.stderr:
        assert receiving.stderr.read() == ""
