"""The time, as it is passed to everything here.

Waiting and averaging use `elapsed`, which is monotonic; what peers see is `utc`.
"""

from __future__ import annotations

from typing import NamedTuple


class Instant(NamedTuple):
    # Seconds of a monotonic clock, with any origin.
    elapsed: float
    # Milliseconds since 1970.
    utc: int
