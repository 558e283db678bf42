"""What is kept of devices, subscriptions and notifications under way, and the changes that a decision makes to it.

Records never change: a decision replaces them. A list of changes is persisted in one transaction, then applied. Who
decides is in `registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Platform(StrEnum):
    """Whose devices: the values are those of the TLCP parameter. `WEB` is ours: browsers, without any vendor."""

    APPLE = "Apple"
    GOOGLE = "Google"
    WEB = "Web"


class DeviceStatus(StrEnum):
    ACTIVE = "ACTIVE"
    # Nothing is sent to it, and it takes no subscriptions, until it is registered again.
    SUSPENDED = "SUSPENDED"


class SubscriptionStatus(StrEnum):
    ACTIVE = "ACTIVE"
    # Its trigger was true once; nothing more is sent until it is changed.
    TRIGGERED = "TRIGGERED"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What makes a device one: an application on a device, by the token that the platform gave it."""

    platform: Platform
    application: str
    token: str


@dataclass(frozen=True, slots=True)
class Device:
    id: str
    key: DeviceKey
    status: DeviceStatus
    # When its status changed, and when a client used it last.
    status_millis: int
    used_millis: int
    # Notifications counted since the last reset, for formats with the badge `AUTO`.
    badge: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """What a subscription follows. Those with the same flow share one watch of the kernel.

    Items and fields are those that the metadata adapter granted when it was activated; they hold after a restart too,
    when there is no session to ask for.
    """

    adapter_set: str
    data_adapter: str
    group: str
    schema: str
    mode: str
    items: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PushSubscription:
    id: str
    device: str
    flow: Flow
    # JSON and a trigger expression whose arguments are indexed (`$[1]`) only.
    format: str
    trigger: str | None
    # None: unlimited.
    buffer_size: int | None
    max_frequency: float | None
    status: SubscriptionStatus
    status_millis: int


@dataclass(frozen=True, slots=True)
class Notification:
    """One on its way to a device. Those of a trigger are persisted together with the state TRIGGERED."""

    id: str
    device: str
    subscription: str
    # JSON with all arguments filled in, for the provider.
    payload: str
    created_millis: int
    # It is given up at this time.
    expires_millis: int
    # Whether it must not be lost.
    lasting: bool


# -- changes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveDevice:
    device: Device


@dataclass(frozen=True, slots=True)
class DropDevice:
    """With its subscriptions and notifications."""

    id: str


@dataclass(frozen=True, slots=True)
class SaveSubscription:
    subscription: PushSubscription


@dataclass(frozen=True, slots=True)
class DropSubscription:
    id: str


@dataclass(frozen=True, slots=True)
class SaveNotification:
    notification: Notification


@dataclass(frozen=True, slots=True)
class DropNotification:
    id: str


PushChange: TypeAlias = (
    SaveDevice | DropDevice | SaveSubscription | DropSubscription | SaveNotification | DropNotification
)
