"""Accounts, authorizations and their tokens by REST: what the commands `penstock tlex account|token` do, for clients.

Who may grant what is in `exchange.administration`; the JSON is in `wire.tlex.administration`. Sessions whose rights are
withdrawn or changed end before the request is answered. Read next: docs/tlex.md.
"""

from __future__ import annotations

import time
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from msgspec import UnsetType
from starlette.requests import Request
from starlette.responses import Response

from penstock.doors.tlex.errors import bad_request
from penstock.doors.tlex.http import answer, authorization_of, body, identifiers_in, named
from penstock.exchange.administration import manageable, may_manage, require_grant, require_other
from penstock.exchange.authorization import Authorization
from penstock.exchange.payload_policy import EVERYTHING, PayloadPolicy
from penstock.exchange.refusals import unknown
from penstock.exchange.rights import Right, require
from penstock.log import get
from penstock.store.errors import AlreadyExists, BadName, NoSuchAccount, NoSuchRecord
from penstock.store.records import Account, StoredToken
from penstock.wire.tlex.administration import (
    AccountBody,
    AuthorizationBody,
    AuthorizationRequest,
    NewTokenBody,
    PolicyBody,
    TokenBody,
    parse_account_request,
    parse_authorization_request,
    parse_token_request,
)

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor

log = get(__name__)


