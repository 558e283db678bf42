"""`python -m bench` lists the benchmarks, `python -m bench NAME` runs one.

The exit code is 0 when every answer was right, 1 when one was wrong or missing, 2 when it could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import uvloop

from bench.peers import Peer
from bench.rig import write
from bench.rig.build import Unavailable, native
from bench.rig.child import ChildError
from bench.rig.contest import MISSING
from bench.rig.machine import Cores, MachineError, adopt_orphans, allow_files, cores, facts, pin
from bench.rig.progress import PROGRESS, Progress, digest
from bench.rig.results import RESULTS
from bench.rig.series import USUAL_DEADLINE, Step, command_of, run_steps, stop_politely, tell
from bench.scenarios import (
    adapters,
    adapters_ari,
    brokers,
    candles,
    capacity,
    ditto,
    fabric,
    growth,
    journal,
    lake,
    latency,
    modes,
    monitoring,
    notifications,
    policies,
    push,
    ramp,
    rates,
    recovery,
    saturation,
    search,
    slow,
    smoke,
    spark,
    sparse,
    throttled,
    tlex,
    transports,
    triggers,
    wire_size,
    workers,
    workers_idle,
)

BENCHES = {
    "peers": saturation,
    "rates": rates,
    "throttled": throttled,
    "slow": slow,
    "modes": modes,
    "transports": transports,
    "ramp": ramp,
    "growth": growth,
    "wire-size": wire_size,
    "journal": journal,
    "policies": policies,
    "lake": lake,
    "sparse": sparse,
    "spark": spark,
    "latency": latency,
    "candles": candles,
    "recovery": recovery,
    "ditto": ditto,
    "search": search,
    "adapters": adapters,
    "adapters-ari": adapters_ari,
    "brokers": brokers,
    "tlex": tlex,
    "monitoring": monitoring,
    "triggers": triggers,
    "notifications": notifications,
    "push": push,
    "workers": workers,
    "fabric": fabric,
    "workers-idle": workers_idle,
    "capacity": capacity,
}
# What `all` says to them beyond their defaults.
WORDS = {"capacity": ["--check", "--keep"]}
# Those whose results are not one table of their own name.
RESULT_NAMES = {"capacity": ["capacity", "capacity-check"]}
# Not run by `all`.
OTHERS = {"smoke": smoke, "write": write}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The benchmarks; see docs/performance.md.")
    names = parser.add_subparsers(dest="name", metavar="NAME")
    for name, bench in (BENCHES | OTHERS).items():
        bench.add_options(names.add_parser(name, help=bench.ABOUT, description=bench.ABOUT))
    every = names.add_parser("all", help="every one of them, with its defaults; goes on where the last run has ended")
    every.add_argument("--again", action="store_true", help="also those that are done with the same sources")
    options = parser.parse_args()
    if options.name is None:
        parser.print_help()
        return 0
    if sys.platform != "linux":
        print("bench: the benchmarks need Linux: they pin processes to cores and read /proc", file=sys.stderr)
        return 2
    if options.name == "all":
        # Not on one core: each of them chooses its own.
        return run_all(options)
    stop_politely()
    adopt_orphans()
    chosen = cores()
    pin(os.getpid(), chosen.load)
    print(facts(chosen), flush=True)
    return run(options, chosen)


def run_all(options: argparse.Namespace) -> int:
    progress = Progress(PROGRESS, digest())
    if options.again:
        progress.forget()
    due = [name for name in BENCHES if name not in progress.done]
    # Downloads and builds take their time before the first figure, and none of the benchmarks' own.
    prepare(due)
    steps = [step(name) for name in BENCHES]
    outcome = run_steps(steps, progress)
    # What is done is written even if something has failed; the failures come last.
    written = subprocess.run(command_of("write"), check=False).returncode
    return max(tell(outcome, steps, progress), written)


def step(name: str) -> Step:
    deadline = getattr(BENCHES[name], "DEADLINE", USUAL_DEADLINE)
    results = [RESULTS / f"{result}.md" for result in RESULT_NAMES.get(name, [name])]
    return Step(name, command_of(name, *WORDS.get(name, [])), deadline, results)


def prepare(names: Sequence[str]) -> None:
    """Compile what they need, and get their peers; one that cannot be had is left out, as its report says."""
    wanted: dict[str, Peer] = {}
    for name in names:
        parser = argparse.ArgumentParser()
        BENCHES[name].add_options(parser)
        wanted |= {peer.name: peer for peer in getattr(parser.parse_args([]), "only", [])}
    missing = {}
    for peer in wanted.values():
        try:
            print(f"{peer.name}: {peer.install()}", flush=True)
        except Unavailable as error:
            print(f"{peer.name} is left out: {error}", flush=True)
            missing[peer.name] = str(error)
    # Not tried again by each of them: a registry that does not answer takes long to be found out.
    os.environ[MISSING] = json.dumps(missing)
    try:
        native("load")
    except Unavailable as error:
        print(f"bench: {error}", file=sys.stderr)


def run(options: argparse.Namespace, chosen: Cores) -> int:
    bench = (BENCHES | OTHERS)[options.name]
    try:
        allow_files(bench.connections(options))
        return 0 if uvloop.run(bench.run(options, chosen)) else 1
    except (ChildError, MachineError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"bench: {options.name} was stopped", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
