"""Idle sessions: what it costs one server process to hold many clients to whom nothing happens.

Each has a WebSocket, a session and a subscription to an item that does not change; the server sends keep-alives.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from bench.child import Child, penstock
from bench.machine import Cores
from bench.swarm import Feed, Member, Swarm
from bench.table import print_failures, print_table, row

ABOUT = "memory and processor time of a server that holds idle WebSocket sessions, beside a bare server"

# A keep-alive may be this many seconds late: the load runs on a core that it shares with the rest of the machine.
LATENESS = 2.5

# The stock that trades least often; at the slowest pace it does not trade at all during a run.
STOCKS = Feed("WELCOME", "STOCKS", ("stock_name", "last_price", "time"), snapshot=True)
ITEMS = ("item4",)
SETTINGS = ("demo.pace = 0.001",)


class IdleMember(Member):
    """Expects its snapshot, then nothing but keep-alives, none of them late."""

    __slots__ = ("_last_line", "keepalives", "longest_silence", "updates")

    def __init__(self, feed: Feed, items: Sequence[str]) -> None:
        super().__init__(feed, items)
        self.updates = 0
        self.keepalives = 0
        self.longest_silence = 0.0
        # The silence before the snapshot is the load's own: members are made long before they connect.
        self._last_line = inf

    def streamed(self, payload: bytes) -> None:
        self.note_silence()
        self._last_line = time.monotonic()
        for line in payload.split(b"\r\n"):
            if line == b"PROBE" or line.startswith(b"SYNC,"):
                self.keepalives += 1
            elif line.startswith(b"U,1,1,"):
                self.updates += 1
            elif line:
                self.failed(f"unexpected while idle: {line[:80].decode('utf-8', 'replace')}")

    def note_silence(self) -> None:
        """Up to now nothing has come since the last line."""
        self.longest_silence = max(self.longest_silence, time.monotonic() - self._last_line)

    def check(self) -> None:
        """Judge the whole stream."""
        self.note_silence()
        if self.updates != 1:
            self.failed(f"{self.updates} updates instead of the snapshot alone")
        if self.longest_silence > self.keepalive + LATENESS:
            self.failed(f"silent for more than {self.keepalive + LATENESS:g} s")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: times in seconds."""

    sessions: int
    seconds: float
    # Sessions opened before the first measurement and kept: they make the server load and cache what it needs once.
    warm_up: int = 100
    # From the last session opened to the measurement of idleness; the first keep-alives are not like the later ones.
    settling: float = 12.0


@dataclass(frozen=True, slots=True)
class IdleFigures:
    """One server's cost of holding the sessions: bytes and seconds of processor for each, share of a core for all."""

    memory: float
    idle_share: float
    open_cpu: float
    opened_per_second: float
    keepalives: int
    failures: Counter[str]


async def measure(child: Child, plan: Plan) -> IdleFigures:
    """Open the sessions, leave them alone for some seconds, check that all of them are alive."""
    everybody = plan.warm_up + plan.sessions
    swarm = Swarm(child.host, child.port, [IdleMember(STOCKS, ITEMS) for _ in range(everybody)])
    await swarm.open(0, plan.warm_up)
    memory = child.memory()
    cpu = child.cpu_seconds()
    start = time.monotonic()
    await swarm.open(plan.warm_up, everybody)
    opening_time = time.monotonic() - start
    opening_cpu = child.cpu_seconds() - cpu
    await asyncio.sleep(plan.settling)
    keepalives = sum(member.keepalives for member in swarm.members)
    cpu = child.cpu_seconds()
    start = time.monotonic()
    await asyncio.sleep(plan.seconds)
    idle_share = (child.cpu_seconds() - cpu) / (time.monotonic() - start)
    keepalives = sum(member.keepalives for member in swarm.members) - keepalives
    grown = child.memory() - memory
    for member in swarm.members:
        member.check()
    await swarm.leave()
    return IdleFigures(
        memory=grown / plan.sessions,
        idle_share=idle_share,
        open_cpu=opening_cpu / plan.sessions,
        opened_per_second=plan.sessions / opening_time,
        keepalives=keepalives,
        failures=swarm.failures(),
    )


def server(directory: Path, core: int | None) -> Child:
    return penstock(directory, core, SETTINGS)


def baseline(directory: Path, core: int | None) -> Child:
    return Child(directory, core, "bench.baseline", "idle")


async def compare(plan: Plan, cores: Cores) -> tuple[IdleFigures, IdleFigures]:
    """The server, then the baseline, one after the other on the same core."""
    figures = []
    starters: tuple[Callable[[Path, int | None], Child], ...] = (server, baseline)
    for start in starters:
        with tempfile.TemporaryDirectory() as directory, start(Path(directory), cores.server) as child:
            figures.append(await measure(child, plan))
    return figures[0], figures[1]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=int, default=10_000, help="sessions to hold (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long they are idle (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    plan = Plan(options.sessions, options.seconds)
    return plan.warm_up + plan.sessions


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and print; False when a session failed."""
    ours, theirs = await compare(Plan(options.sessions, options.seconds), cores)
    print_table(
        f"{options.sessions:,} idle sessions for {options.seconds:g} s",
        ("penstock", "websockets", "ratio"),
        (
            row("memory per session, KiB", ours.memory / 1024, theirs.memory / 1024, ".1f"),
            row("processor while idle, % of a core", ours.idle_share * 100, theirs.idle_share * 100, ".1f"),
            row("processor to open one, ms", ours.open_cpu * 1000, theirs.open_cpu * 1000, ".2f"),
            row("opened per second", ours.opened_per_second, theirs.opened_per_second, ",.0f"),
            row("keep-alive lines while idle", ours.keepalives, theirs.keepalives, ",.0f"),
        ),
    )
    print_failures("penstock", ours.failures)
    print_failures("websockets", theirs.failures)
    return not ours.failures and not theirs.failures
