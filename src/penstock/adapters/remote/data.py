"""A data adapter in another process: the server's side of it.

The connection is in `link`, what is subscribed in `items`. Clients keep what they have while the process is away, and
are brought up to date when it is back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from penstock.adapters.inside import InsideAdapter
from penstock.adapters.remote.items import RemoteItems
from penstock.adapters.remote.link import Linked, RemoteLink
from penstock.adapters.remote.settings import ConnectionParameters, millis, optional_text, port, read_settings
from penstock.adapters.remote.status import StatusItem
from penstock.kernel.feed import Feed
from penstock.wire.ari.notifications import AriEndOfSnapshot, AriUpdate, ClearSnapshot, DeclareDifferences
from penstock.wire.ari.packets import AriStream, Packet
from penstock.wire.ari.replies import Reply
from penstock.wire.ari.requests import InitData, Pairs, Request


class RemoteDataAdapter(Linked, InsideAdapter):
    """Listens for the remote process; with `notify_port` for one that uses two connections.

    `repair_timeout_millis`: how long to wait for a snapshot when the process has come back. `retry_millis`: when to
    subscribe an item again that could not be. `status_item`: the name of an item that tells whether it is connected.
    """

    quick = True

    def __init__(
        self,
        *,
        notify_port: int | None = None,
        status_item: str | None = None,
        repair_timeout_millis: int = 5_000,
        retry_millis: int = 30_000,
        **connection: Unpack[ConnectionParameters],
    ) -> None:
        self._settings = read_settings(connection, first_connection_timeout_millis=0)
        self._wanted_ports = {AriStream.DATA: self._settings.port}
        if notify_port is not None:
            self._wanted_ports = {
                AriStream.DATA_REPLIES: self._settings.port,
                AriStream.DATA_NOTIFICATIONS: port("notify_port", notify_port),
            }
        self._status_name = optional_text("status_item", status_item)
        self._repair_seconds = millis("repair_timeout_millis", repair_timeout_millis, 1)
        self._retry_seconds = millis("retry_millis", retry_millis, 1)
        self._feed: Feed
        self._items: RemoteItems
        self._status: StatusItem | None = None

    def enter(self, feed: Feed) -> None:
        self._feed = feed
        self.link = RemoteLink(self._settings, self._wanted_ports, self, feed.adapter_set, feed.name)
        self._items = RemoteItems(self.link, feed, self._repair_seconds, self._retry_seconds)
        if self._status_name is not None:
            self._status = StatusItem(self._status_name, feed)

    # -- from the kernel ------------------------------------------------------------------------------------------

    def subscribe(self, item: str) -> None:
        live = self._feed.items[item]
        if self._status is not None and item == self._status.name:
            self._status.want(live)
        else:
            self._items.want(live)

    def unsubscribe(self, item: str) -> None:
        if self._status is not None and item == self._status.name:
            self._status.unwant()
        else:
            self._items.unwant(item)

    def has_snapshot(self, item: str) -> bool:
        """Only the remote process knows; where there is none it sends the end of it at once."""
        return True

    # -- from the link --------------------------------------------------------------------------------------------

    def initialisation(self, common: Pairs) -> Request:
        return InitData((*common, ("data_provider.name", self._feed.name)))

    def ready(self) -> None:
        self._items.ready()
        if self._status is not None:
            self._status.set(connected=True)

    def lost(self) -> None:
        self._items.lost()
        if self._status is not None:
            self._status.set(connected=False)

    def updated(self, updates: Sequence[AriUpdate]) -> None:
        self._items.updated(updates)

    def notified(self, packet: Packet) -> None:
        if isinstance(packet, AriEndOfSnapshot | ClearSnapshot | DeclareDifferences):
            self._items.notified(packet)

    def answered_late(self, reply: Reply) -> None:
        self._items.answered_late(reply)
