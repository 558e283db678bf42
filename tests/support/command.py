"""The installed `penstock` command, started with the options that a test gives it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

# `make setup` puts the command next to the interpreter.
PENSTOCK = Path(sys.executable).with_name("penstock")

# Seconds for a command that ends by itself, on a machine with other work: less than a test may take.
PATIENCE = 50.0

# Any free ports.
PORTS = ("--port", "0", "--api-port", "0")


class Command:
    """A running command; used as a context manager, which kills it if the test has not stopped it."""

    def __init__(self, directory: Path, *arguments: str, limits: Mapping[int, int] | None = None) -> None:
        """`limits` are those of the system for the process, such as `{resource.RLIMIT_NOFILE: 100}`."""
        self._errors = directory / "stderr.txt"
        words = [f"resource.setrlimit({name}, ({value}, {value}));" for name, value in (limits or {}).items()]
        begin = ["-c", f"import os, resource, sys; {' '.join(words)} os.execv(sys.argv[1], sys.argv[1:])"]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [*([sys.executable, *begin] if limits else []), str(PENSTOCK), *arguments],
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def line(self) -> str:
        """The next line of standard output."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith("\n"), f"no line but {line!r}; errors: {self.errors}"
        return line[:-1]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return self._errors.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal and wait: the exit code, and what was still to be read from standard output."""
        self._process.send_signal(number)
        output, _ = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, output


def run(directory: Path, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; `given` is what it can read from standard input."""
    command = [str(PENSTOCK), *arguments]
    return subprocess.run(
        command, cwd=directory, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
