"""Deadlines of everything in the kernel, in one heap. The time is an argument, from the event loop or from a test.

What repeats at an interval, such as lanes of a limited frequency, goes by beats: those that may expire at about the
same time do so in the same turn, so that what they send is encoded and written together.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from heapq import heappop, heappush
from math import inf

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed(metaclass=ABCMeta):
    """Something with deadlines. An entry whose time is not the current `alarm` is obsolete and is ignored."""

    __slots__ = ("alarm", "lead")

    def __init__(self) -> None:
        self.alarm = 0.0
        # Seconds by which it may expire early, together with others that are due: thousands of keep-alives, each with
        # a turn of its own, would cost much more CPU (docs/performance.md).
        self.lead = 0.0

    @abstractmethod
    def expire(self, now: float) -> None:
        """The deadline has come."""


class Timers:
    """A heap of (when, order of arrival, target)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._count = 0

    def set(self, target: Timed, when: float) -> None:
        """Move the target's only deadline to `when`."""
        if when == target.alarm or when == inf:
            return
        target.alarm = when
        self._count += 1
        heappush(self._heap, (when, self._count, target))

    def next_deadline(self) -> float | None:
        """The earliest deadline, None when there is none.

        It may be obsolete by then: waking for it is harmless.
        """
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Expire all that is due at `now`, in the order of their deadlines, and what may expire early with it."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return
        last = self._count
        while heap:
            when, count, target = heap[0]
            # A deadline set by this run does not expire early; else a short one would expire again for ever.
            if when > now and (count > last or when > now + target.lead):
                break
            heappop(heap)
            if target.alarm == when:
                target.alarm = 0.0
                target.expire(max(now, when))


# How much later than its interval something paced may expire, to join the beat of others: a share of the interval.
# With an eighth there are at most eight beats of an interval.
SLACK = 1 / 8


class Beat(Timed):
    """Expires at an interval, and with it whatever has waited for at least that long."""

    __slots__ = ("_owner", "interval", "targets")

    def __init__(self, owner: Beats, interval: float) -> None:
        super().__init__()
        self.interval = interval
        # A target whose own alarm is still to come waits for the next beat; one without an alarm is obsolete.
        self.targets: dict[Timed, None] = {}
        self._owner = owner

    def expire(self, now: float) -> None:
        targets = self.targets
        self.targets = {}
        # Done first, so that targets that have just expired find this beat, or the one it merges with, when joining.
        timers = self._owner.timers
        following = now + self.interval
        ends = not targets or self._owner.find(self.interval, following) is not None
        if ends:
            self._owner.remove(self)
        else:
            timers.set(self, following)
        for target in targets:
            if target.alarm > now:
                if ends or following > target.alarm + self.interval * SLACK:
                    # With the other beat, or with the next one after this late one, it might expire later than allowed.
                    when, target.alarm = target.alarm, 0.0
                    timers.set(target, when)
                else:
                    self.targets[target] = None
            elif target.alarm:
                target.alarm = 0.0
                target.expire(now)


class Beats:
    """All beats, by their interval."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self._beats: dict[float, list[Beat]] = {}

    def join(self, target: Timed, interval: float, now: float) -> None:
        """Have the target expire after the interval, or at the next beat of others if that is soon after."""
        target.alarm = earliest = now + interval
        beat = self.find(interval, earliest)
        if beat is None:
            beat = Beat(self, interval)
            self._beats.setdefault(interval, []).append(beat)
            self.timers.set(beat, earliest)
        beat.targets[target] = None

    def find(self, interval: float, earliest: float) -> Beat | None:
        """The beat that comes at `earliest` or soon after, the next time or the one after that."""
        latest = earliest + interval * SLACK
        for beat in self._beats.get(interval, ()):
            if earliest <= beat.alarm <= latest or earliest <= beat.alarm + interval <= latest:
                return beat
        return None

    def remove(self, beat: Beat) -> None:
        beats = self._beats[beat.interval]
        beats.remove(beat)
        if not beats:
            del self._beats[beat.interval]
