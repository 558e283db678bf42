"""What all requests to ingest adapters have in common: authorization, type and size of the body; and answers.

The routes are in `event_routes` and `batch_routes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from penstock.adapters.api import DataAdapter
from penstock.adapters.ingest.adapter import IngestAdapter
from penstock.adapters.ingest.errors import RowsRefused
from penstock.extras import has_journal, lack_of

if TYPE_CHECKING:
    import pyarrow

PATH = "/api/ingest"

ARROW = "application/vnd.apache.arrow.stream"

# Bodies beyond it are unpacked on a thread.
LARGE = 65_536

# Seconds after which a client that was rejected for lack of room may try again.
RETRY_AFTER = "1"

# What to do about a body that is too large.
SMALLER_BODY = "send fewer rows per request, or raise max_body_bytes of the adapter"


class JsonAnswer(JSONResponse):
    """JSON with a line end, for people who read it in a terminal."""

    def render(self, content: object) -> bytes:
        return bytes(super().render(content)) + b"\n"


class Problem(Exception):
    """A request that is rejected as a whole, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.headers: dict[str, str] | None = None
        if status == 401:
            self.headers = {"WWW-Authenticate": "Bearer"}
        elif status in (429, 503):
            self.headers = {"Retry-After": RETRY_AFTER}


class Finder(NamedTuple):
    """Where requests find their adapters, in the application's state: the routes are the same for all servers."""

    # Looks a data adapter up by the names of its set and its own.
    find: Callable[[str, str], DataAdapter | None]
    # Whether all of them are there.
    is_ready: Callable[[], bool]

    def put_into(self, application: FastAPI) -> None:
        application.state.ingest = self


def admitted(adapter_set: str, adapter: str, request: Request) -> IngestAdapter:
    """The adapter of a request, if it is authorized. Raises Problem."""
    finder: Finder = request.app.state.ingest
    found = finder.find(adapter_set, adapter)
    if not isinstance(found, IngestAdapter):
        if not finder.is_ready():
            # It may have been there a moment ago: a client that tries again finds it after the restart.
            raise Problem(503, "The server is starting or shutting down")
        raise Problem(404, f"There is no ingest adapter {adapter} in set {adapter_set}")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem(401, "Expected a token of this adapter: a header Authorization with the scheme Bearer")
    if not found.admits(token.strip()):
        raise Problem(401, "The token is not one of this adapter")
    return found


def kind_of(request: Request, *kinds: str) -> str:
    """What the body is, if it is one of these. Raises Problem."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Problem(415, "Expected an uncompressed body")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        wanted = ARROW if len(kinds) == 1 else f"application/x-ndjson or {ARROW}"
        raise Problem(415, f"Content-Type {kind[:60]}: expected {wanted}")
    return kind


def large_body(adapter: IngestAdapter) -> Problem:
    return Problem(413, f"The body is larger than max_body_bytes = {adapter.limits.body_bytes}: {SMALLER_BODY}")


async def read_arrow(adapter: IngestAdapter, request: Request) -> list[pyarrow.RecordBatch]:
    """The rows of an Arrow body. Raises Problem, RowsRefused, ClientDisconnect."""
    if not has_journal():
        raise Problem(415, f"Arrow cannot be read, because {lack_of('pyarrow')}")
    limit = adapter.limits.body_bytes
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise large_body(adapter)
    from penstock.adapters.ingest.body import BadArrowBody, LargeBody, read_stream  # pyarrow takes its time to load

    try:
        if len(body) > LARGE:
            return await asyncio.to_thread(read_stream, body, limit)
        return read_stream(body, limit)
    except LargeBody as large:
        raise Problem(413, f"{large}: {SMALLER_BODY}") from large
    except BadArrowBody as bad:
        raise RowsRefused([{"row": 1, "error": str(bad)}]) from bad
