"""`penstock history maintain`: who does not run Spark keeps a lake to its retention, and may kill the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from penstock.cli import app
from penstock.history.layout import SUMMARY_FOLDER
from penstock.pipeline import maintenance
from penstock.pipeline.errors import LakeConflict
from penstock.pipeline.lake import Lake
from tests.history.world import DAY, SECOND, World, whole_lake
from tests.pipeline.maintain_driver import DAYS, HOURS, MOST_FILES
from tests.pipeline.test_kill_history import killed_within, spawn
from tests.support.lake_store import LIMITS, lake_in, options
from tests.support.object_store import ObjectStore

# Processes that import Delta, on a machine with other work.
pytestmark = pytest.mark.timeout(300)

SETTINGS = f"[pipeline.jobs.history]\nmax_small_files = {MOST_FILES}\nmax_age_days = {DAYS}\n"
OLD = 10
YOUNG = 6
BATCHES = 6


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Files with old and young events, more than there should be."""
    made = World(tmp_path / "data")
    yield filled(made)
    made.close()


def filled(world: World, batches: int = BATCHES) -> World:
    now = time.time_ns() // 1_000
    for _ in range(batches):
        times = [now - 2 * DAYS * DAY + n * SECOND for n in range(OLD)] + [now - DAY + n * SECOND for n in range(YOUNG)]
        world.append([(f"item-{n % 3}", each, str(each)) for n, each in enumerate(times)])
        world.move()
    return world


def young(world: World) -> list[object]:
    since = time.time_ns() // 1_000 - DAYS * DAY
    return [event for event in world.events if event.timestamp >= since]


def maintain(directory: Path, *arguments: str, settings: str = SETTINGS) -> tuple[int, str, str]:
    """Exit code, standard output, standard error. In this process: imports would take most of the time."""
    (directory / "penstock.toml").write_text(settings)
    given = ["--config", str(directory / "penstock.toml"), "--data-dir", str(directory / "data"), *arguments]
    done = CliRunner().invoke(app, ["history", "maintain", *given])
    return done.exit_code, done.stdout, done.stderr


def check_maintained(world: World, root: Path) -> None:
    lake = Lake(root)
    assert whole_lake(lake) == young(world)
    assert max(sum(file.bucket == bucket for file in lake.files()) for bucket in range(16)) <= MOST_FILES
    assert lake.sequence() == len(world.events)
    check_summary(world, root)


def check_summary(world: World, root: Path) -> None:
    summary = DeltaTable(str(root / SUMMARY_FOLDER)).to_pyarrow_table()
    assert sum(summary["events"].to_pylist()) == len(young(world))


