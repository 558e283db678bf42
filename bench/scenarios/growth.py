"""Growth: what an update and a session cost as subscribers, items and fields become more, up to ten times and beyond.

One of the three grows, the others stay; no update may be passed over. What is linear shows as a flat line of cost per
update; the plot goes to docs/.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.peers import penstock
from bench.rig.build import BUILD
from bench.rig.contest import attempt, fail_if_wrong, installed, middle
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.plot import Line, plot
from bench.rig.results import Report
from bench.scenarios.saturation import WARM_UP

ABOUT = "cost per update and per session as subscribers, items and fields grow; draws a plot"

PLOT = BUILD.parent.parent / "docs" / "growth.svg"
WINDOW = 1000
BASE = {"subscribers": 1000, "items": 100, "each": 10, "fields": 3}


@dataclass(frozen=True, slots=True)
class Sweep:
    """What grows, and its sizes; the first is the unit."""

    what: str
    sizes: tuple[int, ...]


def sweeps(largest: int) -> list[Sweep]:
    return [
        Sweep("subscribers", tuple(size for size in (100, 300, 1000, 3000, 10_000) if size <= largest)),
        Sweep("items", tuple(size for size in (100, 200, 500, 1000) if size <= largest)),
        Sweep("fields", tuple(size for size in (3, 6, 15, 30) if size * 100 <= largest)),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--largest", type=int, default=10_000, help="subscribers at the most (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")
    parser.add_argument("--no-plot", action="store_true", help="leave docs/ as it is")


def connections(options: argparse.Namespace) -> int:
    return int(options.largest)


def server_arguments(fields: int) -> list[str]:
    return ["--fields", ",".join(["sequence", "value", *[f"note{number}" for number in range(fields - 2)]])]


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("growth")
    installed([penstock.EXACT], report)
    lines = []
    for sweep in sweeps(options.largest):
        costs, rows = [], []
        for size in sweep.sizes:
            shape: dict[str, Any] = {**BASE, "subscribers": min(1000, options.largest), sweep.what: size}
            runs: list[Run] = []
            opening: list[float] = []

            def measure(load: Load, name: str, runs: list[Run] = runs, opening: list[float] = opening) -> None:
                opening.append(load.opened.cpu / load.opened.opened)
                load.window(WINDOW, WARM_UP)
                runs.append(load.window(WINDOW, options.seconds))

            name = f"{size:,} {sweep.what}"
            peer = penstock.variant(name, "", server_arguments(shape["fields"]), penstock.EXACT.options)
            for _ in range(options.rounds):
                attempt(peer, cores, shape, report, measure)
            if not runs:
                continue
            fail_if_wrong(report, name, runs)
            cost = 1e9 / middle(runs, "per_cpu_second")
            costs.append((size / sweep.sizes[0], cost))
            published = middle(runs, "cpu") / middle(runs, "published") * 1e6
            rows.append((name, f"{cost:.0f}", f"{published:.0f}", f"{median(opening) * 1e3:.2f}"))
        lines.append(Line(f"{sweep.what}, from {sweep.sizes[0]:,}", costs))
        report.table(
            f"{sweep.what} grow",
            ("CPU ns per delivered update", "CPU µs per published update", "CPU ms to open a session"),
            rows,
        )
    if not options.no_plot:
        title = "CPU nanoseconds per delivered update, as one of three grows"
        PLOT.write_text(plot(title, "times as many", "ns", lines))
        report.remark("![cost per update as subscribers, items and fields grow](growth.svg)")
    return report.save()
