"""What tests of push notifications begin with: an application of each kind, ids that count, a device, a flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

from penstock.push.records import Device, DeviceKey, Flow, Platform, PushSubscription
from penstock.push.registry import DeviceRegistry, PushDecision
from penstock.push.requests import Activation
from penstock.push.settings import ApplicationSettings, PushSettings

T = TypeVar("T")

APP = "com.mydomain.myapp"
KEY = DeviceKey(Platform.APPLE, APP, "token-1")
SETTINGS = PushSettings(
    applications={(Platform.APPLE, APP): ApplicationSettings(), (Platform.GOOGLE, APP): ApplicationSettings()}
)
FLOW = Flow("DEMO", "QUOTES", "item1", "name last", "MERGE", ("item1",), ("name", "last"))
FORMAT = '{"aps":{"alert":"$[1] is $[2]"}}'
TRIGGER = "Double.parseDouble($[2]) > 17.0"


def counted(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


def registry(settings: PushSettings = SETTINGS) -> DeviceRegistry:
    return DeviceRegistry(settings, counted("id-"))


def carry_out(registry: DeviceRegistry, decision: PushDecision[T]) -> T:
    registry.apply(decision.changes)
    return decision.result


def registered(registry: DeviceRegistry, token: str = KEY.token, now: int = 1_000) -> Device:
    return carry_out(registry, registry.register(replace(KEY, token=token), None, now))


def activation(
    flow: Flow = FLOW,
    format: str = FORMAT,
    trigger: str | None = None,
    buffer_size: int | None = None,
    max_frequency: float | None = None,
    subscription: str | None = None,
    coalescing: bool = False,
) -> Activation:
    return Activation(flow, format, trigger, buffer_size, max_frequency, subscription, coalescing)


def activated(registry: DeviceRegistry, device: Device, request: Activation, now: int = 1_000) -> PushSubscription:
    return carry_out(registry, registry.activate(device.id, request, now))
