"""A server of several processes against one of one process: updates for each CPU-second of all of them together.

The load is that of `peers`: a hundred items in turn, ten for each subscriber, at most a window of updates under way.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from bench.peers import Peer, penstock
from bench.rig.child import Program, WorkersProgram
from bench.rig.contest import attempt, fail_if_wrong, middle, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, WARM_UP, tens

ABOUT = "updates per CPU-second of all processes together, of two workers and a hub against one process"


def peer_of(workers: int, started: list[WorkersProgram]) -> Peer:
    def start(directory: Path, core: int | None) -> Program:
        started.append(WorkersProgram(directory, workers))
        return started[-1]

    about = f"{workers} workers and a hub, wherever the system puts them"
    return Peer(f"penstock-{workers}-workers", "tlcp", about, penstock.install, start, {"conflated": True})


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscribers", type=tens, nargs="+", default=[1000, 5000], help="(default 1000 5000)")
    parser.add_argument("--window", type=int, default=1000, help="updates under way at the most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="how often both are measured in turn")


def connections(options: argparse.Namespace) -> int:
    return int(max(options.subscribers))


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("workers")
    started: list[WorkersProgram] = []
    single, several = penstock.PEER, peer_of(options.workers, started)
    for peer in (single, several):
        report.remark(f"{peer.name}: {peer.about} ({peer.install()})")
    for subscribers in options.subscribers:
        runs: dict[str, list[Run]] = {single.name: [], several.name: []}
        shares: list[float] = []

        def take(load: Load, name: str) -> None:
            load.window(options.window, WARM_UP)
            program = started[-1] if name == several.name else None
            before = None if program is None else (program.hub_seconds(), program.cpu_seconds())
            runs[name].append(load.window(options.window, options.seconds))  # noqa: B023
            if program is not None and before is not None:
                hub, all_of_them = program.hub_seconds() - before[0], program.cpu_seconds() - before[1]
                shares.append(hub / all_of_them)  # noqa: B023

        for _ in range(options.rounds):
            for peer in (single, several):
                attempt(peer, cores, {"subscribers": subscribers, "items": ITEMS, "each": EACH}, report, take)
        rows = []
        for name, found in runs.items():
            if not found:
                continue
            fail_if_wrong(report, f"{name}, {subscribers:,} subscribers", found)
            rate = middle(found, "per_cpu_second")
            low, high = min(run.per_cpu_second for run in found), max(run.per_cpu_second for run in found)
            rows.append(
                (
                    name,
                    short(rate),
                    f"{short(low)}–{short(high)}",
                    f"{rate / middle(runs[single.name], 'per_cpu_second'):.2f}" if runs[single.name] else "-",
                    f"{median(shares):.0%}" if name == several.name and shares else "-",
                    f"{middle(found, 'p50'):.1f} / {middle(found, 'p99'):.1f}",
                )
            )
        report.table(
            f"{subscribers:,} subscribers, window {options.window:,}",
            ("updates per CPU-second", "range", "of one process", "hub's share", "ms: p50 / p99"),
            rows,
        )
    return report.save()
