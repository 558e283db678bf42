"""When each row of a replay is due. Pure: the clock is an argument, nobody waits here.

The times themselves are read in `rows`.
"""

from __future__ import annotations


class ReplayPace:
    """As recorded, times a speed; or so many rows a second; or, with neither, at once."""

    def __init__(self, speed: float, rate: float | None) -> None:
        self._speed = speed
        self._rate = rate
        self._begun = 0.0
        self._first: float | None = None
        self._count = 0
        self._due = 0.0

    def begin(self, now: float) -> None:
        """The file is read from its start, once more."""
        self._begun = self._due = now
        self._first = None
        self._count = 0

    def due(self, recorded: float | None) -> float:
        """When the next row is to be published, on the clock of `begin`: never before the one ahead of it."""
        if self._rate is not None:
            self._due = self._begun + self._count / self._rate
            self._count += 1
        elif self._speed and recorded is not None:
            if self._first is None:
                self._first = recorded
            self._due = max(self._due, self._begun + (recorded - self._first) / self._speed)
        return self._due
