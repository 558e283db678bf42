"""The machine under the benchmarks: what it is, which cores are used for what, how many files may be open.

What a process uses of it is measured in `meter`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from bench.rig import meter

# A machine that is busier than this with other work, as a share of all its cores, gives other figures than a quiet one.
QUIET = 0.05

# Seconds that are looked at to find out.
LOOK = 1.0

# Beyond its connections a process needs descriptors for listeners, event loop, logs and libraries.
SPARE_FILES = 200

_PR_SET_CHILD_SUBREAPER = 36
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


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


class Others:
    """What share of the machine others use, from when this is made: all that is used, without this process and those
    that it has started.
    """

    def __init__(self) -> None:
        adopt_orphans()
        self._begun = _times()
        self._own = meter.tree_seconds(os.getpid())

    def share(self) -> float:
        used, total = [after - then for after, then in zip(_times(), self._begun, strict=True)]
        own = meter.tree_seconds(os.getpid()) - self._own
        return max(0.0, used - own) / total if total else 0.0


def adopt_orphans() -> None:
    """Processes whose parents have ended become children of this one: what they use is not the work of others."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def busyness() -> str:
    """To print before something is measured: what share of the machine others use now; empty if it is quiet."""
    return not_quiet({"before": share_now()})


def share_now() -> float:
    others = Others()
    time.sleep(LOOK)
    return others.share()


def not_quiet(shares: Mapping[str, float]) -> str:
    """By when they were looked at; empty if the machine was quiet all the time."""
    if all(share <= QUIET for share in shares.values()):
        return ""
    told = ", ".join([f"{share:.0%} {when}" for when, share in shares.items()])
    return f"; NOT QUIET: of all cores other work used {told}"


def _times() -> tuple[float, float]:
    """Of all cores since the start of the system: how long they worked for processes, and in all; in seconds.

    Interrupts are left out: packets over loopback are among them, and nobody can say whose they are.
    """
    ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    user, nice, system, _, _, _, _, stolen = ticks
    return (user + nice + system + stolen) / _TICKS_PER_SECOND, sum(ticks) / _TICKS_PER_SECOND


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
