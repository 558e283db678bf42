"""Which records of a numbered log have been dealt with, so that each takes effect once, whatever is read again.

What a record changes goes to the journal together with a mark: its number, and the lowest number that was not settled
then. From the last marks of a partition it is known after a crash where to go on, and which of the later ones are done.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable

# Records of a partition that may be under way; so many marks are enough to go on.
MAX_UNDER_WAY = 1_000


class OffsetLedger:
    """Of one partition, whose records come in the order of their numbers. A record may have several parts, each with an
    effect of its own.
    """

    def __init__(self) -> None:
        # All below it are settled; None until the first record is known.
        self.low: int | None = None
        # Settled ones that are not below it, because an earlier one is not.
        self._settled: set[int] = set()
        # Parts whose effect is on the disk, of records that may be read again.
        self._applied: set[tuple[int, int]] = set()
        # Those that were begun, in their order, without the settled ones at its beginning.
        self._begun: deque[int] = deque()
        self._last = -1
        # How many logs of the same name there have been before.
        self._generation = 0

    @classmethod
    def of_marks(cls, marks: Iterable[str]) -> OffsetLedger:
        """From what was found in the journal, in its order."""
        ledger = cls()
        for text in marks:
            found = json.loads(text)
            if found["generation"] != ledger._generation:
                ledger.forget()
                ledger._generation = found["generation"]
            ledger._applied.add((found["offset"], found["part"]))
            ledger.low = max(found["low"], ledger.low or 0)
        ledger._forget()
        return ledger

    @property
    def end(self) -> int:
        """The log has had at least so many records."""
        return max([self.low or 0, *[offset + 1 for offset, _ in self._applied]])

    def restart(self) -> None:
        """The log is read from `low` again; nothing is under way any more."""
        self._begun.clear()
        self._last = -1

    def forget(self) -> None:
        """The log is another one under the same name."""
        self.low = None
        self._settled.clear()
        self._applied.clear()
        self._generation += 1
        self.restart()

    def begin(self, offset: int) -> bool:
        """A record was read. Whether it is to be dealt with: not if it is settled, or has been read before."""
        if self.low is None:
            self.low = offset
        if offset < self.low or offset in self._settled or offset <= self._last:
            return False
        if not self._begun:
            # Numbers may have gaps, as between transactions.
            self.low = min([offset, *self._settled])
        self._last = offset
        self._begun.append(offset)
        return True

    def is_applied(self, offset: int, part: int) -> bool:
        return (offset, part) in self._applied

    def mark(self, offset: int, part: int) -> str:
        """What the journal keeps with the effect of a record."""
        found = {"offset": offset, "part": part, "low": self.low, "generation": self._generation}
        return json.dumps(found, separators=(",", ":"))

    def settle(self, offset: int) -> None:
        """All of a record is dealt with, or will never be. One that must come again is never settled."""
        settled, begun = self._settled, self._begun
        settled.add(offset)
        moved = False
        while begun and begun[0] in settled:
            first = begun.popleft()
            settled.discard(first)
            self.low = first + 1
            moved = True
        if moved:
            if begun:
                self.low = begun[0]
            self._forget()

    def _forget(self) -> None:
        if self.low is not None and self._applied:
            low = self.low
            self._applied = {each for each in self._applied if each[0] >= low}
