"""The load client `bench/native/load` from Python: started on its core, told what to publish, asked for its verdict.

It is a process of its own, in C, because one in Python would be slower than the servers it measures. What it printed is
taken as it is: figures of a run in which a value was wrong or missing carry the reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from bench.rig.build import native
from bench.rig.child import ChildError, Program
from bench.rig.machine import pin


@dataclass(frozen=True, slots=True)
class Opened:
    """How opening all subscribers went."""

    opened: int
    seconds: float
    # CPU-seconds of the server.
    cpu: float
    failure: str


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one order. Latencies are in milliseconds, from publishing to the decoded update."""

    published: int
    delivered: int
    # Left out in favour of later ones, where that is allowed.
    passed_over: int
    limited: int
    slow: int
    wrong: int
    missing: int
    # From the first publish until all had arrived, and until publishing stopped.
    seconds: float
    publishing: float
    # Of the server, and of the load: CPU-seconds, and its share of a core while publishing.
    cpu: float
    load_cpu: float
    load_share: float
    p50: float
    p99: float
    p999: float
    # Turns in which the server did not take in what was due.
    late: int
    # What came in, of all subscribers and of those with limited bandwidth; frames with data: one for each write of a
    # server to a subscriber, whatever system calls it uses. Raw connections have none.
    bytes: int
    frames: int
    limited_bytes: int
    failure: str

    @property
    def per_cpu_second(self) -> float:
        return self.delivered / self.cpu if self.cpu else 0.0

    @property
    def share(self) -> float:
        """The part of a core that the server used."""
        return self.cpu / self.seconds


class Load:
    """Subscribers of one server; a context manager. `options` are those of the program, without the dashes."""

    def __init__(self, server: Program, speaks: str, core: int | None, options: Mapping[str, Any]) -> None:
        self._server = server
        self._core = core
        port = server.tls_port if options.get("tls") else server.port
        self._command = [
            str(native("load")),
            "--peer",
            speaks,
            "--port",
            str(port),
            "--feed-port",
            str(server.feed_port),
        ]
        for name, value in options.items():
            if value is True:
                self._command.append(f"--{name}")
            elif value not in (False, None, ""):
                self._command += [f"--{name}", str(value)]
        self._process: subprocess.Popen[str]
        self.opened: Opened

    def __enter__(self) -> Load:
        cpu = self._server.cpu_seconds()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        pin(self._process.pid, self._core)
        try:
            told = self._answer()
        except ChildError:
            self._end()
            raise
        self.opened = Opened(told["opened"], told["seconds"], self._server.cpu_seconds() - cpu, _failure(told))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def window(self, window: int, seconds: float) -> Run:
        """Publish as fast as the subscribers take it in, with at most `window` under way."""
        return self._order(f"window {window} {seconds}")

    def rate(self, per_second: float, seconds: float) -> Run:
        """Publish at a fixed pace."""
        return self._order(f"rate {per_second} {seconds}")

    def bursts(self, per_second: float, size: int, seconds: float) -> Run:
        """The same in bursts of so many: where the items of a subscriber are next to one another, in one write."""
        return self._order(f"bursts {per_second} {size} {seconds}")

    def idle(self, seconds: float) -> Run:
        """Publish nothing; every subscriber must hear something in this time."""
        return self._order(f"idle {seconds}")

    def _order(self, order: str) -> Run:
        assert self._process.stdin is not None
        cpu = self._server.cpu_seconds()
        self._process.stdin.write(order + "\n")
        told = self._answer()
        failure = _failure(told)
        del told["reason"]
        return Run(**told, cpu=self._server.cpu_seconds() - cpu, failure=failure)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(f"the load ended with code {self._process.wait()}: {' '.join(self._command)}")
        told = json.loads(line)
        assert isinstance(told, dict)
        return told


def _failure(told: Mapping[str, Any]) -> str:
    """Empty, or why the figures do not count."""
    if told["wrong"]:
        return f"{told['wrong']:,} wrong; the first: {told['reason']}"
    if told.get("missing"):
        return f"{told['missing']:,} pairs of subscriber and item lack the last update"
    return ""
