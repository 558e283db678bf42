"""The watchdog: a thread that notices when the event loop is blocked, and whose code blocks it.

An async or `quick` adapter that blocks or computes for long stalls every client; nothing else would show why. Neither
calls nor the loop are slowed down by it: it looks at a timer that the loop has anyway, and inspects the loop's stack
only if that is late.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from penstock.adapters.roster import Roster, labels
from penstock.log import get

log = get(__name__)

# How often it looks within the time that counts as a stall, and how much more often for the end of one.
LOOKS_PER_STALL = 4
HASTE = 10

# Frames of the stack that are logged, the innermost ones.
MAX_FRAMES = 20


class Watchdog:
    """Made and started on the event loop that it watches; stopped there as well."""

    def __init__(self, roster: Roster, stall_seconds: float, due: Callable[[], float]) -> None:
        """`due` is when the loop's timer should run next, in seconds of `time.perf_counter`: what it says changes as
        long as the loop turns.
        """
        self._roster = roster
        self._stall = stall_seconds
        self._due = due
        self._watched = threading.get_ident()
        self._stopped = threading.Event()
        # How often the loop has been blocked for too long.
        self.stalls = 0
        self._thread = threading.Thread(target=self._watch, name="penstock-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It ends soon; nobody need wait for it."""
        self._stopped.set()

    def _watch(self) -> None:
        pause = self._stall / LOOKS_PER_STALL
        due, missed, is_told = self._due(), 0, False
        while not self._stopped.wait(pause / HASTE if is_told else pause):
            late, found = time.perf_counter() - due, self._due()
            if found != due:
                if is_told:
                    log.warning("event loop runs again", stalled_seconds=round(late, 3))
                due, missed, is_told = found, 0, False
                continue
            # Looks are counted as well, because no thread runs while a process is suspended.
            missed += 1
            if not is_told and missed >= LOOKS_PER_STALL and late >= self._stall:
                is_told = True
                self._tell(late)

    def _tell(self, late: float) -> None:
        self.stalls += 1
        frame = sys._current_frames().get(self._watched)
        stack = traceback.format_list(traceback.extract_stack(frame)[-MAX_FRAMES:]) if frame is not None else []
        log.warning(
            "event loop is stalled",
            adapter=labels(self._roster.running(frame)),
            seconds=round(late, 3),
            stack="".join(stack).rstrip(),
        )
