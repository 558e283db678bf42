"""An outbox: what waits to be sent on a stream, in which order, and when it may be encoded.

While it is not ready (nobody reads, they rest, or the bandwidth is limited) nothing is encoded: lanes hold, and other
notifications wait in order. Lanes know their outbox and nothing beyond it: who reads is known in `stream`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.kernel.lane import Lane
from penstock.kernel.recovery import Batch
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.bandwidth import Budget
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.stream import Stream

# Bytes that are encoded in one go while more is pending: what is encoded cannot be replaced by something newer.
SHARE = 65_536


class Stalled:
    """A line that is encoded, by this lane if by any, but has to wait until the bandwidth allows it."""

    __slots__ = ("lane", "line")

    def __init__(self, lane: Lane | None, line: bytes) -> None:
        self.lane = lane
        self.line = line


class Outbox(Timed):
    """Its deadline is the time to encode or to write more, if nothing else happens before."""

    # A server holds many thousands, and without slots each would have a dictionary: docs/performance.md, "The goals".
    __slots__ = (
        "_notices",
        "_others",
        "_pending",
        "_room",
        "bytes",
        "dirty",
        "group",
        "held",
        "kernel",
        "limits",
        "lines",
        "lost",
        "open",
        "readers",
        "ready",
        "rest_until",
        "stream",
        "told",
        "updates",
    )

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.limits = kernel.limits
        # Passes the lines on; None when it has ended.
        self.stream: Stream | None = None
        # Whether the readers can take more; and whether what comes may be encoded at once.
        self.open = False
        self.ready = False
        # Whether the kernel flushes it at the end of the turn, or it waits for the end of its rest with lines in it.
        self.dirty = False
        # Until then nothing more is written, nor encoded if the machine is overloaded: see `Kernel.rest`.
        self.rest_until = 0.0
        # Encoded, to be written next.
        self.lines: list[bytes] = []
        # Bytes that may still be encoded before the next write.
        self._room = self.limits.max_pending_bytes
        # Bytes of the events that wait in lanes.
        self.held = 0
        # Its lanes are paced together with those of other outboxes of this group, and so with each other.
        self.group = 0
        # None while nothing is pending, because even an empty deque takes much memory.
        self._pending: deque[Lane | bytes | Stalled] | None = None
        # How many of the pending are notifications that come from no lane: those have bounds of their own.
        self._notices = 0
        # Bytes of notifications that wait, here and in lanes.
        self.told = 0
        # How many clients are sent what is written here.
        self.readers = 1
        # What each of them was sent, or would have been: updates, bytes, and events lost for lack of room.
        self.updates = 0
        self.bytes = 0
        self.lost = 0
        # How many of the lines are not updates, or were sent before.
        self._others = 0

    # -- what comes in --------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """A data notification to be sent now; only while ready."""
        self.lines.append(line)
        self._room -= len(line)
        if self._room < 0:
            self.ready = False
        if not self.dirty:
            self.mark_dirty()

    def tell(self, line: bytes) -> None:
        """A data notification that must not be lost or overtaken: now, or when the outbox is ready again.

        One that the protocol has no form for is empty.
        """
        if not line:
            return
        if self.ready:
            self._others += 1
            self.send(line)
        else:
            self.add_pending(line)

    def add_pending(self, entry: Lane | bytes) -> None:
        if self._pending is None:
            self._pending = deque()
        self._pending.append(entry)
        if isinstance(entry, bytes):
            self._notices += 1
            self.count_told(len(entry))
        # Drained, or ended when there are too many, at the end of the turn: not in the middle of a fan-out.
        if self.dirty:
            return
        if self.has_too_many() or (self.open and not self.alarm):
            self.mark_dirty()

    def mark_dirty(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.kernel.add_dirty(self)

    # -- how much waits -------------------------------------------------------------------------------------------

    def weigh(self, size: int) -> None:
        """This many more bytes wait in lanes, or fewer if below zero."""
        self.held += size
        self.count_waiting(size)

    def count_told(self, size: int) -> None:
        """This many more bytes of notifications wait that are not events, or fewer if below zero."""
        self.told += size
        self.count_waiting(size)

    def count_waiting(self, size: int) -> None:
        ledger = self.kernel.ledger
        ledger.waiting += size
        if ledger.waiting + ledger.logged > ledger.limit:
            # Handled at the end of the turn: not in the middle of a fan-out.
            self.kernel.wake()

    def count_filtered(self, count: int) -> None:
        """So many events are not sent, because newer ones are."""
        self.kernel.tally.filtered += count * self.readers

    def count_other(self) -> None:
        """A lane gives a line that is not an update."""
        self._others += 1

    def count_lost(self, count: int = 1) -> None:
        """Events are not sent, for lack of room or because they never came."""
        self.lost += count
        self.kernel.tally.lost += count * self.readers

    def has_too_many(self) -> bool:
        """Whether more notifications wait than may be kept for those who cannot take them."""
        return self._notices > self.limits.max_unbound_notifications

    def is_calm(self) -> bool:
        """Whether everything has been written, and more would be."""
        return self.open and not (self.dirty or self.lines or self._pending)

    # -- what may go ----------------------------------------------------------------------------------------------

    def rests(self) -> bool:
        """Whether what is encoded now will wait to be written."""
        return self.rest_until > self.kernel.now()

    def stop(self) -> None:
        """Nobody reads for now: hold everything."""
        self.open = self.ready = False

    def wait(self, when: float) -> None:
        self.kernel.set_timer(self, when)

    def expire(self, now: float) -> None:
        # It may have been shut during all of its rest.
        self.dirty = False
        self.mark_dirty()

    def encode(self, budget: Budget | None, overhead: int) -> None:
        """Encode what is pending, now or after the rest.

        Ready: what comes may be sent at once, because what came before has been sent. With a bandwidth limit everything
        is queued with the pending; `overhead` is what the transport adds to a write.
        """
        if self.ready and self._pending is None:
            return
        self.ready = False
        if not self.open:
            return
        if self.rest_until <= self.kernel.now():
            self._drain(budget, overhead)
        elif self._pending:
            self.wait(self.rest_until)

    def _drain(self, budget: Budget | None, overhead: int) -> None:
        """Encode what is pending, as far as the share of one turn and the bandwidth allow.

        A busy item does not starve a rare one: with a bandwidth limit one line of each lane goes in turn, without one
        a lane that has used up the share goes behind the others.
        """
        now = self.kernel.clock()
        self.alarm = 0.0
        pending = self._pending or deque()
        share = SHARE
        while share > 0 and pending:
            entry = pending.popleft()
            if isinstance(entry, Stalled):
                lane, line = entry.lane, entry.line
            else:
                if budget is not None:
                    # Not even one byte is allowed: what is not encoded yet may still be replaced by something newer.
                    free_at = budget.free_at(now, overhead + 1)
                    if free_at > now:
                        pending.appendleft(entry)
                        self.wait(free_at)
                        return
                lane = None
                if isinstance(entry, bytes):
                    self._notices -= 1
                    self.count_told(-len(entry))
                    self._others += 1
                    line = entry
                else:
                    lane = entry
                    found = lane.take()
                    if found is None:
                        lane.drained()
                        continue
                    line = found
                    if budget is not None or len(line) >= share:
                        pending.append(lane)
                    elif lane.has_held():
                        pending.appendleft(lane)
                    else:
                        lane.drained()
            if budget is not None:
                size = overhead + len(line)
                free_at = budget.free_at(now, size)
                if free_at > now:
                    pending.appendleft(Stalled(lane, line))
                    self.wait(free_at)
                    return
                budget.spend(now, size)
                # All lines of a turn go with one write.
                overhead = 0
            if isinstance(entry, Stalled) and lane is not None:
                lane.restart_interval()
            self.lines.append(line)
            share -= len(line)
        self.ready = budget is None and not pending
        if pending:
            self.mark_dirty()
        else:
            self._pending = None

    def is_held_back(self) -> bool:
        """Whether what is encoded has to wait for the end of the rest: what comes until then goes in the same write."""
        if not self.rests():
            return False
        self.dirty = True
        self.wait(self.rest_until)
        return True

    def pack(self, lines: list[bytes]) -> Batch:
        """All lines, or those taken out before, as they are about to be written; the rest begins."""
        now = self.kernel.now()
        if lines is self.lines:
            self.lines = []
        self._room = self.limits.max_pending_bytes
        rest = self.kernel.rest
        if rest:
            self.rest_until = now + rest
            self.ready = self.ready and not self.kernel.strained
        batch = Batch(now, lines)
        self._count(batch)
        return batch

    def _count(self, batch: Batch) -> None:
        others = min(self._others, batch.count)
        self._others -= others
        batch.updates = batch.count - others
        self._count_sent(batch.updates, len(batch.payload))

    def _count_sent(self, updates: int, size: int) -> None:
        self.updates += updates
        self.bytes += size
        tally = self.kernel.tally
        tally.updates_out += updates * self.readers
        tally.bytes_out += size * self.readers

    def put_back(self, batch: Batch) -> None:
        """What has been packed last was not sent after all."""
        self.lines[:0] = batch.lines()
        self._others += batch.count - batch.updates
        self._count_sent(-batch.updates, -len(batch.payload))
        self.mark_dirty()

    def put_again(self, lines: list[bytes]) -> None:
        """To be sent before the others, though they have been sent before."""
        self.lines = lines + self.lines
        self._others += len(lines)

    # -- sharing, and the end -------------------------------------------------------------------------------------

    def copy(self, other: Outbox, lanes: dict[Lane, Lane]) -> None:
        """Hold what another outbox holds; `lanes` maps the lanes of the other to ours."""
        self.open = other.open
        self.ready = other.ready
        self.group = other.group
        self.weigh(other.held)
        self.lines = other.lines.copy()
        self._room = other._room
        if other._pending is not None:
            self._pending = deque([lanes[entry] if isinstance(entry, Lane) else entry for entry in other._pending])
        self._notices = other._notices
        self.count_told(other.told)
        self.updates, self.bytes, self.lost, self._others = other.updates, other.bytes, other.lost, other._others
        self.rest_until = other.rest_until
        if other.alarm:
            self.wait(other.alarm)
        if other.dirty or self.lines:
            self.mark_dirty()

    def blank(self) -> Outbox:
        """One that has sent as much, and has nothing else in common with this one."""
        blank = Outbox(self.kernel)
        blank.updates, blank.bytes, blank.lost = self.updates, self.bytes, self.lost
        return blank

    def empty(self) -> None:
        """Nothing that waits is sent any more; what waited in lanes has gone with them."""
        self.stop()
        self.stream = None
        self.dirty = False
        self.alarm = 0.0
        self.lines = []
        self._pending = None
        self._notices = 0
        self.count_told(-self.told)
