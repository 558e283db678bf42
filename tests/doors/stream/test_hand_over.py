"""Requests that come to another worker than the one that has their session: clients see no difference."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.transport.http import HttpConnection
from tests.support.proxy import version_1
from tests.support.raw import CID, PROTOCOL, TIMEOUT, Exchange, Http, Socket, params, tags
from tests.support.tls import TLS, trusting_context
from tests.support.workers import Worker, Workers
from tests.wire.frames import frame

# On uvloop and on asyncio's own loop; each gives to the other, and takes from it.
NAMES = [("w1", "w2a"), ("w1a", "w2")]


@pytest.fixture(params=NAMES, ids="-".join)
def workers(request: pytest.FixtureRequest) -> Iterator[list[Worker]]:
    marker = request.node.get_closest_marker("config")
    with Workers(request.param, marker.args[0] if marker else {}) as found:
        yield found.all


def add(session: str, number: int, **more: object) -> str:
    return params(
        session=session, reqId=number, op="add", subId=number, mode="MERGE", group=f"item{number}", schema="x", **more
    )


def answer(http: Http) -> str:
    assert http.read_head() == 200
    return http.read_body().decode()


# -- HTTP ----------------------------------------------------------------------------------------------------------


def test_a_control_connection_goes_to_the_worker_of_its_session_and_stays_there(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.http() as http:
        for number in (1, 2, 3):
            http.post("control", add(stream.session, number))
            assert answer(http) == f"REQOK,{number}\r\n"
            assert tags(stream.read_until("CONF")) == ["SUBOK", "CONF"]
        wait_for_given(two, 1)
        assert one.neighbours.taken == 1
        wait_for_nobody(two)


def test_a_connection_goes_to_and_fro_when_its_requests_are_about_sessions_of_both(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as first, two.exchange.stream() as second, two.exchange.http() as http:
        for number in range(1, 9):
            http.post("control", add((first, second)[number % 2].session, number))
            assert answer(http) == f"REQOK,{number}\r\n"
        wait_for_given(one, 3)
        wait_for_given(two, 4)


def test_pipelined_requests_about_sessions_of_both_are_answered_in_order(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as first, two.exchange.stream() as second, two.exchange.http() as http:
        requests = [
            (f"POST /lightstreamer/control.txt?LS_protocol={PROTOCOL} HTTP/1.1\r\nHost: h\r\n", add(session, number))
            for number, session in enumerate([first.session, second.session, second.session, first.session] * 5, 1)
        ]
        data = b"".join(
            f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode()
            if number % 3
            else f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
            for number, (head, body) in enumerate(requests)
        )
        # The last one is complete only after everything before it has been answered.
        http.send(data[:-30])
        for number in range(1, 20):
            assert answer(http) == f"REQOK,{number}\r\n"
        http.send(data[-30:])
        assert answer(http) == "REQOK,20\r\n"


def test_a_compressed_body_and_a_body_that_waits_for_leave_arrive_whole(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.http() as http:
        http.post("control", gzip.compress(add(stream.session, 1).encode()), headers={"Content-Encoding": "gzip"})
        assert answer(http) == "REQOK,1\r\n"
    with one.exchange.stream() as stream, two.exchange.http() as http:
        body = add(stream.session, 2)
        http.post("control", "", headers={"Expect": "100-continue", "Content-Length": str(len(body))})
        assert http.read_head() == 100
        http.send(body.encode())
        assert answer(http) == "REQOK,2\r\n"


def test_a_stream_is_bound_by_a_connection_to_another_worker(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    with two.exchange.http() as http:
        http.post("bind_session", params(session=session))
        http.read_head()
        assert http.read_until("CONOK")[0].startswith(f"CONOK,{session},")
        assert two.exchange.control(session, reqId=1, op="add", subId=1, mode="MERGE", group="i", schema="x") == [
            "REQOK,1"
        ]
        http.read_until("CONF")
        one.update("i", x="5")
        assert http.read_until("U") == ["U,1,1,5"]


def test_a_session_is_polled_over_one_connection_to_another_worker(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    with two.exchange.http() as http:
        for number in range(1, 5):
            http.post("control", add(session, number))
            assert answer(http) == f"REQOK,{number}\r\n"
            http.post("bind_session", params(session=session, polling=True, polling_millis=0, idle_millis=0))
            lines = answer(http).split("\r\n")
            assert f"SUBOK,{number},1,1" in lines
            assert lines[-2].startswith("LOOP")
        wait_for_given(two, 1)
        assert one.neighbours.given == 0


def test_a_client_that_has_closed_its_sending_side_is_still_answered(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.http() as http:
        http.post("control", add(stream.session, 1))
        http.socket.shutdown(socket.SHUT_WR)
        assert answer(http) == "REQOK,1\r\n"
        assert http.is_closed()


def test_a_heartbeat_keeps_a_session_of_another_worker_alive(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.http() as http:
        http.post("heartbeat", params(session=stream.session))
        assert answer(http) == "REQOK\r\n"
        wait_for_given(two, 1)


# -- batches -------------------------------------------------------------------------------------------------------


def test_each_line_of_a_batch_is_answered_by_its_worker_in_the_order_of_the_lines(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as first, two.exchange.stream() as second:
        sessions = [first.session, second.session, "S1", second.session, first.session, first.session]
        lines = [add(session, number) for number, session in enumerate(sessions, 1)]
        lines.insert(2, "LS_op=nonsense&LS_reqId=77&LS_session=" + first.session)
        found = two.exchange.request("control", "\r\n".join(lines))
        assert [line.split(",")[:3] for line in found] == [
            ["REQOK", "1"],
            ["REQOK", "2"],
            ["REQERR", "77", "65"],
            ["REQERR", "3", "20"],
            ["REQOK", "4"],
            ["REQOK", "5"],
            ["REQOK", "6"],
        ]


def test_a_batch_about_one_session_goes_with_its_connection(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream:
        lines = [add(stream.session, number) for number in range(1, 300)]
        assert two.exchange.request("control", "\r\n".join(lines)) == [f"REQOK,{number}" for number in range(1, 300)]
        wait_for_given(two, 1)
        assert two.neighbours.relayed == 0


# -- the older protocol --------------------------------------------------------------------------------------------


def text6(worker: Worker, name: str, body: str) -> list[str]:
    return worker.exchange.request(name, body, "")


def test_the_older_protocol_goes_to_the_worker_of_the_session_too(workers: list[Worker]) -> None:
    one, two = workers
    create = f"LS_op2=create&LS_cid={CID}&LS_adapter_set=TEST&LS_polling=true"
    first, second = [
        next(line.partition(":")[2] for line in text6(worker, "create_session", create) if line.startswith("SessionId"))
        for worker in workers
    ]

    def table(session: str, number: int) -> str:
        return f"LS_session={session}&LS_op=add&LS_table={number}&LS_id=i&LS_schema=x&LS_mode=MERGE"

    assert text6(two, "control", table(first, 1)) == ["OK"]
    wait_for_given(two, 1)
    batch = [table(first, 2), table(second, 1), table("S", 3), table(first, 4), table(second, 4)]
    assert text6(two, "control", "\r\n".join(batch)) == ["OK", "OK", "SYNC ERROR", "OK", "OK"]
    assert two.neighbours.relayed == 2
    # An error without a code takes the place of all answers.
    with two.exchange.http() as http:
        http.post("control", "\r\n".join([table(second, 5), table(first, 2)]), "")
        assert http.read_head() == 500
        assert b"2" in http.read_body()
    one.update("i", x="5")
    lines = text6(two, "bind_session", f"LS_session={first}&LS_polling=true&LS_polling_millis=0&LS_idle_millis=5000")
    assert "1,1|5" in lines


# -- WebSockets ----------------------------------------------------------------------------------------------------


def test_a_socket_goes_to_the_worker_of_the_session_that_it_binds(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll, two.exchange.socket() as client:
        client.send("wsok")
        assert client.read_line() == "WSOK"
        # One message after the other, of which the later ones need what the first one binds.
        client.send("bind_session", params(session=poll.session))
        client.send("control", params(reqId=1, op="add", subId=1, mode="MERGE", group="i", schema="x"))
        client.send("msg", params(reqId=2, message="hello", msg_prog=1))
        client.send("wsok")
        assert tags(client.read_until("CONOK")) == ["CONOK"]
        found = client.read_until("WSOK") + client.read_until("MSGDONE")
        assert [line for line in found if line.split(",")[0] in ("REQOK", "MSGDONE")] == [
            "REQOK,1",
            "REQOK,2",
            "MSGDONE,*,1",
        ]
        one.update("i", x="5")
        assert client.read_until("U")[-1] == "U,1,1,5"
        # The client may be answered before the worker that gave its connection away knows that it is taken.
        wait_for_nobody(two)
        assert two.call(lambda: two.server.stream.websockets) == 0
        assert one.call(lambda: one.server.stream.websockets) == 1
        client.connection.ping().wait(5)


def test_a_socket_is_handed_over_in_the_middle_of_a_message(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll, two.exchange.http() as http:
        handshake = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": f"{PROTOCOL}.lightstreamer.com",
        }
        http.get("/lightstreamer", headers=handshake)
        assert http.read_head() == 101
        bind = frame(1, f"bind_session\r\n{params(session=poll.session)}".encode())
        control = b"control\r\n" + params(reqId=1, op="add", subId=1, mode="MERGE", group="i", schema="x").encode()
        rest = frame(0, control[20:30], final=False) + frame(0, control[30:])
        http.send(bind + frame(1, control[:20], final=False) + rest[:9])
        seen = b""
        while b"CONOK" not in seen:
            seen += http.socket.recv(65536)
        http.send(rest[9:])
        while b"REQOK,1" not in seen:
            seen += http.socket.recv(65536)
        wait_for_given(two, 1)


def test_a_bound_socket_has_requests_about_other_sessions_relayed_in_their_order(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.socket() as client:
        client.create()
        for number in range(1, 41):
            # The second of each pair would be refused if it came first.
            client.send("control", add(stream.session, number))
            client.send("control", params(session=stream.session, reqId=100 + number, op="delete", subId=number))
        client.send("control", add(client.session, 99))
        found: list[str] = []
        while len(found) < 81:
            found += [line for line in [client.read_line()] if line.startswith("REQ")]
        assert sorted(found) == sorted(f"REQOK,{number}" for number in [*range(1, 41), *range(101, 141), 99])
        assert two.neighbours.relayed == 80
        # The socket has stayed where its session is.
        assert two.call(lambda: two.server.stream.websockets) == 1


def test_what_a_socket_is_not_told_is_not_told_by_a_relay_either(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.socket() as client:
        client.create()
        client.send("heartbeat", params(session=stream.session))
        client.send("control", add(stream.session, 1, ack=False))
        client.send("control", params(session=stream.session, reqId=2, op="delete", subId=7, ack=False))
        client.send("msg", params(session=stream.session, reqId=3, message="hello", msg_prog=1))
        found = [line for line in client.read_until("REQERR") if not line.startswith("CONS")]
        found += client.read_until("REQOK") if "REQOK,3" not in found else []
        assert [line.split(",")[:3] for line in sorted(found)] == [["REQERR", "2", "19"], ["REQOK", "3"]]
        assert stream.read_until("MSGDONE")[-1] == "MSGDONE,*,1"


def test_requests_that_wait_for_a_session_being_opened_go_nowhere(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.socket() as client:
        client.send("create_session", f"{params(adapter_set='TEST')}&LS_cid={CID}")
        client.send("control", add(stream.session, 1))
        client.send("control", params(reqId=2, op="add", subId=2, mode="MERGE", group="i", schema="x"))
        client.send("bind_session", params(session=stream.session))
        found: list[str] = []
        while sum(line.startswith(("REQOK", "CONERR")) for line in found) < 3:
            found.append(client.read_line())
        assert {"REQOK,1", "REQOK,2"} <= set(found)
        assert two.call(lambda: two.server.stream.websockets) == 1


# -- TLS -----------------------------------------------------------------------------------------------------------


@pytest.mark.config(TLS)
def test_with_tls_a_connection_is_relayed(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as first, two.exchange.stream() as second, two.secure_exchange.http() as http:
        for number in range(1, 9):
            http.post("control", add((first, second)[number % 2].session, number))
            assert answer(http) == f"REQOK,{number}\r\n"
        http.post("bind_session", params(session=first.session))
        http.read_head()
        assert http.read_until("CONOK")
        # It knows the listener by which the client has come.
        there = one.call(lambda: [each for each in one.server.stream.connections if isinstance(each, HttpConnection)])
        assert [each.entrance.name for each in there].count("stream.tls") == 1
        one.update("item2", x="5")
        assert http.read_until("U")[-1].endswith(",1,5")
    wait_for_nobody(one)
    wait_for_nobody(two)


@pytest.mark.config(TLS)
def test_with_tls_a_socket_is_relayed(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    url = f"wss://localhost:{two.tls_port}/lightstreamer"
    with Socket(url, f"{PROTOCOL}.lightstreamer.com", tls=trusting_context()) as client:
        client.send("bind_session", params(session=session))
        client.send("control", params(reqId=1, op="add", subId=1, mode="MERGE", group="i", schema="x"))
        assert "REQOK,1" in client.read_until("CONF")
        one.update("i", x="5")
        assert client.read_until("U") == ["U,1,1,5"]
    wait_for_nobody(one)
    wait_for_nobody(two)


@pytest.mark.config(TLS)
def test_a_relay_passes_on_that_its_client_does_not_read(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    with Exchange(two.host, two.tls_port, trusting_context(), receive_buffer=4096).http() as http:
        http.post("bind_session", params(session=session, content_length=100_000_000))
        http.read_head()
        http.read_until("CONOK")
        one.exchange.control(session, reqId=1, op="add", subId=1, mode="MERGE", group="i", schema="x", snapshot=True)
        for number in range(400):
            one.update("i", x=f"{number} {'x' * 20_000}")
        found = one.call(one.server.kernel.find_session, session)
        # Of eight million bytes most were replaced by fresher ones before they were sent.
        assert one.call(lambda: found.figures().updates) < 300
        lines = http.read_until("U")
        while not lines[-1].startswith("U,1,1,399 "):
            lines = http.read_until("U")
        assert one.call(lambda: found.figures().updates) < 300


# -- who the client is ---------------------------------------------------------------------------------------------


@pytest.mark.config({"stream.proxies.addresses": ["127.0.0.1"], "stream.proxies.proxy_protocol": True})
def test_the_client_is_still_the_one_that_a_proxy_has_named(workers: list[Worker]) -> None:
    one, two = workers

    def proxied(worker: Worker, address: str) -> Http:
        http = worker.exchange.http()
        http.send(version_1(address, 4711))
        return http

    with proxied(one, "198.51.100.7") as http:
        http.post("create_session", f"{params(adapter_set='TEST', polling=True)}&LS_cid={CID}")
        http.read_head()
        session = http.read_until("CONS")[0].split(",")[1]
    with proxied(two, "198.51.100.8") as http:
        http.post("bind_session", params(session=session))
        http.read_head()
        assert "CLIENTIP,198.51.100.8" in http.read_until("CONS", "CLIENTIP")
        assert counted(one) == 1


@pytest.mark.config({"stream.proxies.addresses": ["127.0.0.1"], "stream.proxies.client_header": "X-Forwarded-For"})
def test_the_client_is_still_the_one_that_a_header_names(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    with two.exchange.http() as http:
        http.post("bind_session", params(session=session), headers={"X-Forwarded-For": "198.51.100.9"})
        http.read_head()
        assert "CLIENTIP,198.51.100.9" in http.read_until("CLIENTIP")
        assert counted(one) == 1
    url = f"ws://{two.host}:{two.port}/lightstreamer"
    named = {"X-Forwarded-For": "198.51.100.10"}
    with Socket(url, f"{PROTOCOL}.lightstreamer.com", headers=named) as client:
        client.send("bind_session", params(session=session))
        assert "CLIENTIP,198.51.100.10" in client.read_until("CLIENTIP")
    wait_for_nobody(one)


# -- those that cannot take it ---------------------------------------------------------------------------------------


def test_a_worker_that_is_not_there_is_one_whose_sessions_are_foreign(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    one.stop()
    assert two.exchange.control(session, reqId=1, op="destroy")[0].startswith("REQERR,1,11,")
    assert two.exchange.request("bind_session", params(session=session))[0].startswith("CONERR,21,")
    with two.exchange.socket() as client:
        client.send("bind_session", params(session=session))
        assert client.read_line().startswith("CONERR,21,")
        client.create()
        assert client.session.endswith(f"T{two.name}")


def test_a_socket_left_behind_by_a_worker_that_was_killed_is_nobody(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream(polling=True) as poll:
        session = poll.session
    left = Path(one.neighbours._path(one.name))
    other = left.with_name("other")
    left.rename(other)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    assert two.exchange.control(session, reqId=1, op="destroy")[0].startswith("REQERR,1,11,")
    with two.exchange.socket() as client:
        client.send("bind_session", params(session=session))
        client.send("wsok")
        assert client.read_line().startswith("CONERR,21,")
        assert client.read_line() == "WSOK"


@pytest.mark.config({"limits.connections_per_address": 2})
def test_limits_apply_to_connections_that_are_handed_over(workers: list[Worker]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, one.exchange.http() as second, two.exchange.http() as http:
        second.get("/health")
        second.read_head()
        http.post("control", add(stream.session, 1))
        assert http.read_head() == 503
        assert b"Too many connections" in http.read_body()
        with two.exchange.socket() as client:
            client.send("control", add(stream.session, 2))
            assert client.read_line().startswith("REQERR,2,11,")


def wait_for_given(worker: Worker, count: int) -> None:
    """Until the worker knows that so many connections have been taken: clients may be answered before."""
    deadline = time.monotonic() + TIMEOUT
    while worker.call(lambda: worker.neighbours.given) < count:
        assert time.monotonic() < deadline
    assert worker.call(lambda: worker.neighbours.given) == count


def counted(worker: Worker) -> int:
    """Connections that count as somebody's."""
    return worker.call(lambda: len(worker.server.stream.connection_census))


def wait_for_nobody(worker: Worker) -> None:
    """Until the worker has no connection; then nobody has one."""
    deadline = time.monotonic() + TIMEOUT
    while worker.call(lambda: len(worker.server.stream.connections)):
        assert time.monotonic() < deadline
    assert counted(worker) == 0
