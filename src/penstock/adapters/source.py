"""A data adapter as the kernel's data source: its errors are logged with its name and affect nobody else.

Threads and timeouts are in `calls`, the way of its events into the kernel is in `publisher`.
"""

from __future__ import annotations

import asyncio

from penstock.adapters.api import DataAdapter
from penstock.adapters.call_tally import CallTally
from penstock.adapters.calls import LAST_CALLS, AdapterCaller, Tasks
from penstock.adapters.faults import CONTAINED
from penstock.kernel.item import Mode
from penstock.log import get

log = get(__name__)

# Seconds that a data adapter has to stop.
LONGEST_STOP = 5.0


class GuardedSource:
    """A data adapter as the kernel's data source."""

    def __init__(self, adapter_set: str, name: str, adapter: DataAdapter) -> None:
        self._adapter_set = adapter_set
        self._name = name
        self._adapter = adapter
        self._caller = AdapterCaller(adapter, DataAdapter, adapter.quick, None, f"{adapter_set}-{name}")
        self._tasks = Tasks()

    @property
    def calls(self) -> CallTally:
        """Those of the adapter's methods."""
        return self._caller.tally

    async def start(self) -> None:
        await self._caller.call("start")

    async def stop(self) -> None:
        """Stop the adapter after its last call; one that takes too long is left behind."""
        await self._tasks.settle(LAST_CALLS)
        try:
            async with asyncio.timeout(LONGEST_STOP):
                await self._caller.call("stop")
        except TimeoutError:
            log.warning("data adapter has not stopped in time", adapter_set=self._adapter_set, adapter=self._name)
        except Exception:
            self._failed("stop", "")
        self.discard()

    def discard(self) -> None:
        """Give the adapter up as it is; its threads end when they can."""
        self._adapter.publisher.close()
        self._caller.close()

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        self._tell("subscribe", item)

    def bind(self, item: str, mode: Mode) -> None:
        """Data adapters do not know in which mode their items are seen."""

    def unsubscribe(self, item: str) -> None:
        self._tell("unsubscribe", item)

    def _tell(self, call: str, item: str) -> None:
        """At once where that is possible, else in the order of the item's own calls."""
        if self._caller.returns_at_once(call) and self._tasks.idle(item):
            try:
                self._caller.call_at_once(getattr(self._adapter, call), item)
            except Exception:
                self._failed(call, item)
        else:
            self._tasks.start_after(item, self._call(call, item))

    async def _call(self, call: str, item: str) -> None:
        try:
            await self._caller.call(call, item)
        except Exception:
            self._failed(call, item)

    def has_snapshot(self, item: str) -> bool:
        try:
            with CONTAINED:
                return bool(self._adapter.has_snapshot(item))
        except Exception:
            self._failed("has_snapshot", item)
            return False

    def complain(self, item: str, complaint: str) -> None:
        log.warning("event dropped", adapter_set=self._adapter_set, adapter=self._name, item=item, reason=complaint)

    def _failed(self, call: str, item: str) -> None:
        log.exception("data adapter failed", adapter_set=self._adapter_set, adapter=self._name, call=call, item=item)
