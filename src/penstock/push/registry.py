"""Devices and their subscriptions in memory, and what becomes of them when clients ask.

Every operation is a decision: it changes nothing, and says which changes are to be persisted in one transaction and
then applied. Between a decision and `apply` no other decision may be made about the same device (nor about the same
token, for `register`): callers see to that. What fires is in `flows`, what is sent in `sending`; formats and triggers
have been checked before they come here. Specification: General Concepts 5.3 and 5.4, TLCP "MPN Control Requests".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    DropDevice,
    DropSubscription,
    Flow,
    Notification,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
    SubscriptionStatus,
)
from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.requests import Activation, Keep, Reconfiguration
from penstock.push.settings import PushSettings
from penstock.push.shared import Shared

MODES = ("MERGE", "DISTINCT")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PushDecision(Generic[T]):
    """What to persist, then apply; and what the one who asked is told once that is done."""

    changes: tuple[PushChange, ...]
    result: T


def no_notifications(device: str) -> tuple[Notification, ...]:
    """For a device that nothing waits for."""
    return ()


class DeviceRegistry:
    """The devices that this node serves, with their subscriptions."""

    __slots__ = (
        "_applications",
        "_by_key",
        "_devices",
        "_flows",
        "_formats",
        "_new_id",
        "_of_device",
        "_subscriptions",
        "settings",
    )

    def __init__(self, settings: PushSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._new_id = new_id
        self._devices: dict[str, Device] = {}
        self._by_key: dict[DeviceKey, str] = {}
        self._subscriptions: dict[str, PushSubscription] = {}
        # Ids of a device's subscriptions, oldest first; devices without any are left out.
        self._of_device: dict[str, tuple[str, ...]] = {}
        self._applications: Shared[str] = Shared()
        self._formats: Shared[str] = Shared()
        self._flows: Shared[Flow] = Shared()

    # -- what there is --------------------------------------------------------------------------------------------

    @property
    def device_count(self) -> int:
        return len(self._devices)

    @property
    def subscription_count(self) -> int:
        return len(self._subscriptions)

    def device_ids(self) -> list[str]:
        return list(self._devices)

    def device(self, id: str) -> Device | None:
        return self._devices.get(id)

    def find(self, key: DeviceKey) -> Device | None:
        id = self._by_key.get(key)
        return None if id is None else self._devices[id]

    def subscription(self, id: str) -> PushSubscription | None:
        return self._subscriptions.get(id)

    def subscriptions(self, device: str) -> tuple[PushSubscription, ...]:
        """Those of a device, oldest first."""
        return tuple(self._subscriptions[id] for id in self._of_device.get(device, ()))

    def known_device(self, id: str) -> Device:
        """Raises PushRefusal if there is none."""
        device = self._devices.get(id)
        if device is None:
            raise PushRefusal(PushReason.DEVICE, f"there is no device {id!r}; it has to be registered")
        return device

    def own_subscription(self, device: str, id: str) -> PushSubscription:
        """A subscription of this device; raises PushRefusal if it has none with this id."""
        self.known_device(device)
        subscription = self._subscriptions.get(id)
        if subscription is None or subscription.device != device:
            raise PushRefusal(PushReason.SUBSCRIPTION, f"the device has no subscription {id!r}")
        return subscription

    def serves(self, device: str) -> bool:
        """Whether notifications of this device are made and sent: it is active, and its application configured."""
        found = self._devices.get(device)
        return (
            found is not None
            and found.status is DeviceStatus.ACTIVE
            and self.settings.application(found.key) is not None
        )

    # -- devices --------------------------------------------------------------------------------------------------

    def register(
        self,
        key: DeviceKey,
        new_token: str | None,
        now: int,
        waiting: Callable[[str], Iterable[Notification]] = no_notifications,
    ) -> PushDecision[Device]:
        """A device, new or known, by its token; with a new token it keeps its id and subscriptions.

        If another device has the new token already, both are the same device in truth: they become one, with the id
        that the client named and the subscriptions of both. `waiting` says which lasting notifications of a device
        have not been sent; they move as well.
        """
        self._check_key(key)
        device = self.find(key)
        if new_token is None or new_token == key.token:
            return self._registered(device, key, now)
        new_key = replace(key, token=new_token)
        self._check_key(new_key)
        other = self.find(new_key)
        if device is None:
            # The change has been made already, and the client has not heard of it; or nobody knows the old token.
            return self._registered(other, new_key, now)
        if other is None:
            return self._registered(device, new_key, now)
        # The order counts: what has moved is not dropped with the other device, and a token belongs to one device.
        saved = self._registered(device, new_key, now)
        moved = [SaveSubscription(replace(each, device=device.id)) for each in self.subscriptions(other.id)]
        kept = [
            SaveNotification(replace(each, device=device.id))
            for each in waiting(other.id)
            if each.lasting and each.subscription in self._subscriptions
        ]
        return PushDecision((*moved, DropDevice(other.id), *saved.changes, *kept), saved.result)

    def _check_key(self, key: DeviceKey) -> None:
        check_length("application", key.application, self.settings.max_name_length)
        if self.settings.application(key) is None:
            raise PushRefusal(
                PushReason.APPLICATION, f"there is no application {key.application!r} of {key.platform.value} here"
            )
        if not key.token:
            raise PushRefusal(PushReason.TOKEN, "the device's token is empty; expected the one issued by its platform")
        check_length("device's token", key.token, self.settings.max_token_length)

    def _registered(self, device: Device | None, key: DeviceKey, now: int) -> PushDecision[Device]:
        if device is None:
            most = self.settings.max_devices
            if len(self._devices) >= most:
                raise PushRefusal(PushReason.UNAVAILABLE, f"no more than {most} devices can be registered")
            device = Device(self._new_id(), key, DeviceStatus.ACTIVE, now, now)
        else:
            changed = now if device.status is not DeviceStatus.ACTIVE else device.status_millis
            device = replace(
                device,
                key=key,
                status=DeviceStatus.ACTIVE,
                status_millis=changed,
                used_millis=max(now, device.used_millis),
            )
        return PushDecision((SaveDevice(device),), device)

    def reset_badge(self, device_id: str, now: int) -> PushDecision[Device]:
        device = replace(self._used(self.known_device(device_id), now), badge=0)
        return PushDecision((SaveDevice(device),), device)

    def suspend(self, device_id: str, token: str, now: int) -> PushDecision[Device | None]:
        """The platform says that there is no device with this token; nothing happens if it has another one by now."""
        device = self._devices.get(device_id)
        if device is None or device.key.token != token or device.status is DeviceStatus.SUSPENDED:
            return PushDecision((), device)
        device = replace(device, status=DeviceStatus.SUSPENDED, status_millis=now)
        return PushDecision((SaveDevice(device),), device)

    def collect(
        self, now: int, in_use: Container[str] = (), among: Iterable[str] | None = None
    ) -> PushDecision[tuple[str, ...]]:
        """Delete devices that have been suspended, or without active subscriptions, for too long.

        Those `in_use` by a session stay. `among` is for callers that look at a million devices in several steps.
        """
        latest = now - self.settings.inactivity_millis
        gone = [
            id
            for id in (self._devices if among is None else among)
            if id in self._devices and self._useless_since(id, now) <= latest and id not in in_use
        ]
        return PushDecision(tuple(DropDevice(id) for id in gone), tuple(gone))

    def _useless_since(self, device_id: str, now: int) -> int:
        """Now, if it is not useless."""
        device = self._devices[device_id]
        if device.status is DeviceStatus.SUSPENDED:
            return device.status_millis
        since = device.used_millis
        for id in self._of_device.get(device_id, ()):
            subscription = self._subscriptions[id]
            if subscription.status is SubscriptionStatus.ACTIVE:
                return now
            since = max(since, subscription.status_millis)
        return since

    # -- subscriptions --------------------------------------------------------------------------------------------

    def activate(self, device_id: str, request: Activation, now: int) -> PushDecision[PushSubscription]:
        """A new subscription; or a change of the one that is named, or that has the same base parameters.

        A change replaces all parameters, and one that has triggered becomes active again.
        """
        device = self._ready_device(device_id)
        self._check_activation(request)
        existing: PushSubscription | None = None
        if request.subscription is not None:
            if request.coalescing:
                raise PushRefusal(
                    PushReason.CONFLICT,
                    "coalescing is for new subscriptions; it cannot be asked for together with a subscription's id",
                )
            existing = self.own_subscription(device_id, request.subscription)
        elif request.coalescing:
            wanted = base_parameters(request.flow, request.trigger)
            for each in self.subscriptions(device_id):
                if base_parameters(each.flow, each.trigger) == wanted:
                    existing = each
                    break
        if existing is None:
            most = self.settings.max_subscriptions_per_device
            if len(self._of_device.get(device_id, ())) >= most:
                raise PushRefusal(PushReason.UNAVAILABLE, f"a device can have no more than {most} subscriptions")
        subscription = PushSubscription(
            self._new_id() if existing is None else existing.id,
            device.id,
            request.flow,
            request.format,
            request.trigger,
            request.buffer_size,
            request.max_frequency,
            SubscriptionStatus.ACTIVE,
            now if existing is None else _active_since(existing, now),
        )
        return PushDecision((SaveDevice(self._used(device, now)), SaveSubscription(subscription)), subscription)

    def reconfigure(self, device_id: str, request: Reconfiguration, now: int) -> PushDecision[PushSubscription]:
        """Other notification parameters for the same flow; one that has triggered becomes active again, always."""
        device = self._ready_device(device_id)
        existing = self.own_subscription(device_id, request.subscription)
        flow = existing.flow
        for name, has, asked in (
            ("adapter set", flow.adapter_set, request.adapter_set),
            ("data adapter", flow.data_adapter, request.data_adapter),
            ("group", flow.group, request.group),
            ("schema", flow.schema, request.schema),
            ("mode", flow.mode, request.mode),
        ):
            if has != asked:
                raise PushRefusal(PushReason.MISMATCH, f"the {name} of the subscription is {has!r}, not {asked!r}")
        if request.format is not None:
            check_length("format", request.format, self.settings.max_format_length)
        if request.trigger is not None:
            check_length("trigger", request.trigger, self.settings.max_trigger_length)
        subscription = replace(
            existing,
            format=existing.format if request.format is None else request.format,
            trigger=existing.trigger if request.trigger is None else request.trigger or None,
            max_frequency=existing.max_frequency if request.max_frequency is Keep.KEEP else request.max_frequency,
            status=SubscriptionStatus.ACTIVE,
            status_millis=_active_since(existing, now),
        )
        return PushDecision((SaveDevice(self._used(device, now)), SaveSubscription(subscription)), subscription)

    def deactivate(
        self, device_id: str, subscription_id: str | None, status: SubscriptionStatus | None, now: int
    ) -> PushDecision[tuple[str, ...]]:
        """Delete one subscription, or those with a status, or all; the result are their ids."""
        device = self.known_device(device_id)
        if subscription_id is not None and status is not None:
            raise PushRefusal(
                PushReason.CONFLICT, "a subscription's id and a status cannot be asked for together; leave one out"
            )
        if subscription_id is not None:
            ids: tuple[str, ...] = (self.own_subscription(device_id, subscription_id).id,)
        else:
            ids = tuple(each.id for each in self.subscriptions(device_id) if status in (None, each.status))
        return PushDecision((SaveDevice(self._used(device, now)), *(DropSubscription(id) for id in ids)), ids)

    def _ready_device(self, id: str) -> Device:
        device = self.known_device(id)
        if device.status is DeviceStatus.SUSPENDED:
            raise PushRefusal(PushReason.SUSPENDED, f"the device {id} is suspended until it is registered again")
        return device

    def _used(self, device: Device, now: int) -> Device:
        return replace(device, used_millis=max(now, device.used_millis))

    def _check_activation(self, request: Activation) -> None:
        flow = request.flow
        check_mode(flow.mode)
        if not flow.items or not flow.fields:
            lacking = "fields" if flow.items else "items"
            raise PushRefusal(PushReason.EMPTY, f"the subscription has no {lacking}; there must be at least one")
        for name, value in (("data adapter", flow.data_adapter), ("group", flow.group), ("schema", flow.schema)):
            check_length(name, value, self.settings.max_name_length)
        check_length("format", request.format, self.settings.max_format_length)
        check_length("trigger", request.trigger or "", self.settings.max_trigger_length)

    # -- changes --------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[PushChange]) -> None:
        """Make changes that have been persisted, or that were read from where they are; in their order.

        Notifications are not kept here.
        """
        for change in changes:
            match change:
                case SaveDevice(device):
                    self._save_device(device)
                case SaveSubscription(subscription):
                    self._save_subscription(subscription)
                case DropSubscription(id):
                    self._drop_subscription(id)
                case DropDevice(id):
                    self._drop_device(id)

    def _save_device(self, device: Device) -> None:
        before = self._devices.get(device.id)
        application = self._applications.take(device.key.application)
        if before is not None:
            self._applications.release(before.key.application)
            if before.key == device.key:
                device = replace(device, id=before.id, key=before.key)
            elif self._by_key.get(before.key) == device.id:
                del self._by_key[before.key]
        if device.key.application is not application:
            device = replace(device, key=replace(device.key, application=application))
        self._devices[device.id] = device
        self._by_key[device.key] = device.id

    def _drop_device(self, id: str) -> None:
        device = self._devices.pop(id, None)
        if device is None:
            return
        for subscription in self._of_device.get(id, ()):
            self._drop_subscription(subscription)
        self._applications.release(device.key.application)
        if self._by_key.get(device.key) == id:
            del self._by_key[device.key]

    def _save_subscription(self, subscription: PushSubscription) -> None:
        device = self._devices.get(subscription.device)
        if device is None:
            # Another node has taken the device meanwhile, with all that it has.
            return
        id = subscription.id
        before = self._subscriptions.get(id)
        format, flow = self._formats.take(subscription.format), self._flows.take(subscription.flow)
        if before is not None:
            id = before.id
            self._release(before)
            if before.device != subscription.device:
                self._leave(before)
                before = None
        owner = device.id
        self._subscriptions[id] = replace(subscription, id=id, device=owner, format=format, flow=flow)
        if before is None:
            self._of_device[owner] = (*self._of_device.get(owner, ()), id)

    def _drop_subscription(self, id: str) -> None:
        subscription = self._subscriptions.pop(id, None)
        if subscription is not None:
            self._release(subscription)
            self._leave(subscription)

    def _leave(self, subscription: PushSubscription) -> None:
        left = tuple(id for id in self._of_device[subscription.device] if id != subscription.id)
        if left:
            self._of_device[subscription.device] = left
        else:
            del self._of_device[subscription.device]

    def _release(self, subscription: PushSubscription) -> None:
        self._formats.release(subscription.format)
        self._flows.release(subscription.flow)


def check_mode(mode: str) -> None:
    """Raise PushRefusal for one that push notifications do not have."""
    if mode not in MODES:
        raise PushRefusal(PushReason.MODE, f"the mode {mode!r} is not allowed; it must be {' or '.join(MODES)}")


def check_length(name: str, value: str, most: int) -> None:
    """Raise PushRefusal for a text that is too long."""
    if len(value) > most:
        raise PushRefusal(PushReason.TOO_LONG, f"the {name} has {len(value)} characters; {most} are allowed")


def base_parameters(flow: Flow, trigger: str | None) -> tuple[str | None, ...]:
    """What makes two subscriptions of a device the same one, for clients that ask for coalescing."""
    return (flow.adapter_set, flow.data_adapter, flow.group, flow.schema, flow.mode, trigger)


def _active_since(subscription: PushSubscription, now: int) -> int:
    return subscription.status_millis if subscription.status is SubscriptionStatus.ACTIVE else now
