"""The machine under the benchmarks: what it is, which cores are used for what, how many files may be open.

What a process uses of it is measured in `meter`.
"""

from __future__ import annotations

import os
import platform
import resource
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

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
