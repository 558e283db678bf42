"""What a subscription with a frequency limit holds back, until it may notify again.

States are whole, so the latest stands for those that were dropped before it. Who asks is `flows`.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

# The values of a flow's fields, in their order.
Values: TypeAlias = tuple[str | None, ...]


class Pace:
    """Of one subscription. What is held comes out one by one, oldest first, an interval after the last at least."""

    __slots__ = ("_held", "_interval", "ended", "next_millis", "subscription")

    def __init__(self, subscription: str, max_frequency: float, buffer_size: int) -> None:
        self.subscription = subscription
        # Rounded up, because rounding down would exceed the limit.
        self._interval = -int(-1_000 // max_frequency)
        # A buffer of nothing would never notify again once it has to wait: the latest is always held.
        self._held: deque[Values] = deque(maxlen=max(1, buffer_size))
        # When the next one may come out.
        self.next_millis = 0
        # The subscription has changed or is gone: what is held is not for it any more.
        self.ended = False

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def passes(self, now: int) -> bool:
        """Whether a new state may come out at once; then the next has to wait."""
        if self._held or now < self.next_millis:
            return False
        self.next_millis = now + self._interval
        return True

    def hold(self, values: Values) -> bool:
        """Keep it for later; the answer says whether an older one was dropped for it."""
        full = len(self._held) == self._held.maxlen
        self._held.append(values)
        return full

    def take(self, now: int) -> Values:
        """The oldest that is held."""
        self.next_millis = now + self._interval
        return self._held.popleft()
