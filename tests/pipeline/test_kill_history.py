"""kill -9 of whoever moves the journal into the lake, at every step and at any moment: each event is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from penstock.history.reader import History
from penstock.pipeline.lake import Lake
from tests.history.world import World, whole_lake
from tests.pipeline.kill_world import descendants

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
RANDOM_KILLS = 60 if LONG else 4
SPARK_KILLS = 30 if LONG else 3
WORKER_KILLS = 10 if LONG else 2

POINTS = ("written", "committed", "between", "merged", "replaced", "summarized")

# Python ends what Spark started in it only when it may tidy up: a JVM that lost its driver ends by itself.
ROOT = Path(__file__).parents[2]


def spawn(module: str, root: Path, point: str = "-", nth: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, str(root), point, str(nth)]
    log = open(root / "driver.log", "a")  # noqa: SIM115
    with log:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)


def wait_for(process: subprocess.Popen[str], word: str) -> bool:
    """False when it ended before it said so."""
    assert process.stdout is not None
    return any(line.strip() == word for line in iter(process.stdout.readline, ""))


def killed_within(process: subprocess.Popen[str], seconds: float) -> bool:
    """After so long since it has started; False if it was faster."""
    assert wait_for(process, "started")
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return True
    return False


def same(world: World) -> None:
    assert whole_lake(Lake(world.root)) == world.events
    history = History(world.path, world.root)
    for entity in sorted({event.entity for event in world.events}):
        assert list(history.events(entity)) == world.of(entity)


@pytest.mark.timeout(300)
def test_the_lake_is_whole_after_a_kill_at_each_step(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number, point in enumerate(POINTS):
        world.fill(900, entities=7)
        with spawn("tests.pipeline.lake_driver", tmp_path, point, 1 + number % 2) as process:
            assert process.wait(50) == -signal.SIGKILL, point
        moved = whole_lake(Lake(world.root))
        assert moved == world.events[: len(moved)]
    with spawn("tests.pipeline.lake_driver", tmp_path) as process:
        assert process.wait(50) == 0
    world.close()
    same(world)


@pytest.mark.timeout(600)
def test_the_lake_is_whole_after_kills_at_any_moment(tmp_path: Path) -> None:
    random = Random(7)
    world = World(tmp_path)
    killed = 0
    for _ in range(RANDOM_KILLS):
        world.fill(1_500, entities=7)
        with spawn("tests.pipeline.lake_driver", tmp_path) as process:
            killed += killed_within(process, random.uniform(0, 0.6))
        moved = whole_lake(Lake(world.root))
        assert moved == world.events[: len(moved)]
    with spawn("tests.pipeline.lake_driver", tmp_path) as process:
        assert process.wait(50) == 0
    world.close()
    assert killed
    same(world)


# What ordinary runs show of a killed driver and of killed workers is in `test_end_to_end_kill`.
@pytest.mark.spark
@pytest.mark.spark_long
@pytest.mark.timeout(7200 if LONG else 600)
def test_the_lake_is_whole_after_kills_of_spark_s_driver(tmp_path: Path) -> None:
    random = Random(11)
    world = World(tmp_path, segment_bytes=1 << 20)
    for number in range(SPARK_KILLS):
        world.fill(12_000, entities=50)
        point, nth = random.choice(POINTS[:3]), random.choice((1, 2))
        if number % 3 == 2:
            # Anywhere, tasks in the middle of a file included.
            with spawn("tests.pipeline.history_driver", tmp_path) as process:
                killed_within(process, random.uniform(0, 6))
        else:
            with spawn("tests.pipeline.history_driver", tmp_path, point, nth) as process:
                assert process.stdout is not None
                process.stdout.read()
                assert process.wait(60) == -signal.SIGKILL, (tmp_path / "driver.log").read_text()[-2000:]
        moved = whole_lake(Lake(world.root))
        assert moved == world.events[: len(moved)]
    finish(world, tmp_path, WORKER_KILLS)


def finish(world: World, root: Path, kills: int) -> None:
    """The last run loses Python workers on its way, and comes to its end all the same."""
    world.fill(30_000, entities=50)
    lost = 0
    with spawn("tests.pipeline.history_driver", root) as process:
        assert process.stdout is not None
        for line in iter(process.stdout.readline, ""):
            # One after a commit: the next batch meets it, and tries its task again.
            if line.strip() == "committed" and lost < kills:
                lost += kill_worker(process.pid)
            if line.strip() == "done":
                break
        else:
            pytest.fail((root / "driver.log").read_text()[-4000:])
        process.wait(60)
    world.close()
    assert lost
    same(world)


def kill_worker(driver: int) -> int:
    """The youngest Python worker of the driver's Spark; 0 when there is none just now."""
    daemons = {each.pid: each.parent for each in descendants(driver) if b"pyspark.daemon" in each.command}
    # The daemon forks its workers: they look like it, and it is their parent.
    workers = [pid for pid, parent in daemons.items() if parent in daemons]
    if not workers:
        return 0
    os.kill(max(workers), signal.SIGKILL)
    return 1
