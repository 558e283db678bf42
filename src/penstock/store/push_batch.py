"""A list of changes as what is left to do at its end: many decisions are written in a few statements.

Records are replaced whole, so of several changes to one the last counts. Who writes it is `push`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.push.records import (
    Device,
    DropDevice,
    DropNotification,
    DropSubscription,
    Notification,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
)


class PushBatch:
    """First everything in `dropped_…` goes, then what is in the others is saved. Empty ones are false."""

    def __init__(self, changes: Iterable[PushChange]) -> None:
        self.devices: dict[str, Device] = {}
        self.subscriptions: dict[str, PushSubscription] = {}
        self.notifications: dict[str, Notification] = {}
        self.dropped_devices: set[str] = set()
        self.dropped_subscriptions: set[str] = set()
        self.dropped_notifications: set[str] = set()
        for change in changes:
            self._add(change)

    def __bool__(self) -> bool:
        return bool(self.touched or self.dropped_subscriptions or self.dropped_notifications)

    @property
    def touched(self) -> set[str]:
        """Devices about which something is said here, but for those of dropped subscriptions and notifications."""
        return self.needed | self.devices.keys() | self.dropped_devices

    @property
    def needed(self) -> set[str]:
        """Devices that must be there already."""
        owners = {each.device for each in self.subscriptions.values()}
        owners.update([each.device for each in self.notifications.values()])
        return owners - self.devices.keys()

    def _add(self, change: PushChange) -> None:
        match change:
            case SaveDevice(device):
                self.devices[device.id] = device
            case SaveSubscription(subscription):
                self.subscriptions[subscription.id] = subscription
            case SaveNotification(notification):
                self.notifications[notification.id] = notification
            case DropDevice(id):
                self._drop_device(id)
            case DropSubscription(id):
                self.subscriptions.pop(id, None)
                self.dropped_subscriptions.add(id)
            case DropNotification(id):
                self.notifications.pop(id, None)
                self.dropped_notifications.add(id)

    def _drop_device(self, id: str) -> None:
        self.devices.pop(id, None)
        self.dropped_devices.add(id)
        # Those that are in the database go with it.
        self.subscriptions = {key: each for key, each in self.subscriptions.items() if each.device != id}
        self.notifications = {key: each for key, each in self.notifications.items() if each.device != id}
