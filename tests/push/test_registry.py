"""Devices and subscriptions: what each request decides, and what it is refused for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.push.records import (
    DeviceKey,
    DeviceStatus,
    DropDevice,
    DropSubscription,
    Flow,
    Notification,
    Platform,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
    SubscriptionStatus,
)
from penstock.push.refusals import PushReason, PushRefusal
from penstock.push.registry import DeviceRegistry
from penstock.push.requests import Keep, Reconfiguration
from tests.push.world import (
    APP,
    FLOW,
    FORMAT,
    KEY,
    SETTINGS,
    TRIGGER,
    activated,
    activation,
    carry_out,
    registered,
    registry,
)


def refused(reason: PushReason, act: Callable[[], object]) -> str:
    with pytest.raises(PushRefusal) as caught:
        act()
    assert caught.value.reason is reason
    return caught.value.text


def reconfiguration(
    subscription: str,
    flow: Flow = FLOW,
    format: str | None = None,
    trigger: str | None = None,
    max_frequency: float | Keep | None = Keep.KEEP,
) -> Reconfiguration:
    return Reconfiguration(
        subscription,
        flow.adapter_set,
        flow.data_adapter,
        flow.group,
        flow.schema,
        flow.mode,
        format,
        trigger,
        max_frequency,
    )


def trigger_it(rules: DeviceRegistry, id: str, now: int) -> None:
    subscription = rules.subscription(id)
    assert subscription is not None
    rules.apply([SaveSubscription(replace(subscription, status=SubscriptionStatus.TRIGGERED, status_millis=now))])


# -- devices ----------------------------------------------------------------------------------------------------------


def test_a_decision_changes_nothing_until_it_is_applied() -> None:
    rules = registry()
    decision = rules.register(KEY, None, 5)
    assert (rules.device_count, rules.find(KEY)) == (0, None)
    device = carry_out(rules, decision)
    assert rules.find(KEY) == rules.device(device.id) == device
    assert (device.status, device.status_millis, device.used_millis, device.badge) == (DeviceStatus.ACTIVE, 5, 5, 0)


def test_a_known_token_is_the_same_device() -> None:
    rules = registry()
    first = registered(rules, now=5)
    again = registered(rules, now=9)
    assert again == replace(first, used_millis=9)
    assert rules.device_count == 1


def test_a_device_is_one_application_on_one_platform() -> None:
    rules = registry()
    first = registered(rules)
    other = carry_out(rules, rules.register(replace(KEY, platform=Platform.GOOGLE), None, 1))
    assert first.id != other.id


def test_a_new_token_keeps_id_and_subscriptions() -> None:
    rules = registry()
    device = registered(rules)
    subscription = activated(rules, device, activation())
    changed = carry_out(rules, rules.register(KEY, "token-2", 2_000))
    assert changed == replace(device, key=replace(KEY, token="token-2"), used_millis=2_000)
    assert rules.find(KEY) is None
    assert rules.subscriptions(device.id) == (subscription,)


def test_a_new_token_for_an_unknown_one_is_a_new_device() -> None:
    rules = registry()
    device = carry_out(rules, rules.register(KEY, "token-2", 1))
    assert device.key.token == "token-2"
    assert rules.find(KEY) is None


def test_a_token_change_that_is_repeated_is_the_same_device() -> None:
    rules = registry()
    registered(rules)
    first = carry_out(rules, rules.register(KEY, "token-2", 1_500))
    assert carry_out(rules, rules.register(KEY, "token-2", 1_500)) == first
    assert rules.device_count == 1


def test_a_new_token_that_is_the_old_one_changes_nothing() -> None:
    rules = registry()
    device = registered(rules)
    assert carry_out(rules, rules.register(KEY, KEY.token, 1_000)) == device


def test_a_new_token_that_another_device_has_makes_one_of_both() -> None:
    rules = registry()
    named, other = registered(rules), registered(rules, "token-2")
    first = activated(rules, named, activation())
    second = activated(rules, other, activation(trigger=TRIGGER))
    lasting = Notification("n1", other.id, second.id, "{}", 1, 2, lasting=True)
    passing = replace(lasting, id="n2", lasting=False)
    asked: list[str] = []

    def waiting(device: str) -> list[Notification]:
        asked.append(device)
        return [lasting, passing]

    decision = rules.register(KEY, "token-2", 2_000, waiting)
    one = replace(named, key=replace(KEY, token="token-2"), used_millis=2_000)
    assert decision.changes == (
        SaveSubscription(replace(second, device=named.id)),
        DropDevice(other.id),
        SaveDevice(one),
        SaveNotification(replace(lasting, device=named.id)),
    )
    assert asked == [other.id]
    carry_out(rules, decision)
    assert rules.device(other.id) is None
    assert rules.find(one.key) == one
    assert rules.find(KEY) is None
    assert rules.subscriptions(named.id) == (first, replace(second, device=named.id))
    assert rules.subscriptions(other.id) == ()


@pytest.mark.parametrize("new_token", [None, "token-2"])
def test_a_suspended_device_is_active_again_when_it_is_registered(new_token: str | None) -> None:
    rules = registry()
    device = registered(rules)
    suspended = carry_out(rules, rules.suspend(device.id, KEY.token, 2_000))
    assert suspended == replace(device, status=DeviceStatus.SUSPENDED, status_millis=2_000)
    assert not rules.serves(device.id)
    active = carry_out(rules, rules.register(KEY, new_token, 3_000))
    assert (active.id, active.status, active.status_millis) == (device.id, DeviceStatus.ACTIVE, 3_000)
    assert rules.serves(device.id)


def test_suspending_is_for_the_token_that_was_refused_and_done_once() -> None:
    rules = registry()
    device = registered(rules)
    assert rules.suspend(device.id, "token-0", 2_000).changes == ()
    assert rules.suspend("unknown", "token-0", 2_000).result is None
    carry_out(rules, rules.suspend(device.id, KEY.token, 2_000))
    assert rules.suspend(device.id, KEY.token, 2_500).changes == ()


def test_bad_registrations_are_refused() -> None:
    rules = registry(replace(SETTINGS, max_token_length=10, max_name_length=20))
    assert APP in refused(PushReason.APPLICATION, lambda: rules.register(replace(KEY, platform=Platform.WEB), None, 1))
    refused(PushReason.APPLICATION, lambda: rules.register(replace(KEY, application="other"), None, 1))
    refused(PushReason.TOO_LONG, lambda: rules.register(replace(KEY, application="o" * 21), None, 1))
    refused(PushReason.TOKEN, lambda: rules.register(replace(KEY, token=""), None, 1))
    refused(PushReason.TOKEN, lambda: rules.register(KEY, "", 1))
    text = refused(PushReason.TOO_LONG, lambda: rules.register(replace(KEY, token="secret-secret"), None, 1))
    assert "secret" not in text
    refused(PushReason.TOO_LONG, lambda: rules.register(KEY, "secret-secret", 1))


def test_devices_are_limited_but_known_ones_may_always_come_back() -> None:
    rules = registry(replace(SETTINGS, max_devices=1))
    device = registered(rules)
    refused(PushReason.UNAVAILABLE, lambda: rules.register(replace(KEY, token="token-2"), None, 1))
    assert carry_out(rules, rules.register(KEY, "token-2", 1)).id == device.id


def test_the_badge_is_reset() -> None:
    rules = registry()
    device = registered(rules)
    rules.apply([SaveDevice(replace(device, badge=7))])
    assert carry_out(rules, rules.reset_badge(device.id, 1_500)) == replace(device, used_millis=1_500)
    refused(PushReason.DEVICE, lambda: rules.reset_badge("unknown", 1))


# -- collecting -------------------------------------------------------------------------------------------------------


def test_devices_that_nobody_uses_are_collected() -> None:
    rules = registry(replace(SETTINGS, inactivity_millis=100))
    busy, idle, triggered, suspended, bound = (registered(rules, f"token-{n}", now=0) for n in range(1, 6))
    activated(rules, busy, activation(), now=0)
    trigger_it(rules, activated(rules, triggered, activation(trigger=TRIGGER), now=0).id, now=50)
    activated(rules, suspended, activation(), now=0)
    carry_out(rules, rules.suspend(suspended.id, suspended.key.token, 20))
    in_use = {bound.id}
    assert rules.collect(99, in_use).result == ()
    assert rules.collect(100, in_use).result == (idle.id,)
    assert rules.collect(120, in_use).result == (idle.id, suspended.id)
    decision = rules.collect(150, in_use)
    assert decision.changes == (DropDevice(idle.id), DropDevice(triggered.id), DropDevice(suspended.id))
    assert rules.collect(150, (), [bound.id, "unknown"]).result == (bound.id,)
    carry_out(rules, decision)
    assert rules.device_ids() == [busy.id, bound.id]
    assert rules.subscription_count == 1


def test_what_a_client_does_with_a_device_keeps_it() -> None:
    rules = registry(replace(SETTINGS, inactivity_millis=100))
    device = registered(rules, now=0)
    subscription = activated(rules, device, activation(), now=10)
    carry_out(rules, rules.reconfigure(device.id, reconfiguration(subscription.id), 20))
    carry_out(rules, rules.deactivate(device.id, None, None, 30))
    carry_out(rules, rules.reset_badge(device.id, 40))
    assert rules.collect(139).result == ()
    assert rules.collect(140).result == (device.id,)


# -- activation -------------------------------------------------------------------------------------------------------


def test_a_subscription_is_new_each_time_without_coalescing() -> None:
    rules = registry()
    device = registered(rules)
    first, second = activated(rules, device, activation()), activated(rules, device, activation())
    assert first.id != second.id
    assert first == replace(second, id=first.id)
    assert (first.status, first.status_millis) == (SubscriptionStatus.ACTIVE, 1_000)
    assert rules.subscriptions(device.id) == (first, second)


def test_coalescing_changes_the_oldest_with_the_same_base_parameters() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation(trigger=TRIGGER))
    second = activated(rules, device, activation(trigger=TRIGGER))
    trigger_it(rules, first.id, 1_500)
    request = activation(trigger=TRIGGER, format="{}", max_frequency=2.0, buffer_size=3, coalescing=True)
    changed = activated(rules, device, request, now=2_000)
    assert changed == replace(first, format="{}", max_frequency=2.0, buffer_size=3, status_millis=2_000)
    assert rules.subscriptions(device.id) == (changed, second)


@pytest.mark.parametrize(
    "request_",
    [
        activation(trigger="$[1].isEmpty()", coalescing=True),
        activation(trigger=None, coalescing=True),
        activation(replace(FLOW, mode="DISTINCT"), trigger=TRIGGER, coalescing=True),
        activation(replace(FLOW, adapter_set="OTHER"), trigger=TRIGGER, coalescing=True),
        activation(replace(FLOW, data_adapter="OTHER"), trigger=TRIGGER, coalescing=True),
        activation(replace(FLOW, group="other"), trigger=TRIGGER, coalescing=True),
        activation(replace(FLOW, schema="other"), trigger=TRIGGER, coalescing=True),
    ],
)
def test_coalescing_makes_a_new_one_for_other_base_parameters(request_: object) -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation(trigger=TRIGGER))
    assert isinstance(request_, type(activation()))
    assert activated(rules, device, request_).id != first.id


def test_coalescing_is_by_the_names_and_not_by_what_was_granted_for_them() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation())
    granted = replace(FLOW, items=("item1", "item2"))
    changed = activated(rules, device, activation(granted, coalescing=True))
    assert (changed.id, changed.flow) == (first.id, granted)


def test_coalescing_does_not_look_at_other_devices() -> None:
    rules = registry()
    first = activated(rules, registered(rules), activation())
    second = activated(rules, registered(rules, "token-2"), activation(coalescing=True))
    assert first.id != second.id


def test_a_change_by_id_replaces_all_parameters_and_reactivates() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation(trigger=TRIGGER, max_frequency=1.0))
    trigger_it(rules, first.id, 1_500)
    flow = replace(FLOW, group="item2", items=("item2",))
    changed = activated(rules, device, activation(flow, "{}", subscription=first.id), now=2_000)
    assert changed == replace(first, flow=flow, format="{}", trigger=None, max_frequency=None, status_millis=2_000)
    assert rules.subscriptions(device.id) == (changed,)


def test_the_time_of_the_status_is_that_of_its_change() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation())
    assert activated(rules, device, activation(subscription=first.id), now=2_000).status_millis == 1_000
    again = carry_out(rules, rules.reconfigure(device.id, reconfiguration(first.id), 3_000))
    assert again.status_millis == 1_000


def test_bad_activations_are_refused() -> None:
    rules = registry(replace(SETTINGS, max_format_length=40, max_trigger_length=40, max_name_length=20))
    device, other = registered(rules), registered(rules, "token-2")
    first = activated(rules, device, activation())
    before = rules.subscriptions(device.id)

    def attempt(reason: PushReason, **parameters: object) -> str:
        return refused(reason, lambda: rules.activate(device.id, activation(**parameters), 1))  # type: ignore[arg-type]

    for mode in ("RAW", "COMMAND", "merge", ""):
        assert "MERGE or DISTINCT" in attempt(PushReason.MODE, flow=replace(FLOW, mode=mode))
    assert "items" in attempt(PushReason.EMPTY, flow=replace(FLOW, items=()))
    assert "fields" in attempt(PushReason.EMPTY, flow=replace(FLOW, fields=()))
    assert "format has 41 characters; 40" in attempt(PushReason.TOO_LONG, format="f" * 41)
    attempt(PushReason.TOO_LONG, trigger="t" * 41)
    attempt(PushReason.TOO_LONG, flow=replace(FLOW, group="g" * 21))
    attempt(PushReason.TOO_LONG, flow=replace(FLOW, schema="s" * 21))
    attempt(PushReason.TOO_LONG, flow=replace(FLOW, data_adapter="s" * 21))
    attempt(PushReason.CONFLICT, subscription=first.id, coalescing=True)
    attempt(PushReason.SUBSCRIPTION, subscription="unknown")
    refused(PushReason.SUBSCRIPTION, lambda: rules.activate(other.id, activation(subscription=first.id), 1))
    refused(PushReason.DEVICE, lambda: rules.activate("unknown", activation(), 1))
    assert rules.subscriptions(device.id) == before


def test_subscriptions_of_a_device_are_limited_but_can_be_changed_at_the_limit() -> None:
    rules = registry(replace(SETTINGS, max_subscriptions_per_device=1))
    device = registered(rules)
    first = activated(rules, device, activation())
    refused(PushReason.UNAVAILABLE, lambda: rules.activate(device.id, activation(), 1))
    assert activated(rules, device, activation(coalescing=True)) == first
    assert activated(rules, device, activation(subscription=first.id)) == first


def test_a_suspended_device_takes_no_subscription_but_gives_them_up() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation())
    carry_out(rules, rules.suspend(device.id, KEY.token, 1))
    refused(PushReason.SUSPENDED, lambda: rules.activate(device.id, activation(), 1))
    refused(PushReason.SUSPENDED, lambda: rules.reconfigure(device.id, reconfiguration(first.id), 1))
    assert carry_out(rules, rules.deactivate(device.id, first.id, None, 1)) == (first.id,)


# -- reconfiguration --------------------------------------------------------------------------------------------------


def test_reconfiguration_keeps_what_is_omitted_and_always_reactivates() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation(trigger=TRIGGER, max_frequency=2.0, buffer_size=3))
    trigger_it(rules, first.id, 1_500)
    changed = carry_out(rules, rules.reconfigure(device.id, reconfiguration(first.id), 2_000))
    assert changed == replace(first, status_millis=2_000)
    assert rules.subscription(first.id) == changed


def test_reconfiguration_replaces_what_is_given() -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation(trigger=TRIGGER, max_frequency=2.0))
    request = reconfiguration(first.id, format="{}", trigger="", max_frequency=None)
    changed = carry_out(rules, rules.reconfigure(device.id, request, 2_000))
    assert changed == replace(first, format="{}", trigger=None, max_frequency=None)
    request = reconfiguration(first.id, trigger="true", max_frequency=0.5)
    changed = carry_out(rules, rules.reconfigure(device.id, request, 2_000))
    assert changed == replace(first, format="{}", trigger="true", max_frequency=0.5)


@pytest.mark.parametrize("name", ["adapter_set", "data_adapter", "group", "schema", "mode"])
def test_reconfiguration_of_something_else_is_refused(name: str) -> None:
    rules = registry()
    device = registered(rules)
    first = activated(rules, device, activation())
    other = replace(FLOW, **{name: "other"})  # type: ignore[arg-type]
    text = refused(PushReason.MISMATCH, lambda: rules.reconfigure(device.id, reconfiguration(first.id, other), 1))
    assert "'other'" in text
    assert name.replace("_", " ") in text


def test_bad_reconfigurations_are_refused() -> None:
    rules = registry(replace(SETTINGS, max_format_length=40, max_trigger_length=40))
    device, other = registered(rules), registered(rules, "token-2")
    first = activated(rules, device, activation())
    refused(PushReason.SUBSCRIPTION, lambda: rules.reconfigure(device.id, reconfiguration("unknown"), 1))
    refused(PushReason.SUBSCRIPTION, lambda: rules.reconfigure(other.id, reconfiguration(first.id), 1))
    refused(PushReason.DEVICE, lambda: rules.reconfigure("unknown", reconfiguration(first.id), 1))
    long = "x" * 41
    refused(PushReason.TOO_LONG, lambda: rules.reconfigure(device.id, reconfiguration(first.id, format=long), 1))
    refused(PushReason.TOO_LONG, lambda: rules.reconfigure(device.id, reconfiguration(first.id, trigger=long), 1))


# -- deactivation -----------------------------------------------------------------------------------------------------


def test_deactivation_is_of_one_or_by_status_or_of_all() -> None:
    rules = registry()
    device = registered(rules)
    ids = [activated(rules, device, activation(trigger=TRIGGER)).id for _ in range(5)]
    trigger_it(rules, ids[1], 1)
    trigger_it(rules, ids[3], 1)
    decision = rules.deactivate(device.id, ids[0], None, 1_000)
    assert decision.changes == (SaveDevice(device), DropSubscription(ids[0]))
    assert carry_out(rules, decision) == (ids[0],)
    assert carry_out(rules, rules.deactivate(device.id, None, SubscriptionStatus.TRIGGERED, 1)) == (ids[1], ids[3])
    assert rules.deactivate(device.id, None, SubscriptionStatus.ACTIVE, 1).result == (ids[2], ids[4])
    assert carry_out(rules, rules.deactivate(device.id, None, None, 1)) == (ids[2], ids[4])
    assert carry_out(rules, rules.deactivate(device.id, None, None, 1)) == ()
    assert rules.subscription_count == 0


def test_bad_deactivations_are_refused() -> None:
    rules = registry()
    device, other = registered(rules), registered(rules, "token-2")
    first = activated(rules, device, activation())
    refused(PushReason.SUBSCRIPTION, lambda: rules.deactivate(device.id, "unknown", None, 1))
    refused(PushReason.SUBSCRIPTION, lambda: rules.deactivate(other.id, first.id, None, 1))
    refused(PushReason.DEVICE, lambda: rules.deactivate("unknown", None, None, 1))
    refused(PushReason.CONFLICT, lambda: rules.deactivate(device.id, first.id, SubscriptionStatus.ACTIVE, 1))


# -- changes ----------------------------------------------------------------------------------------------------------


def test_equal_values_are_kept_once_and_only_while_somebody_has_them() -> None:
    rules = registry()
    device, subscription = registered(rules), activated(rules, registered(rules), activation())
    for n in range(3):
        # As from a database: equal, but not the same objects.
        key = DeviceKey(Platform.APPLE, copy_of(APP), f"token-2{n}")
        of = replace(subscription, id=f"s{n}", device=f"d{n}", format=copy_of(FORMAT), flow=replace(FLOW))
        rules.apply([SaveDevice(replace(device, id=f"d{n}", key=key)), SaveSubscription(of)])
    kept = [rules.own_subscription(f"d{n}", f"s{n}") for n in range(3)]
    devices = [rules.known_device(f"d{n}") for n in range(3)]
    assert len({id(each.format) for each in kept}) == 1
    assert len({id(each.flow) for each in kept}) == 1
    assert len({id(each.key.application) for each in devices}) == 1
    assert all(each.device is device.id for each, device in zip(kept, devices, strict=True))
    rules.apply([DropDevice(each) for each in rules.device_ids()])
    assert (len(rules._formats), len(rules._flows), len(rules._applications)) == (0, 0, 0)


def copy_of(text: str) -> str:
    return "".join((text[:3], text[3:]))


def test_changes_of_what_is_gone_are_ignored() -> None:
    rules = registry()
    device = registered(rules)
    subscription = activated(rules, device, activation())
    rules.apply([DropDevice(device.id), SaveSubscription(subscription), DropSubscription("x"), DropDevice("x")])
    assert (rules.device_count, rules.subscription_count) == (0, 0)
