"""kill -9 of the server, of Spark's driver and of its Python workers, while events go all the way round.

Numbers come in at the ingest port, are journaled, moved into the lake by `history`, and published again by two queries;
a client is subscribed all the time. In the end journal, lake and what was sent agree: each event once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.history.reader import History
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from tests.history.world import rows
from tests.pipeline.kill_driver import KEYS, WIDE
from tests.pipeline.kill_world import ITEMS, KillWorld, Viewer

# A new driver costs a new JVM: one in the short run.
SHORT = {"server": 1, "worker": 1, "driver": 1}
LARGE = {"server": 4, "worker": 2, "driver": 4}
LONG = {"server": 13, "worker": 13, "driver": 6}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kills", "wide"),
    [
        pytest.param(SHORT, 1, marks=pytest.mark.timeout(400), id="3"),
        pytest.param(LONG, 1, marks=[pytest.mark.timeout(3_600), pytest.mark.spark_long], id="32"),
        # What has gathered when a driver is back is a large batch, of many parts.
        pytest.param(LARGE, 5_000, marks=[pytest.mark.timeout(3_600), pytest.mark.spark_long], id="large"),
    ],
)
def test_journal_lake_and_what_was_sent_agree_after_kills_at_random_points(
    kills: dict[str, int], wide: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WIDE, str(wide))
    with KillWorld(tmp_path, seed=sum(kills.values())) as world:
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
        # Nothing more is written; what is left goes into the lake without a server.
        assert world.server.stop() == 0
        world.wait_for_lake(JournalReader(world.data / "journal").poll())
        assert world.pipeline.stop() == 0, world.pipeline.log
    check_journal(world.data / "journal", count)
    check_lake(world.data / "journal", world.data / "lake")


def check_sent(viewer: Viewer, restarts: int) -> None:
    """In each session: nothing twice, nothing out of order, of what is copied nothing left out."""
    assert viewer.lost == 0
    # Only a server takes sessions with it; two that die at once take one.
    assert min(1, restarts) <= max(viewer.sent["feed"]) <= restarts
    for session in viewer.sent["copy"].values():
        numbers = [number for _, number, _ in session]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for name, parts in (("feed", ITEMS), ("rows", KEYS)):
        for session in viewer.sent[name].values():
            for part in range(parts):
                numbers = [number for _, number, _ in session if number % parts == part]
                # MERGE may leave out what is old by then; what is sent is newer than what was sent.
                assert numbers == sorted(set(numbers))


def check_snapshot(world: KillWorld, count: int) -> None:
    """Somebody who comes late knows the same."""
    viewer = Viewer(world.server.url)
    viewer.wait_to_know(count)
    viewer.close()
    check_sent(viewer, 0)


def check_journal(journal: Path, count: int) -> None:
    published: dict[str, list[int]] = {}
    for batch in JournalReader(journal).read():
        for row in batch.select(["entity", "kind", "value"]).to_pylist():
            if row["kind"] == "update":
                published.setdefault(row["entity"], []).append(int(json.loads(row["value"])["n"]))
    everything = list(range(1, count + 1))
    copied = published.pop("SET/OUT/d.all")
    assert copied == everything
    kept = published.pop("SET/OUT/c.rows")
    assert sorted(kept) == everything
    for key in range(KEYS):
        numbers = [number for number in kept if number % KEYS == key]
        assert numbers == sorted(numbers)
    assert sorted(published) == [f"SET/FEED/e.{remainder}" for remainder in range(ITEMS)]
    for remainder in range(ITEMS):
        assert published[f"SET/FEED/e.{remainder}"] == [n for n in everything if n % ITEMS == remainder]


def check_lake(journal: Path, lake: Path) -> None:
    """The same records in both, column by column: read by Delta itself, and by whoever asks for one entity."""
    journaled = pa.Table.from_batches(list(JournalReader(journal).read()), SCHEMA)
    moved = DeltaTable(str(lake)).to_pyarrow_table(columns=SCHEMA.names).cast(SCHEMA).sort_by("sequence")
    assert moved.column("sequence").to_pylist() == journaled.column("sequence").to_pylist()
    assert moved.equals(journaled)
    history = History(journal, lake)
    events = rows(journaled)
    for entity in sorted({event.entity for event in events}):
        assert list(history.events(entity)) == [event for event in events if event.entity == entity]
