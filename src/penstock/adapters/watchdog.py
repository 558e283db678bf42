"""The watchdog: a thread that notices when the event loop is blocked, and whose code blocks it.

An async or `quick` adapter that blocks or computes for long stalls every client; nothing else would show why. Calls are
not slowed down by it: it sends the loop a callback from time to time, and inspects its stack only if that does not run.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback

from penstock.adapters.roster import Roster, labels
from penstock.log import get

log = get(__name__)

# Callbacks are sent this many times within the time that counts as a stall.
SIGNS_PER_STALL = 4

# Frames of the stack that are logged, the innermost ones.
MAX_FRAMES = 20


class Watchdog:
    """Made and started on the event loop that it watches; stopped there as well."""

    def __init__(self, roster: Roster, stall_seconds: float) -> None:
        self._roster = roster
        self._stall = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._sign = threading.Event()
        self._stopped = threading.Event()
        # How often the loop has been blocked for too long.
        self.stalls = 0
        self._thread = threading.Thread(target=self._watch, name="penstock-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It ends soon; nobody need wait for it."""
        self._stopped.set()
        self._sign.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._stall / SIGNS_PER_STALL):
            self._sign.clear()
            asked = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._sign.set)
            except RuntimeError:
                # The loop is closed.
                return
            if not self._sign.wait(self._stall):
                self._tell(asked)
                self._sign.wait()
                if not self._stopped.is_set():
                    log.warning("event loop runs again", stalled_seconds=round(time.monotonic() - asked, 3))

    def _tell(self, since: float) -> None:
        self.stalls += 1
        frame = sys._current_frames().get(self._watched)
        stack = traceback.format_list(traceback.extract_stack(frame)[-MAX_FRAMES:]) if frame is not None else []
        log.warning(
            "event loop is stalled",
            adapter=labels(self._roster.running(frame)),
            seconds=round(time.monotonic() - since, 3),
            stack="".join(stack).rstrip(),
        )
