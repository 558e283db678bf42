from __future__ import annotations

import fcntl
import os
import select
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed

from penstock.doors.stream.http import StreamConnection
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.kernel.recovery import Batch
from penstock.transport import closing
from penstock.transport.websocket import MAX_UNREAD
from tests.support.background import BackgroundServer
from tests.support.hostile import CREATE, FORGETFUL, UPGRADE, Hostile, post, statuses
from tests.support.raw import Exchange, params
from tests.support.tls import TLS, trusting_context
from tests.support.witness import PATIENCE, Witness
from tests.wire import frames

pytestmark = pytest.mark.config(FORGETFUL)

# More than any limit here allows, so that it shows if one does not hold.
FLOOD = 16_000_000
# Seconds after which a server that has not read has stopped reading.
STUCK = 0.5


def connection_of(server: BackgroundServer, client: Hostile) -> StreamConnection | WebSocketConnection:
    """The server's side of a connection."""
    port = client.socket.getsockname()[1]

    def find() -> list[StreamConnection | WebSocketConnection]:
        return [
            entry
            for entry in server.server.stream.connections
            if isinstance(entry, StreamConnection | WebSocketConnection)
            and entry.transport.get_extra_info("peername")[1] == port
        ]

    deadline = time.monotonic() + PATIENCE
    # It is there when the server has accepted it, which takes some turns of its loop.
    while not (found := server.call(find)):
        assert time.monotonic() < deadline
    return found[0]


def send_until_stuck(client: Hostile, data: bytes, patience: float = STUCK) -> int:
    """Send the data again and again until the server stops reading; how many bytes it took."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    client.socket.setblocking(False)
    sent = 0
    while sent < FLOOD and select.select([], [client.socket], [], patience)[1]:
        sent += client.socket.send(data[sent % len(data) :])
    client.socket.settimeout(15)
    return sent


def secured(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.tls_port, trusting_context())


def reads_little(client: Hostile) -> None:
    """Keep the system from taking megabytes in the client's name."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)


def test_answers_that_nobody_reads_stop_the_requests(server: BackgroundServer, witness: Witness) -> None:
    with Hostile(server) as client:
        reads_little(client)
        request = b"GET /nothing/%s HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * 1000)
        sent = send_until_stuck(client, request * 50)
        assert sent < FLOOD
        connection = connection_of(server, client)
        assert isinstance(connection, StreamConnection)
        assert server.call(connection.transport.get_write_buffer_size) < 200_000
        assert len(connection._waiting) < 1_000
        witness.still_sees_updates()


def test_pongs_that_nobody_reads_stop_the_pings(server: BackgroundServer, witness: Witness) -> None:
    with Hostile(server) as client:
        reads_little(client)
        client.open_websocket()
        sent = send_until_stuck(client, frames.frame(frames.PING, b"x" * 125) * 400)
        assert sent < FLOOD
        connection = connection_of(server, client)
        assert server.call(connection.transport.get_write_buffer_size) < 2 * MAX_UNREAD
        witness.still_sees_updates()


