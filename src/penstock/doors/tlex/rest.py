"""The REST side, below `/api/v1` on the API port: an application of its own, with errors of the documented shape.

Who may do what is in `exchange`; the JSON is in `wire.tlex.rest`; what is documented in `openapi`.
Specification: 5.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
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

from penstock.doors.tlex.administration import Administration
from penstock.doors.tlex.descriptions import described
from penstock.doors.tlex.domains import Domains
from penstock.doors.tlex.errors import RestRefusal, bad_request, translated
from penstock.doors.tlex.http import JSON, answer, authorization_of, body, identifiers_in, named, refused
from penstock.doors.tlex.listener import instant
from penstock.doors.tlex.openapi import MAX_MILLIS, SessionLogEntry, document
from penstock.doors.tlex.session_log import DAY_MILLIS
from penstock.doors.tlex.templates import Templates
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
from penstock.wire.tlex.rest import SessionAnswer, parse_details, parse_session_request, parse_tlc_request
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc, TlcType

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor
    from penstock.exchange.session import HubSession

log = get(__name__)

Handler = Callable[["Rest", Request], Awaitable[Response]]
E = TypeVar("E", bound=Enum)


class Rest:
    """Made for one door; `application` is what is mounted."""

    def __init__(self, door: TlexDoor) -> None:
        self._door = door
        self._hub = door.hub
        self._store = door.store
        self.administration = Administration(door)
        self.domains = Domains(door)
        self.templates = Templates(door)
        settings = door.hub.settings
        self._most = max([each.max_identifiers for each in (settings.tlc, settings.broker, settings.monitor)])
        self._document = JSON.encode(document())
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
                return refused(refusal)
            except HubRefusal as refusal:
                return refused(translated(refusal))
            except BadRequest as bad:
                return refused(bad_request(str(bad)))
            except ClientDisconnect:
                # The client is gone.
                return refused(bad_request("The body is not complete"))
            except Closed:
                # The API port closes a little later than the hub.
                return refused(translated(going_down()))
            except UNANSWERED as error:
                log.error("the database does not answer", reason=type(error).__name__)
                return refused(RestRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "The database does not answer"))
            except Exception:
                number = incident()
                # Not its path: there may be a token in it.
                log.exception("a request failed", method=request.method, number=number)
                return refused(RestRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"error {number}"))

        return endpoint

    # -- sessions -------------------------------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        given = await body(request)
        template = request.query_params.get("template")
        if template is not None:
            given = await self.templates.fill(given, template, request)
        # Nothing is awaited between the authorization and its use: it may be changed at any time.
        authorization = await authorization_of(request, self._store)
        wanted = parse_session_request(given, self._most)
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
        field = "details.tlcIdentifiers" if wanted.protocol is Protocol.MULTIPLEX else "details.tlcIdentifier"
        with identifiers_in(field):
            session = self._hub.create(authorization, order, instant(), place)
        log.info("tlex session created", session=session.id, type=session.type.value, domain=session.domain)
        return answer(self._described(session, request))

    async def sessions(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        type_ = _filter(request, "type", SessionType)
        protocol = _filter(request, "protocol", Protocol)
        found = self._hub.visible(authorization, instant(), type_, protocol)
        return answer([self._described(each, request) for each in found])

    async def session(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        return answer(self._described(self._hub.get(authorization, named(request, "token"), instant()), request))

    async def update(self, request: Request) -> Response:
        given = await body(request)
        authorization = await authorization_of(request, self._store)
        token = named(request, "token")
        protocol = self._hub.changeable(authorization, token, instant()).protocol
        details = parse_details(given, protocol, self._most)
        with identifiers_in("tlcIdentifiers"):
            session = self._hub.update(authorization, token, details.security_mode, details.identifiers, instant())
        return answer(self._described(session, request))

    async def delete(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        self._hub.delete(authorization, named(request, "token"), instant())
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _described(self, session: HubSession, request: Request) -> SessionAnswer:
        return described(session, *self._door.address_of(session, request.url.hostname))

    # -- controllers ----------------------------------------------------------------------------------------------

    async def tlcs(self, request: Request) -> Response:
        return answer(self._hub.tlcs(await authorization_of(request, self._store)))

    async def tlc(self, request: Request) -> Response:
        return answer(self._hub.tlc(await authorization_of(request, self._store), named(request, "uuid")))

    async def register(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        require(authorization, Right.CHANGE_TLCS)
        wanted = parse_tlc_request(await body(request))
        domain = authorization.domain if wanted.domain is msgspec.UNSET else wanted.domain
        require_domain(authorization, domain)
        with identifiers_in("identifier"):
            require_identifier(authorization, wanted.identifier)
        kind = TlcType.TCP_STREAMING if wanted.type is msgspec.UNSET else wanted.type
        try:
            made: Tlc = await self._store.call(
                self._store.store.add_tlc, domain, wanted.identifier, kind, authorization.account
            )
        except (AlreadyExists, NoSuchRecord, BadName) as error:
            raise bad_request(str(error)) from None
        await self._door.synchronize()
        return answer(made, HTTPStatus.CREATED)

    async def change(self, request: Request) -> Response:
        """Sessions of a controller that changes lose it, as if it were unregistered and registered again."""
        authorization = await authorization_of(request, self._store)
        before = self._hub.own_tlc(authorization, named(request, "uuid"))
        wanted = parse_tlc_request(await body(request))
        domain = before.domain if wanted.domain is msgspec.UNSET else wanted.domain
        require_domain(authorization, domain)
        with identifiers_in("identifier"):
            require_identifier(authorization, wanted.identifier)
        kind = before.type if wanted.type is msgspec.UNSET else wanted.type
        changed = msgspec.structs.replace(before, identifier=wanted.identifier, type=kind, domain=domain)
        try:
            await self._store.call(self._store.store.change_tlc, changed)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None
        await self._door.synchronize()
        return answer(changed)

    async def unregister(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        uuid = self._hub.own_tlc(authorization, named(request, "uuid")).uuid
        try:
            await self._store.call(self._store.store.remove_tlc, uuid)
        except NoSuchRecord:
            raise unknown() from None
        await self._door.synchronize()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    # -- past sessions --------------------------------------------------------------------------------------------

    async def session_logs(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._store)
        require(authorization, Right.SEE_LOGS)
        until = _millis(request, "until", time.time_ns() // 1_000_000)
        since = _millis(request, "from", max(0, until - DAY_MILLIS))
        if since > until:
            raise bad_request(f"from: {since} is later than until, which is {until}")
        await self._door.session_log.write()
        account = None if sees_accounts(authorization) else authorization.account
        found = await self._store.call(self._store.store.session_logs, since, until, account)
        return answer([_entry(each) for each in found if _may_read(authorization, each)])

    async def session_log(self, request: Request) -> Response:
        """By the token, of which a hash is kept, or by the id that the list shows."""
        authorization = await authorization_of(request, self._store)
        require(authorization, Right.SEE_LOGS)
        await self._door.session_log.write()
        found = await self._store.call(self._store.store.session_log, named(request, "token"))
        if found is None or not _may_read(authorization, found):
            raise unknown()
        return answer(_entry(found))

    async def openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")


def _of(method: Callable[[Administration, Request], Awaitable[Response]]) -> Handler:
    def handler(rest: Rest, request: Request) -> Awaitable[Response]:
        return method(rest.administration, request)

    return handler


def _of_domains(method: Callable[[Domains, Request], Awaitable[Response]]) -> Handler:
    def handler(rest: Rest, request: Request) -> Awaitable[Response]:
        return method(rest.domains, request)

    return handler


def _of_templates(method: Callable[[Templates, Request], Awaitable[Response]]) -> Handler:
    def handler(rest: Rest, request: Request) -> Awaitable[Response]:
        return method(rest.templates, request)

    return handler


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
    ("GET", "/sessionlogs/{token}"): Rest.session_log,
    ("PUT", "/tlcs/{uuid}"): Rest.change,
    ("GET", "/accounts"): _of(Administration.accounts),
    ("POST", "/accounts"): _of(Administration.add_account),
    ("GET", "/accounts/{uuid}"): _of(Administration.account),
    ("PUT", "/accounts/{uuid}"): _of(Administration.rename_account),
    ("DELETE", "/accounts/{uuid}"): _of(Administration.remove_account),
    ("GET", "/domains"): _of_domains(Domains.domains),
    ("POST", "/domains"): _of_domains(Domains.add),
    ("GET", "/domains/{uuid}"): _of_domains(Domains.domain),
    ("PUT", "/domains/{uuid}"): _of_domains(Domains.rename),
    ("DELETE", "/domains/{uuid}"): _of_domains(Domains.remove),
    ("GET", "/sessiontemplates"): _of_templates(Templates.templates),
    ("POST", "/sessiontemplates"): _of_templates(Templates.add),
    ("GET", "/sessiontemplates/{uuid}"): _of_templates(Templates.template),
    ("PUT", "/sessiontemplates/{uuid}"): _of_templates(Templates.change),
    ("DELETE", "/sessiontemplates/{uuid}"): _of_templates(Templates.remove),
    ("GET", "/authorizations"): _of(Administration.authorizations),
    ("POST", "/authorizations"): _of(Administration.grant),
    ("GET", "/authorizations/{uuid}"): _of(Administration.authorization),
    ("PUT", "/authorizations/{uuid}"): _of(Administration.change_grant),
    ("DELETE", "/authorizations/{uuid}"): _of(Administration.withdraw),
    ("GET", "/authorizationtokens"): _of(Administration.tokens),
    ("POST", "/authorizationtokens"): _of(Administration.add_token),
    ("GET", "/authorizationtokens/{uuid}"): _of(Administration.token),
    ("PUT", "/authorizationtokens/{uuid}"): _of(Administration.move_token),
    ("DELETE", "/authorizationtokens/{uuid}"): _of(Administration.revoke_token),
    ("GET", "/openapi.json"): Rest.openapi,
}


async def _unrouted(_request: Request, error: Exception) -> Response:
    """An unknown path, or a wrong method."""
    assert isinstance(error, HTTPException)
    found = refused(RestRefusal(HTTPStatus(error.status_code)))
    found.headers.update(error.headers or {})
    return found


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
