"""What became of an adapter's calls, in plain numbers: those who call it add, and nothing else.

How calls are made is in `calls`; rates and means are made of these in `penstock.monitor`.
"""

from __future__ import annotations

import time
from threading import Lock


class CallTally:
    """Of one adapter. But for those about threads, all belong to the event loop."""

    __slots__ = ("_lock", "busy", "calls", "failures", "pending", "seconds", "thread_calls", "threads", "wait_seconds")

    def __init__(self) -> None:
        # Calls that have ended, those of them that failed, and how long all of them took. A refusal is not a failure.
        self.calls = 0
        self.failures = 0
        self.seconds = 0.0
        # Under way.
        self.pending = 0
        # Threads of the adapter, and those in a call: also one whose caller has long given up.
        self.threads = 0
        self.busy = 0
        # Calls that have got a thread, and how long they waited for it.
        self.thread_calls = 0
        self.wait_seconds = 0.0
        self._lock = Lock()

    def ended(self, begun: float, failed: bool) -> None:
        """A call that began then, by `time.perf_counter`, is over."""
        self.calls += 1
        self.seconds += time.perf_counter() - begun
        if failed:
            self.failures += 1

    # -- on threads -----------------------------------------------------------------------------------------------

    def thread_made(self) -> None:
        with self._lock:
            self.threads += 1

    def thread_taken(self, asked: float) -> None:
        """By a call that has waited since then, by `time.perf_counter`."""
        waited = time.perf_counter() - asked
        with self._lock:
            self.busy += 1
            self.thread_calls += 1
            self.wait_seconds += waited

    def thread_left(self) -> None:
        with self._lock:
            self.busy -= 1
