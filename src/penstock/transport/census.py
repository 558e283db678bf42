"""How many connections or sessions each client address has, and whether it may have one more."""

from __future__ import annotations

from collections import Counter


class Census:
    """Counts per address under a limit; 0 means no limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._counts: Counter[str] = Counter()

    def is_full(self, address: str) -> bool:
        return bool(self.limit) and self._counts[address] >= self.limit

    def enter(self, address: str) -> None:
        self._counts[address] += 1

    def leave(self, address: str) -> None:
        self._counts[address] -= 1
        if self._counts[address] <= 0:
            del self._counts[address]

    def __len__(self) -> int:
        return self._counts.total()
