"""Searches: which things are looked at, page by page, and what of them is sent.

The index proposes things; whether one is a result is decided on the thing itself, as it is now and as far as its
reader may see it (`twins.search`). Things that the index has not got yet are looked at as well. Options and cursors are
read in `wire.ditto.search`, the index is kept by `search_writer`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from heapq import nsmallest

from sqlalchemy.exc import SQLAlchemyError

from penstock.doors.ditto.search_writer import SearchWriter
from penstock.log import get
from penstock.twins.access import Subjects
from penstock.twins.names import thing_key
from penstock.twins.registry import Twins
from penstock.twins.search import Search, SortOrder
from penstock.twins.twin import Document, Twin
from penstock.wire.ditto.document import Json, encode
from penstock.wire.ditto.index_entries import ranges_of
from penstock.wire.ditto.search import SearchRequest, Selection, cursor_of, read_selection

log = get(__name__)

# Things looked at between two turns of the event loop.
AT_ONCE = 250

# Things that the index is asked for at once, after the first page was not filled.
MAX_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class ResultPage:
    """`last` is the position after it; None if there are no more."""

    items: list[Json]
    last: tuple[Json, ...] | None


class Searches:
    """`now` returns microseconds since 1970. Without a writer there is no index, and all things are looked at."""

    def __init__(self, twins: Twins, writer: SearchWriter | None, executor: Executor, now: Callable[[], int]) -> None:
        self._twins = twins
        self._writer = writer
        self._executor = executor
        self._now = now
        # A figure for the monitor.
        self.searches = 0

    async def answer(self, selection: Selection, subjects: Subjects) -> dict[str, Json]:
        """The result of a request by HTTP. Raises the error to answer with."""
        request = read_selection(selection)
        run = self._run(request, subjects)
        if request.options.offset is None:
            page = await run.page(request.after, request.options.size)
            answer: dict[str, Json] = {"items": page.items}
            if page.last is not None:
                answer["cursor"] = cursor_of(request, page.last)
            return answer
        offset, size = request.options.offset, request.options.size
        page = await run.page(None, offset + size)
        answer = {"items": page.items[offset:]}
        if page.last is not None:
            answer["nextPageOffset"] = offset + size
        return answer

    async def count(self, selection: Selection, subjects: Subjects) -> int:
        return await self._run(read_selection(selection), subjects).count()

    async def stream(self, selection: Selection, subjects: Subjects) -> SearchPages:
        """The pages of a search by the search protocol."""
        request = read_selection(selection, is_streamed=True)
        return SearchPages(self._run(request, subjects), request.options.size)

    def _run(self, request: SearchRequest, subjects: Subjects) -> _Run:
        self.searches += 1
        return _Run(self._twins, self._writer, self._executor, request, subjects, self._now())


class SearchPages:
    """The results, read as its client asks for them: a history with pages in place of events."""

    def __init__(self, run: _Run, size: int) -> None:
        self._run = run
        self._size = size
        self._after: tuple[Json, ...] | None = None
        self._is_over = False

    async def next(self) -> list[bytes] | None:
        """The next page, as JSON."""
        if self._is_over:
            return None
        page = await self._run.page(self._after, self._size)
        self._after = page.last
        self._is_over = page.last is None
        return [encode(page.items)] if page.items else None

    def close(self) -> None:
        self._is_over = True


class _Run:
    """One search of one reader."""

    def __init__(
        self,
        twins: Twins,
        writer: SearchWriter | None,
        executor: Executor,
        request: SearchRequest,
        subjects: Subjects,
        now: int,
    ) -> None:
        self._twins = twins
        self._writer = writer
        self._executor = executor
        self._namespaces = request.namespaces
        self._subjects = subjects
        self._order = SortOrder(tuple([(key.path, key.descending) for key in request.options.sort]))
        self._search = Search(request.query, self._order, request.fields, now)
        self._ranges = None if request.query is None else ranges_of(request.query)

    async def page(self, after: tuple[Json, ...] | None, size: int) -> ResultPage:
        if self._order.is_by_id:
            return await self._page_by_id("" if after is None else after[-1], size)
        compared = self._order.key
        rows: list[tuple[Json, ...]] = []
        async for _, document in self._results(""):
            values = self._order.values(document)
            if after is None or self._order.compare(values, after) > 0:
                rows.append(values)
        chosen = nsmallest(size + 1, rows, key=compared)
        items = [item for item in map(self._item, [values[-1] for values in chosen[:size]]) if item is not None]
        return ResultPage(items, chosen[size - 1] if size and len(chosen) > size else None)

    async def _page_by_id(self, after: str, size: int) -> ResultPage:
        items: list[Json] = []
        last = after
        async for id, _ in self._results(after, size + 1):
            if len(items) == size:
                return ResultPage(items, (last,) if size else None)
            item = self._item(id)
            if item is not None:
                items.append(item)
                last = id
        return ResultPage(items, None)

    async def count(self) -> int:
        count = 0
        async for _ in self._results("", MAX_CHUNK):
            count += 1
        return count

    def _item(self, id: str) -> Json:
        twin = self._twins.thing(id)
        if twin is None:
            return None
        policy = self._twins.policy(twin.document["policyId"])
        rights = self._twins.rights(thing_key(id), self._subjects)
        return self._search.result(twin, rights, None if policy is None else policy.document)

    async def _results(self, after: str, first: int = MAX_CHUNK) -> AsyncIterator[tuple[str, Document]]:
        """All results after an ID, by ID, each with what its reader sees of it."""
        looked = 0
        async for id in self._candidates(after, first):
            twin: Twin | None = self._twins.thing(id)
            if twin is not None:
                document = self._search.look(twin, self._twins.rights(thing_key(id), self._subjects))
                if document is not None:
                    yield id, document
            looked += 1
            if looked % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _candidates(self, after: str, chunk: int) -> AsyncIterator[str]:
        writer = self._writer
        if writer is None or writer.index is None:
            for id in self._everything(after):
                yield id
            return
        index = writer.index
        # Those that the index has not got are looked at first of all: it may get them while it is asked.
        waiting = sorted([id for id in writer.waiting() if id > after and self._is_within(id)])
        at = 0
        while True:
            asked = (self._ranges, sorted(self._subjects), self._namespaces, after, chunk)
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._executor, index.candidates, *asked)
            except SQLAlchemyError as error:
                log.error("the search index cannot be asked; a search looks at all things", reason=str(error))
                for id in self._everything(after):
                    yield id
                return
            is_last = len(found) < chunk
            # Changes that were made in the meantime.
            late = [id for id in writer.waiting() if id > after and self._is_within(id)]
            if late:
                waiting, at = sorted({*waiting[at:], *late}), 0
            end = len(waiting) if is_last else bisect_right(waiting, found[-1])
            for id in sorted({*found, *waiting[at:end]}) if end > at else found:
                yield id
            at = end
            if is_last:
                return
            after = found[-1]
            chunk = min(2 * chunk, MAX_CHUNK)

    def _everything(self, after: str) -> list[str]:
        return sorted([id for id in self._twins.things() if id > after and self._is_within(id)])

    def _is_within(self, id: str) -> bool:
        return self._namespaces is None or id.partition(":")[0] in self._namespaces
