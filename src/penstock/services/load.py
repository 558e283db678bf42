"""The load of the process, measured for the limits on it: `limits.max_lag_millis` and `limits.max_memory_bytes`.

What is made of it is in `penstock.doors.gate`. Without these limits nothing is measured.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from penstock.config import Config
from penstock.doors.gate import Gate
from penstock.doors.load import PULSE
from penstock.log import get
from penstock.services.service import Service
from penstock.transport.episode import Episode

log = get(__name__)

# Its second number is how many pages of the process are in memory.
STATM = Path("/proc/self/statm")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class LoadService(Service):
    """Beats from before the doors open until they have drained."""

    name = "load"

    def __init__(self, config: Config, gate: Gate) -> None:
        self._limits = config.limits
        self._gate = gate
        self._timer: asyncio.TimerHandle | None = None
        self._crowd = Episode(log, "new sessions are refused because of the load", "new sessions are let in again")

    async def check(self) -> list[str]:
        if self._limits.max_memory_bytes and memory() is None:
            return [f"limits.max_memory_bytes has no effect, because this system has no {STATM}"]
        return []

    async def open(self) -> None:
        if self._limits.max_lag_millis or self._limits.max_memory_bytes:
            for complaint in await self.check():
                log.warning(complaint)
            self._gate.tell_overload = self._tell
            self._beat()

    def _tell(self, figure: str, value: int) -> None:
        self._crowd.occurred(**{figure: value})

    def _beat(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PULSE, self._beat)
        self._gate.load.beat(time.monotonic(), memory() or 0)

    async def drain(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._crowd.close()


def memory() -> int | None:
    """Bytes that the process has in memory; None where the system does not say."""
    try:
        return int(STATM.read_bytes().split()[1]) * PAGE_BYTES
    except OSError:
        return None
