"""Things and policies over HTTP, on the API port: `/api/2/things…`, `/api/2/policies…`, and no connections.

What a request asks for is in `http_request`, how all are answered in `routes`, server-sent events in `sse`, what is
documented in `openapi`. Upstream documentation: "HTTP API".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from msgspec import UnsetType

from penstock.doors.ditto.answers import CREATED, DittoAnswer
from penstock.doors.ditto.description import DESCRIPTION_TYPE
from penstock.doors.ditto.http_request import (
    ROOT,
    body_of,
    body_of_message,
    client_of,
    command_of,
    creation_of,
    entity_of,
    headers_of,
    message_of,
    migration_of,
    parameters_of,
    segments_of,
    selection_of,
    several_of,
)
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live_wait import twin_wish, wish_of
from penstock.doors.ditto.openapi.document import PLACE, MoreRoutes, document
from penstock.doors.ditto.routes import DittoRoute, add_route, answer_elsewhere
from penstock.doors.ditto.service import TwinService, as_answer
from penstock.doors.ditto.sse import EVENT_STREAM, live_stream, past_stream
from penstock.doors.ditto.sse_messages import asks_for_messages, message_stream
from penstock.doors.ditto.token_integrations import TokenIntegrations
from penstock.twins.integration import ACTIVATE, DEACTIVATE
from penstock.wire.ditto.acks import Gathering
from penstock.wire.ditto.document import encode
from penstock.wire.ditto.envelope import JSON_TYPE, Envelope, boolean_header
from penstock.wire.ditto.errors import (
    COMMAND_TIMEOUT,
    CONNECTION_NOT_FOUND,
    CONNECTION_REVISION_NOT_FOUND,
    CONNECTION_TIMESTAMP_NOT_FOUND,
    DittoError,
)
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.live import parse_live
from penstock.wire.ditto.metadata import RETURNED
from penstock.wire.ditto.permission_check import permission_checks
from penstock.wire.ditto.resource import Part
from penstock.wire.ditto.topic import TopicChannel
from penstock.wire.ditto.twin import HISTORICAL_HEADERS, Command, RetrieveSeveral

Handler = Callable[[Request, Login], Awaitable[Response]]

# The answer to a command that does not ask for one.
ACCEPTED = 202

_ABOUT = {
    "GET": "Read {}, as it is now or as it was at a given time",
    "PUT": "Put {}",
    "PATCH": "Merge {}",
    "DELETE": "Delete {}",
}


def ditto_routes(
    service: TwinService, default_namespace: str, integrations: TokenIntegrations, more: MoreRoutes | None = None
) -> APIRouter:
    """All of the HTTP API. `more` are the routes of connections, if there can be any."""
    router = APIRouter(prefix=ROOT, tags=["Ditto"])
    door = _Door(service, default_namespace, integrations)

    def add(path: str, method: str, handler: Handler, summary: str) -> None:
        add_route(router, DittoRoute(path, method, partial(door.identified, handler), summary))

    add("/things", "POST", door.create_thing, "Create a thing with a generated ID")
    add("/things", "GET", door.several, "Read several things, or get their live events")
    add(
        "/things/{thing_id}/migrateDefinition",
        "POST",
        door.migrate,
        "Give a thing another definition, or try that only",
    )
    for mailbox in ("inbox", "outbox"):
        for place in ("/things/{thing_id}", "/things/{thing_id}/features/{feature_id}"):
            add(
                f"{place}/{mailbox}/messages/{{subject:anything}}",
                "POST",
                door.message,
                "Send a message, and wait for its answer",
            )
    add("/things/{thing_id}/inbox/claim", "POST", door.message, "Ask a thing for permissions, and wait for its answer")
    add("/whoami", "GET", door.whoami, "Read by which subjects policies know the caller")
    add("/checkPermissions", "POST", door.check_permissions, "Check what the caller may do")
    add("/search/things", "GET", door.search, "Search for things")
    add("/search/things", "POST", door.search, "Search for things, with the parameters in a form")
    add("/search/things/count", "GET", door.count, "Count the things that a search finds")
    add("/search/things/count", "POST", door.count, "Count the things that a search finds, with the filter in a form")
    add("/policies", "POST", door.create_policy, "Create a policy with a generated ID")
    for action in (ACTIVATE, DEACTIVATE):
        for place in ("/policies/{policy_id}", "/policies/{policy_id}/entries/{label}"):
            told = "Add the subjects of the caller's token" if action == ACTIVATE else "Remove them"
            add(f"{place}/actions/{action}", "POST", door.integrate, f"{told}, to or from entries of a policy")
    for method, text in _ABOUT.items():
        for path, what in (
            ("/things/{thing_id}", "a thing"),
            ("/things/{thing_id}/{path:anything}", "a part of a thing"),
        ):
            add(path, method, door.thing, text.format(what))
        for path, what in (
            ("/policies/{policy_id}", "a policy"),
            ("/policies/{policy_id}/{path:anything}", "a part of a policy"),
        ):
            if method != "PATCH":
                add(path, method, door.policy, text.format(what))
        if method != "PATCH" and more is None:
            add("/connections/{path:anything}", method, door.connection, "There are no connections here")
    if more is None:
        add("/connections", "GET", door.connection, "There are no connections here")
        add("/connections", "POST", door.connection, "There are no connections here")
    else:
        for each in more.routes:
            add_route(router, each)
    described = encode(document(more))

    async def openapi() -> Response:
        return Response(described, media_type=JSON_TYPE)

    router.add_api_route(PLACE, openapi, methods=["GET", "HEAD"], include_in_schema=False)
    answer_elsewhere(router)
    return router


class _Door:
    def __init__(self, service: TwinService, default_namespace: str, integrations: TokenIntegrations) -> None:
        self._service = service
        self._integrations = integrations
        self._default_namespace = default_namespace
        # Commands whose answer nobody waits for.
        self._unanswered: set[asyncio.Task[None]] = set()

    async def identified(self, handler: Handler, request: Request) -> Response:
        """Once it is known who has sent the request."""
        client = client_of(request)
        return await handler(request, await self._service.authenticate(client.headers, client))

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
            if asks_for_messages(request):
                return message_stream(self._service, request, login)
            return await past_stream(self._service, request, login)
        if request.method in ("GET", "HEAD") and _wants(request, DESCRIPTION_TYPE):
            return await self._description(request, login)
        return await self._one(request, login, EntityGroup.THINGS)

    async def _description(self, request: Request, login: Login) -> Response:
        command = await command_of(request, EntityGroup.THINGS)
        if command.resource.part not in (Part.THING, Part.FEATURE):
            return _answer(await self._submit(command, login), command)
        described = await self._service.describe(command, login)
        return Response(encode(described), headers=_correlation(command.headers), media_type=DESCRIPTION_TYPE)

    async def migrate(self, request: Request, login: Login) -> Response:
        command = await migration_of(request, self._service.kept_headers)
        return _answer(await self._submit(command, login), command)

    async def policy(self, request: Request, login: Login) -> Response:
        return await self._one(request, login, EntityGroup.POLICIES)

    async def _one(self, request: Request, login: Login, group: EntityGroup) -> Response:
        command = await command_of(request, group, self._service.kept_headers)
        if group is EntityGroup.THINGS and command.headers.get("channel") == TopicChannel.LIVE:
            topic = replace(command.topic, channel=TopicChannel.LIVE)
            fields = parameters_of(request).get("fields")
            return await self._live(Envelope(topic, command.path, command.headers, command.value, fields), login)
        gathered = await self._gathered(command, login)
        if gathered is not None:
            return gathered
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

    async def _gathered(self, command: Command, login: Login) -> Response | None:
        """The answer to a change that asks for acknowledgements; None for another command."""
        wanted = twin_wish(command.action, command.headers)
        if wanted is None:
            return None
        labels, seconds = wanted
        gathering = Gathering(command.topic, command.headers, labels)
        ticket = (str(command.entity), str(command.headers["correlation-id"]))
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        end = self._service.live.wait(ticket, gathering, login, partial(_came, came))
        try:
            async with asyncio.timeout(seconds):
                self._service.acknowledge(ticket, labels, await self._service.submit(command, login))
                await came
        except TimeoutError:
            gathering.expire(seconds)
        finally:
            end()
        return _passed_on(encode(gathering.value()), gathering.status, _correlation(command.headers), JSON_TYPE)

    # -- the live channel ------------------------------------------------------------------------------------------

    async def message(self, request: Request, login: Login) -> Response:
        return await self._live(await message_of(request), login)

    async def _live(self, envelope: Envelope, login: Login) -> Response:
        """Pass a signal on, and answer with what a device answers."""
        signal = parse_live(envelope)
        wish = wish_of(signal.kind, envelope.headers)
        live = self._service.live
        if not wish.labels:
            live.send(signal, login)
            return Response(status_code=ACCEPTED, headers=_correlation(envelope.headers))
        live.check_sender(signal, login)
        gathering = Gathering(envelope.topic, envelope.headers, wish.labels)
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ticket = (str(signal.entity), signal.correlation)
        end = live.wait(ticket, gathering, login, partial(_came, came), signal)
        try:
            live.send(signal, login)
            async with asyncio.timeout(wish.seconds):
                await came
        except TimeoutError:
            if wish.is_plain:
                raise COMMAND_TIMEOUT.of(f"{wish.seconds:g}") from None
            gathering.expire(wish.seconds)
        finally:
            end()
        headers = _correlation(envelope.headers)
        response = gathering.response
        if not wish.is_plain or response is None:
            return _passed_on(encode(gathering.value()), gathering.status, headers, JSON_TYPE)
        status = response.status or 200
        if isinstance(response.value, UnsetType):
            return Response(status_code=max(200, status), headers=headers)
        kind = response.headers.get("content-type")
        body, media = body_of_message(response.value, kind if isinstance(kind, str) else JSON_TYPE)
        return _passed_on(body, status, headers, media)

    async def integrate(self, request: Request, login: Login) -> Response:
        id, *parts = segments_of(request, EntityGroup.POLICIES)
        entity_of(EntityGroup.POLICIES, id)
        body = await body_of(request, Action.CREATE, EntityGroup.POLICIES)
        label = parts[1] if parts[0] == "entries" else None
        await self._integrations.change(id, label, parts[-1], body, login)
        return Response(status_code=204, headers=_correlation(headers_of(request)))

    # -- who may do what -------------------------------------------------------------------------------------------

    async def whoami(self, request: Request, login: Login) -> Response:
        names = list(login.caller.names)
        answer = encode({"defaultSubject": names[0], "subjects": names})
        return Response(answer, headers=_correlation(headers_of(request)), media_type=JSON_TYPE)

    async def check_permissions(self, request: Request, login: Login) -> Response:
        checks = permission_checks(await body_of(request, Action.CREATE, EntityGroup.POLICIES))
        answer = {name: self._service.may(check, login) for name, check in checks.items()}
        return Response(encode(answer), headers=_correlation(headers_of(request)), media_type=JSON_TYPE)

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


def _came(future: asyncio.Future[None]) -> None:
    """Unless nobody waits any more."""
    if not future.done():
        future.set_result(None)


def _passed_on(body: bytes, status: int, headers: dict[str, str], kind: str) -> Response:
    """With a status that a subscriber has chosen: one that announces another answer is none, some have no body."""
    if status in (204, 304):
        return Response(status_code=status, headers=headers)
    return Response(body, max(200, status), headers, kind)


def _wants_events(request: Request) -> bool:
    return _wants(request, EVENT_STREAM)


def _wants(request: Request, kind: str) -> bool:
    """Only clients that name it: one that accepts `*/*` gets a document."""
    kinds = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]
    return kind in kinds


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
    if answer.metadata is not None:
        headers[RETURNED] = json.dumps(answer.metadata, separators=(",", ":"))
    return headers


def _correlation(headers: object) -> dict[str, str]:
    assert isinstance(headers, dict)
    return {"correlation-id": str(headers["correlation-id"])}


def _location(command: Command) -> str:
    """The address of what was created: an entity by a create command, a part by others."""
    path = "" if command.action is Action.CREATE or command.path == "/" else command.path.replace("~1", "%2F")
    return f"{ROOT}/{command.topic.group.value}/{quote(str(command.entity), safe=':')}{quote(path, safe='/:%')}"
