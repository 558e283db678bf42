"""Web Push: notifications to browsers, through the push service that each browser has chosen, without any vendor.

Not here: encryption (`encryption`), how the site signs in (`vapid`), who connects (`http`). Read next: RFC 8030;
docs/push-providers.md.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, generate_private_key

from penstock.providers.answers import json_object, reason_word, retry_after
from penstock.providers.encryption import MAX_PAYLOAD, SALT_LENGTH, SECRET_LENGTH, encrypt, read_point
from penstock.providers.http import HttpClient, Origin, client_context, public_addresses
from penstock.providers.http2 import HttpFailure, HttpReply
from penstock.providers.keys import kept_private_key
from penstock.providers.vapid import Vapid
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Notification, Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.http2_headers import packed

# Those of Chrome, Edge, Firefox and Safari; a leading dot stands for every host below.
PUSH_SERVICES = (
    "fcm.googleapis.com",
    "jmt17.google.com",
    ".notify.windows.com",
    ".push.services.mozilla.com",
    ".push.apple.com",
)

# Of Apple's push service for browsers: what is wrong with our signature. Others answer 401 or 403 to that as well, but
# also if a browser has subscribed with another site's key, which must not stop all other browsers.
_SIGNATURE = frozenset({"BadJwtToken", "ExpiredJwtToken"})


@dataclass(frozen=True, slots=True)
class WebPushSettings:
    application: str
    # Whom push services can write to: mailto: or https:.
    contact: str
    key_file: Path
    # The one push service of a test, which may have a private address; empty: the known ones, at public addresses.
    address: str = ""
    trusted_ca: str = ""
    # Seconds.
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Browser:
    """What a page got from the browser: where to send, and the keys to encrypt with."""

    origin: Origin
    path: str
    key: EllipticCurvePublicKey
    secret: bytes


class WebPushProvider:
    """The browsers of one site. Their token is the JSON text of the page's PushSubscription."""

    platform = Platform.WEB
    max_payload = MAX_PAYLOAD

    def __init__(self, settings: WebPushSettings, services: Sequence[str] = PUSH_SERVICES) -> None:
        """Raise ProviderError if the key can neither be read nor made."""
        self.application = settings.application
        self._settings = settings
        self._services = services
        self._only: Origin | None = None
        if settings.address:
            self._only = Origin.configured(settings.address)
        self._vapid = self._read_vapid()
        resolve = None if self._only else public_addresses
        self._client = HttpClient(client_context(settings.trusted_ca), settings.timeout, resolve)

    @property
    def public_key(self) -> str:
        """For pages: `applicationServerKey`."""
        return self._vapid.public_key

    def check_token(self, token: str) -> None:
        self._read(token)

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        if not structure:
            raise PushRefusal(PushReason.FORMAT_EMPTY, "The notification format is empty")
        # All of it is for the page's service worker.
        return structure

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        try:
            browser = self._read(token)
        except PushRefusal as refusal:
            # It was right when it was registered: the configuration has changed.
            return Handover(Verdict.GONE, refusal.text)
        payload = notification.payload.encode()
        if len(payload) > MAX_PAYLOAD:
            return Handover(Verdict.REFUSED, f"the payload has {len(payload)} bytes; expected at most {MAX_PAYLOAD}")
        body = encrypt(payload, browser.key, browser.secret, generate_private_key(SECP256R1()), os.urandom(SALT_LENGTH))
        headers = packed(
            [
                ("authorization", self._vapid.authorization(browser.origin, now)),
                ("content-encoding", "aes128gcm"),
                ("content-type", "application/octet-stream"),
                ("ttl", str(max(notification.expires_millis // 1000 - int(now), 0))),
                ("urgency", "high"),
            ]
        )
        try:
            reply = await self._client.post(browser.origin, browser.path, headers, body)
        except HttpFailure as error:
            return Handover(Verdict.RETRY, str(error))
        if reply.status in (200, 201, 202, 204):
            return Handover(Verdict.ACCEPTED)
        return handover_of(reply, now)

    def reload(self) -> None:
        vapid, context = self._read_vapid(), client_context(self._settings.trusted_ca)
        self._vapid = vapid
        self._client.replace_context(context)

    async def close(self) -> None:
        await self._client.close()

    def _read(self, token: str) -> Browser:
        """Raise PushRefusal; the token is not in its text, because who has it can send to the browser."""
        try:
            found = json.loads(token)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("keys"), dict):
            raise _wrong('it is not the JSON text of a PushSubscription with "endpoint" and "keys"')
        endpoint, keys = found.get("endpoint"), found["keys"]
        if not isinstance(endpoint, str):
            raise _wrong('"endpoint" is not a text')
        try:
            origin, path = Origin.parse(endpoint)
        except ValueError as error:
            raise _wrong(f'"endpoint" is wrong: {error}') from None
        if not self._is_allowed(origin):
            allowed = self._only.authority if self._only else ", ".join(self._services)
            raise _wrong(f'the host of "endpoint" is not one of the push services that are allowed: {allowed}')
        try:
            key = read_point(_bytes(keys.get("p256dh")))
        except ValueError:
            raise _wrong('"p256dh" in "keys" is not a public key (65 bytes as base64url)') from None
        try:
            secret = _bytes(keys.get("auth"))
        except ValueError:
            secret = b""
        if len(secret) != SECRET_LENGTH:
            raise _wrong(f'"auth" in "keys" is not a secret ({SECRET_LENGTH} bytes as base64url)')
        return Browser(origin, path, key, secret)

    def _is_allowed(self, origin: Origin) -> bool:
        if self._only is not None:
            return origin == self._only
        return origin.port == 443 and any(
            origin.host.endswith(service) if service.startswith(".") else origin.host == service
            for service in self._services
        )

    def _read_vapid(self) -> Vapid:
        return Vapid(kept_private_key(self._settings.key_file), self._settings.contact)


def handover_of(reply: HttpReply, now: float) -> Handover:
    """What an answer other than success means."""
    reason = reason_word(json_object(reply.body).get("reason"))
    said = f"{reply.status} {reason}".rstrip()
    if reason in _SIGNATURE:
        return Handover(Verdict.CREDENTIALS, said)
    if reply.status in (401, 403, 404, 410) or reason == "VapidPkHashMismatch":
        return Handover(Verdict.GONE, said)
    if reply.status == 429 or reply.status >= 500:
        return Handover(Verdict.RETRY, said, retry_after(reply.headers, now))
    return Handover(Verdict.REFUSED, said)


def _bytes(text: object) -> bytes:
    """Base64url, with or without padding. Raises ValueError."""
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("not a text")
    stripped = text.rstrip("=")
    return base64.b64decode(stripped + "=" * (-len(stripped) % 4), altchars=b"-_", validate=True)


def _wrong(why: str) -> PushRefusal:
    return PushRefusal(PushReason.TOKEN, f"The token of the browser is wrong: {why}")
