"""The watchdog's looks at a timer of the event loop. With adapters that block: tests/e2e/test_adapter_faults.py."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from penstock.adapters.roster import Roster
from penstock.adapters.watchdog import LOOKS_PER_STALL, Watchdog

STALL = 0.2
# Seconds; nothing here takes longer, unless it is broken.
PATIENCE = 30
TOLD = ["event loop is stalled", "event loop runs again"]


class Timer:
    """The timer of a loop. At its third turn it blocks the loop until the watchdog has said so: a thread that is
    not given the processor can look only later."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self.due = 0.0
        self.turns = 0
        self.watchdog = Watchdog(Roster(), STALL, lambda: self.due)

    def turn(self) -> None:
        self.turns += 1
        if self.turns == 3:
            end = time.monotonic() + PATIENCE
            before = self.watchdog.stalls
            while self.watchdog.stalls == before and time.monotonic() < end:
                time.sleep(0.01)
        self.due = time.perf_counter() + self._pause
        asyncio.get_running_loop().call_later(self._pause, self.turn)


class Told(logging.Handler):
    """Ends a wait when the last of the messages has come, from whatever thread."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.last = asyncio.Event()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if record.getMessage() == TOLD[-1]:
            self._loop.call_soon_threadsafe(self.last.set)


def test_a_loop_that_is_blocked_is_told_once_and_so_is_the_end() -> None:
    stalls, found = asyncio.run(blocked())
    # On a busy machine the loop may be held up by others as well: each time is told once, and then its end.
    assert stalls >= 1
    assert len(found) >= 2
    assert found == [TOLD[number % 2] for number in range(len(found))]


async def blocked() -> tuple[int, list[str]]:
    timer, told = Timer(STALL / 2), Told()
    logging.getLogger("penstock.adapters.watchdog").addHandler(told)
    timer.turn()
    timer.watchdog.start()
    try:
        await asyncio.wait_for(told.last.wait(), 2 * PATIENCE)
    finally:
        timer.watchdog.stop()
        logging.getLogger("penstock.adapters.watchdog").removeHandler(told)
    return timer.watchdog.stalls, told.messages


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
    assert enough.wait(PATIENCE)
    watchdog.stop()
    assert watchdog.stalls == 0
