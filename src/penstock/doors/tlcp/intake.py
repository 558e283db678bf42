"""The incoming requests of one WebSocket: started in order, each answered as soon as possible.

Only requests about a session that is being opened wait for it. The number of unanswered requests is limited; at the
limit the socket is not read until some are answered. Specification: TLCP chapter 1, "Requests, Responses, and
Notifications", and chapter 2, "Control Requests", `LS_session`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.doors.tlcp.asked import REQUESTS_PER_TURN, Asked

if TYPE_CHECKING:
    from penstock.doors.stream.websocket import WebSocketConnection
    from penstock.doors.tlcp.door import TlcpDoor


class SocketIntake:
    """Made when messages come, dropped by its socket when all of them are answered."""

    __slots__ = (
        "_batch",
        "_departure",
        "_destination",
        "_door",
        "_held",
        "_inbox",
        "_is_scheduled",
        "_leaver",
        "_limit",
        "_opening",
        "_socket",
        "_under_way",
    )

    def __init__(self, door: TlcpDoor, socket: WebSocketConnection, limit: int) -> None:
        self._door = door
        self._socket = socket
        self._limit = limit
        # Messages not parsed yet, and the rest of the one being parsed.
        self._inbox: deque[str] = deque()
        self._batch: Iterator[Asked] | None = None
        # Requests that wait for the metadata adapter; the one among them that opens a session; those that wait for it.
        self._under_way: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._held: deque[Asked] = deque()
        self._is_scheduled = False
        # The neighbour that the socket is to go to when nothing is under way any more, the request that it goes for,
        # and the attempt.
        self._destination: str | None = None
        self._leaver: Asked | None = None
        self._departure: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        waiting = self._unanswered + len(self._inbox) + (self._batch is not None)
        return waiting >= self._limit or self._leaver is not None

    @property
    def is_empty(self) -> bool:
        return not (self._under_way or self._held or self._inbox or self._batch is not None or self._leaver is not None)

    @property
    def _unanswered(self) -> int:
        return len(self._under_way) + len(self._held)

    def add(self, messages: Sequence[str]) -> None:
        """Messages have come. Requests are started up to the limit; the others only count as a sign of life."""
        self._inbox.extend(messages)
        self.proceed()
        if self._inbox or self._batch is not None:
            for message in messages:
                self._door.hear(self._socket.last_session, message.partition("\r\n")[2])

    def proceed(self) -> None:
        """Start requests until there are no more, or too many are unanswered, or others should get a turn."""
        if self._is_scheduled:
            return
        # Begun in their order, before any that have come later.
        while self._held and self._opening is None and self._leaver is None:
            self._begin(self._held.popleft())
        for _ in range(REQUESTS_PER_TURN):
            if self._unanswered >= self._limit or self._leaver is not None:
                return
            asked = self._next()
            if asked is None:
                return
            if self._opening is not None and asked.needs_session:
                self._held.append(asked)
            else:
                self._begin(asked)
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        self.proceed()
        self._socket.listen()

    def _next(self) -> Asked | None:
        while True:
            if self._batch is not None:
                asked = next(self._batch, None)
                if asked is not None:
                    return asked
                self._batch = None
            if not self._inbox:
                return None
            self._batch = self._door.read_message(self._socket.subprotocol, self._inbox.popleft())

    def _begin(self, asked: Asked) -> None:
        task = self._door.answer(self._socket, asked)
        if self._destination is not None:
            self._leaver = asked
            self.leave_if_ready()
        if task is None:
            return
        self._under_way.add(task)
        if asked.opens_session:
            self._opening = task
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if task is self._opening:
            self._opening = None
        self.proceed()
        self.leave_if_ready()
        self._socket.listen()

    # -- to a neighbour -------------------------------------------------------------------------------------------

    def leave_for(self, worker: str, binds: bool) -> bool:
        """The request that is being begun is about a session of this neighbour: whether the socket goes there.

        Requests that are under way are answered first. None but one that binds waits for that, because among them may
        be one that binds a session of this worker.
        """
        if self._under_way and not binds:
            return False
        self._destination = worker
        return True

    def leave_if_ready(self) -> None:
        """Go if that is wanted, and all requests before have been answered."""
        if self._leaver is not None and not self._under_way and self._departure is None:
            self._departure = asyncio.get_running_loop().create_task(self._leave(self._leaver))

    async def _leave(self, leaver: Asked) -> None:
        socket = self._socket
        socket.flush()
        if socket.congested or not socket.is_open:
            # It is told when the client has read.
            self._departure = None
            return
        rest = list(self._batch or ())
        self._batch = iter(rest)
        messages = [asked.message for asked in (leaver, *self._held, *rest)]
        assert self._destination is not None
        if await socket.leave(self._destination, [*messages, *self._inbox]):
            return
        self._leaver = self._destination = self._departure = None
        self._door.stay(socket, leaver)
        self.proceed()
        socket.listen()

    def cancel(self) -> None:
        """The socket is gone: nobody waits for the answers any more."""
        if self._departure is not None:
            self._departure.cancel()
        self._inbox.clear()
        self._held.clear()
        self._batch = None
        for task in self._under_way:
            task.cancel()
