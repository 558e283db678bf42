"""Push notifications as a naive person would write them: lists, full scans, no index, no heap.

Compared with the real ones in `test_model`. What a provider may choose freely, the model takes from the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.push.pace import Values
from penstock.push.ports import Verdict
from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    Notification,
    PushSubscription,
    SubscriptionStatus,
)
from penstock.push.requests import Activation
from penstock.push.settings import PushSettings

ACTIVE, TRIGGERED = SubscriptionStatus.ACTIVE, SubscriptionStatus.TRIGGERED


@dataclass(eq=False)
class ModelNotification:
    record: Notification
    failures: int = 0


@dataclass(eq=False)
class ModelDevice:
    record: Device
    queue: list[ModelNotification] = field(default_factory=list)
    flight: ModelNotification | None = None
    token: str = ""
    not_before: int = 0


@dataclass(eq=False)
class ModelSubscription:
    record: PushSubscription
    # Whether its trigger has not been true so far.
    waits: bool = True
    held: list[Values] = field(default_factory=list)
    next: int = 0

    def rearm(self) -> None:
        self.waits, self.held, self.next = True, [], 0


@dataclass(frozen=True)
class ModelFired:
    subscription: PushSubscription
    values: Values
    millis: int


class Model:
    def __init__(
        self,
        settings: PushSettings,
        is_true: Callable[[str, Values], bool],
        fill: Callable[[str, Values, int], str],
        counts: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.is_true, self.fill, self.counts = is_true, fill, counts
        self.devices: list[ModelDevice] = []
        self.subscriptions: list[ModelSubscription] = []
        self.fired: list[ModelFired] = []
        # Lasting ones in the order in which they were persisted.
        self.lasting: list[str] = []
        self.held = False
        self.tries = 0
        self.probe: str | None = None

    # -- looking --------------------------------------------------------------------------------------------------

    def device(self, id: str) -> ModelDevice | None:
        return next((each for each in self.devices if each.record.id == id), None)

    def by_key(self, key: DeviceKey) -> ModelDevice | None:
        return next((each for each in self.devices if each.record.key == key), None)

    def subscription(self, id: str) -> ModelSubscription | None:
        return next((each for each in self.subscriptions if each.record.id == id), None)

    def of(self, device: str) -> list[ModelSubscription]:
        return [each for each in self.subscriptions if each.record.device == device]

    def serves(self, device: str) -> bool:
        found = self.device(device)
        return found is not None and found.record.status is DeviceStatus.ACTIVE

    # -- requests -------------------------------------------------------------------------------------------------

    def register(self, key: DeviceKey, new_token: str | None, now: int, id: str) -> None:
        named = self.by_key(key)
        token = new_token or key.token
        there = self.by_key(replace(key, token=token))
        if named is None:
            named = there
        elif there is not None and there is not named:
            for subscription in self.of(there.record.id):
                subscription.record = replace(subscription.record, device=named.record.id)
                subscription.rearm()
                # It is the youngest of its new device.
                self.subscriptions.remove(subscription)
                self.subscriptions.append(subscription)
            moved = [there.flight, *there.queue] if there.flight else list(there.queue)
            for each in moved:
                if each.record.lasting and self.subscription(each.record.subscription):
                    self.lasting.remove(each.record.id)
                    self.lasting.append(each.record.id)
                    self.put(named, replace(each.record, device=named.record.id), now)
            self.devices.remove(there)
        if named is None:
            self.devices.append(ModelDevice(Device(id, replace(key, token=token), DeviceStatus.ACTIVE, now, now)))
            return
        back = named.record.status is DeviceStatus.SUSPENDED
        named.record = replace(
            named.record,
            key=replace(key, token=token),
            status=DeviceStatus.ACTIVE,
            status_millis=now if back else named.record.status_millis,
            used_millis=now,
        )
        if back:
            for subscription in self.of(named.record.id):
                subscription.rearm()

    def coalesced(self, device: str, request: Activation) -> ModelSubscription | None:
        for each in self.of(device):
            one, other = each.record.flow, request.flow
            if (one.group, one.mode, each.record.trigger) == (other.group, other.mode, request.trigger):
                return each
        return None

    def save(self, record: PushSubscription) -> None:
        there = self.subscription(record.id)
        if there is None:
            self.subscriptions.append(ModelSubscription(record))
        else:
            there.record = replace(record)
            there.rearm()

    def use(self, device: str, now: int) -> None:
        found = self.device(device)
        assert found is not None
        found.record = replace(found.record, used_millis=now)

    def drop(self, id: str) -> None:
        self.subscriptions = [each for each in self.subscriptions if each.record.id != id]
        for device in self.devices:
            for each in [each for each in device.queue if each.record.subscription == id]:
                device.queue.remove(each)
                self.finish(each)

    def drop_device(self, id: str) -> None:
        for subscription in self.of(id):
            self.drop(subscription.record.id)
        device = self.device(id)
        assert device is not None
        for each in [*device.queue, device.flight]:
            if each is not None:
                self.finish(each)
        self.devices.remove(device)

    def useless(self, now: int) -> list[str]:
        found = []
        for device in self.devices:
            since = device.record.status_millis
            if device.record.status is DeviceStatus.ACTIVE:
                owned = [each.record for each in self.of(device.record.id)]
                if any(each.status is ACTIVE for each in owned):
                    continue
                since = max([device.record.used_millis, *(each.status_millis for each in owned)])
            if now - since >= self.settings.inactivity_millis:
                found.append(device.record.id)
        return found

    # -- updates --------------------------------------------------------------------------------------------------

    def update(self, group: str, values: Values, now: int) -> list[ModelFired]:
        fired = []
        for each in self.subscriptions:
            record = each.record
            if record.flow.group != group or record.status is not ACTIVE or not self.serves(record.device):
                continue
            if record.trigger is not None:
                if each.waits and self.is_true(record.trigger, values):
                    each.waits = False
                    fired.append(ModelFired(record, values, now))
            elif record.max_frequency is None:
                fired.append(ModelFired(record, values, now))
            elif each.held or now < each.next:
                most = min(record.buffer_size or self.settings.max_buffer, self.settings.max_buffer)
                each.held = [*each.held, values][-most:]
            else:
                each.next = now + round(1_000 / record.max_frequency)
                fired.append(ModelFired(record, values, now))
        return fired

    def due(self, now: int) -> list[ModelFired]:
        fired = []
        for each in self.subscriptions:
            if each.held and now >= each.next and each.record.status is ACTIVE and self.serves(each.record.device):
                assert each.record.max_frequency is not None
                each.next = now + round(1_000 / each.record.max_frequency)
                fired.append(ModelFired(each.record, each.held.pop(0), now))
        return fired

    def notify(self, real: list[Notification], now: int) -> None:
        """The real ones have the ids."""
        fired, self.fired = self.fired, []
        # Passing ones are put after all others, because these have to be persisted first.
        later: list[tuple[ModelDevice, Notification]] = []
        for each in fired:
            there = self.subscription(each.subscription.id)
            if there is None or there.record is not each.subscription or not self.serves(there.record.device):
                continue
            device = self.device(there.record.device)
            assert device is not None
            if self.counts(there.record.format):
                device.record = replace(device.record, badge=device.record.badge + 1)
            notification = Notification(
                "",
                device.record.id,
                there.record.id,
                self.fill(there.record.format, each.values, device.record.badge),
                each.millis,
                each.millis + next(iter(self.settings.applications.values())).time_to_live_millis,
                there.record.trigger is not None,
            )
            (same, *_) = [real_one for real_one in real if replace(real_one, id="") == notification]
            real.remove(same)
            notification = same
            if notification.lasting:
                there.record = replace(there.record, status=TRIGGERED, status_millis=each.millis)
                self.lasting.append(notification.id)
                self.put(device, notification, now)
            else:
                later.append((device, notification))
        for device, notification in later:
            self.put(device, notification, now)
        assert real == []

    # -- sending --------------------------------------------------------------------------------------------------

    def put(self, device: ModelDevice, notification: Notification, now: int) -> None:
        new = ModelNotification(notification)
        application = next(iter(self.settings.applications.values()))
        if len(notification.payload.encode()) > application.max_payload:
            self.finish(new)
            return
        device.queue.append(new)
        self.expire(device, now)
        if len(device.queue) > self.settings.queue_per_device:
            passing = [each for each in device.queue if not each.record.lasting]
            if passing:
                device.queue.remove(passing[0])

    def finish(self, notification: ModelNotification) -> None:
        if notification.record.lasting:
            self.lasting.remove(notification.record.id)

    def expire(self, device: ModelDevice, now: int) -> None:
        for each in [each for each in device.queue if each.record.expires_millis <= now]:
            device.queue.remove(each)
            self.finish(each)

    def ready(self, now: int) -> list[ModelDevice]:
        """Devices that a notification could be sent to, if credentials are good."""
        for device in self.devices:
            self.expire(device, now)
        return [
            each
            for each in self.devices
            if each.queue and each.flight is None and each.not_before <= now and self.serves(each.record.id)
        ]

    def send(self, device: ModelDevice, now: int) -> Notification:
        device.flight = device.queue.pop(0)
        device.token = device.record.key.token
        application = next(iter(self.settings.applications.values()))
        device.not_before = now + application.min_send_delay_millis
        if self.held:
            self.probe = device.flight.record.id
        return device.flight.record

    def answer(self, notification: Notification, verdict: Verdict, now: int) -> None:
        device = self.device(notification.device)
        if device is None or device.flight is None or device.flight.record.id != notification.id:
            if self.probe == notification.id:
                self.probe = None
            return
        flight, device.flight = device.flight, None
        wanted = self.subscription(flight.record.subscription) is not None
        match verdict:
            case Verdict.ACCEPTED | Verdict.REFUSED:
                self.finish(flight)
            case Verdict.RETRY:
                wait = min(self.settings.first_retry_millis * 2**flight.failures, self.settings.longest_retry_millis)
                device.not_before = max(device.not_before, now + wait)
                flight.failures += 1
                if wanted and device.not_before < flight.record.expires_millis:
                    device.queue.insert(0, flight)
                else:
                    self.finish(flight)
            case Verdict.GONE if device.token == device.record.key.token:
                if wanted and flight.record.lasting:
                    device.queue.insert(0, flight)
                else:
                    self.finish(flight)
                device.queue = [each for each in device.queue if each.record.lasting]
                device.record = replace(device.record, status=DeviceStatus.SUSPENDED, status_millis=now)
                for subscription in self.of(device.record.id):
                    subscription.rearm()
            case Verdict.GONE | Verdict.CREDENTIALS:
                if wanted:
                    device.queue.insert(0, flight)
                else:
                    self.finish(flight)
                if verdict is Verdict.CREDENTIALS:
                    self.held, self.tries = True, now + self.settings.credentials_retry_millis
        if verdict in (Verdict.ACCEPTED, Verdict.REFUSED, Verdict.GONE):
            self.held, self.probe = False, None
        elif self.probe == notification.id:
            self.probe = None

    def restart(self) -> None:
        """What was not persisted is forgotten."""
        self.fired, self.held, self.probe = [], False, None
        for device in self.devices:
            every = [device.flight, *device.queue] if device.flight else device.queue
            kept = [
                ModelNotification(each.record)
                for each in every
                if each.record.lasting and self.subscription(each.record.subscription)
            ]
            device.queue = sorted(kept, key=lambda each: self.lasting.index(each.record.id))
            device.flight, device.not_before = None, 0
        for subscription in self.subscriptions:
            subscription.rearm()
