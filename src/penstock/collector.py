"""How the garbage collector is set for a process with many long-lived objects, hardly any of them in cycles.

Sessions, lanes and items are freed by reference counting; a full pass finds only garbage of adapters and libraries.
With many sessions a pass stops the event loop long enough to raise the p99 latency of updates, so passes are made
rare. Figures: docs/performance.md, "Fixed rates".
"""

from __future__ import annotations

import ctypes
import gc

# The thresholds of `gc.set_threshold`: allocations of containers minus deallocations before a pass over generation 0;
# such passes before one over generation 1; and those before a full pass. Python's defaults are far lower.
THRESHOLDS = 5_000, 20, 50


def settle() -> None:
    """Exclude what has been loaded from collection, because it stays for good, and make passes over the rest rare."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def give_back() -> None:
    """Hand memory that is free back to the system, where the C library has a way to. Blocks for milliseconds.

    The library keeps freed memory for later allocations. After a client with very many items has gone, that can be
    hundreds of megabytes, which may not be needed for days.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
