"""Things and policies over HTTP, on the API port: `/api/2/things…`, `/api/2/policies…`, and no connections.

What a request asks for is in `http_request`, server-sent events in `sse`. Upstream documentation: "HTTP API".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from msgspec import UnsetType
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from penstock.doors.ditto.answers import CREATED, DittoAnswer
from penstock.doors.ditto.http_request import (
    ROOT,
    client_of,
    command_of,
    creation_of,
    headers_of,
    segments_of,
    selection_of,
    several_of,
)
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.service import TwinService, as_answer
from penstock.doors.ditto.sse import EVENT_STREAM, live_stream, past_stream
from penstock.wire.ditto.document import encode
from penstock.wire.ditto.envelope import JSON_TYPE, boolean_header
from penstock.wire.ditto.errors import (
    CONNECTION_NOT_FOUND,
    CONNECTION_REVISION_NOT_FOUND,
    CONNECTION_TIMESTAMP_NOT_FOUND,
    METHOD_NOT_ALLOWED,
    ROUTE_UNKNOWN,
    DittoError,
)
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.twin import HISTORICAL_HEADERS, Command, RetrieveSeveral

# How clients may authenticate.
CHALLENGES = ('Basic realm="Penstock"', "Bearer")

Handler = Callable[[Request, Login], Awaitable[Response]]

# The answer to a command that does not ask for one.
ACCEPTED = 202

_ABOUT = {
    "GET": "Read {}, as it is now or as it was at a given time",
    "PUT": "Put {}",
    "PATCH": "Merge {}",
    "DELETE": "Delete {}",
}


def ditto_routes(service: TwinService, default_namespace: str) -> APIRouter:
    """All of the HTTP API."""
    router = APIRouter(prefix=ROOT, tags=["Ditto"])
    door = _Door(service, default_namespace)

    def add(path: str, method: str, handler: Handler, summary: str) -> None:
        async def endpoint(request: Request) -> Response:
            return await door.answer(request, handler)

        router.add_api_route(
            path, endpoint, methods=[method], summary=summary, operation_id=f"ditto {method} {path}".replace(" ", "_")
        )
        if method == "GET":
            # The same without the body; the description does not mention it.
            router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)

    add("/things", "POST", door.create_thing, "Create a thing with a generated ID")
    add("/things", "GET", door.several, "Read several things, or get their live events")
    add("/search/things", "GET", door.search, "Search for things")
    add("/search/things", "POST", door.search, "Search for things, with the parameters in a form")
    add("/search/things/count", "GET", door.count, "Count the things that a search finds")
    add("/search/things/count", "POST", door.count, "Count the things that a search finds, with the filter in a form")
    add("/policies", "POST", door.create_policy, "Create a policy with a generated ID")
    for method, text in _ABOUT.items():
        for path, what in (("/things/{thing_id}", "a thing"), ("/things/{thing_id}/{path:path}", "a part of a thing")):
            add(path, method, door.thing, text.format(what))
        for path, what in (
            ("/policies/{policy_id}", "a policy"),
            ("/policies/{policy_id}/{path:path}", "a part of a policy"),
        ):
            if method != "PATCH":
                add(path, method, door.policy, text.format(what))
        if method != "PATCH":
            add("/connections/{path:path}", method, door.connection, "There are no connections here")
    add("/connections", "GET", door.connection, "There are no connections here")
    add("/connections", "POST", door.connection, "There are no connections here")
    known = [route for route in router.routes if isinstance(route, Route)]
    for path in (ROOT, f"{ROOT}/{{path:path}}"):
        router.routes.append(Route(path, _Elsewhere(known), include_in_schema=False))
    return router


class _Elsewhere:
    """Answers unknown paths, and known ones with a wrong method. An application, because that gets every method."""

    def __init__(self, known: list[Route]) -> None:
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        allowed: set[str] = set()
        for route in self._known:
            if route.matches(scope)[0] is not Match.NONE:
                allowed |= route.methods or set()
        if not allowed:
            error = ROUTE_UNKNOWN.of(request.url.path)
        else:
            told = f"Allowed: {', '.join(sorted(allowed))}"
            error = METHOD_NOT_ALLOWED.of(request.method, request.url.path, description=told)
        response = _finished(_refusal(error), request)
        if allowed:
            response.headers["allow"] = ", ".join(sorted(allowed))
        await response(scope, receive, send)


class _Door:
    def __init__(self, service: TwinService, default_namespace: str) -> None:
        self._service = service
        self._default_namespace = default_namespace
        # Commands whose answer nobody waits for.
        self._unanswered: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request, handler: Handler) -> Response:
        """The response to a client, whatever happens."""
        try:
            client = client_of(request)
            login = await self._service.authenticate(client.headers, client)
            return _finished(await handler(request, login), request)
        except ClientDisconnect:
            # The client is gone.
            return Response(status_code=400)
        except Exception as error:
            return _finished(_refusal(as_answer(error, f"{request.method} {request.url.path}")), request)

    async def _submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer | None:
        """The result of a command; None if its sender does not want an answer."""
        if boolean_header(command.headers, "response-required", True):
            return await self._service.submit(command, login)
        task = asyncio.ensure_future(self._carry_out(command, login))
        self._unanswered.add(task)
        task.add_done_callback(self._unanswered.discard)
        return None

    async def _carry_out(self, command: Command | RetrieveSeveral, login: Login) -> None:
        try:
            await self._service.submit(command, login)
        except Exception as error:
            # It has been logged, unless it is the client's fault.
            as_answer(error, str(command.topic))

    async def create_thing(self, request: Request, login: Login) -> Response:
        return await self._create(request, login, EntityGroup.THINGS)

    async def create_policy(self, request: Request, login: Login) -> Response:
        return await self._create(request, login, EntityGroup.POLICIES)

    async def _create(self, request: Request, login: Login, group: EntityGroup) -> Response:
        command = await creation_of(request, group, self._default_namespace, self._service.kept_headers)
        return _answer(await self._submit(command, login), command)

    async def thing(self, request: Request, login: Login) -> Response:
        if request.method == "GET" and _wants_events(request):
            return await past_stream(self._service, request, login)
        return await self._one(request, login, EntityGroup.THINGS)

    async def policy(self, request: Request, login: Login) -> Response:
        return await self._one(request, login, EntityGroup.POLICIES)

    async def _one(self, request: Request, login: Login, group: EntityGroup) -> Response:
        command = await command_of(request, group, self._service.kept_headers)
        try:
            return _answer(await self._submit(command, login), command)
        except DittoError as error:
            if error.status != 304:
                raise
            # A client that has the current value is sent its tag again.
            plain = {name: value for name, value in command.headers.items() if name != "if-none-match"}
            answer = await self._service.submit(replace(command, headers=plain), login)
            return Response(status_code=304, headers=_headers(answer, command))

    async def several(self, request: Request, login: Login) -> Response:
        if request.method == "GET" and _wants_events(request):
            return live_stream(self._service, request, login)
        command = several_of(request)
        answer = await self._submit(command, login)
        if answer is None:
            return Response(status_code=ACCEPTED, headers=_correlation(command.headers))
        return Response(encode(answer.value), headers=_correlation(command.headers), media_type=JSON_TYPE)

    async def search(self, request: Request, login: Login) -> Response:
        selection = await selection_of(request)
        answer = await self._service.searches.answer(selection, login.caller.subjects)
        return Response(encode(answer), headers=_correlation(headers_of(request)), media_type=JSON_TYPE)

    async def count(self, request: Request, login: Login) -> Response:
        selection = await selection_of(request, is_count=True)
        found = await self._service.searches.count(selection, login.caller.subjects)
        return Response(encode(found), headers=_correlation(headers_of(request)), media_type=JSON_TYPE)

    async def connection(self, request: Request, login: Login) -> Response:
        """Always answered as missing: this server has no connections to other systems."""
        id = "/".join(segments_of(request, EntityGroup.CONNECTIONS))
        headers = headers_of(request)
        if "at-historical-revision" in headers:
            raise CONNECTION_REVISION_NOT_FOUND.of(id, headers["at-historical-revision"])
        if "at-historical-timestamp" in headers:
            raise CONNECTION_TIMESTAMP_NOT_FOUND.of(id, headers["at-historical-timestamp"])
        raise CONNECTION_NOT_FOUND.of(id)


def _wants_events(request: Request) -> bool:
    """Only clients that name it: one that accepts `*/*` gets a document."""
    kinds = [kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "").split(",")]
    return EVENT_STREAM in kinds


def _answer(answer: DittoAnswer | None, command: Command) -> Response:
    if answer is None:
        return Response(status_code=ACCEPTED, headers=_correlation(command.headers))
    headers = _headers(answer, command)
    if answer.status == CREATED:
        headers["location"] = _location(command)
    if isinstance(answer.value, UnsetType):
        return Response(status_code=answer.status, headers=headers)
    return Response(encode(answer.value), answer.status, headers, JSON_TYPE)


def _headers(answer: DittoAnswer, command: Command) -> dict[str, str]:
    headers = _correlation(command.headers)
    if answer.etag is not None:
        headers["etag"] = answer.etag
    if answer.kept_headers is not None:
        # ASCII only, because HTTP headers carry nothing else reliably.
        headers[HISTORICAL_HEADERS] = json.dumps(answer.kept_headers, separators=(",", ":"))
    return headers


def _correlation(headers: object) -> dict[str, str]:
    assert isinstance(headers, dict)
    return {"correlation-id": str(headers["correlation-id"])}


def _location(command: Command) -> str:
    """The address of what was created: an entity by a create command, a part by others."""
    path = "" if command.action is Action.CREATE or command.path == "/" else command.path.replace("~1", "%2F")
    return f"{ROOT}/{command.topic.group.value}/{quote(str(command.entity), safe=':')}{quote(path, safe='/:%')}"


def _finished(response: Response, request: Request) -> Response:
    """With the correlation ID of the request, and for HEAD without the body but with its length and type."""
    if "correlation-id" in request.headers and "correlation-id" not in response.headers:
        response.headers["correlation-id"] = request.headers["correlation-id"]
    if request.method == "HEAD":
        response.body = b""
    return response


def _refusal(error: DittoError) -> Response:
    response = Response(encode(error.as_value()), error.status, media_type=JSON_TYPE)
    if error.status == 401:
        for challenge in CHALLENGES:
            response.headers.append("www-authenticate", challenge)
    return response
