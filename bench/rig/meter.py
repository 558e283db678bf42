"""What a process has used: memory, CPU time and system calls, as Linux counts them."""

from __future__ import annotations

import os
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
    """Its children, and theirs."""
    found = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        found += [int(child), *descendants(int(child))]
    return found


def command(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0").split("\0")


def cpu_seconds(process: int) -> float:
    """Processor time of all threads since the start, in user space and in the kernel."""
    # The second field is the command in parentheses and may itself hold spaces and parentheses.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def exact_cpu_seconds(process: int) -> float:
    """The same of the threads that are there now, to the microsecond: for little work in a short time."""
    found = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        found += int((task / "schedstat").read_text().split()[0])
    return found / 1e9


def writes(process: int) -> int:
    """System calls that wrote something, to sockets or files."""
    for line in Path(f"/proc/{process}/io").read_text().splitlines():
        if line.startswith("syscw:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{process}/io has no line syscw")
