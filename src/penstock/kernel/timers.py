"""Deadlines of everything in the kernel, in one heap. The time is an argument; the test or the event loop moves it."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf


class Timed:
    """Something with deadlines. An entry whose time is not the current `alarm` has been overtaken and is ignored."""

    __slots__ = ("alarm", "lead")

    def __init__(self) -> None:
        self.alarm = 0.0
        # Seconds by which it may expire before its time, in the company of others that are due: thousands of
        # keep-alives, each with a turn of its own, would cost several times as much.
        self.lead = 0.0

    def expire(self, now: float) -> None:
        """The deadline has come."""
        raise NotImplementedError


class Timers:
    """A heap of (when, order of arrival, target)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._count = 0

    def set(self, target: Timed, when: float) -> None:
        """Move the target's one deadline to `when`."""
        if when == target.alarm or when == inf:
            return
        target.alarm = when
        self._count += 1
        heappush(self._heap, (when, self._count, target))

    def next_deadline(self) -> float | None:
        """The earliest deadline, None when there is none.

        It may turn out to be overtaken: waking for it is harmless.
        """
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Expire all that is due at `now`, in the order of their deadlines, and what may go with it."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return
        last = self._count
        while heap:
            when, count, target = heap[0]
            # A deadline set by this very run does not lead, or a short one would come round for ever.
            if when > now and (count > last or when > now + target.lead):
                break
            heappop(heap)
            if target.alarm == when:
                target.alarm = 0.0
                target.expire(max(now, when))
