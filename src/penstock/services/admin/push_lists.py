"""Devices and push subscriptions, as administrators see them: in parts, as other lists, and without tokens.

What they are is in `penstock.push`. Read next: docs/push.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.providers.ports import KeyedProvider
from penstock.push.records import Device, Platform, PushSubscription
from penstock.services.admin.lists import LOOKED_AT_PER_TURN, ListPart
from penstock.services.admin.models import (
    PushApplicationInfo,
    PushDeviceInfo,
    PushDeviceList,
    PushSubscriptionInfo,
    PushSubscriptionList,
)

if TYPE_CHECKING:
    from penstock.services.push.engine import PushEngine

# What is sent to a device if nobody says what.
TEST_PAYLOADS = {
    Platform.APPLE: '{"aps":{"alert":"A test from Penstock"}}',
    Platform.GOOGLE: '{"notification":{"body":"A test from Penstock"}}',
    Platform.WEB: '{"body":"A test from Penstock"}',
}


def applications(engine: PushEngine) -> list[PushApplicationInfo]:
    held = engine.memory.sender.held
    return [
        PushApplicationInfo(
            platform=key[0].value,
            application=key[1],
            held_back=held.get(key),
            public_key=provider.public_key if isinstance(provider, KeyedProvider) else None,
        )
        for key, provider in engine.flights.providers.items()
    ]


async def devices(part: ListPart, engine: PushEngine, application: str | None, status: str | None) -> PushDeviceList:
    registry = engine.memory.registry

    def fits(id: str) -> bool:
        device = registry.device(id)
        return (
            device is not None
            and (application is None or device.key.application == application)
            and (status is None or device.status.value == status)
        )

    total, found = await part.of(registry.device_ids(), fits, registry.device)
    return PushDeviceList(total=total, devices=[_device(engine, each) for each in found if each is not None])


def _device(engine: PushEngine, device: Device) -> PushDeviceInfo:
    return PushDeviceInfo(
        device=device.id,
        platform=device.key.platform.value,
        application=device.key.application,
        status=device.status.value,
        status_ms=device.status_millis,
        used_ms=device.used_millis,
        badge=device.badge,
        subscriptions=len(engine.memory.registry.subscriptions(device.id)),
        waiting=len(engine.memory.sender.waiting(device.id)),
    )


async def subscriptions(part: ListPart, engine: PushEngine, device: str | None) -> PushSubscriptionList:
    registry = engine.memory.registry
    ids = registry.device_ids() if device is None else [device]
    total = 0
    found: list[PushSubscriptionInfo] = []
    for start in range(0, len(ids), LOOKED_AT_PER_TURN):
        for each in _of_devices(engine, ids[start : start + LOOKED_AT_PER_TURN]):
            if part.offset <= total < part.offset + part.limit:
                found.append(_subscription(each))
            total += 1
        await asyncio.sleep(0)
    return PushSubscriptionList(total=total, subscriptions=found)


def _of_devices(engine: PushEngine, ids: list[str]) -> Iterator[PushSubscription]:
    for id in ids:
        yield from engine.memory.registry.subscriptions(id)


def _subscription(subscription: PushSubscription) -> PushSubscriptionInfo:
    flow = subscription.flow
    return PushSubscriptionInfo(
        subscription=subscription.id,
        device=subscription.device,
        status=subscription.status.value,
        status_ms=subscription.status_millis,
        adapter_set=flow.adapter_set,
        data_adapter=flow.data_adapter,
        group=flow.group,
        schema=flow.schema,
        mode=flow.mode,
        format=subscription.format,
        trigger=subscription.trigger,
        buffer_size=subscription.buffer_size,
        max_per_second=subscription.max_frequency,
    )
