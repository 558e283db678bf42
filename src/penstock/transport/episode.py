"""A problem that occurs very often, logged in two lines: when it begins, and when it is over.

What the problem is, is up to its owner. Each occurrence is counted, not logged.
"""

from __future__ import annotations

import asyncio

from penstock.log import Log

# Seconds without an occurrence after which it is over.
QUIET = 5.0


class Episode:
    """Call `occurred` at each occurrence, and `close` when its owner closes."""

    def __init__(self, log: Log, begins: str, ends: str, **fields: object) -> None:
        self.count = 0
        self._log = log
        self._begins = begins
        self._ends = ends
        self._fields = fields
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def occurred(self, **fields: object) -> None:
        loop = asyncio.get_running_loop()
        self.count += 1
        self._last = loop.time()
        if self._timer is None:
            self._log.warning(self._begins, **self._fields, **fields)
            self._timer = loop.call_at(self._last + QUIET, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._last + QUIET:
            self._timer = loop.call_at(self._last + QUIET, self._check)
            return
        self._timer = None
        self._log.warning(self._ends, **self._fields, count=self.count)
        self.count = 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
