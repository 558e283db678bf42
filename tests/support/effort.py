"""How much a test tries that has a number of its own; for all others the profile says it (tests/conftest.py)."""

from __future__ import annotations

import os

IS_FAST = os.environ.get("PENSTOCK_PROFILE") == "fast"
IS_LONG = os.environ.get("PENSTOCK_PROFILE") == "long"


def tries(count: int) -> int:
    """A fifth of it in `make test-fast`, as for those that leave the number to the profile."""
    return max(1, count // 5) if IS_FAST else count


def kills(usual: int, long: int) -> int:
    """How often a server is killed: as often as PENSTOCK_KILLS says, else more often in the long profile."""
    given = os.environ.get("PENSTOCK_KILLS")
    return int(given) if given else long if IS_LONG else usual
