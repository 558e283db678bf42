"""What has been counted in the last seconds: how much more is allowed, and averages.

Nothing here knows what is counted. Read next: `conversation`.
"""

from __future__ import annotations

from collections import deque

# A window is kept in at most this many pieces, however much is counted. A piece leaves the window when its beginning
# does, so that nobody is ever refused too early.
PIECES = 500


class Window:
    """A sum over the last `seconds` that must not exceed `most`. Times must not go back."""

    __slots__ = ("_piece", "_pieces", "_seconds", "most", "sum")

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.sum = 0
        self._seconds = seconds
        self._piece = seconds / PIECES
        # When each began, and what was counted in it.
        self._pieces: deque[list[float]] = deque()

    def add(self, now: float, amount: int) -> None:
        pieces = self._pieces
        if pieces and now < pieces[-1][0] + self._piece:
            pieces[-1][1] += amount
        else:
            pieces.append([now, amount])
        self.sum += amount

    def room(self, now: float) -> int:
        """How much more is allowed now."""
        pieces = self._pieces
        oldest = now - self._seconds
        while pieces and pieces[0][0] <= oldest:
            self.sum -= int(pieces.popleft()[1])
        return self.most - self.sum

    def average(self, now: float) -> float:
        """What was counted, by the second."""
        self.room(now)
        return self.sum / self._seconds


class Average:
    """The mean of the values of the last `seconds`."""

    __slots__ = ("_entries", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> float:
        """Add a value; returns the new mean."""
        entries = self._entries
        entries.append((now, value))
        while entries[0][0] <= now - self._seconds:
            entries.popleft()
        return sum([each for _, each in entries]) / len(entries)
