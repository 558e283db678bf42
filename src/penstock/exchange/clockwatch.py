"""A peer's clock difference and latency, measured by timestamps sent there and back.

When to ask, and what happens when it is too far, is in `conversation`. Specification: 6.3.4.6.
"""

from __future__ import annotations

from penstock.exchange.instant import Instant
from penstock.exchange.window import Average

# The largest timestamp of a request; the smallest is 0.
LATEST = 2**64 - 1

# Requests that may be unanswered; an answer to an older one is ignored like an unexpected one.
MAX_UNANSWERED = 8


class ClockReading:
    """What is known of a peer's clock. Milliseconds; None before the first answer."""

    __slots__ = ("average", "difference", "latency")

    def __init__(self) -> None:
        # Round-trip time, without the time the peer took.
        self.latency: float | None = None
        # By how much the peer's clock is ahead.
        self.difference: float | None = None
        # The average difference beyond what the latency can explain: this is what is limited.
        self.average: float | None = None


class ClockWatch(ClockReading):
    """Of one peer."""

    __slots__ = ("_asked", "_errors")

    def __init__(self, window_seconds: float) -> None:
        super().__init__()
        self._errors = Average(window_seconds)
        self._asked: dict[int, float] = {}

    def ask(self, now: Instant) -> int:
        """The timestamp of a request, to be sent now."""
        asked = self._asked
        # Never that of an earlier one, even if the clock was set back, because answers could not be told apart.
        sent = min(max(now.utc, 0), LATEST)
        while sent in asked:
            sent += 1
        asked[sent] = now.elapsed
        if len(asked) > MAX_UNANSWERED:
            del asked[next(iter(asked))]
        return sent

    def answered(self, asked: int, came: int, sent: int, now: Instant) -> None:
        """Process an answer: the timestamp of the request, and when it arrived and was answered by the peer's clock.

        An unexpected one is ignored.

        The difference is known to within half the latency, so only what exceeds that counts: a correct clock behind a
        line that is slow in one direction is not wrong. The peer reports how long it took, which it cannot use to
        increase the latency.
        """
        asked_at = self._asked.pop(asked, None)
        if asked_at is None:
            return
        # By the clock that does not jump: ours may be set between request and answer.
        away = max(0, round((now.elapsed - asked_at) * 1000))
        received = asked + away
        self.latency = min(max(0, latency(asked, came, sent, received)), away)
        self.difference = clock_difference(asked, came, sent, received)
        self.average = self._errors.add(now.elapsed, max(0.0, abs(self.difference) - self.latency / 2))


def latency(asked: int, came: int, sent: int, received: int) -> int:
    """The round-trip time in milliseconds, without the time the peer took; its clock may make it negative."""
    return (received - asked) - (sent - came)


def clock_difference(asked: int, came: int, sent: int, received: int) -> float:
    """Milliseconds by which the answering clock is ahead; right to within half the latency."""
    return ((came - asked) + (sent - received)) / 2
