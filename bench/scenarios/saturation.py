"""Fan-out at saturation: how many updates each server delivers for each CPU-second.

A hundred items are published in turn, each subscriber takes ten of them. Updates are published as fast as the
subscribers take them in, at most `window` ahead, half of it at a time, which bounds how many go into one write.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench.peers import Peer
from bench.rig.contest import PEERS, add_peers, attempt, fail_if_wrong, installed, middle, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report

# For `all`, in seconds; on a quiet machine it takes about four minutes.
DEADLINE = 900.0

ABOUT = "updates delivered per CPU-second of the server at saturation, for all peers and floors"

ITEMS, EACH = 100, 10
GROUPS = ITEMS // EACH

# Those of the goals. The others are slow, or like one of these; `--only` measures them.
DEFAULT = [peer for peer in PEERS if peer.name in ("penstock", "c-coalesced", "socketify", "nats", "redis")]
WARM_UP = 0.5


def tens(text: str) -> int:
    number = int(text)
    if number < GROUPS or number % GROUPS:
        raise argparse.ArgumentTypeError(f"{number} is not a multiple of {GROUPS}")
    return number


def add_options(parser: argparse.ArgumentParser) -> None:
    add_peers(parser, DEFAULT)
    parser.add_argument(
        "--subscribers", type=tens, nargs="+", default=[100, 1000, 5000], help="(default 100 1000 5000)"
    )
    parser.add_argument(
        "--windows", "--window", type=int, nargs="+", default=[100, 1000], help="updates under way at the most"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one measurement (default %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=2, help="how often all of them are measured in turn (default %(default)s)"
    )


def connections(options: argparse.Namespace) -> int:
    return int(max(options.subscribers))


Figures = dict[tuple[str, int], list[Run]]


def measure(
    peers: list[Peer], size: dict[str, Any], options: argparse.Namespace, cores: Cores, report: Report
) -> Figures:
    """All rounds of all peers with so many subscribers: by name and window."""
    figures: Figures = {}

    def take(load: Load, name: str) -> None:
        for window in options.windows:
            load.window(window, WARM_UP)
            figures.setdefault((name, window), []).append(load.window(window, options.seconds))

    for _ in range(options.rounds):
        for peer in peers:
            attempt(peer, cores, size, report, take)
    return figures


def tell(figures: Figures, peers: list[Peer], subscribers: int, windows: list[int], report: Report) -> None:
    for window in windows:
        rows = []
        first = figures.get((peers[0].name, window))
        for peer in peers:
            runs = figures.get((peer.name, window))
            if not runs or not first:
                continue
            fail_if_wrong(report, f"{peer.name}, {subscribers:,} subscribers, window {window:,}", runs)
            rate = middle(runs, "per_cpu_second")
            low, high = min(run.per_cpu_second for run in runs), max(run.per_cpu_second for run in runs)
            rows.append(
                (
                    peer.name,
                    short(rate),
                    f"{short(low)}–{short(high)}",
                    f"{middle(first, 'per_cpu_second') / rate:.2f}" if rate else "-",
                    f"{middle(runs, 'share'):.0%}",
                    f"{middle(runs, 'load_share'):.0%}",
                    f"{middle(runs, 'passed_over') / max(1, middle(runs, 'delivered')):.1%}",
                    f"{middle(runs, 'p50'):.1f} / {middle(runs, 'p99'):.1f}",
                )
            )
        report.table(
            f"{subscribers:,} subscribers, window {window:,}",
            (
                "updates per CPU-second",
                "range",
                f"{peers[0].name} is × this",
                "core: server",
                "core: load",
                "passed over",
                "ms: p50 / p99",
            ),
            rows,
        )


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("peers")
    peers = installed(options.only, report)
    for subscribers in options.subscribers:
        figures = measure(peers, {"subscribers": subscribers, "items": ITEMS, "each": EACH}, options, cores, report)
        tell(figures, peers, subscribers, options.windows, report)
    return report.save()
