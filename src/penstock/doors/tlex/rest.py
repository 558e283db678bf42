"""The REST side, below `/api/v1` on the API port: an application of its own, with errors of the documented shape.

Who may do what is in `exchange`; the JSON is in `wire.tlex.rest`; what is documented in `openapi`.
Specification: 5.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.doors.tlex.descriptions import described
from penstock.doors.tlex.errors import RestRefusal, bad_request, translated, unauthorized
from penstock.doors.tlex.listener import instant
from penstock.doors.tlex.openapi import HEADER, MAX_MILLIS, SessionLogEntry, document
from penstock.doors.tlex.session_log import DAY_MILLIS
from penstock.exchange.authorization import Authorization
from penstock.exchange.refusals import HubRefusal, going_down, unknown
from penstock.exchange.rights import (
    Right,
    covers,
    require,
    require_domain,
    require_identifier,
    sees_account,
    sees_accounts,
)
from penstock.exchange.session import SessionOrder
from penstock.log import get, incident
from penstock.store.errors import AlreadyExists, BadName, Closed, NoSuchRecord
from penstock.store.opening import UNANSWERED
from penstock.store.records import SessionLog
from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.rest import Session, parse_details, parse_session_request, parse_tlc_request
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor
    from penstock.exchange.session import HubSession

log = get(__name__)

# Bytes of a body: enough for the identifiers of thousands of controllers.
MAX_BODY = 1 << 20

Handler = Callable[["Rest", Request], Awaitable[Response]]
E = TypeVar("E", bound=Enum)

_JSON = msgspec.json.Encoder()


class Rest:
    """Made for one door; `application` is what is mounted."""

    def __init__(self, door: TlexDoor) -> None:
        self._door = door
        self._hub = door.hub
        self._store = door.store
        self._most = max([limits.max_identifiers for limits in map(door.hub.settings.limits, SessionType)])
        self._document = _JSON.encode(document())
        by_path: dict[str, dict[str, Handler]] = {}
        for (method, path), handler in ROUTES.items():
            by_path.setdefault(path, {})[method] = handler
        # One route for each path, so that the answer to a wrong method lists all allowed ones.
        routes = [Route(path, self._endpoint(found), methods=[*found]) for path, found in by_path.items()]
        self.application = Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})
        self.application.router.redirect_slashes = False

    def _endpoint(self, handlers: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return await handlers["GET" if request.method == "HEAD" else request.method](self, request)
            except RestRefusal as refusal:
                return _refused(refusal)
            except HubRefusal as refusal:
                return _refused(translated(refusal))
            except BadRequest as bad:
                return _refused(bad_request(str(bad)))
            except ClientDisconnect:
                # The client is gone.
                return _refused(bad_request("The body is not complete"))
            except Closed:
                # The API port closes a little later than the hub.
                return _refused(translated(going_down()))
            except UNANSWERED as error:
                log.error("the database does not answer", reason=type(error).__name__)
                return _refused(RestRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer"))
            except Exception:
                number = incident()
                # Not its path: there may be a token in it.
                log.exception("a request failed", method=request.method, number=number)
                return _refused(RestRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"error {number}"))

        return endpoint

    # -- sessions -------------------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        wanted = parse_session_request(await _body(request), self._most)
        place = self._door.places.choose(wanted.details.security_mode)
        if place is None:
            # After the rights: a client that may not have a session is told that first.
            require(authorization, Right.USE_SESSIONS)
            if self._door.places.are_none:
                raise RestRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "No node takes connections; try again in a moment")
            raise bad_request(
                f"details.securityMode: {SecurityMode.TLS.value!r} is not offered by this server; "
                f"allowed: {SecurityMode.NONE.value!r}"
            )
        order = SessionOrder(
            wanted.domain, wanted.type, wanted.protocol, wanted.details.security_mode, wanted.details.identifiers
        )
        field = "details.tlcIdentifier" if wanted.protocol is Protocol.SINGLEPLEX else "details.tlcIdentifiers"
        with _identifiers_in(field):
            session = self._hub.create(authorization, order, instant(), place)
        log.info("tlex session created", session=session.id, type=session.type.value, domain=session.domain)
        return _answer(self._described(session, request))

    async def sessions(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        type_ = _filter(request, "type", SessionType)
        protocol = _filter(request, "protocol", Protocol)
        found = self._hub.visible(authorization, instant(), type_, protocol)
        return _answer([self._described(each, request) for each in found])

    async def session(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        return _answer(self._described(self._hub.get(authorization, _named(request, "token"), instant()), request))

    async def update(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        token = _named(request, "token")
        protocol = self._hub.changeable(authorization, token, instant()).protocol
        details = parse_details(await _body(request), protocol, self._most)
        with _identifiers_in("tlcIdentifiers"):
            session = self._hub.update(authorization, token, details.security_mode, details.identifiers, instant())
        return _answer(self._described(session, request))

    async def delete(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        self._hub.delete(authorization, _named(request, "token"), instant())
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _described(self, session: HubSession, request: Request) -> Session:
        return described(session, *self._door.address_of(session, request.url.hostname))

    # -- controllers ----------------------------------------------------------------------------------------------

    async def tlcs(self, request: Request) -> Response:
        return _answer(self._hub.tlcs(await self._authorization(request)))

    async def tlc(self, request: Request) -> Response:
        return _answer(self._hub.tlc(await self._authorization(request), _named(request, "uuid")))

    async def register(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        require(authorization, Right.CHANGE_TLCS)
        wanted = parse_tlc_request(await _body(request))
        domain = authorization.domain if wanted.domain is msgspec.UNSET else wanted.domain
        require_domain(authorization, domain)
        with _identifiers_in("identifier"):
            require_identifier(authorization, wanted.identifier)
        try:
            made: Tlc = await self._store.call(
                self._store.store.add_tlc, domain, wanted.identifier, wanted.type, authorization.account
            )
        except (AlreadyExists, NoSuchRecord, BadName) as error:
            raise bad_request(str(error)) from None
        await self._door.synchronize()
        return _answer(made, HTTPStatus.CREATED)

    async def unregister(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        uuid = self._hub.own_tlc(authorization, _named(request, "uuid")).uuid
        try:
            await self._store.call(self._store.store.remove_tlc, uuid)
        except NoSuchRecord:
            raise unknown() from None
        await self._door.synchronize()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    # -- past sessions --------------------------------------------------------------------------------------------

    async def session_logs(self, request: Request) -> Response:
        authorization = await self._authorization(request)
        require(authorization, Right.SEE_LOGS)
        until = _millis(request, "until", time.time_ns() // 1_000_000)
        since = _millis(request, "from", max(0, until - DAY_MILLIS))
        if since > until:
            raise bad_request(f"from: {since} is later than until, which is {until}")
        await self._door.session_log.write()
        account = None if sees_accounts(authorization) else authorization.account
        found = await self._store.call(self._store.store.session_logs, since, until, account)
        return _answer([_entry(each) for each in found if _may_read(authorization, each)])

    async def openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _authorization(self, request: Request) -> Authorization:
        secret = request.headers.get(HEADER)
        found = None if not secret else await self._store.call(self._store.store.find, secret)
        if found is None:
            raise unauthorized()
        return found


ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "/sessions"): Rest.create,
    ("GET", "/sessions"): Rest.sessions,
    ("GET", "/sessions/{token}"): Rest.session,
    ("PUT", "/sessions/{token}"): Rest.update,
    ("DELETE", "/sessions/{token}"): Rest.delete,
    ("GET", "/tlcs"): Rest.tlcs,
    ("POST", "/tlcs"): Rest.register,
    ("GET", "/tlcs/{uuid}"): Rest.tlc,
    ("DELETE", "/tlcs/{uuid}"): Rest.unregister,
    ("GET", "/sessionlogs"): Rest.session_logs,
    ("GET", "/openapi.json"): Rest.openapi,
}


@contextmanager
def _identifiers_in(field: str) -> Iterator[None]:
    """A refusal of the hub that is about identifiers names this field of the request."""
    try:
        yield
    except HubRefusal as refusal:
        raise translated(refusal, field) from None


def _answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    # It contains tokens: no cache may keep it.
    return Response(_JSON.encode(value), status, {"Cache-Control": "no-store"}, "application/json")


def _refused(refusal: RestRefusal) -> Response:
    return _answer(refusal.body(), refusal.status)


async def _unrouted(_request: Request, error: Exception) -> Response:
    """An unknown path, or a wrong method."""
    assert isinstance(error, HTTPException)
    answer = _refused(RestRefusal(HTTPStatus(error.status_code)))
    answer.headers.update(error.headers or {})
    return answer


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise RestRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY} bytes")
    return bytes(body)


def _named(request: Request, name: str) -> str:
    return str(request.path_params[name])


def _filter(request: Request, name: str, values: type[E]) -> E | None:
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        return values(given)
    except ValueError:
        allowed = ", ".join([str(each.value) for each in values])
        raise bad_request(f"{name}: {given!r:.60}, allowed: {allowed}") from None


def _millis(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name)
    if given is None:
        return default
    if given.isascii() and given.isdecimal() and len(given) < 20:
        value = int(given)
    else:
        try:
            # A plus that was not encoded has become a space.
            time_ = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
            value = round(time_.replace(tzinfo=time_.tzinfo or UTC).timestamp() * 1000)
        except (ValueError, OverflowError):
            value = -1
    if not 0 <= value <= MAX_MILLIS:
        raise bad_request(f"{name}: {given!r:.60}, expected a time in ISO 8601 or milliseconds since 1970")
    return value


def _may_read(authorization: Authorization, entry: SessionLog) -> bool:
    return covers(authorization, entry.domain) and sees_account(authorization, entry.account)


def _entry(entry: SessionLog) -> SessionLogEntry:
    return SessionLogEntry(
        id=entry.id,
        account=entry.account,
        domain=entry.domain,
        type=entry.type,
        protocol=entry.protocol,
        tlc_identifiers=entry.identifiers,
        created=entry.created,
        connected=entry.connected,
        ended=entry.ended,
        end_reason=entry.end_reason,
    )
