"""Messages that wait for their outcome, session by session: one more than allowed waits to be taken in.

In which order they are taken in is decided by the doors, what becomes of them in `kernel.messages`.
"""

from __future__ import annotations

import asyncio


class _Places:
    """The places of one session, there only while one of them is taken."""

    __slots__ = ("free", "room")

    def __init__(self, free: int) -> None:
        # Below zero while messages have been let in that others were waiting for.
        self.free = free
        # Set when one has become free; there once somebody has had to wait.
        self.room: asyncio.Event | None = None


class Backlog:
    """The messages of all sessions, each session's by itself."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[str, _Places] = {}

    def enter(self, session: str, is_awaited: bool = False) -> bool:
        """Take a place, if there is one.

        A message that others wait for always gets one: without it they would not leave theirs.
        """
        places = self._sessions.get(session)
        if places is None:
            places = self._sessions[session] = _Places(self._limit)
        if places.free <= 0 and not is_awaited:
            return False
        places.free -= 1
        return True

    async def wait(self, session: str) -> None:
        """Wait for a place and take it."""
        while not self.enter(session):
            places = self._sessions[session]
            if places.room is None:
                places.room = asyncio.Event()
            places.room.clear()
            await places.room.wait()

    def leave(self, session: str) -> None:
        """A message has its outcome, or was not taken in after all."""
        places = self._sessions[session]
        places.free += 1
        if places.room is not None and places.free > 0:
            places.room.set()
        if places.free == self._limit:
            del self._sessions[session]
