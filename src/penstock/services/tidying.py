"""Memory that clients have left behind, returned to the system from time to time.

What is given back is in `penstock.collector`.
"""

from __future__ import annotations

import asyncio

from penstock.collector import give_back, passes
from penstock.kernel.alike import forget_alike
from penstock.kernel.kernel import Kernel
from penstock.services.service import Service

# Seconds between two times that memory which clients have left behind is given back.
TIDY_PAUSE = 60.0


class TidyingService(Service):
    """At work while clients come and go, some with very many items."""

    name = "tidying"

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._task: asyncio.Task[None] | None = None
        # The most sessions since frozen objects were last thawed.
        self._most = 0

    async def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tidy())

    async def drain(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_PAUSE)
            # Small objects first, because one of them can keep a whole block of memory from being returned.
            self._kernel.tidy()
            forget_alike()
            self._thaw()
            await asyncio.to_thread(give_back)

    def _thaw(self) -> None:
        """When half of the sessions have gone, cycles that they left behind may be among what was frozen."""
        count = len(self._kernel.sessions)
        self._most = max(self._most, count)
        if count <= self._most / 2:
            passes.thaw()
            self._most = count
