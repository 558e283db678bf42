"""How far a peer's clock is off, and how long datagrams are on the way: from timestamps sent there and back.

When to ask, and what happens when it is too far, is in `connection`. Specification: 6.3.4.6.
"""

from __future__ import annotations

from penstock.doors.tlex.moment import Moment
from penstock.doors.tlex.window import Average
from penstock.wire.tlex.datagrams import MAX_TIMESTAMP, TimestampsRequest, TimestampsResponse

# Requests that may be unanswered; the answer to an older one is ignored like one that nobody asked for.
MAX_UNANSWERED = 8


class ClockWatch:
    """Of one connection. Milliseconds; None before the first answer."""

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

    def ask(self, now: Moment) -> bytes:
        """A request, to be sent now."""
        asked = self._asked
        # Not the time of an earlier one, even if the clock was set back: answers could not be told apart.
        sent = min(max(now.utc, 0), MAX_TIMESTAMP)
        while sent in asked:
            sent += 1
        asked[sent] = now.elapsed
        if len(asked) > MAX_UNANSWERED:
            del asked[next(iter(asked))]
        return TimestampsRequest(sent).encode()

    def answered(self, answer: TimestampsResponse, now: Moment) -> None:
        """Take an answer in; one to no request is ignored.

        The difference is known to within half the latency, so only what exceeds that counts: a right clock behind a
        slow line in one direction is not wrong. The peer tells how long it took; it cannot add to the latency so.
        """
        asked_at = self._asked.pop(answer.request_sent, None)
        if asked_at is None:
            return
        # By the clock that does not jump: ours may be set between request and answer.
        away = max(0, round((now.elapsed - asked_at) * 1000))
        received = answer.request_sent + away
        self.latency = min(max(0, answer.latency(received)), away)
        self.difference = answer.clock_difference(received)
        self.average = self._errors.add(now.elapsed, max(0.0, abs(self.difference) - self.latency / 2))
