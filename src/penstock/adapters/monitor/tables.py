"""A table that lives: rows that come, change and go are published as such, a few at a time.

Ten thousand rows take their time; everybody else has turns in between, and the more rows there are, the less often they
are looked at.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from penstock.log import get

if TYPE_CHECKING:
    from penstock.adapters.api import DataAdapter
    from penstock.adapters.monitor.overview import Overview, Row, Stop, Table

log = get(__name__)

# Seconds of work after which others have a turn.
SLICE = 0.001

# Rows for which a table is looked at every second; twice as many, every other second.
ROWS_PER_SECOND = 1_000


class ShownTable:
    """One item in COMMAND mode, as long as somebody is subscribed to it."""

    def __init__(self, adapter: DataAdapter, item: str, rows: Table) -> None:
        self._adapter = adapter
        self._item = item
        self._rows = rows
        # What was published last, by key.
        self._shown: dict[str, Row] = {}
        self._sample = asyncio.Event()

    def begin(self, overview: Overview) -> Stop:
        stop_samples = overview.each_sample(self._sample.set)
        task = asyncio.get_running_loop().create_task(self._run())

        def end() -> None:
            stop_samples()
            task.cancel()

        return end

    async def _run(self) -> None:
        try:
            await self._look(snapshot=True)
            self._adapter.end_of_snapshot(self._item)
            while True:
                for _ in range(1 + len(self._shown) // ROWS_PER_SECOND):
                    self._sample.clear()
                    await self._sample.wait()
                await self._look(snapshot=False)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("table cannot be shown", item=self._item)

    async def _look(self, snapshot: bool) -> None:
        """Publish what has changed since the last look."""
        gone = set(self._shown)
        until = monotonic() + SLICE
        for key, row in self._rows():
            gone.discard(key)
            self._show(key, row, snapshot)
            if monotonic() >= until:
                await asyncio.sleep(0)
                until = monotonic() + SLICE
        for key in gone:
            del self._shown[key]
            self._adapter.update(self._item, {"key": key, "command": "DELETE"})
            if monotonic() >= until:
                await asyncio.sleep(0)
                until = monotonic() + SLICE

    def _show(self, key: str, row: Row, snapshot: bool) -> None:
        before = self._shown.get(key)
        if before == row:
            return
        self._shown[key] = row
        command = "ADD" if before is None else "UPDATE"
        self._adapter.update(self._item, {"key": key, "command": command, **row}, snapshot=snapshot)
