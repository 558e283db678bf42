"""A histogram: how often something took how long. Adding to it costs two integers, whatever it is asked for later.

Who adds: the event loop, or one thread; who reads may be on another. What it looks like for Prometheus: `exposition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeAlias

# Names and values that tell apart what is counted alike.
Labels: TypeAlias = tuple[tuple[str, str], ...]

# Upper bounds in seconds, from 10 µs to 10 s: close enough to one another for a quantile that is at most a quarter off.
BOUNDS: tuple[float, ...] = tuple(
    [step * 10.0**decade for decade in range(-5, 1) for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)] + [10.0]
)


NOTHING: Sequence[int] = (0,) * (len(BOUNDS) + 1)


class Histogram:
    """Of seconds. What is above the last bound has a place of its own."""

    __slots__ = ("_peak", "counts", "sum")

    def __init__(self, counts: Sequence[int] = NOTHING, sum: float = 0.0, peak: float = 0.0) -> None:
        """What another process has counted, or nothing."""
        self.counts = list(counts)
        self.sum = sum
        self._peak = peak

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
        if seconds > self._peak:
            self._peak = seconds

    def take_peak(self) -> float:
        """The largest since the last call; there is one who asks, the sampler."""
        peak, self._peak = self._peak, 0.0
        return peak


class Span:
    """What histograms of one thing have got between two looks at them, taken together."""

    def __init__(self) -> None:
        self._before: dict[Labels, tuple[Sequence[int], float]] = {}
        self._new: list[int] = []
        self._added = 0.0
        self.peak = 0.0

    def look(self, histograms: Iterable[tuple[Histogram, Labels]]) -> None:
        """One of a process that has begun anew counts from its beginning. One that comes later than the first look may
        have been there for long: it counts from now on.
        """
        is_first = not self._before
        self._new, self._added, self.peak = [0] * (len(BOUNDS) + 1), 0.0, 0.0
        for histogram, labels in histograms:
            counts, total, peak = histogram.counts.copy(), histogram.sum, histogram.take_peak()
            before, sum_before = self._before.get(labels, (NOTHING, 0.0) if is_first else (counts, total))
            if counts == before:
                # Nothing is new, and the sum is what it was.
                self._before[labels] = counts, total
                continue
            self._before[labels] = counts, total
            if any(count < last for count, last in zip(counts, before, strict=True)):
                before, sum_before = NOTHING, 0.0
            self._new = [new + count - last for new, count, last in zip(self._new, counts, before, strict=True)]
            self._added += total - sum_before
            if sum(counts) > sum(before):
                self.peak = max(self.peak, peak)

    @property
    def mean(self) -> float:
        count = sum(self._new)
        return self._added / count if count else 0.0

    def quantile(self, share: float) -> float:
        """Seconds that so large a share of what is new is not above, as near as the bounds tell; 0 if nothing is."""
        rank = share * sum(self._new)
        if not rank:
            return 0.0
        below = 0
        for place, count in enumerate(self._new):
            if count and below + count >= rank:
                low = BOUNDS[place - 1] if place else 0.0
                # The largest is known, and nothing is above it.
                high = min(BOUNDS[place], self.peak) if place < len(BOUNDS) else self.peak
                return min(high, max(low, low + (high - low) * (rank - below) / count)) if high > low else high
            below += count
        return self.peak
