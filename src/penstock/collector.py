"""How the garbage collector is set for a process with many long-lived objects, hardly any of them in cycles.

Sessions, lanes and items are freed by reference counting; a full pass finds only garbage of adapters and libraries.
With many sessions a pass stops the event loop long enough to raise the p99 latency of updates, so passes are made
rare, and what a long one has looked at is left out of the next. Figures: docs/performance.md, "Fixed rates".
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Any

# The thresholds of `gc.set_threshold`: allocations of containers minus deallocations before a pass over generation 0;
# such passes before one over generation 1; and those before a full pass. The last is low, so that a full pass looks at
# few new objects: if very many come (a million lanes), a single pass over all of them would be a long pause.
THRESHOLDS = 5_000, 20, 2

# A full pass that takes this many seconds is a pause that clients notice.
LONG_PASS = 0.005

_ALL = 2


class Passes:
    """Watches full passes. What a long one has looked at is there to stay: it is frozen, and never looked at again.

    Frozen objects are still freed by reference counting; only cycles among them have to wait until they are thawed.
    """

    def __init__(self) -> None:
        self.has_frozen = False
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """From the garbage collector."""
        if info["generation"] != _ALL:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began >= LONG_PASS:
            gc.freeze()
            self.has_frozen = True

    def thaw(self) -> None:
        """Many of the frozen objects have gone: let the next full pass look at the rest once more."""
        if self.has_frozen:
            gc.unfreeze()
            self.has_frozen = False


passes = Passes()


def settle() -> None:
    """Exclude what has been loaded from collection, because it stays for good, and make passes over the rest rare."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if passes not in gc.callbacks:
        gc.callbacks.append(passes)


def give_back() -> None:
    """Hand memory that is free back to the system, where the C library has a way to. Blocks for milliseconds.

    The library keeps freed memory for later allocations. After a client with very many items has gone, that can be
    hundreds of megabytes, which may not be needed for days.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
