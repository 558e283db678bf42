"""What is kept of an item for those who subscribe later: one class for each mode it may be declared in.

While somebody is subscribed the kernel keeps the same; this is for the time in which nobody is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from penstock.kernel.books import COMMAND_FIELD, KEY_FIELD
from penstock.kernel.ports import Value
from penstock.kernel.table import ADD, DELETE, UPDATE

Event = dict[str, Value]

# Events of a DISTINCT item that are kept, as many as the kernel keeps unless a metadata adapter says otherwise.
HISTORY = 10


class Unfit(Exception):
    """An event that does not fit its item; the text says why."""


class State:
    """The base. `complete` says whether what is kept is all of a snapshot, and not only the first part of it."""

    def __init__(self, max_fields: int, max_rows: int) -> None:
        self.complete = False
        self._max_fields = max_fields
        self._max_rows = max_rows

    def apply(self, event: Event) -> None:
        """Remember an event; raises Unfit."""
        raise NotImplementedError

    def events(self) -> Iterable[Event]:
        """The snapshot."""
        raise NotImplementedError

    def _check(self, fields: int) -> None:
        if fields > self._max_fields:
            raise Unfit(f"{fields} fields; max_fields = {self._max_fields}")


class MergeState(State):
    """The latest value of each field."""

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._values: Event = {}

    def apply(self, event: Event) -> None:
        values = self._values
        if not event.keys() <= values.keys():
            self._check(len(event.keys() | values.keys()))
        values.update(event)

    def events(self) -> Iterable[Event]:
        return [self._values] if self._values else []


class DistinctState(State):
    """The latest events."""

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._latest: deque[Event] = deque(maxlen=HISTORY)

    def apply(self, event: Event) -> None:
        self._check(len(event))
        self._latest.append(event)

    def events(self) -> Iterable[Event]:
        return self._latest


class CommandState(State):
    """The rows of a table."""

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._rows: dict[str, Event] = {}

    def apply(self, event: Event) -> None:
        key, command = event.get(KEY_FIELD), event.get(COMMAND_FIELD)
        if not key:
            raise Unfit(f"no field {KEY_FIELD}, which a COMMAND item needs")
        row = self._rows.get(key)
        if command == DELETE:
            if row is None:
                raise Unfit(f"DELETE of key {key[:60]!r}, which is not there")
            del self._rows[key]
            return
        if command not in (ADD, UPDATE):
            raise Unfit(f"{COMMAND_FIELD} {str(command)[:60]!r}: expected {ADD}, {UPDATE} or {DELETE}")
        if row is None and len(self._rows) >= self._max_rows:
            raise Unfit(f"key {key[:60]!r} is one more than max_rows = {self._max_rows}")
        merged = {**(row or {}), **event, COMMAND_FIELD: ADD}
        self._check(len(merged))
        self._rows[key] = merged

    def events(self) -> Iterable[Event]:
        return self._rows.values()


STATES: dict[str, type[State]] = {"MERGE": MergeState, "DISTINCT": DistinctState, "COMMAND": CommandState}
