"""The way in over HTTP, on the API port: `POST /api/ingest/{set}/{adapter}` with JSON lines or an Arrow stream.

JSON lines are taken in as they come; the sender waits while the kernel is busy. What a line means is in `lines`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from penstock.adapters.api import DataAdapter
from penstock.adapters.ingest.adapter import IngestAdapter, Intake
from penstock.adapters.ingest.lines import BadLine, Splitter, read

PATH = "/api/ingest"

ARROW = "application/vnd.apache.arrow.stream"
# What JSON lines are called; the last is what curl says when it is not told otherwise.
JSON_LINES = (
    "",
    "application/x-ndjson",
    "application/jsonl",
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
)

# Lines or rows that are taken in before everybody else has a turn.
TURN = 1_000


class Answer(JSONResponse):
    """JSON that ends its line, for those who read it in a terminal."""

    def render(self, content: object) -> bytes:
        return bytes(super().render(content)) + b"\n"


class TooLarge(Exception):
    """The body is larger than it may be."""


def ingest_routes(find: Callable[[str, str], DataAdapter | None]) -> APIRouter:
    """`find` looks a data adapter up by the names of its set and its own."""
    router = APIRouter()

    @router.post(
        PATH + "/{adapter_set}/{adapter}", summary="Publish JSON lines or an Arrow stream", response_class=Answer
    )
    async def ingest(adapter_set: str, adapter: str, request: Request) -> Answer:
        found = find(adapter_set, adapter)
        if not isinstance(found, IngestAdapter):
            return _problem(404, f"There is no ingest adapter {adapter} in set {adapter_set}")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not found.admits(token.strip()):
            return _problem(401, "Expected a header Authorization: Bearer with a token of this adapter")
        if request.headers.get("content-encoding", "identity") != "identity":
            return _problem(415, "Expected a body that is not compressed")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != ARROW and kind not in JSON_LINES:
            return _problem(415, f"Content-Type {kind[:60]}: expected application/x-ndjson or {ARROW}")
        intake = Intake(found)
        status = 200
        try:
            await (_take_arrow if kind == ARROW else _take_lines)(found, intake, request)
        except TooLarge:
            status = 413
            intake.errors.append({"error": f"The body is larger than max_body_bytes = {found.limits.body_bytes}"})
        except ClientDisconnect:
            # Nobody is there to read it.
            status = 400
        intake.flush()
        if intake.refused and status == 200:
            status = 422
        answer = {"accepted": intake.accepted, "refused": intake.refused, "errors": intake.errors}
        return Answer(answer, status)

    return router


def _problem(status: int, text: str) -> Answer:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Answer({"accepted": 0, "refused": 0, "errors": [{"error": text}]}, status, headers)


# -- JSON lines ---------------------------------------------------------------------------------------------------


async def _take_lines(adapter: IngestAdapter, intake: Intake, request: Request) -> None:
    splitter = Splitter(adapter.limits.line_bytes)
    size = number = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > adapter.limits.body_bytes:
            raise TooLarge
        lines = splitter.feed(chunk)
        for start in range(0, len(lines), TURN):
            number = _take(adapter, intake, number, lines[start : start + TURN])
            await asyncio.sleep(0)
    _take(adapter, intake, number, splitter.end())


def _take(adapter: IngestAdapter, intake: Intake, number: int, lines: Iterable[bytes | None]) -> int:
    """Take in some lines, the first of which follows the one of this number; returns the number of the last."""
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


async def _take_arrow(adapter: IngestAdapter, intake: Intake, request: Request) -> None:
    """The whole body first: Arrow's reader cannot wait for more of it."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > adapter.limits.body_bytes:
            raise TooLarge
    import pyarrow  # takes its time to load

    from penstock.adapters.arrow import split

    number = 0
    try:
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(body)) as reader:
            for batch in reader:
                # Offsets and text that come from outside: nothing else looks at them before they are followed.
                batch.validate(full=True)
                for start in range(0, batch.num_rows, TURN):
                    items, events = split(batch.slice(start, TURN), "item")
                    for item, event in zip(items, events, strict=True):
                        number += 1
                        if item is None:
                            intake.refuse(number, "column item has no value")
                        else:
                            intake.update(number, item, event)
                    intake.flush()
                    await asyncio.sleep(0)
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        intake.refuse(number + 1, str(error))
