"""A server under test as a process of its own: started, pinned, waited for, told things on standard input, stopped."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from bench import meter
from bench.machine import pin

# What both the server and the baselines print when they listen.
READY = re.compile(r"\S+: ready  stream=http://([\d.]+):(\d+)")

# A server that does not end by itself after a polite signal is killed after this many seconds.
STOP_PATIENCE = 30.0


class ChildError(Exception):
    """The process did not come up, or did not end well; the text carries the end of its log."""


class Child:
    """`python -m module arguments`; a context manager. `directory` is its own: the log goes there."""

    def __init__(self, directory: Path, core: int | None, module: str, *arguments: str) -> None:
        self._core = core
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = directory / "log"
        self._process: subprocess.Popen[str]
        self.host = ""
        self.port = 0
        # The line in which it says where it is.
        self.ready = ""

    def __enter__(self) -> Child:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        pin(self._process.pid, self._core)
        line = self.read_line()
        match = READY.match(line)
        if match is None:
            self._process.kill()
            self._process.wait()
            raise ChildError(f"{' '.join(self._command)} said {line!r} and not that it is ready; {self._end_of_log()}")
        self.host, self.port, self.ready = match[1], int(match[2]), line
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def read_line(self) -> str:
        """The next line of standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def tell(self, line: str) -> None:
        """Write a line to standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def memory(self) -> int:
        return meter.memory(self._process.pid)

    def cpu_seconds(self) -> float:
        return meter.cpu_seconds(self._process.pid)

    def writes(self) -> int:
        return meter.writes(self._process.pid)

    def _end_of_log(self) -> str:
        return f"its log ends with: {self._log.read_text()[-2000:]}"


def penstock(directory: Path, core: int | None, settings: Sequence[str]) -> Child:
    """`penstock serve` on any free port, with the defaults except for these lines of configuration."""
    configuration = directory / "penstock.toml"
    configuration.write_text("\n".join(["stream.port = 0", "api.port = 0", *settings]) + "\n")
    data = directory / "data"
    return Child(directory, core, "penstock.cli", "serve", "--config", str(configuration), "--data-dir", str(data))
