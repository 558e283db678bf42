"""Devices, subscriptions and notifications to write into a store, and a clock that tests move."""

from __future__ import annotations

from sqlalchemy import Connection

from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    Flow,
    Notification,
    Platform,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
    SubscriptionStatus,
)

NOON = 1_700_000_000_000

FLOW = Flow("DEMO", "QUOTES", "item1 item2", "last time", "MERGE", ("item1", "item2"), ("last", "time"))


def device(id: str, token: str | None = None, badge: int = 0) -> Device:
    key = DeviceKey(Platform.APPLE, "com.example.app", token or f"token of {id}")
    return Device(id, key, DeviceStatus.ACTIVE, NOON, NOON + 1, badge)


def subscription(id: str, device: str, trigger: str | None = "Double.parseDouble($[1]) > 17") -> PushSubscription:
    format = '{"aps":{"alert":"$[1]"}}'
    return PushSubscription(id, device, FLOW, format, trigger, 10, 0.5, SubscriptionStatus.ACTIVE, NOON)


def notification(id: str, device: str, subscription: str = "s") -> Notification:
    return Notification(id, device, subscription, '{"aps":{"alert":"17.1"}}', NOON, NOON + 60_000, True)


def everything(*records: Device | PushSubscription | Notification) -> list[PushChange]:
    """The changes that save these."""
    return [_saved(each) for each in records]


def _saved(record: Device | PushSubscription | Notification) -> PushChange:
    match record:
        case Device():
            return SaveDevice(record)
        case PushSubscription():
            return SaveSubscription(record)
        case Notification():
            return SaveNotification(record)


class MovedClock:
    """The database's clock and the stopwatches of all nodes, moved by the test."""

    def __init__(self) -> None:
        self.millis = NOON

    def __call__(self, _connection: Connection) -> int:
        return self.millis

    def stopwatch(self) -> float:
        return self.millis / 1000

    def move(self, seconds: float) -> None:
        self.millis += round(seconds * 1000)
