"""The load: many TLCP clients in one process, each of which checks every line it is sent.

A member opens a session and one subscription, takes the stream, and unsubscribes in the end to show that it is alive.
A line that it does not expect, or a lost connection, makes it a failure; the first reason is kept. What the stream must
look like is decided by the benchmarks, in subclasses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Generic, TypeVar
from urllib.parse import quote

from bench.websocket import WebSocketClient

# Members that take a step at the same time; more would only wait in the server's backlog.
CONCURRENT_STEPS = 100

# A member whose step takes longer than this many seconds has failed.
STEP_PATIENCE = 60.0

# One loopback address has about 28,000 ports for outgoing connections.
CONNECTIONS_PER_ADDRESS = 20_000

CLIENT_ID = "mgQkwtwdysogQz2BJ4Ji%20kOj2Bg"


class Stage(Enum):
    """Where a member is; each stage waits for some lines and then gives way to the next."""

    OPENING = auto()
    SUBSCRIBING = auto()
    STREAMING = auto()
    LEAVING = auto()
    LEFT = auto()


# The lines that a stage waits for, one of each, and those that may come in any stage.
AWAITED = {
    Stage.OPENING: frozenset({b"CONOK", b"CONS"}),
    Stage.SUBSCRIBING: frozenset({b"REQOK", b"SUBOK", b"CONF"}),
    Stage.LEAVING: frozenset({b"REQOK", b"UNSUB"}),
}
HARMLESS = frozenset({b"PROBE", b"SYNC", b"SERVNAME", b"CLIENTIP"})


class Feed:
    """What the members subscribe to: where it is, and which fields in which mode."""

    __slots__ = ("adapter_set", "data_adapter", "fields", "snapshot")

    def __init__(self, adapter_set: str, data_adapter: str, fields: Sequence[str], snapshot: bool) -> None:
        self.adapter_set = adapter_set
        self.data_adapter = data_adapter
        self.fields = fields
        self.snapshot = snapshot


class Member(WebSocketClient):
    """One client. Subclasses take the stream in `streamed`."""

    __slots__ = ("_missing", "_settled", "failure", "feed", "items", "keepalive", "stage")

    def __init__(self, feed: Feed, items: Sequence[str]) -> None:
        super().__init__()
        self.feed = feed
        self.items = items
        self.stage = Stage.OPENING
        # Why it failed; empty as long as all is well.
        self.failure = ""
        # The longest silence the server has announced, in seconds.
        self.keepalive = 0.0
        self._missing = AWAITED[Stage.OPENING]
        self._settled: asyncio.Future[None] | None = None

    def streamed(self, payload: bytes) -> None:
        """A message has come while streaming."""
        raise NotImplementedError

    # -- steps ----------------------------------------------------------------------------------------------------

    async def open(self, host: str, port: int, source: tuple[str, int] | None) -> None:
        """Connect, open the session and subscribe; returns when the stream has begun, or after a failure."""
        loop = asyncio.get_running_loop()
        self._settled = loop.create_future()
        try:
            await loop.create_connection(lambda: self, host, port, local_addr=source)
        except OSError as error:
            self.failed(f"cannot connect: {error.strerror}")
        await self._settle()

    async def leave(self) -> None:
        """Unsubscribe; returns when the server has confirmed it on the stream, or after a failure."""
        if self.failure:
            return
        self._settled = asyncio.get_running_loop().create_future()
        self._enter(Stage.LEAVING)
        self.send("control\r\nLS_reqId=2&LS_op=delete&LS_subId=1")
        await self._settle()

    def cut(self) -> None:
        """Close the connection without ceremony."""
        self.stage = Stage.LEFT
        if not self.transport.is_closing():
            self.transport.abort()

    async def _settle(self) -> None:
        assert self._settled is not None
        try:
            await asyncio.wait_for(self._settled, STEP_PATIENCE)
        except TimeoutError:
            missing = b" ".join(sorted(self._missing)).decode()
            self.failed(f"{self.stage.name.lower()} took too long; missing {missing}")
        self._settled = None

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._missing = AWAITED.get(stage, frozenset())
        if stage in (Stage.STREAMING, Stage.LEFT) and self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    # -- what comes in --------------------------------------------------------------------------------------------

    def opened(self) -> None:
        self.send(f"create_session\r\nLS_adapter_set={self.feed.adapter_set}&LS_cid={CLIENT_ID}")

    def failed(self, reason: str) -> None:
        if self.stage is Stage.LEFT or self.failure:
            return
        self.failure = reason
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    def received(self, payload: bytes) -> None:
        if self.stage is Stage.STREAMING:
            self.streamed(payload)
            return
        lines = payload.split(b"\r\n")
        if lines.pop():
            self.failed("a message does not end at the end of a line")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        tag = line.partition(b",")[0]
        if tag in self._missing:
            self._missing -= {tag}
            if tag == b"CONOK":
                self.keepalive = int(line.split(b",")[3]) / 1000
            if not self._missing:
                self._advance()
        elif tag == b"U" and self.stage in (Stage.SUBSCRIBING, Stage.STREAMING, Stage.LEAVING):
            if self.stage is not Stage.LEAVING:
                self.streamed(line + b"\r\n")
        elif tag not in HARMLESS:
            self.failed(f"unexpected while {self.stage.name.lower()}: {line[:80].decode('utf-8', 'replace')}")

    def _advance(self) -> None:
        if self.stage is Stage.OPENING:
            self._enter(Stage.SUBSCRIBING)
            group = quote(" ".join(self.items))
            schema = quote(" ".join(self.feed.fields))
            self.send(
                f"control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_data_adapter={self.feed.data_adapter}"
                f"&LS_group={group}&LS_schema={schema}&LS_mode=MERGE&LS_snapshot={str(self.feed.snapshot).lower()}"
            )
        else:
            self._enter(Stage.STREAMING if self.stage is Stage.SUBSCRIBING else Stage.LEFT)


M = TypeVar("M", bound=Member)


class Swarm(Generic[M]):
    """All members, and steps that all of them take."""

    def __init__(self, host: str, port: int, members: Sequence[M]) -> None:
        self._host = host
        self._port = port
        self.members = members

    async def open(self, first: int, last: int) -> None:
        """Open the members from number `first` up to, not including, `last`."""
        await self._each(range(first, last), self._open)

    async def _open(self, number: int) -> None:
        address = number // CONNECTIONS_PER_ADDRESS
        source = (f"127.0.0.{address + 1}", 0) if address else None
        await self.members[number].open(self._host, self._port, source)

    async def leave(self) -> None:
        """Have every member show that its session is alive, then close all connections."""
        await self._each(range(len(self.members)), self._leave)
        for member in self.members:
            member.cut()

    async def _leave(self, number: int) -> None:
        await self.members[number].leave()

    async def _each(self, numbers: Iterable[int], step: Callable[[int], Awaitable[None]]) -> None:
        waiting = iter(numbers)

        async def work() -> None:
            for number in waiting:
                await step(number)

        await asyncio.gather(*[work() for _ in range(CONCURRENT_STEPS)])

    def failures(self) -> Counter[str]:
        """The reasons, each with the number of members that failed for it."""
        return Counter(member.failure for member in self.members if member.failure)
