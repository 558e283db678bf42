"""How busy the process is: how late its event loop is, and how much memory it has. Pure; the time is passed in.

Who measures is `penstock.services.load`; who is refused because of it is decided in `gate`.
"""

from __future__ import annotations

from collections import deque

# Seconds between two beats.
PULSE = 0.1

# Seconds for which a loop that was late counts as late.
MEMORY_OF_LAG = 1.0


class Load:
    """`beat` every PULSE seconds; a process that is never measured has no load."""

    def __init__(self) -> None:
        # Bytes that the process has in memory, at the last beat.
        self.memory = 0
        self._due: float | None = None
        # When each of the latest beats came, and how late it was.
        self._beats: deque[tuple[float, float]] = deque()

    def beat(self, now: float, memory: int) -> None:
        if self._due is not None:
            self._beats.append((now, max(0.0, now - self._due)))
        self._due = now + PULSE
        self.memory = memory

    def lag(self, now: float) -> float:
        """Seconds that the loop was late, at the most, of late.

        A beat that is overdue counts too: after a stall the loop may ask this before it beats again.
        """
        beats = self._beats
        while beats and beats[0][0] + MEMORY_OF_LAG <= now:
            beats.popleft()
        overdue = 0.0 if self._due is None else max(0.0, now - self._due)
        return max(overdue, max((late for _, late in beats), default=0.0))
