"""The pipeline beside the server of `penstock demo`: a process of its own, which the demo can do without.

It stops when it is told to, or when the demo's process is gone without having told. One that ends by itself is started
again, a few times. Nothing here imports pyspark. Read next: commands, whose `run` it starts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# In the order in which they begin: first what people see.
JOBS = ("candles", "movers", "history")

# Seconds for it to stop by itself, which takes it a few; afterwards it is killed, which harms nothing.
GRACE = 12.0

# Its exit code for an error in the configuration, which a restart does not fix.
WRONG = 2

WITHOUT = "the demo continues without it"


@dataclass(frozen=True)
class Again:
    """When a pipeline that ended is started again: seconds, and how often."""

    # Before the first time; it doubles, up to the last.
    first: float = 1.0
    last: float = 60.0
    # Starts in a row that came to nothing; then it stays stopped.
    tries: int = 5
    # One that ran this long was well: what follows is a first time again.
    well: float = 120.0


USUAL = Again()


def is_possible() -> bool:
    """Whether Spark is installed; without importing it, which takes a second."""
    return importlib.util.find_spec("pyspark") is not None


class Companion:
    """`start` when the server is ready, `stop` before it stops."""

    def __init__(
        self,
        options: Sequence[str],
        spark_log: Path,
        say: Callable[[str], None],
        command: Sequence[str] = (sys.executable, "-m", "penstock.pipeline", "run", *JOBS, "--wait", "--with-parent"),
        again: Again = USUAL,
    ) -> None:
        self._command = [*command, *options]
        self._spark_log = spark_log
        self._say = say
        self._again = again
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None

    def start(self, api: str) -> None:
        """Returns at once; a thread sees to it from now on."""
        self._command += ["--api", api]
        process = self._begin()
        if process is not None:
            self._watch = threading.Thread(target=self._attend, args=(process,), name="pipeline", daemon=True)
            self._watch.start()

    def stop(self) -> None:
        """Returns when it is gone."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            if process.poll() is None:
                self._say("pipeline: stopping…")
                process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self._say("pipeline: did not stop in time, killed")
            self._clear_away(process)
        if self._watch is not None:
            self._watch.join()

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """In a process group of its own, so that Ctrl-C reaches it through us, in order."""
        with self._lock:
            if self._stopping.is_set():
                return None
            try:
                self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
            except OSError as error:
                self._say(f"pipeline: cannot be started ({error}); {WITHOUT}")
                return None
            return self._process

    def _attend(self, process: subprocess.Popen[bytes] | None) -> None:
        """Until it is stopped, or cannot be helped."""
        pause, tries = self._again.first, 0
        while process is not None:
            begun = time.monotonic()
            code = process.wait()
            if self._stopping.is_set():
                return
            self._clear_away(process)
            if code == 0:
                self._say(f"pipeline: was stopped by another process; {WITHOUT}")
                return
            if code == WRONG:
                self._say(f"pipeline: cannot run as it is configured, as it said above; {WITHOUT}")
                return
            if time.monotonic() - begun >= self._again.well:
                pause, tries = self._again.first, 0
            tries += 1
            ended = f"pipeline: {_ended(code)}"
            if tries > self._again.tries:
                self._say(
                    f"{ended}, {tries} times in a row, and stays stopped; {WITHOUT}: no candles, no movers, no history."
                    f" Why: {self._spark_log}. To try again, start the demo again"
                )
                return
            self._say(f"{ended}; it restarts in {pause:g} s. Why: {self._spark_log}")
            if self._stopping.wait(pause):
                return
            pause = min(pause * 2, self._again.last)
            process = self._begin()

    def _clear_away(self, process: subprocess.Popen[bytes]) -> None:
        """The JVM and Spark's workers are in its group; none of them is to be left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _ended(code: int) -> str:
    """In plain words."""
    if code == -signal.SIGKILL:
        return "was killed, perhaps because memory ran out"
    return "has failed" if code > 0 else f"was ended by signal {-code}"
