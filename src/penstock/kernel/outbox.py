"""An outbox: what waits to be sent to one client, in which order, and when it may be encoded.

While it is not ready (unbound, congested, resting, or of limited bandwidth) nothing is encoded: lanes hold, and other
notifications wait in order. The connection, and what becomes of encoded lines, is in `session`.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from penstock.kernel.bandwidth import Budget
from penstock.kernel.lane import Lane
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import Channel

# Bytes that are encoded in one go while more is pending: what is encoded cannot be overtaken by something newer.
SHARE = 65_536


class Outbox(Timed):
    """The base of a session."""

    # A server holds many thousands: without a dictionary each takes a kilobyte less.
    __slots__ = (
        "_budget",
        "_congested",
        "_drain_at",
        "_lines",
        "_notices",
        "_pending",
        "_rest_until",
        "_room",
        "_stalled",
        "_told",
        "channel",
        "closed",
        "dirty",
        "held",
        "kernel",
        "limits",
        "ready",
    )

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.limits = kernel.limits
        self.channel: Channel | None = None
        self.closed = False
        self.ready = False
        self.dirty = False
        self._congested = False
        # Until then nothing more is written, nor encoded if the machine is under strain: see `Kernel.rest`.
        self._rest_until = 0.0
        self._lines: list[bytes] = []
        # Bytes that may still be encoded before the next write.
        self._room = self.limits.max_pending_bytes
        # Bytes of the events that wait in lanes.
        self.held = 0
        # None while nothing is: a deque takes 600 bytes even then.
        self._pending: deque[Lane | bytes] | None = None
        # How many of the pending are not lanes: those have bounds of their own.
        self._notices = 0
        # And how many bytes these are.
        self._told = 0
        # Encoded, by this lane if by any, but to wait until the bandwidth allows it.
        self._stalled: tuple[Lane | None, bytes] | None = None
        self._budget: Budget | None = None
        # When to encode more, if nothing else happens before.
        self._drain_at = inf

    def flush(self) -> None:
        """Hand what is encoded to the connection; called by the kernel at the end of a turn."""
        raise NotImplementedError

    def _set_alarm(self) -> None:
        raise NotImplementedError

    # -- what comes in --------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """A data notification for now; only while ready."""
        self._lines.append(line)
        self._room -= len(line)
        if self._room < 0:
            self.ready = False
        if not self.dirty:
            self._mark_dirty()

    def _mark_dirty(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.kernel.add_dirty(self)

    def tell(self, line: bytes) -> None:
        """A data notification that must not be lost or overtaken: now, or when the session is ready again.

        One that the session's protocol has no form for is empty.
        """
        if not line:
            return
        if self.ready:
            self.send(line)
        else:
            self.add_pending(line)

    def weigh(self, size: int) -> None:
        """So many more bytes wait in lanes, or fewer if below zero."""
        self.held += size
        self._count_waiting(size)

    def count_told(self, size: int) -> None:
        """So many more bytes of notifications wait that are no events, or fewer if below zero."""
        self._told += size
        self._count_waiting(size)

    def _count_waiting(self, size: int) -> None:
        ledger = self.kernel.ledger
        ledger.waiting += size
        if ledger.waiting + ledger.logged > ledger.limit:
            # Seen to at the end of the turn: not in the middle of a fan-out.
            self.kernel.wake()

    def add_pending(self, entry: Lane | bytes) -> None:
        if self._pending is None:
            self._pending = deque()
        self._pending.append(entry)
        if isinstance(entry, bytes):
            self._notices += 1
            self.count_told(len(entry))
        # Drained, or closed when there are too many, at the end of the turn: not in the middle of a fan-out.
        if self.dirty:
            return
        if self._notices > self.limits.max_unbound_notifications or (self._drain_at == inf and self._is_open()):
            self._mark_dirty()

    # -- convoys --------------------------------------------------------------------------------------------------

    def is_calm(self) -> bool:
        """Whether all that there is for the client has been written."""
        return not (self.dirty or self._lines or self._pending or self._congested or self._stalled is not None)

    def rests(self) -> bool:
        """Whether what is encoded now will wait to be written."""
        return self._rest_until > self.kernel.now()

    def hurry(self) -> None:
        """Write what waits for the end of a rest."""
        if (self._lines or self._pending) and self.rests() and not self._congested:
            self._rest_until = 0.0
            self.flush()

    def _take_over(self, other: Outbox, lanes: dict[Lane, Lane]) -> None:
        """Hold what another outbox holds; `lanes` of ours by those of the other."""
        self.ready = other.ready
        self.weigh(other.held - self.held)
        self._lines = other._lines.copy()
        self._room = other._room
        if other._pending is not None:
            self._pending = deque([lanes[entry] if isinstance(entry, Lane) else entry for entry in other._pending])
        self._notices = other._notices
        self.count_told(other._told - self._told)
        self._rest_until = other._rest_until
        self._drain_at = other._drain_at
        if other.dirty or self._lines:
            self._mark_dirty()

    # -- what may go ----------------------------------------------------------------------------------------------

    def congest(self) -> None:
        """The connection has more unsent bytes than it should: hold everything."""
        self._congested = True
        self.ready = False

    def relieve(self) -> None:
        """The connection has drained."""
        if self._congested:
            self._congested = False
            self._mark_dirty()
            self._set_alarm()

    def _update_ready(self) -> None:
        """Encode what is pending, now or after the rest.

        Ready: what comes may be sent at once, for what came before has gone. With a bandwidth limit everything takes
        its turn among the pending.
        """
        self.ready = False
        if self._is_open():
            if self._rest_until <= self.kernel.now():
                self._drain()
            elif self._pending or self._stalled is not None:
                self._drain_later(self._rest_until)

    def _is_open(self) -> bool:
        """Whether there is a connection that takes more."""
        return self.channel is not None and not self._congested

    def _drain(self) -> None:
        """Encode what is pending, as far as the share of one turn and the bandwidth go.

        A busy item does not starve a rare one: with a bandwidth limit one line of each lane goes in turn, without one
        a lane that has used up the share goes behind the others.
        """
        assert self.channel is not None
        now = self.kernel.clock()
        self._drain_at = inf
        pending = self._pending or deque()
        budget = self._budget
        overhead = self.channel.overhead
        share = SHARE
        while share > 0 and (pending or self._stalled is not None):
            lane = None
            if self._stalled is not None:
                lane, line = self._stalled
            else:
                if budget is not None:
                    # Not even a byte may go: what is not encoded yet may still be overtaken by something newer.
                    free_at = budget.free_at(now, overhead + 1)
                    if free_at > now:
                        self._drain_later(free_at)
                        return
                entry = pending.popleft()
                if isinstance(entry, bytes):
                    self._notices -= 1
                    self.count_told(-len(entry))
                    line = entry
                else:
                    lane = entry
                    found = entry.take()
                    if found is None:
                        entry.drained()
                        continue
                    line = found
                    if budget is not None or len(line) >= share:
                        pending.append(entry)
                    elif entry.has_held():
                        pending.appendleft(entry)
                    else:
                        entry.drained()
            if budget is not None:
                size = overhead + len(line)
                free_at = budget.free_at(now, size)
                if free_at > now:
                    self._stalled = lane, line
                    self._drain_later(free_at)
                    return
                budget.spend(now, size)
                # All lines of a turn go with one write.
                overhead = 0
            if self._stalled is not None:
                self._stalled = None
                if lane is not None:
                    lane.restart_interval()
            self._lines.append(line)
            share -= len(line)
        self.ready = budget is None and not pending
        if pending:
            self._mark_dirty()
        else:
            self._pending = None

    def _drain_later(self, when: float) -> None:
        self._drain_at = when
        self._set_alarm()
