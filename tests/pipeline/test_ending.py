"""A program of somebody's own with Spark in it, as docs/pipeline.md has one, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.test_realtime import post, published

# Spark takes its time to start, much more of it on a machine that has other work.
PATIENCE = 240.0
END_PATIENCE = 60.0

PROGRAM = """
from pathlib import Path
from pyspark.sql import functions as fn
from penstock.pipeline import run_until_stopped
from penstock.pipeline.session import open_session
spark = open_session("test", Path("spark"), master="local[1,4]", quick=True)
rates = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
def write(batch, number):
    if Path("fail").exists():
        raise ValueError("the plant is closed")
    Path("batch").touch()
    # In the middle of something whenever it is stopped.
    nap = fn.java_method(fn.lit("java.lang.Thread"), fn.lit("sleep"), fn.lit(20).cast("long"))
    spark.range(100).select(nap).toArrow()
rates.writeStream.foreachBatch(write).option("checkpointLocation", "checkpoint").start()
run_until_stopped(spark)
print("the last line of the program", flush=True)
"""

REAL_TIME = """
import sys
from pathlib import Path
from penstock.pipeline import run_until_stopped
from penstock.pipeline.realtime import publish_real_time, real_time_events
from penstock.pipeline.session import open_session
journal, server, token = sys.argv[1:]
spark = open_session("test", Path("spark"), master="local[1,4]", quick=True, real_time=True)
events = real_time_events(spark, journal, entities=["SET/OUT/d.in"], kinds=["update"], starting="earliest")
numbers = events.selectExpr("sequence", "get_json_object(value, '$.n') AS n")
publish_real_time(
    numbers, server=server, adapter_set="SET", adapter="OUT", token=token, item_template="d.out", mode="DISTINCT",
    checkpoint="checkpoint",
)
run_until_stopped(spark)
"""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(PATIENCE + END_PATIENCE)]


class Program:
    """In a process group of its own, as a terminal starts it."""

    def __init__(self, folder: Path, text: str = PROGRAM, *arguments: str) -> None:
        self._folder = folder
        self._said = folder / "said.txt"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", text, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def until_at_work(self, is_at_work: Callable[[], bool] | None = None) -> str:
        """What was said before."""
        deadline = time.monotonic() + PATIENCE
        while not (is_at_work or (self._folder / "batch").exists)():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            threading.Event().wait(0.05)
        return self.said

    @property
    def said(self) -> str:
        return self._said.read_text()

    def interrupt(self) -> None:
        """Ctrl-C: every process of the group gets it, Spark's as well."""
        os.killpg(self.process.pid, signal.SIGINT)

    def is_there(self) -> bool:
        """Any process of the group."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def check_end(self) -> None:
        """Spark's own helpers need a moment to see that their JVM is gone."""
        deadline = time.monotonic() + END_PATIENCE
        while self.is_there():
            assert time.monotonic() < deadline, "something of Spark is left"
            threading.Event().wait(0.05)

    def kill(self) -> None:
        if self.is_there():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path)
    yield running
    running.kill()


def test_ctrl_c_ends_a_program_with_one_line_and_all_of_spark_with_it(program: Program) -> None:
    before = program.until_at_work()
    program.interrupt()
    assert program.process.wait(END_PATIENCE) == 0, program.said
    assert program.said.removeprefix(before) == "penstock: stopping Spark…\nthe last line of the program\n"
    program.check_end()


def test_a_query_that_fails_ends_the_program_with_one_line_of_its_own(program: Program, tmp_path: Path) -> None:
    program.until_at_work()
    (tmp_path / "fail").touch()
    assert program.process.wait(END_PATIENCE) == 1, program.said
    assert program.said.splitlines()[-1] == "penstock: a query has failed: ValueError: the plant is closed"


@pytest.mark.spark_long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_query_in_real_time_is_stopped_with_one_line_as_well(number: signal.Signals, tmp_path: Path) -> None:
    """Spark waits for such a batch, which does not end by itself."""
    (tmp_path / "program").mkdir()
    with RealServer(tmp_path / "server") as server:
        post(server, range(1, 4))
        journal = str(server.directory / "data" / "journal")
        program = Program(tmp_path / "program", REAL_TIME, journal, server.api, TOKEN)
        try:
            before = program.until_at_work(lambda: len(published(server)) == 3)
            if number == signal.SIGINT:
                program.interrupt()
            else:
                program.process.send_signal(number)
            assert program.process.wait(END_PATIENCE) == 0, program.said
            assert program.said.removeprefix(before) == "penstock: stopping Spark…\n"
            program.check_end()
        finally:
            program.kill()
