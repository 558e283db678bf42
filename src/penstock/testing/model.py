"""The judge: what a client must have seen of its subscriptions, said as naively as possible.

MERGE: the client has seen some of the item's states, in order, and has the last. RAW: it has every event in order, and
where some are missing it was told how many. No buffers, no time, no connections: whatever the kernel does with those
must not show here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.events import Overflow, Update
from penstock.kernel.item import Mode
from penstock.kernel.ports import State, Value


class ModelLane:
    """One item of one subscription."""

    def __init__(self, item: str, fields: Sequence[str], mode: Mode) -> None:
        self.item = item
        self.fields = fields
        self.mode = mode
        # MERGE: the states there have been to see, one after another. RAW: all events.
        self.events: list[State] = []


class Model:
    """Told of everything that happens to a harness whose source gives snapshots; asked in the end."""

    def __init__(self) -> None:
        self.state: dict[str, dict[str, Value]] = {}
        self.subscriptions: dict[int, list[ModelLane]] = {}
        self.ended: dict[int, list[ModelLane]] = {}

    def publish(self, item: str, event: Mapping[str, Value]) -> None:
        self.state.setdefault(item, {}).update(event)
        for lanes in self.subscriptions.values():
            for lane in lanes:
                if lane.item == item:
                    self._add(lane, event if lane.mode is Mode.RAW else self.state[item])

    def subscribe(self, number: int, items: str, fields: str, mode: Mode, snapshot: bool) -> None:
        lanes = [ModelLane(item, fields.split(), mode) for item in items.split()]
        for lane in lanes:
            if snapshot and mode is Mode.MERGE and lane.item in self.state:
                self._add(lane, self.state[lane.item])
        self.subscriptions[number] = lanes

    def _add(self, lane: ModelLane, values: Mapping[str, Value]) -> None:
        state = tuple(values.get(field) for field in lane.fields)
        if lane.mode is Mode.RAW or lane.events[-1:] != [state]:
            lane.events.append(state)

    def unsubscribe(self, number: int) -> None:
        """Nothing new is to be seen; what was on its way may never arrive."""
        self.ended[number] = self.subscriptions.pop(number)

    def judge(self, seen: Mapping[tuple[int, int], Sequence[Update | Overflow]]) -> None:
        """Compare with what a client has seen, after everything has reached it."""
        for complete, subscriptions in ((True, self.subscriptions), (False, self.ended)):
            for number, lanes in subscriptions.items():
                for position, lane in enumerate(lanes, start=1):
                    history = seen.get((number, position), ())
                    if lane.mode is Mode.RAW:
                        judge_events(lane.events, history, complete)
                    else:
                        judge_states(lane.events, history, complete)


def judge_events(events: Sequence[State], history: Sequence[Update | Overflow], complete: bool) -> None:
    """RAW: `history` is `events` in order, with the right number missing wherever an overflow was told."""
    position = 0
    for entry in history:
        if isinstance(entry, Overflow):
            position += entry.lost
            continue
        if position >= len(events) or entry.values != events[position]:
            raise AssertionError(f"Event {position + 1} of {events} is not {entry.values}; seen: {history}")
        position += 1
    if position > len(events) or (complete and position != len(events)):
        raise AssertionError(f"{position} of {len(events)} events are accounted for")


def judge_states(states: Sequence[State], history: Sequence[Update | Overflow], complete: bool) -> None:
    """MERGE: some of `states`, in order, none of them twice running, and in the end the last."""
    position = 0
    before: State | None = None
    for entry in history:
        if isinstance(entry, Overflow):
            raise AssertionError(f"MERGE loses nothing that would have to be told: {entry}")
        if entry.values == before:
            raise AssertionError(f"{before} has come twice; seen: {history}")
        before = entry.values
        try:
            position = states.index(before, position)
        except ValueError:
            raise AssertionError(f"{before} is none of {states[position:]}; seen: {history}") from None
    if complete and before != (states[-1] if states else None):
        raise AssertionError(f"The state is {states[-1:]}, but the client has {before}")
