"""The data notifications a session has sent and may have to send again, already encoded and numbered.

Bounded by bytes and by age; what falls out can no longer be recovered, and the client is told so.
Specification: TLCP chapter 1, "Session Recovery".
"""

from __future__ import annotations


class Batch:
    """What one flush has sent."""

    __slots__ = ("lines", "size", "time")

    def __init__(self, time: float, lines: list[bytes], size: int) -> None:
        self.time = time
        self.lines = lines
        self.size = size


class RecoveryLog:
    """Batches of sent lines, oldest first. `sent` counts all notifications ever sent, `first` those no longer kept.

    `reached` is the most that `sent` has ever been: a client may know more than was sent since the last rewind.
    """

    __slots__ = ("_batches", "_max_age", "_max_bytes", "_size", "first", "reached", "sent")

    def __init__(self, max_bytes: int, max_age: float) -> None:
        self.sent = 0
        self.first = 0
        self.reached = 0
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._size = 0
        # Not a deque: every session has one, and a deque takes 700 bytes when there is hardly anything in it.
        self._batches: list[Batch] = []

    def append(self, now: float, lines: list[bytes], size: int) -> None:
        """Remember lines that have just been sent; the list is kept, the caller must let go of it."""
        self.sent += len(lines)
        if self.sent > self.reached:
            self.reached = self.sent
        self._size += size
        batches = self._batches
        batches.append(Batch(now, lines, size))
        oldest = now - self._max_age
        count = 0
        for batch in batches:
            if self._size <= self._max_bytes and batch.time >= oldest:
                break
            self._size -= batch.size
            self.first += len(batch.lines)
            count += 1
        if count:
            del batches[:count]

    def clear(self) -> None:
        """The client has everything: nothing need be kept."""
        self._batches.clear()
        self._size = 0
        self.first = self.sent

    def rewind(self, progressive: int) -> list[bytes] | None:
        """Take back, in order, what was sent after `progressive`, as if it had never been sent.

        None when it is not kept.
        """
        if not self.first <= progressive <= self.sent:
            return None
        again: list[bytes] = []
        while self.sent > progressive:
            batch = self._batches.pop()
            self._size -= batch.size
            self.sent -= len(batch.lines)
            keep = progressive - self.sent
            if keep > 0:
                again[:0] = batch.lines[keep:]
                kept = batch.lines[:keep]
                size = sum(map(len, kept))
                self._batches.append(Batch(batch.time, kept, size))
                self._size += size
                self.sent = progressive
            else:
                again[:0] = batch.lines
        return again
