"""Calls of a metadata adapter about one session: a limited number at a time, and its end after all of them.

How a method is called is in `calls`; which calls are about a session, in `authority`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.adapters.calls import MAX_THREADS

# Calls about one session that are under way at a time; more wait for one of them. A quarter of the set's threads: one
# client cannot keep the others from theirs, however much it asks for at once.
MAX_CALLS = MAX_THREADS // 4


class _Session:
    """The calls about one session, there only while there are some."""

    __slots__ = ("none_left", "running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        # There when they are needed.
        self.waiting: deque[asyncio.Future[None]] | None = None
        self.none_left: asyncio.Event | None = None


class SessionCalls:
    """The calls about all sessions, each session's by itself."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        # The event loop holds only weak references to tasks.
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, session: str, begin: Callable[[], Awaitable[Any]]) -> Any:
        """What the call returns or raises; `begin` is called when there is a place for it."""
        found = self._sessions.get(session)
        if found is None:
            found = self._sessions[session] = _Session()
        if found.running < MAX_CALLS:
            found.running += 1
        else:
            await self._turn(session, found)
        try:
            return await begin()
        finally:
            self._leave(session, found)

    async def _turn(self, session: str, found: _Session) -> None:
        """Wait for the place of one that is under way, behind those who wait already."""
        if found.waiting is None:
            found.waiting = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        found.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The place was given in the same moment.
                self._leave(session, found)
            raise

    def _leave(self, session: str, found: _Session) -> None:
        """Hand the place on, or leave it free."""
        while found.waiting:
            turn = found.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        found.running -= 1
        if not found.running:
            del self._sessions[session]
            if found.none_left is not None:
                found.none_left.set()

    async def complete(
        self, session: str, begin: Callable[[], Awaitable[Any]], undo: Callable[[], None] | None = None
    ) -> Any:
        """The same, but the call goes on to its end when whoever waits for it is cancelled.

        A thread could not be stopped anyway, and what comes next about the session must not overtake it. A call that
        has succeeded although nobody waited any more is made good by `undo`.
        """
        task = asyncio.get_running_loop().create_task(self.run(session, begin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if undo is not None:
                task.add_done_callback(lambda done: None if _has_failed(done) else undo())
            raise

    async def settled(self, session: str) -> None:
        """Wait until no call about the session is left."""
        while (found := self._sessions.get(session)) is not None:
            if found.none_left is None:
                found.none_left = asyncio.Event()
            await found.none_left.wait()


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
