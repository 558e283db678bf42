"""What it costs to be seen: a fan-out with and without the sampler, in turns in one process; how long /metrics takes.

The kernel's counters are in both: integers that are added to once for an event and once for a write.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import re
import time
from statistics import median

from bench.peers import penstock
from bench.rig.child import ChildError, Program
from bench.rig.contest import fail_if_wrong, installed, middle, serving, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, WARM_UP, tens

ABOUT = "updates per CPU-second of the server with and without the sampler; /metrics with 10,000 sessions and items"

WINDOW = 1_000

# Seconds without an update; longer than the time between two keep-alives, which every subscriber must hear.
IDLE = 10.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscribers", type=tens, default=1_000, help="(default %(default)s)")
    parser.add_argument("--sessions", type=tens, default=10_000, help="that /metrics has (default %(default)s)")
    parser.add_argument("--items", type=tens, default=10_000, help="that /metrics has (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each is measured in turn (default %(default)s)"
    )
    parser.add_argument("--scrapes", type=int, default=50, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(max(options.subscribers, options.sessions))


def order(server: Program, text: str) -> None:
    server.tell(text)
    answer = server.read_line().strip()
    if answer != text:
        raise ChildError(f"the server was told {text!r} and said {answer!r}")


def compare(options: argparse.Namespace, cores: Cores) -> tuple[dict[str, list[Run]], dict[str, float]]:
    """Both in turns, in one process with the same sessions: nothing else differs. Also what each takes when nothing
    happens, in seconds of CPU time a second: that is the sampler alone, whatever else the machine does.
    """
    size = {"subscribers": options.subscribers, "items": ITEMS, "each": EACH}
    runs: dict[str, list[Run]] = {"on": [], "off": []}
    peer = penstock.PEER
    with serving(peer, cores) as server, Load(server, peer.speaks, cores.load, {**peer.options, **size}) as load:
        if load.opened.failure:
            raise ChildError(load.opened.failure)
        load.window(WINDOW, WARM_UP)
        for number in range(options.rounds):
            # In another order each time: a machine that gets slower or faster would favour the first or the second.
            for state in ("off", "on") if number % 2 else ("on", "off"):
                if state == "off":
                    order(server, "off")
                load.window(WINDOW, WARM_UP)
                runs[state].append(load.window(WINDOW, options.seconds))
                if state == "off":
                    order(server, "on")
        idle = {}
        for state in ("off", "on"):
            order(server, state)
            before = server.cpu_seconds()
            fail = load.idle(IDLE).failure
            if fail:
                raise ChildError(fail)
            idle[state] = (server.cpu_seconds() - before) / IDLE
    return runs, idle


class Scrapes:
    """Milliseconds that each took, and the CPU time of the server for all of them."""

    def __init__(self) -> None:
        self.millis: list[float] = []
        self.cpu_millis = 0.0
        self.bytes = 0


def scrape(options: argparse.Namespace, cores: Cores) -> Scrapes:
    size = {"subscribers": options.sessions, "items": options.items, "each": EACH}
    peer = penstock.PEER
    found = Scrapes()
    with serving(peer, cores) as server, Load(server, peer.speaks, cores.load, {**peer.options, **size}) as load:
        if load.opened.failure:
            raise ChildError(load.opened.failure)
        api = re.search(r"api=http://([\d.]+):(\d+)", server.ready)
        if api is None:
            raise ChildError(f"no API port in {server.ready!r}")
        connection = http.client.HTTPConnection(api[1], int(api[2]))
        body = b""
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        before = server.cpu_seconds()
        for _ in range(options.scrapes):
            begun = time.perf_counter()
            connection.request("GET", "/metrics")
            body = connection.getresponse().read()
            found.millis.append((time.perf_counter() - begun) * 1000)
        found.cpu_millis = (server.cpu_seconds() - before) * 1000
        connection.close()
        found.bytes = len(body)
        for name, count in (("sessions", options.sessions), ("items", options.items)):
            if f"\npenstock_{name} {count}\n".encode() not in body:
                raise ChildError(f"/metrics does not say that there are {count} {name}")
    return found


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("monitoring")
    installed([penstock.PEER], report)
    try:
        runs, idle = await asyncio.to_thread(compare, options, cores)
        scrapes = await asyncio.to_thread(scrape, options, cores)
    except ChildError as error:
        report.failure("penstock", str(error))
        return report.save()
    for state, some in runs.items():
        fail_if_wrong(report, f"sampler {state}", some)
    # Of neighbours in time: what else the machine does changes over minutes.
    pairs = zip(runs["on"], runs["off"], strict=True)
    ratio = median([on.per_cpu_second / off.per_cpu_second for on, off in pairs])
    rows = []
    for state, some in runs.items():
        rates = [run.per_cpu_second for run in some]
        share = f"{ratio - 1:+.1%}" if state == "on" else ""
        spread = f"{short(min(rates))}–{short(max(rates))}"
        rows.append((state, short(middle(some, "per_cpu_second")), spread, share, f"{idle[state]:.2%}"))
    report.table(
        f"sampler, {options.subscribers:,} subscribers, window {WINDOW:,}",
        ("updates per CPU-second", "range", "median of the differences", "core: idle"),
        rows,
    )
    millis = sorted(scrapes.millis)
    report.table(
        f"/metrics, {options.sessions:,} sessions, {options.items:,} items",
        ("ms: p50", "ms: most", "ms of CPU time", "kB"),
        [
            (
                "/metrics",
                f"{median(millis):.1f}",
                f"{millis[-1]:.1f}",
                f"{scrapes.cpu_millis / len(millis):.1f}",
                f"{scrapes.bytes / 1000:.0f}",
            )
        ],
    )
    return report.save()
