"""The recovery property over real sockets: HTTP streams broken off after any number of bytes, again and again."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable

import pytest
from hypothesis import settings

from penstock.client.events import ClientEvent, Overflow, Update
from penstock.client.requests import OutgoingRequest, StreamWishes
from penstock.client.tlcp import ClientState
from penstock.kernel.item import Mode
from penstock.kernel.session import Session
from penstock.testing import Model
from tests.support.background import BackgroundServer
from tests.support.raw import TIMEOUT, Exchange

pytestmark = pytest.mark.timeout(600)

# Cuts per test: a thousand, or twenty times as many in the long profile.
CUTS = 10 * settings().max_examples

# How much of a response is read before it breaks: nothing, a part of the head, of the padding, of the data.
BUDGETS = (0, 200, 400, 1_000, 3_000, 20_000, 20_000)

ITEMS = ("a", "b")


class Body:
    """Takes the bytes of a response, which may end anywhere, and gives those of its body at once.

    A stream is chunked; an answer that was complete when it began is not.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._in_head = True
        self._is_chunked = False
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        if self._in_head:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return b""
            assert b"200 OK" in head
            self._in_head = False
            self._is_chunked = b"Transfer-Encoding: chunked" in head
            self._buffer = rest
        if not self._is_chunked:
            body, self._buffer = self._buffer, b""
            return body
        body = b""
        while self._buffer:
            if not self._left:
                size, separator, rest = self._buffer.lstrip(b"\r\n").partition(b"\r\n")
                if not separator:
                    break
                self._left = int(size, 16)
                self._buffer = rest
                if not self._left:
                    break
            part = self._buffer[: self._left]
            self._buffer = self._buffer[len(part) :]
            self._left -= len(part)
            body += part
        return body


class Victim:
    """A client whose connections break all the time."""

    def __init__(self, server: BackgroundServer, seed: int) -> None:
        self.server = server
        self.exchange = Exchange(server.host, server.port)
        self.random = random.Random(seed)
        self.state = ClientState()
        self.model = Model()
        self.seen: dict[tuple[int, int], list[Update | Overflow]] = {}
        self.sessions = 0
        self.cuts = 0
        self.published = 0
        self._socket: socket.socket
        self._body: Body

    # -- the connection -----------------------------------------------------------------------------------------------

    def connect(self, request: OutgoingRequest) -> None:
        body = request.body()
        head = f"POST {request.target(self.state.version)} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket = socket.create_connection((self.server.host, self.server.port), TIMEOUT)
        self._socket.sendall(head.encode() + body)
        self._body = Body()

    def read(self, budget: int) -> None:
        """Read until nothing more is owed, or the connection says LOOP, or the budget is used up."""
        self._read(budget, self.has_everything)

    def _read(self, budget: int, is_enough: Callable[[], bool]) -> None:
        while budget > 0 and not self.state.is_looped and not is_enough():
            data = self._socket.recv(min(budget, 4_096))
            assert data, "the server has closed the connection"
            budget -= len(data)
            for event in self.state.receive_data(self._body.feed(data)):
                self._note(event)

    def catch_up(self) -> None:
        """Read all that is owed, over as many connections as it takes: any of them may be used up and say LOOP."""
        while not self.is_current() or self.state.is_looped:
            self._read(100_000, self.is_current)
            if self.state.is_looped:
                self.cut()
                self.bind()

    def _note(self, event: ClientEvent) -> None:
        if isinstance(event, Update | Overflow):
            self.seen.setdefault((event.subscription, event.item), []).append(event)
        name = type(event).__name__
        assert name not in ("SessionRefused", "Ended"), f"cut {self.cuts}: {event}"
        self.sessions += name == "SessionOpened"

    def cut(self) -> None:
        """Break off: with a reset, which throws away what is on its way, or with a plain close."""
        self.cuts += 1
        if self.random.random() < 0.7:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def bind(self) -> None:
        wishes = StreamWishes(content_length=self.random.choice([None, None, 1_000, 3_000, 5_000]))
        back = self.random.choice([0, 0, 0, 1, 3])
        point = None
        if back and not self.state.is_looped:
            kept = self.server.call(lambda: self.session().log.first)
            point = max(kept, self.state.received - back)
        self.connect(self.state.bind_session(wishes, point))

    # -- data ---------------------------------------------------------------------------------------------------------

    def session(self) -> Session:
        return self.server.server.kernel.find_session(self.state.session_id or "")

    def subscribe(self, items: str, fields: str, mode: Mode, snapshot: bool) -> None:
        number, request = self.state.subscribe(items, fields, mode=mode.value, snapshot=snapshot)
        self.model.subscribe(number, items, fields, mode, snapshot)
        (answer,) = self.exchange.request(request.name, request.line, f"LS_protocol={self.state.version}")
        assert answer == f"REQOK,{request.request_id}"

    def publish(self, count: int) -> None:
        """Some events, all in one turn of the server."""
        burst = []
        for _ in range(count):
            self.published += 1
            item = self.random.choice(ITEMS)
            size = self.random.choice([1, 5, 40])
            event = {self.random.choice("xy"): f"{self.published}\u00e9|" * size}
            burst.append((item, event))
            self.model.publish(item, event)
        self.server.call(self._publish, burst)

    def _publish(self, burst: list[tuple[str, dict[str, str | None]]]) -> None:
        for item, event in burst:
            self.server.adapter.publisher.update(item, event)

    def is_current(self) -> bool:
        """Whether the client also has the last state of the MERGE subscription, which may come after the events."""
        if not self.has_everything():
            return False
        for position, lane in enumerate(self.model.subscriptions[2], start=1):
            last = self.seen.get((2, position), [None])[-1]
            if lane.events and not (isinstance(last, Update) and last.values == lane.events[-1]):
                return False
        return True

    def has_everything(self) -> bool:
        """Whether every event of the RAW subscription is accounted for."""
        if not self.model.subscriptions:
            return self.state.session_id is not None
        return all(
            len(lane.events)
            == sum(entry.lost if isinstance(entry, Overflow) else 1 for entry in self.seen.get((1, position), ()))
            for position, lane in enumerate(self.model.subscriptions[1], start=1)
        )


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.config({"session.min_content_length": 1_000, "session.max_recovery_length": 10_000_000})
def test_a_client_whose_streams_break_anywhere_sees_everything_once(server: BackgroundServer, seed: int) -> None:
    victim = Victim(server, seed)
    victim.connect(victim.state.create_session(adapter_set="TEST"))
    victim.read(10_000)
    victim.subscribe("a b", "x y", Mode.RAW, False)
    victim.subscribe("b a b", "y x", Mode.MERGE, True)
    while victim.cuts < CUTS:
        victim.publish(victim.random.randint(1, 5))
        victim.read(victim.random.choice(BUDGETS) + victim.random.randint(0, 100))
        victim.cut()
        if victim.random.random() < 0.5:
            victim.publish(victim.random.randint(1, 5))
        victim.bind()
    victim.catch_up()
    victim.publish(1)
    victim.catch_up()
    victim.cut()
    victim.model.judge(victim.seen)
    assert victim.sessions == 1
    assert victim.published > CUTS
