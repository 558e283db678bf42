from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine

from penstock.store import schema
from penstock.store.errors import Ousted
from penstock.store.hub_lease import HubHolder, HubLease
from penstock.store.store import Store
from tests.support.effort import tries

MILLIS = 10_000


class Time:
    """Of the database and of all hubs, in seconds."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def database(self, connection: Connection) -> int:
        return int(self.seconds * 1000)

    def elapsed(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def make(time: Time) -> Callable[[str], HubLease]:
    def made(run: str) -> HubLease:
        return HubLease("c", f"node-{run}", run, "1.0", MILLIS, time.database, time.elapsed)

    return made


def test_of_two_hubs_one_is_active_and_the_other_is_told_who(
    store: Store, make: Callable[[str], HubLease], time: Time
) -> None:
    first, second = make("1"), make("2")
    assert first.take(store.engine) is None
    assert second.take(store.engine) == HubHolder("node-1", "1.0", 10.0)
    assert 0 < first.left() < 10.0
    assert second.left() < 0


def test_another_takes_over_when_the_lease_has_run_out_and_not_before(
    store: Store, make: Callable[[str], HubLease], time: Time
) -> None:
    first, second = make("1"), make("2")
    first.take(store.engine)
    time.seconds += 9.999
    assert first.left() <= 0
    assert second.take(store.engine) is not None
    time.seconds += 0.001
    assert second.take(store.engine) is None
    assert second.epoch > first.epoch


def test_a_hub_that_renews_stays_active(store: Store, make: Callable[[str], HubLease], time: Time) -> None:
    first, second = make("1"), make("2")
    first.take(store.engine)
    epoch = first.epoch
    for _ in range(10):
        time.seconds += 8
        first.renew(store.engine)
        assert second.take(store.engine) is not None
    assert first.left() > 0
    assert first.epoch == epoch


def test_a_hub_that_comes_too_late_has_lost_even_if_nobody_else_was_there(
    store: Store, make: Callable[[str], HubLease], time: Time
) -> None:
    first = make("1")
    first.take(store.engine)
    time.seconds += 9.5
    with pytest.raises(Ousted, match="lease expired"):
        first.renew(store.engine)
    assert first.left() <= 0


def test_an_old_owner_can_neither_renew_nor_write_nor_give_up_what_is_anothers(
    store: Store, make: Callable[[str], HubLease], time: Time
) -> None:
    first, second = make("1"), make("2")
    first.take(store.engine)
    time.seconds += 60
    second.take(store.engine)
    with pytest.raises(Ousted, match="another hub has taken over"):
        first.renew(store.engine)
    with pytest.raises(Ousted), store.engine.begin() as connection:
        first.hold(connection)
    first.give_up(store.engine)
    second.renew(store.engine)
    with store.engine.begin() as connection:
        second.hold(connection)


def test_a_lease_that_is_given_up_is_free_at_once_and_epochs_still_grow(
    store: Store, make: Callable[[str], HubLease]
) -> None:
    first, second = make("1"), make("2")
    first.take(store.engine)
    first.give_up(store.engine)
    assert first.left() <= 0
    assert second.take(store.engine) is None
    assert second.epoch == first.epoch + 1


def test_two_hubs_of_the_same_name_are_two(store: Store, time: Time) -> None:
    first, second = (HubLease("c", "same", run, "1.0", MILLIS, time.database, time.elapsed) for run in ("1", "2"))
    assert first.take(store.engine) is None
    assert second.take(store.engine) == HubHolder("same", "1.0", 10.0)


def test_clusters_do_not_know_one_another(store: Store, time: Time) -> None:
    first, second = (HubLease(name, "n", "1", "1.0", MILLIS, time.database, time.elapsed) for name in ("a", "b"))
    assert first.take(store.engine) is None
    assert second.take(store.engine) is None


def test_of_many_that_take_it_at_once_one_has_it(url: str) -> None:
    stores = [Store.open(url) for _ in range(8)]
    leases = [HubLease("c", "n", str(number), "1.0", 60_000) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda pair: pair[0].take(pair[1].engine), zip(leases, stores, strict=True)))
    assert taken.count(None) == 1
    assert sum(lease.left() > 0 for lease in leases) == 1
    for store in stores:
        store.close()


@settings(max_examples=tries(60))
@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "renew", "give up", "wait"]), st.integers(0, 2), st.floats(0, 12)),
        max_size=40,
    )
)
def test_never_are_two_active_and_epochs_grow(steps: list[tuple[str, int, float]]) -> None:
    engine = create_engine("sqlite://")
    schema.metadata.create_all(engine)
    time = Time()
    leases = [HubLease("c", "n", str(number), "1.0", MILLIS, time.database, time.elapsed) for number in range(3)]
    epochs: list[int] = []
    for what, which, seconds in steps:
        lease = leases[which]
        if what == "take" and lease.left() <= 0:
            if lease.take(engine) is None:
                epochs.append(lease.epoch)
        elif what == "renew" and lease.left() > 0:
            lease.renew(engine)
        elif what == "give up" and lease.left() > 0:
            lease.give_up(engine)
        elif what == "wait":
            time.seconds += seconds
        assert sum(each.left() > 0 for each in leases) <= 1
    assert epochs == sorted(set(epochs))
    engine.dispose()
