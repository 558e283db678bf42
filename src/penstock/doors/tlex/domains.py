"""Domains by REST, for the administrators of the platform.

A domain also comes into being when an authorization or a controller names it; see `store.domains`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from penstock.doors.tlex.errors import bad_request
from penstock.doors.tlex.http import answer, authorization_of, body, named
from penstock.exchange.authorization import Authorization
from penstock.exchange.refusals import unknown
from penstock.exchange.rights import Right, require
from penstock.log import get
from penstock.store.domains import DomainStore
from penstock.store.errors import AlreadyExists, BadName, NoSuchRecord
from penstock.store.records import Domain
from penstock.wire.tlex.administration import DomainBody, parse_domain_request

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor

log = get(__name__)


class Domains:
    """Made for one door; its methods are routes of `rest`."""

    def __init__(self, door: TlexDoor) -> None:
        self._door = door
        self._thread = door.store
        self._domains = DomainStore(door.store.store)

    async def domains(self, request: Request) -> Response:
        await self._admin(request)
        return answer([_shown(each) for each in await self._thread.call(self._domains.all)])

    async def domain(self, request: Request) -> Response:
        await self._admin(request)
        found = await self._thread.call(self._domains.get, named(request, "uuid"))
        if found is None:
            raise unknown()
        return answer(_shown(found))

    async def add(self, request: Request) -> Response:
        admin = await self._admin(request)
        wanted = parse_domain_request(await body(request))
        try:
            made = await self._thread.call(self._domains.add, wanted.name)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        log.info("tlex domain added", domain=made.name, by=admin.uuid)
        return answer(_shown(made), HTTPStatus.CREATED)

    async def rename(self, request: Request) -> Response:
        """Sessions in it end, because what they were requested for has changed."""
        admin = await self._admin(request)
        uuid = named(request, "uuid")
        if await self._thread.call(self._domains.get, uuid) is None:
            raise unknown()
        wanted = parse_domain_request(await body(request))
        try:
            renamed = await self._thread.call(self._domains.rename, uuid, wanted.name)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None
        await self._door.look()
        log.info("tlex domain renamed", domain=renamed.name, by=admin.uuid)
        return answer(_shown(renamed))

    async def remove(self, request: Request) -> Response:
        admin = await self._admin(request)
        uuid = named(request, "uuid")
        try:
            await self._thread.call(self._domains.remove, uuid)
        except AlreadyExists as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None
        log.info("tlex domain removed", domain=uuid, by=admin.uuid)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _admin(self, request: Request) -> Authorization:
        found = await authorization_of(request, self._thread)
        require(found, Right.CHANGE_DOMAINS)
        return found


def _shown(domain: Domain) -> DomainBody:
    return DomainBody(uuid=domain.uuid, name=domain.name)