def test_a_client_that_reads_its_answers_after_all_gets_every_one(server: BackgroundServer, witness: Witness) -> None:
    with Hostile(server) as client:
        reads_little(client)
        client.open_websocket()
        ping = frames.frame(frames.PING, b"x" * 125)
        sent = send_until_stuck(client, ping * 400)
        rest = -sent % len(ping)
        found = b""
        while len(found) < sent // len(ping) * 127:
            found += client.socket.recv(65_536)
        client.send(ping[len(ping) - rest :] + frames.close(1000))
        *pongs, last = frames.server_frames(found + client.read_all())
        assert len(pongs) == -(-sent // len(ping))
        assert {entry.opcode for entry in pongs} == {frames.PONG}
        assert last.opcode == frames.CLOSE


def test_frames_behind_a_request_that_waits_are_not_collected_without_end(
    server: BackgroundServer, witness: Witness
) -> None:
    with Hostile(server) as client:
        # The session streams, so the request for a WebSocket behind it waits as long as the session lives.
        client.send(post("create_session", CREATE) + UPGRADE)
        client.read_until(b"CONS,")
        assert send_until_stuck(client, b"\0" * 65_536) < FLOOD
        connection = connection_of(server, client)
        assert isinstance(connection, StreamConnection)
        assert len(connection._parser.leftover or b"") < 1_000_000
        witness.still_sees_updates()


def test_a_stream_behind_nonsense_goes_on_and_the_nonsense_is_dropped(
    server: BackgroundServer, witness: Witness
) -> None:
    with Hostile(server) as client:
        client.send(post("create_session", CREATE) + b"\0nonsense")
        client.read_until(b"CONS,")
        assert send_until_stuck(client, b"nonsense" * 8_000, patience=20) >= FLOOD
        client.read_until(b"PROBE")


@pytest.mark.parametrize("data", [post("heartbeat", "", "Connection: close"), b"nonsense", b"GET / HTTP/1.0\r\n\r\n"])
def test_a_client_that_does_not_close_after_the_last_answer_is_closed(
    server: BackgroundServer, witness: Witness, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(closing, "LINGER", 0.05)
    with Hostile(server) as client:
        client.send(data)
        assert len(statuses(client.read_all())) == 1
        witness.finds_nothing_left()


def test_a_slow_client_gets_all_of_its_last_answer(
    server: BackgroundServer, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "LINGER", 0.0)
    with Hostile(server) as client:
        reads_little(client)
        transport = connection_of(server, client).transport
        # Little room in the system, so that most of the answer waits in the server.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        client.send(post("control", "x\r\n" * 16_000, "Connection: close"))
        answered = client.read_until(b"ERROR")
        witness.eventually(lambda: server.call(transport.get_write_buffer_size) > 200_000)
        witness.still_sees_updates()
        assert (answered + client.read_all()).count(b"ERROR,67,") == 16_000


@pytest.mark.config({**FORGETFUL, "limits.read_timeout_millis": 100})
def test_a_client_that_left_during_a_long_check_of_its_name_is_forgotten(
    server: BackgroundServer, witness: Witness
) -> None:
    for pipelined in (b"", post("heartbeat", "")):
        with Hostile(server) as client:
            client.send(pipelined + post("create_session", CREATE + "&LS_user=slow"))
            client.finish_sending()
            witness.finds_nothing_left()


def test_a_client_that_waits_for_a_go_ahead_gets_it_when_its_turn_comes(
    server: BackgroundServer, witness: Witness
) -> None:
    head, body = post("heartbeat", "LS_session=S1", "Expect: 100-continue").split(b"\r\n\r\n")
    with Hostile(server) as client:
        client.send(post("heartbeat", "") + head + b"\r\n\r\n")
        assert client.read_until(b"100 Continue\r\n\r\n").endswith(b"REQOK\r\nHTTP/1.1 100 Continue\r\n\r\n")
        client.send(body)
        assert client.read_until(b"REQOK\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_session_bound_while_the_socket_is_full_holds_its_updates_until_it_drains(server: BackgroundServer) -> None:
    with Exchange(server.host, server.port).socket() as client:
        client.send("wsok")
        assert client.read_line() == "WSOK"
        (connection,) = server.server.stream.connections
        assert isinstance(connection, WebSocketConnection)
        server.call(connection.pause_writing)  # What the transport does when too much is unread.
        client.create()
        client.send("control", params(reqId=1, op="add", subId=1, group="a", schema="x", mode="MERGE"))
        assert client.read_line() == "REQOK,1"
        for number in range(10):
            server.update("a", x=str(number))
        server.call(connection.resume_writing)
        assert client.read_until("U") == ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,9"]


def test_what_the_system_takes_in_parts_arrives_whole_and_in_order(server: BackgroundServer) -> None:
    """Updates of 100 kB, faster than they are read: the system takes a part of one, the transport has the rest."""
    with Exchange(server.host, server.port).socket() as client:
        client.create()
        ask = params(reqId=1, op="add", subId=1, group="a", schema="x", mode="RAW", requested_buffer_size=100)
        client.send("control", ask)
        client.read_until("CONF")
        (connection,) = server.server.stream.connections
        assert isinstance(connection, WebSocketConnection)
        client.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        choked = 0
        for first in range(0, 100, 20):
            numbers = range(first, first + 20)
            for number in numbers:
                server.update("a", x=f"{number}:".ljust(100_000, "x"))
                choked += server.call(lambda: connection.congested)
            for number in numbers:
                assert client.read_until("U")[-1] == f"U,1,1,{number}:".ljust(100_006, "x")
        assert choked


@pytest.mark.config({**FORGETFUL, **TLS})
@pytest.mark.parametrize("secure", [False, True])
def test_chunks_that_the_system_takes_in_parts_arrive_whole_and_in_order(
    server: BackgroundServer, secure: bool
) -> None:
    """The same for a stream over HTTP, whose chunks pass the transport by as well; also if they are sealed before."""
    exchange = secured(server) if secure else Exchange(server.host, server.port)
    with exchange.stream(send_sync=False, content_length=100_000_000) as stream:
        ask = {"op": "add", "subId": 1, "group": "a", "schema": "x", "mode": "RAW", "requested_buffer_size": 100}
        exchange.control(stream.session, reqId=1, **ask)
        stream.read_until("CONF")
        port = stream.http.socket.getsockname()[1]
        connection = next(
            entry
            for entry in server.server.stream.connections
            if isinstance(entry, StreamConnection) and entry.client_port == port
        )
        stream.http.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        choked = 0
        for first in range(0, 100, 20):
            numbers = range(first, first + 20)
            for number in numbers:
                server.update("a", x=f"{number}:".ljust(100_000, "x"))
                choked += server.call(lambda: connection.choked)
            for number in numbers:
                assert stream.read_until("U")[-1] == f"U,1,1,{number}:".ljust(100_006, "x")
        assert choked


def test_no_chunk_is_written_to_a_socket_that_is_gone(server: BackgroundServer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(server.host, server.port)
        with exchange.stream(send_sync=False):
            (connection,) = server.server.stream.connections
            assert isinstance(connection, StreamConnection)
            server.call(connection.write_now, b"1\r\n\n\r\n")
            number = connection.transport.get_extra_info("socket").fileno()
            server.call(connection.cut)
            while not server.call(lambda: connection.lost):
                pass
        again = fcntl.fcntl(ours, fcntl.F_DUPFD, number)
        assert again == number
        server.call(connection.write_now, b"1\r\n\n\r\n")
        os.close(again)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_nothing_is_written_to_a_socket_that_is_gone(server: BackgroundServer) -> None:
    """Its number may be that of another client's connection by then."""
    # Made before, so that neither of the two is given the number that gets free.
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with Exchange(server.host, server.port).socket() as client:
            client.create()
            (connection,) = server.server.stream.connections
            assert isinstance(connection, WebSocketConnection)
            number = connection.transport.get_extra_info("socket").fileno()
            server.call(connection.cut)
            with pytest.raises(ConnectionClosed):
                client.connection.recv()
        assert server.call(lambda: connection.lost)
        again = fcntl.fcntl(ours, fcntl.F_DUPFD, number)
        assert again == number
        server.call(connection.send, Batch(0.0, [b"U,1,1,x\r\n"]))
        os.close(again)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.config(TLS)
def test_over_tls_nothing_waits_for_a_connection_that_is_empty(server: BackgroundServer) -> None:
    exchange = secured(server)
    with exchange.stream(send_sync=False, keepalive_millis=30_000) as stream:
        exchange.control(stream.session, reqId=1, op="add", subId=1, group="a", schema="x", mode="MERGE")
        for number in range(50):
            server.update("a", x=str(number))
            assert stream.read_until("U")[-1] == f"U,1,1,{number}"
            for connection in list(server.server.stream.connections):
                assert not (isinstance(connection, StreamConnection) and connection.choked)


def test_updates_are_not_held_back_by_the_system_to_be_sent_together(server: BackgroundServer) -> None:
    with Hostile(server) as client:
        client.open_websocket()
        transport = connection_of(server, client).transport
        found = transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 16_384


@pytest.mark.config({**TLS, "limits.write_timeout_millis": 200})
def test_over_tls_one_who_does_not_read_is_counted_and_disconnected(server: BackgroundServer) -> None:
    exchange = Exchange(server.host, server.tls_port, trusting_context(), receive_buffer=16_384)
    with exchange.stream(send_sync=False, content_length=100_000_000) as stream:
        ask = {"op": "add", "subId": 1, "group": "a", "schema": "x", "mode": "RAW", "requested_buffer_size": 100}
        exchange.control(stream.session, reqId=1, **ask)
        stream.read_until("CONF")
        port = stream.http.socket.getsockname()[1]
        (connection,) = [
            entry
            for entry in server.server.stream.connections
            if isinstance(entry, StreamConnection) and entry.client_port == port
        ]
        deadline = time.monotonic() + PATIENCE
        while not server.call(lambda: connection.choked or connection.lost):
            assert time.monotonic() < deadline
            server.update("a", x="x" * 100_000)
        while not server.call(lambda: connection.lost):
            assert time.monotonic() < deadline
            waiting = server.call(connection.transport.get_write_buffer_size)
            assert connection.lost or waiting > 0
        assert server.call(lambda: len(server.server.stream.slow)) == 0
