"""Loop turns: the kernel runs once at the end of a turn in which something happened, then every connection writes once.

This connects the kernel's waker and deadlines to the event loop, and measures whether the machine keeps up.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from penstock.log import get
from penstock.monitor.histogram import Histogram

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ledger import Ledger

# The shortest wait for a deadline: the loop's own timers are no finer.
SHORTEST_WAIT = 0.001

# If data is older than this on average when it is written, the machine cannot keep up.
TOLERABLE_AGE = 0.05
WEIGHT_OF_LATEST = 0.3

# Sessions then rest this many times as long, so that writing takes only a part of the time; up to a limit.
REST_PER_AGE = 2
LONGEST_REST = 1.0

# The rest is halved after this many rests without data that is too old.
RESTS_TO_EASE = 4


log = get(__name__)


class Flushable(Protocol):
    def flush(self) -> None: ...
    def cut(self) -> None: ...


class Turns:
    """The waker of a kernel. `run_kernel` must be called before the first event."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Turns are everybody's: what is logged in them is not about the request that happened to wake them.
        self._context = copy_context()
        self._kernel: Kernel | None = None
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._dirty: list[Flushable] = []
        # When the first event of this turn came; the average age of data when it is written; how long sessions rest,
        # and since when.
        self._woken_at = 0.0
        self._age = 0.0
        self._strain = 0.0
        self._strained_at = 0.0
        # How old data was in each turn that has sent some; and how much had been sent by then.
        self.ages = Histogram()
        self._sent = 0
        # How often too much has waited for clients, at the last log line about it.
        self._reliefs = 0

    def run_kernel(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def ledger(self) -> Ledger:
        """What waits for clients, all together."""
        assert self._kernel is not None
        return self._kernel.ledger

    def wake(self) -> None:
        """Schedule a turn after the callbacks that are ready now."""
        if not self._scheduled:
            self._scheduled = True
            assert self._kernel is not None
            self._woken_at = self._kernel.clock()
            self._loop.call_soon(self.run, context=self._context)

    def flush_later(self, connection: Flushable) -> None:
        """Have the connection write at the end of this turn. The caller asks only once per turn."""
        self._dirty.append(connection)
        self.wake()

    def run(self) -> None:
        """One turn: kernel first, then the connections it has given something to write."""
        kernel = self._kernel
        assert kernel is not None
        began = kernel.clock()
        if not self._scheduled:
            self._woken_at = began
        # Calls of `wake` from within are served by this turn, except for what comes after its part has run.
        self._scheduled = True
        try:
            kernel.turn()
            dirty = self._dirty
            self._dirty = []
            for connection in dirty:
                try:
                    connection.flush()
                except Exception:
                    # An error on one connection must not keep the others from writing.
                    log.exception("connection failed while writing")
                    connection.cut()
        finally:
            self._scheduled = False
        self._measure(kernel, began)
        if kernel.ledger.reliefs != self._reliefs:
            self._tell_relief(kernel.ledger)
        if self._dirty or kernel.is_dirty:
            self.wake()
        self._arm(kernel)

    def _measure(self, kernel: Kernel, began: float) -> None:
        """Compare the age of what has just been written with the limit.

        Writes are spread over the turn, so that on average they were made in the middle of it. If the end counted,
        thousands of sessions would rest only because writing to all of them once takes long, though the machine keeps
        up; and what is thinned costs as many writes.

        All sessions rest for the same time: their updates are thinned evenly, and those that are sent are fresh.
        """
        now = kernel.clock()
        age = (began + now) / 2 - self._woken_at
        self._age += (age - self._age) * WEIGHT_OF_LATEST
        if kernel.tally.updates_out != self._sent:
            self._sent = kernel.tally.updates_out
            self.ages.add(age)
        if self._age > TOLERABLE_AGE:
            self._strain = min(LONGEST_REST, max(self._strain, self._age * REST_PER_AGE))
        elif not self._strain or now < self._strained_at + self._strain * RESTS_TO_EASE:
            return
        else:
            self._strain = self._strain / 2 if self._strain > SHORTEST_WAIT else 0.0
        self._strained_at = now
        kernel.set_strain(self._strain)

    def _tell_relief(self, ledger: Ledger) -> None:
        self._reliefs = ledger.reliefs
        log.warning(
            "too many bytes wait for slow clients",
            max_waiting_bytes=ledger.limit,
            waiting_bytes=ledger.waiting,
            recovery_bytes=ledger.logged,
            sessions_conflated=ledger.shed_sessions,
            recovery_logs_emptied=ledger.emptied_logs,
            connections_cut=ledger.cut_reserves,
            sessions_closed=ledger.cut_sessions,
        )

    def _arm(self, kernel: Kernel) -> None:
        deadline = kernel.next_deadline()
        if deadline is None or (self._timer is not None and deadline == self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(
            max(SHORTEST_WAIT, deadline - kernel.clock()), self._deadline, context=self._context
        )

    def _deadline(self) -> None:
        self._timer = None
        self.run()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
