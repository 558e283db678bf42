"""Session templates by REST: whoever has sessions sees those of the domain, its administrators change them.

`POST /sessions?template=NAME` uses one: see `rest`. The JSON is in `wire.tlex.templates`.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.doors.tlex.errors import bad_request
from penstock.doors.tlex.http import JSON, answer, authorization_of, body, named
from penstock.exchange.authorization import Authorization
from penstock.exchange.refusals import unknown
from penstock.exchange.rights import Right, covers, require, require_domain
from penstock.log import get
from penstock.store.errors import AlreadyExists, BadName, NoSuchRecord
from penstock.store.records import SessionTemplate
from penstock.store.templates import TemplateStore
from penstock.wire.tlex.templates import TemplateBody, filled, parse_fields, parse_template_request

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor

log = get(__name__)


class Templates:
    """Made for one door; its methods are routes of `rest`."""

    def __init__(self, door: TlexDoor) -> None:
        self._thread = door.store
        self._templates = TemplateStore(door.store.store)

    async def fill(self, given: bytes, name: str, request: Request) -> bytes:
        """The body of a request for a session that names a template of the client's domain. Raises RestRefusal."""
        authorization = await authorization_of(request, self._thread)
        require(authorization, Right.USE_SESSIONS)
        domain = authorization.domain
        found = None if "\0" in name else await self._thread.call(self._templates.find, domain, name)
        if found is None:
            raise bad_request(f"template: {name!r:.60} does not exist in domain {domain!r}")
        return filled(given, domain, found.fields)

    async def templates(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._thread)
        require(authorization, Right.SEE_SESSIONS)
        found = await self._thread.call(self._templates.all)
        return answer([_shown(each) for each in found if covers(authorization, each.domain)])

    async def template(self, request: Request) -> Response:
        authorization = await authorization_of(request, self._thread)
        require(authorization, Right.SEE_SESSIONS)
        return answer(_shown(await self._known(authorization, request)))

    async def add(self, request: Request) -> Response:
        admin = await self._admin(request)
        wanted = parse_template_request(await body(request))
        domain = admin.domain if wanted.domain is msgspec.UNSET else wanted.domain
        require_domain(admin, domain)
        fields = JSON.encode(wanted.fields).decode()
        try:
            made = await self._thread.call(self._templates.add, domain, wanted.name, fields)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        log.info("tlex session template added", template=made.uuid, by=admin.uuid)
        return answer(_shown(made), HTTPStatus.CREATED)

    async def change(self, request: Request) -> Response:
        """Sessions that exist stay as they are."""
        admin = await self._admin(request)
        before = await self._known(admin, request)
        wanted = parse_template_request(await body(request))
        if wanted.domain not in (msgspec.UNSET, before.domain):
            raise bad_request(f"domain: the template is in domain {before.domain!r}, which cannot be changed")
        changed = replace(before, name=wanted.name, fields=JSON.encode(wanted.fields).decode())
        try:
            await self._thread.call(self._templates.change, changed)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None
        log.info("tlex session template changed", template=changed.uuid, by=admin.uuid)
        return answer(_shown(changed))

    async def remove(self, request: Request) -> Response:
        admin = await self._admin(request)
        uuid = (await self._known(admin, request)).uuid
        try:
            await self._thread.call(self._templates.remove, uuid)
        except NoSuchRecord:
            raise unknown() from None
        log.info("tlex session template removed", template=uuid, by=admin.uuid)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _admin(self, request: Request) -> Authorization:
        found = await authorization_of(request, self._thread)
        require(found, Right.CHANGE_TEMPLATES)
        return found

    async def _known(self, authorization: Authorization, request: Request) -> SessionTemplate:
        found = await self._thread.call(self._templates.get, named(request, "uuid"))
        if found is None or not covers(authorization, found.domain):
            raise unknown()
        return found


def _shown(template: SessionTemplate) -> TemplateBody:
    fields = parse_fields(template.fields)
    return TemplateBody(
        uuid=template.uuid,
        domain=template.domain,
        name=template.name,
        type=fields.type,
        protocol=fields.protocol,
        details=fields.details,
    )
