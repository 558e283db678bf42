"""The routes of `/api/journal`: where the journal stands, how a range is divided among tasks, the events of a range.

Everything that reads files runs on threads. Who may read is in `rights`, what a stream holds in `passage`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.journal.errors import Expired, JournalError
from penstock.journal.indexes import Indexes
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from penstock.log import get
from penstock.services.readers.passage import ARROW, Passage
from penstock.services.readers.problems import JsonLine, ReadingProblem
from penstock.services.readers.rights import Readers, RemoteReader

if TYPE_CHECKING:
    from penstock.journal.disk import Disk

log = get(__name__)

T = TypeVar("T")

PATH = "/api/journal"

# Threads that read; more requests wait for one of them, because each keeps a CPU busy.
THREADS = 4

# Ranges that are read at a time; each holds one batch in memory. One more is asked to try again.
MAX_STREAMS = 16
RETRY_SECONDS = 1

# A reader that takes nothing for so long loses its connection, and its place among the streams. It may come again.
STALLED_SECONDS = 60.0

# Sequences beyond this are nobody's.
LARGEST = 1 << 53
MAX_PARTS = 10_000
MAX_SEQUENCES = 100


class JournalReading:
    """What the routes share: belongs to the event loop."""

    def __init__(self, disk: Disk, readers: Readers, clock: Callable[[], float] = time.time) -> None:
        self._disk = disk
        self._readers = readers
        self._clock = clock
        self._indexes = Indexes()
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="journal-readers")
        # For short questions, one at a time: it remembers what it has read of segments.
        self._position = JournalReader(disk, indexes=self._indexes)
        self._one_at_a_time = asyncio.Lock()
        self.closing = False
        self.streams = 0
        self.sent_events = 0
        self.sent_bytes = 0
        self.refused = 0

    async def close(self) -> None:
        self.closing = True
        await asyncio.to_thread(self._executor.shutdown)

    async def run(self, call: Callable[[], T]) -> T:
        """On one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def identify(self, request: Request) -> RemoteReader:
        return await self.run(lambda: self._readers.identify(request.headers.get("authorization")))

    async def ask(self, question: Callable[[JournalReader], T]) -> T:
        """A short question to the journal."""
        async with self._one_at_a_time:
            return await self.run(lambda: question(self._position))

    def passage(self, first: int, last: int, chosen: EventSelection, reader: RemoteReader) -> Passage:
        allowed = () if reader.sees_all else reader.entities
        return Passage(self._disk, self._indexes, first, last, chosen, allowed)

    def check_valid(self, reader: RemoteReader) -> None:
        reader.check_expiry(self._clock())


def readers_routes(reading: JournalReading) -> APIRouter:
    router = APIRouter()

    def refused(problem: ReadingProblem, request: Request) -> Response:
        if problem.status in (401, 403):
            reading.refused += 1
            address = request.client.host if request.client else ""
            log.warning("journal reader refused", address=address, reason=str(problem))
        return problem.answer()

    @router.get(PATH, summary="Where the journal stands, and which it is")
    async def position(request: Request) -> Response:
        try:
            reader = await reading.identify(request)
            sequences = _numbers(request, "sequence")
            since = _optional(request, "time")
            # A table is put together with what the lake has of it, which asks nobody.
            reader.check_all_of(request.query_params.getlist("all_of"))
            found = await reading.ask(lambda journal: _position(journal, sequences, since))
            # Whoever copies the journal has to know whether it is given all of it.
            return JsonLine({**found, "all": reader.sees_all})
        except ReadingProblem as problem:
            return refused(problem, request)

    @router.get(PATH + "/plan", summary="A range of the journal, divided into parts of about equal size")
    async def plan(request: Request) -> Response:
        try:
            reader = await reading.identify(request)
            chosen = _chosen(request, reader)
            first, last = _range(request)
            parts = _number(request, "parts", 1, MAX_PARTS)
            found = await reading.ask(lambda journal: _plan(journal, first, last, parts, chosen))
            return JsonLine({"parts": found})
        except ReadingProblem as problem:
            return refused(problem, request)

    @router.get(PATH + "/events", summary="The events of a range, as an Arrow stream", response_class=Response)
    async def events(request: Request) -> Response:
        try:
            reader = await reading.identify(request)
            chosen = _chosen(request, reader)
            first, last = _range(request)
            known = _known(request)
            await reading.ask(lambda journal: _check_same(journal, last, known))
            if reading.streams >= MAX_STREAMS:
                raise ReadingProblem(
                    503, f"{MAX_STREAMS} ranges are being read, which is the most", retry_after=RETRY_SECONDS
                )
            return EventsAnswer(reading, reader, reading.passage(first, last, chosen, reader))
        except ReadingProblem as problem:
            return refused(problem, request)

    return router


