"""Keeps the search index as the things are: every change soon after it is on the disk, and at a start what was missed.

Until a change is in the index, the thing is among `waiting`, and every search looks at it as well. So a search finds
what was true when it began, however late the index is. The index itself is `store.search_index`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from sqlalchemy.exc import SQLAlchemyError

from penstock.log import get
from penstock.store.errors import StoreError
from penstock.store.search_index import IndexMark, SearchIndex, ThingUpdate
from penstock.twins.registry import Twins
from penstock.twins.search import indexed
from penstock.twins.told import Told
from penstock.twins.twin import Twin
from penstock.wire.ditto.kinds import EntityGroup

log = get(__name__)

# Seconds in which changes are collected for one transaction.
GATHERING = 0.01

# Things in one transaction: when it follows the changes, and when the index is filled, neighbours together, because
# they go to the same pages of the file. Policies in one turn of the event loop, because what they mean takes a while.
AT_ONCE = 500
FILLED_AT_ONCE = 5000

# Seconds until a failed transaction is tried again.
PAUSE = 1.0


@dataclass(slots=True)
class _Change:
    """A thing that the index has not got as it is. `before` is what it has; `is_known` says whether that is certain."""

    before: Twin | None
    is_known: bool
    since: float


class SearchWriter:
    """On the event loop, except for the transactions. `clock` returns seconds."""

    def __init__(self, twins: Twins, open_index: Callable[[], SearchIndex], clock: Callable[[], float]) -> None:
        self._twins = twins
        self._open_index = open_index
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="search-index")
        self._changes: dict[str, _Change] = {}
        # Those of the transaction under way.
        self._writing: dict[str, _Change] = {}
        self._policies: set[str] = set()
        self._work = asyncio.Event()
        self._settled: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._end: Callable[[], None] | None = None
        self._made = self._done = 0
        # There once all that was missing is in it: until then a search looks at all things.
        self.index: SearchIndex | None = None
        # Figures for the monitor.
        self.indexed_changes = 0
        self.failures = 0

    def start(self) -> None:
        """The things have been restored, and nobody changes them yet."""
        self._end = self._twins.listen(self._hear)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """What is not in the index yet is found at the next start."""
        if self._end is not None:
            self._end()
            self._end = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        index, self.index = self.index, None
        if index is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, index.close)
        self._executor.shutdown()

    # -- what searches ask -----------------------------------------------------------------------------------------

    def waiting(self) -> set[str]:
        """The things that the index has not got as they are."""
        return {*self._changes, *self._writing}

    @property
    def backlog(self) -> int:
        return len(self._changes) + len(self._writing)

    def lag(self) -> float:
        """Seconds since the oldest change that is not in the index; 0 if there is none."""
        oldest = [each.since for changes in (self._writing, self._changes) for each in list(changes.values())[:1]]
        return max(0.0, self._clock() - min(oldest)) if oldest else 0.0

    async def settled(self) -> None:
        """Return when all changes until now are in the index."""
        if self._made == self._done:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settled.append((self._made, waiting))
        await waiting

    # -- changes ---------------------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        key = told.key
        if key.group is EntityGroup.POLICIES:
            self._policies |= {key.id, *self._twins.dependents(key.id)}
        elif key.id not in self._changes:
            self._changes[key.id] = _Change(told.before, True, self._clock())
        self._made += 1
        self._work.set()

    async def _run(self) -> None:
        failing = False
        while True:
            try:
                if self.index is None:
                    await self._catch_up()
                await self._work.wait()
                await asyncio.sleep(GATHERING)
                self._work.clear()
                await self._write(self.index)
                failing = False
            except (SQLAlchemyError, StoreError, OSError) as error:
                self.failures += 1
                self._work.set()
                if not failing:
                    log.error("the search index is not written; searches look at all changed things", reason=str(error))
                failing = True
                await asyncio.sleep(PAUSE)

    async def _catch_up(self) -> None:
        """Fill the index, or bring it from where it ended to now."""
        loop = asyncio.get_running_loop()
        index = await loop.run_in_executor(self._executor, self._open_index)
        try:
            marks = await loop.run_in_executor(self._executor, index.marks)
            readers = await loop.run_in_executor(self._executor, index.readers)
            since = self._clock()
            for id in list(self._twins.things()):
                twin = self._twins.thing(id)
                if twin is not None and marks.pop(id, None) != _mark(twin):
                    self._changes[id] = _Change(None, False, since)
            for id in marks:
                self._changes[id] = _Change(None, False, since)
            for number, id in enumerate(list(self._twins.policies())):
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
                if self._twins.readers(id) != readers.pop(id, frozenset()):
                    self._policies.add(id)
            self._policies.update(readers)
            if self._changes:
                log.info("the search index is being brought up to date", things=len(self._changes))
            self._changes = dict(sorted(self._changes.items()))
            while self._changes or self._policies:
                await self._write(index, FILLED_AT_ONCE)
        except BaseException:
            await loop.run_in_executor(self._executor, index.close)
            raise
        self.index = index

    async def _write(self, index: SearchIndex | None, most: int = AT_ONCE) -> None:
        assert index is not None
        made = self._made
        taken = dict(islice(self._changes.items(), most))
        for id in taken:
            del self._changes[id]
        self._writing = taken
        policies = set(islice(self._policies, AT_ONCE))
        self._policies -= policies
        now = [(id, change, self._twins.thing(id)) for id, change in taken.items()]
        readers = [(id, self._twins.readers(id)) for id in policies]
        if self._changes or self._policies:
            made = self._done
            self._work.set()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._executor, lambda: index.apply([_update(*each) for each in now], readers)
            )
        except BaseException:
            # Perhaps it was written nevertheless: what the index has is not certain any more.
            for id, change in taken.items():
                self._changes[id] = _Change(None, False, change.since)
            self._policies |= policies
            self._writing = {}
            raise
        self._writing = {}
        self.indexed_changes += len(taken)
        self._done = max(self._done, made)
        done = [waiting for number, waiting in self._settled if number <= self._done]
        self._settled = [each for each in self._settled if each[0] > self._done]
        for waiting in done:
            if not waiting.done():
                waiting.set_result(None)


def _mark(twin: Twin) -> IndexMark:
    return IndexMark(twin.document["policyId"], twin.revision, twin.modified)


def _update(id: str, change: _Change, after: Twin | None) -> ThingUpdate:
    new = set() if after is None else indexed(after)
    if not change.is_known:
        return ThingUpdate(id, None if after is None else _mark(after), None, tuple(new))
    old = set() if change.before is None else indexed(change.before)
    return ThingUpdate(id, None if after is None else _mark(after), tuple(old - new), tuple(new - old))
