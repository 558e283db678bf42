"""Which devices are this node's, where several share a database, and the lease that allows it to serve them.

They are claimed for requests, adopted from nodes that are gone, and released to nodes that ask for them. Who may have
what is decided in `penstock.store.push`; what is done with the devices is in `engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.log import get
from penstock.push.records import DeviceKey
from penstock.push.refusals import PushRefusal
from penstock.push.registry import PushDecision
from penstock.services.push.away import AWAY, unavailable
from penstock.store.errors import Deposed, NoSuchRecord, NotOwner, StoreError
from penstock.store.push import ADOPT_LIMIT, PushStore
from penstock.store.thread import StoreThread

if TYPE_CHECKING:
    from penstock.services.push.engine import PushEngine

log = get(__name__)

# Seconds that a request waits for another node to release a device.
CLAIM_SECONDS = 15.0
CLAIM_PAUSE = 0.5
# Seconds that a device has for its last notification to arrive before it is released, or stays until the next renewal.
RELEASE_SECONDS = 1.0
RELEASE_PAUSE = 0.05


class PushLease:
    """That of an engine, whose `store` is the node's."""

    def __init__(self, engine: PushEngine, thread: StoreThread, renew_seconds: float) -> None:
        self._engine = engine
        self._thread = thread
        self._renew_seconds = renew_seconds
        # Devices that are forgotten here while the database still has them for this node.
        self._leaving: set[str] = set()

    async def find(self, key: DeviceKey) -> None:
        """Have a device in memory, if there is one of this token: of whichever node it is.

        Raises PushRefusal if another node does not release it in time.
        """
        engine = self._engine
        store = engine.store
        if engine.memory.registry.find(key) is not None or store is None:
            return
        deadline = asyncio.get_running_loop().time() + CLAIM_SECONDS
        while True:
            try:
                found = await self._thread.call(store.find, key)
                loaded = None
                if found is not None and found.id not in self._leaving:
                    loaded = await self._thread.call(store.claim, found.id)
            except NoSuchRecord:
                return
            except (NotOwner, *AWAY) as error:
                raise engine.not_answering(error) from None
            if found is None:
                return
            if loaded is not None:
                if engine.memory.registry.find(key) is None:
                    await engine.take_over(loaded)
                return
            if asyncio.get_running_loop().time() > deadline:
                raise unavailable("another server has the device and has not released it in time; try again")
            await asyncio.sleep(CLAIM_PAUSE)

    async def adopt(self, store: PushStore) -> None:
        """Take over the devices of nodes that are gone."""
        while True:
            found = await self._thread.call(store.adopt, ADOPT_LIMIT)
            await self._engine.take_over(found)
            if len(found.devices) < ADOPT_LIMIT:
                return
            log.info("devices of another server have been taken over", devices=len(found.devices))

    async def renew_forever(self) -> None:
        engine = self._engine
        while True:
            await asyncio.sleep(self._renew_seconds)
            store = engine.store
            assert store is not None
            try:
                wanted = await self._thread.call(store.renew)
                await self._release(store, wanted)
                await self.adopt(store)
            except Deposed:
                await engine.begin_again()
            except PushRefusal:
                # The database went away just now: what was to be released is asked for again.
                continue
            except (StoreError, *AWAY) as error:
                engine.not_answering(error)
                continue
            engine.renewed()

    async def _release(self, store: PushStore, wanted: Sequence[str]) -> None:
        """Devices that others ask for: not served any more, then given up. Those that are busy stay for another time.

        Nothing new is sent to them from now on: one with many notifications would be busy for ever.
        """
        engine = self._engine
        engine.memory.sender.pause(wanted, engine.clock())
        deadline = asyncio.get_running_loop().time() + RELEASE_SECONDS
        waiting = set(wanted)
        while waiting:
            released = await engine.decide(waiting, partial(self._let_go, frozenset(waiting)))
            try:
                if released:
                    await self._thread.call(store.release, released)
            finally:
                self._leaving.difference_update(released)
            waiting.difference_update(released)
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(RELEASE_PAUSE)

    def _let_go(self, devices: Collection[str]) -> PushDecision[list[str]]:
        """Forget those about which everything is known, and is persisted with this decision."""
        free = sorted(set(devices) - self._engine.busy())
        self._engine.forget(free)
        self._leaving.update(free)
        return PushDecision((), free)
