"""The runner with jobs that a test drives: real threads, real files, no JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns
from penstock.pipeline.errors import BadOption, JavaMissing
from penstock.pipeline.runner import DONE, FAILED, SPARK_GONE, WRONG, Runner, RunnerPace, RunningQuery, Task
from penstock.pipeline.status import Found, held, read

PATIENCE = 10.0
QUICK = RunnerPace(
    look=0.005,
    log=0.0,
    first_restart=0.01,
    last_restart=0.04,
    turn=0.02,
    head_start=0.0,
    stop_queries=0.3,
    stop_engine=0.3,
)


class Spark:
    """An engine of which the test decides when it is there, and whether."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.alive = True
        self.may_open = threading.Event()
        self.may_open.set()
        self.may_close = threading.Event()
        self.may_close.set()
        self.calls: list[str] = []

    def open(self) -> None:
        assert self.may_open.wait(PATIENCE)
        self.calls.append("open")
        if self.error is not None:
            raise self.error

    def at_work(self) -> None:
        self.calls.append("at work")

    def is_alive(self) -> bool:
        return self.alive

    def close(self) -> None:
        assert self.may_close.wait(PATIENCE)
        self.calls.append("close")

    def kill(self) -> None:
        self.calls.append("kill")


class Job:
    """A query that goes on until the test, or the runner, ends it; `starts` counts."""

    def __init__(self, *failures: Exception | None) -> None:
        self.failures = list(failures)
        self.isActive = False
        self.recentProgress: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.starts: list[float] = []
        self.may_stop = threading.Event()
        self.may_stop.set()

    def start(self) -> RunningQuery:
        """The next failure of the list is how this run ends; after the last it goes on."""
        self.starts.append(time.monotonic())
        self.error = self.failures.pop(0) if self.failures else None
        self.isActive = self.error is None
        return self

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        assert self.may_stop.wait(PATIENCE)
        self.isActive = False

    def progress(self, batch: int, sequence: int) -> None:
        """What Spark would say after a batch."""
        self.recentProgress.append(
            {
                "batchId": batch,
                "timestamp": "2026-01-31T12:00:00.000Z",
                "batchDuration": 250,
                "stateOperators": [{"numRowsTotal": 30, "memoryUsedBytes": 4096}],
                "sources": [{"endOffset": f'{{"sequence":{sequence}}}'}],
            }
        )


