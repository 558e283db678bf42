"""The load of the process, measured for the limits on it: `limits.max_lag_millis` and `limits.max_memory_bytes`.

What is made of it is in `penstock.doors.gate`. Without these limits nothing is measured.
"""

from __future__ import annotations

import asyncio
import time

from penstock.config import Config
from penstock.doors.gate import Gate
from penstock.doors.load import PULSE
from penstock.log import get
from penstock.monitor.process import resident
from penstock.services.service import Service
from penstock.transport.episode import Episode

log = get(__name__)


class LoadService(Service):
    """Beats from before the doors open until they have drained."""

    name = "load"

    def __init__(self, config: Config, gate: Gate) -> None:
        self._limits = config.limits
        self._gate = gate
        self._timer: asyncio.TimerHandle | None = None
        self._crowd = Episode(log, "new sessions are refused because of the load", "new sessions are accepted again")

    async def check(self) -> list[str]:
        if self._limits.max_memory_bytes and resident() is None:
            return ["limits.max_memory_bytes has no effect, because this system does not say how much memory is in use"]
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
        self._gate.load.beat(time.monotonic(), resident() or 0)

    async def drain(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._crowd.close()
