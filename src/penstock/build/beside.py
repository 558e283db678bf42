"""Makes the compiled build while a server runs, so that nobody waits for the compiler: `penstock demo --compile`.

The server that runs stays as it is; the next one is compiled. How a build is made is in `compiler`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from penstock.build.choice import PACKAGE, VARIABLE, digest, shelf

# After the server and Spark: they are what people wait for.
NICE = ("nice", "-n", "19")
COMMAND = (sys.executable, "-m", "penstock", "compile", "--optional")

# Seconds for the tools to end and to leave nothing behind.
GRACE = 5.0


class Compilation:
    """`start` when the server is ready, `stop` before it stops. There is nothing to do if the build is there."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, api: str) -> None:
        if (shelf() / digest(PACKAGE)).exists():
            return
        # In a session of its own, because it is many processes, which are ended together. It prints for people.
        environment = os.environ | {VARIABLE: ""}
        self._process = subprocess.Popen([*NICE, *self._command], env=environment, start_new_session=True)

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
            try:
                process.wait(GRACE)
                return
            except subprocess.TimeoutExpired:
                continue
