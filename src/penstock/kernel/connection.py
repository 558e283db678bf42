"""A session's connection in time: keep-alives, SYNC, polling, inactivity, and how long a session lives without one.

What goes over it is decided in `outbox` and `session`. Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from penstock.kernel.errors import Cause
from penstock.kernel.limits import clamp
from penstock.kernel.outbox import Outbox

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import Codec

# A keep-alive may be sent earlier by this share of its interval, or so many seconds, together with those of other
# sessions: with 3,000 idle sessions a third less processor time than with a hundredth, and no gain by a tenth.
KEEPALIVE_LEAD = 0.05
MAX_LEAD = 0.25


@dataclass(frozen=True, slots=True)
class Binding:
    """What the client wants of the connection; times in milliseconds, None where it does not say."""

    polling: bool = False
    polling_millis: int = 0
    idle_millis: int = 0
    keepalive_millis: int | None = None
    inactivity_millis: int | None = None
    send_sync: bool = True


UNBOUND = Binding()


class Connection(Outbox):
    """The base of a session, which says what is to happen when a time has come."""

    __slots__ = (
        "_binding",
        "_bound_at",
        "_ends_at",
        "_inactivity",
        "_keepalive",
        "_last_request",
        "_last_sync",
        "_last_write",
        "_poll_delay_millis",
        "_poll_until",
        "_unbound_until",
        "codec",
    )

    def __init__(self, kernel: Kernel, codec: Codec) -> None:
        super().__init__(kernel)
        self.codec = codec
        self._binding = UNBOUND
        duration = self.limits.max_session_duration_minutes * 60
        self._ends_at = kernel.clock() + duration if duration else inf
        self._unbound_until = kernel.clock() + self.limits.session_timeout_millis / 1000
        self._bound_at = 0.0
        self._last_write = 0.0
        self._last_sync = 0.0
        self._last_request = 0.0
        self._keepalive = 0.0
        self._inactivity = inf
        self._poll_delay_millis = 0
        self._poll_until = inf

    def close(self, code: int | None, message: str, close_socket: bool = True) -> None:
        """End the session for good."""
        raise NotImplementedError

    def drop(self) -> None:
        """The connection is gone."""
        raise NotImplementedError

    def rebind(self, delay_millis: int | None = None, close_socket: bool = False) -> None:
        """Have the client come back on another connection."""
        raise NotImplementedError

    def _say(self, line: bytes) -> None:
        """Tell the client something about the connection itself."""
        raise NotImplementedError

    def keepalive_millis(self, binding: Binding) -> int:
        """The longest silence of a connection bound like this: what CONOK announces."""
        limits = self.limits
        if binding.polling:
            return min(binding.idle_millis, limits.max_idle_millis)
        return clamp(
            binding.keepalive_millis,
            limits.default_keepalive_millis,
            limits.min_keepalive_millis,
            limits.max_keepalive_millis,
        )

    def _begin(self, binding: Binding, now: float) -> None:
        """A connection begins."""
        limits = self.limits
        self._binding = binding
        self._bound_at = self._last_write = self._last_sync = self._last_request = now
        self._keepalive = self.keepalive_millis(binding) / 1000
        self._inactivity = self._poll_until = inf
        if binding.polling:
            self._poll_delay_millis = min(binding.polling_millis, limits.max_polling_millis)
            self._poll_until = now + self._keepalive
        elif binding.inactivity_millis:
            least, most = limits.min_inactivity_millis, limits.max_inactivity_millis
            self._inactivity = clamp(binding.inactivity_millis, 0, least, most) / 1000

    def touch(self) -> None:
        """A request for this session has come: the client is alive."""
        self._last_request = self.kernel.clock()

    def end_after(self, seconds: float) -> None:
        """Have the session end by then, if it has not ended before."""
        self._ends_at = min(self._ends_at, self.kernel.clock() + seconds)
        self._set_alarm()

    def expire(self, now: float) -> None:
        """Do whatever is due, then set the next deadline.

        Conditions are written with the very sums that `_set_alarm` uses: `now - last >= interval` may still be false
        in the last bit when `last + interval` has come, and the alarm would ring for ever.
        """
        if self.closed:
            return
        if now >= self._ends_at:
            self.close(Cause.MAX_DURATION, "The maximum session duration has been reached")
            return
        channel = self.channel
        if channel is None:
            if now >= self._unbound_until:
                self.close(None, "")
                return
        elif now >= self._last_request + self._inactivity:
            if channel.listening:
                channel.abort()
                self.drop()
            else:
                # Whatever it has sent waits to be read: that is no fault of the client.
                self._last_request = now
        elif self._binding.polling:
            if now >= self._poll_until:
                self.rebind()
        else:
            self._expire_streaming(now)
        if now >= self._drain_at:
            self._drain_at = inf
            # It may have been so all through its rest.
            self.dirty = False
            self._mark_dirty()
        self._set_alarm()

    def _expire_streaming(self, now: float) -> None:
        limit = self.limits.max_streaming_millis
        if limit and now >= self._bound_at + limit / 1000:
            self.rebind()
            return
        # It leads as well, or a keep-alive sent early would come just before it every time.
        sync = self.limits.sync_millis / 1000
        if self._binding.send_sync and now >= self._last_sync + sync - _lead(sync):
            self._last_sync = now
            self._say(self.codec.synchronized(round(now - self._bound_at)))
        if now >= self._last_write + self._keepalive:
            self._say(self.codec.probe())

    def _set_alarm(self) -> None:
        deadline = min(self._ends_at, self._drain_at)
        self.lead = 0.0
        if self.channel is None:
            deadline = min(deadline, self._unbound_until)
        elif self._binding.polling:
            deadline = min(deadline, self._poll_until)
        else:
            deadline = min(deadline, self._last_request + self._inactivity)
            if self.limits.max_streaming_millis:
                deadline = min(deadline, self._bound_at + self.limits.max_streaming_millis / 1000)
            # Only what the client is merely told may come early.
            word = self._last_write + self._keepalive
            if self._binding.send_sync:
                word = min(word, self._last_sync + self.limits.sync_millis / 1000)
            if word < deadline:
                deadline = word
                self.lead = _lead(self._keepalive)
        self.kernel.set_timer(self, deadline)


def _lead(interval: float) -> float:
    return min(interval * KEEPALIVE_LEAD, MAX_LEAD)
