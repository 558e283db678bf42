"""`python -m bench` lists the benchmarks, `python -m bench NAME` runs one.

The exit code is 0 when every answer was right, 1 when one was wrong or missing, 2 when it could not be run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import uvloop

from bench.rig import write
from bench.rig.build import Unavailable
from bench.rig.child import ChildError
from bench.rig.machine import Cores, MachineError, allow_files, busyness, cores, facts, pin
from bench.rig.progress import PROGRESS, Progress, digest
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
    chosen = cores()
    pin(os.getpid(), chosen.load)
    print(f"{facts(chosen)}{busyness()}")
    if options.name != "all":
        return run(options, chosen)
    code = run_all(parser, chosen, options.again)
    return max(code, run(parser.parse_args(["write"]), chosen))


def run_all(parser: argparse.ArgumentParser, chosen: Cores, again: bool) -> int:
    progress = Progress(PROGRESS, digest())
    if again:
        progress.forget()
    worst = 0
    for name in BENCHES:
        if name in progress.done:
            print(f"{name}: done before, in {progress.done[name]:.0f} s")
            continue
        print(f"{name}:{busyness() or ' begins'}", flush=True)
        begun = time.monotonic()
        code = run(parser.parse_args([name]), chosen)
        worst = max(worst, code)
        if code == 0:
            progress.finish(name, time.monotonic() - begun)
    print(f"{len(progress.done)} of {len(BENCHES)} done, in {sum(progress.done.values()) / 60:.0f} minutes")
    return worst


def run(options: argparse.Namespace, chosen: Cores) -> int:
    bench = (BENCHES | OTHERS)[options.name]
    try:
        allow_files(bench.connections(options))
        return 0 if uvloop.run(bench.run(options, chosen)) else 1
    except (ChildError, MachineError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