class Administration:
    """Made for one door; its methods are routes of `rest`."""

    def __init__(self, door: TlexDoor) -> None:
        self._door = door
        self._thread = door.store
        self._store = door.store.store

    # -- accounts -------------------------------------------------------------------------------------------------

    async def accounts(self, request: Request) -> Response:
        await self._platform_admin(request)
        return answer([_account(each) for each in await self._thread.call(self._store.accounts)])

    async def account(self, request: Request) -> Response:
        await self._platform_admin(request)
        return answer(_account(await self._known_account(named(request, "uuid"))))

    async def add_account(self, request: Request) -> Response:
        await self._platform_admin(request)
        wanted = parse_account_request(await body(request))
        try:
            made = await self._thread.call(self._store.add_account, wanted.name)
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        return answer(_account(made), HTTPStatus.CREATED)

    async def rename_account(self, request: Request) -> Response:
        await self._platform_admin(request)
        uuid = (await self._known_account(named(request, "uuid"))).uuid
        wanted = parse_account_request(await body(request))
        try:
            return answer(_account(await self._thread.call(self._store.rename_account, uuid, wanted.name)))
        except (AlreadyExists, BadName) as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None

    async def remove_account(self, request: Request) -> Response:
        admin = await self._platform_admin(request)
        uuid = (await self._known_account(named(request, "uuid"))).uuid
        require_other(admin.account, uuid, "account")
        try:
            await self._thread.call(self._store.remove_account, uuid)
        except AlreadyExists as error:
            raise bad_request(str(error)) from None
        except NoSuchRecord:
            raise unknown() from None
        return await self._done("account removed", account=uuid, by=admin.uuid)

    # -- authorizations -------------------------------------------------------------------------------------------

    async def authorizations(self, request: Request) -> Response:
        admin = await self._admin(request)
        found = await self._managed(admin)
        domain, account = request.query_params.get("domain"), request.query_params.get("account")
        return answer(
            [
                _authorization(each)
                for each in found
                if (domain is None or each.domain == domain.lower()) and account in (None, each.account)
            ]
        )

    async def authorization(self, request: Request) -> Response:
        admin = await self._admin(request)
        return answer(_authorization(await self._known_authorization(admin, named(request, "uuid"))))

    async def grant(self, request: Request) -> Response:
        admin = await self._admin(request)
        wanted = parse_authorization_request(await body(request))
        order = _ordered(wanted, replace(admin, token=""))
        with identifiers_in("tlcIdentifiers"):
            require_grant(admin, order, wanted.tlc_identifiers)
        try:
            made = await self._thread.call(
                self._store.authorize, order.account, order.domain, order.role, order.identifiers, order.policy
            )
        except NoSuchAccount as error:
            raise bad_request(f"account: {error}") from None
        except BadName as error:
            raise bad_request(str(error)) from None
        log.info("tlex authorization granted", authorization=made.uuid, role=made.role.value, by=admin.uuid)
        return answer(_authorization(made), HTTPStatus.CREATED)

    async def change_grant(self, request: Request) -> Response:
        """Its tokens stay valid, for what it is now; sessions that were requested before end."""
        admin = await self._admin(request)
        before = await self._known_authorization(admin, named(request, "uuid"))
        require_other(admin.uuid, before.uuid, "authorization")
        wanted = parse_authorization_request(await body(request))
        changed = _ordered(wanted, before)
        with identifiers_in("tlcIdentifiers"):
            require_grant(admin, changed, wanted.tlc_identifiers)
        try:
            await self._thread.call(self._store.change_authorization, changed)
        except NoSuchAccount as error:
            raise bad_request(f"account: {error}") from None
        except NoSuchRecord:
            # It was withdrawn meanwhile.
            raise unknown() from None
        except BadName as error:
            raise bad_request(str(error)) from None
        await self._door.look()
        log.info("tlex authorization changed", authorization=changed.uuid, role=changed.role.value, by=admin.uuid)
        return answer(_authorization(changed))

    async def withdraw(self, request: Request) -> Response:
        admin = await self._admin(request)
        uuid = (await self._known_authorization(admin, named(request, "uuid"))).uuid
        require_other(admin.uuid, uuid, "authorization")
        try:
            await self._thread.call(self._store.remove_authorization, uuid)
        except NoSuchRecord:
            raise unknown() from None
        return await self._done("authorization removed", authorization=uuid, by=admin.uuid)

    # -- tokens ---------------------------------------------------------------------------------------------------

    async def tokens(self, request: Request) -> Response:
        """Those that are not revoked, without their secrets."""
        admin = await self._admin(request)
        wanted = request.query_params.get("authorization")
        managed = {each.uuid for each in await self._managed(admin) if wanted in (None, each.uuid)}
        found = await self._thread.call(self._store.all_tokens)
        return answer([_token(each) for each in found if each.authorization in managed])

    async def token(self, request: Request) -> Response:
        admin = await self._admin(request)
        return answer(_token(await self._known_token(admin, named(request, "uuid"))))

    async def add_token(self, request: Request) -> Response:
        admin = await self._admin(request)
        uuid = await self._target(admin, request)
        now = time.time_ns() // 1_000_000
        try:
            made = await self._thread.call(self._store.add_token, uuid, now)
        except NoSuchRecord as error:
            raise bad_request(f"authorization: {error}") from None
        log.info("tlex token created", token=made.uuid, authorization=uuid, by=admin.uuid)
        shown = NewTokenBody(uuid=made.uuid, token=made.secret, authorization=uuid, created=now)
        return answer(shown, HTTPStatus.CREATED)

    async def move_token(self, request: Request) -> Response:
        """To another authorization; sessions that were requested with it before end."""
        admin = await self._admin(request)
        before = await self._known_token(admin, named(request, "uuid"))
        require_other(admin.token, before.uuid, "token")
        uuid = await self._target(admin, request)
        try:
            await self._thread.call(self._store.move_token, before.uuid, uuid)
        except NoSuchRecord:
            raise unknown() from None
        await self._door.look()
        log.info("tlex token moved", token=before.uuid, authorization=uuid, by=admin.uuid)
        return answer(_token(replace(before, authorization=uuid)))

    async def revoke_token(self, request: Request) -> Response:
        admin = await self._admin(request)
        uuid = (await self._known_token(admin, named(request, "uuid"))).uuid
        require_other(admin.token, uuid, "token")
        await self._thread.call(self._store.revoke, uuid, time.time_ns() // 1_000_000)
        return await self._done("token revoked", token=uuid, by=admin.uuid)

    # -- what they have in common ---------------------------------------------------------------------------------

    async def _platform_admin(self, request: Request) -> Authorization:
        found = await authorization_of(request, self._thread)
        require(found, Right.CHANGE_ACCOUNTS)
        return found

    async def _admin(self, request: Request) -> Authorization:
        found = await authorization_of(request, self._thread)
        require(found, Right.GRANT)
        return found

    async def _known_account(self, uuid: str) -> Account:
        for each in await self._thread.call(self._store.accounts):
            if each.uuid == uuid:
                return each
        raise unknown()

    async def _managed(self, admin: Authorization) -> list[Authorization]:
        found = await self._thread.call(self._store.authorizations)
        return [each for each in found if may_manage(admin, each)]

    async def _known_authorization(self, admin: Authorization, uuid: str) -> Authorization:
        return manageable(admin, await self._thread.call(self._store.authorization, uuid))

    async def _known_token(self, admin: Authorization, uuid: str) -> StoredToken:
        """One whose authorization may be managed."""
        try:
            found = await self._thread.call(self._store.token, uuid)
        except NoSuchRecord:
            raise unknown() from None
        await self._known_authorization(admin, found.authorization)
        return found

    async def _target(self, admin: Authorization, request: Request) -> str:
        """The authorization that a token is to have."""
        uuid = parse_token_request(await body(request)).authorization
        found = await self._thread.call(self._store.authorization, uuid)
        if found is None or not may_manage(admin, found):
            raise bad_request(f"authorization: {uuid!r} does not exist, or is not one that the client may grant")
        return uuid

    async def _done(self, what: str, **details: str) -> Response:
        """Sessions that have lost their right end now, not when the database is read the next time."""
        await self._door.look()
        log.info(f"tlex {what}", **details)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _ordered(wanted: AuthorizationRequest, otherwise: Authorization) -> Authorization:
    """What a request asks for, where domain and account are by default those of another one."""
    return replace(
        otherwise,
        domain=otherwise.domain if wanted.domain is msgspec.UNSET else wanted.domain,
        account=otherwise.account if wanted.account is msgspec.UNSET else wanted.account,
        role=wanted.role,
        identifiers=frozenset(wanted.tlc_identifiers),
        policy=_policy(wanted.payload_policy),
    )


def _policy(given: PolicyBody | UnsetType) -> PayloadPolicy:
    if given is msgspec.UNSET:
        return EVERYTHING
    return PayloadPolicy(
        None if given.send is msgspec.UNSET else frozenset(given.send),
        None if given.receive is msgspec.UNSET else frozenset(given.receive),
    )


def _policy_body(policy: PayloadPolicy) -> PolicyBody | UnsetType:
    if policy == EVERYTHING:
        return msgspec.UNSET
    return PolicyBody(
        send=msgspec.UNSET if policy.send is None else tuple(sorted(policy.send)),
        receive=msgspec.UNSET if policy.receive is None else tuple(sorted(policy.receive)),
    )


def _account(account: Account) -> AccountBody:
    return AccountBody(uuid=account.uuid, name=account.name)


def _authorization(authorization: Authorization) -> AuthorizationBody:
    return AuthorizationBody(
        uuid=authorization.uuid,
        domain=authorization.domain,
        account=authorization.account,
        role=authorization.role,
        tlc_identifiers=tuple(sorted(authorization.identifiers)),
        payload_policy=_policy_body(authorization.policy),
    )


def _token(token: StoredToken) -> TokenBody:
    return TokenBody(uuid=token.uuid, authorization=token.authorization, created=token.created)
