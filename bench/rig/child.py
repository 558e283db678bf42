"""A server under test as a process of its own: started, pinned, waited for, told things on standard input, stopped."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.rig import meter
from bench.rig.machine import every_core

# What both the server and the baselines print when they listen.
READY = re.compile(r"\S+: ready  stream=http://([\d.]+):(\d+)")
# What the server of the benchmarks adds: where it is fed, and where it speaks TLS.
FEED = re.compile(r"  feed=(\d+)")
TLS = re.compile(r"  tls=https://[\d.]+:(\d+)")

# A server that does not end by itself after a polite signal is killed after this many seconds.
STOP_PATIENCE = 30.0

# One that does not listen after this many seconds has failed.
START_PATIENCE = 30.0


class ChildError(Exception):
    """The process did not come up, or did not end well; the text carries the end of its log."""


class Program:
    """A command; a context manager. `directory` is its own: the log goes there. Without a core it may use all."""

    # Whether it says on standard output that it is ready; else that goes into the log.
    _speaks = True

    def __init__(
        self,
        directory: Path,
        core: int | None,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._core = core
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._log = directory / "log"
        self._process: subprocess.Popen[str]
        self.host = "127.0.0.1"
        self.port = 0
        # Where it takes in what is to be published; 0 if that is the same port.
        self.feed_port = 0
        self.tls_port = 0
        # The line in which it says where it is.
        self.ready = ""

    def __enter__(self) -> Self:
        # It inherits its core: some look at how many there are when they start.
        usable = os.sched_getaffinity(0)
        with self._log.open("w") as log:
            os.sched_setaffinity(0, every_core() if self._core is None else {self._core})
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if self._speaks else log,
                    stderr=log,
                    text=True,
                    bufsize=1,
                    env=self._environment,
                )
            finally:
                os.sched_setaffinity(0, usable)
        try:
            self._wait_until_ready()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._close_pipes()
            raise
        return self

    def _wait_until_ready(self) -> None:
        """It prints a line when it listens."""
        line = self.read_line()
        match = READY.match(line)
        if match is None:
            raise ChildError(f"{' '.join(self._command)} said {line!r} and not that it is ready; {self._end_of_log()}")
        self.host, self.port, self.ready = match[1], int(match[2]), line
        if feed := FEED.search(line):
            self.feed_port = int(feed[1])
        if tls := TLS.search(line):
            self.tls_port = int(tls[1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
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

    @property
    def process_id(self) -> int:
        return self._process.pid

    def memory(self) -> int:
        return meter.memory(self._process.pid)

    def cpu_seconds(self) -> float:
        return meter.cpu_seconds(self._process.pid)

    def _end_of_log(self) -> str:
        return f"its log ends with: {self._log.read_text()[-2000:]}"


class Child(Program):
    """`python -m module arguments`."""

    def __init__(self, directory: Path, core: int | None, module: str, *arguments: str) -> None:
        super().__init__(directory, core, [sys.executable, "-m", module, *arguments])


class WorkersProgram(Child):
    """A hub of `workers`, whose children are the edges. None has a core of its own: there are more than cores."""

    def __init__(self, directory: Path, workers: int) -> None:
        super().__init__(
            directory,
            None,
            "bench.rig.workers",
            "--workers",
            str(workers),
            f"server.data_dir={directory / 'data'}",
        )

    def edges(self) -> list[int]:
        return meter.descendants(self._process.pid)

    def hub_seconds(self) -> float:
        return meter.cpu_seconds(self._process.pid)

    def cpu_seconds(self) -> float:
        return self.hub_seconds() + sum([meter.cpu_seconds(edge) for edge in self.edges()])

    def memory(self) -> int:
        return meter.memory(self._process.pid) + sum([meter.memory(edge) for edge in self.edges()])


class Daemon(Program):
    """A server that is told its ports and says nothing when it listens: it is ready when it accepts connections."""

    _speaks = False

    def __init__(
        self,
        directory: Path,
        core: int | None,
        command: Sequence[str],
        port: int,
        feed_port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, core, command, environment)
        self.port = port
        self.feed_port = feed_port

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_PATIENCE
        for port in {self.port, self.feed_port} - {0}:
            while not _accepts(self.host, port):
                if self._process.poll() is not None or time.monotonic() > end:
                    raise ChildError(f"{' '.join(self._command)} does not listen on {port}; {self._end_of_log()}")
                time.sleep(0.02)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def penstock(directory: Path, core: int | None, settings: Sequence[str]) -> Child:
    """`penstock serve` on any free port, with the defaults except for these lines of configuration."""
    configuration = directory / "penstock.toml"
    configuration.write_text("\n".join(["stream.port = 0", "api.port = 0", *settings]) + "\n")
    data = directory / "data"
    return Child(directory, core, "penstock.cli", "serve", "--config", str(configuration), "--data-dir", str(data))
