"""Devices, subscriptions, triggers, restarts and failing providers in any order, compared with a naive model.

The disk is a set of dictionaries. A restart forgets everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.push.flows import Fired, FlowBook
from penstock.push.pace import Values
from penstock.push.ports import Handover, Verdict
from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    DropDevice,
    DropNotification,
    DropSubscription,
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
from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.registry import DeviceRegistry
from penstock.push.requests import Activation, Keep, Reconfiguration
from penstock.push.sending import Outcome, Sender
from penstock.push.settings import ApplicationSettings, PushSettings
from tests.push.model import Model, ModelFired
from tests.support.effort import tries

APP = (Platform.WEB, "site")
SETTINGS = PushSettings(
    applications={APP: ApplicationSettings(max_payload=60, min_send_delay_millis=2, time_to_live_millis=15)},
    max_devices=3,
    max_subscriptions_per_device=4,
    inactivity_millis=25,
    max_buffer=3,
    queue_per_device=2,
    # So short that they are not spread.
    first_retry_millis=1,
    longest_retry_millis=3,
    credentials_retry_millis=5,
)
FLOWS = {
    group: Flow("SET", "ADAPTER", group, "name value", mode, (group,), ("name", "value"))
    for group, mode in (("one", "MERGE"), ("two", "DISTINCT"))
}
PLAIN, BADGE = '{"text":"$[1] $[2]"}', '{"aps":{"alert":"$[2]","badge":"AUTO"}}'
ABOVE, BELOW, NAMED = "Double.parseDouble($[2]) > 5.0", "Double.parseDouble($[2]) <= 2.0", '$[1].equals("b")'

TOKENS = st.sampled_from(["t1", "t2", "t3", "t4"])
TRIGGERS = st.sampled_from([ABOVE, BELOW, NAMED, None])
FORMATS = st.sampled_from([PLAIN, BADGE])
FREQUENCIES = st.sampled_from([None, None, 500.0, 200.0])
VERDICTS = st.sampled_from([Verdict.ACCEPTED, Verdict.ACCEPTED, *Verdict])
VALUES = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([*(str(n) for n in range(1, 10)), "x", None, "y" * 60])
)


def is_true(trigger: str, values: Values) -> bool:
    name, value = values
    if trigger == NAMED:
        return name == "b"
    if value is None or not value.isdigit():
        return False
    return int(value) > 5 if trigger == ABOVE else int(value) <= 2


def fill(format: str, values: Values, badge: int) -> str:
    name, value = (each or "" for each in values)
    return f'{{"text":"{name} {value}"}}' if format == PLAIN else f'{{"aps":{{"alert":"{value}","badge":{badge}}}}}'


def reason_of(act: Callable[[], object]) -> PushReason:
    with pytest.raises(PushRefusal) as caught:
        act()
    return caught.value.reason


@dataclass
class Disk:
    """What is persisted."""

    devices: dict[str, Device] = field(default_factory=dict)
    subscriptions: dict[str, PushSubscription] = field(default_factory=dict)
    notifications: dict[str, Notification] = field(default_factory=dict)

    def write(self, changes: tuple[PushChange, ...]) -> None:
        for change in changes:
            match change:
                case SaveDevice(device):
                    self.devices[device.id] = device
                case SaveSubscription(subscription):
                    assert subscription.device in self.devices
                    self.subscriptions[subscription.id] = subscription
                case SaveNotification(notification):
                    assert notification.device in self.devices
                    assert notification.subscription in self.subscriptions
                    assert notification.lasting
                    self.notifications[notification.id] = notification
                case DropNotification(id):
                    self.notifications.pop(id, None)
                case DropSubscription(id):
                    del self.subscriptions[id]
                case DropDevice(id):
                    self.subscriptions = {key: each for key, each in self.subscriptions.items() if each.device != id}
                    self.notifications = {key: each for key, each in self.notifications.items() if each.device != id}
                    del self.devices[id]
        assert len({each.key for each in self.devices.values()}) == len(self.devices)

    def all(self) -> tuple[PushChange, ...]:
        return (
            *map(SaveDevice, self.devices.values()),
            *map(SaveSubscription, self.subscriptions.values()),
            *map(SaveNotification, self.notifications.values()),
        )


class PushMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = count(1)
        self.now = 1_000
        self.disk = Disk()
        self.model = Model(SETTINGS, is_true, fill, lambda format: format == BADGE)
        self.start()

    def new_id(self) -> str:
        return f"id{next(self.numbers)}"

    def start(self) -> None:
        self.registry = DeviceRegistry(SETTINGS, self.new_id)
        self.book = FlowBook(self.registry, self.new_id)
        self.sender = Sender(self.registry)
        self.fired: list[Fired] = []
        self.flying: list[Notification] = []
        # What is watched, as the changes have said.
        self.watched: set[Flow] = set()
        self.apply(self.disk.all())

    def apply(self, changes: tuple[PushChange, ...]) -> None:
        applied = self.book.apply(changes)
        assert applied.unusable == ()
        assert self.watched.isdisjoint(applied.begun)
        assert self.watched.issuperset(applied.ended)
        self.watched = self.watched.union(applied.begun).difference(applied.ended)
        self.settle(self.sender.apply(changes, self.now))

    def persist(self, changes: tuple[PushChange, ...]) -> None:
        self.disk.write(changes)
        self.apply(changes)

    def settle(self, outcome: Outcome) -> None:
        self.disk.write(outcome.changes)
        if outcome.gone is not None:
            self.persist(self.registry.suspend(outcome.gone.device, outcome.gone.token, self.now).changes)

    def devices(self) -> list[str]:
        return [each.record.id for each in self.model.devices]

    # -- requests -------------------------------------------------------------------------------------------------

    @initialize(triggers=st.lists(TRIGGERS, min_size=2, max_size=5), format=FORMATS)
    def begin(self, triggers: list[str | None], format: str) -> None:
        """Two devices with subscriptions, because nothing happens without them."""
        for token in ("t1", "t2"):
            self.register(token, None)
        for number, trigger in enumerate(triggers):
            request = Activation(FLOWS["one"], format, trigger)
            self.activated(self.devices()[number % 2], request, None)

    @rule(token=TOKENS, new_token=st.none() | TOKENS)
    def register(self, token: str, new_token: str | None) -> None:
        key = DeviceKey(*APP, token)
        known = self.model.by_key(key) or self.model.by_key(replace(key, token=new_token or token))
        if known is None and len(self.model.devices) == SETTINGS.max_devices:
            assert reason_of(lambda: self.registry.register(key, new_token, self.now)) is PushReason.UNAVAILABLE
            return
        decision = self.registry.register(key, new_token, self.now, self.sender.waiting)
        self.persist(decision.changes)
        self.model.register(key, new_token, self.now, decision.result.id)

    @precondition(lambda self: self.model.devices)
    @rule(
        data=st.data(),
        group=st.sampled_from(list(FLOWS)),
        trigger=TRIGGERS,
        format=FORMATS,
        frequency=FREQUENCIES,
        buffer=st.sampled_from([None, 1, 2, 9]),
        coalescing=st.booleans(),
    )
    def activate(
        self,
        data: st.DataObject,
        group: str,
        trigger: str | None,
        format: str,
        frequency: float | None,
        buffer: int | None,
        coalescing: bool,
    ) -> None:
        device = data.draw(st.sampled_from(self.devices()))
        every = [None, *(each.record.id for each in self.model.subscriptions)]
        named = data.draw(st.sampled_from(every))
        request = Activation(FLOWS[group], format, trigger, buffer, frequency, named, coalescing)
        existing = self.model.subscription(named) if named else None
        if existing is None and coalescing:
            existing = self.model.coalesced(device, request)
        reason: PushReason | None = None
        if not self.model.serves(device):
            reason = PushReason.SUSPENDED
        elif named and coalescing:
            reason = PushReason.CONFLICT
        elif existing is not None and existing.record.device != device:
            reason = PushReason.SUBSCRIPTION
        elif existing is None and len(self.model.of(device)) >= SETTINGS.max_subscriptions_per_device:
            reason = PushReason.UNAVAILABLE
        if reason is not None:
            assert reason_of(lambda: self.registry.activate(device, request, self.now)) is reason
            return
        self.activated(device, request, None if existing is None else existing.record)

    def activated(self, device: str, request: Activation, existing: PushSubscription | None) -> None:
        decision = self.registry.activate(device, request, self.now)
        self.persist(decision.changes)
        assert existing is None or decision.result.id == existing.id
        since = existing.status_millis if existing and existing.status is SubscriptionStatus.ACTIVE else self.now
        expected = PushSubscription(
            decision.result.id,
            device,
            request.flow,
            request.format,
            request.trigger,
            request.buffer_size,
            request.max_frequency,
            SubscriptionStatus.ACTIVE,
            since,
        )
        self.model.save(expected)
        self.model.use(device, self.now)

    @precondition(lambda self: self.model.subscriptions)
    @rule(
        data=st.data(),
        trigger=TRIGGERS | st.just(""),
        format=st.none() | FORMATS,
        frequency=FREQUENCIES | st.just(Keep.KEEP),
    )
    def reconfigure(
        self, data: st.DataObject, trigger: str | None, format: str | None, frequency: float | Keep | None
    ) -> None:
        subscription = data.draw(st.sampled_from(self.model.subscriptions))
        old = subscription.record
        flow = old.flow
        request = Reconfiguration(
            old.id, flow.adapter_set, flow.data_adapter, flow.group, flow.schema, flow.mode, format, trigger, frequency
        )
        if not self.model.serves(old.device):
            refused = reason_of(lambda: self.registry.reconfigure(old.device, request, self.now))
            assert refused is PushReason.SUSPENDED
            return
        decision = self.registry.reconfigure(old.device, request, self.now)
        self.persist(decision.changes)
        self.model.save(
            replace(
                old,
                trigger=old.trigger if trigger is None else trigger or None,
                format=format or old.format,
                max_frequency=old.max_frequency if isinstance(frequency, Keep) else frequency,
                status=SubscriptionStatus.ACTIVE,
                status_millis=old.status_millis if old.status is SubscriptionStatus.ACTIVE else self.now,
            )
        )
        self.model.use(old.device, self.now)

    @precondition(lambda self: self.model.devices)
    @rule(data=st.data(), status=st.none() | st.sampled_from(SubscriptionStatus), one=st.booleans())
    def deactivate(self, data: st.DataObject, status: SubscriptionStatus | None, one: bool) -> None:
        device = data.draw(st.sampled_from(self.devices()))
        owned = [each.record for each in self.model.of(device)]
        if one and owned:
            ids: tuple[str, ...] = (data.draw(st.sampled_from(owned)).id,)
            decision = self.registry.deactivate(device, ids[0], None, self.now)
        else:
            ids = tuple(each.id for each in owned if status in (None, each.status))
            decision = self.registry.deactivate(device, None, status, self.now)
        assert decision.result == ids
        self.persist(decision.changes)
        for id in ids:
            self.model.drop(id)
        self.model.use(device, self.now)

    @precondition(lambda self: self.model.devices)
    @rule(data=st.data())
    def reset_badge(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.devices()))
        self.persist(self.registry.reset_badge(id, self.now).changes)
        device = self.model.device(id)
        assert device is not None
        device.record = replace(device.record, badge=0, used_millis=self.now)

    @rule()
    def collect(self) -> None:
        decision = self.registry.collect(self.now)
        assert sorted(decision.result) == sorted(self.model.useless(self.now))
        self.persist(decision.changes)
        for id in decision.result:
            self.model.drop_device(id)

    # -- updates --------------------------------------------------------------------------------------------------

    @rule(group=st.sampled_from(list(FLOWS)), values=VALUES)
    def update(self, group: str, values: Values) -> None:
        self.both_fired(self.book.update(FLOWS[group], values, self.now), self.model.update(group, values, self.now))

    def both_fired(self, real: list[Fired], expected: list[ModelFired]) -> None:
        """The order in which one update fires is free."""
        by_id = {each.subscription.id: each for each in expected}
        assert len(by_id) == len(real) == len(expected)
        for each in real:
            same = by_id[each.subscription.id]
            assert (each.subscription, each.values, each.millis) == (same.subscription, same.values, same.millis)
            self.fired.append(each)
            self.model.fired.append(same)

    @rule()
    def persist_fired(self) -> None:
        notified = self.book.notify(self.fired)
        assert notified.unusable == ()
        self.fired = []
        lasting = [each.notification for each in notified.changes if isinstance(each, SaveNotification)]
        self.persist(notified.changes)
        self.settle(self.sender.put(notified.passing, self.now))
        self.model.notify([*lasting, *notified.passing], self.now)

    # -- sending --------------------------------------------------------------------------------------------------

    @rule(
        group=st.sampled_from(["one", "one", "two"]),
        steps=st.lists(st.tuples(VALUES, st.integers(0, 3), st.none() | VERDICTS), min_size=2, max_size=10),
    )
    def traffic(self, group: str, steps: list[tuple[Values, int, Verdict | None]]) -> None:
        """Updates and answers in a row, because each alone seldom meets what the others have left."""
        for values, millis, verdict in steps:
            self.update(group, values)
            self.persist_fired()
            self.held_states_and_notifications_go_out_when_they_may()
            if self.flying and verdict is not None:
                self.answered(self.flying[0], verdict)
                self.held_states_and_notifications_go_out_when_they_may()
            self.now += millis
            self.held_states_and_notifications_go_out_when_they_may()

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), verdict=VERDICTS)
    def answer(self, data: st.DataObject, verdict: Verdict) -> None:
        self.answered(data.draw(st.sampled_from(self.flying)), verdict)

    def answered(self, notification: Notification, verdict: Verdict) -> None:
        self.flying.remove(notification)
        self.settle(self.sender.handed_over(notification, Handover(verdict, "because"), self.now))
        self.model.answer(notification, verdict, self.now)

    @rule()
    def mended(self) -> None:
        self.sender.mended(APP, self.now)
        self.model.held, self.model.probe = False, None

    @rule(millis=st.sampled_from([1, 1, 2, 3, 5, 12, 30]))
    def advance(self, millis: int) -> None:
        self.now += millis

    @rule()
    def restart(self) -> None:
        self.start()
        self.model.restart()
        self.model.subscriptions.sort(key=lambda each: list(self.disk.subscriptions).index(each.record.id))

    @invariant()
    def held_states_and_notifications_go_out_when_they_may(self) -> None:
        expected = self.model.due(self.now)
        due = self.book.next_due()
        assert (due is not None and due <= self.now) == bool(expected)
        self.both_fired(self.book.due(self.now), expected)

        ready = {each.record.id: each for each in self.model.ready(self.now)}
        if self.model.held and (self.model.probe is not None or self.now < self.model.tries):
            ready = {}
        due = self.sender.next_due()
        assert not ready or (due is not None and due <= self.now)
        round = self.sender.due(self.now)
        self.settle(round.outcome)
        if self.model.held:
            assert len(round.send) == min(1, len(ready))
        else:
            assert {each.device for each, _ in round.send} == set(ready)
        for notification, device in round.send:
            assert notification == self.model.send(ready[device.id], self.now)
            assert device == ready[device.id].record
            self.flying.append(notification)
        due = self.sender.next_due()
        assert due is None or due > self.now
        assert bool(self.sender.held) == self.model.held

    @invariant()
    def memory_and_disk_and_model_have_the_same(self) -> None:
        devices = {each.record.id: each.record for each in self.model.devices}
        assert {id: self.registry.device(id) for id in self.registry.device_ids()} == devices == self.disk.devices
        subscriptions = {each.record.id: each.record for each in self.model.subscriptions}
        assert subscriptions == self.disk.subscriptions
        for id in devices:
            owned = [each.record for each in self.model.of(id)]
            assert sorted(each.id for each in self.registry.subscriptions(id)) == sorted(each.id for each in owned)
            assert all(self.registry.subscription(each.id) == each for each in owned)
        assert self.registry.subscription_count == len(subscriptions)
        for device in devices.values():
            assert self.registry.find(device.key) == device

    @invariant()
    def nothing_that_lasts_is_lost_and_nothing_is_kept_for_nobody(self) -> None:
        every = [
            each.record
            for device in self.model.devices
            for each in [device.flight, *device.queue]
            if each is not None and each.record.lasting
        ]
        wanted = {each.id for each in every if self.model.subscription(each.subscription)}
        alive = {
            id
            for id, each in self.disk.notifications.items()
            if each.expires_millis > self.now and each.subscription in self.disk.subscriptions
        }
        flying = {each.id for each in every if each.expires_millis <= self.now}
        assert wanted - flying == alive - flying

    @invariant()
    def exactly_the_flows_that_somebody_waits_for_are_watched(self) -> None:
        assert self.watched == set(self.book.flows)
        waited_for = {
            each.record.flow
            for each in self.model.subscriptions
            if each.record.status is SubscriptionStatus.ACTIVE and each.waits and self.model.serves(each.record.device)
        }
        assert waited_for <= self.watched
        active = {each.record.flow for each in self.model.subscriptions if self.model.serves(each.record.device)}
        assert self.watched <= active

    @invariant()
    def suspended_devices_have_nothing_under_way_that_does_not_last(self) -> None:
        for device in self.model.devices:
            if device.record.status is DeviceStatus.SUSPENDED:
                assert all(each.lasting for each in self.sender.waiting(device.record.id))


TestPush = PushMachine.TestCase
TestPush.settings = hypothesis_settings(
    max_examples=max(tries(100), hypothesis_settings().max_examples), stateful_step_count=50, deadline=None
)
