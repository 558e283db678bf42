"""The machine under the benchmarks: what it is, which cores are used for what, how many files may be open.

What a process uses of it is measured in `meter`.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

# A machine that is busier than this with other work, as a share of all its cores, gives other figures than a quiet one.
QUIET = 0.05

# Seconds that are looked at to find out.
LOOK = 1.0

# Beyond its connections a process needs descriptors for listeners, event loop, logs and libraries.
SPARE_FILES = 200


class MachineError(Exception):
    """This machine cannot run the benchmark as asked; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Where to run: the server alone on one core, the load on another; None where there is only one to share."""

    server: int | None = None
    load: int | None = None


@cache
def every_core() -> frozenset[int]:
    """Those this process may use, before it confines itself to one of them."""
    return frozenset(os.sched_getaffinity(0))


@cache
def cores() -> Cores:
    """The first two of them."""
    usable = sorted(every_core())
    return Cores(usable[0], usable[1]) if len(usable) > 1 else Cores()


def pin(process: int, core: int | None) -> None:
    """Keep a process, and the threads it starts from now on, on one core."""
    if core is not None:
        os.sched_setaffinity(process, {core})


def allow_files(count: int) -> None:
    """Let this process and those it starts open `count` connections each; raises MachineError if that is too many."""
    needed = count + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise MachineError(f"{count} connections need {needed} open files; the hard limit of this shell is {hard}")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def busyness() -> str:
    """To print behind what is about to be measured: what share of the machine others use now; empty if it is quiet."""
    share = _busy_share()
    return "" if share <= QUIET else f"; NOT QUIET: {share:.0%} of all cores are used by other work"


def _busy_share() -> float:
    before = _times()
    time.sleep(LOOK)
    idle, total = [after - then for after, then in zip(_times(), before, strict=True)]
    return 1 - idle / total if total else 0.0


def _times() -> tuple[int, int]:
    """Of all cores since the start of the system: how long they had nothing to do, and in all; in ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    # The fourth is idleness, the fifth waiting for disks.
    return ticks[3] + ticks[4], sum(ticks)


def facts(chosen: Cores) -> str:
    """One line to print above figures."""
    placed = "one core for everything" if chosen.server is None else f"server on core {chosen.server}"
    placed += "" if chosen.load is None else f", load on core {chosen.load}"
    return (
        f"{os.cpu_count()} × {_processor()}; {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, uvloop {version('uvloop')}, websockets {version('websockets')}; {placed}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
