"""The watchdog as a service: it watches as long as adapters may hold up the event loop.

How it finds out who does is in `penstock.adapters.watchdog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.adapters.roster import Roster
from penstock.adapters.watchdog import Watchdog
from penstock.config import Config
from penstock.monitor.figures import Family, counter
from penstock.services.service import Service


class WatchdogService(Service):
    """Opened before the adapters, closed after them."""

    name = "watchdog"

    def __init__(self, config: Config, roster: Roster, due: Callable[[], float]) -> None:
        """`due` is when the next look at the event loop's lag is due, as `Watchdog` wants it."""
        self._stall_millis = config.server.stall_millis
        self._roster = roster
        self._due = due
        self._watchdog: Watchdog | None = None

    async def open(self) -> None:
        if self._stall_millis:
            self._watchdog = Watchdog(self._roster, self._stall_millis / 1000, self._due)
            self._watchdog.start()

    async def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

    def figures(self) -> Iterable[Family]:
        if self._watchdog is None:
            return ()
        return (
            counter(
                "penstock_loop_stalls",
                "How often the event loop was blocked for longer than `server.stall_millis`.",
                self._watchdog.stalls,
            ),
        )
