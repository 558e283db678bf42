"""A lane: one item of one subscription, on its way to one client. It knows what the client has and what it still lacks.

`Lane` is the fast path: it conflates, holding the latest state only (MERGE with a buffer of one). `QueueLane` keeps
events apart up to a limit. `CommandLane` conflates key by key. Fan-out is in `view`, the rest of the way in `session`.
Specification: General Concepts 3.2 and 3.3.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from penstock.kernel.ports import State
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.session import Session
    from penstock.kernel.view import CommandView, View

ADD = "ADD"
UPDATE = "UPDATE"
DELETE = "DELETE"


class Lane(Timed):
    """Conflates: of the states that cannot be sent yet only the latest is held."""

    __slots__ = (
        "_held",
        "clear",
        "interval",
        "open",
        "patched",
        "position",
        "prefix",
        "sent",
        "session",
        "slot",
        "subscription",
        "view",
        "waiting",
        "wants_snapshot",
    )

    def __init__(self, session: Session, view: View, subscription: int, position: int, wants_snapshot: bool) -> None:
        super().__init__()
        self.session = session
        self.view = view
        self.subscription = subscription
        self.position = position
        self.prefix = session.codec.update_prefix(subscription, position)
        self.wants_snapshot = wants_snapshot
        # What the client has, None before its first update; and which of its fields it has as patched JSON.
        self.sent: State | None = None
        self.patched = 0
        # False while the frequency limit holds this lane back.
        self.open = True
        # Open, and nothing of it waits in the session: a new state may be sent at once without overtaking an older one.
        self.clear = True
        # Least time between two updates, in seconds; 0 means no limit.
        self.interval = 0.0
        # Whether the session has this lane in its list of pending work.
        self.waiting = False
        # Where the view keeps this lane.
        self.slot = -1
        self._held: State | None = None

    # -- from the view --------------------------------------------------------------------------------------------

    def send(self, state: State, free: bool) -> None:
        """Send a state at once; a free one is not bound by the frequency limit."""
        self.session.send(self._line(state, free))

    def hold(self, state: State, free: bool) -> None:
        """Keep a state that cannot be sent now."""
        self._held = state
        if self.open:
            self._wait()

    def tell(self, line: bytes) -> None:
        """A notification about this item, in order with its updates."""
        self.session.notify(line)

    def lacks(self, state: State) -> bool:
        """Whether the latest that the client has, or that is on the way to it, is something else."""
        latest = self.sent if self._held is None else self._held
        return latest is not state and latest != state

    def _wait(self) -> None:
        if not self.waiting:
            self.waiting = True
            self.clear = False
            self.session.add_pending(self)

    def drained(self) -> None:
        """The session has taken all that may go."""
        self.waiting = False
        self.clear = self.open

    # -- to the session -------------------------------------------------------------------------------------------

    def take(self) -> bytes | None:
        """The next line that may go now, encoded against what the client has; None when there is none."""
        held = self._held
        if held is None or not self.open:
            return None
        self._held = None
        # Held changes may have cancelled each other out.
        if held is self.sent or held == self.sent:
            return None
        return self._line(held, free=False)

    def _line(self, state: State, free: bool) -> bytes:
        body = self.view.body(state, self)
        self.sent = state
        if self.interval and not free:
            self.close()
        return self.prefix + body

    # -- frequency ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """An update has just been sent: hold the next one back until the interval has passed."""
        self.open = self.clear = False
        self.session.kernel.set_timer(self, self.session.kernel.clock() + self.interval)

    def expire(self, now: float) -> None:
        """The interval has passed."""
        self.open = True
        if self.has_held():
            self._wait()
        else:
            self.clear = not self.waiting

    def has_held(self) -> bool:
        return self._held is not None

    def set_interval(self, interval: float) -> None:
        """Apply a new frequency limit; an interval that is under way ends by the new measure at the latest."""
        self.interval = interval
        if not self.open:
            now = self.session.kernel.clock()
            self.session.kernel.set_timer(self, min(self.alarm, now + interval))

    # -- the end --------------------------------------------------------------------------------------------------

    def drop_states(self) -> None:
        """Forget the states that are held; lines that are ready keep their place."""
        self._held = None

    def discard(self) -> None:
        """The subscription is gone: forget everything."""
        self._held = None


class Held:
    """An entry of a queue: a state, or a line that is ready."""

    __slots__ = ("free", "line", "state")

    def __init__(self, state: State | None, line: bytes, free: bool) -> None:
        self.state = state
        self.line = line
        self.free = free


class QueueLane(Lane):
    """Keeps events apart, up to a limit; beyond it the oldest is dropped and, where losses must be told, counted."""

    __slots__ = (
        "_bound",
        "_free",
        "_limit",
        "_lost",
        "_queue",
        "_tells_losses",
    )

    def __init__(
        self,
        session: Session,
        view: View,
        subscription: int,
        position: int,
        wants_snapshot: bool,
        limit: int,
        tells_losses: bool,
    ) -> None:
        super().__init__(session, view, subscription, position, wants_snapshot)
        self._limit = limit
        self._tells_losses = tells_losses
        # States in the queue: those under the limit, and those of a snapshot, which only the protection limits.
        self._bound = 0
        self._free = 0
        self._lost = 0
        self._queue: deque[Held] = deque()

    def hold(self, state: State, free: bool) -> None:
        self._queue.append(Held(state, b"", free))
        if free:
            self._free += 1
            if self._free > self.session.limits.max_buffer_size:
                self._drop_oldest(free)
        else:
            self._bound += 1
            if self._bound > self._limit:
                self._drop_oldest(free)
        if self._is_due():
            self._wait()

    def _drop_oldest(self, free: bool) -> None:
        queue = self._queue
        for index, entry in enumerate(queue):
            if entry.state is not None and entry.free is free:
                del queue[index]
                self._uncount(entry)
                if self._tells_losses:
                    self._lost += 1
                return

    def _uncount(self, entry: Held) -> None:
        if entry.free:
            self._free -= 1
        else:
            self._bound -= 1

    def tell(self, line: bytes) -> None:
        if self.session.ready and not self._queue:
            self.session.send(line)
        else:
            self._queue.append(Held(None, line, True))
            self._wait()

    def _is_due(self) -> bool:
        return bool(self._queue) and (self.open or self._queue[0].free)

    def lacks(self, state: State) -> bool:
        latest = next((entry.state for entry in reversed(self._queue) if entry.state is not None), self.sent)
        return latest is not state and latest != state

    def take(self) -> bytes | None:
        if self._lost:
            lost, self._lost = self._lost, 0
            return self.session.codec.overflow(self.subscription, self.position, lost)
        while self._is_due():
            entry = self._queue.popleft()
            if entry.state is None:
                return entry.line
            self._uncount(entry)
            # The states between may have been dropped.
            if not (self.view.skips_unchanged and entry.state == self.sent):
                return self._line(entry.state, entry.free)
        return None

    def has_held(self) -> bool:
        return bool(self._queue)

    def drop_states(self) -> None:
        # Where losses must be told, nothing is dropped that need not be.
        if not self._tells_losses:
            self._queue = deque(entry for entry in self._queue if entry.state is None)
            self._bound = self._free = 0

    def discard(self) -> None:
        self._queue.clear()
        self._bound = self._free = self._lost = 0


class CommandLane(Lane):
    """Conflates by key, with the rules of General Concepts 3.2.3; the frequency limit holds for the UPDATEs of each
    key.

    `_rows` are entries that may go, in the order of their keys' first change; numbers as keys stand for ready lines.
    `_parked` are UPDATEs that the frequency limit holds back.
    """

    __slots__ = (
        "_due",
        "_line_count",
        "_lines",
        "_parked",
        "_rows",
        "_table",
        "_wakeups",
    )

    def __init__(
        self, session: Session, view: CommandView, subscription: int, position: int, wants_snapshot: bool
    ) -> None:
        super().__init__(session, view, subscription, position, wants_snapshot)
        self._table = view
        self._rows: dict[str | int, tuple[str, State]] = {}
        self._lines: dict[int, bytes] = {}
        self._line_count = 0
        self._parked: dict[str, State] = {}
        self._due: dict[str, float] = {}
        self._wakeups: list[tuple[float, str]] = []

    def offer(self, key: str, command: str, state: State, free: bool) -> None:
        """An event for this lane: sent, merged into what is held for its key, or held."""
        pending = self._rows.get(key)
        if pending is not None:
            self._merge(key, pending, command, state)
        elif command == UPDATE and self.interval and not free and self._is_early(key):
            self._park(key, state)
        else:
            self._parked.pop(key, None)
            if self.session.ready and not self._rows:
                self.session.send(self._row_line(key, command, state))
            else:
                self._rows[key] = (command, state)
                self._wait()

    def _merge(self, key: str, pending: tuple[str, State], command: str, state: State) -> None:
        before, _ = pending
        if command == DELETE:
            if before == ADD:
                del self._rows[key]
            else:
                self._rows[key] = (DELETE, state)
        elif before == ADD:
            self._rows[key] = (ADD, self._table.with_command(state, ADD))
        else:
            # An UPDATE after an UPDATE, or an ADD after a DELETE: the client has the row.
            state = self._table.with_command(state, UPDATE)
            if before == DELETE and self.interval and self._is_early(key):
                del self._rows[key]
                self._park(key, state)
            else:
                self._rows[key] = (UPDATE, state)

    def _is_early(self, key: str) -> bool:
        due = self._due.get(key)
        return key in self._parked or (due is not None and self.session.kernel.clock() < due)

    def _park(self, key: str, state: State) -> None:
        if key not in self._parked:
            due = self._due[key]
            heappush(self._wakeups, (due, key))
            if not self.alarm or due < self.alarm:
                self.session.kernel.set_timer(self, due)
        self._parked[key] = state

    def expire(self, now: float) -> None:
        wakeups = self._wakeups
        while wakeups and wakeups[0][0] <= now:
            _, key = heappop(wakeups)
            # One that was made for a row deleted since may come before the time of the row added since.
            if key in self._parked and self._due[key] <= now:
                self._rows[key] = (UPDATE, self._parked.pop(key))
        if wakeups:
            self.session.kernel.set_timer(self, wakeups[0][0])
        if self._rows:
            self._wait()

    def hold(self, state: State, free: bool) -> None:
        raise AssertionError("a command lane is offered rows, not states")

    def tell(self, line: bytes) -> None:
        if self.session.ready and not self._rows:
            self.session.send(line)
        else:
            self._line_count += 1
            self._lines[self._line_count] = line
            self._rows[self._line_count] = ("", ())
            self._wait()

    def take(self) -> bytes | None:
        if not self._rows:
            return None
        key = next(iter(self._rows))
        command, state = self._rows.pop(key)
        if isinstance(key, int):
            return self._lines.pop(key)
        return self._row_line(key, command, state)

    def _row_line(self, key: str, command: str, state: State) -> bytes:
        if self.interval:
            if command == DELETE:
                self._due.pop(key, None)
            elif command == UPDATE:
                self._due[key] = self.session.kernel.clock() + self.interval
        return self._line(state, free=True)

    def has_held(self) -> bool:
        return bool(self._rows or self._parked)

    def set_interval(self, interval: float) -> None:
        self.interval = interval
        latest = self.session.kernel.clock() + interval
        self._due = {key: min(due, latest) for key, due in self._due.items()}
        self._wakeups = sorted((self._due[key], key) for key in self._parked)
        if self._wakeups:
            self.session.kernel.set_timer(self, self._wakeups[0][0])

    def drop_states(self) -> None:
        self._rows = {key: row for key, row in self._rows.items() if isinstance(key, int)}
        self._parked.clear()
        self._due.clear()
        self._wakeups.clear()

    def discard(self) -> None:
        self._rows.clear()
        self._lines.clear()
        self._parked.clear()
        self._due.clear()
        self._wakeups.clear()
