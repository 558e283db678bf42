"""What a process has used: memory, CPU time and system calls, as Linux counts them."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def memory(process: int) -> int:
    """Bytes of anonymous memory: heap and stacks.

    Left out: mapped files, whose share of a process changes with what other processes map, and the buffers of sockets,
    which belong to the kernel.
    """
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{process}/smaps_rollup has no line Anonymous")


def descendants(process: int) -> list[int]:
    """Its children, and theirs; also those that threads have started, and those that have ended and were not asked."""
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:
            # A thread that has ended meanwhile.
            continue
        for child in children:
            found += [int(child), *descendants(int(child))]
    return found


def command(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0").split("\0")


def cpu_seconds(process: int) -> float:
    """Processor time since the start, in user space and in the kernel, of all threads, also of those that have ended.

    To the nanosecond: opening a session takes less than the ticks of /proc/PID/stat.
    """
    # This is how Linux numbers the clocks of processes, which are read with one call: clock_getcpuclockid(3).
    return time.clock_gettime(~process << 3 | 2)


def writes(process: int) -> int:
    """System calls that wrote something, to sockets or files."""
    for line in Path(f"/proc/{process}/io").read_text().splitlines():
        if line.startswith("syscw:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{process}/io has no line syscw")


def tree_seconds(process: int) -> float:
    """Processor time of a process and of all that it has started, whether they run, or have ended."""
    found = 0.0
    for each in (process, *descendants(process)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended, and its parent has what it used.
            continue
        found += sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    return found
