"""What clients of a cluster may see, and must see in the end, whatever the fabric has done.

A client may miss states, but never sees one that was not, nor an older one after a newer. Who is to have every event is
told when some are missing; how many is known only as long as the hub is the same, so that one is said at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.client.events import ClientEvent, EndOfSnapshot, Overflow, SnapshotCleared, Update
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Event, Selector, State
from penstock.testing.truth import Truth


@dataclass(slots=True)
class Entry:
    """Something that happened to an item: the event, None if it was cleared; and what those in its mode see of it."""

    event: Event | None
    shown: Event | None
    # Whether the data adapter has told the hub of it as an event.
    told: bool


@dataclass(slots=True)
class Story:
    """An item: all that happened, and how it is now."""

    mode: Mode
    truth: Truth
    entries: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Wish:
    """A subscription to one item."""

    item: str
    mode: Mode
    fields: tuple[str, ...]
    snapshot: bool
    unfiltered: bool
    customizer: Customizer | None
    selector: Selector | None
    # The entry from which on nothing may be missing unnoticed; None as long as the hub has not answered.
    since: int | None = None

    def project(self, values: Event) -> State:
        return tuple(values.get(name) for name in self.fields)

    def seen_of(self, entry: Entry) -> State | None:
        """What the client sees of it if nothing is lost, None if nothing."""
        if entry.event is None:
            return tuple(None for _ in self.fields) if self.mode is Mode.MERGE else None
        values = entry.event if self.mode is Mode.RAW else entry.shown
        if values is None:
            return None
        # In MERGE mode the selector is about events; a state is shown to newcomers whatever has led to it.
        if self.mode is not Mode.MERGE and not self.selects(entry.event):
            return None
        return self.customized(values)

    def selects(self, event: Event) -> bool:
        return self.selector is None or self.selector(event)

    @property
    def shows_all(self) -> bool:
        """Whether every event is shown, so that what the client holds does not depend on the way."""
        return self.selector is None and (self.customizer is None or self.customizer({"x": "22"}) is not None)

    def customized(self, values: Event) -> State | None:
        changed: Event | None = values
        if self.customizer is not None:
            changed = self.customizer({name: value for name, value in values.items() if value is not None})
        return None if changed is None else self.project(changed)


def judge(wish: Wish, story: Story, history: Sequence[ClientEvent], is_fresh: bool) -> None:
    """After everything has come to rest. `is_fresh`: the last event came after that, so that everybody must have it."""
    if wish.mode is Mode.COMMAND:
        _judge_table(wish, story, history)
    else:
        _judge_order(wish, story, history, is_fresh)
    if wish.mode in (Mode.DISTINCT, Mode.COMMAND):
        ends = sum(isinstance(event, EndOfSnapshot) for event in history)
        assert ends == wish.snapshot, f"{ends} ends of the snapshot"
    if wish.mode is Mode.DISTINCT and wish.snapshot and not wish.unfiltered:
        _judge_list(wish, story, history)


def _judge_order(wish: Wish, story: Story, history: Sequence[ClientEvent], is_fresh: bool) -> None:
    """Each update shows an entry that is no older than the one before, unless that was cleared; the last entry is the
    last update.
    """
    every = wish.unfiltered or wish.mode is Mode.RAW
    states = [wish.seen_of(entry) for entry in story.entries]
    position, told, before = -1, False, None
    for event in history:
        if isinstance(event, Overflow):
            assert every, "An overflow for a client that does not want every event"
            told = True
        elif isinstance(event, SnapshotCleared) and wish.mode is Mode.DISTINCT:
            # What follows replaces all that was there, and may be a part of it.
            position, told = -1, True
        elif isinstance(event, Update):
            if not every and wish.mode is Mode.MERGE:
                assert event.values != before, f"{before} has come twice"
            before = event.values
            # A state may be there already by a repair; an event may not come twice.
            start = position if wish.mode is Mode.MERGE and position >= 0 else position + 1
            assert event.values in states[start:], f"{event.values} is none of {states[start:]}, or comes too late"
            found = states.index(event.values, start)
            if every and not told:
                _check_missing(wish, story, states, position + 1, found)
            position, told = found, False
    if every and not told:
        _check_missing(wish, story, states, position + 1, len(states))
    holds = wish.mode is Mode.MERGE and wish.snapshot and wish.shows_all and bool(story.truth.snapshot())
    if is_fresh or holds:
        assert states[position] == states[-1], f"{states[-1]} is the last, but {before} was seen"


def _check_missing(wish: Wish, story: Story, states: list[State | None], start: int, end: int) -> None:
    for index in range(start, end):
        entry = story.entries[index]
        is_due = wish.since is not None and index >= wish.since and entry.told
        if is_due and states[index] is not None and entry.event is not None and wish.selects(entry.event):
            raise AssertionError(f"{states[index]} is missing before {states[end:][:1]}, and nobody was told")


def _judge_list(wish: Wish, story: Story, history: Sequence[ClientEvent]) -> None:
    """The latest events are all there, in order, since the item was last cleared."""
    kept: list[State] = []
    for event in history:
        if isinstance(event, SnapshotCleared):
            kept.clear()
        elif isinstance(event, Update):
            kept.append(event.values)
    wanted = []
    for kept_event in story.truth.snapshot():
        if wish.selects(kept_event):
            state = wish.customized(kept_event)
            if state is not None:
                wanted.append(state)
    assert kept[len(kept) - len(wanted) :] == wanted, f"The client has {kept}, the item is {wanted}"


def _judge_table(wish: Wish, story: Story, history: Sequence[ClientEvent]) -> None:
    """Each row was once like this, and in the end all are as they are."""
    key, command = wish.fields.index("key"), wish.fields.index("command")
    possible = {_row(state, command) for entry in story.entries if (state := wish.seen_of(entry)) is not None}
    rows: dict[str, State] = {}
    gone: set[str] = set()
    for event in history:
        if isinstance(event, SnapshotCleared):
            rows.clear()
        elif isinstance(event, Update):
            name = event.values[key]
            assert name is not None
            if wish.snapshot:
                assert (event.values[command] == "ADD") != (name in rows), f"{event} with rows {rows}"
            if event.values[command] == "DELETE":
                rows.pop(name, None)
                gone.add(name)
            else:
                rows[name] = _row(event.values, command)
                gone.discard(name)
                assert rows[name] in possible, f"{event.values} was never a row"
        elif isinstance(event, Overflow):
            assert wish.unfiltered
    if wish.unfiltered and not any(isinstance(event, Overflow) for event in history):
        seen = {event.values for event in history if isinstance(event, Update)}
        seen_rows = {_row(state, command) for state in seen}
        for entry in story.entries[wish.since :]:
            if entry.told and entry.event is not None and (state := wish.seen_of(entry)) is not None:
                is_there = state in seen if state[command] == "DELETE" else _row(state, command) in seen_rows
                assert is_there, f"{state} is missing, and nobody was told"
    wanted: dict[str, State] = {}
    for row in story.truth.snapshot():
        if wish.selects(row):
            state = wish.customized(row)
            assert state is not None
            assert state[key] is not None
            wanted[str(state[key])] = _row(state, command)
    if not wish.snapshot:
        # It knows nothing of rows that have not changed since it came.
        assert not gone & wanted.keys()
        wanted = {name: row for name, row in wanted.items() if name in rows}
    assert rows == wanted, f"The client has {rows}, the table is {wanted}"


def _row(state: State, command: int) -> State:
    return (*state[:command], None, *state[command + 1 :])
