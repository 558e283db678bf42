"""A route below `/api/2`: whatever happens is answered in the same form, also where there is no route.

Who may use one is up to its handler. Those of things and policies are in `http`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from penstock.doors.ditto.http_request import ROOT
from penstock.doors.ditto.service import as_answer
from penstock.wire.ditto.document import encode
from penstock.wire.ditto.envelope import JSON_TYPE
from penstock.wire.ditto.errors import METHOD_NOT_ALLOWED, ROUTE_UNKNOWN, DittoError

# How clients may authenticate.
CHALLENGES = ('Basic realm="Penstock"', "Bearer")


class _Anything(PathConvertor):
    """The rest of a path with all characters; `path` of Starlette ends at a line break, and nothing would answer."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())


@dataclass(frozen=True, slots=True)
class DittoRoute:
    """`handler` raises `DittoError`; anything else that it raises is answered with 500. HEAD goes with GET."""

    path: str
    method: str
    handler: Callable[[Request], Awaitable[Response]]
    summary: str


def add_route(router: APIRouter, route: DittoRoute) -> None:
    async def endpoint(request: Request) -> Response:
        return await _answered(request, route)

    path, method = route.path, route.method
    router.add_api_route(
        path,
        endpoint,
        methods=[method],
        summary=route.summary,
        operation_id=f"ditto {method} {path}".replace(" ", "_"),
    )
    if method == "GET":
        # The same without the body; the description does not mention it.
        router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def answer_elsewhere(router: APIRouter) -> None:
    """Answer all that the routes before do not."""
    known = [route for route in router.routes if isinstance(route, Route)]
    for path in (ROOT, f"{ROOT}/{{path:anything}}"):
        router.routes.append(Route(path, _Elsewhere(known), include_in_schema=False))


async def _answered(request: Request, route: DittoRoute) -> Response:
    """The response to a client, whatever happens."""
    try:
        return _finished(await route.handler(request), request)
    except ClientDisconnect:
        # The client is gone.
        return Response(status_code=400)
    except Exception as error:
        return _finished(_refusal(as_answer(error, f"{request.method} {request.url.path}")), request)


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
