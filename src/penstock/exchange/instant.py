"""The time, as everything here is told it.

Waiting and averaging go by `elapsed`, which never jumps; what peers see is `utc`.
"""

from __future__ import annotations

from typing import NamedTuple


class Instant(NamedTuple):
    # Seconds of a clock that only goes forward, from anywhere.
    elapsed: float
    # Milliseconds since 1970.
    utc: int