class EventsAnswer(Response):
    """A stream of batches. The next is read when the one before was sent, so that one at a time is in memory.

    If it cannot be completed the connection is cut: whoever reads then asks for the rest, and is told why.
    """

    def __init__(self, reading: JournalReading, reader: RemoteReader, passage: Passage) -> None:
        super().__init__(media_type=ARROW)
        self._reading = reading
        self._reader = reader
        self._passage = passage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reading = self._reading
        reading.streams += 1
        gone = asyncio.ensure_future(_gone(receive))
        pieces = iter(self._passage)
        try:
            try:
                piece = await reading.run(lambda: next(pieces, None))
            except Expired as error:
                await _expired(error).answer()(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", ARROW.encode())]})
            while piece is not None:
                if gone.done() or reading.closing:
                    return
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                reading.sent_bytes += len(piece)
                reading.check_valid(self._reader)
                piece = await reading.run(lambda: next(pieces, None))
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.warning(
                "journal reader disconnected: it read nothing", reader=self._reader.name, seconds=STALLED_SECONDS
            )
        except (ReadingProblem, JournalError, OSError) as error:
            log.warning("journal read aborted", reader=self._reader.name, reason=str(error))
        finally:
            gone.cancel()
            reading.streams -= 1
            reading.sent_events += self._passage.events
            await _close(reading, pieces)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _close(reading: JournalReading, pieces: Iterator[bytes]) -> None:
    """Files are released on a thread; without threads the server has stopped, and they go with it.

    A thread that is still reading, because its request was cancelled, releases them itself.
    """
    with suppress(RuntimeError, ValueError):
        await reading.run(pieces.close)  # type: ignore[attr-defined]


# -- questions to the journal, on a thread ----------------------------------------------------------------------------


def _position(journal: JournalReader, sequences: list[int], since: int | None) -> dict[str, object]:
    latest = journal.poll()
    found: dict[str, object] = {
        "earliest": journal.earliest(),
        "latest": latest,
        # Which segment a sequence is in, by the random number of that segment: another journal has others.
        "salts": {str(sequence): journal.salt_at(sequence) for sequence in (*sequences, latest)},
    }
    if since is not None:
        try:
            found["at"] = journal.sequence_at(since)
        except Expired as error:
            raise _expired(error) from None
    return found


def _plan(journal: JournalReader, first: int, last: int, parts: int, chosen: EventSelection) -> list[dict[str, object]]:
    try:
        shares = journal.plan(first, last + 1, parts, chosen)
    except Expired as error:
        raise _expired(error) from None
    found: list[dict[str, object]] = []
    for share in shares:
        ends = share[0].first, share[-1].last
        salts = [[sequence, salt] for sequence in ends if (salt := journal.salt_at(sequence)) is not None]
        found.append({"first": ends[0], "last": ends[1], "salts": salts})
    return found


def _check_same(journal: JournalReader, last: int, known: list[tuple[int, int]]) -> None:
    """Raises 409 if the journal ends before that, or has another segment for a sequence that the reader knows."""
    latest = journal.poll()
    if last > latest:
        raise ReadingProblem(409, f"sequence {last} is asked for, but the journal ends at {latest}")
    for sequence, salt in known:
        if journal.salt_at(sequence) not in (salt, None):
            raise ReadingProblem(409, f"the journal has another segment for sequence {sequence} than it had before")


def _expired(error: Expired) -> ReadingProblem:
    return ReadingProblem(410, str(error), earliest=error.earliest)


# -- parameters ---------------------------------------------------------------------------------------------------


def _number(request: Request, name: str, least: int, most: int = LARGEST) -> int:
    text = request.query_params.get(name)
    return _parsed(name, text or "", least, most)


def _parsed(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and least <= int(text) <= most):
        raise ReadingProblem(422, f"{name} is {text[:60]!r}; expected a whole number from {least} to {most}")
    return int(text)


def _numbers(request: Request, name: str) -> list[int]:
    texts = request.query_params.getlist(name)
    if len(texts) > MAX_SEQUENCES:
        raise ReadingProblem(422, f"{name} is given {len(texts)} times; expected at most {MAX_SEQUENCES}")
    return [_parsed(name, text, 0, LARGEST) for text in texts]


def _optional(request: Request, name: str) -> int | None:
    """Microseconds since 1970, which may be before it."""
    text = request.query_params.get(name)
    if text is None:
        return None
    sign = -1 if text.startswith("-") else 1
    return sign * _parsed(name, text.removeprefix("-"), 0, 1 << 62)


def _range(request: Request) -> tuple[int, int]:
    first, last = _number(request, "first", 1), _number(request, "last", 1)
    if first > last:
        raise ReadingProblem(422, f"first is {first}, which is after last, {last}")
    return first, last


def _known(request: Request) -> list[tuple[int, int]]:
    """What the reader knows of the journal: `sequence:salt`, as the plan has told it."""
    found = []
    for text in request.query_params.getlist("salt")[:MAX_SEQUENCES]:
        sequence, _, salt = text.partition(":")
        found.append((_parsed("salt", sequence, 0, LARGEST), _parsed("salt", salt, 0, LARGEST)))
    return found


def _chosen(request: Request, reader: RemoteReader) -> EventSelection:
    """Raises 403 for patterns that only entities fit which this reader may not see."""
    asked = request.query_params
    entities = tuple(asked.getlist("entity"))
    reader.check_entities(entities)
    return EventSelection(
        entities, tuple(asked.getlist("kind")), _optional(request, "since"), _optional(request, "until")
    )
