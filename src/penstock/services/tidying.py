"""Memory that clients have left behind, given back now and then.

What is given back is in `penstock.collector`.
"""

from __future__ import annotations

import asyncio

from penstock.adapters.authority import forget_names
from penstock.collector import give_back
from penstock.services.service import Service

# Seconds between two times that memory which clients have left behind is given back.
TIDY_PAUSE = 60.0


class TidyingService(Service):
    """At work while clients come and go."""

    name = "tidying"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(_tidy())

    async def drain(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _tidy() -> None:
    """Clients come and go, some with very many items: what they leave behind is given back now and then."""
    while True:
        await asyncio.sleep(TIDY_PAUSE)
        forget_names()
        if not await asyncio.to_thread(give_back):
            return
