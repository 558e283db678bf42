"""What is kept of an item for later subscribers: one class for each mode it may be declared in.

While somebody is subscribed the kernel keeps the same; this is for the time in which nobody is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Self

from penstock.kernel.books import COMMAND_FIELD, KEY_FIELD
from penstock.kernel.ports import DISTINCT_HISTORY, CheckedEvent, Value
from penstock.kernel.table import ADD, DELETE, UPDATE


class UnfitEvent(Exception):
    """An event that does not fit its item; the text says why."""


class ItemState:
    """The base. `complete` says whether what is kept is all of a snapshot, and not only the first part of it."""

    # Its name in the configuration.
    mode: str

    def __init__(self, max_fields: int, max_rows: int) -> None:
        self.complete = False
        self._max_fields = max_fields
        self._max_rows = max_rows

    def apply(self, event: CheckedEvent) -> None:
        """Remember an event; raises UnfitEvent."""
        raise NotImplementedError

    def events(self) -> Iterable[CheckedEvent]:
        """The snapshot."""
        raise NotImplementedError

    def copy(self) -> Self:
        """A copy with the same content, to try changes; events are shared, because nobody changes them."""
        other = type(self)(self._max_fields, self._max_rows)
        other.complete = self.complete
        self._hand_over(other)
        return other

    def _hand_over(self, other: Self) -> None:
        raise NotImplementedError

    def resolve(self, event: CheckedEvent) -> CheckedEvent | None:
        """What an event of a batch comes to, given what is there; None if there is nothing to do. Raises UnfitEvent."""
        return event

    def _check(self, fields: int) -> None:
        if fields > self._max_fields:
            raise UnfitEvent(f"{fields} fields; max_fields = {self._max_fields}")


class MergeState(ItemState):
    """The latest value of each field."""

    mode = "MERGE"

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._values: dict[str, Value] = {}

    def apply(self, event: CheckedEvent) -> None:
        values = self._values
        if not event.keys() <= values.keys():
            self._check(len(event.keys() | values.keys()))
        values.update(event)

    def events(self) -> Iterable[CheckedEvent]:
        return [CheckedEvent(dict(self._values))] if self._values else []

    def _hand_over(self, other: Self) -> None:
        other._values = dict(self._values)


class DistinctState(ItemState):
    """The latest events."""

    mode = "DISTINCT"

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._latest: deque[CheckedEvent] = deque(maxlen=DISTINCT_HISTORY)

    def apply(self, event: CheckedEvent) -> None:
        self._check(len(event))
        self._latest.append(event)

    def events(self) -> Iterable[CheckedEvent]:
        return self._latest

    def _hand_over(self, other: Self) -> None:
        other._latest = self._latest.copy()


class CommandState(ItemState):
    """The rows of a table."""

    mode = "COMMAND"

    def __init__(self, max_fields: int, max_rows: int) -> None:
        super().__init__(max_fields, max_rows)
        self._rows: dict[str, CheckedEvent] = {}

    def apply(self, event: CheckedEvent) -> None:
        key, command = event.get(KEY_FIELD), event.get(COMMAND_FIELD)
        if not key:
            raise UnfitEvent(f"no field {KEY_FIELD}, which a COMMAND item needs")
        row = self._rows.get(key)
        if command == DELETE:
            if row is None:
                raise UnfitEvent(f"DELETE of key {key[:60]!r}, which is not there")
            del self._rows[key]
            return
        if command not in (ADD, UPDATE):
            raise UnfitEvent(f"{COMMAND_FIELD} {str(command)[:60]!r}: expected {ADD}, {UPDATE} or {DELETE}")
        if row is None and len(self._rows) >= self._max_rows:
            raise UnfitEvent(f"key {key[:60]!r} is one more than max_rows = {self._max_rows}")
        merged = CheckedEvent({**(row or {}), **event, COMMAND_FIELD: ADD})
        self._check(len(merged))
        self._rows[key] = merged

    def events(self) -> Iterable[CheckedEvent]:
        return self._rows.values()

    def _hand_over(self, other: Self) -> None:
        other._rows = dict(self._rows)

    def resolve(self, event: CheckedEvent) -> CheckedEvent | None:
        """ADD or UPDATE, depending on whether the row exists; a DELETE of a missing one has no effect."""
        key, command = event.get(KEY_FIELD), event.get(COMMAND_FIELD)
        if not key:
            raise UnfitEvent(f"no {KEY_FIELD}, which a COMMAND item needs")
        if command == DELETE:
            return CheckedEvent({KEY_FIELD: key, COMMAND_FIELD: DELETE}) if key in self._rows else None
        if command not in (None, ADD, UPDATE):
            raise UnfitEvent(f"{COMMAND_FIELD} {command[:60]!r}: expected {ADD}, {UPDATE}, {DELETE} or nothing")
        return CheckedEvent({**event, COMMAND_FIELD: UPDATE if key in self._rows else ADD})


STATES: dict[str, type[ItemState]] = {kind.mode: kind for kind in (MergeState, DistinctState, CommandState)}
