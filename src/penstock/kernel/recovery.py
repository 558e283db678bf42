"""The data notifications a session has sent and may have to send again, already encoded and numbered.

Bounded by bytes and by age; what falls out can no longer be recovered, and the client is told so.
Specification: TLCP chapter 1, "Session Recovery".
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.ledger import Ledger


class Batch:
    """What one flush sends: whole lines. Sessions that share a stream share it, and so do their logs.

    Kept as one text, because a list of lines takes far more memory; a line ends in CR-LF and has none inside.
    """

    __slots__ = ("chunked", "count", "framed", "holders", "payload", "time", "updates")

    def __init__(self, time: float, lines: Sequence[bytes]) -> None:
        self.time = time
        self.count = len(lines)
        self.payload = b"".join(lines)
        # How many of the lines are updates that are sent for the first time.
        self.updates = 0
        # Its WebSocket frame, and its chunk of an HTTP body: made by the first connection that needs it, for all others
        # that send it in the same turn.
        self.framed: bytes | None = None
        self.chunked: bytes | None = None
        # How many logs keep it.
        self.holders = 0

    def sent(self) -> None:
        """No connection is going to send it any more; logs keep only the payload."""
        self.framed = self.chunked = None

    def lines(self) -> list[bytes]:
        return self.payload.splitlines(keepends=True)


class RecoveryLog:
    """Batches that were sent, oldest first. `sent` counts all notifications ever sent, `first` those no longer kept.

    `reached` is the most that `sent` has ever been: a client may know more than was sent since the last rewind.
    """

    __slots__ = ("_batches", "_ledger", "_max_age", "_size", "first", "max_bytes", "reached", "sent")

    def __init__(self, max_bytes: int, max_age: float, ledger: Ledger | None = None) -> None:
        """Bytes are counted in `ledger`, once for all logs that share them."""
        self._ledger = Ledger() if ledger is None else ledger
        self.sent = 0
        self.first = 0
        self.reached = 0
        self.max_bytes = max_bytes
        self._max_age = max_age
        self._size = 0
        # Not a deque: every session has a log, and even an empty deque takes much memory.
        self._batches: list[Batch] = []

    def blank(self) -> RecoveryLog:
        """An empty log with the same bounds."""
        return RecoveryLog(self.max_bytes, self._max_age, self._ledger)

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._size

    def append(self, batch: Batch) -> None:
        """Remember lines that have just been sent."""
        self.sent += batch.count
        if self.sent > self.reached:
            self.reached = self.sent
        if self._batches:
            self._batches.append(batch)
        else:
            # A list that grows by itself would have room for three more: most sessions have been sent one thing.
            self._batches = [batch]
        self._hold(batch)
        self._trim()

    def _hold(self, batch: Batch) -> None:
        size = len(batch.payload)
        self._size += size
        if not batch.holders:
            self._ledger.logged += size
        batch.holders += 1

    def _let_go(self, batch: Batch) -> None:
        size = len(batch.payload)
        self._size -= size
        batch.holders -= 1
        if not batch.holders:
            self._ledger.logged -= size

    def extend(self, other: RecoveryLog, mark: int) -> None:
        """Remember what another log has remembered since the time when it had sent `mark` notifications."""
        missing = other.sent - mark
        if not missing:
            return
        if other.first > mark:
            # What it no longer keeps, and all that was before, is not kept here either.
            self.clear()
            self.first += other.first - mark
        start = len(other._batches)
        found = mark - other.sent if other.first <= mark else other.first - other.sent
        while found < 0:
            start -= 1
            found += other._batches[start].count
        new = other._batches[start:]
        self._batches += new
        for batch in new:
            self._hold(batch)
        self.sent += missing
        if self.sent > self.reached:
            self.reached = self.sent
        self._trim()

    def _trim(self) -> None:
        """Drop the oldest batches while there are too many bytes, or when they are too old."""
        if self._batches:
            self.forget(self._batches[-1].time)

    def forget(self, now: float) -> None:
        """Drop what has become too old; nothing else does if nothing more is sent."""
        batches = self._batches
        oldest = now - self._max_age
        if not batches or (self._size <= self.max_bytes and batches[0].time >= oldest):
            return
        count = 0
        for old in batches:
            if self._size <= self.max_bytes and old.time >= oldest:
                break
            self._let_go(old)
            self.first += old.count
            count += 1
        del batches[:count]

    def clear(self) -> None:
        """The client has everything: nothing needs to be kept."""
        for batch in self._batches:
            self._let_go(batch)
        self._batches.clear()
        self.first = self.sent

    def take_back(self, batch: Batch) -> None:
        """The last batch was not sent in the end."""
        self.sent -= batch.count
        self.reached = self.sent
        if self._batches and self._batches[-1] is batch:
            self._batches.pop()
            self._let_go(batch)
        else:
            # It was too long to be kept.
            self.first = self.sent

    def rewind(self, progressive: int) -> list[bytes] | None:
        """Take back, in order, what was sent after `progressive`, as if it had never been sent.

        None when that is no longer kept.
        """
        if not self.first <= progressive <= self.sent:
            return None
        again: list[bytes] = []
        while self.sent > progressive:
            batch = self._batches.pop()
            self._let_go(batch)
            self.sent -= batch.count
            keep = progressive - self.sent
            lines = batch.lines()
            if keep > 0:
                again[:0] = lines[keep:]
                kept = Batch(batch.time, lines[:keep])
                self._batches.append(kept)
                self._hold(kept)
                self.sent = progressive
            else:
                again[:0] = lines
        return again
