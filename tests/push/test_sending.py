"""When notifications are sent, and what follows from the answers of providers."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise

import pytest

from penstock.push.ports import Handover, Verdict
from penstock.push.records import (
    DeviceStatus,
    DropDevice,
    DropNotification,
    DropSubscription,
    Notification,
    Platform,
    PushChange,
    SaveDevice,
    SaveNotification,
)
from penstock.push.sending import Gone, Loss, Outcome, Sender
from penstock.push.settings import ApplicationSettings, PushSettings
from tests.push.world import APP, KEY, activated, activation, carry_out, registered, registry

APPLE = (Platform.APPLE, APP)
ACCEPTED, REFUSED = Handover(Verdict.ACCEPTED), Handover(Verdict.REFUSED, "bad topic")
RETRY, GONE = Handover(Verdict.RETRY, "503"), Handover(Verdict.GONE, "unregistered")
CREDENTIALS = Handover(Verdict.CREDENTIALS, "expired key")

SETTINGS = PushSettings(
    applications={APPLE: ApplicationSettings(max_payload=50, min_send_delay_millis=100, time_to_live_millis=10_000)},
    queue_per_device=3,
    first_retry_millis=1_000,
    longest_retry_millis=4_000,
    credentials_retry_millis=5_000,
)


class World:
    """Two devices with a subscription each, and a clock."""

    def __init__(self, settings: PushSettings = SETTINGS) -> None:
        self.rules = registry(settings)
        self.sender = Sender(self.rules)
        self.one, self.two = registered(self.rules), registered(self.rules, "token-2")
        self.subscriptions = {
            device.id: activated(self.rules, device, activation()).id for device in (self.one, self.two)
        }
        self.now = 1_000
        self.numbers = count(1)

    def make(self, device: str | None = None, lasting: bool = False, payload: str = "{}") -> Notification:
        owner = device or self.one.id
        subscription = self.subscriptions[owner]
        id = f"n{next(self.numbers)}"
        return Notification(id, owner, subscription, payload, self.now, self.now + 10_000, lasting)

    def put(self, *notifications: Notification) -> Outcome:
        return self.sender.put(notifications, self.now)

    def due(self, most: int | None = None) -> list[Notification]:
        return [each for each, _ in self.sender.due(self.now, most).send]

    def answer(self, notification: Notification, handover: Handover) -> Outcome:
        return self.sender.handed_over(notification, handover, self.now)

    def persist(self, changes: tuple[PushChange, ...]) -> Outcome:
        self.rules.apply(changes)
        return self.sender.apply(changes, self.now)


def losses(outcome: Outcome) -> list[tuple[str, Loss]]:
    return [(each.notification.id, each.loss) for each in outcome.lost]


# -- order and pace ---------------------------------------------------------------------------------------------------


def test_one_is_in_flight_for_a_device_and_the_next_waits_for_its_answer_and_the_delay() -> None:
    world = World()
    first, second = world.make(), world.make()
    world.put(first, second)
    assert world.sender.next_due() == 1_000
    round = world.sender.due(1_000)
    assert round.send == ((first, world.one),)
    assert world.sender.next_due() is None
    world.now = 5_000
    assert world.due() == []
    world.answer(first, ACCEPTED)
    assert world.due() == [second]
    world.answer(second, ACCEPTED)
    third = world.make()
    world.put(third)
    assert (world.due(), world.sender.next_due()) == ([], 5_100)
    world.now = 5_100
    assert world.due() == [third]
    assert (world.sender.sent, world.sender.waiting_count) == (2, 1)


def test_devices_do_not_wait_for_one_another() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    assert world.due() == [first, second]


def test_an_application_has_so_many_places_and_the_next_waits_for_one() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    assert world.due(most=1) == [first]
    assert (world.due(most=1), world.sender.next_due(), world.sender.waiting_count) == ([], None, 2)
    world.answer(first, ACCEPTED)
    assert world.due(most=1) == [second]
    world.answer(second, ACCEPTED)
    assert (world.due(most=1), world.sender.waiting_count) == ([], 0)


def test_a_provider_that_hangs_takes_no_places_of_other_applications() -> None:
    other = (Platform.APPLE, "com.example.other")
    world = World(replace(SETTINGS, applications={**SETTINGS.applications, other: SETTINGS.applications[APPLE]}))
    third = carry_out(world.rules, world.rules.register(replace(KEY, application=other[1]), None, 1_000))
    world.subscriptions[third.id] = activated(world.rules, third, activation()).id
    hangs, waits, free = world.make(), world.make(world.two.id), world.make(third.id)
    world.put(hangs, waits, free)
    assert world.due(most=1) == [hangs, free]


def test_a_place_is_free_again_when_the_device_is_gone_meanwhile() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    assert world.due(most=1) == [first]
    world.persist((DropDevice(world.one.id),))
    assert world.due(most=1) == []
    world.answer(first, ACCEPTED)
    assert world.due(most=1) == [second]


def test_a_paused_device_gets_nothing_new_until_it_is_not_paused_any_more() -> None:
    world = World()
    first, second, other = world.make(), world.make(), world.make(world.two.id)
    world.put(first)
    assert world.due() == [first]
    world.sender.pause([world.one.id], world.now)
    world.put(second, other)
    world.answer(first, ACCEPTED)
    world.now += 1_000
    assert world.due() == [other]
    assert (world.due(), world.sender.waiting_count) == ([], 2)
    world.sender.pause([], world.now)
    assert world.due() == [second]


def test_a_device_that_has_nothing_left_is_forgotten_after_the_delay() -> None:
    world = World()
    notification = world.make()
    world.put(notification)
    world.due()
    world.answer(notification, ACCEPTED)
    assert world.sender.next_due() == 1_100
    world.now = 1_100
    world.due()
    assert (world.sender.next_due(), world.sender._lines) == (None, {})


# -- what lasts -------------------------------------------------------------------------------------------------------


def test_a_lasting_notification_is_forgotten_when_it_was_accepted() -> None:
    world = World()
    notification = world.make(lasting=True)
    world.persist((SaveNotification(notification),))
    assert world.sender.waiting(world.one.id) == (notification,)
    assert world.due() == [notification]
    assert world.sender.waiting(world.one.id) == (notification,)
    assert world.answer(notification, ACCEPTED).changes == (DropNotification(notification.id),)
    assert world.sender.waiting(world.one.id) == ()


def test_one_that_is_refused_is_told_and_given_up() -> None:
    world = World()
    first, second = world.make(lasting=True), world.make()
    world.put(first, second)
    world.due()
    outcome = world.answer(first, REFUSED)
    assert (losses(outcome), outcome.lost[0].reason) == ([("n1", Loss.REFUSED)], "bad topic")
    assert outcome.changes == (DropNotification(first.id),)
    world.now += 100
    assert world.due() == [second]
    assert world.sender.lost[Loss.REFUSED] == 1


def test_one_that_is_too_large_is_dropped_before_it_is_sent() -> None:
    world = World()
    fits, large = world.make(payload="é" * 25), world.make(payload="é" * 26, lasting=True)
    outcome = world.put(fits, large)
    assert losses(outcome) == [(large.id, Loss.TOO_LARGE)]
    assert outcome.lost[0].reason == "it has 52 bytes; 50 are allowed"
    assert outcome.changes == (DropNotification(large.id),)
    assert (world.due(), world.sender.waiting_count) == ([fits], 1)


def test_beyond_the_limit_the_oldest_without_a_trigger_is_dropped() -> None:
    world = World()
    lasting = [world.make(lasting=True) for _ in range(2)]
    first, second = world.make(), world.make()
    assert world.put(lasting[0], first, lasting[1]).lost == ()
    assert losses(world.put(second)) == [(first.id, Loss.OVERFLOW)]
    third = world.make(lasting=True)
    assert losses(world.put(third)) == [(second.id, Loss.OVERFLOW)]
    fourth = world.make(lasting=True)
    assert losses(world.put(fourth)) == []
    fifth = world.make()
    assert losses(world.put(fifth)) == [(fifth.id, Loss.OVERFLOW)]
    assert world.sender.waiting(world.one.id) == (*lasting, third, fourth)


def test_what_has_expired_makes_room_first() -> None:
    world = World()
    flying, expired = world.make(), world.make(lasting=True)
    world.put(flying, expired)
    world.due()
    world.now = 5_000
    first, second = world.make(), world.make()
    world.put(first, second)
    world.now = 11_000
    third = world.make()
    assert losses(world.put(third)) == [(expired.id, Loss.EXPIRED)]
    assert world.sender.waiting(world.one.id) == (flying, first, second, third)


def test_what_belongs_to_a_subscription_that_is_gone_is_not_sent() -> None:
    world = World()
    first, second = world.make(lasting=True), world.make(lasting=True)
    world.put(first, second)
    world.due()
    world.persist((DropSubscription(world.subscriptions[world.one.id]),))
    outcome = world.answer(first, RETRY)
    assert outcome == Outcome()
    world.now = 5_000
    round = world.sender.due(world.now)
    assert (round.send, round.outcome.lost) == ((), ())
    assert round.outcome.changes == (DropNotification(first.id), DropNotification(second.id))
    assert world.sender.waiting_count == 0


def test_a_device_that_is_dropped_takes_its_notifications_with_it() -> None:
    world = World()
    first, second = world.make(lasting=True), world.make()
    world.put(first, second)
    world.due()
    world.persist((DropDevice(world.one.id),))
    assert world.answer(first, ACCEPTED) == Outcome()
    assert (world.due(), world.sender.next_due(), world.sender.waiting_count) == ([], None, 0)
    assert world.put(first) == Outcome()


# -- retries ----------------------------------------------------------------------------------------------------------


def attempts(world: World, notification: Notification, handover: Handover) -> list[int]:
    """When it is sent, if every answer is the same."""
    times = []
    while (due := world.sender.next_due()) is not None:
        world.now = due
        for each in world.due():
            assert each == notification
            times.append(world.now)
            world.answer(each, handover)
    return times


def test_retries_wait_longer_each_time_and_end_with_the_time_to_live() -> None:
    world = World()
    notification = world.make(lasting=True)
    world.put(notification)
    times = attempts(world, notification, RETRY)
    waits = [after - before for before, after in pairwise(times)]
    assert 1_000 <= waits[0] <= 1_250
    assert 2_000 <= waits[1] <= 2_500
    assert 4_000 <= waits[2] <= 5_000
    assert len(waits) == 3
    assert times[-1] < notification.expires_millis
    assert (world.sender.retried, world.sender.lost[Loss.EXPIRED], world.sender.waiting_count) == (3, 1, 0)


def test_the_provider_may_ask_for_a_longer_wait() -> None:
    world = World()
    notification = world.make()
    world.put(notification)
    world.due()
    world.answer(notification, replace(RETRY, retry_after=7.5))
    assert world.sender.next_due() == 8_500
    world.now = 8_500
    assert world.due() == [notification]


def test_a_wait_beyond_the_time_to_live_gives_it_up_at_once() -> None:
    world = World()
    notification = world.make(lasting=True)
    world.put(notification)
    world.due()
    outcome = world.answer(notification, replace(RETRY, retry_after=3_600.0))
    assert losses(outcome) == [(notification.id, Loss.EXPIRED)]
    assert outcome.changes == (DropNotification(notification.id),)


def test_what_fails_keeps_its_place() -> None:
    world = World()
    first, second = world.make(), world.make()
    world.put(first, second)
    world.due()
    world.answer(first, RETRY)
    world.now = 9_000
    assert world.due() == [first]


def test_devices_that_failed_together_come_back_apart() -> None:
    world = World()
    times = set()
    for n in range(20):
        device = registered(world.rules, f"token-3{n}")
        world.subscriptions[device.id] = activated(world.rules, device, activation()).id
        world.put(world.make(device.id))
    for each in world.due():
        world.answer(each, RETRY)
        times.add(world.sender._lines[each.device].not_before)
    assert len(times) > 10


def test_what_waits_too_long_expires() -> None:
    world = World()
    first, second, third = world.make(), world.make(lasting=True), world.make()
    world.put(first, second)
    world.due()
    world.now = 5_000
    third = world.make()
    world.put(third)
    world.now = 11_000
    world.answer(first, ACCEPTED)
    round = world.sender.due(world.now)
    assert [each for each, _ in round.send] == [third]
    assert losses(round.outcome) == [(second.id, Loss.EXPIRED)]
    assert round.outcome.changes == (DropNotification(second.id),)


# -- devices that are gone --------------------------------------------------------------------------------------------


def test_a_device_that_is_gone_is_to_be_suspended_and_sends_nothing() -> None:
    world = World()
    lasting, passing = world.make(lasting=True), world.make()
    world.put(lasting, passing)
    world.due()
    outcome = world.answer(lasting, GONE)
    assert outcome.gone == Gone(world.one.id, KEY.token, "unregistered")
    assert (losses(outcome), outcome.changes) == ([(passing.id, Loss.GONE)], ())
    world.now += 200
    # Before it is suspended, and after.
    assert world.due() == []
    world.persist(world.rules.suspend(world.one.id, KEY.token, world.now).changes)
    assert world.due() == []
    assert world.sender.next_due() == lasting.expires_millis
    assert world.sender.waiting(world.one.id) == (lasting,)


def test_what_lasts_keeps_its_order_while_the_device_is_away() -> None:
    world = World()
    first, second = world.make(lasting=True), world.make(lasting=True)
    world.put(first, second)
    world.due()
    world.answer(first, GONE)
    assert world.sender.waiting(world.one.id) == (first, second)


@pytest.mark.parametrize("new_token", [None, "token-9"])
def test_what_lasts_is_sent_when_the_device_is_registered_again(new_token: str | None) -> None:
    world = World()
    notification = world.make(lasting=True)
    world.put(notification)
    world.due()
    world.answer(notification, GONE)
    world.persist(world.rules.suspend(world.one.id, KEY.token, world.now).changes)
    world.now += 500
    world.due()
    world.persist(world.rules.register(KEY, new_token, world.now).changes)
    ((sent, device),) = world.sender.due(world.now).send
    assert (sent, device.key.token) == (notification, new_token or KEY.token)


def test_what_lasts_is_given_up_if_the_device_does_not_come_back() -> None:
    world = World()
    notification = world.make(lasting=True)
    world.put(notification)
    world.due()
    world.answer(notification, GONE)
    world.persist(world.rules.suspend(world.one.id, KEY.token, world.now).changes)
    world.now = notification.expires_millis
    outcome = world.sender.due(world.now).outcome
    assert losses(outcome) == [(notification.id, Loss.EXPIRED)]
    assert world.sender.next_due() is None


def test_a_token_that_was_changed_meanwhile_suspends_nothing() -> None:
    world = World()
    notification = world.make()
    world.put(notification)
    world.due()
    world.persist(world.rules.register(KEY, "token-9", world.now).changes)
    assert world.answer(notification, GONE) == Outcome()
    world.now += 100
    ((sent, device),) = world.sender.due(world.now).send
    assert (sent, device.key.token) == (notification, "token-9")


def test_a_suspended_device_loses_what_does_not_last() -> None:
    world = World()
    lasting, passing = world.make(lasting=True), world.make()
    world.put(lasting, passing)
    world.persist((SaveDevice(replace(world.one, status=DeviceStatus.SUSPENDED)),))
    round = world.sender.due(world.now)
    assert (round.send, losses(round.outcome)) == ((), [(passing.id, Loss.GONE)])


def test_lasting_notifications_move_when_two_devices_become_one() -> None:
    world = World()
    flying, waiting, passing = (world.make(world.two.id, lasting=n < 2) for n in range(3))
    world.put(flying, waiting, passing)
    world.due()
    decision = world.rules.register(KEY, "token-2", world.now, world.sender.waiting)
    world.persist(decision.changes)
    assert world.answer(flying, ACCEPTED) == Outcome()
    assert [each.id for each in world.sender.waiting(world.one.id)] == [flying.id, waiting.id]
    ((sent, device),) = world.sender.due(world.now).send
    assert (sent, device.key.token) == (replace(flying, device=world.one.id), "token-2")


# -- credentials ------------------------------------------------------------------------------------------------------


def test_wrong_credentials_hold_the_application_back_and_say_so() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first)
    world.due()
    assert world.answer(first, CREDENTIALS) == Outcome()
    assert world.sender.held == {APPLE: "expired key"}
    world.put(second)
    world.now += 4_999
    assert world.due() == []
    world.put(world.make(world.two.id))
    assert world.due() == []
    assert world.sender.next_due() == 6_000


def test_one_at_a_time_finds_out_whether_credentials_are_good_again() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    assert world.due() == [first, second]
    world.answer(first, CREDENTIALS)
    world.answer(second, CREDENTIALS)
    world.now += 200
    assert world.due() == []
    world.now = 6_000
    assert world.due() == [first]
    assert world.sender.next_due() is None
    world.answer(first, CREDENTIALS)
    world.now = 10_999
    assert world.due() == []
    assert world.sender.next_due() == 11_000


@pytest.mark.parametrize(("handover", "good"), [(ACCEPTED, True), (REFUSED, True), (GONE, True), (RETRY, False)])
def test_an_answer_about_the_notification_shows_that_credentials_are_good(handover: Handover, good: bool) -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    for each in world.due():
        world.answer(each, CREDENTIALS)
    world.now += 200
    world.due()
    world.now = 6_000
    assert world.due() == [first]
    world.answer(first, handover)
    assert world.sender.held == ({} if good else {APPLE: "expired key"})
    # If not, the other one is tried.
    assert world.due() == [second]


def test_new_credentials_release_the_application_at_once() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    for each in world.due():
        world.answer(each, CREDENTIALS)
    world.now += 200
    world.due()
    world.sender.mended(APPLE, world.now)
    assert world.sender.held == {}
    assert world.due() == [first, second]
    world.sender.mended(APPLE, world.now)


def test_a_device_that_is_held_back_still_gets_one_at_a_time() -> None:
    world = World()
    first = world.make()
    world.put(first)
    world.due()
    world.answer(first, CREDENTIALS)
    world.now += 200
    assert world.due() == []
    for _ in range(2):
        world.put(world.make())
        assert world.due() == []
    assert len(world.sender._held[APPLE].lines) == 1
    world.sender.mended(APPLE, world.now)
    assert world.due() == [first]


def test_what_expires_while_it_is_held_back_is_told() -> None:
    world = World()
    first, second = world.make(lasting=True), world.make(world.two.id)
    world.put(first, second)
    for each in world.due():
        world.answer(each, CREDENTIALS)
    world.now += 200
    world.due()
    world.now = 11_000
    round = world.sender.due(world.now)
    assert (round.send, losses(round.outcome)) == ((), [(first.id, Loss.EXPIRED), (second.id, Loss.EXPIRED)])
    assert world.sender.next_due() is None


def test_a_probe_whose_device_is_dropped_does_not_block_the_others() -> None:
    world = World()
    first, second = world.make(), world.make(world.two.id)
    world.put(first, second)
    for each in world.due():
        world.answer(each, CREDENTIALS)
    world.now += 200
    world.due()
    world.now = 6_000
    assert world.due() == [first]
    world.persist((DropDevice(world.one.id),))
    world.answer(first, RETRY)
    assert world.due() == [second]
