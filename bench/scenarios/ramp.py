"""Connections: how fast sessions are opened, and what it costs to hold many of them to whom nothing happens.

Penstock is `penstock serve` as people run it; each session has a WebSocket, a TLCP session and a subscription to an
item that does not change, and must hear its keep-alives in time. Peers hold connections with one subscription each.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import Peer
from bench.peers.penstock import install
from bench.rig.child import ChildError
from bench.rig.child import penstock as serve
from bench.rig.contest import PEERS, add_peers, installed
from bench.rig.load import Load
from bench.rig.machine import SPARE_FILES, Cores
from bench.rig.results import Report
from penstock.kernel.limits import SessionLimits

ABOUT = "sessions opened per second, memory and CPU of idle ones, at 1,000, 10,000 and as many as possible"

# Sessions opened before the first measurement and kept: they make a server load and cache what it needs once.
WARM_UP = 100

# A keep-alive may be this late: the load shares its core with the rest of the machine.
LATE_MILLIS = 2500

# The stock that trades least often; at the slowest pace it does not trade at all during a run.
SETTINGS = (
    "demo.pace = 0.001",
    "stream.backlog = 4096",
    # Nobody else is there to leave descriptors to.
    "stream.max_connections = 1000000",
    "limits.max_sessions = 1000000",
)

# From the last session opened to the measurement of idleness; the first keep-alives are not like the later ones.
SETTLING = 11.0


def served(name: str, about: str, keepalive_millis: int) -> Peer:
    settings = (*SETTINGS, f"session.default_keepalive_millis = {keepalive_millis}")
    options = {"adapter-set": "WELCOME", "data-adapter": "STOCKS", "silence": keepalive_millis + LATE_MILLIS}
    return Peer(name, "tlcp", about, install, lambda directory, core: serve(directory, core, settings), options)


USUAL_MILLIS = SessionLimits().default_keepalive_millis
SERVE = served("penstock", "penstock serve, with keep-alive and SYNC as configured by default", USUAL_MILLIS)
SELDOM = served(
    "penstock-keepalive-10", f"the same with a keep-alive every 10 seconds, not {USUAL_MILLIS / 1000:g}", 10_000
)
DEFAULT = (
    SERVE,
    SELDOM,
    *[peer for peer in PEERS if peer.name == "socketify"],
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one server: bytes and CPU-seconds for each session, share of a core for all of them."""

    opened_per_second: float
    open_cpu: float
    memory: float
    idle_share: float
    failure: str


def measure(peer: Peer, sessions: int, seconds: float, settling: float, cores: Cores) -> Figures:
    options: dict[str, Any] = {**peer.options, "idle": True, "items": 1, "each": 1, "fields": 3}
    with tempfile.TemporaryDirectory() as directory, peer.start(Path(directory), cores.server) as server:
        with Load(server, peer.speaks, cores.load, {**options, "subscribers": WARM_UP}) as first:
            before = server.memory()
            with Load(server, peer.speaks, cores.load, {**options, "subscribers": sessions}) as load:
                settled = load.idle(settling)
                idle = load.idle(seconds)
                grown = server.memory() - before
        failure = first.opened.failure or load.opened.failure or settled.failure or idle.failure
        return Figures(
            sessions / load.opened.seconds, load.opened.cpu / sessions, grown / sessions, idle.share, failure
        )


def most_sessions() -> int:
    """As many as the load and the server may have open files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return max(0, (hard - SPARE_FILES - WARM_UP) // 100 * 100)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_peers(parser, DEFAULT)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1000, 10_000], help="(default 1000 10000)")
    parser.add_argument(
        "--most", type=int, default=0, help="and as many as the machine allows, up to this (default: not)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long they are idle (default %(default)s)")
    parser.add_argument("--settling", type=float, default=SETTLING, help="seconds before that (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="(default %(default)s)")


def sizes(options: argparse.Namespace) -> list[int]:
    most = min(options.most, most_sessions())
    return [*options.sessions, *([most] if most > max(options.sessions) else [])]


def connections(options: argparse.Namespace) -> int:
    return max(sizes(options)) + WARM_UP


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("ramp")
    peers = installed(options.only, report)
    for sessions in sizes(options):
        # As many as possible is a question to ourselves; the others would only take long.
        asked = peers if sessions in options.sessions else peers[:1]
        rows = []
        for peer in asked:
            try:
                figures = [
                    measure(peer, sessions, options.seconds, options.settling, cores) for _ in range(options.rounds)
                ]
            except ChildError as error:
                report.failure(peer.name, str(error))
                continue
            for failure in {one.failure for one in figures if one.failure}:
                report.failure(f"{peer.name}, {sessions:,} sessions", failure)
            rows.append(
                (
                    peer.name,
                    f"{median(one.opened_per_second for one in figures):,.0f}",
                    f"{median(one.open_cpu for one in figures) * 1e3:.2f}",
                    f"{median(one.memory for one in figures) / 1024:.1f}",
                    f"{median(one.idle_share for one in figures):.1%}",
                )
            )
        report.table(
            f"{sessions:,} sessions, idle for {options.seconds:g} s",
            ("opened per second", "CPU ms to open one", "KiB each", "of a core while idle"),
            rows,
        )
    return report.save()
