"""Server-sent events: the history of one thing, which ends when all of it was sent, or what happens to things now.

Each event is the part of the thing that changed, with `_revision` and `_modified`. Upstream documentation:
"HTTP API server sent events".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import StreamingResponse

from penstock.doors.ditto.http_request import entity_of, headers_of, parameters_of, path_of, segments_of, topic_of
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.items import ItemPast
from penstock.doors.ditto.past import PastEvents
from penstock.doors.ditto.service import HeardEvent, TwinService, as_answer
from penstock.doors.ditto.waiting_events import WaitingEvents
from penstock.wire.ditto.document import MAX_LONG, Json, encode
from penstock.wire.ditto.errors import HEADER_UNSUPPORTED
from penstock.wire.ditto.fields import Fields, parse_fields
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.pointer import Absent, Pointer, get
from penstock.wire.ditto.ranges import HistoryRange, parse_revision, parse_timestamp
from penstock.wire.ditto.resource import parse_resource
from penstock.wire.ditto.rql import Query, parse_rql
from penstock.wire.ditto.twin import TwinEvent
from penstock.wire.ditto.unsupported import check_headers, check_plain

EVENT_STREAM = "text/event-stream"

# Seconds of silence after which an empty event is sent as a keep-alive.
HEARTBEAT = 1.0
_BEAT = b"data:\n\n"

_REVISIONS = ("from-historical-revision", "to-historical-revision")
_TIMES = ("from-historical-timestamp", "to-historical-timestamp")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a client wants of an event: the value at a place, or these fields of the whole."""

    pointer: Pointer
    fields: Fields | None

    def data(self, event: TwinEvent) -> bytes | None:
        """The event as text; None if it contains nothing of that."""
        value: Json = event.partial()
        if self.pointer:
            value = get(value, self.pointer)
            if isinstance(value, Absent):
                return None
        if self.fields is not None:
            if not self.pointer and self.fields.names("_context"):
                value = {**value, "_context": _context(event)}
            value = self.fields.select(value)
            if value == {}:
                return None
        return b"data:" + encode(value) + b"\n\n"


def _context(event: TwinEvent) -> Json:
    message = event.envelope().to_json()
    return {name: message[name] for name in ("topic", "path", "value", "headers") if name in message}


def shape_of(request: Request, parts: list[str]) -> Shape:
    """Raises what is wrong with the path or the fields."""
    text = parameters_of(request).get("fields")
    pointer = parse_resource(EntityGroup.THINGS, path_of(EntityGroup.THINGS, parts)).pointer
    return Shape(pointer, None if text is None else parse_fields(text))


def check_stream(request: Request) -> None:
    """Raises `header.notsupported` for what a stream of events does not support."""
    headers = headers_of(request)
    check_headers(headers)
    check_plain(headers)
    extra = parameters_of(request).get("extrafields")
    if extra is not None:
        raise HEADER_UNSUPPORTED.of(extra, "extraFields", description="Only WebSockets support extra fields.")


def selection_of(request: Request) -> HistoryRange | None:
    """The part of a history that is asked for; None if none is. If both are given, revisions win over times."""
    parameters = parameters_of(request)

    def given(names: tuple[str, str], parse: Callable[[str, str], int]) -> list[int | None]:
        texts = [request.headers.get(name, parameters.get(name)) for name in names]
        return [None if text is None else parse(text, name) for text, name in zip(texts, names, strict=True)]

    first, last = given(_REVISIONS, parse_revision)
    after, before = given(_TIMES, parse_timestamp)
    text = parameters.get("filter")
    if first is not None or last is not None:
        return HistoryRange(first or 0, MAX_LONG if last is None else last, filter=text)
    if after is not None or before is not None:
        return HistoryRange(after=after, before=before, filter=text)
    return None


async def past_stream(service: TwinService, request: Request, login: Login) -> StreamingResponse:
    """The events of one thing: of its history if a part of that is asked for, else from now on.

    Raises what is wrong before anything is sent.
    """
    check_stream(request)
    id, *parts = segments_of(request, EntityGroup.THINGS)
    entity = entity_of(EntityGroup.THINGS, id)
    shape = shape_of(request, parts)
    selection = selection_of(request)
    if selection is None:
        await service.check_readable(entity, login)
        query, id = query_of(request), str(entity)
        return _live(service, login, shape, query, {entity.namespace}, lambda heard: heard.event.topic.entity == id)
    past = await service.history_of(topic_of(EntityGroup.THINGS, entity, Action.RETRIEVE), selection, login)
    return event_stream(_past_events(service, past, shape))


