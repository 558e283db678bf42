"""An erasure in the data directory that the hubs of a cluster share: none of them may be active meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.config import Config, load
from penstock.erasure.erasure import erasure_in
from penstock.services.errors import StartError
from penstock.store.hub_lease import HubLease
from penstock.store.opening import open_store
from penstock.store.store import Store
from tests.erasure.world import PERSON, Data, leftovers
from tests.store.postgres import Postgres

# PostgreSQL is started; the machine may be busy.
pytestmark = pytest.mark.timeout(300)

NAME = "plant"
MILLIS = 600_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def store(postgres: Postgres) -> Iterator[Store]:
    opened = open_store(postgres.url, None)
    yield opened
    opened.close()


@pytest.fixture
def config(postgres: Postgres, tmp_path: Path) -> Config:
    settings = {
        "server.data_dir": str(tmp_path / "data"),
        "server.node": "eraser",
        "cluster.role": "hub",
        "cluster.nats": ["nats://127.0.0.1:4222"],
        "cluster.name": NAME,
        "cluster.store": postgres.url,
        "cluster.lease_millis": MILLIS,
    }
    return load(None, settings).config


def lease_of(node: str) -> HubLease:
    return HubLease(NAME, node, f"run-of-{node}", __version__, MILLIS)


def test_an_active_hub_keeps_the_erasure_away_so_nothing_begins(config: Config, store: Store, tmp_path: Path) -> None:
    data = Data(tmp_path / "data")
    hub = lease_of("hub-1")
    assert hub.take(store.engine) is None
    try:
        with pytest.raises(StartError) as refused, erasure_in(config):
            pytest.fail("a hub is active")
        assert str(refused.value) == "the hub hub-1 is active; stop all hubs first"
    finally:
        hub.give_up(store.engine)
    assert leftovers(data.root)
    # It has let go of the directory, and of the lease.
    with erasure_in(config) as erasure:
        assert erasure.unfinished() is None


def test_no_hub_becomes_active_during_an_erasure_and_one_does_after_it(
    config: Config, store: Store, tmp_path: Path
) -> None:
    data = Data(tmp_path / "data")
    with erasure_in(config) as erasure:
        holder = lease_of("hub-2").take(store.engine)
        assert holder is not None
        assert holder.node == "eraser"
        counts = erasure.count(PERSON)
        assert counts == dict.fromkeys(PERSON, 30)
        erasure.finish(erasure.begin(counts, "root", ""))
    assert leftovers(data.root) == []
    hub = lease_of("hub-2")
    assert hub.take(store.engine) is None
    hub.give_up(store.engine)


def test_an_erasure_whose_lease_has_run_out_is_not_begun(config: Config, tmp_path: Path) -> None:
    Data(tmp_path / "data")
    with erasure_in(config) as erasure:
        assert erasure._lease is not None
        erasure._lease._stopwatch = lambda: float("inf")
        with pytest.raises(StartError) as late:
            erasure.begin(dict.fromkeys(PERSON, 30), "root", "")
        assert str(late.value) == "another hub may have become active in the meantime; try again, with --yes"
        assert erasure.unfinished() is None
