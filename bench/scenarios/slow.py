"""Slow ones among fast ones: sessions with little bandwidth, and clients that read slowly, beside many that do neither.

The fast ones must not notice: figures are compared with a run in which all are fast. The slow ones get what they can
take, merged, and must have the last value of every item in the end.
"""

from __future__ import annotations

import argparse

from bench.peers import penstock
from bench.rig.contest import attempt, fail_if_wrong, installed, middle
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, WARM_UP, tens

ABOUT = "fast sessions beside bandwidth-limited ones and slow readers"

KILOBITS = 8
# A limit is kept over seconds, not over moments, and is one of lines: frames and keep-alives come on top.
TOLERANCE = 1.25
SLOW_BYTES = 200  # at a time, ten times a second


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscribers", type=tens, default=1000, help="(default %(default)s)")
    parser.add_argument(
        "--share", type=float, default=0.1, help="of limited ones, and of slow ones (default %(default)s)"
    )
    parser.add_argument("--rate", type=int, default=500_000, help="deliveries a second to all (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(options.subscribers)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("slow")
    installed([penstock.PEER], report)
    few = int(options.subscribers * options.share)
    cases = {
        "all fast": {},
        f"{few} with {KILOBITS} kbit/s": {"limited": few, "bandwidth": KILOBITS},
        f"{few} slow readers": {"slow": few, "slow-bytes": SLOW_BYTES},
        f"{few} of each": {"limited": few, "bandwidth": KILOBITS, "slow": few, "slow-bytes": SLOW_BYTES},
    }
    size = {"subscribers": options.subscribers, "items": ITEMS, "each": EACH}
    pace = options.rate / (options.subscribers * EACH / ITEMS)
    figures: dict[str, list[Run]] = {}
    for _ in range(options.rounds):
        for case, extra in cases.items():

            def measure(load: Load, name: str, case: str = case) -> None:
                load.rate(pace, WARM_UP)
                figures.setdefault(case, []).append(load.rate(pace, options.seconds))

            attempt(penstock.PEER, cores, {**size, **extra}, report, measure)
    rows = []
    for case, runs in figures.items():
        fail_if_wrong(report, case, runs)
        limited = cases[case].get("limited", 0)
        kilobits = [run.limited_bytes * 8 / 1000 / limited / run.seconds for run in runs] if limited else []
        if any(rate > KILOBITS * TOLERANCE for rate in kilobits):
            report.failure(case, f"{max(kilobits):.1f} kbit/s for a session with {KILOBITS}")
        rows.append(
            (
                case,
                f"{middle(runs, 'p50'):.1f}",
                f"{middle(runs, 'p99'):.1f}",
                f"{middle(runs, 'p999'):.1f}",
                f"{middle(runs, 'share'):.0%}",
                f"{max(kilobits):.1f}" if kilobits else "-",
                f"{middle(runs, 'slow') / few / middle(runs, 'seconds'):.0f}" if "slow" in cases[case] else "-",
            )
        )
    report.table(
        f"{options.subscribers:,} subscribers, {options.rate:,} deliveries a second offered",
        ("fast ones, ms: p50", "p99", "p99.9", "of a core", "limited: kbit/s", "slow: updates a second"),
        rows,
    )
    return report.save()
