"""A view: an item seen through one list of fields, with all the lanes that share it. Fan-out happens here.

Lanes whose clients have the same state (the very same tuple) get the same bytes: each difference is encoded once.
What a delivery costs is decided in `View.deliver`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.lane import Lane
from penstock.kernel.ports import Codec, Selector, State, Value
from penstock.kernel.quick import pick

# A state that no client has.
NOTHING: State = ("nothing",)


class Way:
    """The encoded difference from what a client has to a state."""

    __slots__ = ("body", "patched", "patched_then", "previous")

    def __init__(self, previous: State | None, patched: int, body: bytes, patched_then: int) -> None:
        self.previous = previous
        self.patched = patched
        self.body = body
        self.patched_then = patched_then


class View:
    """The base: lanes, delivery and shared encoding. Subclasses decide what an event means."""

    def __init__(self, fields: tuple[str, ...], codec: Codec, selector: Selector | None) -> None:
        self.fields = fields
        self.codec = codec
        self.selector = selector
        # The lanes that listen, and how many there are in all.
        self.lanes: list[Lane] = []
        self.members = 0
        # For lanes that sleep: how many events there have been, and the state after the latest.
        self.count = 0
        self.latest: State | None = None
        # Whether a state equal to what the client has is not sent.
        self.skips_unchanged = False
        # The difference formats to try for each field, in order; empty when no field has any.
        self.differences: tuple[str, ...] = ()
        # Encoded differences to one state: the first is kept outside the dictionary, because most clients have the same
        # state before and the lookup costs time (docs/performance.md); the others by the state before. That tuple is
        # kept, so that its identity is not reused.
        self._to: State | None = None
        self._way = Way(None, 0, b"", 0)
        self._ways: dict[tuple[int, int], Way] = {}

    def add(self, lane: Lane) -> None:
        self.members += 1
        self.listen(lane)

    def remove(self, lane: Lane) -> None:
        self.members -= 1
        if lane.slot >= 0:
            self.sleep(lane)

    def listen(self, lane: Lane) -> None:
        """Have the lane told of every event."""
        lane.slot = len(self.lanes)
        self.lanes.append(lane)

    def sleep(self, lane: Lane) -> None:
        """Constant time: the last lane takes the place of the one that stops listening."""
        last = self.lanes.pop()
        if last is not lane:
            last.slot = lane.slot
            self.lanes[last.slot] = last
        lane.slot = -1

    def selects(self, event: Mapping[str, Value]) -> bool:
        """Whether the selector, if there is one, lets the event pass."""
        return self.selector is None or self.selector(event)

    def body(self, state: State, lane: Lane) -> bytes:
        """The encoded difference between what the lane's client has and the state.

        The lane remembers what its client has after it.
        """
        previous, patched = lane.sent, lane.patched
        way = self._way
        if state is not self._to:
            way = self._way = self._find_way(state, previous, patched)
            self._to = state
            if self._ways:
                self._ways.clear()
        elif previous is not way.previous or patched != way.patched:
            key = (id(previous), patched)
            found = self._ways.get(key)
            if found is None:
                found = self._ways[key] = self._find_way(state, previous, patched)
            way = found
        lane.patched = way.patched_then
        return way.body

    def _find_way(self, state: State, previous: State | None, patched: int) -> Way:
        body, patched_then = self.codec.update_body(state, previous, self.differences, patched)
        return Way(previous, patched, body, patched_then)

    def deliver(self, state: State, snapshot: bool) -> None:
        """Give every lane the state: at once where outbox and frequency allow it, else it is held."""
        body = b""
        previous: State | None = NOTHING
        patched = patched_then = 0
        # A copy, because lanes that cannot send stop listening.
        for lane in self.lanes.copy():
            outbox = lane.outbox
            if not lane.clear or not outbox.ready or lane.interval or snapshot:
                if lane.wants_snapshot or not snapshot:
                    lane.give(state, free=False)
                continue
            # The same as `lane.give`, inlined: the body is mostly that of the lane before, and need not be looked up.
            if lane.sent is not previous or lane.patched != patched:
                previous, patched = lane.sent, lane.patched
                body = self.body(state, lane)
                patched_then = lane.patched
            elif patched_then != patched:
                lane.patched = patched_then
            lane.sent = state
            lane.updates += 1
            outbox.send(lane.prefix + body)


class MergeView(View):
    """Events change a lasting state. One that changes no field of this view is sent only to unfiltered lanes."""

    def __init__(
        self,
        fields: tuple[str, ...],
        codec: Codec,
        selector: Selector | None,
        positions: list[int],
        filtered: bool,
    ) -> None:
        super().__init__(fields, codec, selector)
        self._positions = positions
        self.skips_unchanged = filtered
        self._state: State | None = None

    def state(self, values: list[Value]) -> State:
        """The item's values through this view; the same tuple as long as they are equal."""
        state: State = pick(values, self._positions, self._state)
        self._state = state
        return state

    def publish(self, values: list[Value], snapshot: bool) -> None:
        before = self._state
        state = self.state(values)
        if state is not before or not self.skips_unchanged:
            self.count += 1
            self.latest = state
            self.deliver(state, snapshot)
            return
        # Nothing new, except for lanes that wait for their first update, or whose selector left out the latest.
        if state is not self.latest:
            self.count += 1
            self.latest = state
        for lane in self.lanes.copy():
            if lane.lacks(state) and (lane.wants_snapshot or not snapshot):
                lane.give(state, free=False)


class EventView(View):
    """Every event stands for itself; a field it does not carry is null."""

    def state(self, event: Mapping[str, Value]) -> State:
        return tuple([event.get(name) for name in self.fields])

    def publish(self, event: Mapping[str, Value], snapshot: bool) -> None:
        state = self.state(event)
        if not snapshot:
            self.deliver(state, False)
            return
        # A snapshot of several events is sent whole, whatever the frequency limit.
        for lane in self.lanes:
            if lane.wants_snapshot:
                lane.give(state, free=True)


class CommandView(EventView):
    """Events change the rows of a table; key and command are fields of the view."""

    def __init__(
        self,
        fields: tuple[str, ...],
        codec: Codec,
        selector: Selector | None,
        key_position: int,
        command_position: int,
    ) -> None:
        super().__init__(fields, codec, selector)
        self._key_position = key_position
        self._command_position = command_position

    def publish(self, event: Mapping[str, Value], snapshot: bool) -> None:
        state = self.state(event)
        # Each lane by itself, not by `deliver`: what a table holds of a row must be dropped when a newer one is sent.
        for lane in self.lanes:
            if lane.wants_snapshot or not snapshot:
                lane.give(state, free=snapshot)

    def key_and_command(self, state: State) -> tuple[str, str]:
        """Key and command: which row it is, and what happens to it."""
        key, command = state[self._key_position], state[self._command_position]
        assert key is not None
        assert command is not None
        return key, command

    def with_command(self, state: State, command: str) -> State:
        """The same row under another command."""
        position = self._command_position
        return (*state[:position], command, *state[position + 1 :])
