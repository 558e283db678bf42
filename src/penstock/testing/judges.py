"""The judges: each compares all that there was to see of an item with what a client has seen of it.

`events` are field values in the order of the schema, `CLEARED` where the item was cleared. `complete` says that all
must have arrived by now; without it the end may be missing. What there was to see is worked out in `model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.events import ClientEvent, EndOfSnapshot, Overflow, SnapshotCleared, Update
from penstock.kernel.ports import State

# A place in the events; no item has zero fields.
CLEARED: State = ()


def judge_events(events: Sequence[State], history: Sequence[ClientEvent], complete: bool) -> None:
    """RAW: `history` is `events` in order, with the right number missing wherever an overflow was told."""
    position = 0
    for entry in history:
        if isinstance(entry, Overflow):
            position += entry.lost
            continue
        (values,) = shown([entry])
        if position >= len(events) or values != events[position]:
            raise AssertionError(f"Event {position + 1} of {events} is not {values}; seen: {history}")
        position += 1
    if position > len(events) or (complete and position != len(events)):
        raise AssertionError(f"{position} of {len(events)} events are accounted for")


def judge_unfiltered(events: Sequence[State], history: Sequence[ClientEvent], complete: bool) -> None:
    """Every event, or its loss is told before the next is seen; what is kept of a snapshot may follow that."""
    wanted = [event for event in events if event is not CLEARED]
    position = told = seen = 0
    for entry in history:
        if isinstance(entry, Overflow):
            told += entry.lost
        elif isinstance(entry, Update):
            position = _found(wanted, entry.values, position, history) + 1
            seen += 1
            if position - seen > told:
                raise AssertionError(f"{position - seen} events are missing, {told} were told; seen: {history}")
    if seen + told > len(wanted) or (complete and seen + told != len(wanted)):
        raise AssertionError(f"{seen} events seen and {told} told as lost, of {len(wanted)}; seen: {history}")
    _judge_clearings(events, history, complete)


def judge_states(states: Sequence[State], history: Sequence[ClientEvent], complete: bool) -> None:
    """MERGE: some of `states`, in order, none of them twice running, and in the end the last."""
    position = 0
    before: State | None = None
    for values in shown(history):
        if values == before:
            raise AssertionError(f"{before} has come twice; seen: {history}")
        before = values
        position = _found(states, before, position, history)
    if complete and before != (states[-1] if states else None):
        raise AssertionError(f"The state is {states[-1:]}, but the client has {before}")


def judge_list(events: Sequence[State], history: Sequence[ClientEvent], complete: bool, whole: bool) -> None:
    """DISTINCT: between two clearings some of the events, in order, and in the end the last.

    `whole`: no buffer was exceeded, so that only what waited for longer than until the next clearing may be missing.
    """
    _judge_clearings(events, history, complete)
    wanted, seen = _parts(events), _parts(shown(history))
    for number, part in enumerate(seen):
        position = 0
        for values in part:
            position = _found(wanted[number], values, position, history) + 1
        if whole and part != wanted[number][: len(part)]:
            raise AssertionError(f"{part} has gaps, of {wanted[number]}; seen: {history}")
    if complete and (seen[-1] != wanted[-1] if whole else seen[-1][-1:] != wanted[-1][-1:]):
        raise AssertionError(f"{seen[-1]} is all that was seen of {wanted[-1]}")


class TableJudge:
    """COMMAND: every command fits the client's table, and every row was once like this in the item's."""

    def __init__(self, fields: Sequence[str], rows: Mapping[str, State]) -> None:
        self._key = fields.index("key")
        self._command = fields.index("command")
        # A client that wants no snapshot is taken to know it.
        self._rows = dict(rows)

    def judge(self, events: Sequence[State], history: Sequence[ClientEvent], complete: bool) -> None:
        wanted = [event if event is CLEARED else self._as_row(event) for event in events]
        rows = dict(self._rows)
        positions: dict[str, int] = {}
        for values in shown(history):
            if values is CLEARED:
                rows.clear()
                continue
            key, command = values[self._key], values[self._command]
            assert key is not None
            if (command == "ADD") == (key in rows):
                raise AssertionError(f"{command} of {key}, and the client has {list(rows)}; seen: {history}")
            if command == "DELETE":
                del rows[key]
            else:
                rows[key] = self._as_row(values)
                positions[key] = _found(wanted, rows[key], positions.get(key, 0), history) + 1
        _judge_clearings(events, history, complete)
        if complete and rows != self._replayed(events):
            raise AssertionError(f"The table is {self._replayed(events)}, but the client has {rows}; seen: {history}")

    def _replayed(self, events: Sequence[State]) -> dict[str, State]:
        rows = dict(self._rows)
        for event in events:
            if event is CLEARED:
                rows.clear()
                continue
            key = event[self._key]
            assert key is not None
            if event[self._command] == "DELETE":
                del rows[key]
            else:
                rows[key] = self._as_row(event)
        return rows

    def _as_row(self, values: State) -> State:
        """Without the command, except that a deleted row is like no other."""
        if values[self._command] == "DELETE":
            return values
        return (*values[: self._command], None, *values[self._command + 1 :])


def judge_end_of_snapshot(count: int | None, history: Sequence[ClientEvent], complete: bool, exact: bool) -> None:
    """The end of a snapshot is told once, never where `count` is None; `exact`: after this many updates."""
    ends = [index for index, entry in enumerate(history) if isinstance(entry, EndOfSnapshot)]
    if len(ends) > (count is not None) or (complete and count is not None and not ends):
        raise AssertionError(f"The snapshot has ended {len(ends)} times; seen: {history}")
    if exact and ends and sum(isinstance(entry, Update) for entry in history[: ends[0]]) != count:
        raise AssertionError(f"The snapshot should have been of {count} updates; seen: {history}")


def shown(history: Sequence[ClientEvent]) -> list[State]:
    """What was seen where nothing may be lost unnoticed that the client must know of."""
    found: list[State] = []
    for entry in history:
        if isinstance(entry, Overflow):
            raise AssertionError(f"Nothing is lost here that would have to be told: {entry}")
        found.append(entry.values if isinstance(entry, Update) else CLEARED)
    return found


def _found(events: Sequence[State], values: State, position: int, history: Sequence[ClientEvent]) -> int:
    try:
        return events.index(values, position)
    except ValueError:
        raise AssertionError(f"{values} is none of {events[position:]}; seen: {history}") from None


def _judge_clearings(events: Sequence[State], history: Sequence[ClientEvent], complete: bool) -> None:
    seen, wanted = sum(isinstance(entry, SnapshotCleared) for entry in history), events.count(CLEARED)
    if seen > wanted or (complete and seen != wanted):
        raise AssertionError(f"{seen} clearings of {wanted}; seen: {history}")


def _parts(events: Sequence[State]) -> list[list[State]]:
    parts: list[list[State]] = [[]]
    for event in events:
        if event is CLEARED:
            parts.append([])
        else:
            parts[-1].append(event)
    return parts
