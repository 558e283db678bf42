"""Ctrl-C while Spark is at it: a terminal sends SIGINT to all processes of the group, the JVM's as well."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import PENSTOCK

PATIENCE = 60.0

RANGE = ("--since", "2026-01-30T00:00:00Z", "--until", "2026-01-31T00:00:00Z")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3 * PATIENCE)]


@pytest.mark.parametrize(
    ("arguments", "code", "output", "errors"),
    [
        (("run", "history"), 0, "pipeline: starting Spark…\npipeline: stopping…\n", ""),
        (
            ("backfill", "candles", *RANGE),
            130,
            "",
            "penstock: stopped; to publish the rest, run the same command again\n",
        ),
    ],
    ids=["run", "backfill"],
)
def test_ctrl_c_says_one_line_and_nothing_is_left(
    tmp_path: Path, arguments: tuple[str, ...], code: int, output: str, errors: str
) -> None:
    (tmp_path / "penstock-data" / "journal").mkdir(parents=True)
    # No server is there to take figures in, which would be told.
    (tmp_path / "penstock.toml").write_text('[pipeline]\nstatus = ""\n')
    spark_log = tmp_path / "penstock-data" / "pipeline" / "spark.log"
    process = subprocess.Popen(
        [str(PENSTOCK), "pipeline", *arguments, "--config", "penstock.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # The JVM is there, and has begun to talk.
        until(lambda: spark_log.exists() and spark_log.stat().st_size > 0)
        os.killpg(process.pid, signal.SIGINT)
        assert (*process.communicate(timeout=PATIENCE), process.returncode) == (output, errors, code)
        until(lambda: not is_there(process.pid))
    finally:
        if is_there(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
