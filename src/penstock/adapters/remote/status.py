"""The status item: whether a remote data adapter is there, as an item that clients can subscribe to.

It belongs to the server: the remote adapter never hears of it.
"""

from __future__ import annotations

from penstock.kernel.feed import Feed
from penstock.kernel.item import Item
from penstock.kernel.ports import CheckedEvent

FIELD = "status"
CONNECTED = "CONNECTED"
DISCONNECTED = "DISCONNECTED"


class StatusItem:
    """In MERGE or DISTINCT mode: one field."""

    def __init__(self, name: str, feed: Feed) -> None:
        self.name = name
        self._feed = feed
        self._item: Item | None = None
        self._status = DISCONNECTED

    def want(self, item: Item) -> None:
        self._item = item
        self._publish(snapshot=True)
        self._feed.end_of_snapshot(self.name, item.serial)

    def unwant(self) -> None:
        self._item = None

    def set(self, connected: bool) -> None:
        self._status = CONNECTED if connected else DISCONNECTED
        self._publish(snapshot=False)

    def _publish(self, snapshot: bool) -> None:
        if self._item is not None:
            self._feed.publish_checked([(self._item, CheckedEvent({FIELD: self._status}), snapshot)])
