"""A hub's time as the active one of its cluster: waits for the lease, renews it, and tells at once when it is lost.

The lease itself is in `penstock.store.hub_lease`; all calls of the database are on a thread of this one's own. What a
hub does with it is up to the hub: nothing is opened before, everything is stopped after.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from penstock import __version__
from penstock.config.schema.cluster import ClusterSection
from penstock.log import get
from penstock.store.errors import Ousted, StoreError
from penstock.store.hub_lease import HubHolder, HubLease
from penstock.store.opening import open_store, reason
from penstock.store.store import Store

log = get(__name__)

# Part of the lease after which it is renewed: two attempts may fail before it ends.
RENEWED_AFTER = 0.25

# Seconds between two looks of a standby, at most, and between two attempts to renew that failed.
LONGEST_LOOK = 1.0
RETRY_SECONDS = 0.25

# What a database that does not answer raises.
_FAILURES = (StoreError, SQLAlchemyError, OSError)


class Tenure:
    """Once: after it has ended, a hub that wants to stand by again makes another one, with another run."""

    def __init__(
        self,
        section: ClusterSection,
        node: str,
        run: str,
        ended: Callable[[str], None],
        stands_by: Callable[[], None] = lambda: None,
    ) -> None:
        """`ended` is called once, on the event loop, if this hub must stop being the active one; with the reason.

        `stands_by` is called, before that, each time that the database has said that another one is active.
        """
        self._stands_by = stands_by
        self._section = section
        self._lease = HubLease(section.name, node, run, __version__, section.lease_millis)
        self._ended = ended
        self._is_over = False
        self._thread = ThreadPoolExecutor(1, "hub-lease")
        self._store: Store | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told: HubHolder | None = None
        # What is wrong with the database, each told of once until it answers again.
        self._faults: set[str] = set()

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def lease(self) -> HubLease:
        """A fence for databases."""
        return self._lease

    def is_owner(self) -> bool:
        """From any thread, at any time; once it was no after `take`, it stays so."""
        if not self._is_over and self._lease.left() > 0:
            return True
        self._is_over = self._is_over or self._task is not None
        return False

    async def take(self) -> int:
        """Wait until this hub is the active one; returns its epoch. A database that is not there is waited for."""
        while (holder := await self._attempt()) is not None:
            if self._told is None or holder.node not in ("", self._told.node):
                log.info("standing by", active=holder.node, release=holder.release)
                self._told = holder
            self._stands_by()
            pause = self._section.lease_millis / 10_000
            await asyncio.sleep(min(LONGEST_LOOK, pause))
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._renew())
        self._watch()
        log.info("this hub is active", epoch=self.epoch)
        return self.epoch

    async def close(self) -> None:
        """So that another may take over at once. What this hub wrote is to be written before."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        store = self._store
        if store is not None:
            with contextlib.suppress(*_FAILURES):
                await self._call(lambda: self._lease.give_up(store.engine))
            await self._call(store.close)
        self._thread.shutdown(wait=False)

    async def _attempt(self) -> HubHolder | None:
        while True:
            try:
                holder = await self._call(self._take)
            except _FAILURES as error:
                self._fails("the database of the hub's lease does not answer", error)
                await asyncio.sleep(LONGEST_LOOK)
            else:
                self._answers("the database of the hub's lease answers again")
                return holder

    def _take(self) -> HubHolder | None:
        if self._store is None:
            self._store = open_store(patient_url(self._section), None)
        return self._lease.take(self._store.engine)

    async def _renew(self) -> None:
        store = self._store
        assert store is not None
        pause = self._section.lease_millis / 1000 * RENEWED_AFTER
        while True:
            await asyncio.sleep(pause)
            try:
                await self._call(lambda: self._lease.renew(store.engine))
            except Ousted as error:
                self._end(str(error))
                return
            except _FAILURES as error:
                self._fails("the hub's lease is not renewed", error, seconds_left=self._lease.left())
                pause = RETRY_SECONDS
            else:
                self._answers("the hub's lease is renewed again")
                pause = self._section.lease_millis / 1000 * RENEWED_AFTER

    def _fails(self, event: str, error: Exception, **fields: object) -> None:
        """Attempts follow one another several times a second."""
        why = reason(error)
        if why not in self._faults:
            self._faults.add(why)
            log.warning(event, reason=why, **fields)

    def _answers(self, event: str) -> None:
        if self._faults:
            self._faults.clear()
            log.info(event)

    def _watch(self) -> None:
        """Whatever the database does, and however long it takes: at the end of the lease it is over."""
        if self.is_owner():
            left = max(self._lease.left(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(left, self._watch)
        else:
            self._end("the lease expired before it was renewed")

    def _end(self, why: str) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._is_over = True
        log.error("this hub is no longer active", reason=why)
        self._ended(why)

    async def _call(self, function: Callable[[], HubHolder | None]) -> HubHolder | None:
        return await asyncio.wrap_future(self._thread.submit(function))


def patient_url(section: ClusterSection) -> str:
    """The database's, with an end to waiting: a call that never returns would be the last one of its thread."""
    url = make_url(section.store)
    seconds = max(2, section.lease_millis // 2000)
    limits = {
        "connect_timeout": str(seconds),
        "tcp_user_timeout": str(seconds * 1000),
        "options": f"-c statement_timeout={seconds * 1000} -c lock_timeout={seconds * 1000}",
    }
    kept = {name: value for name, value in limits.items() if name not in url.query}
    return url.update_query_dict(kept).render_as_string(hide_password=False)
