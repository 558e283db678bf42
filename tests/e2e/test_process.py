"""The life of the server process: start, readiness, signals, what stops it from starting, and what it prints.

Not here: the options and the configuration file (tests/test_cli.py), the protocol.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.administration import ask, basic
from tests.support.background import BackgroundServer
from tests.support.command import PORTS, Command, run
from tests.support.privacy import open_to_others
from tests.support.process import READY, ServerProcess
from tests.support.raw import CID, TIMEOUT, Exchange, Http, Socket, Stream, params, tags

# What every stream is told when the server goes down: the cause that makes clients open a new session.
GOODBYE = "END,48,The server is shutting down"

GOING_AWAY = 1001

ADMINISTRATOR = re.compile(r"penstock: administrator admin, password (\S{16}) \(a new one at every start\)")
QUOTES = {
    "reqId": 1,
    "op": "add",
    "subId": 1,
    "group": "item2 item11 item25",
    "schema": "stock_name last_price",
    "mode": "MERGE",
    "snapshot": True,
}


def ready(port: int) -> tuple[int, object]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=TIMEOUT) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


# -- ready ---------------------------------------------------------------------------------------------------------


def test_the_ready_line_comes_once_and_says_where_the_server_is(tmp_path: Path) -> None:
    with Command(tmp_path, "serve", *PORTS) as command:
        match = READY.fullmatch(command.line())
        assert match is not None
        assert match[1] == "127.0.0.1"
        assert ready(int(match[2])) == (200, {"status": "ready"})
        assert ready(int(match[4])) == (200, {"status": "ready"})
        assert command.stop() == (0, "")


def test_ready_is_503_on_both_ports_while_the_server_starts(server: BackgroundServer) -> None:
    server.server._ready = False
    assert ready(server.port) == (503, {"status": "starting"})
    assert ready(server.api_port) == (503, {"status": "starting"})
    server.server._ready = True
    assert ready(server.port) == (200, {"status": "ready"})
    assert ready(server.api_port) == (200, {"status": "ready"})


@pytest.mark.parametrize(("adapter_set", "data_adapter"), [("WELCOME", "STOCKS"), ("DEMO", "QUOTE_ADAPTER")])
def test_without_a_configuration_the_demo_sets_are_served(tmp_path: Path, adapter_set: str, data_adapter: str) -> None:
    with Command(tmp_path, "serve", *PORTS) as command:
        match = READY.fullmatch(command.line())
        assert match is not None
        exchange = Exchange(match[1], int(match[2]))
        with exchange.stream(adapter_set) as stream:
            assert exchange.control(stream.session, **QUOTES, data_adapter=data_adapter) == ["REQOK,1"]
            assert stream.read_until("U")[-1].startswith("U,1,1,Ations Europe|")
        assert command.stop() == (0, "")


def test_demo_says_where_the_page_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with Command(tmp_path, "demo", "--port", str(port), "--api-port", "0", "--no-pipeline") as command:
        assert command.line() == f"penstock: the page is at http://127.0.0.1:{port}/"
        assert READY.fullmatch(command.line())
        assert ADMINISTRATOR.fullmatch(command.line())
        with urlopen(f"http://127.0.0.1:{port}/", timeout=TIMEOUT) as page:
            assert b"<title>Penstock</title>" in page.read()
        assert command.stop() == (0, "")
    # Nothing pushes these lines away: devices come and go without a word.
    assert "INFO" not in command.errors


def test_demo_on_any_free_port_names_the_port_that_it_has_got(tmp_path: Path) -> None:
    with Command(tmp_path, "demo", *PORTS, "--no-pipeline") as command:
        page = command.line()
        ready = READY.fullmatch(command.line())
        assert ready is not None
        assert page == f"penstock: the page is at http://127.0.0.1:{ready[2]}/"
        assert ADMINISTRATOR.fullmatch(command.line())
        assert command.stop() == (0, "")


def test_demo_has_an_administrator_whose_password_is_told_once_and_kept_nowhere(tmp_path: Path) -> None:
    passwords = []
    for _ in range(2):
        with Command(tmp_path, "demo", *PORTS, "--no-pipeline") as command:
            command.line()
            ready = READY.fullmatch(command.line())
            assert ready is not None
            told = ADMINISTRATOR.fullmatch(command.line())
            assert told is not None
            passwords.append(told[1])
            assert ask(int(ready[4]), "GET", "/me", authorization=basic("admin", told[1])).body["role"] == "admin"
            assert ask(int(ready[4]), "GET", "/me", authorization=basic("admin", passwords[0] + "x")).status == 401
            assert command.stop() == (0, "")
            assert told[1] not in command.errors
    assert len(set(passwords)) == 2
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [each for each in kept for password in passwords if password.encode() in each]
    assert open_to_others(tmp_path / "penstock-data") == []


def test_a_server_without_a_demo_command_has_no_administrator(tmp_path: Path) -> None:
    with Command(tmp_path, "serve", *PORTS) as command:
        ready = READY.fullmatch(command.line())
        assert ready is not None
        answer = ask(int(ready[4]), "GET", "/me", authorization=basic("admin", "admin"))
        assert (answer.status, answer.error.partition(":")[0]) == (401, "administration is disabled")
        assert command.stop() == (0, "")


def test_demo_names_no_page_if_it_cannot_listen(tmp_path: Path, taken_port: int) -> None:
    done = run(tmp_path, "demo", "--port", str(taken_port), "--api-port", "0", "--no-pipeline")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{taken_port}: " in done.stderr


# -- what stops the start ------------------------------------------------------------------------------------------


def one_error(errors: str) -> str:
    """The only line of an error output that says more than how far the start has come."""
    # A busy machine may take so long to read the modules that the watchdog has something to say.
    complaints = [line for line in errors.splitlines() if " INFO " not in line and ".watchdog " not in line]
    assert len(complaints) == 1, errors
    return complaints[0]


@pytest.mark.parametrize("option", ["--port", "--api-port"])
def test_a_port_in_use_stops_the_start_with_one_clear_line(tmp_path: Path, taken_port: int, option: str) -> None:
    other = "--api-port" if option == "--port" else "--port"
    done = run(tmp_path, "serve", option, str(taken_port), other, "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERROR" in one_error(done.stderr)
    assert f"cannot listen on 127.0.0.1:{taken_port}: " in one_error(done.stderr)
    assert "address already in use" in one_error(done.stderr).lower()


def test_a_tls_port_in_use_is_the_one_that_is_named(tmp_path: Path, taken_port: int) -> None:
    keys = Path(__file__).parents[1] / "config" / "tls"
    (tmp_path / "tls.toml").write_text(
        f'[stream.tls]\ncertificate = "{keys / "certificate.pem"}"\n'
        f'private_key = "{keys / "private_key.pem"}"\nport = {taken_port}\n'
    )
    done = run(tmp_path, "serve", *PORTS, "--config", "tls.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"cannot listen on 127.0.0.1:{taken_port}: " in one_error(done.stderr)


def test_a_second_process_on_the_same_data_directory_does_not_start(tmp_path: Path) -> None:
    with Command(tmp_path, "serve", *PORTS, "--data-dir", "shared") as command:
        assert READY.fullmatch(command.line())
        done = run(tmp_path, "serve", *PORTS, "--data-dir", "shared")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the data directory shared is in use by another penstock process" in one_error(done.stderr)
        assert command.stop() == (0, "")


def test_a_data_directory_that_is_a_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("")
    done = run(tmp_path, "serve", *PORTS, "--data-dir", "occupied")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the data directory occupied cannot be used: " in one_error(done.stderr)


def test_a_killed_process_leaves_nothing_that_keeps_the_next_from_starting(process: ServerProcess) -> None:
    port = process.port
    process.kill()
    process.start()
    assert process.port == port
    assert ready(process.port) == (200, {"status": "ready"})


# -- the end -------------------------------------------------------------------------------------------------------


def web_socket(exchange: Exchange) -> Socket:
    client = exchange.socket()
    client.send("wsok")
    assert client.read_line() == "WSOK"
    client.create("WELCOME")
    return client


def poll(exchange: Exchange) -> Http:
    """A poll that waits for data."""
    created = exchange.request("create_session", f"LS_adapter_set=WELCOME&LS_polling=true&LS_cid={CID}")
    http = exchange.http()
    http.post("bind_session", params(session=created[0].split(",")[1], polling=True, idle_millis=30_000))
    http.read_head()
    assert http.read_until("CONS")[0].startswith("CONOK,")
    return http


def assert_http_said_goodbye(stream: Http) -> None:
    assert stream.read_until("LOOP", "END")[-1] == GOODBYE
    assert stream.read_body() == b""
    assert stream.is_closed()


def assert_socket_said_goodbye(client: Socket) -> None:
    assert client.read_until("LOOP", "END")[-1] == GOODBYE
    with pytest.raises(ConnectionClosed) as closed:
        client.read_line()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == GOING_AWAY


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.config({"demo.pace": 50})
def test_a_signal_asks_every_stream_to_bind_again_before_its_socket_closes(
    process: ServerProcess, number: signal.Signals
) -> None:
    exchange = Exchange(process.host, process.port)
    with ExitStack() as stack:
        stream: Stream = stack.enter_context(exchange.stream("WELCOME"))
        old_stream: Stream = stack.enter_context(exchange.stream("WELCOME", version="1.0"))
        client: Socket = stack.enter_context(web_socket(exchange))
        polling: Http = stack.enter_context(poll(exchange))
        for session in (stream.session, old_stream.session, client.session):
            assert exchange.control(session, **QUOTES, data_adapter="STOCKS") == ["REQOK,1"]
        assert stream.read_until("U")
        assert old_stream.read_until("U")
        assert client.read_until("U")
        idle: Http = stack.enter_context(exchange.http())
        idle.get("/health")
        assert idle.read_head() == 200
        empty: Socket = stack.enter_context(exchange.socket())
        empty.send("wsok")
        assert empty.read_line() == "WSOK"

        process.send_signal(number)
        for http in (stream.http, old_stream.http, polling):
            assert_http_said_goodbye(http)
        assert_socket_said_goodbye(client)
        assert idle.is_closed()
        with pytest.raises(ConnectionClosed) as closed:
            empty.read_line()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == GOING_AWAY
    assert process.wait() == 0


@pytest.mark.config({"demo.pace": 10})
def test_two_hundred_sessions_are_let_go_together(process: ServerProcess) -> None:
    exchange = Exchange(process.host, process.port)
    with ExitStack() as stack:
        streams = [stack.enter_context(exchange.stream("WELCOME")) for _ in range(100)]
        clients = [stack.enter_context(web_socket(exchange)) for _ in range(100)]
        for session in [stream.session for stream in streams] + [client.session for client in clients]:
            assert exchange.control(session, **QUOTES, data_adapter="STOCKS") == ["REQOK,1"]
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        for stream in streams:
            assert_http_said_goodbye(stream.http)
            stream.http.close()
        for client in clients:
            assert_socket_said_goodbye(client)
        assert process.wait() == 0
        # One after the other they would take minutes; a busy machine takes a few seconds.
        assert time.monotonic() - begin < 15


def test_a_second_signal_stops_at_once(process: ServerProcess) -> None:
    exchange = Exchange(process.host, process.port)
    with ExitStack() as stack:
        # A client that never answers the closing handshake keeps the first stop waiting for some seconds.
        deaf = stack.enter_context(exchange.http())
        deaf.get(
            "/lightstreamer",
            headers={
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Protocol": "TLCP-2.4.0.lightstreamer.com",
            },
        )
        assert deaf.read_head() == 101
        stream = stack.enter_context(exchange.stream("WELCOME"))
        process.send_signal(signal.SIGTERM)
        assert stream.read_until("LOOP", "END")[-1] == GOODBYE
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1
        assert time.monotonic() - begin < 1
    assert "stopped immediately" in process.log


# -- the log -------------------------------------------------------------------------------------------------------

PASSWORD = "kestrel-9271"
TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO |WARN |ERROR) [\w.]+ .+")


def talk_badly(exchange: Exchange) -> list[str]:
    """Requests of all sorts that carry a password or a session identifier, right and wrong; the identifiers."""
    sessions: list[str] = []
    good = f"LS_adapter_set=WELCOME&LS_user=ann&LS_cid={CID}&LS_password={PASSWORD}"
    with ExitStack() as stack:
        stream = stack.enter_context(exchange.stream("WELCOME", extra=f"&LS_user=ann&LS_password={PASSWORD}"))
        sessions.append(stream.session)
        asked = stack.enter_context(exchange.http())
        asked.get(f"/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0&{good}")
        asked.read_head()
        sessions.append(asked.read_until("CONS")[0].split(",")[1])
        client = stack.enter_context(exchange.socket())
        client.send("wsok")
        client.send("create_session", good)
        sessions.append(client.read_until("CONS")[1].split(",")[1])

        for body in (
            f"{good}&oops",
            f"LS_adapter_set=WELCOME&LS_password=left&{PASSWORD}",
            f"LS_adapter_set=WELCOME&LS_password{PASSWORD}",
            f"LS_adapter_set=WELCOME&LS_password={PASSWORD}%zz",
            f"LS_adapter_set=WELCOME&LS_password={PASSWORD}%ff",
            f"LS_adapter_set=WELCOME&LS_password={PASSWORD}&LS_password={PASSWORD}",
            f"LS_adapter_set=WELCOME&LS_password={PASSWORD}&LS_polling=perhaps",
            f"LS_adapter_set=NOWHERE&LS_password={PASSWORD}",
            f"LS_adapter_set=WELCOME\nLS_password={PASSWORD}",
            f"{good}\r\nLS_op=wrong",
        ):
            assert exchange.request("create_session", body)[0].startswith("CONERR,")
            client.send("control", body)
            assert client.read_until("ERROR", "REQERR")
        for message in (
            f"create_session\n{good}",
            good,
            f"LS_session={stream.session}",
            f"control LS_session={stream.session}",
        ):
            client.send(message)
            assert client.read_until("ERROR", "REQERR")
        exchange.request("login", good, query=f"LS_protocol=TLCP-2.4.0&LS_password={PASSWORD}")
        exchange.request("create_session", good, query="LS_protocol=TLCP-9.9.9")
        for body in (
            f"LS_session={stream.session}&LS_reqId=1&LS_op=wrong",
            f"LS_session={stream.session}&LS_reqId=1&LS_op=add",
            f"LS_session={stream.session}&oops",
            f"LS_session{stream.session}",
            f"LS_session={stream.session}&LS_session={stream.session}",
            f"LS_session={stream.session}x&LS_reqId=1&LS_op=destroy",
        ):
            assert tags(exchange.request("control", body))[0] in ("ERROR", "REQERR")
        assert exchange.request("bind_session", f"LS_session={stream.session}&LS_recovery_from=999")
        assert exchange.request("control", f"LS_session={stream.session}&LS_reqId=1&LS_op=destroy") == ["REQOK,1"]
        assert exchange.request("bind_session", f"LS_session={stream.session}")
        for raw in (
            f"POST /lightstreamer/create_session.txt?{good} HTTP/9.9\r\n\r\n",
            f"{good}\r\n\r\n",
            f"POST /{PASSWORD}\r\n",
            f"GET /{stream.session}?LS_password={PASSWORD} HTTP/1.1\r\nHost: a\r\nCookie: a={PASSWORD}\r\n\r\n",
        ):
            with exchange.http() as broken:
                broken.send(raw.encode())
                broken.socket.shutdown(socket.SHUT_WR)
                assert broken.is_closed()
    return sessions


@pytest.mark.config({"log.level": "debug", "log.format": "text"})
def test_the_log_is_one_event_a_line_without_passwords_and_session_identifiers(process: ServerProcess) -> None:
    sessions = talk_badly(Exchange(process.host, process.port))
    assert process.stop() == 0
    log = process.log
    assert [line for line in log.splitlines() if not TEXT_LINE.fullmatch(line)] == []
    assert log.count("session opened") == 3
    assert "request refused" in log
    assert [line for line in log.splitlines() if PASSWORD in line] == []
    for session in sessions:
        assert session[:17] in log, "a session can be followed by the beginning of its identifier"
        assert [line for line in log.splitlines() if session[1:25] in line] == []


@pytest.mark.config({"log.level": "debug", "log.format": "json"})
def test_the_log_can_be_an_object_a_line(process: ServerProcess) -> None:
    talk_badly(Exchange(process.host, process.port))
    assert process.stop() == 0
    events = [json.loads(line) for line in process.log.splitlines()]
    for event in events:
        assert list(event)[:4] == ["time", "level", "logger", "event"]
    opened = [event for event in events if event["event"] == "session opened"]
    assert [event["user"] for event in opened] == ["ann"] * 3
    assert "stopped" in {event["event"] for event in events}
