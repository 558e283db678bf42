"""Connections over HTTP: `/api/2/connections…`, for administrators. Viewers may look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from fastapi import Request, Response

from penstock.doors.ditto.routes import DittoRoute
from penstock.services.admin.logins import AdminRole, Logins
from penstock.services.admin.problems import AdminProblem
from penstock.services.connections.registry import MAX_DOCUMENT, ConnectionRegistry
from penstock.wire.ditto.errors import (
    AUTHENTICATION_FAILED,
    CONNECTION_REVISION_NOT_FOUND,
    CONNECTION_TIMESTAMP_NOT_FOUND,
    JSON_INVALID,
    DittoError,
    ErrorEntry,
)

ROOT = "/connections"

NOT_ALLOWED = ErrorEntry(
    403, "gateway:subject.notallowed", "{0}", "Log in as an administrator: docs/administration.md."
)
TOO_LARGE = ErrorEntry(413, "gateway:payload.too.large", "The body has more than {0} bytes.", "Send less.")

Handler = Callable[[Request], Awaitable[Response]]


def connection_routes(
    registry: Callable[[], ConnectionRegistry], logins: Callable[[], Logins]
) -> tuple[DittoRoute, ...]:
    """Below the root of the Ditto API."""
    desk = _Desk(registry, logins)
    found: list[DittoRoute] = []

    def add(path: str, method: str, handler: Handler, summary: str) -> None:
        found.append(DittoRoute(f"{ROOT}{path}", method, partial(desk.permitted, handler), summary))

    add("", "GET", desk.list, "List all connections, without their secrets")
    add("", "POST", desk.create, "Create a connection; with dry-run=true only try whether it can be made")
    add("/{id}", "GET", desk.get, "Read a connection, without its secrets")
    add("/{id}", "PUT", desk.put, "Create or replace a connection")
    add("/{id}", "DELETE", desk.delete, "Close and delete a connection")
    add("/{id}/command", "POST", desk.command, "Open or close a connection, reset its counters or its log")
    add("/{id}/status", "GET", desk.status, "Read whether a connection is open, and why not")
    add("/{id}/metrics", "GET", desk.metrics, "Read what a connection has counted")
    add("/{id}/logs", "GET", desk.logs, "Read the last entries of a connection's log")
    return tuple(found)


class _Desk:
    def __init__(self, registry: Callable[[], ConnectionRegistry], logins: Callable[[], Logins]) -> None:
        self._registry = registry
        self._logins = logins

    async def permitted(self, handler: Handler, request: Request) -> Response:
        await self._check(request)
        return await handler(request)

    async def _check(self, request: Request) -> None:
        client = request.client.host if request.client is not None else ""
        try:
            who = await self._logins().identify(request.headers.get("authorization"), client)
        except AdminProblem as problem:
            if problem.status == 401:
                raise AUTHENTICATION_FAILED.of(str(problem)) from None
            raise DittoError(problem.status, "gateway:authentication.failed", str(problem)) from None
        if who.role is not AdminRole.ADMIN and request.method not in ("GET", "HEAD"):
            raise NOT_ALLOWED.of(f"User {who.name} has the role {who.role.value} and may only look.")
        origin = request.headers.get("origin")
        if origin is not None and request.method not in ("GET", "HEAD"):
            # Browsers send a password that they know with whatever any page has them send.
            raise NOT_ALLOWED.of("Pages may not change connections.")
        if "at-historical-revision" in request.headers:
            raise CONNECTION_REVISION_NOT_FOUND.of(_id(request), request.headers["at-historical-revision"])
        if "at-historical-timestamp" in request.headers:
            raise CONNECTION_TIMESTAMP_NOT_FOUND.of(_id(request), request.headers["at-historical-timestamp"])

    # -- what can be asked ------------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        registry = self._registry()
        if request.query_params.get("ids-only") == "true":
            return _json([runner.document.id for runner in registry.runners])
        return _json([registry.document(runner.document.id) for runner in registry.runners])

    async def create(self, request: Request) -> Response:
        given = await _document(request)
        if request.query_params.get("dry-run") == "true":
            await self._registry().test(given)
            return Response(status_code=200)
        made = await self._registry().create(given)
        return _json(made, 201, {"Location": f"{request.url.path}/{made['id']}"})

    async def get(self, request: Request) -> Response:
        return _json(self._registry().document(_id(request)))

    async def put(self, request: Request) -> Response:
        document, is_new = await self._registry().put(_id(request), await _document(request))
        return _json(document, 201) if is_new else Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        await self._registry().delete(_id(request))
        return Response(status_code=204)

    async def command(self, request: Request) -> Response:
        body = (await _body(request)).decode("utf-8", "replace").strip().strip('"')
        await self._registry().command(_id(request), body)
        return Response(status_code=200)

    async def status(self, request: Request) -> Response:
        return _json(self._registry().runner(_id(request)).status())

    async def metrics(self, request: Request) -> Response:
        runner = self._registry().runner(_id(request))
        tally = runner.tally
        failures = tally.total("inbound", "failed") + tally.total("outbound", "failed")
        return _json(
            {
                "connectionId": runner.document.id,
                "containsFailures": bool(failures),
                "connectionMetrics": tally.metrics(),
            }
        )

    async def logs(self, request: Request) -> Response:
        runner = self._registry().runner(_id(request))
        return _json({"connectionId": runner.document.id, "connectionLogs": runner.tally.log()})


def _id(request: Request) -> str:
    return str(request.path_params.get("id", ""))


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_DOCUMENT:
            raise TOO_LARGE.of(MAX_DOCUMENT)
    return bytes(body)


async def _document(request: Request) -> Any:
    try:
        return msgspec.json.decode(await _body(request))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JSON_INVALID.of(f"The body is not JSON: {error}") from None


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")
