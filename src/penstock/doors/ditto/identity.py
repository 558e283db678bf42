"""Authentication: the credentials of a request, checked by the metadata adapter of an adapter set, become a subject.

Users, passwords and tokens belong to the adapter; here they are read from headers, and policies name their owners
`nginx:USER` for a password and `ISSUER:USER` for a token. Read next: docs/ditto.md, "Who is who".
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, Protocol

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.ports import Admission, ClientFacts, Grant, SessionFacts, Wish
from penstock.twins.command import Caller
from penstock.wire.ditto.errors import AUTHENTICATION_FAILED, DittoError, ErrorEntry

# The issuer of subjects with a password in policies: upstream has nginx check them.
BASIC_ISSUER = "nginx"

# The only user of the demo, for programs on the same machine.
DEMO_USER = DEMO_PASSWORD = "ditto"

# Seconds for which valid credentials are cached, because checking a password is slow on purpose.
REMEMBERED_SECONDS = 30.0
MAX_REMEMBERED = 1024

# The only answer to a client that is not admitted: it does not say what was wrong.
NOT_ADMITTED = "The credentials are missing or wrong."

UNAVAILABLE: Final = ErrorEntry(
    503,
    "gateway:authentication.provider.unavailable",
    "The authentication provider is not available.",
    "If after retry it is still unavailable, please contact the service team.",
)


class Judge(Protocol):
    """An adapter set's metadata adapter, as this door needs it."""

    @property
    def vouches(self) -> bool:
        """Whether it authenticates clients."""

    @property
    def is_constant(self) -> bool:
        """Whether its answer depends only on user and password, not on other facts about the client."""

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission: ...

    async def judge(self, session: SessionFacts, wish: Wish) -> Grant:
        """What a session would be granted; raises a Refusal."""


@dataclass(frozen=True, slots=True)
class ShownCredentials:
    """What a client has presented. A token comes without a user."""

    user: str | None
    password: str = field(repr=False)
    client: ClientFacts = field(repr=False)

    @property
    def is_token(self) -> bool:
        return self.user is None or _looks_like_token(self.password)


@dataclass(frozen=True, slots=True)
class Login:
    """An authenticated client; one for each request, or for as long as a connection lasts.

    `time_to_live` is the number of seconds after which it expires; None means never.
    """

    caller: Caller
    credentials: ShownCredentials
    time_to_live: float | None = None


