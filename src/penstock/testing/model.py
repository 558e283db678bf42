"""The model: what there is to see of each subscription of a client, said as naively as possible.

No buffers, no time, no connections: whatever the kernel does with those must not show here. How what a client has seen
is compared with it is in `judges`; how fast it may come, in `meter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.events import ClientEvent, EndOfSnapshot
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Event, State, Value
from penstock.testing.judges import (
    CLEARED,
    TableJudge,
    judge_end_of_snapshot,
    judge_events,
    judge_list,
    judge_states,
    judge_unfiltered,
)
from penstock.testing.truth import CommandTruth, Truth, truth


class ModelLane:
    """One item of one subscription."""

    def __init__(
        self,
        item: str,
        fields: Sequence[str],
        mode: Mode,
        unfiltered: bool,
        whole: bool,
        customizer: Customizer | None = None,
    ) -> None:
        self.item = item
        self.fields = fields
        self.mode = mode
        self.unfiltered = unfiltered or mode is Mode.RAW
        self.whole = whole
        # All that there has been to see, one after another.
        self.events: list[State] = []
        # How many of them are the snapshot whose end is told; None where there is none.
        self.snapshot: int | None = None
        # What a client that wants no snapshot is taken to know of a table.
        self.rows: dict[str, State] = {}
        self.customizer = customizer
        # The table that is left of an item when its events are changed or dropped.
        self._table = CommandTruth()

    def customized(self, event: Event) -> Event | None:
        """What the subscriber is to see in place of an event, if anything."""
        if self.customizer is None:
            return event
        if self.mode is Mode.MERGE:
            event = {field: value for field, value in event.items() if value is not None}
        changed = self.customizer(event)
        if changed is None or self.mode is not Mode.COMMAND:
            return changed
        row = self._table.rows.get(str(changed["key"]), {})
        if changed["command"] != "DELETE":
            # What is not there is null: the event is the row.
            changed = {**dict.fromkeys(row), **changed}
        return self._table.apply(changed)

    def show(self, values: Mapping[str, Value]) -> None:
        state = self._state(values)
        # A state that is there already is nothing to see.
        if self.mode is not Mode.MERGE or self.unfiltered or self.events[-1:] != [state]:
            self.events.append(state)

    def begin(self, known: Sequence[Event], wanted: bool, length: int | None) -> None:
        """The item's snapshot at the time of the subscription; its last events only, if that is what is wanted."""
        events = [event for event in map(self.customized, known) if event is not None]
        if self.customizer is not None and self.mode is Mode.COMMAND:
            events = self._table.snapshot()
        if length is not None:
            events = events[len(events) - min(length, len(events)) :]
        if not wanted and self.mode is Mode.COMMAND:
            self.rows = {str(event["key"]): self._state({**event, "command": None}) for event in events}
        elif wanted and self.mode is not Mode.RAW:
            for event in events:
                self.show(event)
            self.snapshot = None if self.mode is Mode.MERGE else len(events)

    def clear(self) -> None:
        self._table.clear()
        if self.mode is Mode.MERGE:
            self.show({})
        elif self.mode is not Mode.RAW:
            self.events.append(CLEARED)

    def _state(self, values: Mapping[str, Value]) -> State:
        return tuple(values.get(field) for field in self.fields)

    def judge(self, history: Sequence[ClientEvent], complete: bool) -> None:
        # What waits may be merged with what comes later, or cleared, before the end of the snapshot is told.
        is_exact = self.mode is Mode.DISTINCT and CLEARED not in self.events
        judge_end_of_snapshot(self.snapshot, history, complete, is_exact and not self.unfiltered)
        seen = [entry for entry in history if not isinstance(entry, EndOfSnapshot)]
        if self.mode is Mode.RAW:
            judge_events(self.events, seen, complete)
        elif self.unfiltered:
            judge_unfiltered(self.events, seen, complete)
        elif self.mode is Mode.MERGE:
            judge_states(self.events, seen, complete)
        elif self.mode is Mode.DISTINCT:
            judge_list(self.events, seen, complete, self.whole)
        else:
            TableJudge(self.fields, self.rows).judge(self.events, seen, complete)


class Model:
    """Told of everything that happens to a harness whose source gives snapshots at once; asked in the end.

    `modes` are those of the items; MERGE where there is none.
    """

    def __init__(self, modes: Mapping[str, Mode] | None = None) -> None:
        self.modes = modes or {}
        self.truths: dict[str, Truth] = {}
        self.subscriptions: dict[int, list[ModelLane]] = {}
        self.ended: dict[int, list[ModelLane]] = {}

    def successor(self) -> Model:
        """For a new session of the same client: it knows the items as they are."""
        model = Model(self.modes)
        model.truths = self.truths
        return model

    def _truth(self, item: str) -> Truth:
        if item not in self.truths:
            self.truths[item] = truth(self.modes.get(item, Mode.MERGE))
        return self.truths[item]

    def _lanes(self, item: str) -> list[ModelLane]:
        return [lane for lanes in self.subscriptions.values() for lane in lanes if lane.item == item]

    def publish(self, item: str, event: Mapping[str, Value]) -> None:
        seen = self._truth(item).apply(event)
        for lane in self._lanes(item):
            shown = event if lane.mode is Mode.RAW else seen
            changed = None if shown is None else lane.customized(shown)
            if changed is not None:
                lane.show(changed)

    def clear(self, item: str) -> None:
        self._truth(item).clear()
        for lane in self._lanes(item):
            lane.clear()

    def subscribe(
        self,
        number: int,
        items: str,
        fields: str,
        mode: Mode,
        snapshot: bool,
        *,
        snapshot_length: int | None = None,
        unfiltered: bool = False,
        whole: bool = False,
        customizer: Customizer | None = None,
    ) -> None:
        """`whole`: nothing of a DISTINCT item may be lost, because its buffer is never exceeded."""
        lanes = [ModelLane(item, fields.split(), mode, unfiltered, whole, customizer) for item in items.split()]
        for lane in lanes:
            lane.begin(self._truth(lane.item).snapshot(), snapshot, snapshot_length)
        self.subscriptions[number] = lanes

    def unsubscribe(self, number: int) -> None:
        """Nothing new is to be seen; what was on its way may never arrive."""
        self.ended[number] = self.subscriptions.pop(number)

    def judge(self, seen: Mapping[tuple[int, int], Sequence[ClientEvent]]) -> None:
        """Compare with what a client has seen, after everything has reached it."""
        for complete, subscriptions in ((True, self.subscriptions), (False, self.ended)):
            for number, lanes in subscriptions.items():
                for position, lane in enumerate(lanes, start=1):
                    lane.judge(seen.get((number, position), ()), complete)
