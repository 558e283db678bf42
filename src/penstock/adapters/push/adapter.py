"""Which items there are of devices and subscriptions, who may subscribe to them, and what is published.

A session may see the items of devices that it has registered, and no others, whatever the set's metadata adapter says:
that one is not asked. Public keys of sites are for everybody. Nothing is done for items that nobody is subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.adapters.inside import InsideAdapter
from penstock.adapters.push.book import PushBook
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.ports import Grant, ItemGrant, Value, Wish
from penstock.push.records import (
    Device,
    DropDevice,
    DropSubscription,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveSubscription,
)

# Items begin with these, followed by the id of a device, of a device, of a subscription, by the name of a site.
DEVICE = "DEV-"
LIST = "SUBS-"
SUBSCRIPTION = "SUB-"
SITE = "WEB-"

MODES = {DEVICE: Mode.MERGE, LIST: Mode.COMMAND, SUBSCRIPTION: Mode.MERGE, SITE: Mode.MERGE}

UNLIMITED = "unlimited"


class PushAdapter(InsideAdapter):
    """One for each adapter set; all of them show the same."""

    quick = True
    decides = True

    def __init__(self, book: PushBook) -> None:
        self._book = book
        self._feed: Feed | None = None
        self._end: Callable[[], None] = _nothing
        self._items: set[str] = set()
        # Lists that somebody is subscribed to with their keys, and which list each key is in.
        self._lists: dict[str, set[str]] = {}
        self._listed: dict[str, str] = {}

    def enter(self, feed: Feed) -> None:
        self._feed = feed

    def start(self) -> None:
        self._end = self._book.listen(self.tell, self.read_keys)

    def stop(self) -> None:
        self._end()

    # -- who may see what -----------------------------------------------------------------------------------------

    def grant(self, session: str, wish: Wish) -> Grant:
        items = wish.group.split()
        fields = tuple(wish.schema.split())
        if not items:
            raise Refusal(Reason.GROUP, "The group has no items")
        if not fields:
            raise Refusal(Reason.SCHEMA, "The schema has no fields")
        if wish.selector is not None:
            raise Refusal(Reason.SELECTOR, "There are no selectors for items of this data adapter")
        for item in items:
            kind, id = _parts(item)
            if kind == SITE and self._book.public_key(id) is None:
                raise Refusal(Reason.GROUP, f"There is no site {id[:60]} for Web Push that has a key")
            if not self._may_see(session, kind, id):
                raise Refusal(
                    Reason.GROUP, f"Item {item[:60]} is not of a device that has been registered in this session"
                )
            if MODES[kind].value != wish.mode:
                raise Refusal(Reason.MODE, f"The mode of item {item[:60]} is {MODES[kind].value}")
        return Grant(tuple([ItemGrant(item) for item in items]), fields)

    def _may_see(self, session: str, kind: str, id: str) -> bool:
        if kind == SITE:
            # A public key is no secret, and pages need it before they can register anything.
            return True
        if kind != SUBSCRIPTION:
            return self._book.has_registered(session, id)
        subscription = self._book.subscription(id)
        return subscription is not None and self._book.has_registered(session, subscription.device)

    # -- what is published ----------------------------------------------------------------------------------------

    def has_snapshot(self, item: str) -> bool:
        return True

    def subscribe(self, item: str) -> None:
        self._items.add(item)
        kind, id = _parts(item)
        if kind == DEVICE:
            device = self._book.device(id)
            if device is not None:
                self._publish(item, device_fields(device), snapshot=True)
        elif kind == SUBSCRIPTION:
            subscription = self._book.subscription(id)
            if subscription is not None:
                self._publish(item, subscription_fields(subscription), snapshot=True)
        elif kind == SITE:
            self._publish(item, {"public_key": self._book.public_key(id)}, snapshot=True)
        else:
            for subscription in self._book.subscriptions(id):
                self._list(item, SUBSCRIPTION + subscription.id, snapshot=True)
        assert self._feed is not None
        self._feed.end_of_snapshot(item)

    def unsubscribe(self, item: str) -> None:
        self._items.discard(item)
        for key in self._lists.pop(item, ()):
            del self._listed[key]

    def tell(self, changes: Iterable[PushChange]) -> None:
        """Publish what has changed; after it has been applied."""
        if not self._items:
            return
        for change in changes:
            if isinstance(change, SaveDevice):
                self._publish(DEVICE + change.device.id, device_fields(change.device))
            elif isinstance(change, SaveSubscription):
                subscription = change.subscription
                key = SUBSCRIPTION + subscription.id
                self._publish(key, subscription_fields(subscription))
                self._list(LIST + subscription.device, key)
            elif isinstance(change, DropSubscription):
                self._unlist(SUBSCRIPTION + change.id)
            elif isinstance(change, DropDevice):
                for key in sorted(self._lists.get(LIST + change.id, ())):
                    self._unlist(key)

    def read_keys(self) -> None:
        """Publish the keys of sites: they may be others now."""
        for item in self._items:
            kind, id = _parts(item)
            if kind == SITE:
                self._publish(item, {"public_key": self._book.public_key(id)})

    def _list(self, item: str, key: str, snapshot: bool = False) -> None:
        """A subscription is in a list: tell it, unless that is known."""
        if self._listed.get(key) == item:
            return
        self._unlist(key)
        if item in self._items:
            self._listed[key] = item
            self._lists.setdefault(item, set()).add(key)
            self._publish(item, {"key": key, "command": "ADD"}, snapshot)

    def _unlist(self, key: str) -> None:
        item = self._listed.pop(key, None)
        if item is not None:
            self._lists[item].discard(key)
            self._publish(item, {"key": key, "command": "DELETE"})

    def _publish(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        if item in self._items:
            assert self._feed is not None
            self._feed.update(item, event, snapshot)


def _nothing() -> None:
    """It has not been started."""


def _parts(item: str) -> tuple[str, str]:
    """What sort of item it is, and whose; raises a Refusal."""
    for kind in MODES:
        if item.startswith(kind):
            return kind, item.removeprefix(kind)
    raise Refusal(Reason.GROUP, f"Item {item[:60]} is none of this data adapter; they begin with {' '.join(MODES)}")


def device_fields(device: Device) -> dict[str, Value]:
    return {"status": device.status.value, "status_timestamp": str(device.status_millis)}


def subscription_fields(subscription: PushSubscription) -> dict[str, Value]:
    """Buffer and frequency under two names: that of the specification, and the one that published clients ask for."""
    flow = subscription.flow
    buffer_size = UNLIMITED if subscription.buffer_size is None else str(subscription.buffer_size)
    max_frequency = UNLIMITED if subscription.max_frequency is None else _decimal(subscription.max_frequency)
    return {
        "status": subscription.status.value,
        "status_timestamp": str(subscription.status_millis),
        "notification_format": subscription.format,
        "trigger": subscription.trigger,
        "group": flow.group,
        "schema": flow.schema,
        "adapter": flow.data_adapter,
        "mode": flow.mode,
        "buffer_size": buffer_size,
        "max_frequency": max_frequency,
        "requested_buffer_size": buffer_size,
        "requested_max_frequency": max_frequency,
    }


def _decimal(number: float) -> str:
    """Without an exponent, which clients need not understand."""
    text = repr(number)
    return f"{number:f}".rstrip("0").rstrip(".") if "e" in text else text
