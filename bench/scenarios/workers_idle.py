"""Idle sessions of `penstock serve --workers` against those of one process: memory of each, CPU time of all.

The sessions are those of `ramp`: a WebSocket, a TLCP session and a subscription to an item that does not change. Memory
is what the processes have grown by, over all of them, when the sessions were opened.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.peers.penstock import install
from bench.rig import meter
from bench.rig.child import ChildError, Program
from bench.rig.child import penstock as serve
from bench.rig.load import Load
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.ramp import LATE_MILLIS, SETTINGS, SETTLING, USUAL_MILLIS, WARM_UP, most_sessions

ABOUT = "memory and CPU time of idle sessions over two workers, against one process"

# How a worker is started: see penstock.cluster.supervisor.
MODULE = "penstock.worker"

LOAD = {"adapter-set": "WELCOME", "data-adapter": "STOCKS", "silence": USUAL_MILLIS + LATE_MILLIS}
SUBSCRIBED = {**LOAD, "idle": True, "items": 1, "each": 1, "fields": 3}


class Processes:
    """Of a server: by their names what each has used."""

    def __init__(self, server: Program) -> None:
        self._names = {server.process_id: "server"}
        for process in meter.descendants(server.process_id):
            words = meter.command(process)
            if MODULE in words:
                self._names[process] = words[words.index(MODULE) + 1]

    def memory(self) -> dict[str, int]:
        return {name: meter.memory(process) for process, name in self._names.items()}

    def cpu(self) -> dict[str, float]:
        return {name: meter.cpu_seconds(process) for process, name in self._names.items()}


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in after.items()}


@dataclass(frozen=True, slots=True)
class Idle:
    """By process: bytes before and grown by, CPU-seconds to open all, share of a core while idle."""

    sessions: int
    base: dict[str, int]
    memory: dict[str, float]
    opening: dict[str, float]
    share: dict[str, float]
    failure: str

    @property
    def bytes_each(self) -> float:
        return sum(self.memory.values()) / self.sessions

    @property
    def total_share(self) -> float:
        return sum(self.share.values())


def measure(workers: int, sessions: int, seconds: float, settling: float, cores: Cores) -> Idle:
    """Of a server with so many workers; 0 is one process."""
    settings = [*SETTINGS, *([f"server.workers = {workers}"] if workers else [])]
    with (
        tempfile.TemporaryDirectory() as directory,
        serve(Path(directory), None if workers else cores.server, settings) as server,
        Load(server, "tlcp", cores.load, {**SUBSCRIBED, "subscribers": WARM_UP}) as first,
    ):
        processes = Processes(server)
        base, cpu = processes.memory(), processes.cpu()
        with Load(server, "tlcp", cores.load, {**SUBSCRIBED, "subscribers": sessions}) as load:
            opening = grown(cpu, processes.cpu())
            settled = load.idle(settling)
            cpu = processes.cpu()
            idle = load.idle(seconds)
            used = grown(cpu, processes.cpu())
            memory = grown({**base}, {**processes.memory()})
    failure = first.opened.failure or load.opened.failure or settled.failure or idle.failure
    share = {name: each / idle.seconds for name, each in used.items()}
    return Idle(sessions, base, memory, opening, share, failure)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sessions", type=int, default=20_000, help="or as many as this machine allows (default %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long they are idle (default %(default)s)")
    parser.add_argument("--settling", type=float, default=SETTLING, help="seconds before that (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often both are measured in turn")


def connections(options: argparse.Namespace) -> int:
    return min(int(options.sessions), most_sessions()) + WARM_UP


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("workers-idle")
    report.remark(install())
    sessions = min(options.sessions, most_sessions())
    found: dict[int, list[Idle]] = {}
    for _ in range(options.rounds):
        for workers in (0, options.workers):
            try:
                found.setdefault(workers, []).append(
                    measure(workers, sessions, options.seconds, options.settling, cores)
                )
            except ChildError as error:
                report.failure(_name(workers), str(error))
    rows = []
    # The best of the rounds: another program on the machine makes all of them worse and none better.
    single = min(found[0], key=lambda each: each.bytes_each) if 0 in found else None
    for workers, rounds in found.items():
        for each in rounds:
            if each.failure:
                report.failure(_name(workers), each.failure)
        least = min(rounds, key=lambda each: each.bytes_each)
        quiet = min(rounds, key=lambda each: each.total_share)
        opened = min(rounds, key=lambda each: sum(each.opening.values()))
        hub = [least.memory, opened.opening, quiet.share] if workers else []
        rows.append(
            (
                _name(workers),
                f"{least.bytes_each / 1024:.2f}",
                "-" if single is None else f"{least.bytes_each / single.bytes_each:.2f}",
                f"{hub[0]['hub'] / sessions / 1024:.2f}" if hub else "-",
                f"{sum(least.base.values()) / 2**20:.0f}",
                f"{sum(opened.opening.values()) / sessions * 1e3:.2f}",
                f"{hub[1]['hub'] / sessions * 1e3:.2f}" if hub else "-",
                f"{quiet.total_share:.1%}",
                f"{hub[2]['hub']:.1%}" if hub else "-",
            )
        )
    report.table(
        f"{sessions:,} sessions, idle for {options.seconds:g} s",
        (
            "KiB each",
            "of one process",
            "of these the hub",
            "MiB before",
            "CPU ms to open one",
            "of these the hub",
            "of a core while idle",
            "of these the hub",
        ),
        rows,
    )
    return report.save()


def _name(workers: int) -> str:
    return f"penstock, {workers} workers" if workers else "penstock, one process"
