"""A view: an item seen through one list of fields in one codec, with all the lanes that share it. Here fan-out happens.

Lanes whose clients have the same state (the very same tuple) get the same bytes: each difference is encoded once per
view.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.lane import Lane
from penstock.kernel.ports import Codec, State, Value


class View:
    """The base: lanes, delivery and shared encoding. Subclasses decide what an event means."""

    def __init__(self, fields: tuple[str, ...], codec: Codec) -> None:
        self.fields = fields
        self.codec = codec
        self.lanes: list[Lane] = []
        self._body_of: State | None = None
        self._body_from: State | None = None
        self._body = b""

    def add(self, lane: Lane) -> None:
        lane.slot = len(self.lanes)
        self.lanes.append(lane)

    def remove(self, lane: Lane) -> None:
        """Constant time: the last lane takes the place of the removed one."""
        last = self.lanes.pop()
        if last is not lane:
            last.slot = lane.slot
            self.lanes[last.slot] = last
        lane.slot = -1

    def body(self, state: State, previous: State | None) -> bytes:
        """The encoded difference; asked for the same pair again, the same bytes."""
        if state is not self._body_of or previous is not self._body_from:
            self._body = self.codec.update_body(state, previous)
            self._body_of = state
            self._body_from = previous
        return self._body

    def deliver(self, state: State, snapshot: bool) -> None:
        """Give every lane the state: at once where session and frequency allow it, else it is held."""
        for lane in self.lanes:
            if snapshot and not lane.wants_snapshot:
                continue
            if lane.session.ready and lane.open:
                lane.session.send(lane.prefix + self.body(state, lane.sent))
                lane.sent = state
                if lane.interval:
                    lane.close()
            else:
                lane.hold(state)

    def catch_up(self, lane: Lane, state: State) -> None:
        """Give one lane a state that the others have had before."""
        if lane.session.ready and lane.open:
            lane.session.send(lane.prefix + self.body(state, lane.sent))
            lane.sent = state
            if lane.interval:
                lane.close()
        else:
            lane.hold(state)


class MergeView(View):
    """Events change a lasting state; one that changes no field of this view is not worth sending."""

    def __init__(self, fields: tuple[str, ...], codec: Codec, positions: list[int]) -> None:
        super().__init__(fields, codec)
        self._positions = positions
        self._state: State | None = None

    def state(self, values: list[Value]) -> State:
        """The item's values through this view; the same tuple as long as they are equal."""
        current = tuple([values[position] for position in self._positions])
        if self._state is None or current != self._state:
            self._state = current
        return self._state

    def publish(self, values: list[Value], snapshot: bool) -> None:
        before = self._state
        state = self.state(values)
        if state is not before:
            self.deliver(state, snapshot)
            return
        # Nothing new but for lanes that wait for their first update.
        for lane in self.lanes:
            if lane.sent is None and not lane.has_held() and (lane.wants_snapshot or not snapshot):
                self.catch_up(lane, state)


class EventView(View):
    """Every event stands for itself; a field it does not carry is null."""

    def state(self, event: Mapping[str, Value]) -> State:
        return tuple([event.get(name) for name in self.fields])

    def publish(self, event: Mapping[str, Value], snapshot: bool) -> None:
        self.deliver(self.state(event), snapshot)
