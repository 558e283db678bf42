"""The way in over HTTP, on the API port: `POST /api/ingest/{set}/{adapter}` with JSON lines or an Arrow stream.

JSON lines are processed as they arrive; the sender waits while the kernel is busy. What a line means is in `lines`.
Batches of pipelines come in by `batch_routes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cache

from fastapi import APIRouter, FastAPI, Request
from starlette.requests import ClientDisconnect

from penstock.adapters.api import DataAdapter
from penstock.adapters.ingest.adapter import IngestAdapter, IngestIntake
from penstock.adapters.ingest.batch_routes import batch_routes
from penstock.adapters.ingest.errors import RowsRefused
from penstock.adapters.ingest.lines import BadLine, Splitter, read
from penstock.adapters.ingest.requests import (
    ARROW,
    PATH,
    Finder,
    JsonAnswer,
    Problem,
    admitted,
    kind_of,
    large_body,
    read_arrow,
)

# Content types of JSON lines; the last is curl's default.
JSON_LINES = (
    "",
    "application/x-ndjson",
    "application/jsonl",
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
)

# Lines or rows that are processed before others get a turn.
TURN = 1_000


def add_ingest_routes(
    application: FastAPI, find: Callable[[str, str], DataAdapter | None], is_ready: Callable[[], bool]
) -> None:
    """`find` looks a data adapter up by the names of its set and its own; `is_ready` says whether all are there."""
    Finder(find, is_ready).put_into(application)
    application.include_router(batch_routes())
    application.include_router(event_routes())


@cache
def event_routes() -> APIRouter:
    router = APIRouter()

    @router.post(
        PATH + "/{adapter_set}/{adapter}", summary="Publish JSON lines or an Arrow stream", response_class=JsonAnswer
    )
    async def ingest(adapter_set: str, adapter: str, request: Request) -> JsonAnswer:
        try:
            found = admitted(adapter_set, adapter, request)
            kind = kind_of(request, ARROW, *JSON_LINES)
            _check_journal(found)
        except Problem as problem:
            return _problem(problem)
        lost = 0 if found.recorder is None else found.recorder.gatherer.lost_records
        intake = IngestIntake(found)
        status, headers = 200, None
        try:
            await (_take_arrow if kind == ARROW else _take_lines)(found, intake, request)
            if intake.accepted:
                await _wait_for_journal(found, lost)
        except Problem as problem:
            status, headers = problem.status, problem.headers
            intake.errors.append({"error": str(problem)})
        except ClientDisconnect:
            # The client is gone.
            status = 400
        if intake.refused and status == 200:
            status = 422
        answer = {"accepted": intake.accepted, "refused": intake.refused, "errors": intake.errors}
        return JsonAnswer(answer, status, headers)

    return router


def _problem(problem: Problem) -> JsonAnswer:
    return JsonAnswer(
        {"accepted": 0, "refused": 0, "errors": [{"error": str(problem)}]}, problem.status, problem.headers
    )


# -- the journal --------------------------------------------------------------------------------------------------


def _acknowledges(adapter: IngestAdapter) -> bool:
    return adapter.recorder is not None and adapter.recorder.policy.value == "ack"


def _check_journal(adapter: IngestAdapter) -> None:
    """A sender that waits for the disk is told beforehand if it cannot be written."""
    if adapter.recorder is None or not _acknowledges(adapter):
        return
    journal = adapter.recorder.gatherer.journal
    if journal.failure is not None:
        raise Problem(503, str(journal.failure))
    if journal.queued_bytes > journal.settings.queue_bytes // 2:
        raise Problem(503, f"too many requests: {journal.queued_bytes} bytes not yet written")


async def _wait_for_journal(adapter: IngestAdapter, lost: int) -> None:
    if adapter.recorder is None or not _acknowledges(adapter):
        return
    from penstock.journal.errors import Fenced, JournalError

    try:
        await adapter.recorder.gatherer.committed(lost)
    except Fenced as error:
        raise Problem(503, str(error)) from error
    except JournalError as error:
        raise Problem(503, f"Published, but not journaled: {error}") from error


# -- JSON lines ---------------------------------------------------------------------------------------------------


async def _take_lines(adapter: IngestAdapter, intake: IngestIntake, request: Request) -> None:
    splitter = Splitter(adapter.limits.line_bytes)
    size = number = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > adapter.limits.body_bytes:
            raise large_body(adapter)
        lines = splitter.feed(chunk)
        for start in range(0, len(lines), TURN):
            number = await _take(adapter, intake, number, lines[start : start + TURN])
            await asyncio.sleep(0)
    await _take(adapter, intake, number, splitter.end())


async def _take(adapter: IngestAdapter, intake: IngestIntake, number: int, lines: Iterable[bytes | None]) -> int:
    """Take in some lines, the first of which follows the one of this number; returns the number of the last."""
    _check_journal(adapter)
    async with adapter.lock:
        return _take_now(adapter, intake, number, lines)


def _take_now(adapter: IngestAdapter, intake: IngestIntake, number: int, lines: Iterable[bytes | None]) -> int:
    for text in lines:
        number += 1
        if text is None:
            intake.refuse(number, f"longer than max_line_bytes = {adapter.limits.line_bytes}")
            continue
        if not text or text.isspace():
            continue
        try:
            line = read(text)
        except BadLine as bad:
            intake.refuse(number, str(bad))
            continue
        if line.op == "update":
            intake.update(number, line.item, line.event(), line.snapshot)
        elif line.op == "clear":
            intake.clear(number, line.item)
        else:
            intake.end_of_snapshot(number, line.item)
    intake.flush()
    return number


# -- Arrow --------------------------------------------------------------------------------------------------------


async def _take_arrow(adapter: IngestAdapter, intake: IngestIntake, request: Request) -> None:
    """The whole body first: Arrow's reader cannot wait for more of it."""
    try:
        batches = await read_arrow(adapter, request)
    except RowsRefused as refused:
        intake.refuse(1, str(refused.errors[0]["error"]))
        return
    from penstock.adapters.arrow import split  # pyarrow takes its time to load

    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, TURN):
            _check_journal(adapter)
            async with adapter.lock:
                try:
                    items, events = split(batch.slice(start, TURN), "item")
                except ValueError as error:
                    intake.refuse(number + 1, str(error))
                    return
                for item, event in zip(items, events, strict=True):
                    number += 1
                    if item is None:
                        intake.refuse(number, "column item has no value")
                    else:
                        intake.update(number, item, event)
                intake.flush()
            await asyncio.sleep(0)
