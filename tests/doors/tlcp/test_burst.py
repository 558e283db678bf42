"""A burst of requests on one WebSocket or in one HTTP body, over real sockets: all are answered, and little of it waits
in memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.kernel.ports import SessionFacts
from tests.adapters.stage import SetServer
from tests.conformance.phrases import add
from tests.support.background import BackgroundServer
from tests.support.raw import PROTOCOL, TIMEOUT, Socket, params

MESSAGES = 2_000
SUBSCRIPTIONS = 3_000
LIMIT = 10

# What a client may make the server hold, whatever it sends: what the limit allows, and one read of the socket.
MOST_BYTES = 4_000_000


@pytest.fixture
def server() -> Iterator[BackgroundServer]:
    with BackgroundServer({}) as running:
        yield running


def connected(server: BackgroundServer) -> Socket:
    socket = Socket(f"ws://{server.host}:{server.port}/lightstreamer", "TLCP-2.4.0.lightstreamer.com")
    socket.create(send_sync=False, keepalive_millis=30_000)
    return socket


def test_two_thousand_messages_at_once_arrive_in_order(server: BackgroundServer) -> None:
    with connected(server) as socket:
        for number in range(1, MESSAGES + 1):
            socket.send("msg", params(reqId=number, message=f"m{number}", sequence="s", msg_prog=number))
        lines = [socket.read_line() for _ in range(2 * MESSAGES)]
        numbers = range(1, MESSAGES + 1)
        assert [line for line in lines if line.startswith("REQ")] == [f"REQOK,{number}" for number in numbers]
        assert [line for line in lines if line.startswith("MSG")] == [f"MSGDONE,s,{number}" for number in numbers]
        assert server.metadata.messages == [f"m{number}" for number in numbers]


def test_messages_without_a_sequence_at_once_arrive_in_order(server: BackgroundServer) -> None:
    with connected(server) as socket:
        for number in range(1, MESSAGES + 1):
            socket.send("msg", params(reqId=number, message=f"m{number}", outcome=False))
        numbers = range(1, MESSAGES + 1)
        assert [socket.read_line() for _ in numbers] == [f"REQOK,{number}" for number in numbers]
        while len(server.metadata.messages) < MESSAGES:
            server.call(int)
        assert server.metadata.messages == [f"m{number}" for number in numbers]


@pytest.mark.parametrize("in_batches", [False, True])
def test_three_thousand_subscriptions_at_once_are_made_in_order(server: BackgroundServer, in_batches: bool) -> None:
    with connected(server) as socket:
        lines = [add(number, group=f"item{number}") for number in range(1, SUBSCRIPTIONS + 1)]
        for start in range(0, SUBSCRIPTIONS, step := 300 if in_batches else 1):
            socket.send("control", *lines[start : start + step])
        found = [socket.read_line() for _ in range(3 * SUBSCRIPTIONS)]
        numbers = range(1, SUBSCRIPTIONS + 1)
        assert [line for line in found if line.startswith("REQ")] == [f"REQOK,{number}" for number in numbers]
        assert [line for line in found if line.startswith("SUB")] == [f"SUBOK,{number},1,1" for number in numbers]


class Waits(MetadataAdapter):
    """Everything waits until the test opens the gate."""

    def __init__(self) -> None:
        self.gate: asyncio.Event
        self.asked = 0

    async def start(self) -> None:
        self.gate = asyncio.Event()

    async def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        self.asked += 1
        await self.gate.wait()
        return [group]

    async def message(self, session: SessionFacts, text: str) -> str | None:
        self.asked += 1
        await self.gate.wait()
        return None


class Feed(DataAdapter):
    quick = True


@contextlib.contextmanager
def slow_server() -> Iterator[tuple[SetServer, Waits]]:
    waits = Waits()
    limits = {"limits.max_unanswered_requests": LIMIT, "limits.max_pending_messages": LIMIT}
    adapter_set = AdapterSet("TEST", waits, {"DEFAULT": Feed()}, timeout_millis=60_000)
    with SetServer([adapter_set], limits) as server:
        yield server, waits
        server.call(waits.gate.set)


def masked(message: str) -> bytes:
    """A WebSocket frame with a mask of zeros."""
    payload = message.encode()
    size = bytes((0x80 | len(payload),)) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return b"\x81" + size + b"\0\0\0\0" + payload


def flood(connection: sockets.socket, message: str) -> int:
    """Send the same message until the server takes no more of them for a second; how many whole ones it was given."""
    frame = masked(message)
    chunk = frame * (1 + 65_536 // len(frame))
    sent = 0
    connection.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        while sent < 200_000_000:
            sent += connection.send(chunk)
    connection.settimeout(TIMEOUT)
    return sent


@pytest.mark.parametrize("kind", ["subscriptions", "messages", "batch"])
def test_a_client_that_sends_without_end_is_not_read_without_end(kind: str) -> None:
    with slow_server() as (server, waits), connected(server) as socket:
        one = {
            "subscriptions": "control\r\n" + add(1, group="a" * 20_000),
            "messages": "msg\r\n" + params(reqId=1, message="a" * 20_000, outcome=False),
            "batch": "control\r\n" + "\r\n".join([add(7)] * 300),
        }[kind]
        tracemalloc.start()
        try:
            sent = flood(socket.connection.socket, one)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # The system's own buffers take some megabytes, this test's library of the other side none: it does not read.
        assert sent < 50_000_000
        assert held < MOST_BYTES
        assert not _connection(server).listening
        assert waits.asked <= LIMIT
        # What it has sent since is never read.
        socket.connection.socket.close()


def _connection(server: SetServer) -> WebSocketConnection:
    def find() -> WebSocketConnection:
        (found,) = [one for one in server.server.stream.connections if isinstance(one, WebSocketConnection)]
        return found

    return server.call(find)


def test_a_message_that_others_wait_for_is_taken_in_although_there_is_no_room() -> None:
    with slow_server() as (server, waits), connected(server) as socket:
        # The first number is missing, and what has come fills the room.
        for number in range(2, LIMIT + 2):
            socket.send("msg", params(reqId=number, message="m", sequence="s", msg_prog=number))
        for number in range(2, LIMIT + 2):
            assert socket.read_line() == f"REQOK,{number}"
        socket.send("msg", params(reqId="late", message="m", outcome=False))
        socket.send("msg", params(reqId="first", message="m", sequence="s", msg_prog=1))
        assert socket.read_line() == "REQOK,first"
        server.call(waits.gate.set)
        lines = [socket.read_line() for _ in range(LIMIT + 2)]
        assert [line for line in lines if line.startswith("MSG")] == [
            f"MSGDONE,s,{number}" for number in range(1, LIMIT + 2)
        ]
        assert "REQOK,late" in lines


def test_what_one_http_body_asks_for_is_answered_in_one_piece() -> None:
    """Clients of version 8 take the first piece for the whole answer, and close the connection."""
    numbers = range(1, 3 * LIMIT + 1)
    batch = [params(reqId=number, message=f"m{number}", sequence="s", msg_prog=number) for number in numbers]
    with slow_server() as (server, waits), server.open("TEST") as stream, server.exchange.http() as http:
        http.post("msg", "\r\n".join(batch), f"LS_protocol={PROTOCOL}&LS_session={stream.session}")
        while not waits.asked:
            server.call(int)
        # Some have been accepted, and the others wait for room. So much for this turn of the loop.
        server.call(int)
        server.call(waits.gate.set)
        http.read_head()
        assert "transfer-encoding" not in http.headers
        assert http.read_body().decode().split("\r\n")[:-1] == [f"REQOK,{number}" for number in numbers]
        done = [stream.read_until("MSGDONE")[-1] for _ in numbers]
        assert done == [f"MSGDONE,s,{number}" for number in numbers]


def test_a_message_that_waits_for_room_is_refused_when_its_session_ends() -> None:
    with slow_server() as (server, waits), connected(server) as socket:
        for number in range(2, LIMIT + 3):
            socket.send("msg", params(reqId=number, message="m", sequence="s", msg_prog=number))
        for number in range(2, LIMIT + 2):
            assert socket.read_line() == f"REQOK,{number}"
        socket.send("control", params(reqId="end", op="destroy"))
        lines = [socket.read_line() for _ in range(3)]
        assert sorted(lines) == [
            "END,31,Destroy invoked by client",
            "REQERR,12,20,LS_session: The session has been closed",
            "REQOK,end",
        ]
        assert not waits.asked
