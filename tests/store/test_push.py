"""Devices in a database that nodes share: what was written is there, and each device has one owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from secrets import token_hex

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import DBAPIError

from penstock.push.records import (
    DeviceKey,
    DeviceStatus,
    DropDevice,
    DropNotification,
    DropSubscription,
    Flow,
    Platform,
    SaveDevice,
    SubscriptionStatus,
)
from penstock.store import schema
from penstock.store.errors import AlreadyExists, BadName, Deposed, NoSuchRecord, NotOwner
from penstock.store.lease import LEASE_MILLIS, MARGIN, RENEW_SECONDS
from penstock.store.push import FoundDevice, LoadedDevices, PushStore
from penstock.store.store import IDLE_SECONDS, Store
from tests.store.devices import MovedClock, device, everything, notification, subscription
from tests.store.postgres import Postgres

LEASE = LEASE_MILLIS / 1000
NOTHING = LoadedDevices((), (), ())


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def join(store: Store, clock: MovedClock) -> Callable[[str], PushStore]:
    """Makes a node by its name."""
    return lambda name: PushStore.join(store, name, clock=clock, stopwatch=clock.stopwatch)


@pytest.fixture
def one(join: Callable[[str], PushStore]) -> PushStore:
    return join("one")


@pytest.fixture
def two(join: Callable[[str], PushStore]) -> PushStore:
    return join("two")


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_everything_comes_back_as_it_was_written(one: PushStore) -> None:
    devices = [
        device("d1"),
        replace(
            device("d2"),
            key=DeviceKey(Platform.WEB, "é 😀", '{"endpoint":"https://push.example/1"}'),
            status=DeviceStatus.SUSPENDED,
            badge=1 << 40,
        ),
    ]
    flow = Flow("", "A", 'x "y" \\', "é", "DISTINCT", ("",), ("a b", "\0"))
    subscriptions = [
        subscription("s1", "d1"),
        replace(
            subscription("s2", "d2", None),
            flow=flow,
            format='{"😀":"\\u0000"}',
            buffer_size=None,
            max_frequency=None,
            status=SubscriptionStatus.TRIGGERED,
        ),
        replace(subscription("s3", "d2"), trigger="", max_frequency=0.1),
    ]
    notifications = [notification("n1", "d1", "s1"), replace(notification("n2", "d2", "gone"), lasting=False)]
    one.write(everything(*devices, *subscriptions, *notifications))
    assert one.load() == LoadedDevices(tuple(devices), tuple(subscriptions), tuple(notifications))


def test_subscriptions_that_are_alike_share_their_texts_after_loading(one: PushStore) -> None:
    one.write(everything(device("d1"), *[subscription(f"s{number}", "d1") for number in range(3)]))
    found = one.load().subscriptions
    assert len({id(each.flow) for each in found}) == 1
    assert len({id(each.format) for each in found}) == 1
    assert len({id(each.trigger) for each in found}) == 1


def test_the_last_change_counts(one: PushStore) -> None:
    one.write(everything(device("d1", badge=1), subscription("s1", "d1"), notification("n1", "d1"), device("d1")))
    one.write([*everything(device("d1", badge=3)), *everything(device("d1", badge=4)), DropSubscription("s1")])
    one.write([DropNotification("n1"), *everything(notification("n2", "d1")), DropNotification("n2")])
    assert one.load() == LoadedDevices((device("d1", badge=4),), (), ())


def test_a_device_takes_its_subscriptions_and_notifications_along(one: PushStore) -> None:
    one.write(everything(device("d1"), device("d2"), subscription("s1", "d1"), notification("n1", "d1")))
    one.write([*everything(subscription("s2", "d1"), notification("n2", "d1")), DropDevice("d1")])
    assert one.load() == LoadedDevices((device("d2"),), (), ())
    one.write([DropDevice("d2"), *everything(device("d2", badge=1), subscription("s3", "d2"))])
    assert one.load() == LoadedDevices((device("d2", badge=1),), (subscription("s3", "d2"),), ())


def test_what_a_subscription_has_fired_outlives_it(one: PushStore) -> None:
    one.write(everything(device("d1"), subscription("s1", "d1"), notification("n1", "d1", "s1")))
    one.write([DropSubscription("s1")])
    assert one.load().notifications == (notification("n1", "d1", "s1"),)


def test_nothing_to_write_and_nothing_to_drop_is_fine(one: PushStore) -> None:
    one.write([])
    one.write([DropDevice("x"), DropSubscription("x"), DropNotification("x")])
    assert one.load() == NOTHING


def test_a_device_gets_another_token_and_keeps_what_it_has(one: PushStore) -> None:
    one.write(everything(device("d1", "old"), subscription("s1", "d1")))
    one.write(everything(device("d1", "new")))
    assert one.find(device("", "old").key) is None
    assert one.find(device("", "new").key) == FoundDevice("d1", "one")
    assert one.load().subscriptions == (subscription("s1", "d1"),)


def test_devices_can_exchange_tokens_in_one_go(one: PushStore) -> None:
    one.write(everything(device("d1", "a"), device("d2", "b"), device("d3", "c")))
    one.write([*everything(device("d1", "b"), device("d2", "a")), DropDevice("d3"), *everything(device("d4", "c"))])
    assert [(each.id, each.key.token) for each in one.load().devices] == [("d1", "b"), ("d2", "a"), ("d4", "c")]


def test_a_token_of_another_device_is_refused_without_being_told(one: PushStore) -> None:
    one.write(everything(device("d1", "a"), device("d2", "b")))
    for wrong in (device("d3", "a"), device("d2", "a")):
        with pytest.raises(AlreadyExists, match="platform, application and token exists already") as caught:
            one.write(everything(device("d1", "a", badge=7), wrong))
        assert caught.value.__suppress_context__
    assert one.load().devices == (device("d1", "a"), device("d2", "b"))


def test_tokens_may_be_long(one: PushStore) -> None:
    token = token_hex(20_000)
    one.write(everything(device("d1", token)))
    assert one.find(device("", token).key) == FoundDevice("d1", "one")
    assert one.find(device("", token[:-1]).key) is None


def test_the_parts_of_a_key_are_told_apart(one: PushStore) -> None:
    one.write([SaveDevice(replace(device("d1"), key=DeviceKey(Platform.WEB, "ab", "c")))])
    assert one.find(DeviceKey(Platform.WEB, "a", "bc")) is None
    assert one.find(DeviceKey(Platform.APPLE, "ab", "c")) is None


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_text_that_cannot_be_stored_is_refused(one: PushStore, text: str) -> None:
    one.write(everything(device("d1")))
    with pytest.raises(BadName, match="token: a text with NUL characters or unpaired surrogates"):
        one.write(everything(device("d2", text)))
    with pytest.raises(BadName, match="trigger: "):
        one.write(everything(subscription("s1", "d1", text)))
    assert one.find(device("", text).key) is None
    assert one.load() == LoadedDevices((device("d1"),), (), ())


def test_a_subscription_of_no_device_is_refused(one: PushStore) -> None:
    with pytest.raises(NoSuchRecord, match="Device d1 does not exist"):
        one.write(everything(device("d2"), subscription("s1", "d1")))
    one.write(everything(device("d1")))
    with pytest.raises(NoSuchRecord, match="Device d1 does not exist"):
        one.write([DropDevice("d1"), *everything(notification("n1", "d1"))])
    assert one.load() == LoadedDevices((device("d1"),), (), ())


# -- the lease --------------------------------------------------------------------------------------------------------


def test_a_lease_ends_earlier_for_its_node_than_for_others(one: PushStore, clock: MovedClock) -> None:
    assert one.lease_left() == pytest.approx(LEASE * (1 - MARGIN))
    clock.move(RENEW_SECONDS)
    assert one.lease_left() == pytest.approx(LEASE * (1 - MARGIN) - RENEW_SECONDS)
    one.renew()
    assert one.lease_left() == pytest.approx(LEASE * (1 - MARGIN))
    clock.move(LEASE)
    assert one.lease_left() < 0


def test_two_renewals_may_fail() -> None:
    assert 3 * RENEW_SECONDS < LEASE * (1 - MARGIN)


def test_the_time_that_the_database_takes_is_not_served(store: Store, clock: MovedClock) -> None:
    def slow(_connection: object) -> int:
        clock.move(5)
        return clock.millis

    node = PushStore.join(store, "one", clock=slow, stopwatch=clock.stopwatch)
    assert node.lease_left() == pytest.approx(LEASE * (1 - MARGIN) - 5)
    node.renew()
    assert node.lease_left() == pytest.approx(LEASE * (1 - MARGIN) - 5)


def test_a_node_whose_lease_ran_out_goes_on_if_nobody_has_taken_anything(one: PushStore, clock: MovedClock) -> None:
    one.write(everything(device("d1")))
    clock.move(10 * LEASE)
    one.write(everything(device("d1", badge=1)))
    assert one.renew() == []
    assert one.lease_left() > 0
    assert one.load().devices == (device("d1", badge=1),)


def test_the_clock_of_the_database_is_used_by_default(store: Store) -> None:
    node = PushStore.join(store, "one")
    assert 0 < node.lease_left() <= LEASE * (1 - MARGIN)
    assert node.renew() == []
    assert PushStore.join(store, "two").adopt() == NOTHING


# -- whose devices ----------------------------------------------------------------------------------------------------


def test_devices_of_another_node_cannot_be_written(one: PushStore, two: PushStore) -> None:
    first, second = device("d1"), device("d2")
    one.write(everything(first, subscription("s1", "d1"), notification("n1", "d1")))
    two.write(everything(second))
    before = one.load()
    for changes in (
        everything(replace(first, badge=1)),
        [DropDevice("d1")],
        [DropSubscription("s1")],
        [DropNotification("n1")],
        everything(subscription("s2", "d1")),
        everything(notification("n2", "d1")),
    ):
        with pytest.raises(NotOwner) as caught:
            two.write([*everything(replace(second, badge=9)), *changes])
        assert not isinstance(caught.value, Deposed)
        assert caught.value.devices == {"d1"}
    assert one.load() == before
    assert two.load().devices == (second,)


def test_a_device_that_a_living_node_serves_is_asked_for_and_released(one: PushStore, two: PushStore) -> None:
    saved = everything(device("d1"), subscription("s1", "d1"), notification("n1", "d1"))
    one.write([*saved, *everything(device("d2"))])
    assert two.find(device("d1").key) == FoundDevice("d1", "one")
    assert two.claim("d1") is None
    assert two.adopt() == NOTHING
    assert one.renew() == ["d1"]
    one.write(everything(device("d1", badge=1)))
    one.release(["d1"])
    assert one.renew() == []
    assert one.adopt() == NOTHING
    taken = two.adopt()
    assert taken == LoadedDevices((device("d1", badge=1),), (subscription("s1", "d1"),), (notification("n1", "d1"),))
    assert one.load().devices == (device("d2"),)
    assert two.load() == taken
    assert two.claim("d1") == taken


def test_a_device_that_was_released_can_be_claimed_by_anybody_who_needs_it(
    one: PushStore, two: PushStore, join: Callable[[str], PushStore]
) -> None:
    one.write(everything(device("d1")))
    assert two.claim("d1") is None
    one.release(one.renew())
    assert join("three").claim("d1") == LoadedDevices((device("d1"),), (), ())
    assert two.adopt() == NOTHING
    assert two.claim("d1") is None


def test_a_device_that_was_released_for_a_node_that_died_is_taken_by_another(
    one: PushStore, two: PushStore, clock: MovedClock
) -> None:
    one.write(everything(device("d1")))
    assert two.claim("d1") is None
    one.release(one.renew())
    assert one.adopt() == NOTHING
    clock.move(LEASE)
    assert one.adopt().devices == (device("d1"),)


def test_a_device_that_is_released_unasked_is_taken_by_the_next(one: PushStore, two: PushStore) -> None:
    one.write(everything(device("d1")))
    two.release(["d1"])
    assert two.adopt() == NOTHING
    one.release(["d1"])
    assert two.adopt().devices == (device("d1"),)


def test_a_device_that_is_not_there_cannot_be_claimed(one: PushStore) -> None:
    assert one.find(device("d1").key) is None
    with pytest.raises(NoSuchRecord, match="Device d1 does not exist"):
        one.claim("d1")


def test_devices_of_a_dead_node_are_claimed_at_once(one: PushStore, two: PushStore, clock: MovedClock) -> None:
    one.write(everything(device("d1"), device("d2"), subscription("s1", "d1")))
    clock.move(LEASE - 0.001)
    two.renew()
    assert two.claim("d1") is None
    clock.move(0.001)
    assert two.claim("d1") == LoadedDevices((device("d1"),), (subscription("s1", "d1"),), ())
    assert two.adopt().devices == (device("d2"),)


def test_a_node_whose_devices_were_taken_can_do_nothing_until_it_joins_again(
    one: PushStore, two: PushStore, clock: MovedClock, join: Callable[[str], PushStore]
) -> None:
    one.write(everything(device("d1"), device("d2")))
    clock.move(LEASE)
    assert two.claim("d1") is not None
    calls: list[Callable[[], object]] = [
        one.renew,
        one.load,
        one.adopt,
        lambda: one.claim("d2"),
        lambda: one.release(["d2"]),
        lambda: one.write(everything(device("d2", badge=1))),
        lambda: one.write(everything(device("d3"))),
    ]
    for call in calls:
        with pytest.raises(Deposed, match="another node has taken its devices, or its name"):
            call()
    again = join("one")
    # The other one is still its own: nobody had taken it.
    assert again.load().devices == (device("d2"),)
    assert two.load().devices == (device("d1"),)
    with pytest.raises(Deposed):
        one.renew()


def test_a_device_that_others_have_dropped_does_not_come_back(
    one: PushStore, two: PushStore, clock: MovedClock
) -> None:
    one.write(everything(device("d1")))
    clock.move(LEASE)
    two.adopt()
    two.write([DropDevice("d1")])
    with pytest.raises(Deposed):
        one.write(everything(device("d1", badge=1)))
    assert two.find(device("d1").key) is None


def test_a_node_that_starts_again_has_its_devices_at_once(
    one: PushStore, join: Callable[[str], PushStore], clock: MovedClock
) -> None:
    one.write(everything(device("d1")))
    again = join("one")
    assert again.load().devices == (device("d1"),)
    with pytest.raises(Deposed):
        one.write(everything(device("d1", badge=1)))
    assert one.lease_left() <= 0


def test_devices_of_a_node_that_has_left_are_taken_at_once(one: PushStore, two: PushStore) -> None:
    one.write(everything(device("d1")))
    one.leave()
    assert one.lease_left() <= 0
    assert two.adopt().devices == (device("d1"),)
    with pytest.raises(Deposed):
        one.write(everything(device("d2")))


def test_a_node_that_leaves_after_others_have_taken_over_changes_nothing(
    one: PushStore, join: Callable[[str], PushStore]
) -> None:
    again = join("one")
    one.leave()
    assert again.renew() == []


def test_devices_are_adopted_in_portions(one: PushStore, two: PushStore, join: Callable[[str], PushStore]) -> None:
    one.write(everything(*[device(f"d{number:04}") for number in range(2_500)]))
    one.leave()
    three = join("three")
    portions = [two.adopt(1_000), three.adopt(1_000), two.adopt(1_000), three.adopt(1_000)]
    assert [len(each.devices) for each in portions] == [1_000, 1_000, 500, 0]
    assert len({each.id for portion in portions for each in portion.devices}) == 2_500


def test_nodes_that_are_gone_are_forgotten_when_they_have_no_devices(
    store: Store, one: PushStore, two: PushStore, clock: MovedClock, join: Callable[[str], PushStore]
) -> None:
    def nodes() -> list[str]:
        with store.reader.connect() as connection:
            query = select(schema.push_nodes.c.node).order_by(schema.push_nodes.c.node)
            return list(connection.execute(query).scalars())

    one.write(everything(device("d1"), device("d2")))
    clock.move(LEASE)
    two.adopt(1)
    assert nodes() == ["one", "two"]
    two.adopt(1)
    assert nodes() == ["two"]
    with pytest.raises(Deposed):
        one.renew()
    assert join("one").load() == NOTHING


# -- nodes in the middle of a transaction -----------------------------------------------------------------------------


@pytest.fixture
def postgres_store(postgres: Postgres) -> Iterator[Store]:
    engine = create_engine(postgres.url)
    schema.metadata.drop_all(engine)
    engine.dispose()
    store = Store.open(postgres.url)
    yield store
    store.close()


def test_nobody_waits_for_a_node_that_is_frozen_while_it_writes(postgres_store: Store, clock: MovedClock) -> None:
    one, two = [PushStore.join(postgres_store, name, clock=clock, stopwatch=clock.stopwatch) for name in ("one", "two")]
    one.write(everything(device("d1"), device("d2")))
    clock.move(LEASE)
    with postgres_store.engine.connect() as frozen:
        # What it has locked before it writes.
        one._lease.hold(frozen)
        frozen.execute(select(schema.push_devices).where(schema.push_devices.c.id == "d1").with_for_update())
        assert two.renew() == []
        assert two.adopt() == NOTHING
        assert two.claim("d1") is None
        assert two.claim("d2") is None
        frozen.execute(text("SET idle_in_transaction_session_timeout = 1"))
        # PostgreSQL ends it, and what it has locked is free.
        while two.adopt() == NOTHING:
            pass
        # The reason is told, unless the connection is closed before it is read.
        with pytest.raises(DBAPIError, match=r"idle-in-transaction timeout|closed the connection"):
            frozen.execute(text("SELECT 1"))
    assert two.load().devices == (device("d1"), device("d2"))


def test_transactions_that_are_idle_for_long_are_ended(postgres_store: Store) -> None:
    with postgres_store.engine.connect() as connection:
        found = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert found == f"{IDLE_SECONDS}s"
