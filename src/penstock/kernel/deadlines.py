"""The deadlines of a session: keep-alives, SYNC, polling, inactivity, and how long it lives without a connection.

Times only: what is done when one has come is decided in `session`. Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from penstock.kernel.limits import clamp

if TYPE_CHECKING:
    from penstock.kernel.connection import Binding
    from penstock.kernel.limits import SessionLimits

# A keep-alive may be sent earlier by this share of its interval, at most by so many seconds, together with those of
# other sessions, because one turn for many costs less CPU than one for each (docs/performance.md).
KEEPALIVE_LEAD = 0.05
MAX_LEAD = 0.25


class Due(Enum):
    """What has to be done because its time has come."""

    NOTHING = auto()
    # The session has lasted as long as it may, or has had no connection for too long.
    END = auto()
    FORGET = auto()
    # Nothing has been heard from the client for too long.
    SILENCE = auto()
    # The connection has lasted as long as it may, or the poll has.
    REBIND = auto()
    SYNC = auto()
    PROBE = auto()


class Deadlines:
    """Of one session. `last_write` is an argument because the connection keeps it: it changes with every write."""

    __slots__ = (
        "_bound_at",
        "_ends_at",
        "_inactivity",
        "_is_bound",
        "_keepalive",
        "_last_request",
        "_last_sync",
        "_limits",
        "_poll_until",
        "_polls",
        "_sends_sync",
        "_unbound_until",
    )

    def __init__(self, limits: SessionLimits, now: float) -> None:
        self._limits = limits
        duration = limits.max_session_duration_minutes * 60
        self._ends_at = now + duration if duration else inf
        self._unbound_until = now + limits.session_timeout_millis / 1000
        self._is_bound = False
        self._polls = False
        self._sends_sync = False
        self._bound_at = 0.0
        self._last_sync = 0.0
        self._last_request = 0.0
        self._keepalive = 0.0
        self._inactivity = inf
        self._poll_until = inf

    # -- what happens ---------------------------------------------------------------------------------------------

    def bind(self, binding: Binding, now: float) -> None:
        """A connection begins."""
        limits = self._limits
        self._is_bound = True
        self._polls = binding.polling
        self._sends_sync = binding.send_sync
        self._bound_at = self._last_sync = self._last_request = now
        self._keepalive = keepalive_millis(binding, limits) / 1000
        self._inactivity = self._poll_until = inf
        if binding.polling:
            self._poll_until = now + self._keepalive
        elif binding.inactivity_millis:
            least, most = limits.min_inactivity_millis, limits.max_inactivity_millis
            self._inactivity = clamp(binding.inactivity_millis, 0, least, most) / 1000

    def unbind(self, until: float) -> None:
        """The connection has ended; the client is expected back by the given time."""
        self._is_bound = False
        self._unbound_until = until

    def touch(self, now: float) -> None:
        """The client is alive."""
        self._last_request = now

    def end_by(self, when: float) -> None:
        """The session ends at the given time, unless it ends before."""
        self._ends_at = min(self._ends_at, when)

    def synchronize(self, now: float) -> int:
        """SYNC is sent now; returns the seconds it reports, counted from the start of the connection."""
        self._last_sync = now
        return round(now - self._bound_at)

    # -- what is due ----------------------------------------------------------------------------------------------

    def is_poll_over(self, now: float) -> bool:
        return self._poll_until <= now

    def due(self, now: float, last_write: float) -> Due:
        """The first thing that is due; called again when that is done, by the alarm that `next` sets.

        Conditions use exactly the sums that `next` uses: because of rounding, `now - last >= interval` may still be
        false when `last + interval` has come, and the alarm would go off for ever.
        """
        limits = self._limits
        if now >= self._ends_at:
            return Due.END
        if not self._is_bound:
            return Due.FORGET if now >= self._unbound_until else Due.NOTHING
        if now >= self._last_request + self._inactivity:
            return Due.SILENCE
        if self._polls:
            return Due.REBIND if now >= self._poll_until else Due.NOTHING
        if limits.max_streaming_millis and now >= self._bound_at + limits.max_streaming_millis / 1000:
            return Due.REBIND
        # It may be early as well; else a keep-alive sent early would come just before it every time.
        sync = limits.sync_millis / 1000
        if self._sends_sync and now >= self._last_sync + sync - _lead(sync):
            return Due.SYNC
        return Due.PROBE if now >= last_write + self._keepalive else Due.NOTHING

    def next(self, last_write: float) -> tuple[float, float]:
        """When something is due next, and how much earlier it may be done together with others."""
        deadline = self._ends_at
        if not self._is_bound:
            return min(deadline, self._unbound_until), 0.0
        if self._polls:
            return min(deadline, self._poll_until), 0.0
        limits = self._limits
        deadline = min(deadline, self._last_request + self._inactivity)
        if limits.max_streaming_millis:
            deadline = min(deadline, self._bound_at + limits.max_streaming_millis / 1000)
        # Only what merely informs the client may come early.
        word = last_write + self._keepalive
        if self._sends_sync:
            word = min(word, self._last_sync + limits.sync_millis / 1000)
        return (word, _lead(self._keepalive)) if word < deadline else (deadline, 0.0)


def keepalive_millis(binding: Binding, limits: SessionLimits) -> int:
    """The longest silence of a connection bound like this."""
    if binding.polling:
        return min(binding.idle_millis, limits.max_idle_millis)
    return clamp(
        binding.keepalive_millis,
        limits.default_keepalive_millis,
        limits.min_keepalive_millis,
        limits.max_keepalive_millis,
    )


def _lead(interval: float) -> float:
    return min(interval * KEEPALIVE_LEAD, MAX_LEAD)