def test_old_events_are_dropped_small_files_merged_and_both_told_in_one_line(world: World, tmp_path: Path) -> None:
    code, out, err = maintain(tmp_path)
    assert (code, err) == (0, "")
    old = BATCHES * OLD
    assert re.fullmatch(
        rf"penstock: {old} events older than 30 days dropped, \d+ files merged, "
        r"0 files that are not needed any more removed\n",
        out,
    )
    check_maintained(world, world.root)
    # Nothing is left to do; then an hour has passed, and the files of older versions go.
    nothing = {"dropped": 0, "merged": 0, "removed": 0}
    code, out, err = maintain(tmp_path, "--json")
    assert (code, json.loads(out), err) == (0, nothing, "")
    for path in world.root.rglob("*.parquet"):
        os.utime(path, (0, 0))
    kept = {file.path for file in Lake(world.root).files()}
    code, out, _ = maintain(tmp_path, "--json", settings=f"{SETTINGS}time_travel_hours = 1\n")
    assert code == 0
    # Delta counts the age of replaced files from when they were replaced, which is now.
    assert json.loads(out)["removed"] == 0
    assert kept <= {path.relative_to(world.root).as_posix() for path in world.root.rglob("*.parquet")}
    # The job's upkeep finds nothing either.
    assert maintenance.retain(Lake(world.root), DAYS, time.time_ns() // 1_000) == 0


def test_another_age_can_be_given_and_none_keeps_everything(world: World, tmp_path: Path) -> None:
    code, out, err = maintain(tmp_path, "--max-age-days", "0")
    assert (code, err) == (0, "")
    assert out.startswith("penstock: 0 events dropped, ")
    assert whole_lake(Lake(world.root)) == world.events
    code, out, err = maintain(tmp_path, "--max-age-days", "0.5", settings="")
    assert (code, err) == (0, "")
    assert out.startswith(f"penstock: {len(world.events)} events older than 0.5 days dropped, ")
    assert whole_lake(Lake(world.root)) == []
    assert Lake(world.root).sequence() == len(world.events)


def test_all_that_is_too_old_goes_and_files_without_it_are_not_written_again(world: World) -> None:
    """The job waits until it is worth it; here nobody comes back soon."""
    oldest = min(event.timestamp for event in world.events)
    now = oldest + DAY + 1
    assert maintenance.retain(world.lake, 1, now) == 0
    assert maintenance.retain(world.lake, 1, now, slack=0.0) == BATCHES
    files = world.lake.files()
    assert maintenance.retain(world.lake, 1, now, slack=0.0) == 0
    assert world.lake.files() == files


def test_what_is_wrong_is_told_in_one_line_and_nothing_is_touched(world: World, tmp_path: Path) -> None:
    version = DeltaTable(str(world.root)).version()
    for arguments, settings, code, words in (
        (("--max-age-days", "-1"), "", 2, "--max-age-days: max_age_days is -1.0; it must be at least 0"),
        (("--max-age-days", "nan"), "", 2, "--max-age-days: max_age_days is nan; it must be at most 1000000"),
        (("--max-age-days", "inf"), "", 2, "--max-age-days: max_age_days is inf; it must be at most 1000000"),
        (
            (),
            "[pipeline.jobs.history]\nmax_age_days = -1\n",
            2,
            "pipeline.jobs.history: max_age_days is -1.0; it must be at least 0",
        ),
        (
            (),
            "[pipeline.jobs.history]\nage = 1\n",
            2,
            "pipeline.jobs.history: Object contains unknown field `age`",
        ),
        (
            ("--data-dir", str(tmp_path / "elsewhere")),
            "",
            2,
            f"there is no lake in {tmp_path / 'elsewhere' / 'lake'}; the job history makes one",
        ),
    ):
        found, out, err = maintain(tmp_path, *arguments, settings=settings)
        assert (found, out, err) == (code, "", f"penstock: {words}\n")
    found, _, err = maintain(tmp_path, "--max-age-days", "soon")
    assert found == 2
    assert "Invalid value for '--max-age-days'" in err
    assert not (tmp_path / "elsewhere").exists()
    assert DeltaTable(str(world.root)).version() == version


def test_it_is_refused_while_the_job_has_the_lake(world: World, tmp_path: Path) -> None:
    world.lake.lock()
    code, out, err = maintain(tmp_path)
    assert (code, out) == (1, "")
    assert err == (
        f"penstock: another process writes the lake in {world.root}; if it is the job history, that does all of this "
        "itself, otherwise try again later\n"
    )
    world.lake.unlock()
    assert maintain(tmp_path)[0] == 0
    # And the job is let in again.
    world.lake.lock()
    world.lake.unlock()


def test_it_needs_no_spark(world: World, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None; from penstock.cli import app;"
        "app(['history', 'maintain', '--data-dir', 'data', '--max-age-days', '30'])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert whole_lake(Lake(world.root)) == young(world)


@pytest.mark.parametrize(
    ("point", "nth"), [("merged", 1), ("dropped", 2), ("merged", 5), ("replaced", 1), ("summarized", 1)]
)
def test_killed_at_a_step_it_leaves_a_good_lake_and_the_next_finishes(
    world: World, tmp_path: Path, point: str, nth: int
) -> None:
    with spawn("tests.pipeline.maintain_driver", tmp_path / "data", point, nth) as process:
        assert process.wait(100) == -signal.SIGKILL
    kept = whole_lake(Lake(world.root))
    assert len({event.sequence for event in kept}) == len(kept)
    assert set(young(world)) <= set(kept) <= set(world.events)
    assert world.history.summary().num_rows == 3
    assert maintain(tmp_path)[0] == 0
    check_maintained(world, world.root)


def test_killed_before_the_summary_the_next_leaves_out_there_what_was_dropped(world: World) -> None:
    class Died(Exception):
        pass

    maintenance.summarize(world.lake)
    left = len(world.lake.files())

    def crash(here: str) -> None:
        nonlocal left
        left -= here == "dropped"
        if not left:
            raise Died

    with pytest.raises(Died):
        maintenance.maintain_alone(world.root, 100, DAYS, HOURS, crash)
    maintenance.maintain_alone(world.root, 100, DAYS, HOURS)
    check_summary(world, world.root)


def test_killed_at_any_moment_it_leaves_a_good_lake(world: World, tmp_path: Path) -> None:
    random = Random(3)
    killed = 0
    for _ in range(4):
        with spawn("tests.pipeline.maintain_driver", tmp_path / "data") as process:
            killed += killed_within(process, random.uniform(0, 0.3))
        kept = whole_lake(Lake(world.root))
        assert set(young(world)) <= set(kept) <= set(world.events)
        filled(world)
    assert killed
    assert maintain(tmp_path)[0] == 0
    check_maintained(world, world.root)


# -- at a URL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


def test_a_lake_at_a_url_is_maintained_beside_another_data_directory(store: ObjectStore, tmp_path: Path) -> None:
    world = filled(World(tmp_path / "data", lake=lake_in(store)), MOST_FILES + 1)
    given = ", ".join(f'{name} = "{value}"' for name, value in {**options(store), **LIMITS}.items())
    settings = f'{SETTINGS}[lake]\nurl = "{world.root}"\noptions = {{ {given} }}\n'
    code, out, err = maintain(tmp_path, "--data-dir", str(tmp_path / "nothing"), settings=settings)
    assert (code, err) == (0, "")
    assert out.startswith(f"penstock: {(MOST_FILES + 1) * OLD} events older than 30 days dropped, ")
    assert whole_lake(Lake(world.root)) == young(world)
    code, _, err = maintain(tmp_path, settings=settings.replace("/lake", "/none"))
    assert (code, err) == (
        2,
        f"penstock: there is no lake in {str(world.root).replace('/lake', '/none')}; the job history makes one\n",
    )
    world.close()


def test_at_a_url_a_commit_of_the_job_is_told_and_the_next_try_finishes(store: ObjectStore, tmp_path: Path) -> None:
    world = filled(World(tmp_path / "data", lake=lake_in(store)), MOST_FILES + 1)
    world.append([("item-1", time.time_ns() // 1_000, "new")])
    seen = 0

    def job(here: str) -> None:
        nonlocal seen
        seen += here == "merged"
        if here == "merged" and seen == 2:
            assert world.move() == 1

    with pytest.raises(LakeConflict) as conflict:
        maintenance.maintain_alone(world.root, MOST_FILES, DAYS, HOURS, job)
    assert str(conflict.value) == (
        f"another process, such as the job history, wrote the lake in {world.root} at the same time; try again: what "
        "was done until then stays done"
    )
    kept = whole_lake(Lake(world.root))
    assert set(young(world)) <= set(kept) < set(world.events)
    maintenance.maintain_alone(world.root, MOST_FILES, DAYS, HOURS)
    assert whole_lake(Lake(world.root)) == young(world)
    world.close()
