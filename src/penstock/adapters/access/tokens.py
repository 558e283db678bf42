"""JSON Web Tokens in place of passwords: who has a valid one is the user that it names, until it expires.

Why a token is refused goes to the log at level debug, without the token; the client is never told. Not here: where
keys come from (keys). Specification: RFC 7519, RFC 8725.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jwt
from jwt.exceptions import PyJWTError
from msgspec import Meta, Struct

from penstock.adapters.access.keys import KeyStore, SigningKey, choose, secret_key, source
from penstock.adapters.access.settings import AccessError, allowed, read
from penstock.kernel.ports import ClientFacts
from penstock.log import get

log = get(__name__)

# Longer ones are refused unread.
MAX_TOKEN_CHARACTERS = 8_192
MAX_USER_CHARACTERS = 255

# What the base64 of every header of a token begins with: `{"`.
TOKEN_START = "eyJ"

DEFAULT_ALGORITHMS = ("RS256", "ES256")

NonEmptyText = Annotated[str, Meta(min_length=1)]


class TokenSettings(Struct, frozen=True, kw_only=True):
    """The table `tokens`."""

    keys: Annotated[NonEmptyText, allowed("the path or URL of a JSON Web Key Set")] = ""
    secret_file: Annotated[NonEmptyText, allowed("the path of a file with the secret of HS256")] = ""
    algorithms: Annotated[
        tuple[Literal["RS256", "ES256", "HS256"], ...],
        Meta(min_length=1),
        allowed('a list of "RS256", "ES256", "HS256"'),
    ] = ()
    audience: Annotated[
        NonEmptyText | Annotated[tuple[NonEmptyText, ...], Meta(min_length=1)],
        allowed("the name, or a list of the names, that tokens for this server carry as aud"),
    ]
    issuer: Annotated[NonEmptyText, allowed("the name that tokens carry as iss")] = ""
    leeway_seconds: Annotated[float, Meta(ge=0, le=600), allowed("a number from 0 to 600")] = 30.0
    refresh_seconds: Annotated[float, Meta(ge=10, le=86_400), allowed("a number from 10 to 86400")] = 300.0
    user_claim: Annotated[NonEmptyText, allowed("the name of a claim")] = "sub"
    roles_claim: Annotated[
        NonEmptyText | Annotated[tuple[NonEmptyText, ...], Meta(min_length=1)],
        allowed("the name of a claim, or a list of names that leads to one inside others"),
    ] = "roles"
    header: Annotated[bool, allowed("true or false")] = False


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whom a valid token names, and for how many seconds."""

    user: str
    roles: frozenset[str]
    time_to_live: float


class _Wrong(Exception):
    """A token is not accepted; the text says why, and nothing of the token."""


class TokenChecker:
    """Checks tokens. Lives on one event loop: a signature takes less time to check than a thread to hand it to."""

    def __init__(self, table: object, directory: Path, now: Callable[[], float] = time.time) -> None:
        """Relative paths begin at the directory. Raises AccessError; keys are not looked at before `load`."""
        self.settings = settings = read(TokenSettings, table, "tokens")
        if bool(settings.keys) == bool(settings.secret_file):
            raise AccessError("tokens: expected keys or secret_file, and not both")
        if settings.secret_file and settings.algorithms not in ((), ("HS256",)):
            raise AccessError('tokens: algorithms with secret_file: expected none, or ["HS256"]')
        self._algorithms = ("HS256",) if settings.secret_file else settings.algorithms or DEFAULT_ALGORITHMS
        self._secret_path = directory / settings.secret_file
        self._secret: SigningKey | None = None
        self._store = (
            KeyStore(source(settings.keys, directory), settings.keys, self._algorithms, settings.refresh_seconds)
            if settings.keys
            else None
        )
        self._now = now

    async def load(self) -> None:
        """Read the keys; raises AccessError if there are none."""
        if self._store is None:
            self._secret = secret_key(self._secret_path)
        else:
            await self._store.load()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def of_header(self, client: ClientFacts) -> str | None:
        """The token in the header `Authorization: Bearer …`, where that is allowed."""
        if not self.settings.header:
            return None
        scheme, _, token = client.headers.get("authorization", "").partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None

    async def identify(self, token: str) -> Bearer | None:
        """Whom the token names; None if it is not valid, whatever the reason."""
        try:
            return await self._identify(token)
        except _Wrong as problem:
            log.debug("token refused", reason=str(problem))
        except (PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # The text of these may hold parts of the token.
            log.debug("token refused", reason=type(error).__name__)
        return None

    async def _identify(self, token: str) -> Bearer:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise _Wrong(f"longer than {MAX_TOKEN_CHARACTERS} characters")
        header = jwt.get_unverified_header(token)
        if "crit" in header:
            raise _Wrong("has critical headers")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise _Wrong("signed by an algorithm that is not allowed")
        key = await self._find(algorithm, header.get("kid"))
        if key is None:
            raise _Wrong("signed with an unknown key")
        claims = jwt.decode(
            token,
            key.material,
            # The key's, whatever the token says.
            algorithms=[key.algorithm],
            audience=self.settings.audience,
            issuer=self.settings.issuer or None,
            leeway=self.settings.leeway_seconds,
            options={"require": ["exp"]},
        )
        lasts_until = int(claims["exp"]) + self.settings.leeway_seconds
        return Bearer(self._user(claims), self._roles(claims), max(0.0, lasts_until - self._now()))

    async def _find(self, algorithm: str, identifier: str | None) -> SigningKey | None:
        if self._store is not None:
            return await self._store.find(algorithm, identifier)
        return None if self._secret is None else choose([self._secret], algorithm, identifier)

    def _user(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self.settings.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_CHARACTERS or not user.isprintable():
            raise _Wrong(f"the claim {self.settings.user_claim} is not a name")
        return user

    def _roles(self, claims: Mapping[str, Any]) -> frozenset[str]:
        path = self.settings.roles_claim
        found: Any = claims
        for name in (path,) if isinstance(path, str) else path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            # As in `scope`.
            found = found.split()
        if found is None:
            return frozenset()
        if not isinstance(found, list) or not all(isinstance(role, str) for role in found):
            raise _Wrong("the claim with the roles is not a list of names")
        return frozenset(found)


def looks_like_token(password: str) -> bool:
    """Tells tokens from passwords where both are accepted."""
    return password.startswith(TOKEN_START) and password.count(".") == 2
