"""Requests that wait for their answers: each is answered, garbled, late or lost, exactly once, and its sender is told.

A peer that lets several requests in a row time out, with no answer in between, is disconnected, even if it sends
keep-alives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.wire.ari.replies import Reply
from penstock.wire.ari.requests import Request

# After this many timeouts in a row, with no answer in between, the peer is disconnected.
DEAF_AFTER = 3


class Why(Enum):
    """Why there is no answer."""

    LATE = "it has not answered in time"
    LOST = "its connection was lost"
    GARBLED = "its answer cannot be parsed"
    ABSENT = "it is not connected"


@dataclass(frozen=True, slots=True)
class Unanswered:
    """In place of a reply."""

    method: str
    why: Why


CallOutcome = Reply | Unanswered
TakeOutcome = Callable[[CallOutcome], None]


class Calls:
    """The outstanding requests of one link, over all its connections: identifiers never come twice."""

    def __init__(self, timeout: float, deaf: Callable[[], None]) -> None:
        self._timeout = timeout
        self._deaf = deaf
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._waiting: dict[str, tuple[str, TakeOutcome]] = {}
        # All have the same time, so that the first to be asked is the first to be late.
        self._deadlines: deque[tuple[float, str]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timeouts_in_a_row = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, done: TakeOutcome) -> str:
        """An identifier for the request, which is about to be sent. Nothing in it needs an escape."""
        self._count += 1
        identifier = f"1{self._count:08x}"
        self._waiting[identifier] = (request.method, done)
        self._deadlines.append((self._loop.time() + self._timeout, identifier))
        self._set_timer()
        return identifier

    def answer(self, reply: Reply) -> bool:
        """False for an unexpected answer: it is late, or comes twice."""
        self._timeouts_in_a_row = 0
        waiting = self._waiting.pop(reply.request, None)
        if waiting is None:
            return False
        method, done = waiting
        done(reply if reply.method == method else Unanswered(method, Why.GARBLED))
        return True

    def garble(self, identifier: str) -> bool:
        """An answer has come that cannot be understood."""
        self._timeouts_in_a_row = 0
        waiting = self._waiting.pop(identifier, None)
        if waiting is not None:
            waiting[1](Unanswered(waiting[0], Why.GARBLED))
        return waiting is not None

    def lose(self) -> None:
        """There is nobody left to answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timeouts_in_a_row = 0
        self._deadlines.clear()
        waiting, self._waiting = self._waiting, {}
        for method, done in waiting.values():
            done(Unanswered(method, Why.LOST))

    def _set_timer(self) -> None:
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            self._deadlines.popleft()
        if self._timer is None and self._deadlines:
            self._timer = self._loop.call_at(self._deadlines[0][0], self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, identifier = self._deadlines.popleft()
            waiting = self._waiting.pop(identifier, None)
            if waiting is not None:
                self._timeouts_in_a_row += 1
                waiting[1](Unanswered(waiting[0], Why.LATE))
        self._set_timer()
        if self._timeouts_in_a_row >= DEAF_AFTER:
            self._deaf()
