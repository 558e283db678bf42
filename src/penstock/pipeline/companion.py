"""The pipeline beside the server of `penstock demo`: a process of its own, which the demo can do without.

It stops when it is told to, or when the demo's process is gone without having told. Nothing here imports pyspark.
Read next: commands, whose `run` it starts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

# In the order in which they begin: first what people see.
JOBS = ("candles", "movers", "history")

# Seconds for it to stop by itself, which takes it a few; afterwards it is killed, which harms nothing.
GRACE = 12.0


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
        command: Sequence[str] = (sys.executable, "-m", "penstock.pipeline", "run", *JOBS, "--with-parent"),
    ) -> None:
        self._command = [*command, *options]
        self._spark_log = spark_log
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._watch: threading.Thread | None = None

    def start(self, api: str) -> None:
        """In a process group of its own, so that Ctrl-C reaches it through us, in order."""
        try:
            self._process = subprocess.Popen(
                [*self._command, "--api", api], stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            self._say(f"pipeline: cannot be started ({error}); the demo goes on without it")
            return
        self._watch = threading.Thread(target=self._wait, args=(self._process,), name="pipeline", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """Returns when it is gone."""
        process = self._process
        if process is None:
            return
        self._stopping = True
        if process.poll() is None:
            self._say("pipeline: stopping…")
            process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._say("pipeline: does not stop, killed")
        # The JVM and Spark's workers are in its group; none of them is to be left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if self._watch is not None:
            self._watch.join()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if not self._stopping:
            ended = f"ended with code {code}" if code >= 0 else f"was ended by signal {-code}"
            self._say(f"pipeline: {ended}; the demo goes on without it (its log: {self._spark_log})")
