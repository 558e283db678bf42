"""The lane of a table in COMMAND mode: it conflates by key, and its frequency limit applies to each key's UPDATEs.

Lanes in general are in `lane`; the table itself is kept in `books`. Specification: General Concepts 3.2.3 and 3.3.9.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from penstock.kernel.lane import SHRINK, Lane, weight
from penstock.kernel.ports import State

if TYPE_CHECKING:
    from penstock.kernel.item import Item
    from penstock.kernel.outbox import Outbox
    from penstock.kernel.view import CommandView

ADD = "ADD"
UPDATE = "UPDATE"
DELETE = "DELETE"


class TableLane(Lane):
    """Filtered COMMAND; it is always open, because its limit holds back single keys.

    `_rows` are entries that may be sent, in the order of their keys' first change; numbers as keys are encoded lines.
    `_parked` are UPDATEs that the frequency limit holds back. A key is in at most one of them: the size of the table
    limits what is held, and so do the bytes that may wait in a stream.
    """

    __slots__ = (
        "_due",
        "_line_count",
        "_lines",
        "_lost",
        "_parked",
        "_rows",
        "_table",
        "_wakeups",
    )

    def __init__(
        self, outbox: Outbox, item: Item, view: CommandView, subscription: int, position: int, wants_snapshot: bool
    ) -> None:
        super().__init__(outbox, item, view, subscription, position, wants_snapshot)
        self._table = view
        self._rows: dict[str | int, tuple[str, State]] = {}
        self._lines: dict[int, bytes] = {}
        self._line_count = 0
        self._lost = 0
        self._parked: dict[str, State] = {}
        self._due: dict[str, float] = {}
        self._wakeups: list[tuple[float, str]] = []

    # -- from the view --------------------------------------------------------------------------------------------

    def give(self, state: State, free: bool) -> None:
        """A row, which says what happens to it: sent, merged into what is held for its key, or held."""
        key, command = self._table.key_and_command(state)
        pending = self._rows.get(key)
        if pending is not None:
            self._merge(key, pending, command, state)
        elif command == UPDATE and self.interval and not free and self._is_early(key):
            self._park(key, state)
        else:
            self._unpark(key)
            outbox = self.outbox
            is_paced = command == UPDATE and self.interval and outbox.rests()
            if outbox.ready and not self.waiting and not self._rows and not is_paced:
                outbox.send(self._row_line(key, command, state))
            else:
                self._put(key, command, state)
                self._wait()

    def _merge(self, key: str, pending: tuple[str, State], command: str, state: State) -> None:
        before, _ = pending
        self.leave_out()
        if command == DELETE:
            if before == ADD:
                self._remove(key)
            else:
                self._put(key, DELETE, state)
        elif before == ADD:
            self._put(key, ADD, self._table.with_command(state, ADD))
        else:
            # An UPDATE after an UPDATE, or an ADD after a DELETE: the client has the row.
            state = self._table.with_command(state, UPDATE)
            if before == DELETE and self.interval and self._is_early(key):
                self._remove(key)
                self._park(key, state)
            else:
                self._put(key, UPDATE, state)

    def tell(self, line: bytes) -> None:
        if self.outbox.ready and not self.waiting and not self._rows:
            self.outbox.tell(line)
        else:
            self._line_count += 1
            self._lines[self._line_count] = line
            self.outbox.count_told(len(line))
            self._rows[self._line_count] = ("", ())
            self._wait()

    # -- what is held ---------------------------------------------------------------------------------------------

    def _put(self, key: str, command: str, state: State) -> None:
        before = self._rows.get(key)
        if before is not None:
            self.outbox.weigh(-weight(before[1]))
        self._rows[key] = (command, state)
        self._count(state)

    def _remove(self, key: str) -> None:
        _, state = self._rows.pop(key)
        self.outbox.weigh(-weight(state))

    def _unpark(self, key: str) -> State | None:
        state = self._parked.pop(key, None)
        if state is not None:
            self.outbox.weigh(-weight(state))
        return state

    def _count(self, state: State) -> None:
        self.outbox.weigh(weight(state))
        if self.outbox.held > self.outbox.limits.max_pending_bytes:
            self._shrink(self.outbox.limits.max_pending_bytes * SHRINK)

    def shed(self) -> None:
        self._shrink(0)

    def _shrink(self, enough: float) -> None:
        """Drop the oldest UPDATEs until the stream holds no more than this, then other rows, but not the latest.

        Other rows are losses to be reported: without them the client's table is wrong.
        """
        outbox = self.outbox
        for key in list(self._parked)[:-1]:
            if outbox.held > enough:
                self._unpark(key)
                self.leave_out()
        rows = [key for key in self._rows if isinstance(key, str)][:-1]
        rows.sort(key=lambda key: self._rows[key][0] != UPDATE)
        for key in rows:
            if outbox.held > enough:
                if self._rows[key][0] == UPDATE:
                    self.leave_out()
                else:
                    self._lost += 1
                    self.lost += 1
                    outbox.count_lost()
                self._remove(key)

    # -- to the outbox --------------------------------------------------------------------------------------------

    def take(self) -> bytes | None:
        if self._lost:
            lost, self._lost = self._lost, 0
            self.outbox.count_other()
            return self.view.codec.overflow(self.subscription, self.position, lost)
        if not self._rows:
            return None
        key = next(iter(self._rows))
        if isinstance(key, int):
            del self._rows[key]
            line = self._lines.pop(key)
            self.outbox.count_told(-len(line))
            self.outbox.count_other()
            return line
        command, state = self._rows[key]
        self._remove(key)
        return self._row_line(key, command, state)

    def _row_line(self, key: str, command: str, state: State) -> bytes:
        if self.interval:
            if command == DELETE:
                self._due.pop(key, None)
            elif command == UPDATE:
                self._due[key] = self.outbox.kernel.clock() + self.interval
        return self._line(state)

    def has_held(self) -> bool:
        return bool(self._rows)

    # -- frequency ------------------------------------------------------------------------------------------------

    def _is_early(self, key: str) -> bool:
        due = self._due.get(key)
        return key in self._parked or (due is not None and self.outbox.kernel.clock() < due)

    def _park(self, key: str, state: State) -> None:
        if self._unpark(key) is not None:
            self.leave_out()
        else:
            due = self._due[key]
            heappush(self._wakeups, (due, key))
            if not self.alarm or due < self.alarm:
                self.outbox.kernel.set_timer(self, due)
        self._parked[key] = state
        self._count(state)

    def restart_interval(self) -> None:
        if not self.interval:
            return
        self._due = dict.fromkeys(self._due, self.outbox.kernel.clock() + self.interval)
        for key, (command, state) in list(self._rows.items()):
            if command == UPDATE and isinstance(key, str) and key in self._due:
                self._remove(key)
                self._park(key, state)

    def expire(self, now: float) -> None:
        wakeups = self._wakeups
        while wakeups and wakeups[0][0] <= now:
            _, key = heappop(wakeups)
            if key in self._parked:
                if self._due[key] <= now:
                    self._rows[key] = (UPDATE, self._parked.pop(key))
                else:
                    # It was made for a row deleted since, or before the interval began again.
                    heappush(wakeups, (self._due[key], key))
        if wakeups:
            self.outbox.kernel.set_timer(self, wakeups[0][0])
        if self._rows:
            self._wait()

    def set_interval(self, interval: float) -> None:
        self.interval = interval
        latest = self.outbox.kernel.clock() + interval
        self._due = {key: min(due, latest) for key, due in self._due.items()}
        self._wakeups = sorted((self._due[key], key) for key in self._parked)
        if self._wakeups:
            self.outbox.kernel.set_timer(self, self._wakeups[0][0])

    # -- the end --------------------------------------------------------------------------------------------------

    def drop_states(self) -> None:
        for key in [key for key in self._rows if isinstance(key, str)]:
            self._remove(key)
        for key in list(self._parked):
            self._unpark(key)
        self._due.clear()
        self._wakeups.clear()

    def discard(self) -> None:
        self.drop_states()
        self._rows.clear()
        self.outbox.count_told(-sum([len(line) for line in self._lines.values()]))
        self._lines.clear()
        self._lost = 0
        super().discard()

    # -- sharing --------------------------------------------------------------------------------------------------

    def is_calm(self) -> bool:
        return not (self.waiting or self._rows or self._parked or self._lost)

    def matches(self, other: Lane) -> bool:
        return isinstance(other, TableLane) and super().matches(other) and self._due == other._due

    def clone(self, outbox: Outbox) -> Lane:
        lane = TableLane(outbox, self.item, self._table, self.subscription, self.position, self.wants_snapshot)
        lane._rows = self._rows.copy()
        lane._lines = self._lines.copy()
        lane._line_count = self._line_count
        lane._lost = self._lost
        lane._parked = self._parked.copy()
        lane._due = self._due.copy()
        lane._wakeups = self._wakeups.copy()
        lane._go_on_for(self)
        return lane