class World:
    """A runner in a thread, and the files that it writes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.status_dir = directory / "pipeline"
        self.status_dir.mkdir()
        self.journal = directory / "journal"
        self.journal.mkdir()
        self.said: list[str] = []
        self.shown: list[str] = []
        self.spark = Spark()
        self.runner: Runner
        self.result: Future[int] = Future()

    def run(
        self,
        *tasks: Task,
        restart: bool = True,
        once: bool = False,
        again: bool = False,
        pace: RunnerPace = QUICK,
    ) -> None:
        self.runner = Runner(
            self.spark,
            tasks,
            self.journal,
            self.status_dir,
            restart=restart,
            once=once,
            again=again,
            pid=4711,
            announce=self.said.append,
            show=self.shown.append,
            details=Path("spark.log"),
            pace=pace,
        )
        threading.Thread(target=lambda: self.result.set_result(self.runner.run()), daemon=True).start()

    def found(self, name: str) -> Found | None:
        return next((found for found in read(self.status_dir) if found.status.name == name), None)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, read(self.status_dir)
            threading.Event().wait(0.002)

    def until_state(self, name: str, state: str) -> None:
        self.until(lambda: (found := self.found(name)) is not None and found.status.state == state)

    def stopped(self) -> int:
        self.runner.stop()
        return self.result.result(PATIENCE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    if hasattr(world, "runner"):
        world.runner.stop()
        world.result.result(PATIENCE)


def test_queries_run_until_they_are_stopped_and_then_so_does_spark(world: World) -> None:
    first, second = Job(), Job()
    world.run(Task("first", first.start), Task("second", second.start))
    world.until(lambda: first.isActive and second.isActive)
    assert world.said == ["starting Spark…"]
    first.progress(1, 10)
    world.until_state("first", "running")
    assert world.said == ["starting Spark…"], "the other one has not begun yet"
    assert world.spark.calls == ["open"]
    second.progress(1, 10)
    world.until(lambda: world.said == ["starting Spark…", "running"])
    assert world.stopped() == DONE
    assert not first.isActive
    assert not second.isActive
    assert world.spark.calls == ["open", "at work", "close"]
    assert [found.status.state for found in read(world.status_dir)] == ["stopped", "stopped"]


def test_a_failed_query_is_started_again_after_pauses_that_double_up_to_a_limit(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Job(*(ValueError(f"number {number}") for number in range(5))), Job()
    world.run(Task("bad", bad.start), Task("good", good.start))
    world.until(lambda: bad.isActive)
    bad.progress(0, 1)
    world.until_state("bad", "running")
    found = world.found("bad")
    assert found is not None
    assert found.status.restarts == 5
    assert found.status.reason is None
    pauses = [record.fields["seconds"] for record in caplog.records if "started again" in record.message]  # type: ignore[attr-defined]
    assert pauses == [0.01, 0.02, 0.04, 0.04, 0.04]
    gaps = [later - earlier for earlier, later in zip(bad.starts, bad.starts[1:], strict=False)]
    assert all(gap >= pause for gap, pause in zip(gaps, pauses, strict=True))
    assert len(good.starts) == 1, "the other query is not disturbed"
    assert world.stopped() == DONE


def test_a_query_that_had_recovered_is_started_again_as_quickly_as_the_first_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Job(*(ValueError("again") for _ in range(4)))
    recovered = RunnerPace(look=0.005, first_restart=0.01, last_restart=1.0, recovered=0.0)
    world.run(Task("bad", bad.start), pace=recovered)
    world.until(lambda: bad.isActive)
    pauses = [record.fields["seconds"] for record in caplog.records if "started again" in record.message]  # type: ignore[attr-defined]
    assert pauses == [0.01] * 4


def test_queries_begin_one_after_another(world: World) -> None:
    first, second, third = Job(), Job(), Job()
    patient = RunnerPace(look=0.005, turn=60.0, head_start=0.0, first_restart=60.0)
    world.run(Task("first", first.start), Task("second", second.start), Task("third", third.start), pace=patient)
    jobs = {"first": first, "second": second, "third": third}
    for count in range(1, 4):
        world.until(lambda count=count: len([job for job in jobs.values() if job.starts]) == count)  # type: ignore[misc]
        beginning = next(job for job in jobs.values() if job.starts and not job.recentProgress)
        assert len([job for job in jobs.values() if job.starts]) == count
        beginning.progress(0, 1)
    world.until(lambda: "running" in world.said)


def test_the_next_query_begins_some_time_after_the_first_batch_of_the_one_before(world: World) -> None:
    first, second = Job(), Job()
    pace = RunnerPace(look=0.005, turn=60.0, head_start=0.2)
    world.run(Task("first", first.start), Task("second", second.start), pace=pace)
    world.until(lambda: bool(first.starts))
    begun = time.monotonic()
    first.progress(0, 1)
    world.until(lambda: bool(second.starts))
    assert second.starts[0] - begun >= 0.2


def test_a_query_that_fails_as_it_begins_does_not_keep_the_others_from_it(world: World) -> None:
    bad, good = Job(ValueError("no")), Job()
    world.run(
        Task("bad", bad.start), Task("good", good.start), pace=RunnerPace(look=0.005, turn=60.0, first_restart=60.0)
    )
    world.until(lambda: bool(bad.starts) and good.isActive)


def test_a_query_that_cannot_even_be_started_counts_as_failed(world: World) -> None:
    attempts = []

    def start() -> RunningQuery:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not now")
        return job.start()

    job = Job()
    world.run(Task("late", start))
    world.until(lambda: job.isActive)
    assert len(attempts) == 3


def test_a_query_that_ends_without_a_reason_is_started_again(world: World) -> None:
    job = Job()
    world.run(Task("quiet", job.start))
    world.until(lambda: job.isActive)
    job.isActive = False
    world.until(lambda: len(job.starts) == 2)


def test_without_restarts_a_failure_ends_everything_with_code_1(world: World) -> None:
    bad, good = Job(), Job()
    world.run(Task("bad", bad.start), Task("good", good.start), restart=False)
    world.until(lambda: bad.isActive and good.isActive)
    bad.error = ValueError("the disk is full")
    bad.isActive = False
    assert world.result.result(PATIENCE) == FAILED
    assert not good.isActive
    states = {found.status.name: (found.status.state, found.status.reason) for found in read(world.status_dir)}
    assert states["bad"][0] == "failed"
    assert "the disk is full" in (states["bad"][1] or "")
    assert states["good"] == ("stopped", None)


def test_a_wrong_option_is_not_tried_again_and_ends_with_code_2(world: World) -> None:
    bad = Job(BadOption("option path is missing"))
    world.run(Task("bad", bad.start), restart=True)
    assert world.result.result(PATIENCE) == WRONG
    assert len(bad.starts) == 1


@pytest.mark.parametrize(
    ("error", "code"), [(JavaMissing("no Java"), FAILED), (BadOption("master"), WRONG), (RuntimeError("x"), FAILED)]
)
def test_a_spark_that_does_not_start_ends_everything(world: World, error: Exception, code: int) -> None:
    world.spark.error = error
    job = Job()
    world.run(Task("any", job.start))
    assert world.result.result(PATIENCE) == code
    assert job.starts == []
    found = world.found("any")
    assert found is not None
    assert (found.status.state, found.status.reason) == ("failed", str(error))


def test_stopping_while_spark_starts_does_not_wait_for_it(world: World) -> None:
    world.spark.may_open.clear()
    world.run(Task("any", Job().start))
    world.until_state("any", "starting")
    assert world.stopped() == DONE
    assert world.spark.calls == ["kill"]
    world.spark.may_open.set()


def test_a_query_that_does_not_stop_in_time_is_cut_off(world: World, caplog: pytest.LogCaptureFixture) -> None:
    job = Job()
    job.may_stop.clear()
    world.run(Task("stuck", job.start))
    world.until(lambda: job.isActive)
    assert world.stopped() == DONE
    assert world.spark.calls == ["open", "kill"]
    assert "stopped in the middle of a batch" in caplog.text
    job.may_stop.set()


def test_a_spark_that_does_not_stop_in_time_is_killed(world: World) -> None:
    world.spark.may_close.clear()
    world.run(Task("any", Job().start))
    assert world.stopped() == DONE
    assert world.spark.calls == ["open", "kill"]
    world.spark.may_close.set()


def test_the_first_query_has_the_first_turn_however_long_it_looks_for_obstacles(world: World) -> None:
    first, second = Job(), Job()

    def slowly() -> str | None:
        threading.Event().wait(0.2)
        return None

    patient = RunnerPace(look=0.005, turn=60.0, head_start=0.0)
    world.run(Task("first", first.start, slowly), Task("second", second.start), pace=patient)
    world.until(lambda: bool(first.starts))
    assert not second.starts
    first.progress(0, 1)
    world.until(lambda: bool(second.starts))
    assert world.stopped() == DONE


def test_a_first_query_that_has_to_wait_lets_the_next_one_begin(world: World) -> None:
    first, second = Job(), Job()
    patient = RunnerPace(look=0.005, turn=60.0)
    world.run(Task("first", first.start, lambda: "no token yet"), Task("second", second.start), pace=patient)
    world.until(lambda: bool(second.starts))
    assert not first.starts
    assert world.stopped() == DONE


def test_when_spark_is_gone_the_runner_says_so(world: World) -> None:
    job = Job()
    world.run(Task("any", job.start))
    world.until(lambda: job.isActive)
    world.spark.alive = False
    job.error = ConnectionError("no answer")
    job.isActive = False
    assert world.result.result(PATIENCE) == SPARK_GONE
    assert len(job.starts) == 1


@pytest.mark.parametrize(
    ("again", "alive", "code"),
    [
        # It was killed while Python was speaking to it.
        (False, False, SPARK_GONE),
        # Before that, as the next one after one that had run.
        (True, True, SPARK_GONE),
        # The first of all: it is not configured as this machine can have it.
        (False, True, FAILED),
    ],
)
def test_a_spark_that_ends_while_it_starts_is_replaced_unless_it_never_ran(
    world: World, again: bool, alive: bool, code: int
) -> None:
    world.spark.error = RuntimeError(
        "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
    )
    world.spark.alive = alive
    world.run(Task("any", Job().start), again=again)
    assert world.result.result(PATIENCE) == code


def test_a_query_that_was_cut_off_when_spark_died_is_not_told_apart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark closes its sockets a moment before the system sees that it has ended: `Connection refused`."""
    job = Job()
    world.run(Task("any", job.start), pace=replace(QUICK, death=PATIENCE))
    world.until(lambda: job.isActive)
    job.error = ConnectionRefusedError(111, "Connection refused")
    job.isActive = False
    world.until(lambda: any(thread.name == "query any" for thread in threading.enumerate()))
    world.spark.alive = False
    assert world.result.result(PATIENCE) == SPARK_GONE
    found = world.found("any")
    assert found is not None
    assert (found.status.state, found.status.reason) == ("failed", "Spark has ended unexpectedly")
    assert "refused" not in caplog.text