async def _past_events(service: TwinService, past: PastEvents | ItemPast, shape: Shape) -> AsyncIterator[bytes]:
    try:
        coming: asyncio.Future[list[bytes] | None]
        while not service.is_closing:
            coming = asyncio.ensure_future(_next(past, shape))
            while not (await asyncio.wait((coming,), timeout=HEARTBEAT))[0]:
                yield _BEAT
            lines = coming.result()
            if lines is None:
                return
            if lines:
                yield b"".join(lines)
    except Exception as error:
        # A stream that just ended would look complete.
        yield b"event:failed\ndata:" + encode(as_answer(error, str(past.topic)).as_value()) + b"\n\n"
    finally:
        past.close()


async def _next(past: PastEvents | ItemPast, shape: Shape) -> list[bytes] | None:
    rows = await past.next()
    if rows is None:
        return None
    lines = [shape.data(row.event(past.topic, {})) for row in rows]
    return [line for line in lines if line is not None]


# -- live --------------------------------------------------------------------------------------------------------------


def query_of(request: Request) -> Query | None:
    """Raises `rql.expression.invalid`."""
    text = parameters_of(request).get("filter")
    return None if text is None else parse_rql(text)


def live_stream(service: TwinService, request: Request, login: Login) -> StreamingResponse:
    """What happens to things from now on: to all that the client may read, or to those in `ids` and `namespaces`."""
    check_stream(request)
    parameters = parameters_of(request)
    ids = _names(parameters.get("ids"))
    namespaces = _names(parameters.get("namespaces"))

    def is_wanted(heard: HeardEvent) -> bool:
        return (ids is None or heard.event.topic.entity in ids) and (
            namespaces is None or heard.namespace in namespaces
        )

    named = {id.partition(":")[0] for id in ids or ()} if namespaces is None else namespaces
    return _live(service, login, shape_of(request, []), query_of(request), named, is_wanted)


def _names(text: str | None) -> frozenset[str] | None:
    return None if not text else frozenset(name.strip() for name in text.split(","))


def _live(
    service: TwinService,
    login: Login,
    shape: Shape,
    query: Query | None,
    namespaces: Collection[str],
    is_wanted: Callable[[HeardEvent], bool],
) -> StreamingResponse:
    queue = StreamQueue(WaitingEvents(service.losses, login.caller.names[0]))

    def hear(heard: HeardEvent) -> None:
        if heard.event.topic.group is not EntityGroup.THINGS or not is_wanted(heard):
            return
        if query is not None and not heard.event.fits(query, service.now()):
            return
        line = shape.data(heard.event)
        if line is not None:
            queue.put(line)

    return event_stream(live_events(service, login, queue, lambda: service.listen(login, hear, namespaces, queue.miss)))


class StreamQueue:
    """What waits for a client."""

    def __init__(self, waiting: WaitingEvents) -> None:
        self._waiting = waiting
        self._filled = asyncio.Event()

    def put(self, line: bytes) -> None:
        if self._waiting.is_full:
            self._waiting.lose()
        else:
            self._waiting.put(line)
        self._filled.set()

    def miss(self, count: int) -> None:
        """This many events were lost before they came here."""
        self._waiting.lose(count)
        self._filled.set()

    async def take(self) -> bytes:
        """Wait for something, and return all that waits."""
        await self._filled.wait()
        self._filled.clear()
        lines, lost = self._waiting.take()
        if lost:
            lines.append(b'event:lost\ndata:{"lost":%d}\n\n' % lost)
        return b"".join(lines)

    def close(self) -> None:
        """The client is gone."""
        self._waiting.take()


async def live_events(
    service: TwinService, login: Login, queue: StreamQueue, listen: Callable[[], Callable[[], None]]
) -> AsyncIterator[bytes]:
    """Until the client goes, its token expires or the server stops."""
    loop = asyncio.get_running_loop()
    end = None if login.time_to_live is None else loop.time() + login.time_to_live
    stop = listen()
    try:
        # A client that has read this gets all events from now on.
        yield _BEAT
        while not service.is_closing and (end is None or loop.time() < end):
            try:
                async with asyncio.timeout(HEARTBEAT):
                    taken = await queue.take()
            except TimeoutError:
                taken = _BEAT
            yield taken
    finally:
        stop()
        queue.close()


def event_stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type=EVENT_STREAM, headers={"cache-control": "no-cache"})
