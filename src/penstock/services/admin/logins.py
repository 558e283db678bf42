"""Who an administrator is: by name and password (Basic), or by a token that a login has given (Bearer).

Passwords are those of a file of users (`penstock.adapters.access.users`); tokens live in memory and end with the
server. What somebody may do is in `guard`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import math
import secrets
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.log import get
from penstock.services.admin.pauses import Pauses
from penstock.services.admin.problems import AdminProblem

if TYPE_CHECKING:
    from penstock.adapters.access.users import User, UserFile

log = get(__name__)

# Logins that may wait while one is checked; argon2 needs much time and memory on purpose.
MAX_WAITING = 20

# Tokens that are valid at a time; beyond this, the oldest becomes invalid.
MAX_TOKENS = 1_000

TOKEN_BYTES = 32

EXPECTED = "expected the header Authorization with Basic (user and password) or Bearer (a token from POST /login)"
NOBODY = "administration is disabled: admin.users is empty in the server's configuration"


class AdminRole(Enum):
    """What somebody may do: everything, or look."""

    ADMIN = "admin"
    VIEWER = "viewer"


class Administrator(NamedTuple):
    """Somebody who has logged in."""

    name: str
    role: AdminRole
    address: str


class LoginToken(NamedTuple):
    user: str
    # The user's hash when it was given: with another password it is not good any more.
    hash: str
    until: float


class Logins:
    """Lives on the event loop; passwords are checked on a thread, one at a time."""

    def __init__(
        self, users: UserFile | None, token_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._users = users
        self.token_seconds = token_seconds
        self._clock = clock
        self._pauses = Pauses()
        # By digest, so that what is in memory lets nobody in.
        self._tokens: dict[bytes, LoginToken] = {}
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0
        # Wrong logins since the start.
        self.refused = 0

    async def identify(self, authorization: str | None, address: str) -> Administrator:
        """Who has sent a request; raises an AdminProblem: 401, 403 for a user without a role, 429 for one to wait."""
        if self._users is None:
            raise AdminProblem(401, NOBODY)
        scheme, _, credentials = (authorization or "").partition(" ")
        match scheme.lower():
            case "basic":
                return await self.by_password(*_decoded(credentials.strip()), address)
            case "bearer":
                return self._known(await self._by_token(credentials.strip(), address), address)
            case _:
                raise AdminProblem(401, EXPECTED)

    async def by_password(self, name: str, password: str, address: str) -> Administrator:
        """Who this is; raises an AdminProblem as `identify` does."""
        if self._users is None:
            raise AdminProblem(401, NOBODY)
        if self._waiting >= MAX_WAITING:
            raise AdminProblem(429, "too many logins at once", retry_after=1)
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                # Within the lock: many at once are not to get around it.
                left = self._pauses.left(address, self._clock())
                if left > 0:
                    raise AdminProblem(429, "too many failed logins from this address", retry_after=math.ceil(left))
                user = await asyncio.to_thread(self._users.check, name, password)
                if user is None:
                    self._pauses.failed(address, self._clock())
                    raise self._wrong(name, address, "unknown user or wrong password")
                self._pauses.succeeded(address)
                return self._known(user, address)
        finally:
            self._waiting -= 1

    async def _by_token(self, token: str, address: str) -> User:
        """Not slowed: nobody guesses one, and a page whose token has run out asks again and again."""
        assert self._users is not None
        found = self._tokens.get(_digest(token))
        user = None
        if found is not None and found.until > self._clock():
            # On a thread, because the file may have changed.
            user = await asyncio.to_thread(self._users.find, found.user)
        if found is None or user is None or user.hash != found.hash:
            self._tokens.pop(_digest(token), None)
            raise self._wrong(None, address, "the token is unknown or has expired")
        return user

    def _wrong(self, name: str | None, address: str, reason: str) -> AdminProblem:
        self.refused += 1
        log.warning("administration refused", user=name, address=address, reason=reason)
        return AdminProblem(401, reason)

    def _known(self, user: User, address: str) -> Administrator:
        for role in AdminRole:
            if role.value in user.roles:
                return Administrator(user.name, role, address)
        self.refused += 1
        known = " or ".join([role.value for role in AdminRole])
        log.warning("administration refused", user=user.name, address=address, reason="no role for administration")
        raise AdminProblem(403, f"user {user.name} has no role for administration; expected {known}")

    async def issue(self, administrator: Administrator) -> str:
        """A new token for somebody who has logged in."""
        assert self._users is not None
        user = await asyncio.to_thread(self._users.find, administrator.name)
        if user is None:
            raise AdminProblem(401, "the user has been removed")
        now = self._clock()
        self._tokens = {digest: token for digest, token in self._tokens.items() if token.until > now}
        while len(self._tokens) >= MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._tokens[_digest(token)] = LoginToken(user.name, user.hash, now + self.token_seconds)
        return token

    def forget(self, authorization: str | None) -> bool:
        """Have a token be good no longer; False if the request has come without one."""
        scheme, _, token = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and self._tokens.pop(_digest(token.strip()), None) is not None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _decoded(credentials: str) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(credentials, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        raise AdminProblem(401, "Authorization: Basic needs user:password in Base64, of UTF-8") from None
    if not colon:
        raise AdminProblem(401, "Authorization: Basic needs user:password, with a colon between them")
    return name, password
