"""The fence around a database: a hub that another has followed reads it, and writes nothing more into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.exchange.authorization import Role
from penstock.store.errors import CannotOpen, Ousted
from penstock.store.hub_lease import HubLease
from penstock.store.opening import open_store
from penstock.store.push import PushStore
from penstock.store.records import SessionLog
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import TlcType
from tests.store.devices import device, everything

ENDED = SessionLog("id", "account", "domain", "type", "protocol", (), 1, None, 2, "reason")


class Time:
    """Of the database and of both hubs, in seconds."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def lease(self, run: str) -> HubLease:
        return HubLease("c", "n", run, "1.0", 10_000, lambda _: int(self.seconds * 1000), lambda: self.seconds)


class Hubs:
    """Two, of which the second takes over from the first when the test wants it; the lease is in the same database as
    what they write, or in another.
    """

    def __init__(self, url: str, lease_url: str) -> None:
        self._url = url
        self.time = Time()
        self._at = Store.open(lease_url)
        self._leases = [self.time.lease("1"), self.time.lease("2")]
        assert self._leases[0].take(self._at.engine) is None
        self._stores = [Store.open(url, self._leases[0])]

    @property
    def old(self) -> Store:
        return self._stores[0]

    def renew(self) -> None:
        self._leases[0].renew(self._at.engine)

    def take_over(self) -> Store:
        self.time.seconds += 60
        assert self._leases[1].take(self._at.engine) is None
        return self.enter()

    def enter(self, number: int = 1) -> Store:
        self._stores.append(Store.open(self._url, self._leases[number]))
        return self._stores[-1]

    def close(self) -> None:
        for each in (*self._stores, self._at):
            each.close()


@pytest.fixture(params=["together", "apart"])
def hubs(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[Hubs]:
    made = Hubs(url, url if request.param == "together" else f"sqlite:///{tmp_path / 'leases.db'}")
    yield made
    made.close()


WRITES: dict[str, Callable[[Store, PushStore], object]] = {
    "account": lambda store, push: store.add_account("other"),
    "removal": lambda store, push: store.remove_account(store.account("one").uuid),
    "authorization": lambda store, push: store.authorize(store.account("one").uuid, "d", Role.BROKER_SYSTEM),
    "controller": lambda store, push: store.add_tlc("d", "12345678", TlcType.VLOG, store.account("one").uuid),
    "sessions": lambda store, push: store.log_sessions([ENDED]),
    "forgetting": lambda store, push: store.forget_sessions(5),
    "join": lambda store, push: PushStore.join(store, "n"),
    "renewal": lambda store, push: push.renew(),
    "devices": lambda store, push: push.write(everything(device("d2"))),
    "claim": lambda store, push: push.claim("d1"),
    "adopt": lambda store, push: push.adopt(),
    "release": lambda store, push: push.release(["d1"]),
    "leave": lambda store, push: push.leave(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_hub_that_was_followed_writes_nothing_more(hubs: Hubs, write: Callable[[Store, PushStore], object]) -> None:
    hubs.old.add_account("one")
    push = PushStore.join(hubs.old, "n")
    push.write(everything(device("d1")))
    new = hubs.take_over()
    followed = PushStore.join(new, "n")
    with pytest.raises(Ousted, match="another hub"):
        write(hubs.old, push)
    # The next one has all of it as it was, also its devices, and goes on.
    assert [each.id for each in followed.load().devices] == ["d1"]
    assert [each.name for each in new.accounts()] == ["one"]
    new.log_sessions([ENDED])
    followed.write(everything(device("d3")))
    # To look is no harm.
    assert [each.name for each in hubs.old.accounts()] == ["one"]


def test_a_hub_that_may_not_go_on_serves_no_devices(hubs: Hubs) -> None:
    push = PushStore.join(hubs.old, "n", 60_000, stopwatch=lambda: hubs.time.seconds)
    assert push.lease_left() > 0
    hubs.time.seconds += 9.5
    assert push.lease_left() <= 0


def test_a_hub_that_comes_too_late_does_not_open_a_database(hubs: Hubs, url: str) -> None:
    hubs.take_over()
    with pytest.raises(Ousted, match="another hub"):
        hubs.enter(0)
    with pytest.raises(CannotOpen, match="another hub"):
        open_store(url, None, hubs._leases[0])


# SQLite has one transaction at a time that writes.
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_the_next_hub_waits_for_a_transaction_that_is_under_way_and_sees_it(url: str) -> None:
    hubs = Hubs(url, url)
    hubs.time.seconds += 60
    with ThreadPoolExecutor(1) as thread:
        with hubs.old.engine.begin() as connection:
            # A lease that is in the same database is not taken meanwhile either, nor waited for.
            assert hubs._leases[1].take(hubs._at.engine) is not None
            hubs._leases[1].epoch = hubs._leases[0].epoch + 1
            entering = thread.submit(hubs.enter)
            with pytest.raises(TimeoutError):
                entering.result(0.5)
            connection.exec_driver_sql("INSERT INTO accounts VALUES ('u', 'late')")
        assert [each.name for each in entering.result(30).accounts()] == ["late"]
    with pytest.raises(Ousted):
        hubs.old.add_account("later")
    hubs.close()


# SQLite has one transaction at a time that writes.
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_long_transaction_does_not_keep_the_lease_from_being_renewed(url: str) -> None:
    hubs = Hubs(url, url)
    with hubs.old.engine.begin():
        hubs.time.seconds += 5
        hubs.renew()
    hubs.close()
