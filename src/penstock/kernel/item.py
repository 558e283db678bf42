"""An item: its state as the data adapter told it, its recent events, and the views through which clients see it.

Who is subscribed is known by the views' lanes. Items come and go with their subscribers: see `feed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.lane import Lane, QueueLane
from penstock.kernel.ports import Codec, Value
from penstock.kernel.view import EventView, MergeView

# Events of a DISTINCT item kept as its snapshot.
DISTINCT_HISTORY = 10


class Mode(Enum):
    """How the events of an item are understood for a client."""

    RAW = "RAW"
    MERGE = "MERGE"
    DISTINCT = "DISTINCT"
    COMMAND = "COMMAND"


class Item:
    """Values are kept by field index, so that a view reads its fields by position."""

    def __init__(self, name: str, has_snapshot: bool) -> None:
        self.name = name
        # MERGE, DISTINCT or COMMAND, whichever a client asked for first; RAW goes with any.
        self.mode: Mode | None = None
        self.subscribers = 0
        self._index: dict[str, int] = {}
        self._values: list[Value] = []
        self._has_state = False
        self._in_snapshot = has_snapshot
        self._history: deque[dict[str, Value]] = deque(maxlen=DISTINCT_HISTORY)
        self._merge_views: dict[tuple[tuple[str, ...], int], MergeView] = {}
        self._event_views: dict[tuple[tuple[str, ...], int], EventView] = {}
        self._distinct_lanes: list[QueueLane] = []

    def check_mode(self, mode: Mode) -> None:
        """Refuse a mode that conflicts with the one this item is bound to."""
        if mode is not Mode.RAW and self.mode is not None and self.mode is not mode:
            raise Refusal(
                Reason.MODE,
                f"Item {self.name} is subscribed in {self.mode.value} mode; {mode.value} conflicts with it",
            )

    def view(self, mode: Mode, fields: tuple[str, ...], codec: Codec) -> MergeView | EventView:
        """The view for these fields and this codec, made when it is the first."""
        key = (fields, id(codec))
        if mode is not Mode.MERGE:
            event_view = self._event_views.get(key)
            if event_view is None:
                event_view = self._event_views[key] = EventView(fields, codec)
            return event_view
        merge_view = self._merge_views.get(key)
        if merge_view is None:
            positions = [self._position(name) for name in fields]
            merge_view = self._merge_views[key] = MergeView(fields, codec, positions)
        return merge_view

    def _position(self, field: str) -> int:
        position = self._index.get(field)
        if position is None:
            position = self._index[field] = len(self._values)
            self._values.append(None)
        return position

    def attach(self, lane: Lane, mode: Mode, snapshot_length: int | None) -> None:
        """A new lane joins its view; it gets the snapshot, or the part known so far, if it wants one."""
        view = lane.view
        view.add(lane)
        if mode is not Mode.RAW:
            self.mode = mode
        if mode is Mode.MERGE:
            assert isinstance(view, MergeView)
            if lane.wants_snapshot and self._has_state:
                view.catch_up(lane, view.state(self._values))
        elif mode is Mode.DISTINCT:
            assert isinstance(lane, QueueLane)
            self._distinct_lanes.append(lane)
            if lane.wants_snapshot:
                assert isinstance(view, EventView)
                history = list(self._history)
                if snapshot_length is not None:
                    history = history[-snapshot_length:]
                for event in history:
                    view.catch_up(lane, view.state(event))
                if not self._in_snapshot:
                    lane.end_snapshot()

    def detach(self, lane: Lane) -> None:
        """A lane leaves; a view without lanes goes with it."""
        view = lane.view
        view.remove(lane)
        if lane in self._distinct_lanes:
            self._distinct_lanes.remove(lane)
        if not view.lanes:
            key = (view.fields, id(view.codec))
            if isinstance(view, MergeView):
                self._merge_views.pop(key, None)
            else:
                self._event_views.pop(key, None)

    def update(self, event: Mapping[str, Value], snapshot: bool) -> None:
        """An event from the data adapter."""
        if snapshot and not self._in_snapshot:
            snapshot = False
        values = self._values
        for field, value in event.items():
            values[self._position(field)] = value
        self._has_state = True
        if self.mode is Mode.DISTINCT:
            self._history.append(dict(event))
        if not snapshot and self._in_snapshot:
            self.end_of_snapshot()
        for merge_view in self._merge_views.values():
            merge_view.publish(values, snapshot)
        for event_view in self._event_views.values():
            event_view.publish(event, snapshot)
        if snapshot and self.mode is Mode.MERGE:
            self._in_snapshot = False

    def end_of_snapshot(self) -> None:
        """The data adapter has sent all of its snapshot, or has begun to send real-time events."""
        if self._in_snapshot:
            self._in_snapshot = False
            for lane in self._distinct_lanes:
                if lane.wants_snapshot:
                    lane.end_snapshot()
