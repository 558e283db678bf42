"""Books: what an item remembers of its past, and how its events reach the views, one class for each mode.

A book makes the snapshot for a newcomer. Which mode an item is in is decided by its first subscriber: see `item`.
Specification: General Concepts 3.2 and 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.kernel.follower import Follower
from penstock.kernel.lane import Lane
from penstock.kernel.ports import Event, State, Value
from penstock.kernel.quick import merge_row
from penstock.kernel.rows import RowLayout
from penstock.kernel.table import ADD, DELETE, UPDATE
from penstock.kernel.view import CommandView, EventView, MergeView, View

if TYPE_CHECKING:
    from penstock.kernel.custom import CustomizedItem

KEY_FIELD = "key"
COMMAND_FIELD = "command"

V = TypeVar("V", bound=View)


class BadEvent(Exception):
    """An event that is invalid for this item; it is dropped, and the reason is reported to the data adapter's owner."""


class Book(Generic[V]):
    """The base: the views of one mode."""

    def __init__(self) -> None:
        self.views: list[V] = []
        # A tuple, because most items have none of them, and one may leave while all are told of an event.
        self.followers: tuple[Follower, ...] = ()

    def record(self, event: Event) -> Event:
        """Take an event into what is remembered; returns it as clients should see it, or raises BadEvent."""
        raise NotImplementedError

    def publish(self, event: Event, snapshot: bool) -> None:
        """Give a recorded event to the views."""
        raise NotImplementedError

    def welcome(self, view: V, lane: Lane, length: int | None) -> None:
        """Give a newcomer the snapshot as it is now."""
        raise NotImplementedError

    def introduce(self, newcomer: CustomizedItem) -> None:
        """Tell one who will follow what is remembered."""
        raise NotImplementedError

    def repair(self, events: Sequence[Event], complete: bool, complaints: list[str]) -> tuple[bool, Sequence[Event]]:
        """How to get from what is remembered to a new snapshot: whether to clear first, then the events to publish.

        `complete`: the events are all there is, even if there are none; else none means that nothing is known.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything, and have the clients forget it."""
        for view in self.views:
            for lane in view.lanes:
                line = view.codec.snapshot_cleared(lane.subscription, lane.position)
                if line:
                    lane.drop_states()
                    lane.tell(line)
                else:
                    self.empty(view, lane)
        for follower in self.followers:
            follower.clear()

    def empty(self, view: V, lane: Lane) -> None:
        """Clear for a client whose protocol has no such message; by default it keeps what it has."""


class MergeBook(Book[MergeView]):
    """The latest value of each field, by index, so that a view reads its fields by position."""

    def __init__(self) -> None:
        super().__init__()
        self.has_state = False
        self._index: dict[str, int] = {}
        self._values: list[Value] = []
        # Where the values of the latest row belong.
        self._layout: RowLayout | None = None
        self._places: list[int] = []

    def position(self, field: str) -> int:
        position = self._index.get(field)
        if position is None:
            position = self._index[field] = len(self._values)
            self._values.append(None)
        return position

    def record(self, event: Event) -> Event:
        index, values = self._index, self._values
        for field, value in event.items():
            at = index.get(field)
            values[self.position(field) if at is None else at] = value
        self.has_state = True
        return event

    def publish(self, event: Event, snapshot: bool) -> None:
        for view in self.views:
            if view.selects(event):
                view.publish(self._values, snapshot)
        if self.followers:
            whole = self.whole()
            for follower in self.followers:
                follower.follow(event, whole, snapshot)

    def takes_rows(self) -> bool:
        """Whether nobody looks at the names of an event."""
        if self.followers:
            return False
        # Not by `all`, which is slower when compiled.
        for view in self.views:  # noqa: SIM110
            if view.selector is not None:
                return False
        return True

    def publish_row(self, layout: RowLayout, row: State) -> None:
        """Record a checked row and publish it; only while it `takes_rows`."""
        if layout is not self._layout:
            self._layout = layout
            self._places = [self.position(field) for field in layout.fields]
        merge_row(self._values, self._places, row)
        self.has_state = True
        for view in self.views:
            view.publish(self._values, False)

    def whole(self) -> Event:
        """All fields that have a value. Those that are null may be ones that a client has made up."""
        values = self._values
        return {field: value for field, at in self._index.items() if (value := values[at]) is not None}

    def forget_values(self) -> None:
        """What the next event does not carry is null."""
        self._values = [None] * len(self._values)

    def introduce(self, newcomer: CustomizedItem) -> None:
        if self.has_state:
            # As with any newcomer: the selector is about events, and this is a state.
            newcomer.learn(self.whole(), True)

    def welcome(self, view: MergeView, lane: Lane, length: int | None) -> None:
        if self.has_state:
            lane.give(view.state(self._values), free=False)

    def repair(self, events: Sequence[Event], complete: bool, complaints: list[str]) -> tuple[bool, Sequence[Event]]:
        """Fields that the snapshot lacks become null. A snapshot without events leaves them as they are."""
        if not events:
            return False, ()
        values = self._values
        merged: dict[str, Value] = {field: None for field, at in self._index.items() if values[at] is not None}
        for event in events:
            merged.update(event)
        return False, (merged,)

    def clear(self) -> None:
        """There is no clearing in MERGE mode: all fields become null."""
        self.forget_values()
        for view in self.views:
            view.publish(self._values, False)
        for follower in self.followers:
            follower.clear()