class DittoIdentity:
    """`judge_of` finds the metadata adapter of a set that is being served.

    Without an adapter set there is one user, that of the demo, and only for clients on this machine (`is_local`).
    """

    def __init__(
        self,
        judge_of: Callable[[str], Judge | None],
        adapter_set: str,
        issuer: str,
        is_local: Callable[[ClientFacts], bool],
        clock: Callable[[], float] = time.monotonic,
        pre_authenticated: str = "",
    ) -> None:
        """`pre_authenticated` is the header, in lower case, by which proxies name users; empty if there is none."""
        self._pre_authenticated = pre_authenticated
        self._judge_of = judge_of
        self._clock = clock
        self._is_local = is_local
        self._adapter_set = adapter_set
        self._issuer = issuer
        self._key = os.urandom(32)
        self._remembered: OrderedDict[bytes, tuple[float, Admission]] = OrderedDict()

    async def authenticate(self, headers: Mapping[str, str], client: ClientFacts, origin: object = None) -> Login:
        """Who sends a request with these headers, by names in lower case; raises 401, or 503 if that is unknown."""
        if self._pre_authenticated and self._pre_authenticated in headers:
            names = _subjects(headers[self._pre_authenticated])
            if not client.is_from_proxy or not names:
                told = "must name subjects such as nginx:alice" if client.is_from_proxy else "is for proxies only"
                raise AUTHENTICATION_FAILED.of(f"The header '{self._pre_authenticated}' {told}.")
            return Login(Caller(names, origin), ShownCredentials(None, "", client))
        return await self.login(_credentials(headers.get("authorization", ""), client), origin)

    async def login(self, credentials: ShownCredentials, origin: object = None) -> Login:
        subject, _, time_to_live = await self.identify(credentials)
        return Login(Caller((subject,), origin), credentials, time_to_live)

    async def identify(self, credentials: ShownCredentials) -> tuple[str, str, float | None]:
        """The subject, the user's name and how long that lasts; raises 401, or 503 if it cannot be checked."""
        if not self._adapter_set:
            return f"{BASIC_ISSUER}:{self._demo_user(credentials)}", DEMO_USER, None
        judge = self._judge_of(self._adapter_set)
        if judge is not None and not judge.vouches:
            # This happens only after a reload of the configuration; a start is refused.
            raise UNAVAILABLE.of()
        try:
            admission = await self.admit(self._adapter_set, credentials)
        except Refusal as refusal:
            if refusal.reason in (Reason.AUTHORITY_UNAVAILABLE, Reason.AUTHORITY_ERROR, Reason.ADAPTER_SET):
                raise UNAVAILABLE.of() from None
            raise AUTHENTICATION_FAILED.of(NOT_ADMITTED) from None
        # An adapter that returns no name has accepted the one it was given.
        user = admission.user if admission.user is not None else credentials.user
        if not user:
            raise AUTHENTICATION_FAILED.of(NOT_ADMITTED)
        return f"{self._issuer if credentials.is_token else BASIC_ISSUER}:{user}", user, admission.time_to_live

    async def admission(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        """The same for a session of the adapter set of things, which knows refusals: its roles are the subject."""
        try:
            subject, name, time_to_live = await self.identify(ShownCredentials(user or None, password or "", client))
        except DittoError as error:
            reason = Reason.CREDENTIALS if error.status == 401 else Reason.AUTHORITY_UNAVAILABLE
            raise Refusal(reason, error.message) from None
        return Admission(user=name, roles=frozenset((subject,)), time_to_live=time_to_live)

    async def admit(self, adapter_set: str, credentials: ShownCredentials) -> Admission:
        """What a set's metadata adapter grants for these credentials; raises a Refusal. Admissions are cached."""
        judge = self._judge_of(adapter_set)
        if judge is None:
            raise Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {adapter_set[:60]}")
        user, password, client = credentials.user, credentials.password, credentials.client
        if not judge.is_constant:
            return await judge.authenticate(user, password, client)
        key = self._digest(adapter_set, user, password)
        now = self._clock()
        found = self._remembered.get(key)
        if found is not None and found[0] > now:
            return _since(found[1], REMEMBERED_SECONDS - (found[0] - now))
        admission = await judge.authenticate(user, password, client)
        self._remembered[key] = now + REMEMBERED_SECONDS, admission
        self._remembered.move_to_end(key)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return admission

    def _demo_user(self, credentials: ShownCredentials) -> str:
        """Its password is public, so clients on other machines cannot use it."""
        given = f"{credentials.user}\0{credentials.password}".encode("utf-8", "surrogatepass")
        known = f"{DEMO_USER}\0{DEMO_PASSWORD}".encode()
        if not hmac.compare_digest(given, known) or not self._is_local(credentials.client):
            raise AUTHENTICATION_FAILED.of(NOT_ADMITTED)
        return DEMO_USER

    def _digest(self, adapter_set: str, user: str | None, password: str) -> bytes:
        """Passwords themselves are not kept. The key is random for each process: a digest is useless elsewhere."""
        parts = [part.encode("utf-8", "surrogatepass") for part in (adapter_set, user or "", password)]
        text = b"".join([len(part).to_bytes(4, "big") + part for part in parts]) + bytes([user is None])
        return blake2b(text, key=self._key).digest()


def _since(admission: Admission, seconds: float) -> Admission:
    if admission.time_to_live is None:
        return admission
    left = admission.time_to_live - seconds
    if left <= 0:
        raise Refusal(Reason.CREDENTIALS, NOT_ADMITTED)
    return replace(admission, time_to_live=left)


def _credentials(header: str, client: ClientFacts) -> ShownCredentials:
    """Raises 401."""
    scheme, _, rest = header.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer" and rest:
        return ShownCredentials(None, rest, client)
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise AUTHENTICATION_FAILED.of(NOT_ADMITTED) from None
        if colon and user and password:
            return ShownCredentials(user, password, client)
    raise AUTHENTICATION_FAILED.of(NOT_ADMITTED)


def _subjects(header: str) -> tuple[str, ...]:
    """Subjects with their issuers; () if one is not."""
    names = tuple([name.strip() for name in header.split(",") if name.strip()])
    return names if all(name.partition(":")[0] and name.partition(":")[2] for name in names) else ()


def _looks_like_token(password: str) -> bool:
    return password.startswith("eyJ") and password.count(".") == 2
