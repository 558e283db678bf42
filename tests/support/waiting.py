"""Waiting for what shows in no line and in no event: on the thread of a server, in the log of a process."""

from __future__ import annotations

import time
from collections.abc import Callable

# Seconds. Long enough for a process that starts on a machine that is busy with other tests.
PATIENCE = 90.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """`what` is for the report of a test that has waited in vain."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.005)
