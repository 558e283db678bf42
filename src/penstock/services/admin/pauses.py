"""How long an address has to wait after wrong logins: not at first, then twice as long each time. Pure.

What a login is, and who is told to wait, is in `logins`.
"""

from __future__ import annotations

# Wrong logins of an address that cost nothing: people mistype.
FREE_MISTAKES = 3

# Seconds after the next wrong one, doubled by each further one, and the most.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0

# An address that has made no mistake for so many seconds begins anew.
FORGIVEN_AFTER = 900.0

# Addresses that are kept in mind; beyond it the one whose last mistake is the oldest is forgotten.
MAX_ADDRESSES = 10_000


class Pauses:
    """Asked before a login is looked at, told what came of it."""

    def __init__(self) -> None:
        # How many mistakes, and when the last was; the latest at the end.
        self._mistakes: dict[str, tuple[int, float]] = {}

    def left(self, address: str, now: float) -> float:
        """Seconds until a login of this address is looked at."""
        count, last = self._mistakes.get(address, (0, 0.0))
        if count <= FREE_MISTAKES:
            return 0.0
        # The exponent is bounded, because a number of any size may come of it else.
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(count - FREE_MISTAKES - 1, 16))
        return max(0.0, last + pause - now)

    def failed(self, address: str, now: float) -> None:
        count, last = self._mistakes.pop(address, (0, now))
        if now - last >= FORGIVEN_AFTER:
            count = 0
        self._mistakes[address] = count + 1, now
        if len(self._mistakes) > MAX_ADDRESSES:
            del self._mistakes[next(iter(self._mistakes))]

    def succeeded(self, address: str) -> None:
        self._mistakes.pop(address, None)
