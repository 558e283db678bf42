"""Access to Google's services: a signed request of a service account, and the token that it is given for an hour.

Not here: what is asked with it (`fcm`). Read next: RFC 7523, and Google's "Using OAuth 2.0 for server to server
applications".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from penstock.providers.answers import json_object, reason_word, retry_after
from penstock.providers.errors import ProviderError
from penstock.providers.http import HttpClient, Origin
from penstock.providers.keys import parse_private_key
from penstock.push.ports import Verdict
from penstock.wire.http2_headers import packed

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# How long our request for access is good, and what is assumed of an answer that does not say how long access lasts.
HOUR = 3_600
# Access is asked for again this long before its end, in seconds.
MARGIN = 300.0

_NEEDED = ("client_email", "private_key", "private_key_id", "project_id", "token_uri")
# What a header can carry.
_ACCESS_TOKEN = re.compile(r"[!-~]{1,8192}")


class NoAccess(Exception):
    """Google gives none. The text has nothing secret."""

    def __init__(self, verdict: Verdict, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.verdict = verdict
        self.retry_after = wait


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """What the file from Google's console says."""

    project: str
    email: str
    key_id: str
    token_address: str
    key: RSAPrivateKey = field(repr=False)

    @staticmethod
    def read(path: str) -> ServiceAccount:
        """Raise ProviderError; nothing of the key is in it."""
        try:
            found: Any = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise ProviderError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise ProviderError(f"{path} is not JSON") from None
        values = found if isinstance(found, dict) else {}
        for name in _NEEDED:
            if not isinstance(values.get(name), str) or not values[name]:
                raise ProviderError(f"{path} has no text {name!r}; expected the file of a service account")
        key = parse_private_key(values["private_key"].encode(), f"'private_key' of {path}")
        if not isinstance(key, RSAPrivateKey):
            raise ProviderError(f"'private_key' of {path} is not an RSA key")
        try:
            Origin.parse(values["token_uri"])
        except ValueError as error:
            raise ProviderError(f"'token_uri' of {path} is wrong: {error}") from None
        return ServiceAccount(
            values["project_id"], values["client_email"], values["private_key_id"], values["token_uri"], key
        )


class GoogleAccess:
    """The token for one account, asked for once for all who need it."""

    def __init__(self, account: ServiceAccount, client: HttpClient) -> None:
        self._account = account
        self._client = client
        self._bearer = ""
        self._since = 0.0
        self._until = 0.0
        self._request: asyncio.Task[str] | None = None

    async def bearer(self, now: float) -> str:
        """The header. Raises NoAccess and HttpFailure."""
        if self._since <= now < self._until:
            return self._bearer
        if self._request is None:
            self._request = asyncio.get_running_loop().create_task(self._ask(now))
            self._request.add_done_callback(self._asked)
        return await asyncio.shield(self._request)

    def renew(self, bearer: str, now: float) -> bool:
        """Google does not take it any more: ask again; False if it was new, so that another one would not help."""
        if bearer != self._bearer:
            return True
        if now - self._since < MARGIN:
            return False
        self._until = 0.0
        return True

    async def close(self) -> None:
        if self._request is not None:
            self._request.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._request

    def _asked(self, task: asyncio.Task[str]) -> None:
        self._request = None
        if not task.cancelled():
            # Looked at here, because everyone who waited may have given up.
            task.exception()

    async def _ask(self, now: float) -> str:
        account = self._account
        claims = {
            "iss": account.email,
            "scope": SCOPE,
            "aud": account.token_address,
            "iat": int(now),
            "exp": int(now) + HOUR,
        }
        assertion = jwt.encode(claims, account.key, algorithm="RS256", headers={"kid": account.key_id})
        origin, path = Origin.parse(account.token_address)
        headers = packed([("content-type", "application/x-www-form-urlencoded")])
        body = urlencode({"grant_type": GRANT, "assertion": assertion}).encode()
        reply = await self._client.post(origin, path, headers, body)
        answer = json_object(reply.body)
        if reply.status != 200:
            said = f"no access: {reply.status} {reason_word(answer.get('error')) or 'without a reason'}"
            passing = reply.status == 429 or reply.status >= 500
            verdict = Verdict.RETRY if passing else Verdict.CREDENTIALS
            raise NoAccess(verdict, said, retry_after(reply.headers, now))
        token, lasts = answer.get("access_token"), answer.get("expires_in", HOUR)
        if not isinstance(token, str) or not _ACCESS_TOKEN.fullmatch(token) or not isinstance(lasts, (int, float)):
            raise NoAccess(Verdict.RETRY, "no access: the answer has no token")
        self._bearer = f"Bearer {token}"
        self._since, self._until = now, now + max(lasts - MARGIN, 0.0)
        return self._bearer
