"""One entity's events, in order, each once, from wherever they are just now."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.history import footers, lake_sequence, snapshot
from penstock.history.reader import AsyncHistory, History, JournaledEvent
from penstock.journal.journal import Policy
from penstock.journal.reader import JournalReader
from penstock.pipeline import files, maintenance
from tests.history.world import NOON, SECOND, World, events_of, random_rows

SEEDS = 300 if os.environ.get("PENSTOCK_PROFILE") == "long" else 12


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, segment_bytes=4_000)
    yield made
    made.close()


def forget_hours(world: World) -> None:
    """What a clean-up does once an hour has passed."""
    world.lake.vacuum(0)


def test_without_a_journal_and_without_a_lake_there_is_nothing(tmp_path: Path) -> None:
    history = History(tmp_path / "journal", tmp_path / "lake")
    assert list(history.events("item")) == []
    assert history.first("item") is None
    assert history.last("item") is None
    assert history.summary().num_rows == 0
    assert lake_sequence(tmp_path / "lake") == 0


def test_events_come_from_the_journal_the_lake_or_both_and_it_makes_no_difference(world: World) -> None:
    for _ in range(4):
        world.fill(50)
    for stop in (None, 1, 60, 61, 150, 201):
        if stop is not None:
            world.move(stop)
            assert lake_sequence(world.root) == stop - 1
        history = History(world.path, world.root)
        for entity in ("item-0", "item-1", "item-2", "item-3"):
            assert list(history.events(entity)) == world.of(entity)
            assert list(history.events(entity, 10, 19)) == world.of(entity, first=10, last=19)
            since, until = NOON + 70 * SECOND, NOON + 130 * SECOND
            assert list(history.events_between(entity, since, until)) == world.of(entity, since=since, until=until)
            assert history.first(entity) == next(iter(world.of(entity)), None)
            assert history.last(entity) == next(reversed(world.of(entity)), None)


def test_a_range_that_is_empty_or_upside_down_has_no_events(world: World) -> None:
    world.fill(30)
    for _ in range(2):
        assert list(world.history.events("item-0", 5, 4)) == []
        assert list(world.history.events("item-0", 500)) == []
        assert list(world.history.events("item-0", last_revision=0)) == []
        assert list(world.history.events_between("item-0", NOON + 5 * SECOND, NOON)) == []
        world.move()


def test_a_name_with_a_wildcard_is_a_name(world: World) -> None:
    world.append([("a*", NOON, "1"), ("ab", NOON, "2"), ("a?", NOON, "3"), ("a*", NOON, "4")])
    for _ in range(2):
        assert [event.value for event in world.history.events("a*")] == ["1", "4"]
        assert [event.value for event in world.history.events("a?")] == ["3"]
        world.move()
        world.history = History(world.path, world.root)


def test_a_name_too_long_for_statistics_is_found(world: World) -> None:
    names = ["n" * 6_000 + str(number) for number in range(3)]
    world.append([(names[n % 3], NOON, str(n)) for n in range(9)])
    world.move()
    for name in names:
        assert list(world.history.events(name)) == world.of(name)


def test_names_are_found_whatever_their_characters(world: World) -> None:
    names = ["é", "z", "日本", "\U0001f600", "Z", "\x7f", "a b/c%2F", "\u2028"]
    world.append([(names[n % len(names)], NOON, str(n)) for n in range(40)])
    world.move(tasks=2)
    for name in names:
        assert list(world.history.events(name)) == world.of(name)


def test_the_lake_answers_a_range_it_holds_without_a_look_at_the_journal(world: World) -> None:
    world.fill(30)
    world.move()
    for name in os.listdir(world.path):
        if name.endswith((".segment", "mark")):
            (world.path / name).write_bytes(b"")
    assert list(world.history.events("item-0", 2, 9)) == world.of("item-0", first=2, last=9)


def test_what_the_journal_drops_between_two_looks_is_taken_from_the_lake(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FRESH_SECONDS", 3600.0)
    for _ in range(5):
        world.fill(60)
    # The version of the lake that is kept knows nothing of them.
    assert world.history.first("nobody") is None
    world.move()
    assert world.drop()
    assert list(world.history.events("item-1")) == world.of("item-1")
    assert world.history.last("item-1") == world.of("item-1")[-1]


def test_what_the_journal_drops_while_it_is_read_is_taken_from_the_lake(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FRESH_SECONDS", 3600.0)
    monkeypatch.setattr("penstock.journal.reader.BATCH_ROWS", 8)
    for _ in range(20):
        world.fill(30)
    reading = world.history.read("item-2")
    seen = events_of([next(reading)])
    world.move()
    assert world.drop()
    seen += events_of(reading)
    assert seen == world.of("item-2")


def test_a_file_that_was_replaced_and_removed_meanwhile_is_read_in_its_new_form(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FRESH_SECONDS", 3600.0)
    for _ in range(4):
        world.fill(30)
        world.move()
    assert world.history.first("nobody") is None
    reading = world.history.read("item-0")
    seen = events_of([next(reading)])
    assert maintenance.compact(world.lake, 1)
    forget_hours(world)
    seen += events_of(reading)
    assert seen == world.of("item-0")


def test_a_file_that_is_missing_though_the_lake_names_it_is_an_error(world: World) -> None:
    world.fill(30)
    world.move()
    for file in world.lake.files():
        (world.root / file.path).unlink()
    with pytest.raises(FileNotFoundError, match=r"bucket=\d+/"):
        list(world.history.events("item-0"))


def test_what_was_dropped_by_hand_before_the_lake_had_it_is_a_hole_in_the_revisions(world: World) -> None:
    for _ in range(4):
        world.fill(60)
    world.move(31)
    gone = sorted(world.path.glob("*.segment"))[:2]
    left = int(sorted(world.path.glob("*.segment"))[2].stem)
    for path in gone:
        path.unlink()
    expected = [event for event in world.of("item-0") if event.sequence <= 30 or event.sequence >= left]
    assert list(world.history.events("item-0")) == expected
    assert world.history.last("item-0") == expected[-1]
    counts = {row["entity"]: row["events"] for row in world.history.summary().to_pylist()}
    assert counts["item-0"] == len(expected)


def test_numbers_that_were_never_committed_are_not_taken_for_dropped_ones(world: World) -> None:
    world.fill(10)
    world.move()
    world.journal.close()
    # What a failed disk leaves: the next segment begins after numbers whose publishers were told.
    from penstock.journal.disk import DirectoryDisk
    from penstock.journal.recovery import recover
    from penstock.journal.writer import SegmentWriter

    disk = DirectoryDisk(world.path)
    recovery = recover(disk)
    writer = SegmentWriter(disk, recovery.revisions, lambda: NOON, segment_bytes=4_000, segment_micros=1)
    writer.start(recovery.next + 40, recovery.previous)
    writer.seal()
    writer.close()
    world.journal = type(world.journal)(world.path)
    world.fill(10)
    assert world.drop()
    assert JournalReader(world.path).earliest() > world.lake.sequence() + 1
    assert list(JournalReader(world.path).read(world.lake.sequence() + 1))
    assert list(world.history.events("item-0")) == world.of("item-0")


def test_two_hundred_thousand_events_of_one_entity_are_read_with_a_few_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    world = World(tmp_path, segment_bytes=1 << 26)
    value = "x" * 200
    for _ in range(10):
        world.append([("item", NOON + n, value) for n in range(20_000)])
        world.move()
    world.close()
    before = pa.total_allocated_bytes()
    most = count = 0
    for table in world.history.read("item"):
        count += table.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 200_000
    # 44 MB of values in all.
    assert most < 12_000_000


def test_few_files_are_kept_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        world.fill(30)
        world.move()
    small = footers.Footers(world.root, limit=2)
    for file in world.lake.files():
        small.get(file.path)
        assert len(small) <= 2


def test_the_summary_is_exact_whether_it_was_written_or_not(world: World) -> None:
    world.fill(50)
    for step in range(6):
        if step == 1:
            world.move(40)
        elif step == 2:
            maintenance.summarize(world.lake)
        elif step == 3:
            world.move()
            world.fill(20, entities=7)
        elif step == 4:
            world.move()
            maintenance.compact(world.lake, 1)
        elif step == 5:
            assert maintenance.summarize(world.lake) == world.lake.sequence() == 70
        check_summary(world)


def check_summary(world: World) -> None:
    found = world.history.summary().to_pylist()
    names = sorted({event.entity for event in world.events})
    assert [row["entity"] for row in found] == names
    for row in found:
        mine = world.of(row["entity"])
        assert (row["first_revision"], row["last_revision"], row["events"]) == (
            mine[0].revision,
            mine[-1].revision,
            len(mine),
        )
        times = [event.timestamp for event in mine]
        assert (micros(row["earliest"]), micros(row["latest"])) == (min(times), max(times))


def micros(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


async def take(events: Any) -> list[JournaledEvent]:
    return [event async for event in events]


def test_a_loop_reads_the_same(world: World) -> None:
    world.fill(60)
    world.move(31)
    history = AsyncHistory(world.history)

    async def scene() -> None:
        assert await take(history.events("item-0", 3, 15)) == world.of("item-0", first=3, last=15)
        assert await take(history.events_between("item-0", NOON, NOON + 9 * SECOND)) == world.of(
            "item-0", since=NOON, until=NOON + 9 * SECOND
        )
        assert await history.first("item-0") == world.of("item-0")[0]
        assert await history.last("item-0") == world.of("item-0")[-1]
        assert (await history.summary()).num_rows == 3

    asyncio.run(scene())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_reads_equal_a_plain_list_whatever_moves_meanwhile(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(files, "GROUP_ROWS", random.choice((3, 10, 8_192)))
    monkeypatch.setattr(maintenance, "LARGE_ROWS", random.choice((10, 40, 1_000_000)))
    monkeypatch.setattr(snapshot, "FRESH_SECONDS", random.choice((0.0, 3600.0)))
    monkeypatch.setattr("penstock.journal.reader.BATCH_ROWS", random.choice((1, 16, 16_384)))
    names = [f"item-{number}" for number in range(random.choice((1, 3, 30)))]
    world = World(tmp_path, segment_bytes=random.choice((2_000, 20_000)))
    # Readings under way: what is left of them, what they have to show at least, what they have shown, the bounds.
    open_: list[tuple[Iterator[Any], list[JournaledEvent], list[JournaledEvent], dict[str, int | None]]] = []
    retained = False
    # Dropped ones included.
    everything: set[JournaledEvent] = set()

    def finish(position: int) -> None:
        reading, expected, seen, _ = open_.pop(position)
        seen += events_of(reading)
        check(expected, seen)

    def check(expected: list[JournaledEvent], seen: list[JournaledEvent]) -> None:
        numbers = [event.sequence for event in seen]
        assert numbers == sorted(set(numbers)), "in order, each once"
        assert set(seen) <= everything
        gone = everything - set(world.events)
        assert set(expected) - gone <= set(seen)

    try:
        for _ in range(60):
            action = random.randrange(11)
            if action <= 2:
                world.append(random_rows(random, names, random.randint(1, 40)))
                everything.update(world.events)
            elif action <= 4:
                latest = world.journal.committed
                world.move(random.choice((None, random.randint(1, latest + 1))), tasks=random.randint(1, 3))
            elif action == 5:
                maintenance.compact(world.lake, random.choice((1, 3)))
            elif action == 6:
                world.drop()
            elif action == 7:
                forget_hours(world)
            elif action == 8 and random.random() < 0.3:
                now = NOON + random.randrange(1000) * SECOND + maintenance.DAY
                sequence = world.lake.sequence()
                maintenance.retain(world.lake, 1, now, slack=0.0)
                retained = True
                world.events = [
                    event
                    for event in world.events
                    if event.sequence > sequence or event.timestamp >= now - maintenance.DAY
                ]
            elif action == 9 and open_:
                position = random.randrange(len(open_))
                if random.random() < 0.5:
                    finish(position)
                else:
                    table = next(open_[position][0], None)
                    if table is not None:
                        open_[position][2].extend(events_of([table]))
            else:
                entity = random.choice(names)
                bounds: dict[str, int | None] = {}
                if random.random() < 0.5:
                    bounds["first"] = random.randint(0, 60)
                if random.random() < 0.5:
                    bounds["last"] = random.randint(0, 120)
                if random.random() < 0.3:
                    bounds["since"] = NOON + random.randrange(-600, 1600) * SECOND
                if random.random() < 0.3:
                    bounds["until"] = NOON + random.randrange(-600, 1600) * SECOND
                expected = world.of(entity, **bounds)
                if random.random() < 0.5:
                    open_.append((world.history.read(entity, **bounds), expected, [], bounds))
                else:
                    seen = events_of(world.history.read(entity, **bounds))
                    if not retained:
                        assert seen == expected
                    check(expected, seen)
        while open_:
            finish(0)
        fresh = History(world.path, world.root)
        for entity in names:
            assert list(fresh.events(entity)) == world.of(entity)
            assert fresh.last(entity) == next(reversed(world.of(entity)), None)
        world.history = fresh
        check_summary(world)
        maintenance.summarize(world.lake)
        check_summary(world)
    finally:
        world.close()


def test_threads_read_while_a_job_writes_compacts_and_the_journal_drops(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=20_000)
    world.fill(300)
    stop = threading.Event()
    failures: list[str] = []
    reads = [0]

    def read(seed: int) -> None:
        random = Random(seed)
        while not stop.is_set():
            entity = f"item-{random.randrange(3)}"
            at_least = len(world.of(entity))
            try:
                revisions = [event.revision for event in world.history.events(entity)]
            except Exception as error:
                failures.append(repr(error))
                return
            if revisions != list(range(1, len(revisions) + 1)) or len(revisions) < at_least:
                failures.append(f"{entity}: {len(revisions)} of {at_least}")
            reads[0] += 1

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for step in range(25):
        world.fill(300)
        world.move(tasks=2)
        if step % 4 == 3:
            maintenance.compact(world.lake, 2)
        world.drop()
        if step % 10 == 9:
            forget_hours(world)
    stop.set()
    for thread in threads:
        thread.join()
    world.close()
    assert failures == []
    assert reads[0] > 10


def test_the_policy_of_a_record_makes_no_difference(world: World) -> None:
    from penstock.journal.record import Columns

    columns = Columns()
    columns.add("item", NOON, "update", "", "1", '{"a":1}')
    world.journal.append(columns, Policy.OFF)
    world.journal.flush().result(timeout=10)
    assert [event.headers for event in world.history.events("item")] == ['{"a":1}']
    world.move()
    assert [event.headers for event in History(world.path, world.root).events("item")] == ['{"a":1}']