def test_a_query_that_was_cut_off_while_spark_lives_is_started_again(world: World) -> None:
    job = Job(ConnectionResetError(104, "Connection reset by peer"))
    world.run(Task("any", job.start), pace=replace(QUICK, death=0.01))
    world.until(lambda: len(job.starts) == 2)


def test_people_are_told_once_that_it_stops_and_only_if_they_asked_for_it(world: World) -> None:
    job = Job()
    world.run(Task("any", job.start))
    world.until(lambda: job.isActive)
    world.runner.stop("stopping…")
    assert world.result.result(PATIENCE) == DONE
    assert world.said == ["starting Spark…", "stopping…"]


def test_the_log_says_what_changes_and_the_terminal_how_it_goes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with closing(Journal(world.journal)) as journal:
        columns = Columns()
        for number in range(10):
            columns.add("S/A/item", (int(time.time()) - 600) * 1_000_000, "update", "", str(number))
        done = journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(PATIENCE)
        one, two = Job(), Job()
        world.run(Task("one", one.start), Task("two", two.start))
        world.until(lambda: one.isActive and two.isActive)
        assert world.shown == [], "before there is a figure there is no line for them"
        one.progress(0, 10)
        world.until(lambda: world.shown[-1:] == ["one 0/s, 0.0 s behind · two starting"])
        two.progress(0, 4)
        world.until(lambda: "query is behind" in caplog.text)
        world.until(lambda: " · two 0/s, 6" in world.shown[-1])
        for batch in range(1, 20):
            one.progress(batch, 10)
            two.progress(batch, 10)
            world.until(lambda batch=batch: (f := world.found("two")) is not None and f.status.batch == batch)  # type: ignore[misc]
        world.until(lambda: "query has caught up" in caplog.text)
        assert world.stopped() == DONE
    lines = [(record.message, record.fields["query"]) for record in caplog.records]  # type: ignore[attr-defined]
    assert sorted(lines) == [
        ("query has caught up", "two"),
        ("query is behind", "two"),
        ("query runs", "one"),
        ("query runs", "two"),
    ]


