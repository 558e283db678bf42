"""What a cluster promises when two of its parts fail, or one is frozen: processes, with clients that stay with it.

Hubs, edges, the NATS server and PostgreSQL are killed in pairs, at once and one after another, and are frozen until the
others have gone on without them. One fault at a time is in test_cluster.py; most of these run by `make
test-cluster-long`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from penstock.store.lease import database_clock
from penstock.store.schema import hub_leases
from tests.support.cluster_nodes import ClusterOfNodes
from tests.support.followers import PRICE, EveryEvent, checksum
from tests.support.trial import NATS, POSTGRES, Trial
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(400)

long = pytest.mark.cluster_long

PAIRS = [
    ("h1", "e1"),
    ("h1", "h2"),
    (NATS, "h1"),
    (NATS, POSTGRES),
    ("e1", NATS),
    (POSTGRES, "h1"),
    ("e1", "h2"),
    ("e1", POSTGRES),
    ("e1", "e2"),
    ("h2", NATS),
    ("h2", POSTGRES),
]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ClusterOfNodes(tmp_path) as cluster, Trial(cluster) as trial:
        yield trial


def named(pair: tuple[str, str]) -> str:
    return "-".join(pair)


@pytest.mark.parametrize(
    "pair",
    [pytest.param(each, marks=() if each == ("h1", "h2") else long) for each in PAIRS],
    ids=named,
)
def test_two_parts_are_killed_at_once(trial: Trial, pair: tuple[str, str]) -> None:
    for part in pair:
        trial.kill(part)
    for part in pair:
        trial.start(part)
    trial.judge()


@pytest.mark.parametrize(
    "pair",
    [pytest.param(each, marks=() if each == (NATS, POSTGRES) else long) for each in PAIRS],
    ids=named,
)
def test_two_parts_are_killed_one_after_another(trial: Trial, pair: tuple[str, str]) -> None:
    first, second = pair
    trial.kill(first)
    trial.until_felt(first)
    trial.kill(second)
    # The last that went is the first that comes back.
    trial.start(second)
    trial.start(first)
    trial.judge()


PARTS = ["h1", "h2", "e1", NATS, POSTGRES]


@pytest.mark.parametrize("part", [pytest.param(each, marks=() if each == POSTGRES else long) for each in PARTS[1:]])
def test_a_part_is_frozen_until_the_others_have_gone_on_without_it(trial: Trial, part: str) -> None:
    trial.freeze(part)
    trial.until_felt(part)
    trial.resume(part)
    trial.judge()


@long
def test_a_standby_that_was_frozen_while_the_active_hub_was_killed_takes_over(trial: Trial) -> None:
    trial.freeze("h2")
    trial.kill("h1")
    # As long as it takes for the lease to end: nobody is there to take it.
    wait_until(lambda: not has_hub(trial), "no lease")
    trial.resume("h2")
    trial.cluster["h2"].wait_until_ready()
    trial.start("h1")
    trial.judge()


def has_hub(trial: Trial) -> bool:
    """Whether the lease is anybody's."""
    engine = create_engine(trial.cluster.postgres.url)
    try:
        with engine.connect() as connection:
            until = connection.execute(select(hub_leases.c.alive_until)).scalar_one_or_none()
            return until is not None and until > database_clock(connection)
    finally:
        engine.dispose()


@long
def test_a_hub_that_wakes_up_believes_that_it_is_active_and_nothing_comes_of_it(trial: Trial) -> None:
    old = trial.cluster["h1"]
    trial.freeze("h1")
    with ThreadPoolExecutor(8) as threads:
        # They wait for the hub; what they publish is older than what anybody has, so it would be noticed.
        late = [threads.submit(old.publish, PRICE, PATIENCE, last="1", check=checksum(1)) for _ in range(8)]
        trial.until_felt("h1")
        trial.resume("h1")
        assert [each.result() for each in late] == [False] * 8
    wait_until(lambda: "this hub stands by again" in old.log, "h1 stands by")
    trial.judge()


@long
@pytest.mark.parametrize("part", ["h1", NATS, POSTGRES])
def test_who_wants_every_event_is_told_of_those_that_a_frozen_part_has_cost(tmp_path: Path, part: str) -> None:
    with ClusterOfNodes(tmp_path, edges=["e1"]) as cluster, Trial(cluster, with_log=True) as trial:
        follower = EveryEvent(cluster["e1"], trial.publisher)
        follower.start()
        number = trial.publisher.until_more()
        wait_until(lambda: follower.raw >= number and len(follower.log) > 1, "every event")
        trial.freeze(part)
        trial.until_felt(part)
        trial.resume(part)
        # Its edge has to be back before the last event is published: what comes earlier is lost to it, and it is told.
        trial.all_have(trial.publisher.until_more())
        number = trial.publisher.until_more()
        wait_until(lambda: follower.raw >= number, f"{number} in RAW mode")
        trial.judge()
        last = trial.publisher.acknowledged[-1], trial.publisher.logged[-1]
        wait_until(lambda: (follower.raw, follower.log[-1]) >= last, f"{last} at {follower.raw}, {follower.log[-1:]}")
        follower.stop()
        follower.judge()
        # Another hub does not know how many there were.
        assert follower.lost > 0


@long
@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_frozen_for_a_minute(tmp_path: Path, part: str) -> None:
    with ClusterOfNodes(tmp_path, lease_millis=10_000) as cluster, Trial(cluster) as trial:
        trial.freeze(part)
        time.sleep(60)
        trial.resume(part)
        trial.judge()


FROZEN = [
    ("h1", "e1"),
    ("h1", NATS),
    (POSTGRES, NATS),
    ("e1", "h2"),
    (POSTGRES, "e1"),
    ("h2", NATS),
    (POSTGRES, "h2"),
]


@long
@pytest.mark.parametrize("pair", FROZEN, ids=named)
def test_two_parts_are_frozen_and_one_wakes_up_before_the_other(trial: Trial, pair: tuple[str, str]) -> None:
    first, second = pair
    trial.freeze(first)
    trial.freeze(second)
    trial.until_felt(POSTGRES if first == POSTGRES else second)
    trial.resume(second)
    trial.resume(first)
    trial.judge()


@long
def test_all_edges_are_frozen_until_the_hub_has_given_them_up(trial: Trial) -> None:
    for edge in trial.cluster.edges:
        trial.freeze(edge)
    wait_until(lambda: trial.cluster["h1"].log.count("edge does not answer") == 2, "the hub has given them up")
    for edge in trial.cluster.edges:
        trial.resume(edge)
    trial.judge()


@long
@pytest.mark.parametrize("fault", [Trial.kill, Trial.freeze], ids=["killed", "frozen"])
def test_what_a_hub_has_acknowledged_at_last_is_told_by_the_next_one(
    trial: Trial, fault: Callable[[Trial, str], None]
) -> None:
    trial.publisher.until_more()
    trial.publisher.stop()
    fault(trial, "h1")
    trial.cluster["h2"].wait_until_ready()
    trial.judge_at_rest()
