"""Loop turns: the kernel runs once at the end of a turn in which something happened, then every connection writes once.

This is where the kernel's waker and deadlines meet the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from penstock.log import get

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel

# A deadline is never waited for in smaller steps: the loop's own timers are no finer.
SHORTEST_WAIT = 0.001


log = get(__name__)


class Flushable(Protocol):
    def flush(self) -> None: ...
    def cut(self) -> None: ...


class Turns:
    """The waker of a kernel. `run_kernel` must be called before the first event."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._kernel: Kernel | None = None
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._dirty: list[Flushable] = []

    def run_kernel(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def wake(self) -> None:
        """Have a turn run after the callbacks that are ready now."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def flush_later(self, connection: Flushable) -> None:
        """Have the connection write at the end of this turn. The caller makes sure to ask once per turn."""
        self._dirty.append(connection)
        self.wake()

    def run(self) -> None:
        """One turn: kernel first, then the connections it has given something to write."""
        kernel = self._kernel
        assert kernel is not None
        # Calls of `wake` from within are served by this very turn, but for what comes up after its part has run.
        self._scheduled = True
        try:
            kernel.turn()
            dirty = self._dirty
            self._dirty = []
            for connection in dirty:
                try:
                    connection.flush()
                except Exception:
                    # One connection's trouble must not keep the others from writing.
                    log.exception("connection failed while writing")
                    connection.cut()
        finally:
            self._scheduled = False
        if self._dirty or kernel.is_dirty:
            self.wake()
        self._arm(kernel)

    def _arm(self, kernel: Kernel) -> None:
        deadline = kernel.next_deadline()
        if deadline is None or (self._timer is not None and deadline == self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(SHORTEST_WAIT, deadline - kernel.clock()), self._deadline)

    def _deadline(self) -> None:
        self._timer = None
        self.run()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
