"""The garbage collector of a process that holds many thousands of objects for long, and hardly any in cycles.

Sessions, lanes and items are freed as soon as nobody holds them; what a pass over all of them finds comes from adapters
and libraries. With 1,000 sessions and a million deliveries a second a pass took 50 to 100 ms, every few seconds: the
latest hundredth of all updates was 60 ms late with a tick of 10 ms, and is 14 ms late with what is done here.
"""

from __future__ import annotations

import ctypes
import gc

# Containers made and not freed again before a pass over the young ones; such passes before one over the middle-aged;
# and those before one over all. By default 700, 10 and 10.
THRESHOLDS = 5_000, 20, 50


def settle() -> None:
    """What has been loaded stays for good and need not be looked at again; what comes later, not so often."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def give_back() -> None:
    """Hand memory that is free back to the system, where the C library has a way to. Blocks for milliseconds.

    The library keeps what was freed for the next who wants some. After a client with a million items has gone that is
    hundreds of megabytes, which nobody may want for days.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
