"""Devices, subscriptions and notifications as rows, and rows as these: no queries here, which are in `push`.

Texts that many subscriptions have in common, such as flows and formats, are one object after loading, because there may
be a hundred thousand of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

from sqlalchemy import Row

from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    Flow,
    Notification,
    Platform,
    PushSubscription,
    SubscriptionStatus,
)
from penstock.store.errors import BadName

T = TypeVar("T")

# What the texts of a row are, by value: as enumerations are looked up much more slowly.
_PLATFORMS = {each.value: each for each in Platform}
_DEVICE_STATUSES = {each.value: each for each in DeviceStatus}
_SUBSCRIPTION_STATUSES = {each.value: each for each in SubscriptionStatus}


def key_digest(key: DeviceKey) -> bytes:
    """By which a device is found. The parts are told apart by JSON."""
    parts = json.dumps([key.platform.value, key.application, key.token])
    return blake2b(parts.encode(), digest_size=32).digest()


def device_row(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "platform": device.key.platform.value,
        "application": _storable("application", device.key.application),
        "token": _storable("token", device.key.token),
        "digest": key_digest(device.key),
        "status": device.status.value,
        "status_millis": device.status_millis,
        "used_millis": device.used_millis,
        "badge": device.badge,
    }


def subscription_row(subscription: PushSubscription) -> dict[str, object]:
    flow = subscription.flow
    parts = [flow.adapter_set, flow.data_adapter, flow.group, flow.schema, flow.mode, flow.items, flow.fields]
    trigger = subscription.trigger
    return {
        "id": subscription.id,
        "device": subscription.device,
        "flow": json.dumps(parts, separators=(",", ":")),
        "format": _storable("format", subscription.format),
        "trigger": None if trigger is None else _storable("trigger", trigger),
        "buffer_size": subscription.buffer_size,
        "max_frequency": subscription.max_frequency,
        "status": subscription.status.value,
        "status_millis": subscription.status_millis,
    }


def notification_row(notification: Notification) -> dict[str, object]:
    return {
        "id": notification.id,
        "device": notification.device,
        "subscription": notification.subscription,
        "payload": _storable("payload", notification.payload),
        "created_millis": notification.created_millis,
        "expires_millis": notification.expires_millis,
        "lasting": notification.lasting,
    }


def devices_of(rows: Iterable[Row[*tuple[Any, ...]]]) -> list[Device]:
    shared = _Shared()
    return [
        Device(
            id,
            DeviceKey(_PLATFORMS[platform], shared.text(application), token),
            _DEVICE_STATUSES[status],
            status_millis,
            used_millis,
            badge,
        )
        for id, platform, application, token, status, status_millis, used_millis, badge in rows
    ]


def subscriptions_of(rows: Iterable[Row[*tuple[Any, ...]]]) -> list[PushSubscription]:
    shared = _Shared()
    return [
        PushSubscription(
            id,
            device,
            shared.flow(flow),
            shared.text(format),
            None if trigger is None else shared.text(trigger),
            buffer_size,
            max_frequency,
            _SUBSCRIPTION_STATUSES[status],
            status_millis,
        )
        for id, device, flow, format, trigger, buffer_size, max_frequency, status, status_millis in rows
    ]


def notifications_of(rows: Iterable[Row[*tuple[Any, ...]]]) -> list[Notification]:
    return [Notification(*row) for row in rows]


class _Shared:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._flows: dict[str, Flow] = {}

    def text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def flow(self, text: str) -> Flow:
        found = self._flows.get(text)
        if found is None:
            adapter_set, data_adapter, group, schema, mode, items, fields = json.loads(text)
            found = Flow(adapter_set, data_adapter, group, schema, mode, tuple(items), tuple(fields))
            self._flows[text] = found
        return found


def _storable(field: str, text: str) -> str:
    """PostgreSQL keeps no NUL, and neither database a half of a surrogate pair."""
    if "\0" in text or not (text.isascii() or _is_unicode(text)):
        raise BadName(f"{field}: a text with NUL characters or unpaired surrogates cannot be stored")
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
