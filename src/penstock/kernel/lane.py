"""A lane: one item of one subscription, on its way to one client. It knows what the client has and what it still lacks.

`Lane` conflates (MERGE); `QueueLane` keeps events apart (RAW, DISTINCT). Fan-out is in `view`, the rest of the way in
`session`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.kernel.ports import State
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.session import Session
    from penstock.kernel.view import View


class Lane(Timed):
    """Conflates: of the states that cannot be sent yet only the latest is held."""

    __slots__ = (
        "_held",
        "interval",
        "open",
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
        # What the client has; None before its first update.
        self.sent: State | None = None
        # False while the frequency limit holds this lane back.
        self.open = True
        # Least time between two updates, in seconds; 0 means no limit.
        self.interval = 0.0
        # Whether the session has this lane in its list of pending work.
        self.waiting = False
        # Where the view keeps this lane.
        self.slot = -1
        self._held: State | None = None

    def hold(self, state: State) -> None:
        """Keep a state that cannot be sent now."""
        self._keep(state)
        if self.open:
            self._wait()

    def _keep(self, state: State) -> None:
        self._held = state

    def _wait(self) -> None:
        if not self.waiting:
            self.waiting = True
            self.session.add_pending(self)

    def release(self) -> None:
        """Send what is held; called when session and frequency allow it."""
        held = self._held
        self._held = None
        # Held changes may have cancelled each other out.
        if held is not None and held is not self.sent and held != self.sent:
            self.session.send(self.prefix + self.view.body(held, self.sent))
            self.sent = held
            if self.interval:
                self.close()

    def close(self) -> None:
        """An update has just been sent: hold the next one back until the interval has passed."""
        self.open = False
        self.session.kernel.set_timer(self, self.session.kernel.clock() + self.interval)

    def expire(self, now: float) -> None:
        """The interval has passed."""
        self.open = True
        if self.has_held():
            if self.session.ready:
                self.release()
            else:
                self._wait()

    def has_held(self) -> bool:
        return self._held is not None

    def set_interval(self, interval: float) -> None:
        """Apply a new frequency limit; an interval that is under way ends by the new measure at the latest."""
        self.interval = interval
        if not self.open:
            now = self.session.kernel.clock()
            self.session.kernel.set_timer(self, min(self.alarm, now + interval))

    def discard(self) -> None:
        """The subscription is gone: forget what was held."""
        self._held = None


class QueueLane(Lane):
    """Keeps every event, up to a limit; beyond it the oldest is dropped and, where losses must be told, counted."""

    __slots__ = ("_events", "_lost", "_queue", "_tells_losses", "in_snapshot", "limit")

    def __init__(
        self,
        session: Session,
        view: View,
        subscription: int,
        position: int,
        wants_snapshot: bool,
        tells_losses: bool,
    ) -> None:
        super().__init__(session, view, subscription, position, wants_snapshot)
        self.limit = session.limits.max_buffer_size
        # Whether the client is still to hear of the end of the snapshot; up to there no frequency limit applies.
        self.in_snapshot = wants_snapshot
        self._tells_losses = tells_losses
        self._lost = 0
        # Events in order; None stands for the end of the snapshot.
        self._queue: deque[State | None] = deque()
        self._events = 0

    def _keep(self, state: State) -> None:
        queue = self._queue
        queue.append(state)
        self._events += 1
        if self._events > self.limit:
            if queue.popleft() is None:
                queue[0] = None
            self._events -= 1
            self._lost += 1

    def end_snapshot(self) -> None:
        """Tell the client that the snapshot is complete, after the events that belong to it."""
        if self.session.ready and not self._queue:
            self._tell_end_of_snapshot()
            return
        self._queue.append(None)
        if self.open:
            self._wait()

    def _tell_end_of_snapshot(self) -> None:
        self.in_snapshot = False
        self.session.send(self.session.codec.end_of_snapshot(self.subscription, self.position))

    def close(self) -> None:
        if not self.in_snapshot:
            super().close()

    def release(self) -> None:
        if self._lost:
            if self._tells_losses:
                self.session.send(self.session.codec.overflow(self.subscription, self.position, self._lost))
            self._lost = 0
        queue = self._queue
        while queue and self.open:
            state = queue.popleft()
            if state is None:
                self._tell_end_of_snapshot()
                continue
            self._events -= 1
            self.session.send(self.prefix + self.view.body(state, self.sent))
            self.sent = state
            if self.interval:
                self.close()

    def has_held(self) -> bool:
        return bool(self._queue)

    def discard(self) -> None:
        self._queue.clear()
        self._events = 0
        self._lost = 0
