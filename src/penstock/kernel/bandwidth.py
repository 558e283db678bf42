"""A session's bandwidth: how many bytes it may send now, so that no second ever carries more than the limit.

A window over the last second gives the guarantee; a bucket of a tenth of a second spreads the bytes evenly within it.
"""

from __future__ import annotations

from collections import deque

# The time over which the limit holds exactly.
WINDOW = 1.0

# The share of a window that may go at once after a pause.
BURST = 0.1


class Budget:
    """Ask `free_at` before sending, tell `spend` what was sent."""

    def __init__(self, kbps: float) -> None:
        # Bytes per window.
        self._limit = _bytes(kbps)
        self._sent: deque[tuple[float, int]] = deque()
        self._total = 0
        # When what was sent so far has been paid for at the even rate.
        self._paid_at = 0.0

    def change(self, now: float, kbps: float) -> None:
        """A new limit. It also applies to what was sent in the last second, and to a pause that has already begun."""
        before, self._limit = self._limit, _bytes(kbps)
        if self._paid_at > now:
            self._paid_at = now + (self._paid_at - now) * before / self._limit

    def free_at(self, now: float, size: int) -> float:
        """When `size` more bytes may go: now, or later. More bytes than a window allows get a window to themselves.

        A time, not a duration: because of rounding, `now` plus the rest of a window may never quite reach its end.
        """
        self._forget(now)
        when = max(now, self._paid_at - BURST * WINDOW)
        excess = self._total + size - self._limit
        for time, sent in self._sent:
            if excess <= 0:
                break
            excess -= sent
            when = max(when, time + WINDOW)
        return when

    def spend(self, now: float, size: int) -> None:
        """Bytes have been sent, whether the limit allowed them or not."""
        self._sent.append((now, size))
        self._total += size
        self._paid_at = max(self._paid_at, now) + size / self._limit * WINDOW

    def _forget(self, now: float) -> None:
        sent = self._sent
        while sent and sent[0][0] + WINDOW <= now:
            self._total -= sent.popleft()[1]


def _bytes(kbps: float) -> float:
    return kbps * 1000 / 8 * WINDOW
