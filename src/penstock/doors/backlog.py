"""Messages that wait for their outcome, by session: those beyond the limit wait to be accepted.

The doors decide in which order they are accepted, `kernel.messages` what becomes of them.
"""

from __future__ import annotations

import asyncio


class _Places:
    """The places of one session; it exists only while one of them is taken."""

    __slots__ = ("free", "room")

    def __init__(self, free: int) -> None:
        # Below zero while messages have been accepted beyond the limit, because others were waiting for them.
        self.free = free
        # Set when a place has become free; made when the first message has to wait.
        self.room: asyncio.Event | None = None


class Backlog:
    """The messages of all sessions, counted for each session."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[str, _Places] = {}

    def enter(self, session: str, is_awaited: bool = False) -> bool:
        """Take a place, if there is one.

        A message that others wait for always gets one, because without it they would never free theirs.
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
        """A message has its outcome, or was not accepted in the end."""
        places = self._sessions[session]
        places.free += 1
        if places.room is not None and places.free > 0:
            places.room.set()
        if places.free == self._limit:
            del self._sessions[session]
