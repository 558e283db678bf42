"""In front of the routes of administration: nothing behind it runs for somebody who has not logged in, or may not.

It also keeps requests small, and refuses those that pages of other origins have a browser send. Not here: who somebody
is (`logins`), what the routes do (`routes`).
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.log import get
from penstock.services.admin.logins import Administrator, AdminRole, Logins
from penstock.services.admin.problems import AdminProblem

log = get(__name__)

# Where all of it is.
PREFIX = "/api/admin"

# Bytes of a body: none is longer that makes sense.
MAX_BODY = 65_536

# Methods that change nothing.
LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})

# What somebody does with their own login, whatever their role.
LOGIN_PATH = "/login"

# Where the routes find who has sent the request.
WHO = "administrator"


class Guard:
    """An ASGI application around another; `origins` are those whose pages may send what changes something."""

    def __init__(self, application: ASGIApp, logins: Logins, origins: Collection[str]) -> None:
        self._application = application
        self._logins = logins
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = Headers(scope=scope)
            self._check_origin(scope["method"], headers)
            client = scope["client"]
            address = client[0] if client else ""
            who = await self._logins.identify(headers.get("authorization"), address)
            _check_right(who, scope)
            body = await _body(receive)
        except AdminProblem as problem:
            await answer(problem)(scope, receive, send)
            return
        if body is None:
            # Nobody is there to be answered.
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state[WHO] = who
        await self._application(scope, _Replay(body, receive), send)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Browsers send a password they know with what any page has them send, so the page must be one of ours."""
        origin = headers.get("origin")
        if method in LOOKING or origin is None or origin.lower() in self._origins:
            return
        if origin == "null" or urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            log.warning("administration refused", origin=origin[:200], reason="a page of another origin")
            raise AdminProblem(403, "pages of this origin may not do this; api.cors.allow_origins lists those that may")


def _check_right(who: Administrator, scope: Scope) -> None:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if who.role is AdminRole.ADMIN or scope["method"] in LOOKING or path == LOGIN_PATH:
        return
    log.warning(
        "administration refused",
        user=who.name,
        address=who.address,
        method=scope["method"],
        reason="viewers may only look",
    )
    raise AdminProblem(
        403, f"user {who.name} has the role {who.role.value} and may only look; this needs {AdminRole.ADMIN.value}"
    )


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if the client has gone before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise AdminProblem(413, f"the body has more than {MAX_BODY} bytes, the most allowed")
        if not message.get("more_body", False):
            return bytes(body)


class _Replay:
    """`receive` for a body that has been read."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def answer(problem: AdminProblem) -> JSONResponse:
    return JSONResponse({"error": str(problem)}, problem.status, problem.headers)