def test_once_ends_with_the_queries(world: World) -> None:
    first, second = Job(), Job()
    world.run(Task("first", first.start), Task("second", second.start), once=True)
    world.until(lambda: first.isActive and second.isActive)
    first.isActive = False
    world.until_state("first", "stopped")
    assert not world.result.done()
    second.isActive = False
    assert world.result.result(PATIENCE) == DONE


def test_once_is_not_tried_twice(world: World) -> None:
    bad = Job(ValueError("no"))
    world.run(Task("bad", bad.start), once=True, restart=True)
    assert world.result.result(PATIENCE) == FAILED
    assert len(bad.starts) == 1


def test_a_query_waits_for_what_it_needs_and_says_so_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    obstacles: list[str | None] = ["there is no token yet"]
    looks: list[int] = []

    def obstacle() -> str | None:
        looks.append(1)
        return obstacles[-1]

    job = Job()
    world.run(Task("late", job.start, obstacle))
    world.until(lambda: len(looks) > 5)
    found = world.found("late")
    assert found is not None
    assert (found.status.state, found.status.reason) == ("starting", "there is no token yet")
    assert [record.message for record in caplog.records].count("query waits for the journal or the token") == 1
    obstacles.append(None)
    world.until(lambda: job.isActive)


def test_the_status_has_the_figures_of_the_query_and_its_lag(world: World) -> None:
    with closing(Journal(world.journal)) as journal:
        columns = Columns()
        for number in range(10):
            columns.add("S/A/item", (int(time.time()) - 60) * 1_000_000, "update", "", str(number))
        done = journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(PATIENCE)
        job = Job()
        world.run(Task("candles", job.start))
        world.until(lambda: job.isActive)
        job.progress(7, 4)
        world.until_state("candles", "running")
        world.until(lambda: (found := world.found("candles")) is not None and found.status.lag_events == 6)
        found = world.found("candles")
        assert found is not None
        status = found.status
        assert (status.batch, status.batch_millis, status.batch_time) == (7, 250, "2026-01-31T12:00:00.000Z")
        assert (status.state_rows, status.state_bytes, status.pid) == (30, 4096, 4711)
        assert status.lag_seconds is not None
        assert 59 <= status.lag_seconds <= 75
        job.progress(8, 10)
        world.until(lambda: (found := world.found("candles")) is not None and found.status.lag_events == 0)
        found = world.found("candles")
        assert found is not None
        assert found.status.lag_seconds == 0
        assert (found.status.rows_per_second or 0) > 0


def test_a_second_process_does_not_run_the_same_job(tmp_path: Path) -> None:
    with held(tmp_path / "pipeline", ["history"]):
        with (
            pytest.raises(BadOption, match="job history is already run by another process"),
            held(tmp_path / "pipeline", ["movers", "history"]),
        ):
            raise AssertionError
        with held(tmp_path / "pipeline", ["movers"]):
            pass
    with held(tmp_path / "pipeline", ["history"]):
        pass
