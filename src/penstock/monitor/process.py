"""The process as the system sees it: memory, CPU time, threads, descriptors.

From /proc where there is one; elsewhere what Python's own library knows, and 0 for what it does not.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from typing import NamedTuple

_OPEN = "/proc/self/fd"

# What a group of processes may have together, where the system limits that, such as for a container.
_GROUP = "/sys/fs/cgroup"

# Bytes of the longest of these files that are read: what is looked for comes before that.
_MOST = 4096

# In fields of /proc/self/stat, counted after the name of the program: that may hold blanks and brackets.
_THREADS = 17


class Process(NamedTuple):
    """Bytes of memory that it has and that it could still get; seconds; counts."""

    resident: int
    available: int
    cpu_seconds: float
    threads: int
    descriptors: int
    max_descriptors: int


def look() -> Process:
    """As it is now. Cheap enough for once a second."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Process(
        resident() or _highest(usage),
        _available(),
        usage.ru_utime + usage.ru_stime,
        _threads(),
        _descriptors(),
        0 if limit == resource.RLIM_INFINITY else limit,
    )


def resident() -> int | None:
    """Bytes that the process has in memory now; None where the system does not say."""
    with contextlib.suppress(OSError):
        return int(_read("/proc/self/statm").split()[1]) * resource.getpagesize()
    return None


def _highest(usage: resource.struct_rusage) -> int:
    """Bytes that it has had in memory at most: macOS says bytes, others kilobytes."""
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024


def _threads() -> int:
    with contextlib.suppress(OSError):
        return int(_read("/proc/self/stat").rpartition(b")")[2].split()[_THREADS])
    return threading.active_count()


def _descriptors() -> int:
    with contextlib.suppress(OSError):
        # Linux from 6.2 on says how many. Listing them takes longer the more there are, once a second.
        return os.stat(_OPEN).st_size or len(os.listdir(_OPEN))
    with contextlib.suppress(OSError):
        return len(os.listdir("/dev/fd"))
    return 0


def _available() -> int:
    """What the machine has left, and the limit of the group if that is nearer."""
    left = 0
    with contextlib.suppress(OSError):
        found = _read("/proc/meminfo").partition(b"\nMemAvailable:")[2].split(None, 1)
        left = int(found[0]) * 1024 if found else 0
    with contextlib.suppress(OSError, ValueError):
        # Without a limit it says "max".
        group = int(_read(f"{_GROUP}/memory.max")) - int(_read(f"{_GROUP}/memory.current"))
        left = min(left, max(0, group))
    return left


def _read(path: str) -> bytes:
    """Without what Python puts around a file: this happens several times a second, on an idle server as well."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _MOST)
    finally:
        os.close(file)
