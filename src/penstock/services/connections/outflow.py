"""What a connection sends: messages in their order, several under way at once, and again if the broker was lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.brokers.bridge import Bridge, BridgeLost, PublishRefused
from penstock.connections.message import OutboundMessage

# Messages that may wait for a broker. Beyond it those who make them are told to stop, and lose what comes then.
MAX_WAITING = 10_000

# Messages under way at once.
WINDOW = 500

# Called with the status that an acknowledgement would have, and the reason if it is an error.
TakeStatus = Callable[[int, str], None]


class Waiting(NamedTuple):
    message: OutboundMessage
    done: TakeStatus


class Outflow:
    """Of one connection. `full` is called when it takes no more, and when it does again."""

    def __init__(self, full: Callable[[bool], None]) -> None:
        self._full = full
        self._is_full = False
        self._waiting: deque[Waiting] = deque()
        self._under_way: deque[tuple[Waiting, asyncio.Task[int]]] = deque()
        self._bridge: Bridge | None = None
        self._changed = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def put(self, message: OutboundMessage, done: TakeStatus) -> None:
        self._waiting.append(Waiting(message, done))
        self._changed.set()
        self._look()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def use(self, bridge: Bridge | None) -> None:
        """From now on."""
        self._bridge = bridge
        self._changed.set()

    async def close(self, seconds: float) -> int:
        """Give what waits so much time; returns how many messages were left."""
        if self._bridge is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        left = len(self)
        for _, task in self._under_way:
            task.cancel()
        self._under_way.clear()
        self._waiting.clear()
        return left

    def _look(self) -> None:
        (self._empty.clear if len(self) else self._empty.set)()
        full = len(self) >= MAX_WAITING if not self._is_full else len(self) > MAX_WAITING // 2
        if full is not self._is_full:
            self._is_full = full
            self._full(full)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            bridge = self._bridge
            if bridge is not None:
                self._send(bridge)
            if self._under_way:
                first = self._under_way[0][1]
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait([first, changed], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                await self._take_done(bridge)
            else:
                await self._changed.wait()

    def _send(self, bridge: Bridge) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._under_way) < WINDOW:
            one = self._waiting.popleft()
            self._under_way.append((one, loop.create_task(bridge.publish(one.message))))

    async def _take_done(self, bridge: Bridge | None) -> None:
        lost = ""
        while self._under_way and self._under_way[0][1].done():
            one, task = self._under_way[0]
            error = task.exception()
            if isinstance(error, BridgeLost):
                lost = str(error)
                break
            self._under_way.popleft()
            if error is None:
                one.done(task.result(), "")
            elif isinstance(error, PublishRefused):
                one.done(error.status, str(error))
            else:
                one.done(500, type(error).__name__)
        if lost:
            await self._again(lost, bridge)
        self._look()

    async def _again(self, reason: str, bridge: Bridge | None) -> None:
        """All that was under way, in its order; what the broker has taken in the meantime is not sent again."""
        if bridge is not None:
            bridge.end(reason)
        if self._bridge is bridge:
            self._bridge = None
        await asyncio.wait([task for _, task in self._under_way])
        again = []
        for one, task in self._under_way:
            error = task.exception()
            if error is None:
                one.done(task.result(), "")
            elif isinstance(error, PublishRefused):
                one.done(error.status, str(error))
            else:
                again.append(one)
        self._under_way.clear()
        self._waiting.extendleft(reversed(again))
