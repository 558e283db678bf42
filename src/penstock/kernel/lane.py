"""A lane: one item of one subscription, on its way to those who read its stream. It knows what they have and lack.

`Lane` is the common base. `MergeLane` is the fast path: of the states that cannot be sent yet it holds only the latest
(MERGE with a buffer of one). `QueueLane` queues events up to a limit. The lane of a table, which conflates by key, is
in `table`. Fan-out is in `view`, the rest of the way in `outbox` and `stream`.
Specification: General Concepts 3.2 and 3.3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from penstock.kernel.ports import State
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.item import Item
    from penstock.kernel.outbox import Outbox
    from penstock.kernel.view import View


class Lane(Timed):
    """The base. A subclass for each behaviour decides what is held while it cannot be sent, and how it is paced."""

    __slots__ = (
        "clear",
        "filtered",
        "interval",
        "item",
        "lost",
        "open",
        "outbox",
        "patched",
        "position",
        "prefix",
        "sent",
        "slot",
        "subscription",
        "updates",
        "view",
        "waiting",
        "wants_snapshot",
    )

    def __init__(
        self, outbox: Outbox, item: Item, view: View, subscription: int, position: int, wants_snapshot: bool
    ) -> None:
        super().__init__()
        self.outbox = outbox
        self.item = item
        self.view = view
        self.subscription = subscription
        self.position = position
        self.prefix = view.codec.update_prefix(subscription, position)
        self.wants_snapshot = wants_snapshot
        # What the client has, None before its first update; and which of its fields it has as patched JSON.
        self.sent: State | None = None
        self.patched = 0
        # False while the frequency limit holds this lane back.
        self.open = True
        # Open, with nothing waiting in the outbox: a new state may be sent at once without overtaking an older one.
        self.clear = True
        # Least time between two updates, in seconds; 0 means no limit.
        self.interval = 0.0
        # Whether the outbox has this lane in its list of pending work.
        self.waiting = False
        # What became of its events: sent, lost for lack of room (where losses are reported), left out by filtering.
        self.updates = 0
        self.lost = 0
        self.filtered = 0
        # Where the view keeps this lane while it listens; -1 while it does not.
        self.slot = -1

    # -- from the view --------------------------------------------------------------------------------------------

    @abstractmethod
    def give(self, state: State, free: bool) -> None:
        """Send a state, or keep what has to be kept of it; with `free` the frequency limit does not apply."""

    @abstractmethod
    def tell(self, line: bytes) -> None:
        """A notification about this item, in order with its updates."""

    def lacks(self, state: State) -> bool:
        """Whether the latest that the client has, or that is on the way to it, is something else."""
        return self.sent is not state and self.sent != state

    def left_out(self) -> int:
        """How many of its events were left out so far."""
        return self.filtered

    def leave_out(self, count: int = 1) -> None:
        """So many of its events will not be sent, because newer ones will."""
        self.filtered += count
        self.outbox.count_filtered(count)

    def _wait(self) -> None:
        if not self.waiting:
            self.waiting = True
            self.clear = False
            self.outbox.add_pending(self)

    def mute(self) -> None:
        """Only gather: behave as if already waiting in the outbox, so that nothing goes there."""
        self.waiting = True
        self.clear = False

    def unmute(self) -> None:
        """Send what was gathered, and all that follows."""
        self.waiting = False
        if self.has_held():
            self._wait()
        else:
            self.drained()

    # -- to the outbox --------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self) -> bytes | None:
        """The next line that may go now, encoded against what the client has; None when there is none."""

    @abstractmethod
    def has_held(self) -> bool:
        """Whether something is held that may be sent, now or when its time has come."""

    def drained(self) -> None:
        """The outbox has taken all that may go."""
        self.waiting = False
        self.clear = self.open

    def _line(self, state: State) -> bytes:
        body = self.view.body(state, self)
        self.sent = state
        self.updates += 1
        return self.prefix + body

    # -- limits ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def restart_interval(self) -> None:
        """What was encoded last is being sent only now."""

    @abstractmethod
    def set_interval(self, interval: float) -> None:
        """Apply a new frequency limit; an interval that has begun ends no later than the new limit says."""

    @abstractmethod
    def shed(self) -> None:
        """There is too little room for all that waits: keep only what comes last."""

    # -- the end --------------------------------------------------------------------------------------------------

    @abstractmethod
    def drop_states(self) -> None:
        """Forget the states that are held; lines that are ready keep their place."""

    def discard(self) -> None:
        """The stream goes on without this lane: forget everything, and never listen again."""
        # One of its lines that the bandwidth limit has held back may still be sent; that must not wake it.
        self.interval = 0.0
        self.open = False
        self.alarm = 0.0

    # -- sharing --------------------------------------------------------------------------------------------------

    def course(self) -> tuple[object, ...]:
        """Everything except the past that decides what it sends and when."""
        return self.view, self.prefix, self.interval, self.wants_snapshot

    @abstractmethod
    def is_calm(self) -> bool:
        """Whether its client lacks nothing, or only what the lanes of others will find in the view as well."""

    def matches(self, other: Lane) -> bool:
        """Whether it is at the same point of the same course as another; both are calm."""
        return self.patched == other.patched and (self.sent is other.sent or self.sent == other.sent)

    @abstractmethod
    def clone(self, outbox: Outbox) -> Lane:
        """A copy in the same state, for another outbox."""

    def _go_on_for(self, other: Lane) -> None:
        """Take over the state of another lane."""
        self.interval = other.interval
        self.sent = other.sent
        self.patched = other.patched
        self.open = other.open
        self.clear = other.clear
        self.waiting = other.waiting
        self.view.members += 1
        if other.slot >= 0:
            self.view.listen(self)
        if other.alarm:
            self.outbox.kernel.set_timer(self, other.alarm)


class StateLane(Lane):
    """The base of lanes whose frequency limit applies to the whole item: it is open, or closed for an interval."""

    __slots__ = ()

    def give(self, state: State, free: bool) -> None:
        outbox = self.outbox
        if outbox.ready and (self.clear or (free and not self.waiting)) and not (self.interval and outbox.rests()):
            outbox.send(self._update(state, free))
        else:
            self._hold(state, free)

    @abstractmethod
    def _hold(self, state: State, free: bool) -> None:
        """Keep a state that cannot be sent now."""

    def _update(self, state: State, free: bool) -> bytes:
        line = self._line(state)
        if self.interval and not free:
            self._close()
        return line

    def _close(self) -> None:
        """An update has just been sent: hold the next one back until the interval has passed."""
        self.open = self.clear = False
        self.outbox.kernel.pace(self, self.interval, self.outbox.group)

    def restart_interval(self) -> None:
        if self.interval:
            self._close()

    def expire(self, now: float) -> None:
        """The interval has passed."""
        self.open = True
        if self.has_held():
            self._wait()
        elif not self.waiting:
            self.drained()

    def set_interval(self, interval: float) -> None:
        self.interval = interval
        if not self.open:
            kernel = self.outbox.kernel
            kernel.set_timer(self, min(self.alarm, kernel.clock() + interval))

    def matches(self, other: Lane) -> bool:
        return super().matches(other) and self.open == other.open and (self.open or self.alarm == other.alarm)


class MergeLane(StateLane):
    """Conflates: of the states that cannot be sent yet only the latest is held.

    While it cannot send it sleeps: it need not be told of every event, because the view keeps the latest state.
    """

    __slots__ = ("_held", "seen")

    def __init__(
        self, outbox: Outbox, item: Item, view: View, subscription: int, position: int, wants_snapshot: bool
    ) -> None:
        super().__init__(outbox, item, view, subscription, position, wants_snapshot)
        # How many events there had been when it fell asleep.
        self.seen = 0
        self._held: State | None = None

    def _hold(self, state: State, free: bool) -> None:
        if self._held is not None:
            self.leave_out()
        self._held = state
        self._sleep()
        if self.open:
            self._wait()

    def tell(self, line: bytes) -> None:
        self.outbox.tell(line)

    def left_out(self) -> int:
        """Includes those that it sleeps through."""
        missed = self._missed()
        # The latest of them may still be sent.
        return self.filtered + (missed - 1 if missed and self._held is None else missed)

    def _missed(self) -> int:
        """How many events there have been since it fell asleep."""
        return self.view.count - self.seen if self.slot < 0 else 0

    def _sleep(self) -> None:
        if self.slot >= 0:
            self.view.sleep(self)
            self.seen = self.view.count

    def _close(self) -> None:
        super()._close()
        self._sleep()

    def drained(self) -> None:
        super().drained()
        if self.open and self.slot < 0:
            self.view.listen(self)

    def take(self) -> bytes | None:
        if not self.open:
            return None
        held = self._latest()
        # Held changes may have cancelled each other out.
        if held is None or held is self.sent or held == self.sent:
            return None
        return self._update(held, free=False)

    def _latest(self) -> State | None:
        """Take what is held: the latest event that came while it slept, if any did."""
        held = self._held
        if self._missed():
            self.leave_out(self.left_out() - self.filtered)
            self.seen = self.view.count
            held = self.view.latest
        self._held = None
        return held

    def has_held(self) -> bool:
        return self._held is not None or self._missed() > 0

    def shed(self) -> None:
        """Only the latest is ever held."""

    def drop_states(self) -> None:
        self._held = None

    def discard(self) -> None:
        self._held = None
        super().discard()

    def is_calm(self) -> bool:
        return not self.waiting and self._held is None and (not self.open or not self.has_held())

    def matches(self, other: Lane) -> bool:
        return isinstance(other, MergeLane) and super().matches(other) and (self.open or self.seen == other.seen)

    def clone(self, outbox: Outbox) -> Lane:
        lane = MergeLane(outbox, self.item, self.view, self.subscription, self.position, self.wants_snapshot)
        lane.seen = self.seen
        lane._held = self._held
        lane._go_on_for(self)
        return lane


# When the events of a stream take more bytes than allowed, they are dropped down to this share, not one by one.
SHRINK = 7 / 8

# What a held event takes besides its values, in bytes.
ENTRY = 100


def weight(state: State) -> int:
    """About how many bytes a held state takes."""
    return ENTRY + sum([len(value) for value in state if value is not None])


class Held:
    """An entry of a queue: a state, or an encoded line."""

    __slots__ = ("free", "line", "state", "weight")

    def __init__(self, state: State | None, line: bytes, free: bool) -> None:
        self.state = state
        self.line = line
        self.free = free
        self.weight = 0 if state is None else weight(state)


class QueueLane(StateLane):
    """Queues events up to a limit; beyond it the oldest is dropped and, where losses must be reported, counted."""

    __slots__ = (
        "_bound",
        "_limit",
        "_lost",
        "_queue",
        "_tells_losses",
    )

    def __init__(
        self,
        outbox: Outbox,
        item: Item,
        view: View,
        subscription: int,
        position: int,
        wants_snapshot: bool,
        limit: int,
        tells_losses: bool,
    ) -> None:
        super().__init__(outbox, item, view, subscription, position, wants_snapshot)
        self._limit = limit
        self._tells_losses = tells_losses
        # States in the queue that count against the limit: those of a snapshot do not.
        self._bound = 0
        self._lost = 0
        self._queue: deque[Held] = deque()

    def _hold(self, state: State, free: bool) -> None:
        entry = Held(state, b"", free)
        self._queue.append(entry)
        outbox = self.outbox
        outbox.weigh(entry.weight)
        if not free:
            self._bound += 1
            if self._bound > self._limit:
                self._drop_oldest()
        if outbox.held > outbox.limits.max_pending_bytes:
            self._shrink(outbox.limits.max_pending_bytes * SHRINK)
        if self._is_due():
            self._wait()

    def _drop_oldest(self) -> None:
        queue = self._queue
        for index, entry in enumerate(queue):
            if entry.state is not None and not entry.free:
                del queue[index]
                self._lose(entry)
                return

    def shed(self) -> None:
        if self._queue:
            self._shrink(0)

    def _shrink(self, enough: float) -> None:
        """Drop the oldest states, but not the latest, until the stream holds no more than this."""
        latest = self._queue.pop()
        kept: deque[Held] = deque()
        for entry in self._queue:
            if entry.state is not None and self.outbox.held > enough:
                self._lose(entry)
            else:
                kept.append(entry)
        kept.append(latest)
        self._queue = kept

    def _lose(self, entry: Held) -> None:
        self._uncount(entry)
        if self._tells_losses:
            self._lost += 1
            self.lost += 1
            self.outbox.count_lost()
        else:
            self.leave_out()

    def miss(self, count: int) -> None:
        """So many events have never reached the item; told in order with those that have, where losses are."""
        if self._tells_losses:
            self.lost += count
            self.outbox.count_lost(count)
            self.tell(self.view.codec.overflow(self.subscription, self.position, count))

    def _uncount(self, entry: Held) -> None:
        if entry.state is None:
            self.outbox.count_told(-len(entry.line))
            return
        self.outbox.weigh(-entry.weight)
        if not entry.free:
            self._bound -= 1

    def tell(self, line: bytes) -> None:
        if self.outbox.ready and not self.waiting and not self._queue:
            self.outbox.tell(line)
        else:
            self._queue.append(Held(None, line, True))
            self.outbox.count_told(len(line))
            self._wait()

    def _is_due(self) -> bool:
        return bool(self._queue) and (self.open or self._queue[0].free)

    def lacks(self, state: State) -> bool:
        latest = next((entry.state for entry in reversed(self._queue) if entry.state is not None), self.sent)
        return latest is not state and latest != state

    def take(self) -> bytes | None:
        if self._lost:
            lost, self._lost = self._lost, 0
            self.outbox.count_other()
            return self.view.codec.overflow(self.subscription, self.position, lost)
        while self._is_due():
            entry = self._queue.popleft()
            self._uncount(entry)
            if entry.state is None:
                self.outbox.count_other()
                return entry.line
            # The states between may have been dropped.
            if not (self.view.skips_unchanged and entry.state == self.sent):
                return self._update(entry.state, entry.free)
        return None

    def has_held(self) -> bool:
        return bool(self._queue)

    def drop_states(self) -> None:
        # Where losses must be reported, nothing is dropped without need.
        if not self._tells_losses:
            for entry in self._queue:
                if entry.state is not None:
                    self._uncount(entry)
            self._queue = deque(entry for entry in self._queue if entry.state is None)

    def discard(self) -> None:
        for entry in self._queue:
            self._uncount(entry)
        self._queue.clear()
        self._lost = 0
        super().discard()

    def course(self) -> tuple[object, ...]:
        return *super().course(), self._limit, self._tells_losses

    def is_calm(self) -> bool:
        return not self.waiting and not self._queue and not self._lost

    def clone(self, outbox: Outbox) -> Lane:
        lane = QueueLane(
            outbox,
            self.item,
            self.view,
            self.subscription,
            self.position,
            self.wants_snapshot,
            self._limit,
            self._tells_losses,
        )
        lane._queue = self._queue.copy()
        lane._bound = self._bound
        lane._lost = self._lost
        lane._go_on_for(self)
        return lane
