"""How far a peer's clock is off, and how long datagrams are on the way: from timestamps sent there and back.

When to ask, and what happens when it is too far, is in `conversation`. Specification: 6.3.4.6.
"""

from __future__ import annotations

from penstock.exchange.instant import Instant
from penstock.exchange.window import Average

# The last time that a request can tell; the first is 0.
LATEST = 2**64 - 1

# Requests that may be unanswered; the answer to an older one is ignored like one that nobody asked for.
MAX_UNANSWERED = 8


class ClockWatch:
    """Of one peer. Milliseconds; None before the first answer."""

    __slots__ = ("_asked", "_errors", "average", "difference", "latency")

    def __init__(self, window_seconds: float) -> None:
        # There and back, without the time the peer took.
        self.latency: float | None = None
        # By how much the peer's clock is ahead.
        self.difference: float | None = None
        # On average, how far it is off beyond what the latency can explain: this is what is limited.
        self.average: float | None = None
        self._errors = Average(window_seconds)
        self._asked: dict[int, float] = {}

    def ask(self, now: Instant) -> int:
        """The timestamp of a request, to be sent now."""
        asked = self._asked
        # Not the time of an earlier one, even if the clock was set back: answers could not be told apart.
        sent = min(max(now.utc, 0), LATEST)
        while sent in asked:
            sent += 1
        asked[sent] = now.elapsed
        if len(asked) > MAX_UNANSWERED:
            del asked[next(iter(asked))]
        return sent

    def answered(self, asked: int, came: int, sent: int, now: Instant) -> None:
        """Take an answer in: the timestamp of the request, and when it came and was answered on the peer's clock.

        One to no request is ignored.

        The difference is known to within half the latency, so only what exceeds that counts: a right clock behind a
        slow line in one direction is not wrong. The peer tells how long it took; it cannot add to the latency so.
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
    """Milliseconds on the way, there and back, without the time the peer took; its clock may make it negative."""
    return (received - asked) - (sent - came)


def clock_difference(asked: int, came: int, sent: int, received: int) -> float:
    """Milliseconds by which the answering clock is ahead; right to within half the latency."""
    return ((came - asked) + (sent - received)) / 2