class DistinctBook(Book[EventView]):
    """The latest events."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        # Not a deque: every item has this book until its mode is known, and even an empty deque takes much memory.
        self._history: list[Event] = []

    def resize(self, length: int) -> None:
        """Keep this many of the latest from now on."""
        self.length = length
        del self._history[: max(0, len(self._history) - length)]

    def record(self, event: Event) -> Event:
        history = self._history
        history.append(event)
        if len(history) > self.length:
            del history[0]
        return event

    def publish(self, event: Event, snapshot: bool) -> None:
        for view in self.views:
            if view.selects(event):
                view.publish(event, snapshot)
        for follower in self.followers:
            follower.follow(event, event, snapshot)

    def history(self) -> list[Event]:
        return self._history.copy()

    def introduce(self, newcomer: CustomizedItem) -> None:
        for event in self._history:
            newcomer.learn(event, False)

    def welcome(self, view: EventView, lane: Lane, length: int | None) -> None:
        history = self._history
        if length is not None:
            history = history[-length:] if length else []
        for event in history:
            if view.selects(event):
                lane.give(view.state(event), free=True)

    def repair(self, events: Sequence[Event], complete: bool, complaints: list[str]) -> tuple[bool, Sequence[Event]]:
        """What follows the latest event that both have; if they have none in common, all of them replace ours."""
        ours, theirs = self._history, list(events)
        if not ours:
            # Without a history there is no way to tell which of them clients have received.
            return False, theirs if self.length else ()
        for end in range(len(theirs), 0, -1):
            length = min(end, len(ours))
            if theirs[end - length : end] == ours[-length:]:
                return False, theirs[end:]
        return (True, theirs) if theirs or complete else (False, ())

    def clear(self) -> None:
        self._history.clear()
        super().clear()


class CommandBook(Book[CommandView]):
    """The rows of a table, by key."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, dict[str, Value]] = {}

    def record(self, event: Event) -> Event:
        """Apply a command. One that does not fit the table is converted into one that does, or dropped."""
        key, command = event.get(KEY_FIELD), event.get(COMMAND_FIELD)
        if not key:
            raise BadEvent(f"an event without {KEY_FIELD}")
        row = self._rows.get(key)
        if command == DELETE:
            if row is None:
                raise BadEvent(f"DELETE of key {key[:60]!r}, which is not there")
            del self._rows[key]
            return event
        if command not in (ADD, UPDATE):
            shown = None if command is None else command[:60]
            raise BadEvent(f"command {shown!r}; expected ADD, UPDATE or DELETE")
        if row is None:
            added = {**event, COMMAND_FIELD: ADD}
            self._rows[key] = added
            return added
        # An existing row is updated, also by an ADD: fields that the event does not carry keep their values.
        updated = self._rows[key] = {**row, **event, COMMAND_FIELD: UPDATE}
        return updated

    def publish(self, event: Event, snapshot: bool) -> None:
        for view in self.views:
            if view.selects(event):
                view.publish(event, snapshot)
        for follower in self.followers:
            follower.follow(event, event, snapshot)

    def rows(self) -> list[Event]:
        """All of them, as they are added."""
        return [{**row, COMMAND_FIELD: ADD} for row in self._rows.values()]

    def introduce(self, newcomer: CustomizedItem) -> None:
        for row in self._rows.values():
            newcomer.learn({**row, COMMAND_FIELD: ADD}, False)

    def replacing(self, event: Event) -> Event:
        """The event with a null for each field of its row that it does not carry."""
        row = self._rows.get(event.get(KEY_FIELD) or "")
        if row is None or event.get(COMMAND_FIELD) == DELETE:
            return event
        return {**dict.fromkeys(row), **event}

    def welcome(self, view: CommandView, lane: Lane, length: int | None) -> None:
        for row in self._rows.values():
            added: Mapping[str, Value] = {**row, COMMAND_FIELD: ADD}
            if view.selects(added):
                lane.give(view.state(added), free=True)

    def repair(self, events: Sequence[Event], complete: bool, complaints: list[str]) -> tuple[bool, Sequence[Event]]:
        """DELETE for keys that are gone, UPDATE for rows that differ, ADD for new ones."""
        if not events:
            return complete and bool(self._rows), ()
        fresh = CommandBook()
        for event in events:
            try:
                fresh.record(event)
            except BadEvent as bad:
                complaints.append(str(bad))
        way: list[Event] = []
        for key in self._rows:
            if key not in fresh._rows:
                way.append({KEY_FIELD: key, COMMAND_FIELD: DELETE})
        for key, row in fresh._rows.items():
            ours = self._rows.get(key)
            if ours is None:
                way.append({**row, COMMAND_FIELD: ADD})
                continue
            # Fields that the new row does not have become null; without this they would keep their values.
            wanted = {**dict.fromkeys(ours), **row, COMMAND_FIELD: UPDATE}
            if wanted != {**dict.fromkeys(row), **ours, COMMAND_FIELD: UPDATE}:
                way.append(wanted)
        return False, way

    def clear(self) -> None:
        super().clear()
        self._rows.clear()

    def empty(self, view: CommandView, lane: Lane) -> None:
        for key in self._rows:
            deleted: Mapping[str, Value] = {KEY_FIELD: key, COMMAND_FIELD: DELETE}
            if view.selects(deleted):
                lane.give(view.state(deleted), free=False)
