"""Servers side by side: which there are, which can be had here, and one of them under load.

Each is started alone, with a core of its own, subscribed to and asked to deliver; then the next. What exactly they
have to do is said by the benchmarks: saturation, rates, ramp and so on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import Peer, centrifugo, floors, mosquitto, nats, penstock, redis, socketify, socketio, websockets
from bench.rig.build import Unavailable
from bench.rig.child import ChildError, Program
from bench.rig.load import Load, Run
from bench.rig.machine import Cores
from bench.rig.results import Report

PEERS: tuple[Peer, ...] = (
    penstock.PEER,
    penstock.EXACT,
    penstock.INTERPRETED,
    floors.COALESCED,
    floors.EACH,
    socketify.PEER,
    nats.PEER,
    redis.PEER,
    centrifugo.PEER,
    mosquitto.PEER,
    socketio.PEER,
    websockets.PEER,
)

# The variable with the peers that `all` could not get, and why: an object of JSON.
MISSING = "PENSTOCK_BENCH_MISSING"


def peer_names(text: str, known: Mapping[str, Peer]) -> list[Peer]:
    """Of a list with commas; the order is kept."""
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def add_peers(parser: argparse.ArgumentParser, default: Sequence[Peer] = PEERS) -> None:
    known = {peer.name: peer for peer in (*PEERS, *default)}
    parser.add_argument(
        "--only",
        type=lambda text: peer_names(text, known),
        default=list(default),
        metavar="NAME,…",
        help=f"servers to measure (default {','.join(peer.name for peer in default)})",
    )


def installed(peers: Sequence[Peer], report: Report) -> list[Peer]:
    """Those that can be had, after a line for each with its version, or why not."""
    found = []
    missing = json.loads(os.environ.get(MISSING, "{}"))
    for peer in peers:
        try:
            if peer.name in missing:
                raise Unavailable(missing[peer.name])
            report.remark(f"{peer.name}: {peer.about} ({peer.install()})")
            found.append(peer)
        except Unavailable as error:
            report.remark(f"{peer.name} is left out: {error}")
    return found


@contextmanager
def serving(peer: Peer, cores: Cores) -> Iterator[Program]:
    with tempfile.TemporaryDirectory() as directory, peer.start(Path(directory), cores.server) as server:
        yield server


@contextmanager
def loaded(peer: Peer, cores: Cores, options: dict[str, Any]) -> Iterator[Load]:
    """A server with its subscribers."""
    with serving(peer, cores) as server, Load(server, peer.speaks, cores.load, {**peer.options, **options}) as load:
        yield load


def attempt(
    peer: Peer, cores: Cores, options: dict[str, Any], report: Report, measure: Callable[[Load, str], None]
) -> None:
    """Have one server measured; one that does not start, or fails a subscriber, is told of, the next has its turn."""
    try:
        with loaded(peer, cores, options) as load:
            if load.opened.failure:
                report.failure(peer.name, load.opened.failure)
            else:
                measure(load, peer.name)
    except ChildError as error:
        report.failure(peer.name, str(error))


def middle(runs: Sequence[Run], name: str) -> float:
    """The median of a figure."""
    return float(median([getattr(run, name) for run in runs]))


def fail_if_wrong(report: Report, where: str, runs: Sequence[Run]) -> None:
    for failure in sorted({run.failure for run in runs if run.failure}):
        report.failure(where, failure)


def short(number: float) -> str:
    """5.04M, 628k, 12."""
    if number >= 999_500:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1000:.0f}k" if number >= 1000 else f"{number:.0f}"
