"""Where pipelines put their batches: each exactly once, also if sent again. Paths below `/api/ingest/{set}/{adapter}`.

A batch comes in one request, or in stages and a commit. What becomes of it is in `batches`. The protocol for those who
call it: docs/adapters.md, "Reference: batches".
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect

from penstock.adapters.ingest.adapter import IngestAdapter
from penstock.adapters.ingest.errors import BatchError, RowsRefused
from penstock.adapters.ingest.requests import ARROW, PATH, JsonAnswer, Problem, admitted, kind_of, read_arrow
from penstock.adapters.ingest.states import STATES

if TYPE_CHECKING:
    from penstock.adapters.ingest.batches import Batches, BatchOutcome

ADAPTER = PATH + "/{adapter_set}/{adapter}"
QUERY = ADAPTER + "/queries/{query}"
BATCH = QUERY + "/batches/{batch}"

# Names of queries and stages: they stand in addresses, logs and names of entities.
_NAME = re.compile(r"[A-Za-z0-9._~:-]{1,128}")
_NUMBER = re.compile(r"[0-9]{1,18}")

# Why nothing was done, for the API's own description; the table with what to do is in docs/adapters.md.
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "No token, or a wrong one"},
    404: {"description": "No such ingest adapter"},
    409: {"description": "Not journaled; a stage that is missing; a stage that is there with other rows"},
    413: {"description": "Above max_body_bytes, max_staged_bytes, or the size of a record; the text says which"},
    415: {"description": "Not Arrow"},
    422: {"description": "Invalid rows, or an invalid name, number or mode"},
    429: {"description": "No room for a stage, or the batch is being committed: try again"},
    503: {"description": "The journal or a file cannot be written, or the server is shutting down: try again"},
}

# Bytes of a commit.
MAX_COMMIT = 1_048_576


class Commit(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a commit: the stages that are the batch, in their order."""

    stages: list[str]


@cache
def batch_routes() -> APIRouter:
    """Built once in a process, because FastAPI is slow to build routes: it makes a model of the parameters of each."""
    router = APIRouter()

    @router.get(ADAPTER, summary="What may be published, and whether batches are accepted", response_class=JsonAnswer)
    async def about(adapter_set: str, adapter: str, request: Request) -> JsonAnswer:
        async def work() -> dict[str, object]:
            found = admitted(adapter_set, adapter, request)
            return {"items": found.modes, "durable": found.batches is not None}

        return await _answer(work)

    @router.get(QUERY, summary="The last batch of a query that was committed", response_class=JsonAnswer)
    async def last_batch(adapter_set: str, adapter: str, query: str, request: Request) -> JsonAnswer:
        async def work() -> dict[str, object]:
            _, batches = _durable(adapter_set, adapter, request)
            return {"batch": batches.queries.get(_name("query", query))}

        return await _answer(work)

    @router.put(BATCH, summary="Publish a batch, once", response_class=JsonAnswer, responses=REFUSALS)
    async def put_batch(adapter_set: str, adapter: str, query: str, batch: str, request: Request) -> JsonAnswer:
        async def work() -> dict[str, object]:
            found, batches = _durable(adapter_set, adapter, request)
            kind_of(request, ARROW)
            name, number, mode = _name("query", query), _number(batch), _mode(request)
            rows = await read_arrow(found, request)
            return _told(await batches.put(name, number, mode, rows))

        return await _answer(work)

    @router.put(
        BATCH + "/stages/{stage}",
        summary="Keep rows for the commit of a batch",
        response_class=JsonAnswer,
        responses=REFUSALS,
    )
    async def put_stage(
        adapter_set: str, adapter: str, query: str, batch: str, stage: str, request: Request
    ) -> JsonAnswer:
        async def work() -> dict[str, object]:
            found, batches = _durable(adapter_set, adapter, request)
            kind_of(request, ARROW)
            names = _name("query", query), _number(batch), _name("stage", stage)
            rows = await read_arrow(found, request)
            repeated = await batches.stage(*names, rows)
            return {"rows": sum(one.num_rows for one in rows), "repeated": repeated}

        return await _answer(work)

    @router.post(
        BATCH + "/commit", summary="Publish the stages of a batch, once", response_class=JsonAnswer, responses=REFUSALS
    )
    async def commit(adapter_set: str, adapter: str, query: str, batch: str, request: Request) -> JsonAnswer:
        async def work() -> dict[str, object]:
            _, batches = _durable(adapter_set, adapter, request)
            name, number, mode = _name("query", query), _number(batch), _mode(request)
            return _told(await batches.commit(name, number, mode, await _stages(request)))

        return await _answer(work)

    @router.delete(BATCH, summary="Forget the stages of a batch", response_class=JsonAnswer, responses=REFUSALS)
    async def drop(adapter_set: str, adapter: str, query: str, batch: str, request: Request) -> JsonAnswer:
        async def work() -> dict[str, object]:
            _, batches = _durable(adapter_set, adapter, request)
            batches.drop(_name("query", query), _number(batch))
            return {}

        return await _answer(work)

    return router


async def _answer(work: Callable[[], Awaitable[dict[str, object]]]) -> JsonAnswer:
    """The answer to a request, with the status that says what to do about an error."""
    try:
        return JsonAnswer(await work())
    except RowsRefused as refused:
        return JsonAnswer({"errors": refused.errors}, 422)
    except Problem as problem:
        return _turned_down(problem)
    except ClientDisconnect:
        # The client is gone.
        return JsonAnswer({}, 400)
    except BatchError as error:
        return _turned_down(Problem(error.status, str(error)))


def _turned_down(problem: Problem) -> JsonAnswer:
    return JsonAnswer({"errors": [{"error": str(problem)}]}, problem.status, problem.headers)


def _durable(adapter_set: str, adapter: str, request: Request) -> tuple[IngestAdapter, Batches]:
    found = admitted(adapter_set, adapter, request)
    if found.batches is None:
        raise Problem(
            409,
            f"Adapter {adapter} of set {adapter_set} accepts no batches, because it is not journaled: see"
            f" [journal] and [adapters.{adapter_set}.data.{adapter}.journal] in the configuration",
        )
    return found, found.batches


def _name(what: str, given: str) -> str:
    if not _NAME.fullmatch(given):
        raise Problem(422, f"{what} {given[:60]!r}: expected 1 to 128 letters, digits and any of . _ ~ : -")
    return given


def _number(given: str) -> int:
    if not _NUMBER.fullmatch(given):
        raise Problem(422, f"batch {given[:60]!r}: expected a whole number, 0 or more")
    return int(given)


def _mode(request: Request) -> str:
    mode = request.query_params.get("mode", "")
    if mode not in STATES:
        raise Problem(422, f"mode {mode[:60]!r}: expected {', '.join(STATES)}")
    return mode


async def _stages(request: Request) -> list[str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_COMMIT:
            raise Problem(413, f"The commit is larger than {MAX_COMMIT} bytes: use fewer stages")
    try:
        stages = msgspec.json.decode(body, type=Commit).stages
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(422, f"A commit is a JSON object with a list of stages: {error}") from None
    if len(set(stages)) < len(stages):
        raise Problem(422, "A stage is named twice")
    return stages


def _told(outcome: BatchOutcome) -> dict[str, object]:
    return {"rows": outcome.rows, "ignored": outcome.ignored, "repeated": outcome.repeated}
