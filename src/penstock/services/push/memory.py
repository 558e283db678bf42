"""Everything of push notifications that a node has in memory: it can be thrown away and read from the database again.

Who persists changes before they are applied here is `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.push.flows import Applied, FlowBook
from penstock.push.records import (
    DropSubscription,
    Notification,
    PushChange,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
)
from penstock.push.registry import DeviceRegistry
from penstock.push.sending import Outcome, Sender
from penstock.push.settings import PushSettings
from penstock.store.push import LoadedDevices


class PushMemory:
    """Devices and subscriptions, what is armed, and what is to be sent."""

    def __init__(self, settings: PushSettings, new_id: Callable[[], str]) -> None:
        self.registry = DeviceRegistry(settings, new_id)
        self.book = FlowBook(self.registry, new_id)
        self.sender = Sender(self.registry)

    def apply(self, changes: Sequence[PushChange], now: int) -> tuple[Applied, Outcome]:
        """Changes that are persisted, or were read."""
        return self.book.apply(changes), self.sender.apply(changes, now)

    def devices_of(self, changes: Sequence[PushChange]) -> set[str]:
        """Those that changes are about, as far as somebody could be mistaken about them."""
        found = set()
        for change in changes:
            if isinstance(change, SaveDevice):
                found.add(change.device.id)
            elif isinstance(change, SaveSubscription):
                found.add(change.subscription.device)
            elif isinstance(change, SaveNotification):
                found.add(change.notification.device)
            elif isinstance(change, DropSubscription):
                subscription = self.registry.subscription(change.id)
                if subscription is not None:
                    found.add(subscription.device)
        return found

    def lasting(self, device: str) -> tuple[Notification, ...]:
        return tuple(each for each in self.sender.waiting(device) if each.lasting)


def changes_of(loaded: LoadedDevices) -> Iterator[PushChange]:
    """What was read, as changes to an empty memory."""
    yield from map(SaveDevice, loaded.devices)
    yield from map(SaveSubscription, loaded.subscriptions)
    yield from map(SaveNotification, loaded.notifications)
