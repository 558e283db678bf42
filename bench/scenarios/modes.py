"""Other kinds of items than MERGE: tables of COMMAND, chats of DISTINCT, documents and long texts sent as differences.

Each is a fan-out at saturation like the one of MERGE that stands beside it. The load applies every difference and
compares the whole of the result.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from bench.peers import penstock
from bench.rig.contest import attempt, fail_if_wrong, installed, middle, short
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import WARM_UP

ABOUT = "COMMAND tables of 1,000 keys, DISTINCT chats, customized events, JSON with ^P, long texts with ^T"

TABLE = "key,command,sequence,value,note0"
DOCUMENT = "sequence,value,document"


@dataclass(frozen=True, slots=True)
class Case:
    """Options of the server, and of the load."""

    name: str
    load: dict[str, Any]
    server: list[str] = field(default_factory=list)


def cases(keys: int) -> list[Case]:
    rooms = {"items": 10, "each": 1}
    document = {"items": 10, "each": 1, "conflated": True}
    json, text = {**document, "shape": "json"}, {**document, "shape": "text"}
    whole = ["session.default_diff_order="]
    return [
        Case("MERGE, 1 of 10 items", {**rooms, "conflated": True}),
        Case("MERGE, customized", {**rooms, "conflated": True}, ["--customized"]),
        Case(
            f"COMMAND, 1 of 10 tables of {keys:,} keys",
            {**rooms, "shape": "command", "mode": "COMMAND", "keys": keys, "fields": 5, "conflated": True},
            ["--fields", TABLE],
        ),
        Case("DISTINCT, 1 of 10 chats", {**rooms, "mode": "DISTINCT", "frequencies": "unfiltered"}),
        Case("JSON of 2 KB, whole", {**json, "whole": True}, ["--fields", DOCUMENT, *whole]),
        Case("JSON of 2 KB, ^P", json, ["--fields", DOCUMENT, "--differences", "P"]),
        Case("text of 2 KB, whole", {**text, "whole": True}, ["--fields", DOCUMENT, *whole]),
        Case("text of 2 KB, ^T", text, ["--fields", DOCUMENT, "--differences", "T"]),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscribers", type=int, default=1000, help="a multiple of ten (default %(default)s)")
    parser.add_argument("--keys", type=int, default=1000, help="of a table (default %(default)s)")
    parser.add_argument("--window", type=int, default=100, help="updates under way at the most (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(options.subscribers)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("modes")
    installed([penstock.PEER], report)
    figures: dict[str, list[Run]] = {}

    def measure(load: Load, name: str) -> None:
        load.window(options.window, WARM_UP)
        figures.setdefault(name, []).append(load.window(options.window, options.seconds))

    for _ in range(options.rounds):
        for case in cases(options.keys):
            peer = penstock.variant(case.name, "", case.server, {"subscribers": options.subscribers})
            attempt(peer, cores, case.load, report, measure)
    rows = []
    for name, runs in figures.items():
        fail_if_wrong(report, name, runs)
        rows.append(
            (
                name,
                short(middle(runs, "per_cpu_second")),
                f"{middle(runs, 'bytes') / max(1.0, middle(runs, 'delivered')):.0f}",
                f"{middle(runs, 'share'):.0%}",
                f"{middle(runs, 'load_share'):.0%}",
                f"{middle(runs, 'passed_over') / max(1.0, middle(runs, 'delivered')):.1%}",
                f"{middle(runs, 'p50'):.1f} / {middle(runs, 'p99'):.1f}",
            )
        )
    report.table(
        f"{options.subscribers:,} subscribers, window {options.window:,}",
        ("updates per CPU-second", "bytes each", "core: server", "core: load", "passed over", "ms: p50 / p99"),
        rows,
    )
    return report.save()
