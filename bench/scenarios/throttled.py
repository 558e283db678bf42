"""Throttled: many sessions with frequency limits of their own on a feed that is far faster than any of them.

The server merges what comes in between. Figures per CPU-second are compared with an unlimited fan-out in
which a session gets as many updates at a time; what it costs to take the feed in is measured alone. The floor in C
makes as many writes a second of as many updates, without limits and without a feed to be merged: what is left is Linux.
"""

from __future__ import annotations

import argparse

from bench.peers import floors, penstock
from bench.rig.contest import attempt, fail_if_wrong, installed, middle, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, WARM_UP, tens

ABOUT = "5,000 sessions with frequency limits of 1, 2, 5 and 10 a second on a feed of 1,000 a second for each item"

FREQUENCIES = "1,2,5,10"
MEAN = sum(map(float, FREQUENCIES.split(","))) / 4

# Seconds until sessions with a limit share: they move toward each other for eight intervals, and are tried then.
SETTLING = 11.0

# At its limit a session may get one more update in the seconds that are counted, and no more than that.
SPARE = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=tens, default=5000, help="(default %(default)s)")
    parser.add_argument("--items", type=int, default=ITEMS, help="a multiple of ten (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="updates a second of each item (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(options.sessions)


def latency(runs: list[Run]) -> str:
    """The median alone: a hundredth of all are the last values, which wait for their interval after the feed's end."""
    return f"{middle(runs, 'p50'):.1f}"


def written(runs: list[Run]) -> str:
    frames = middle(runs, "frames")
    return f"in {frames / middle(runs, 'seconds'):,.0f} writes a second of {middle(runs, 'delivered') / frames:.1f}"


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("throttled")
    has_floor = floors.COALESCED in installed([penstock.PEER, floors.COALESCED], report)
    size = {"subscribers": options.sessions, "items": options.items, "each": EACH}
    feed = options.rate * options.items
    throttled: list[Run] = []
    alone: list[Run] = []
    free: list[Run] = []
    floor: list[Run] = []

    def measure_throttled(load: Load, name: str) -> None:
        load.rate(feed, SETTLING)
        throttled.append(load.rate(feed, options.seconds))

    def measure_alone(load: Load, name: str) -> None:
        load.rate(feed, WARM_UP)
        alone.append(load.rate(feed, options.seconds))

    def measure_free(load: Load, name: str) -> None:
        # As many updates at a time as a limited session has items.
        load.window(2 * options.items, WARM_UP)
        free.append(load.window(2 * options.items, options.seconds))

    def measure_floor(load: Load, name: str) -> None:
        # A burst is the items of a session; a session gets as many of them a second as limits allow in the mean.
        pace = MEAN * options.items
        load.bursts(pace, EACH, WARM_UP)
        floor.append(load.bursts(pace, EACH, options.seconds))

    few = {**size, "subscribers": options.items // EACH, "frequencies": "1"}
    for _ in range(options.rounds):
        attempt(penstock.PEER, cores, {**size, "frequencies": FREQUENCIES}, report, measure_throttled)
        attempt(penstock.PEER, cores, few, report, measure_alone)
        attempt(penstock.PEER, cores, size, report, measure_free)
        if has_floor:
            attempt(floors.COALESCED, cores, size, report, measure_floor)
    for where, runs in (("limited", throttled), ("feed alone", alone), ("unlimited", free), ("the floor", floor)):
        fail_if_wrong(report, where, runs)
    if not throttled or not alone or not free:
        return report.save()
    # The last value of each item comes after the feed has stopped; until then nobody may have had more than its limit.
    most = options.sessions * EACH * (MEAN * middle(throttled, "seconds") + SPARE)
    if middle(throttled, "delivered") > most:
        report.failure(
            "limited", f"{middle(throttled, 'delivered'):,.0f} updates, more than the {most:,.0f} that limits allow"
        )
    intake = middle(alone, "cpu")
    cost = max(0.01, middle(throttled, "cpu") - intake)
    unlimited = middle(free, "per_cpu_second")
    total, without = middle(throttled, "per_cpu_second"), middle(throttled, "delivered") / cost
    taken = middle(throttled, "published") / options.seconds
    rows = [
        ("unlimited", short(unlimited), "1", f"{middle(free, 'share'):.0%}", latency(free)),
        ("limited, with the feed", short(total), f"{total / unlimited:.2f}", f"{middle(throttled, 'share'):.0%}"),
        ("limited, without the feed", short(without), f"{without / unlimited:.2f}"),
    ]
    rows[1] += (latency(throttled),)
    rows[2] += (f"{cost / middle(throttled, 'seconds'):.0%}", "-")
    if floor:
        least = middle(floor, "per_cpu_second")
        share = middle(floor, "cpu") / middle(floor, "publishing")
        name = f"{floors.COALESCED.name}, as many writes"
        rows.append((name, short(least), f"{least / unlimited:.2f}", f"{share:.0%}", latency(floor)))
    report.table(
        f"{options.sessions:,} sessions with limits of {FREQUENCIES} a second, {options.items} items",
        ("updates per CPU-second", "of unlimited", "of a core", "ms: p50"),
        rows,
    )
    report.remark(
        f"the feed: {short(taken)} updates a second taken in of {short(feed)} offered, "
        f"{intake / middle(alone, 'seconds'):.0%} of a core without sessions to speak of; "
        f"{middle(throttled, 'delivered') / options.sessions / options.seconds:.1f} updates a second for a session, "
        f"{written(throttled)}"
    )
    if floor:
        report.remark(
            f"the floor: {MEAN * options.sessions:,.0f} writes a second of {EACH} updates each; it was sent "
            f"{middle(floor, 'published') / options.seconds:,.0f} updates a second and merges nothing"
        )
    return report.save()
