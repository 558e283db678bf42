"""Messages that wait for their outcome, session by session: one more than allowed waits to be taken in.

Their order and what becomes of them is decided in `kernel.messages`.
"""

from __future__ import annotations

import asyncio
from collections import deque


class _Places:
    """The places of one session, there only while one of them is taken."""

    __slots__ = ("free", "waiting")

    def __init__(self, free: int) -> None:
        # Below zero while messages have been let in that others were waiting for.
        self.free = free
        self.waiting: deque[asyncio.Future[None]] = deque()


class Backlog:
    """The messages of all sessions, each session's by itself."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[str, _Places] = {}

    def _places(self, session: str) -> _Places:
        found = self._sessions.get(session)
        if found is None:
            found = self._sessions[session] = _Places(self._limit)
        return found

    def enter(self, session: str, is_awaited: bool) -> bool:
        """Take a place, if there is one.

        A message that others wait for always gets one: without it they would not leave theirs.
        """
        places = self._places(session)
        if not is_awaited and (places.free <= 0 or places.waiting):
            return False
        places.free -= 1
        return True

    async def wait(self, session: str) -> None:
        """Wait for a place, behind those who wait already, and take it."""
        places = self._places(session)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        places.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The place was given in the same moment.
                self.leave(session)
            elif turn in places.waiting:
                places.waiting.remove(turn)
            raise

    def leave(self, session: str) -> None:
        """A message has its outcome, or was not taken in after all."""
        places = self._sessions[session]
        places.free += 1
        while places.free > 0 and places.waiting:
            turn = places.waiting.popleft()
            if not turn.done():
                places.free -= 1
                turn.set_result(None)
        if places.free == self._limit:
            del self._sessions[session]
