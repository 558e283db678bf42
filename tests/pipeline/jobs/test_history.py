"""The job `history` on a real Spark: what it adds, where it goes on, what it refuses."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.history import lake_sequence
from penstock.history.reader import History
from penstock.pipeline.errors import BadOption, LakeGap, LakeInUse, OtherJournal
from penstock.pipeline.lake import Lake
from penstock.pipeline.place import Place
from tests.history.world import NOON, SECOND, World, whole_lake
from tests.pipeline.test_lake import told_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path, segment_bytes=40_000)
    yield made
    made.close()


def place(world: World) -> Place:
    return Place(world.path.parent, "http://127.0.0.1:1")


def run(spark: SparkSession, world: World, crash: Callable[[str], None] | None = None, **settings: Any) -> None:
    """Once, to the end."""
    from penstock.pipeline.jobs import history

    more: dict[str, Any] = {} if crash is None else {"crash": crash}
    query = history.start(spark, place(world), history.Settings(**settings), once=True, **more)
    # Raises what the query died of.
    query.awaitTermination()


def same(world: World) -> None:
    """Lake and history reader have what was journaled, column by column, each once."""
    assert whole_lake(Lake(world.root)) == world.events
    history = History(world.path, world.root)
    for entity in sorted({event.entity for event in world.events}):
        assert list(history.events(entity)) == world.of(entity)


def test_the_lake_has_every_event_once_and_the_next_run_goes_on_after_it(spark: SparkSession, world: World) -> None:
    for _ in range(3):
        world.fill(1_000, entities=7)
    run(spark, world, max_events=1_200)
    same(world)
    world.fill(500, entities=7)
    run(spark, world)
    same(world)
    run(spark, world)
    same(world)


def test_spark_s_checkpoint_is_never_believed(spark: SparkSession, world: World) -> None:
    world.fill(1_000)
    run(spark, world)
    older = world.root.with_name("older")
    shutil.copytree(world.root, older)
    world.fill(1_000)
    run(spark, world)
    # A lake from a backup is older than the checkpoint; one of another version says nothing that can be read.
    shutil.rmtree(world.root)
    older.rename(world.root)
    run(spark, world)
    same(world)
    checkpoint = place(world).checkpoints("history")
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_text("v99\nnonsense")
    world.fill(10)
    run(spark, world)
    same(world)


def test_an_error_at_any_step_leaves_nothing_twice_and_nothing_out(spark: SparkSession, world: World) -> None:
    class Crash(Exception):
        pass

    for where in ("written", "committed", "between", "merged", "replaced", "summarized"):
        for _ in range(3):
            world.fill(100, entities=20)

        def crash(here: str, where: str = where) -> None:
            if here == where:
                raise Crash(where)

        # Each goes on after the error before, and on its way to its own.
        with pytest.raises(Exception, match=where):
            run(spark, world, crash, max_events=100, max_small_files=1)
        moved = whole_lake(Lake(world.root))
        assert moved == world.events[: len(moved)]
    run(spark, world, max_events=130)
    same(world)


def test_a_second_job_on_the_same_lake_says_so(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.pipeline.jobs import history

    # The first never makes room here, however long the second waits for it.
    monkeypatch.setattr(history, "_PATIENCE_SECONDS", 0.1)
    world.fill(100)
    reached, go_on = threading.Event(), threading.Event()

    def crash(here: str) -> None:
        if here == "written":
            reached.set()
            go_on.wait(250)

    first = history.start(spark, place(world), history.Settings(), once=True, crash=crash)
    assert reached.wait(250)
    with pytest.raises(LakeInUse, match="another job writes the lake"):
        history.start(spark, place(world), history.Settings(), once=True)
    go_on.set()
    first.awaitTermination()
    same(world)


def test_what_cannot_be_is_refused_before_anything_starts(spark: SparkSession, world: World, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import history

    with pytest.raises(BadOption, match="there is no journal in"):
        history.start(spark, Place(tmp_path / "nowhere", "http://127.0.0.1:1"), history.Settings())
    world.fill(100)
    run(spark, world)
    world.journal.close()
    shutil.rmtree(world.path)
    world.journal = type(world.journal)(world.path)
    with pytest.raises(OtherJournal, match=r"complete up to sequence 100 but the journal in .* ends at 0"):
        run(spark, world)
    # Refused again, and not because of a lock that was left.
    with pytest.raises(OtherJournal):
        run(spark, world)


def test_a_gap_stops_the_job_or_is_recorded_as_configured(spark: SparkSession, world: World) -> None:
    for _ in range(5):
        world.fill(400)
    world.move(101)
    segments = sorted(world.path.glob("*.segment"))
    left = int(segments[1].stem)
    segments[0].unlink()
    with pytest.raises(LakeGap, match=rf"ends at sequence 100 but .* begins at {left}: 101 to {left - 1} are lost"):
        run(spark, world)
    assert lake_sequence(world.root) == 100
    run(spark, world, on_gap="go on")
    world.events = [event for event in world.events if event.sequence <= 100 or event.sequence >= left]
    same(world)
    assert told_missing(world.lake) == [[[101, left - 1, "dropped from the journal before the lake had it"]]]


def test_a_damaged_segment_is_told_in_the_lake_and_stops_nothing(spark: SparkSession, world: World) -> None:
    for _ in range(6):
        world.fill(200)
    world.journal.close()
    segment = sorted(world.path.glob("*.segment"))[0]
    data = bytearray(segment.read_bytes())
    data[8192 + 64 + 500] ^= 0xFF
    segment.write_bytes(data)
    run(spark, world)
    world.events = world.events[200:]
    same(world)
    ((missing,),) = told_missing(world.lake)
    assert missing[:2] == [1, 200]
    assert segment.name in missing[2]


def test_settings_that_make_no_sense_are_refused_by_name() -> None:
    from penstock.pipeline.jobs.history import Settings

    for wrong, text in (
        ({"partitions": 0}, "partitions is 0; it must be at least 1"),
        ({"max_age_days": -1}, "max_age_days is -1"),
        ({"on_gap": "ignore"}, "on_gap"),
        ({"max_event": 1}, "max_event"),
    ):
        with pytest.raises(msgspec.ValidationError, match=text):
            msgspec.convert(wrong, Settings)


def test_old_events_are_dropped_and_small_files_merged_as_the_job_goes(spark: SparkSession, world: World) -> None:
    import time

    now = time.time_ns() // 1_000
    world.append([(f"item-{n % 3}", now - 100 * 86_400 * SECOND, str(n)) for n in range(30)])
    world.append([(f"item-{n % 3}", now, str(n)) for n in range(60)])
    run(spark, world, max_events=10, max_small_files=2, max_age_days=30)
    # Dropped when there is something to do: the first batch of a run looks.
    world.append([("item-0", now, "last")])
    run(spark, world, max_small_files=2, max_age_days=30)
    world.events = [event for event in world.events if event.timestamp > now - 30 * 86_400 * SECOND]
    same(world)
    files: dict[int, int] = {}
    for file in Lake(world.root).files():
        files[file.bucket] = files.get(file.bucket, 0) + 1
    assert max(files.values()) <= 3
    assert History(world.path, world.root).summary().column("events").to_pylist() == [21, 20, 20]


def test_an_event_is_an_event_whatever_is_in_it(spark: SparkSession, world: World) -> None:
    values = [None, "", "\x00", "é\U0001f600", "x" * 100_000, '{"a":null}', "\n"]
    world.append([(f"set/adapter/{n % 3} ü%2F", NOON - n * 10**15, value) for n, value in enumerate(values)])
    run(spark, world)
    same(world)
