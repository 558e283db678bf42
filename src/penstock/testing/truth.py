"""Items as their data adapter knows them, said as naively as possible: a state, a list of events, or a table.

Nothing of subscribers, buffers or time: those are the kernel's, and what becomes of them is judged in `model`.
Specification: General Concepts 3.2 and 3.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.item import Mode
from penstock.kernel.ports import Event, Value
from penstock.testing.hands import HandSource

# The events that a server keeps of a DISTINCT item unless it is told otherwise.
HISTORY = 10


class MergeTruth:
    """The latest value of each field; None before the first event."""

    def __init__(self) -> None:
        self.state: Event | None = None

    def apply(self, event: Event) -> Event | None:
        """Take in an event; what the subscribers of this mode are to see of it, None when it makes no sense."""
        self.state = {**(self.state or {}), **event}
        return self.state

    def clear(self) -> None:
        self.state = None if self.state is None else {}

    def snapshot(self) -> list[Event]:
        """The events that lead a newcomer to where the item is now."""
        return [] if self.state is None else [self.state]


class DistinctTruth:
    """The latest events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def apply(self, event: Event) -> Event | None:
        self.events = [*self.events, event][-HISTORY:]
        return event

    def clear(self) -> None:
        self.events = []

    def snapshot(self) -> list[Event]:
        return self.events


class CommandTruth:
    """The rows of a table by key. A row that is there is updated, one that is not is added, whatever the command."""

    def __init__(self) -> None:
        self.rows: dict[str, Event] = {}

    def apply(self, event: Event) -> Event | None:
        key = event["key"]
        assert key is not None
        row = self.rows.get(key)
        if event["command"] == "DELETE":
            self.rows.pop(key, None)
            return None if row is None else event
        seen = {**event, "command": "ADD"} if row is None else {**row, **event, "command": "UPDATE"}
        self.rows[key] = {**seen, "command": "ADD"}
        return seen

    def clear(self) -> None:
        self.rows = {}

    def snapshot(self) -> list[Event]:
        return list(self.rows.values())


Truth = MergeTruth | DistinctTruth | CommandTruth


def truth(mode: Mode) -> Truth:
    """A new item for this mode."""
    if mode is Mode.DISTINCT:
        return DistinctTruth()
    return CommandTruth() if mode is Mode.COMMAND else MergeTruth()


class TruthSource(HandSource):
    """A data source of such items; those of `unended` leave it to the test to say that their snapshot is over."""

    def __init__(self, modes: Mapping[str, Mode], unended: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.truths = {item: truth(mode) for item, mode in modes.items()}
        self.unended = unended
        self._published = 0

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        self.calls.append(("subscribe", item))
        assert self.feed is not None
        for event in self.truths[item].snapshot():
            self.feed.update(item, event, snapshot=True)
        if item not in self.unended:
            self.feed.end_of_snapshot(item)

    def publish(self, item: str, event: Mapping[str, Value]) -> None:
        """By turns as an event and as a row: that makes no difference."""
        self.truths[item].apply(event)
        assert self.feed is not None
        self._published += 1
        if self._published % 2:
            self.feed.update(item, event)
        else:
            self.feed.rows(tuple(event), [(item, *event.values())])

    def clear(self, item: str) -> None:
        self.truths[item].clear()
        assert self.feed is not None
        self.feed.clear_snapshot(item)
