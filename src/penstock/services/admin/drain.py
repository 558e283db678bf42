"""Draining: before a stop nobody new is let in, sessions are ended a few at a time, and then the process may stop.

They end with the cause that makes clients open a new session at once, and a load balancer leads them elsewhere. What a
stop itself does is in `penstock.process`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from penstock.doors.gate import Gate
from penstock.kernel.errors import Cause
from penstock.kernel.kernel import Kernel
from penstock.log import get

log = get(__name__)

# Seconds between two looks.
STEP = 0.1

MESSAGE = "The server is shutting down"


def due(sessions: int, seconds_left: float) -> int:
    """How many of these sessions to end now, so that about as many end in every step until the time is over."""
    if seconds_left <= 0:
        return sessions
    return min(sessions, math.ceil(sessions * STEP / seconds_left))


class Drain:
    """One at a time; `cancel` lets clients in again."""

    def __init__(self, kernel: Kernel, gate: Gate, count: Callable[[], int]) -> None:
        """It is over when `count` is 0: there may be sessions elsewhere, which are ended there."""
        self._of_all = count
        self._kernel = kernel
        self._count = count
        self._gate = gate
        self._task: asyncio.Task[None] | None = None
        # How it is going on, for whoever asks: sessions are ended by then on the monotonic clock, or go by themselves.
        self.deadline: float | None = None
        self.stops = False

    @property
    def is_on(self) -> bool:
        return self._task is not None

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def begin(
        self, seconds: float | None, stop: Callable[[], None] | None, count: Callable[[], int] | None = None
    ) -> None:
        """End all sessions within some `seconds`; None: wait until they have gone by themselves. Then call `stop`.

        `count` is for a drain that is over earlier than others.
        """
        self.cancel()
        self._count = count or self._of_all
        self._gate.draining = True
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.stops = stop is not None
        self._task = asyncio.get_running_loop().create_task(self._run(stop))

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._gate.draining = False

    async def _run(self, stop: Callable[[], None] | None) -> None:
        while self._count():
            left = self.seconds_left
            if left is not None:
                sessions = list(self._kernel.sessions.values())
                for session in sessions[: due(len(sessions), left)]:
                    session.close(Cause.MAX_DURATION, MESSAGE)
            await asyncio.sleep(STEP)
        log.info("drained: no session is left")
        if stop is not None:
            stop()
