"""Fixed rates: how much of a core each server needs for so many deliveries a second, and how late they are.

Latency is from publishing to the decoded update, both by the clock of the load. A server that cannot keep the pace
takes in less than it is offered: such a row says so.
"""

from __future__ import annotations

import argparse

from bench.peers import penstock
from bench.rig.contest import PEERS, add_peers, attempt, fail_if_wrong, installed, middle, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, WARM_UP, tens

ABOUT = "CPU and latency at 20k, 100k and 1M deliveries a second"

# The shortest time between two writes of a session, in milliseconds: fewer system calls for a little latency. 30 is the
# default of the reference.
TICKS = (10, 30)
TICKING = [
    penstock.variant(
        f"penstock-tick-{tick}",
        f"a session writes every {tick} ms at the most",
        [f"session.max_delay_millis={tick}"],
        {"conflated": True},
    )
    for tick in TICKS
]
DEFAULT = (
    PEERS[0],
    *TICKING,
    *[peer for peer in PEERS[1:] if peer.name in ("c-coalesced", "socketify", "nats", "redis")],
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_peers(parser, DEFAULT)
    parser.add_argument("--subscribers", type=tens, default=1000, help="(default %(default)s)")
    parser.add_argument(
        "--rates", type=int, nargs="+", default=[20_000, 100_000, 1_000_000], help="deliveries a second"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(options.subscribers)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("rates")
    peers = installed(options.only, report)
    figures: dict[tuple[str, int], list[Run]] = {}
    per_publish = options.subscribers * EACH / ITEMS

    def measure(load: Load, name: str) -> None:
        for rate in options.rates:
            load.rate(rate / per_publish, WARM_UP)
            figures.setdefault((name, rate), []).append(load.rate(rate / per_publish, options.seconds))

    for _ in range(options.rounds):
        for peer in peers:
            size = {"subscribers": options.subscribers, "items": ITEMS, "each": EACH}
            attempt(peer, cores, size, report, measure)
    for rate in options.rates:
        rows = []
        for peer in peers:
            runs = figures.get((peer.name, rate), [])
            if not runs:
                continue
            fail_if_wrong(report, f"{peer.name}, {rate:,} a second", runs)
            arrived = middle(runs, "delivered") + middle(runs, "passed_over")
            rows.append(
                (
                    peer.name,
                    f"{middle(runs, 'share'):.1%}",
                    *(f"{middle(runs, name):.1f}" for name in ("p50", "p99", "p999")),
                    f"{arrived / options.seconds / rate:.0%}",
                    f"{middle(runs, 'passed_over') / max(1.0, arrived):.1%}",
                    f"{middle(runs, 'load_share'):.0%}",
                )
            )
        report.table(
            f"{short(rate)} deliveries a second to {options.subscribers:,} subscribers",
            ("of a core", "ms: p50", "p99", "p99.9", "of the rate", "passed over", "core: load"),
            rows,
        )
    return report.save()
