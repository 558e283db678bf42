"""Which subscriptions an update fires, and what is decided then."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.push.flows import Applied, Fired, FlowBook, Notified, plain_threshold
from penstock.push.pace import Values
from penstock.push.records import (
    Device,
    DropDevice,
    DropSubscription,
    Notification,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
    SubscriptionStatus,
)
from penstock.push.registry import DeviceRegistry
from penstock.push.requests import Activation
from penstock.push.settings import ApplicationSettings
from penstock.push.thresholds import Reading, Relation, Threshold
from penstock.push.trigger.trigger import Trigger
from tests.push.world import FLOW, FORMAT, KEY, SETTINGS, TRIGGER, activation, counted, registry

BADGE = '{"aps":{"alert":"$[2]","badge":"AUTO"}}'


class World:
    """A registry and its flows, with everything persisted at once."""

    def __init__(self, rules: DeviceRegistry | None = None) -> None:
        self.rules = rules or registry()
        self.book = FlowBook(self.rules, counted("n-"))

    def device(self, token: str = KEY.token) -> Device:
        decision = self.rules.register(replace(KEY, token=token), None, 1_000)
        self.book.apply(decision.changes)
        return decision.result

    def activate(self, device: Device, request: Activation) -> str:
        decision = self.rules.activate(device.id, request, 1_000)
        self.book.apply(decision.changes)
        return decision.result.id

    def update(self, *values: str | None, now: int = 2_000) -> list[str]:
        return [each.subscription.id for each in self.book.update(FLOW, values, now)]

    def suspend(self, device: Device) -> None:
        self.book.apply(self.rules.suspend(device.id, device.key.token, 1_500).changes)

    def subscription(self, id: str) -> PushSubscription:
        subscription = self.rules.subscription(id)
        assert subscription is not None
        return subscription


def saved(changes: tuple[PushChange, ...]) -> list[Notification]:
    return [change.notification for change in changes if isinstance(change, SaveNotification)]


# -- updates ----------------------------------------------------------------------------------------------------------


def test_without_a_trigger_every_update_fires() -> None:
    world = World()
    id = world.activate(world.device(), activation())
    assert [world.update("a", "1"), world.update("a", "1"), world.update(None, None)] == [[id], [id], [id]]
    assert world.book.fired == 3


def test_an_update_of_another_flow_fires_nothing() -> None:
    world = World()
    world.activate(world.device(), activation(replace(FLOW, items=("item2",))))
    assert world.update("a", "1") == []


@pytest.mark.parametrize(
    "trigger", [TRIGGER, '$[2].equals("18") || $[2].equals("19")'], ids=["threshold", "other condition"]
)
def test_a_trigger_fires_once(trigger: str) -> None:
    world = World()
    id = world.activate(world.device(), activation(trigger=trigger))
    assert world.update("a", "17") == []
    assert world.update("a", None) == []
    assert world.update("a", "18") == [id]
    assert world.update("a", "19") == []


def test_a_trigger_is_not_slowed_by_a_frequency_limit() -> None:
    world = World()
    id = world.activate(world.device(), activation(trigger=TRIGGER, max_frequency=0.001))
    assert world.update("a", "1", now=1) == []
    assert world.update("a", "18", now=2) == [id]


def test_a_frequency_limit_keeps_the_latest_until_its_time() -> None:
    world = World()
    id = world.activate(world.device(), activation(max_frequency=1.0, buffer_size=1))
    assert world.update("a", "1", now=0) == [id]
    assert world.update("a", "2", now=10) == []
    assert world.book.next_due() == 1_000
    assert world.update("a", "3", now=20) == []
    assert world.book.due(999) == []
    assert world.book.due(1_000) == [Fired(world.subscription(id), ("a", "3"), 1_000)]
    assert (world.book.due(5_000), world.book.next_due(), world.book.dropped) == ([], None, 1)


def test_a_buffer_keeps_as_many_as_it_is_asked_for_oldest_first() -> None:
    world = World()
    id = world.activate(world.device(), activation(replace(FLOW, mode="DISTINCT"), max_frequency=1.0, buffer_size=2))
    flow = world.subscription(id).flow
    for n in range(5):
        world.book.update(flow, ("a", str(n)), n)
    times: list[tuple[int, Values]] = []
    while (due := world.book.next_due()) is not None:
        times += [(due, each.values) for each in world.book.due(due)]
    assert times == [(1_000, ("a", "3")), (2_000, ("a", "4"))]
    assert world.book.dropped == 2


def test_an_unlimited_buffer_is_limited_by_the_settings() -> None:
    world = World(registry(replace(SETTINGS, max_buffer=3)))
    world.activate(world.device(), activation(max_frequency=1.0, buffer_size=None))
    for n in range(10):
        world.update("a", str(n), now=0)
    assert world.book.dropped == 6


def test_several_that_are_due_at_the_same_time_all_come() -> None:
    world = World()
    device = world.device()
    ids = {world.activate(device, activation(max_frequency=1.0)) for _ in range(3)}
    world.update("a", "1", now=0)
    world.update("a", "2", now=1)
    assert {each.subscription.id for each in world.book.due(1_000)} == ids


def test_what_was_held_is_not_for_a_subscription_that_changed() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation(max_frequency=1.0))
    world.update("a", "1", now=0)
    world.update("a", "2", now=1)
    world.activate(device, activation(max_frequency=0.5, subscription=id))
    assert world.book.next_due() is None
    assert world.book.due(10_000) == []


# -- what is watched --------------------------------------------------------------------------------------------------


def test_a_flow_is_watched_while_a_subscription_waits_for_it() -> None:
    world = World()
    device = world.device()
    first = world.rules.activate(device.id, activation(trigger=TRIGGER), 1)
    assert world.book.apply(first.changes).begun == (FLOW,)
    second = world.rules.activate(device.id, activation(), 1)
    assert world.book.apply(second.changes) == Applied((), (), ())
    assert list(world.book.flows) == [FLOW]
    assert world.book.apply((DropSubscription(second.result.id),)).ended == ()
    notified = world.book.notify(world.book.update(FLOW, ("a", "18"), 1))
    assert world.book.apply(notified.changes).ended == (FLOW,)
    assert list(world.book.flows) == []


def test_a_change_of_the_flow_ends_one_and_begins_another() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation())
    other = replace(FLOW, group="item2", items=("item2",))
    applied = world.book.apply(world.rules.activate(device.id, activation(other, subscription=id), 1).changes)
    assert (applied.begun, applied.ended) == ((other,), (FLOW,))


def test_a_device_that_is_suspended_or_dropped_follows_nothing() -> None:
    world = World()
    device = world.device()
    world.activate(device, activation())
    assert world.book.apply(world.rules.suspend(device.id, KEY.token, 1).changes).ended == (FLOW,)
    assert world.update("a", "1") == []
    assert world.book.apply(world.rules.register(KEY, None, 1).changes).begun == (FLOW,)
    assert len(world.update("a", "1")) == 1
    assert world.book.apply((DropDevice(device.id),)).ended == (FLOW,)
    assert world.rules.device_count == 0


def test_a_device_whose_application_is_not_configured_any_more_follows_nothing() -> None:
    old = World()
    device = old.device()
    id = old.activate(device, activation())
    world = World(registry(replace(SETTINGS, applications={})))
    world.book.apply([SaveDevice(device), SaveSubscription(old.subscription(id))])
    assert (world.book.flows, world.rules.subscription_count) == ((), 1)


def test_subscriptions_that_move_to_another_device_stay_armed() -> None:
    world = World()
    named, other = world.device(), world.device("token-2")
    id = world.activate(other, activation(trigger=TRIGGER))
    applied = world.book.apply(world.rules.register(KEY, "token-2", 1).changes)
    assert (applied.begun, applied.ended) == ((), ())
    assert world.subscription(id).device == named.id
    assert world.update("a", "18") == [id]


def test_a_subscription_that_cannot_be_understood_any_more_is_told_and_left_alone() -> None:
    world = World()
    device = world.device()
    good = world.activate(device, activation())
    bad = replace(world.subscription(good), id="bad", trigger="true ||")
    applied = world.book.apply([SaveSubscription(bad)])
    assert [(each.id, bool(why)) for each, why in applied.unusable] == [("bad", True)]
    assert world.update("a", "1") == [good]
    worse = replace(bad, id="worse", trigger=None, format="{")
    world.book.apply([SaveSubscription(worse)])
    notified = world.book.notify(world.book.update(FLOW, ("a", "1"), 1))
    assert [each.id for each, _ in notified.unusable] == ["worse"]
    assert [each.subscription for each in notified.passing] == [good]


@given(
    st.builds(
        "Double.parseDouble($[{}]) {} {}{}.{}".format,
        st.integers(0, 12),
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        st.sampled_from(["", "+", "-"]),
        st.integers(0, 10**16),
        st.integers(0, 10**16),
    ),
    st.integers(1, 12),
)
def test_what_is_known_of_the_usual_form_is_what_compiling_it_gives(text: str, fields: int) -> None:
    threshold = plain_threshold(text, fields)
    assume(threshold is not None)
    assert Trigger.compile(text, fields, None).threshold == threshold


def test_the_usual_form_is_known_and_others_are_not() -> None:
    assert plain_threshold(TRIGGER, 2) == Threshold(1, Reading.DOUBLE, Relation.GREATER, 17.0)
    others = ["Double.parseDouble($[3]) > 17.0", "Double.parseDouble($[0]) > 17.0", TRIGGER + " ", "true", "1.0 > 0.5"]
    assert [plain_threshold(each, 2) for each in others] == [None] * 5


# -- notifications ----------------------------------------------------------------------------------------------------


def test_without_a_trigger_nothing_is_persisted() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation())
    notified = world.book.notify(world.book.update(FLOW, ("Anduct", "13.63"), 2_000))
    assert notified.changes == ()
    (notification,) = notified.passing
    assert notification == Notification(
        "n-1", device.id, id, '{"aps":{"alert":"Anduct is 13.63"}}', 2_000, 2_000 + 86_400_000, lasting=False
    )


def test_state_notification_and_badge_are_one_list_of_changes() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation(trigger=TRIGGER, format=BADGE))
    before = world.subscription(id)
    notified = world.book.notify(world.book.update(FLOW, ("a", "18"), 2_000))
    counting = replace(device, badge=1)
    payload = '{"aps":{"alert":"18","badge":1}}'
    assert notified.changes == (
        SaveDevice(counting),
        SaveSubscription(replace(before, status=SubscriptionStatus.TRIGGERED, status_millis=2_000)),
        SaveNotification(Notification("n-1", device.id, id, payload, 2_000, 86_402_000, lasting=True)),
    )
    assert notified.passing == ()


def test_badges_count_up_within_one_decision_and_for_each_device() -> None:
    world = World()
    first, second = world.device(), world.device("token-2")
    for device in (first, second, first, first):
        world.activate(device, activation(trigger=TRIGGER, format=BADGE))
    world.activate(first, activation())
    notified = world.book.notify(world.book.update(FLOW, ("a", "18"), 2_000))
    badges = [(each.device, json.loads(each.payload)["aps"]["badge"]) for each in saved(notified.changes)]
    assert sorted(badges) == [(first.id, 1), (first.id, 2), (first.id, 3), (second.id, 1)]
    assert {each.device.badge for each in notified.changes if isinstance(each, SaveDevice)} == {3, 1}
    world.book.apply(notified.changes)
    assert world.rules.known_device(first.id).badge == 3


def test_a_decision_that_could_not_be_persisted_can_be_made_again() -> None:
    world = World()
    world.activate(world.device(), activation(trigger=TRIGGER, format=BADGE))
    fired = world.book.update(FLOW, ("a", "18"), 2_000)
    once, again = world.book.notify(fired), world.book.notify(fired)
    assert [replace(each, id="") for each in saved(once.changes)] == [
        replace(each, id="") for each in saved(again.changes)
    ]
    assert once.changes[:2] == again.changes[:2]


def test_what_was_changed_or_deleted_since_it_fired_does_not_notify() -> None:
    world = World()
    device = world.device()
    changed, dropped = (world.activate(device, activation(trigger=TRIGGER)) for _ in range(2))
    fired = world.book.update(FLOW, ("a", "18"), 2_000)
    assert len(fired) == 2
    world.activate(device, activation(trigger=TRIGGER, format="{}", subscription=changed))
    world.book.apply([DropSubscription(dropped)])
    assert world.book.notify(fired) == Notified((), (), ())
    assert world.update("a", "18") == [changed]


def test_a_trigger_that_fired_for_a_suspended_device_is_armed_again_with_it() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation(trigger=TRIGGER))
    fired = world.book.update(FLOW, ("a", "18"), 2_000)
    world.suspend(device)
    assert world.book.notify(fired).changes == ()
    world.book.apply(world.rules.register(KEY, None, 3_000).changes)
    assert world.update("a", "18") == [id]


def test_a_trigger_that_fired_twice_before_anything_was_persisted_notifies_once() -> None:
    world = World()
    device = world.device()
    world.activate(device, activation(trigger=TRIGGER, format=BADGE))
    fired = world.book.update(FLOW, ("a", "18"), 2_000)
    world.suspend(device)
    world.book.apply(world.rules.register(KEY, None, 3_000).changes)
    fired += world.book.update(FLOW, ("a", "19"), 3_000)
    assert len(fired) == 2
    (notification,) = saved(world.book.notify(fired).changes)
    assert json.loads(notification.payload)["aps"] == {"alert": "18", "badge": 1}


def test_the_time_to_live_is_the_applications_and_begins_when_it_fired() -> None:
    applications = dict.fromkeys(SETTINGS.applications, ApplicationSettings(time_to_live_millis=10))
    world = World(registry(replace(SETTINGS, applications=applications)))
    world.activate(world.device(), activation(format=FORMAT))
    (notification,) = world.book.notify(world.book.update(FLOW, ("a", "1"), 7)).passing
    assert (notification.created_millis, notification.expires_millis) == (7, 17)


def test_a_triggered_subscription_that_is_changed_fires_again() -> None:
    world = World()
    device = world.device()
    id = world.activate(device, activation(trigger=TRIGGER))
    world.book.apply(world.book.notify(world.book.update(FLOW, ("a", "18"), 2_000)).changes)
    assert world.subscription(id).status is SubscriptionStatus.TRIGGERED
    assert world.update("a", "19") == []
    world.activate(device, activation(trigger=TRIGGER, coalescing=True))
    assert world.update("a", "19") == [id]
