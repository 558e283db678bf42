"""The REST API of administration, below `/api/admin` of the API port, with its OpenAPI document.

Whoever gets here has logged in and may do this (`guard`). What is done is in `steering`, what is listed in `lists`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from penstock import __version__, log
from penstock.doors.gate import BlockScope
from penstock.kernel.ruling import Ruling
from penstock.services.admin import lists, push_lists
from penstock.services.admin.audit import Audit
from penstock.services.admin.guard import LOGIN_PATH, PREFIX, WHO, answer
from penstock.services.admin.lists import ListPart
from penstock.services.admin.logins import Administrator, Logins
from penstock.services.admin.models import (
    AdapterInfo,
    Bandwidth,
    BlockInfo,
    Blocking,
    Clearing,
    ClusterInfo,
    DrainInfo,
    Draining,
    Ending,
    Error,
    Frequency,
    ItemList,
    LevelSetting,
    LoginInfo,
    PrintableText,
    PushApplicationInfo,
    PushDeviceList,
    PushSubscriptionList,
    PushTest,
    PushTested,
    ReloadInfo,
    SessionDetail,
    SessionInfo,
    SessionList,
    StreamInfo,
    SubscriptionInfo,
    TlexSessionInfo,
    TlexSessionList,
    Who,
)
from penstock.services.admin.problems import AdminProblem
from penstock.services.admin.steering import Steering

DESCRIPTION = "Inspect and control a running Penstock server. Every request needs a login."

# Entries of a list in one answer, so that making it does not hold up the event loop.
MAX_ENTRIES = 500

# What any request may be answered with, beside what it is for.
REFUSALS = {
    400: "The request is not valid HTTP.",
    401: "The login is missing or wrong.",
    403: "The user's role does not allow this, or the request comes from a page of another origin.",
    413: "The body is too long.",
    422: "A value is not allowed; the text names it.",
    429: "Too many wrong logins; try again later.",
}
NOT_FOUND = {404: "It does not exist."}
CONFLICT = {409: "It is not possible in the current state."}


# Named and not given as a model: FastAPI would make a validator of each, two hundred at every start, and use none.
_REFUSAL_BODY = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def _documented(*refusals: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    together = {status: text for each in refusals for status, text in each.items()}
    return {status: {"description": text, "content": _REFUSAL_BODY} for status, text in together.items()}


async def _who(request: Request) -> Administrator:
    found: Administrator = request.scope["state"][WHO]
    return found


async def _part(
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0, limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES)] = 100
) -> ListPart:
    return ListPart(offset, limit)


By = Annotated[Administrator, Depends(_who)]
InPart = Annotated[ListPart, Depends(_part)]
Filter = Annotated[str | None, Query(max_length=1_000)]
SessionName = Annotated[str, Path(description="The part of the session's identifier that logs and lists show.")]
NodeName = Annotated[
    PrintableText | None, Query(description="A node by its name in `GET /cluster`; without it, the whole server.")
]
Number = Annotated[int, Path(ge=1, le=2**31, description="The number of the subscription.")]


def build(
    steering: Steering,
    logins: Logins,
    audit: Audit,
    stream: Callable[[], StreamInfo],
    cluster: Callable[[], ClusterInfo],
) -> FastAPI:
    """The application behind the guard.

    `stream` says where the streaming port is, `cluster` which processes the server has.
    """
    app = FastAPI(
        title="Penstock administration",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        responses=_documented(REFUSALS),
        redirect_slashes=False,
    )
    _add_login(app, logins)
    _add_sessions(app, steering)
    _add_subscriptions(app, steering)
    _add_lists(app, steering)
    _add_blocks(app, steering)
    _add_server(app, steering)
    _add_stream(app, stream)
    _add_cluster(app, cluster)
    _add_tlex(app, steering)
    _add_push(app, steering)
    _add_refusals(app, audit)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            servers=[{"url": PREFIX}],
        )
        document["components"]["schemas"]["Error"] = Error.model_json_schema()
        document["components"]["securitySchemes"] = {
            "password": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer"},
        }
        document["security"] = [{"password": []}, {"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


def _add_login(app: FastAPI, logins: Logins) -> None:
    @app.get("/me", summary="Who I am")
    async def me(who: By) -> Who:
        return Who(user=who.name, role=who.role)

    @app.post(LOGIN_PATH, summary="Get a token to use instead of the password")
    async def login(who: By) -> LoginInfo:
        token = await logins.issue(who)
        return LoginInfo(user=who.name, role=who.role, token=token, seconds=logins.token_seconds)

    @app.delete(LOGIN_PATH, summary="Revoke the token", status_code=204, responses=_documented(CONFLICT))
    async def logout(request: Request) -> None:
        if not logins.forget(request.headers.get("authorization")):
            raise AdminProblem(409, "the request was made with a password; there is no token to revoke")


def _add_sessions(app: FastAPI, steering: Steering) -> None:
    @app.get("/sessions", summary="The open sessions, in the order in which they were opened")
    async def sessions(part: InPart, user: Filter = None, adapter_set: Filter = None) -> SessionList:
        return await steering.clients.sessions(part, user, adapter_set)

    @app.get("/sessions/{session}", summary="A session with its subscriptions", responses=_documented(NOT_FOUND))
    async def session(session: SessionName) -> SessionDetail:
        return await steering.clients.session(session)

    @app.delete("/sessions/{session}", summary="End a session", status_code=204, responses=_documented(NOT_FOUND))
    async def end(who: By, session: SessionName, ending: Annotated[Ending | None, Body()] = None) -> None:
        ending = ending or Ending()
        await steering.end_session(who, session, ending.code, ending.message)

    @app.put("/sessions/{session}/bandwidth", summary="Set a session's bandwidth", responses=_documented(NOT_FOUND))
    async def set_bandwidth(who: By, session: SessionName, bandwidth: Bandwidth) -> SessionInfo:
        return await steering.set_bandwidth(who, session, Ruling(bandwidth.max_kbps))

    @app.delete(
        "/sessions/{session}/bandwidth",
        summary="Reset a session's bandwidth to what the metadata adapter allows",
        responses=_documented(NOT_FOUND),
    )
    async def reset_bandwidth(who: By, session: SessionName) -> SessionInfo:
        return await steering.set_bandwidth(who, session, None)


def _add_subscriptions(app: FastAPI, steering: Steering) -> None:
    path = "/sessions/{session}/subscriptions/{number}"

    @app.delete(path, summary="End a subscription", status_code=204, responses=_documented(NOT_FOUND))
    async def unsubscribe(who: By, session: SessionName, number: Number) -> None:
        await steering.unsubscribe(who, session, number)

    @app.put(f"{path}/frequency", summary="Set a subscription's frequency", responses=_documented(NOT_FOUND, CONFLICT))
    async def set_frequency(who: By, session: SessionName, number: Number, frequency: Frequency) -> SubscriptionInfo:
        return await steering.set_frequency(who, session, number, Ruling(frequency.max_per_second))

    @app.delete(
        f"{path}/frequency",
        summary="Reset a subscription's frequency to what the metadata adapter allows",
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def reset_frequency(who: By, session: SessionName, number: Number) -> SubscriptionInfo:
        return await steering.set_frequency(who, session, number, None)


def _add_lists(app: FastAPI, steering: Steering) -> None:
    @app.get("/items", summary="The items that have subscribers or are journaled")
    async def items(part: InPart, adapter_set: Filter = None, data_adapter: Filter = None) -> ItemList:
        return await steering.clients.items(part, adapter_set, data_adapter)

    @app.get("/adapters", summary="The adapters and their state")
    async def adapters() -> list[AdapterInfo]:
        return lists.adapters(steering.roster)

    @app.post(
        "/adapters/clear",
        summary="Mark a failed adapter as working again",
        status_code=204,
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def clear(who: By, clearing: Clearing) -> None:
        steering.clear_failure(who, clearing.adapter)


def _add_blocks(app: FastAPI, steering: Steering) -> None:
    def found() -> list[BlockInfo]:
        return [BlockInfo(scope=key.scope, name=key.name, by=by) for key, by in steering.gate.blocks.items()]

    @app.get("/blocks", summary="Who may not open new sessions")
    async def blocks() -> list[BlockInfo]:
        return found()

    @app.put(
        "/blocks", summary="Block new sessions: all, of an adapter set or of a user", responses=_documented(CONFLICT)
    )
    async def block(who: By, blocking: Blocking) -> list[BlockInfo]:
        steering.block(who, blocking.scope, blocking.name)
        return found()

    @app.delete("/blocks", summary="Remove a block", responses=_documented(NOT_FOUND))
    async def unblock(who: By, scope: BlockScope, name: Annotated[PrintableText, Query()] = "") -> list[BlockInfo]:
        steering.unblock(who, scope, name)
        return found()


def _add_server(app: FastAPI, steering: Steering) -> None:
    def state(node: str | None) -> DrainInfo:
        found = steering.drain_state(node)
        return DrainInfo(
            node=node,
            draining=found.is_on,
            seconds_left=found.seconds_left,
            stop=found.stops,
            sessions=found.sessions,
            nodes=steering.drained_nodes(),
        )

    @app.get("/drain", summary="Whether the server, or one of its nodes, is draining", responses=_documented(NOT_FOUND))
    async def draining(node: NodeName = None) -> DrainInfo:
        return state(node)

    @app.post(
        "/drain",
        summary="Refuse new sessions, end open ones, and stop if asked to: the server, or one of its nodes",
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def drain(who: By, draining: Annotated[Draining | None, Body()] = None) -> DrainInfo:
        draining = draining or Draining()
        steering.begin_drain(who, draining.seconds, draining.stop, draining.node)
        return state(draining.node)

    @app.delete("/drain", summary="Cancel the drain", responses=_documented(NOT_FOUND, CONFLICT))
    async def cancel(who: By, node: NodeName = None) -> DrainInfo:
        steering.cancel_drain(who, node)
        return state(node)

    @app.get("/levels", summary="The categories of the log and their levels")
    async def levels() -> dict[str, str]:
        return log.levels()

    @app.put("/levels", summary="Set the level of a category of the log, until a restart")
    async def set_level(who: By, setting: LevelSetting) -> dict[str, str]:
        steering.set_level(who, setting.category, setting.level)
        return log.levels()

    @app.post("/reload", summary="Read the configuration again", responses=_documented(CONFLICT))
    async def reload(who: By) -> ReloadInfo:
        return ReloadInfo(**(await steering.reload(who))._asdict())


def _add_stream(app: FastAPI, where: Callable[[], StreamInfo]) -> None:
    @app.get("/stream", summary="The address of the streaming port, for the dashboard")
    async def stream() -> StreamInfo:
        return where()


def _add_cluster(app: FastAPI, look: Callable[[], ClusterInfo]) -> None:
    @app.get("/cluster", summary="The processes of the server and their state")
    async def cluster() -> ClusterInfo:
        return look()


def _add_tlex(app: FastAPI, steering: Steering) -> None:
    @app.get("/tlex/sessions", summary="The sessions of the TLEX hub", responses=_documented(CONFLICT))
    async def sessions(part: InPart) -> TlexSessionList:
        return await lists.tlex_sessions(part, steering.tlex().hub)

    @app.delete(
        "/tlex/sessions/{id}",
        summary="End a session of the TLEX hub",
        status_code=204,
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def end(who: By, id: str) -> None:
        steering.end_tlex_session(who, id)

    @app.post(
        "/tlex/sessions/{id}/reconnect",
        summary="Ask the peer of a TLEX session to reconnect with a new session",
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def reconnect(who: By, id: str) -> TlexSessionInfo:
        return lists.described_tlex(steering.reconnect_tlex_session(who, id))


def _add_push(app: FastAPI, steering: Steering) -> None:
    @app.get("/push/applications", summary="The applications of push notifications", responses=_documented(CONFLICT))
    async def applications() -> list[PushApplicationInfo]:
        return push_lists.applications(steering.push())

    @app.get("/push/devices", summary="The devices for push notifications", responses=_documented(CONFLICT))
    async def devices(part: InPart, application: Filter = None, status: Filter = None) -> PushDeviceList:
        return await push_lists.devices(part, steering.push(), application, status)

    @app.get("/push/subscriptions", summary="The subscriptions of devices", responses=_documented(CONFLICT))
    async def subscriptions(part: InPart, device: Filter = None) -> PushSubscriptionList:
        return await push_lists.subscriptions(part, steering.push(), device)

    @app.post(
        "/push/devices/{id}/test",
        summary="Send a notification to a device at once",
        responses=_documented(NOT_FOUND, CONFLICT),
    )
    async def test(who: By, id: str, wanted: Annotated[PushTest | None, Body()] = None) -> PushTested:
        handover = await steering.send_test_push(who, id, None if wanted is None else wanted.payload)
        return PushTested(verdict=handover.verdict.name.lower(), reason=handover.reason)


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _add_refusals(app: FastAPI, audit: Audit) -> None:
    def refused(request: Request, problem: AdminProblem) -> Response:
        who: Administrator = request.scope["state"][WHO]
        audit.refused(who, f"{request.method} {request.url.path}", str(problem))
        return answer(problem)

    async def on_problem(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, AdminProblem)
        return refused(request, problem)

    async def on_wrong_value(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refused(request, AdminProblem(422, "; ".join([_sentence(each) for each in error.errors()])))

    async def on_wrong_path(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = AdminProblem(error.status_code, str(error.detail))
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # There is a route for each method, and the first of them knows no other.
            problem.headers["Allow"] = ", ".join(sorted(_methods(app, request)))
        return refused(request, problem)

    app.add_exception_handler(AdminProblem, on_problem)
    app.add_exception_handler(RequestValidationError, on_wrong_value)
    app.add_exception_handler(HTTPException, on_wrong_path)

    @app.middleware("http")
    async def uncached(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers["Cache-Control"] = "no-store"
        return response


def _methods(app: FastAPI, request: Request) -> set[str]:
    """All that are right for the path of a request."""
    found = [
        route for route in app.routes if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
    ]
    return {method for route in found for method in route.methods or ()}


def _sentence(error: dict[str, Any]) -> str:
    """Where it is wrong, and what is expected."""
    if error["type"] == "json_invalid":
        return "the body: expected JSON"
    place = ".".join([str(part) for part in error["loc"][1:]]) or "the body"
    given = error.get("input")
    shown = f" = {given!r:.60}" if isinstance(given, str | int | float | bool) else ""
    message: str = error["msg"]
    return f"{place}{shown}: {message[:1].lower()}{message[1:]}"
