"""How long processes of this machine had to wait for a processor, and when: time that no promise is about."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

PRESSURE = Path("/proc/pressure/cpu")


def stalled() -> float:
    """Seconds for which some process waited, since the machine was started; 0 where the system does not tell."""
    try:
        return int(PRESSURE.read_text().partition("total=")[2].split()[0]) / 1e6
    except OSError:
        return 0.0


class Pace:
    """A context manager that looks five times a second."""

    def __init__(self) -> None:
        self._over = Event()
        self._times: list[float] = []
        self._stalls: list[float] = []
        self._thread = Thread(target=self._look)

    def _look(self) -> None:
        while True:
            self._times.append(time.time())
            self._stalls.append(stalled())
            if self._over.wait(0.2):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def stalled_between(self, since: float, until: float) -> float:
        """By the time of day."""
        first = max(0, bisect_right(self._times, since) - 1)
        last = min(len(self._times) - 1, bisect_left(self._times, until))
        return self._stalls[last] - self._stalls[first]
