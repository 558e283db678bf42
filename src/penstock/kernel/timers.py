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
    """A heap of (when, order of arrival, target); those that may expire early are there in bunches."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._count = 0
        # By lead, and which span of that length they are in.
        self._bunches: dict[tuple[float, int], Bunch] = {}

    def set(self, target: Timed, when: float) -> None:
        """Move the target's only deadline to `when`."""
        if when == target.alarm or when == inf:
            return
        target.alarm = when
        lead = target.lead
        if lead:
            self._join(target, lead, when)
        else:
            self._push(target, when)

    def _join(self, target: Timed, lead: float, when: float) -> None:
        span = lead, int(when / lead)
        bunch = self._bunches.get(span)
        if bunch is None:
            bunch = self._bunches[span] = Bunch(self, span)
        bunch.targets.append(target)
        if not bunch.alarm or when < bunch.alarm:
            bunch.alarm = when
            self._push(bunch, when)

    def disband(self, bunch: Bunch) -> None:
        """Its time has come."""
        del self._bunches[bunch.span]

    def _push(self, target: Timed, when: float) -> None:
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
        while heap and heap[0][0] <= now:
            when, _, target = heappop(heap)
            if target.alarm == when:
                target.alarm = 0.0
                target.expire(max(now, when))


class Bunch(Timed):
    """Targets with deadlines in the same span of time, which is as long as they may expire early: all of them expire
    with the first of them. A heap with an entry for each of thousands of keep-alives costs more CPU time and memory.
    """

    __slots__ = ("_owner", "span", "targets")

    def __init__(self, owner: Timers, span: tuple[float, int]) -> None:
        super().__init__()
        self._owner = owner
        self.span = span
        # One whose alarm is not in the span any more is obsolete.
        self.targets: list[Timed] = []

    def expire(self, now: float) -> None:
        # Done first: a deadline that is set from here on does not expire early, else a short one would do so for ever.
        self._owner.disband(self)
        lead, number = self.span
        for target in self.targets:
            when = target.alarm
            if when and int(when / lead) == number:
                target.alarm = 0.0
                target.expire(max(now, when))


# How much later than its interval something paced may expire, to join the beat of others: a share of the interval.
SLACK = 1 / 8

# Into how many groups what is paced by an interval is divided. Within a group all beats become one; one for all would
# have everybody written to at the same moment.
GROUPS = 8


class Beat(Timed):
    """Expires at an interval, and with it whatever waits for that.

    The first of its group keeps its pace. The others come later each time, as far as they may, until it comes in the
    meantime and takes along all that is due by then. So those that have begun at different times do the same at the
    same time, after a few intervals.
    """

    __slots__ = ("_group", "_owner", "interval", "number", "targets")

    def __init__(self, owner: Beats, interval: float, number: int, group: list[Beat]) -> None:
        super().__init__()
        self.interval = interval
        self.number = number
        # One whose own alarm has been changed is obsolete.
        self.targets: dict[Timed, None] = {}
        self._owner = owner
        self._group = group

    def expire(self, now: float) -> None:
        # Done first, so that targets that have just expired find this beat, or the one it merges with, when joining.
        targets, self.targets = self.targets, {}
        following = now + self.interval
        ends = not targets
        if self._group[0] is self:
            for other in self._group[1:]:
                targets.update(other.targets)
        elif find(self._group, following) is None:
            following += self.interval * SLACK
        else:
            ends = True
        if ends:
            self._owner.remove(self, self._group)
        else:
            self._owner.timers.set(self, following)
        for target in targets:
            if 0 < target.alarm <= now:
                target.alarm = 0.0
                target.expire(now)


def find(group: list[Beat], earliest: float) -> Beat | None:
    """The beat that comes at `earliest` or soon after."""
    for beat in group:
        if earliest <= beat.alarm <= earliest + beat.interval * SLACK:
            return beat
    return None


class Beats:
    """All beats, by their interval and group."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self._groups: dict[tuple[float, int], list[Beat]] = {}

    def __len__(self) -> int:
        return sum([len(group) for group in self._groups.values()])

    def join(self, target: Timed, interval: float, number: int, now: float) -> None:
        """Have the target expire after the interval, or at the next beat of its group if that is soon after."""
        target.alarm = earliest = now + interval
        number %= GROUPS
        group = self._groups.get((interval, number))
        if group is None:
            group = self._groups[interval, number] = []
        beat = find(group, earliest)
        if beat is None:
            beat = Beat(self, interval, number, group)
            group.append(beat)
            self.timers.set(beat, earliest)
        beat.targets[target] = None

    def remove(self, beat: Beat, group: list[Beat]) -> None:
        group.remove(beat)
        if not group:
            del self._groups[beat.interval, beat.number]
