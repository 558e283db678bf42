"""Random requests over random connections to two workers get the answers that one server gives that has all sessions.

Requests are pipelined, cut at random places, and each connection has some about sessions of both workers.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.background import BackgroundServer
from tests.support.raw import PROTOCOL, Exchange, Http, params
from tests.support.tls import TLS, trusting_context
from tests.support.workers import Worker, Workers
from tests.wire.frames import TEXT, text

SESSIONS = 4
LAST = "WSOK\r\n"
UNKNOWN = "S0123456789abcdef" + "0" * 32 + "Tw1"


@dataclass(frozen=True)
class Line:
    """A control request about one of the sessions of its connection; that beyond the last one does not exist."""

    session: int
    operation: str
    subscription: int

    def line(self, sessions: list[str], number: int) -> str:
        session = [*sessions, UNKNOWN][self.session]
        match self.operation:
            case "add":
                more = f"&LS_subId={self.subscription}&LS_mode=MERGE&LS_group=i&LS_schema=x"
            case "reconf" | "delete":
                more = f"&LS_subId={self.subscription}"
            case "constrain":
                more = "&LS_requested_max_bandwidth=50"
            case _:
                more = ""
        return f"LS_reqId={number}&LS_op={self.operation}{more}&LS_session={session}"


@dataclass(frozen=True)
class Ask:
    """An HTTP request."""

    name: str
    lines: tuple[Line, ...]
    chunked: bool

    def body(self, sessions: list[str], number: int) -> str:
        if self.name == "control":
            texts = [line.line(sessions, 100 * number + place) for place, line in enumerate(self.lines)]
        elif self.name == "msg":
            texts = [params(session=[*sessions, UNKNOWN][self.lines[0].session], reqId=number, message="m", msg_prog=1)]
        else:
            texts = [params(session=[*sessions, UNKNOWN][self.lines[0].session])]
        return "\r\n".join(texts)

    def message(self, sessions: list[str], number: int) -> bytes:
        return text(f"{self.name}\r\n{self.body(sessions, number)}")

    def request(self, sessions: list[str], number: int) -> bytes:
        body = self.body(sessions, number)
        head = f"POST /lightstreamer/{self.name}.txt?LS_protocol={PROTOCOL} HTTP/1.1\r\nHost: localhost\r\n"
        if self.chunked:
            return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode()
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


LINES = st.builds(
    Line,
    st.integers(0, SESSIONS),
    st.sampled_from(["add", "add", "delete", "reconf", "constrain", "nonsense", "destroy"]),
    st.integers(1, 3),
)
ASKS = st.builds(
    Ask,
    st.sampled_from(["control", "control", "control", "msg", "heartbeat"]),
    st.lists(LINES, min_size=1, max_size=4).map(tuple),
    st.booleans(),
)


@dataclass(frozen=True)
class Plan:
    """What one connection does: which worker accepts it, who has its sessions, its requests, where they are cut."""

    at: int
    owners: tuple[int, ...]
    asks: tuple[Ask, ...]
    cuts: tuple[int, ...]
    secure: bool
    websocket: bool

    def data(self, sessions: list[str]) -> list[bytes]:
        """The bytes of each request; on a WebSocket each is followed by a message that is always answered."""
        asked = enumerate(self.asks, 1)
        if self.websocket:
            return [ask.message(sessions, number) + text("wsok") for number, ask in asked]
        return [ask.request(sessions, number) for number, ask in asked]


PLANS = st.builds(
    Plan,
    st.integers(0, 1),
    st.tuples(*[st.integers(0, 1)] * SESSIONS),
    st.lists(ASKS, min_size=1, max_size=6).map(tuple),
    st.lists(st.integers(0, 5_000), max_size=5).map(tuple),
    st.booleans(),
    st.booleans(),
)
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": f"{PROTOCOL}.lightstreamer.com",
}


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    with Workers(("w1", "w2a"), TLS) as found:
        yield found.all


@pytest.fixture(scope="module")
def alone() -> Iterator[BackgroundServer]:
    with BackgroundServer({"server.node": "w1", **TLS}) as found:
        yield found


def connect(server: BackgroundServer, plan: Plan) -> Http:
    tls = trusting_context() if plan.secure else None
    found = Exchange(server.host, server.tls_port if plan.secure else server.port, tls).http()
    found.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if plan.websocket:
        found.get("/lightstreamer", headers=HANDSHAKE)
        assert found.read_head() == 101
    return found


class Conversation:
    """One connection, and what has been sent and answered on it."""

    def __init__(self, plan: Plan, server: BackgroundServer, sessions: list[str]) -> None:
        self.answers: list[tuple[int, str]] = []
        self._plan = plan
        self._lines = ""
        self._http = connect(server, plan)
        requests = plan.data(sessions)
        self._data = b"".join(requests)
        self._ends = list(accumulate(map(len, requests)))
        self._places = sorted({cut % (len(self._data) + 1) for cut in plan.cuts} | {0, len(self._data)})

    def send(self, turn: int, waits: bool) -> None:
        """One piece more; with `waits` all that is complete by now is answered before anything follows it."""
        if turn + 1 < len(self._places):
            start, end = self._places[turn : turn + 2]
            self._http.send(self._data[start:end])
            if waits or end == len(self._data):
                while len(self.answers) < sum(each <= end for each in self._ends):
                    self.answers.append(self._answer())

    def _answer(self) -> tuple[int, str]:
        """The next one; several may come in one frame."""
        http = self._http
        if not self._plan.websocket:
            return http.read_head(), http.read_body().decode()
        while LAST not in self._lines:
            first, size = http.read_bytes(2)
            assert first == 0x80 | TEXT
            self._lines += http.read_bytes(size if size < 126 else int.from_bytes(http.read_bytes(2), "big")).decode()
        found, _, self._lines = self._lines.partition(LAST)
        return 0, found

    def close(self) -> None:
        self._http.close()


def carry_out(plans: list[Plan], waits: bool, servers: list[BackgroundServer]) -> list[list[tuple[int, str]]]:
    """What each connection is answered; the pieces of all of them are sent in turn."""
    with ExitStack() as stack:
        conversations = []
        for plan in plans:
            owners = [servers[owner % len(servers)] for owner in plan.owners]
            streams = [stack.enter_context(Exchange(owner.host, owner.port).stream()) for owner in owners]
            sessions = [stream.session for stream in streams]
            conversations.append(Conversation(plan, servers[plan.at % len(servers)], sessions))
            stack.callback(conversations[-1].close)
        for turn in range(max(len(plan.cuts) for plan in plans) + 1):
            for conversation in conversations:
                conversation.send(turn, waits)
        return [conversation.answers for conversation in conversations]


@given(st.lists(PLANS, min_size=1, max_size=2), st.booleans())
def test_two_workers_answer_as_one_server_does(
    workers: list[Worker], alone: BackgroundServer, plans: list[Plan], waits: bool
) -> None:
    assert carry_out(plans, waits, list(workers)) == carry_out(plans, waits, [alone])
