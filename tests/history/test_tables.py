"""Rows of typed tables from the lake and the journal together: each event once, whatever is moved and dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from penstock import history
from penstock.history.catalog import TableError
from penstock.history.scan import TableScan
from penstock.journal.errors import Expired
from penstock.journal.retention import Retention
from penstock.journal.selection import EventSelection
from tests.history.world import NOON, SECOND, World

WANTED = EventSelection(("PLANT/READINGS/*",), ("update",))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, segment_bytes=4_000)
    with closing(world):
        yield world


def fill(world: World, count: int) -> None:
    """In appends of a few events: a segment ends between two appends."""
    first = len(world.events)
    rows: list[tuple[str, int, str | None]] = [
        (f"PLANT/READINGS/r.{n % 5}" if n % 3 else "PLANT/OTHER/x", NOON + n * SECOND, json.dumps({"n": str(n)}))
        for n in range(first, first + count)
    ]
    for start in range(0, count, 10):
        world.append(rows[start : start + 10])


def wanted(world: World) -> list[int]:
    return [event.sequence for event in world.events if event.entity.startswith("PLANT/READINGS/")]


def scan(world: World) -> TableScan:
    return TableScan(world.path, world.root, WANTED)


def sequences(found: TableScan, shares: object) -> list[int]:
    assert isinstance(shares, list)
    return sorted(n for share in shares for batch in found.read(share) for n in batch.column("sequence").to_pylist())


def test_lake_and_journal_are_one(world: World) -> None:
    fill(world, 60)
    assert sequences(scan(world), scan(world).plan()) == wanted(world)
    world.move(stop=31)
    assert sequences(scan(world), scan(world).plan(parts=3)) == wanted(world)
    world.drop()
    fill(world, 20)
    assert sequences(scan(world), scan(world).plan(parts=2)) == wanted(world)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_doubled_or_missed_at_any_seam(world: World, seed: int) -> None:
    random = Random(seed)
    opened = scan(world)
    for _ in range(15):
        fill(world, random.randrange(1, 40))
        planned = opened.plan(parts=random.randrange(1, 4))
        there = wanted(world)
        if random.random() < 0.6:
            world.move(stop=random.randrange(1, len(world.events) + 2), tasks=random.randrange(1, 3))
        if random.random() < 0.5:
            world.drop()
        fill(world, 3)
        # What was planned before is read after.
        assert sequences(opened, planned) == there
        first = random.randrange(1, len(world.events) + 1)
        stop = random.randrange(first, len(world.events) + 2)
        inside = [n for n in wanted(world) if first <= n < stop]
        assert sequences(opened, opened.plan(first, stop, 2)) == inside
        assert sequences(opened, opened.plan_range(first, stop, 2)) == inside


def test_a_stream_reads_from_the_lake_only_what_the_journal_does_not_have(world: World) -> None:
    fill(world, 200)
    world.move()
    opened = scan(world)
    assert not any(share.files for share in opened.plan_range(150, 201))
    assert world.drop()
    assert any(share.files for share in opened.plan_range(1, 201))
    assert opened.earliest() == 1


def test_what_neither_has_is_told_to_a_stream_and_left_out_of_a_table(world: World) -> None:
    fill(world, 300)
    assert world.journal.retain(Retention(max_bytes=0), 300)
    opened = scan(world)
    with pytest.raises(Expired):
        opened.plan_range(1, 301)
    left = sequences(opened, opened.plan())
    assert left == [n for n in wanted(world) if n >= left[0]]
    assert opened.earliest() > 1


def test_row_groups_of_other_entities_are_not_read(world: World) -> None:
    fill(world, 30)
    world.move()
    other = TableScan(world.path, world.root, EventSelection(("ZEBRA/*",)))
    (share,) = other.plan()
    assert list(other.read(share)) == []
    exact = TableScan(world.path, world.root, EventSelection(("PLANT/OTHER/x",)))
    assert len(sequences(exact, exact.plan())) == 10


def test_a_table_for_other_tools_is_in_the_order_of_the_journal(world: World, tmp_path: Path) -> None:
    fill(world, 50)
    world.move(stop=20)
    fill(world, 5)
    found = history.table("plant.readings", tmp_path)
    assert found.column("sequence").to_pylist() == wanted(world)
    assert found.schema.field("n").type == pa.float64()
    assert found.column("n").to_pylist() == [n - 1.0 for n in wanted(world)]
    assert found.column("item")[0].as_py() == "r.1"
    whole = history.batches("plant.readings", tmp_path).read_all()
    assert sorted(whole.column("sequence").to_pylist()) == wanted(world)
    assert history.table("plant.readings_misfits", tmp_path).num_rows == 0


def test_times_bound_a_table(world: World, tmp_path: Path) -> None:
    fill(world, 30)
    world.move(stop=15)
    since, until = (datetime.fromtimestamp(NOON // SECOND + n, UTC) for n in (5, 20))
    found = history.table("plant.readings", tmp_path, since=since, until=until)
    assert found.column("sequence").to_pylist() == [n for n in wanted(world) if 6 <= n < 21]
    # The same as texts.
    assert history.table("plant.readings", tmp_path, since=since.isoformat(), until=until.isoformat()).equals(found)
    with pytest.raises(ValueError, match="a time needs its zone"):
        history.table("plant.readings", tmp_path, since=since.replace(tzinfo=None))
    with pytest.raises(ValueError, match=r"^until is 'noon'; expected a time such as 2026-01-31T12:00:00Z$"):
        history.table("plant.readings", tmp_path, until="noon")


def test_a_configuration_declares_types(world: World, tmp_path: Path) -> None:
    fill(world, 10)
    config = tmp_path / "penstock.toml"
    config.write_text(
        '[pipeline.tables.r]\nadapter = "PLANT/READINGS"\nitem = "r.{unit}"\nfields = { n = "int", unit = "int" }\n'
    )
    found = history.table("plant.r", tmp_path, config=config)
    assert found.column("unit").to_pylist() == [(n - 1) % 5 for n in wanted(world)]


def test_a_directory_without_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"^there is neither a journal nor a lake in .*/none; expected the server's"):
        history.table("a.b", tmp_path / "none")
