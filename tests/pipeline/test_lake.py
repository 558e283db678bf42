"""The lake's writer, without Spark: what is committed, what is refused, what is merged, dropped and summed up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from penstock.history import lake_sequence
from penstock.history.layout import BUCKETS, LAKE, SEQUENCE, SUMMARY_FOLDER, bucket_of
from penstock.journal.journal import Journal
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from penstock.pipeline import files, maintenance
from penstock.pipeline.errors import LakeConflict, LakeFailed, LakeInUse, OtherJournal
from penstock.pipeline.files import runs, write_task
from penstock.pipeline.lake import MISSING, Lake, MissingSequences
from tests.history.world import DAY, NOON, SECOND, World, whole_lake, written


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, segment_bytes=4_000)
    yield made
    made.close()


def told_missing(lake: Lake) -> list[Any]:
    return [json.loads(entry[MISSING]) for entry in DeltaTable(str(lake.root)).history() if MISSING in entry]


# -- batches ------------------------------------------------------------------------------------------------------


def test_every_event_is_in_the_lake_once_whatever_the_batches_were(world: World) -> None:
    world.fill(200)
    assert [world.move(stop) for stop in (71, 71, 40, 121, None, None)] == [70, 0, 0, 50, 80, 0]
    assert whole_lake(world.lake) == world.events
    assert lake_sequence(world.root) == world.lake.sequence() == 200


def test_a_batch_that_overlaps_what_the_lake_has_adds_the_rest_only(world: World) -> None:
    world.fill(100)
    world.move(61)
    after = world.lake.sequence()
    told = written(write_task(str(world.root), after)(JournalReader(world.path).read(30, 91)))
    assert world.lake.adopt(world.path, after, told) == 30
    assert whole_lake(world.lake) == world.events[:90]


def test_the_table_has_the_columns_other_tools_expect(world: World) -> None:
    world.fill(50)
    world.move()
    table = DeltaTable(str(world.root))
    assert table.to_pyarrow_table().schema.names == LAKE.names
    assert table.metadata().partition_columns == ["bucket"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        rows = pq.read_table(world.root / action["path"], partitioning=None)
        assert action["num_records"] == rows.num_rows
        for name in ("sequence", "entity", "revision", "timestamp"):
            values = rows.column(name).to_pylist()
            assert (action[f"min.{name}"], action[f"max.{name}"]) == (min(values), max(values))


def test_buckets_are_the_same_for_ever() -> None:
    assert [bucket_of(name) for name in ("item-0", "WELCOME/STOCKS/item1", "é")] == [15, 3, 14]
    assert BUCKETS == 16


def test_a_task_with_large_events_writes_before_it_has_all_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TASK_BYTES", 10_000)
    for _ in range(8):
        world.append([("item", NOON, "x" * 1_000)] * 5)
    taken = 0

    def batches() -> Iterator[Any]:
        nonlocal taken
        for batch in JournalReader(world.path).read(rows=5):
            taken += 1
            yield batch

    steps = [taken for _ in write_task(str(world.root), 0)(batches())]
    assert steps == [2, 4, 6, 8]


def test_row_groups_of_large_events_are_small(world: World) -> None:
    table = pa.table(
        [range(1, 101), ["item"] * 100, range(1, 101), [NOON] * 100, ["u"] * 100, [""] * 100, ["x" * 200_000] * 100,
         [None] * 100], names=SCHEMA.names,
    ).cast(SCHEMA)  # fmt: skip
    (file,) = files.write_buckets(world.root, table)
    metadata = pq.read_metadata(world.root / file.path)
    assert metadata.num_row_groups == 5
    assert [file.rows, file.first, file.last] == [100, 1, 100]


def test_runs_are_sequences_without_a_hole() -> None:
    assert runs(pa.chunked_array([[5, 6, 7], [1, 2, 9]])) == [(1, 2), (5, 7), (9, 9)]


# -- what goes wrong ----------------------------------------------------------------------------------------------


def test_two_writers_that_know_nothing_of_each_other_do_not_write_twice(world: World) -> None:
    world.fill(100)
    other = Lake(world.root)
    told = [written(write_task(str(world.root), 0)(JournalReader(world.path).read())) for _ in range(2)]
    assert other.sequence() == 0
    world.lake.adopt(world.path, 0, told[0])
    with pytest.raises(LakeConflict, match=r"written by another process"):
        other.adopt(world.path, 0, told[1])
    assert whole_lake(world.lake) == world.events


def test_a_second_job_is_refused_until_the_first_is_gone(world: World) -> None:
    world.lake.lock()
    second = Lake(world.root)
    with pytest.raises(LakeInUse, match=f"another job writes the lake in {world.root}"):
        second.lock()
    world.lake.unlock()
    second.lock()
    second.unlock()


def test_the_lock_ends_with_the_process_that_holds_it(world: World) -> None:
    code = (
        "import sys, time; from pathlib import Path; from penstock.pipeline.lake import Lake\n"
        "lake = Lake(Path(sys.argv[1])); lake.lock(); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(world.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(LakeInUse):
            world.lake.lock()
        process.kill()
    world.lake.lock()
    world.lake.unlock()


def test_a_journal_that_ends_before_the_lake_is_another_one(world: World, tmp_path: Path) -> None:
    world.fill(100)
    world.move()
    world.lake.check_journal(world.path)
    shorter = World(tmp_path / "other")
    shorter.fill(10)
    shorter.close()
    with pytest.raises(OtherJournal, match=f"up to sequence 100 but the journal in {shorter.path} ends at 10"):
        world.lake.check_journal(shorter.path)


def test_a_journal_whose_record_differs_from_the_lakes_last_is_another_one(world: World, tmp_path: Path) -> None:
    world.fill(50)
    world.move()
    longer = World(tmp_path / "other")
    longer.fill(200, entities=5)
    longer.close()
    with pytest.raises(OtherJournal, match=r"record 50 has entity 'item-1' in the lake in .* but 'item-4' in"):
        world.lake.check_journal(longer.path)


def test_what_the_journal_dropped_before_the_lake_had_it_is_a_gap_and_what_it_had_is_none(world: World) -> None:
    for _ in range(5):
        world.fill(60)
    world.move(101)
    world.drop()
    assert world.lake.check_gap(world.path) is None
    segments = sorted(world.path.glob("*.segment"))
    segments[0].unlink()
    first = int(segments[1].stem)
    assert first > 101
    gap = MissingSequences(101, first - 1, "dropped from the journal before the lake had it")
    assert world.lake.check_gap(world.path) == gap
    after = world.lake.sequence()
    told = written(write_task(str(world.root), after)(JournalReader(world.path).read()))
    world.lake.adopt(world.path, after, told)
    assert told_missing(world.lake) == [[[gap.first, gap.last, gap.why]]]


def test_damage_in_the_journal_is_in_the_commits_metadata(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(6):
        world.fill(20)
    world.journal.close()
    segment = sorted(world.path.glob("*.segment"))[0]
    data = bytearray(segment.read_bytes())
    data[8192 + 64 + 200] ^= 0xFF
    segment.write_bytes(data)
    world.move()
    ((missing,),) = told_missing(world.lake)
    assert missing[:2] == [1, 20]
    assert missing[2].startswith(f"damaged: {segment.name} at byte 8192")
    assert whole_lake(world.lake) == world.events[20:]
    world.journal = Journal(world.path)


def test_numbers_that_nobody_was_promised_are_no_gap(world: World) -> None:
    from penstock.journal.disk import DirectoryDisk
    from penstock.journal.recovery import recover
    from penstock.journal.writer import SegmentWriter

    world.fill(10)
    world.journal.close()
    disk = DirectoryDisk(world.path)
    recovery = recover(disk)
    writer = SegmentWriter(disk, recovery.revisions, lambda: NOON, segment_bytes=4_000, segment_micros=1)
    writer.start(recovery.next + 40, recovery.previous)
    writer.seal()
    writer.close()
    world.journal = Journal(world.path)
    world.fill(10)
    assert world.events[10].sequence == 51
    world.move()
    assert told_missing(world.lake) == []
    assert whole_lake(world.lake) == world.events


FULL = """
import resource, sys
from pathlib import Path
from tests.history.world import World
world = World(Path(sys.argv[1]), segment_bytes=1 << 26)
world.append([("item", n, str(n * n * 7919) * 3) for n in range(20_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    world.move()
except Exception as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(world.lake.sequence(), len(world.lake.files()), len(list(world.root.rglob("*.parquet"))))
print(world.move())
world.close()
"""


def test_a_disk_that_takes_no_more_fails_the_batch_names_the_directory_and_commits_nothing(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=50, check=False
    )
    lines = result.stdout.splitlines()
    assert lines == [
        f"LakeFailed the lake in {tmp_path / 'lake'} cannot be written: File too large; nothing of this batch is in it",
        "0 0 0",
        "20000",
    ], result.stderr


def test_a_log_that_cannot_be_written_commits_nothing(world: World) -> None:
    world.fill(10)
    log = world.root / "_delta_log"
    # A directory in the place of the next entry: refused by the system, whoever runs the test.
    (log / f"{1:020}.json").mkdir()
    with pytest.raises((LakeFailed, LakeConflict), match=str(world.root)):
        world.move()
    (log / f"{1:020}.json").rmdir()
    assert world.lake.sequence() == 0
    assert world.move() == 10


def test_a_lake_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(LakeFailed, match=f"the lake in {tmp_path / 'lake'} cannot be opened"):
        Lake(tmp_path / "lake")


# -- upkeep -------------------------------------------------------------------------------------------------------


def test_small_files_are_merged_and_nothing_else_changes(world: World) -> None:
    for _ in range(5):
        world.fill(60)
        world.move(tasks=2)
    before = len(world.lake.files())
    assert maintenance.compact(world.lake, 100) == 0
    replaced = maintenance.compact(world.lake, 1)
    assert replaced == before
    assert len(world.lake.files()) == len({file.bucket for file in world.lake.files()})
    assert whole_lake(world.lake) == world.events
    assert world.lake.sequence() == 300
    assert maintenance.compact(world.lake, 1) == 0


def test_large_files_are_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "LARGE_ROWS", 25)
    for _ in range(6):
        world.append([("item", NOON, str(n)) for n in range(10)])
        world.move()
    assert maintenance.compact(world.lake, 1) == 6
    assert sorted(file.rows for file in world.lake.files()) == [20, 20, 20]
    world.append([("item", NOON, str(n)) for n in range(30)])
    world.move()
    assert maintenance.compact(world.lake, 3) == 0
    assert whole_lake(world.lake) == world.events


def test_events_past_their_age_are_dropped_some_time_after(world: World) -> None:
    world.fill(300)
    world.move()
    now = NOON + 100 * DAY
    assert maintenance.retain(world.lake, 0, now) == 0
    assert maintenance.retain(world.lake, 95, now) == 0
    assert maintenance.retain(world.lake, 50, NOON + 50 * DAY + 100 * SECOND) == 0
    # Ten per cent later all of them are due.
    assert maintenance.retain(world.lake, 50, NOON + 55 * DAY + 5 * SECOND) == 300
    assert whole_lake(world.lake) == []
    assert world.lake.sequence() == 300
    assert world.lake.retentions() >= 1


def test_retention_keeps_what_is_young_in_the_same_file(world: World) -> None:
    world.append([("item", NOON + number * DAY, str(number)) for number in range(20)])
    world.move()
    assert maintenance.retain(world.lake, 10, NOON + 20 * DAY) == 10
    assert whole_lake(world.lake) == world.events[10:]
    maintenance.summarize(world.lake)
    (row,) = world.history.summary().to_pylist()
    assert (row["first_revision"], row["last_revision"], row["events"]) == (11, 20, 10)


def test_a_summary_written_before_rows_were_dropped_is_made_anew(world: World) -> None:
    world.append([("item", NOON + number * DAY, str(number)) for number in range(20)])
    world.move()
    maintenance.summarize(world.lake)
    maintenance.retain(world.lake, 10, NOON + 20 * DAY)
    # As after a kill between the two.
    (row,) = world.history.summary().to_pylist()
    assert (row["first_revision"], row["events"]) == (11, 10)
    maintenance.summarize(world.lake)
    (row,) = DeltaTable(str(world.root / SUMMARY_FOLDER)).to_pyarrow_table().to_pylist()
    assert (row["first_revision"], row["events"]) == (11, 10)


def test_files_nobody_needs_are_removed_after_an_hour_and_not_before(world: World) -> None:
    world.fill(60)
    world.move()
    table = pa.Table.from_batches(list(JournalReader(world.path).read()))
    orphans = [file.path for file in files.write_buckets(world.root, table)]
    maintenance.summarize(world.lake)
    assert maintenance.clean_up(world.lake) == 0
    for name in orphans[1:]:
        os.utime(world.root / name, (0, 0))
    (world.root / "_lock").touch()
    for each in (world.root / SUMMARY_FOLDER).rglob("*"):
        os.utime(each, (0, 0))
    assert maintenance.clean_up(world.lake) == len(orphans) - 1
    assert (world.root / orphans[0]).exists()
    assert whole_lake(world.lake) == world.events
    assert world.history.summary().num_rows == 3
    with pytest.raises(ValueError, match="hours is 0; at least 1"):
        maintenance.clean_up(world.lake, 0)


def test_a_row_is_not_written_again_and_again_as_files_come_in(world: World) -> None:
    written_rows = most = 0
    for number in range(120):
        world.append([("item", NOON, str(n)) for n in range(10)])
        world.move()
        before = {file.path for file in world.lake.files()}
        maintenance.compact(world.lake, 8)
        written_rows += sum(file.rows for file in world.lake.files() if file.path not in before)
        most = max(most, len(world.lake.files()))
        assert number < 8 or written_rows
    assert most <= 8
    # Merged into one each time, 1,200 rows would have been written 8,800 times.
    assert written_rows <= 1_200 * 7
    assert whole_lake(world.lake) == world.events


def test_versions_can_be_read_for_the_configured_time_and_their_files_go_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = SimpleNamespace(time_ns=lambda: time.time_ns() - 30 * 3600 * 10**9)
    states = {}
    with monkeypatch.context() as past:
        past.setattr("penstock.pipeline.lake.time", earlier)
        for _ in range(6):
            world.fill(30)
            world.move()
            maintenance.maintain(world.lake, 2, 0, time_travel_hours=48)
            states[DeltaTable(str(world.root)).version()] = [event.sequence for event in world.events]
    for path in world.root.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 30 * 3600,) * 2)

    def read(version: int | datetime) -> list[int]:
        table = DeltaTable(str(world.root))
        table.load_as_version(version)
        found = sorted(table.to_pyarrow_table()["sequence"].to_pylist())
        assert table.transaction_version(SEQUENCE) == found[-1]
        return found

    world.fill(30)
    world.move()
    maintenance.maintain(world.lake, 2, 0, time_travel_hours=48)
    assert {version: read(version) for version in states} == states
    # As of a time: before the last batch, after the others.
    assert read(datetime.now(UTC) - timedelta(hours=12)) == states[max(states)]
    settings = DeltaTable(str(world.root)).metadata().configuration
    assert (
        settings["delta.logRetentionDuration"] == settings["delta.deletedFileRetentionDuration"] == "interval 48 hours"
    )
    maintenance.maintain(world.lake, 2, 0, time_travel_hours=24)
    with pytest.raises((FileNotFoundError, DeltaError)):
        read(min(states))
    assert whole_lake(world.lake) == world.events


@pytest.mark.parametrize("where", ["merged", "replaced", "dropped", "summarized", "written", "committed"])
def test_whatever_step_the_job_dies_at_the_lake_is_whole(where: str, world: World) -> None:
    class Died(Exception):
        pass

    seen: list[str] = []

    def crash(here: str) -> None:
        seen.append(here)
        if here == where and seen.count(here) == 2:
            raise Died

    expected = world.events
    for step in range(12):
        world.append([(f"item-{n % 5}", NOON + (step * 2 + n // 100) * DAY, str(n)) for n in range(50)])
        try:
            world.move(crash=crash)
            maintenance.compact(world.lake, 2, crash)
            maintenance.retain(world.lake, 5, NOON + step * 2 * DAY, crash)
            maintenance.summarize(world.lake)
            crash("summarized")
        except Died:
            # The next process knows only what is on the disk.
            world.lake = Lake(world.root)
    world.move()
    assert seen.count(where) >= 2
    now = NOON + 22 * DAY
    maintenance.retain(world.lake, 5, now)
    expected = [event for event in world.events if event.timestamp >= now - 5 * DAY]
    kept = whole_lake(world.lake)
    assert [event for event in kept if event.timestamp >= now - 5 * DAY] == expected
    assert len({event.sequence for event in kept}) == len(kept)


def test_two_threads_may_ask_for_the_sequence_while_a_job_commits(world: World) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def ask() -> None:
        while not stop.is_set():
            seen.append(lake_sequence(world.root))

    thread = threading.Thread(target=ask)
    thread.start()
    for _ in range(30):
        world.fill(5)
        world.move()
    stop.set()
    thread.join()
    assert seen == sorted(seen)
    assert lake_sequence(world.root) == 150
