"""A watch: items followed without a session, in MERGE or DISTINCT mode, filtered, without snapshot.

It sees what a subscription of the same items and fields would be sent if its connection were always ready, and hands
each state to a callback. What the states are for, such as push notifications, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.follower import Follower
from penstock.kernel.item import Item, Mode
from penstock.kernel.ports import Event, State

# Takes the values of the watched fields, in their order. It is called within the event, and must not raise or wait.
TakeState = Callable[[State], None]


class ItemWatch:
    """Many watches of one item share it, with one another and with the subscriptions of clients."""

    __slots__ = ("_fields", "_mode", "_names", "_parts", "_told", "feed")

    def __init__(
        self, feed: Feed, mode: Mode, items: tuple[str, ...], fields: tuple[str, ...], told: TakeState
    ) -> None:
        if mode is not Mode.MERGE and mode is not Mode.DISTINCT:
            raise Refusal(Reason.MODE, f"Mode {mode.value} cannot be watched; MERGE and DISTINCT can")
        self.feed = feed
        self._mode = mode
        self._names = items
        self._fields = fields
        self._told = told
        self._parts: list[WatchedItem] = []

    @property
    def running(self) -> bool:
        return bool(self._parts)

    def start(self) -> None:
        """Follow all items from now on; raises a Refusal, and follows none, if one is in use in another mode."""
        # The same name may appear twice in a group.
        items = {name: self.feed.kept_item(name) for name in self._names}
        for item in items.values():
            item.check_mode(self._mode)
        for name in self._names:
            part = WatchedItem(items[name], self._mode, self._fields, self._told)
            self._parts.append(part)
            self.feed.bind(part.item, self._mode)
            part.item.join(self._mode, part)
            self.feed.keep(part.item, self._mode)

    def stop(self) -> None:
        parts, self._parts = self._parts, []
        for part in parts:
            part.item.leave(part)
            self.feed.stop_keeping(part.item)


class WatchedItem(Follower):
    """One item of a watch, and the state that was handed on last."""

    __slots__ = ("_fields", "_last", "_merges", "_told", "item")

    def __init__(self, item: Item, mode: Mode, fields: tuple[str, ...], told: TakeState) -> None:
        self.item = item
        self._merges = mode is Mode.MERGE
        self._fields = fields
        self._told = told
        self._last: State | None = None

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        if not snapshot:
            self._hand_on(tuple([whole.get(name) for name in self._fields]))

    def clear(self) -> None:
        """In MERGE mode all fields become null; in DISTINCT mode past events are forgotten, which is no event."""
        if self._merges:
            self._hand_on(tuple([None for _ in self._fields]))

    def _hand_on(self, state: State) -> None:
        if self._merges:
            if state == self._last:
                return
            self._last = state
        self._told(state)
