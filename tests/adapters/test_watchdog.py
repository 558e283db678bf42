"""The watchdog's looks at a timer of the event loop. With adapters that block: tests/e2e/test_adapter_faults.py."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from penstock.adapters.roster import Roster
from penstock.adapters.watchdog import LOOKS_PER_STALL, Watchdog

STALL = 0.2
TOLD = ["event loop is stalled", "event loop runs again"]


class Timer:
    """The timer of a loop: when it should run next."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._loop = asyncio.get_running_loop()
        self.due = 0.0
        self.runs = 0
        self.run()

    def run(self) -> None:
        self.runs += 1
        self.due = time.perf_counter() + self._pause
        self._loop.call_later(self._pause, self.run)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("event loop")]


def test_a_loop_that_is_blocked_is_told_once_and_so_is_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stalls = asyncio.run(blocked(caplog))
    assert stalls == 1
    assert messages(caplog) == TOLD


async def blocked(caplog: pytest.LogCaptureFixture) -> int:
    """Block the loop until the watchdog says so: a thread that is not given the processor can look only later."""
    timer = Timer(STALL / 2)
    watchdog = Watchdog(Roster(), STALL, lambda: timer.due)
    watchdog.start()
    while timer.runs < 3:
        await asyncio.sleep(0.01)
    end = time.monotonic() + 30
    while not watchdog.stalls and time.monotonic() < end:
        time.sleep(0.01)
    while messages(caplog) != TOLD and time.monotonic() < end:
        await asyncio.sleep(0.01)
    watchdog.stop()
    return watchdog.stalls


def test_a_process_that_was_suspended_is_not_taken_for_a_loop_that_is_blocked() -> None:
    """Then its threads go on at the same time, and any of them may be first: one look finds an old timer, and the next
    a new one, however long they are apart."""
    looks = 0
    enough = threading.Event()

    def due() -> float:
        nonlocal looks
        looks += 1
        if looks > 20 * LOOKS_PER_STALL:
            enough.set()
        # A time long ago, which is another one at every third look.
        return float(looks // 3)

    watchdog = Watchdog(Roster(), STALL / 10, due)
    watchdog.start()
    assert enough.wait(30)
    watchdog.stop()
    assert watchdog.stalls == 0
