"""The benchmarks in two minutes: each in miniature, with what is here without any registry.

It fails when a value is wrong or missing, or when something does not start, and never because of a time.
"""

from __future__ import annotations

import argparse
import time
from types import ModuleType

from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios import growth, modes, ramp, rates, saturation, slow, throttled, transports

ABOUT = "a two-minute subset that fails only on wrong results"

HERE = "penstock,penstock-unfiltered,c-coalesced,c-each,websockets"
STEPS: tuple[tuple[ModuleType, str], ...] = (
    (saturation, f"--only {HERE} --subscribers 100 --seconds 0.3 --rounds 1"),
    (rates, "--only penstock,penstock-tick-10,c-coalesced --subscribers 100 --rates 20000 --seconds 1 --rounds 1"),
    (throttled, "--sessions 200 --items 20 --rate 200 --seconds 2 --rounds 1"),
    (slow, "--subscribers 100 --rate 50000 --seconds 2 --rounds 1"),
    (modes, "--subscribers 50 --keys 100 --seconds 0.3 --rounds 1"),
    (transports, "--subscribers 100 --windows 100 --seconds 0.3 --rounds 1"),
    (ramp, "--only penstock,websockets --sessions 500 --most 0 --settling 1 --seconds 6"),
    (growth, "--largest 300 --seconds 0.3 --rounds 1 --no-plot"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def parse(bench: ModuleType, words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_options(parser)
    return parser.parse_args(words.split())


def connections(options: argparse.Namespace) -> int:
    return max(int(bench.connections(parse(bench, words))) for bench, words in STEPS)


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    good = True
    Report.is_kept = False
    begin = time.monotonic()
    for bench, words in STEPS:
        good = await bench.run(parse(bench, words), cores) and good
    print(f"smoke: {'all values right' if good else 'FAILED'} after {time.monotonic() - begin:.0f} s")
    return good
