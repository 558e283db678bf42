"""A histogram: how often something took how long. Adding to it costs two integers, whatever it is asked for later.

Who adds: the event loop, or one thread; who reads may be on another. What it looks like for Prometheus: `exposition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds in seconds, from 10 µs to 10 s: close enough to one another for a quantile that is at most a quarter off.
BOUNDS: tuple[float, ...] = tuple(
    [step * 10.0**decade for decade in range(-5, 1) for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)] + [10.0]
)


class Histogram:
    """Of seconds. What is above the last bound has a place of its own."""

    __slots__ = ("_peak", "counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self._peak = 0.0

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
    """What a histogram has got between two looks at it."""

    def __init__(self) -> None:
        self._counts: Sequence[int] = (0,) * (len(BOUNDS) + 1)
        self._sum = 0.0
        self._new: list[int] = []
        self._added = 0.0
        self.peak = 0.0

    def look(self, histogram: Histogram) -> None:
        counts, total = histogram.counts.copy(), histogram.sum
        self._new = [count - before for count, before in zip(counts, self._counts, strict=True)]
        self._added = total - self._sum
        self._counts, self._sum = counts, total
        self.peak = histogram.take_peak()

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
                return max(low, low + (high - low) * (rank - below) / count) if high > low else high
            below += count
        return self.peak
