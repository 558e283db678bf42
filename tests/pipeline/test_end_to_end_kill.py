"""kill -9 of whoever takes part while events go all the way round: server, Spark's driver, JVM, workers, object store.

Numbers come in at the ingest port, are journaled, moved into the lake by `history`, and published again: one by one by
the sink and by a query in SQL, and counted by one with groups. A client is subscribed all the time. In the end journal,
lake, typed table and what was sent agree: each event once, and each count that was ever published right.
`make test-spark PROFILE=long ARGS="-s -k across_the_seam"` kills 200 times, in eight rounds.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.history.lake_root import open_table
from penstock.history.reader import History
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from tests.history.world import rows
from tests.pipeline.kill_driver import KEYS, WIDE
from tests.pipeline.kill_world import ITEMS, KillWorld, Viewer, counted
from tests.pipeline.seam_reader import SeamReader
from tests.support.object_store import ObjectStore

# A new driver costs a new JVM: one in the short run, which has no query with groups.
SHORT = {"server": 1, "worker": 1, "driver": 1}
LARGE = {"server": 4, "worker": 2, "driver": 4}

# With the lake in an object store: so many rounds, and the kills of each. 200 in the long profile.
IS_LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
ROUNDS = 8 if IS_LONG else 1
ROUND = (
    {"server": 8, "store": 7, "worker": 4, "jvm": 3, "driver": 3}
    if IS_LONG
    else {"server": 2, "store": 2, "worker": 1, "jvm": 1, "driver": 1}
)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kills", "wide"),
    [
        pytest.param(SHORT, 1, marks=pytest.mark.timeout(400), id="3"),
        # What has gathered when a driver is back is a large batch, of many parts.
        pytest.param(LARGE, 5_000, marks=[pytest.mark.timeout(3_600), pytest.mark.spark_long], id="large"),
    ],
)
def test_journal_lake_and_what_was_sent_agree_after_kills_at_random_points(
    kills: dict[str, int], wide: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WIDE, str(wide))
    with KillWorld(tmp_path, seed=sum(kills.values()), groups=kills is not SHORT) as world:
        order = [victim for victim, count in kills.items() for _ in range(count)]
        world.chance.shuffle(order)
        world.settle()
        for victim in order:
            world.kill(victim)
            # Now and then the next comes before the one before is over.
            if world.chance.random() < 0.75:
                world.settle()
        world.settle()
        assert sorted(world.killed) == sorted(order)
        count = world.feeder.stop()
        world.viewer.wait_to_know(count)
        world.viewer.close()
        check_sent(world.viewer, kills["server"])
        check_snapshot(world, count)
        finish(world)
    check_published(journaled(world), count, world.groups)
    check_lake(world, journaled(world))


@pytest.mark.spark
@pytest.mark.spark_long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("round_", range(1, ROUNDS + 1))
def test_with_the_lake_in_an_object_store_whoever_reads_across_the_seam_has_each_event_once_through_all_kills(
    round_: int, tmp_path: Path, cache: pytest.Cache
) -> None:
    order = [victim for victim, count in ROUND.items() for _ in range(count)]
    classes = cache.mkdir("spark-classes")
    with ObjectStore() as store, KillWorld(tmp_path, seed=round_, store=store, classes=classes) as world:
        world.chance.shuffle(order)
        world.settle()
        reader = SeamReader(world.data, world.lake, tmp_path / "penstock.toml", lambda: world.feeder.acknowledged)
        for number, victim in enumerate(order):
            if number == len(order) // 2:
                world.wait_for_seam()
            world.kill(victim)
            # Now and then the next comes before the one before is over.
            took = "not waited for"
            if world.chance.random() < 0.75:
                world.settle()
                took = f"{time.monotonic() - world.died:.1f} s until all of it works"
            print(f"round {round_}: {number + 1} of {len(order)} killed, the {victim}; {took}", flush=True)
        world.settle()
        assert sorted(world.killed) == sorted(order)
        count = world.feeder.stop()
        world.viewer.wait_to_know(count)
        world.viewer.close()
        check_sent(world.viewer, ROUND["server"])
        check_snapshot(world, count)
        reader.stop()
        finish(world)
        # Once more, now that nothing changes.
        reader.read()
        assert reader.readings
        moved = in_lake(world)
        assert moved.column("sequence").to_pylist() == list(range(1, moved.num_rows + 1))
        check_published(moved, count, world.groups)
        # What the journal has left is the end of it.
        kept = journaled(world)
        assert 0 < kept.num_rows < moved.num_rows
        assert moved.slice(moved.num_rows - kept.num_rows).equals(kept)
        check_history(world, moved)
    readings = f"read {reader.readings} times, {reader.refused} times no lake"
    print(
        f"round {round_}: {count} numbers, {readings}, ended by its first JVM {world.pipeline.again} times", flush=True
    )


def finish(world: KillWorld) -> None:
    """Nothing more is written; what is left goes into the lake without a server."""
    assert world.server.stop() == 0
    world.wait_for_lake(JournalReader(world.journal).poll())
    assert world.pipeline.stop() == 0, world.pipeline.log


def journaled(world: KillWorld) -> pa.Table:
    return pa.Table.from_batches(list(JournalReader(world.journal).read()), SCHEMA)


def in_lake(world: KillWorld) -> pa.Table:
    """As Delta itself reads it."""
    table = open_table(world.lake)
    assert table is not None
    return table.to_pyarrow_table(columns=SCHEMA.names).cast(SCHEMA).sort_by("sequence").combine_chunks()


def check_sent(viewer: Viewer, restarts: int) -> None:
    """In each session: nothing twice, nothing out of order, of what is copied nothing left out."""
    assert viewer.lost == 0
    # Only a server takes sessions with it; two that die at once take one.
    assert min(1, restarts) <= max(viewer.sent["feed"]) <= restarts
    for session in viewer.sent["copy"].values():
        numbers = [sent.number for sent in session]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for name, parts in (("feed", ITEMS), ("rows", KEYS), ("totals", ITEMS)):
        for session in viewer.sent[name].values():
            for part in range(parts):
                numbers = [sent.number for sent in session if sent.number % parts == part]
                # MERGE may leave out what is old by then; what is sent is newer than what was sent.
                assert numbers == sorted(set(numbers))
    for session in viewer.sent["totals"].values():
        assert [sent.count for sent in session] == [counted(sent.number) for sent in session]


def check_snapshot(world: KillWorld, count: int) -> None:
    """Somebody who comes late knows the same."""
    viewer = world.another_viewer()
    viewer.wait_to_know(count)
    viewer.close()
    check_sent(viewer, 0)


def check_published(table: pa.Table, count: int, groups: bool) -> None:
    published: dict[str, list[int]] = {}
    for row in table.select(["entity", "kind", "value"]).to_pylist():
        if row["kind"] == "update":
            fields = json.loads(row["value"])
            number = int(fields["n"])
            published.setdefault(row["entity"], []).append(number)
            if "count" in fields:
                assert int(fields["count"]) == counted(number)
    everything = list(range(1, count + 1))
    copied = published.pop("SET/OUT/d.all")
    assert copied == everything
    kept = published.pop("SET/OUT/c.rows")
    assert sorted(kept) == everything
    for key in range(KEYS):
        numbers = [number for number in kept if number % KEYS == key]
        assert numbers == sorted(numbers)
    for remainder in range(ITEMS if groups else 0):
        # As many rows as there were batches with one of its numbers; the last has all of them.
        counts = published.pop(f"SET/OUT/t.{remainder}")
        assert counts == sorted(set(counts))
        assert counts[-1] == max(n for n in everything if n % ITEMS == remainder)
    assert sorted(published) == [f"SET/FEED/e.{remainder}" for remainder in range(ITEMS)]
    for remainder in range(ITEMS):
        assert published[f"SET/FEED/e.{remainder}"] == [n for n in everything if n % ITEMS == remainder]


def check_lake(world: KillWorld, events: pa.Table) -> None:
    """The same records as in the journal, column by column."""
    moved = in_lake(world)
    assert moved.column("sequence").to_pylist() == events.column("sequence").to_pylist()
    assert moved.equals(events)
    check_history(world, events)


def check_history(world: KillWorld, table: pa.Table) -> None:
    """What somebody is told who asks for one entity."""
    history = History(world.journal, world.lake)
    events = rows(table)
    for entity in sorted({event.entity for event in events}):
        assert list(history.events(entity)) == [event for event in events if event.entity == entity]
