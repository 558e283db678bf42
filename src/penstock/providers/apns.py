"""Apple's push service: HTTP/2 requests that are signed with a key, or by a client certificate.

Not here: who connects (`http`), sites for Safari (`safari`). Read next: Apple's "Sending notification requests to APNs"
and "Handling notification responses from APNs"; docs/push-providers.md.
"""

from __future__ import annotations

import json
import re
import ssl
import uuid
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey

from penstock.providers.answers import json_object, reason_word, retry_after
from penstock.providers.errors import ProviderError
from penstock.providers.http import HttpClient, Origin, client_context
from penstock.providers.http2 import HttpFailure, HttpReply
from penstock.providers.keys import read_private_key
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Notification, Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.http2_headers import packed

PRODUCTION = "https://api.push.apple.com"
SANDBOX = "https://api.sandbox.push.apple.com"

MAX_PAYLOAD = 4_096
# Apple takes a signature for an hour, and no new one more often than every 20 minutes.
RENEW_SIGNATURE = 50 * 60
SHORTEST_SIGNATURE = 20 * 60

# Today's have 64 digits; Apple says that they may become longer. One for pairs of digits takes three times as long.
_TOKEN = re.compile(r"[0-9A-Fa-f]{32,200}")
# As the server makes them.
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# An id that is no UUID becomes one, always the same.
_IDS: Final = uuid.UUID("6f8b8e0c-7f61-4e0a-9d0d-5c1d0d3b6c11")

APS_KEYS = frozenset(
    {
        "alert", "attributes", "attributes-type", "badge", "category", "content-available", "content-state",
        "dismissal-date", "event", "filter-criteria", "interruption-level", "mutable-content", "relevance-score",
        "sound", "stale-date", "target-content-id", "thread-id", "timestamp", "url-args",
    }
)  # fmt: skip
_SEEN = ("alert", "badge", "sound")

# The device, or its application on it, is not there any more, or never was at this service level.
GONE = frozenset({"BadDeviceToken", "DeviceTokenNotForTopic", "ExpiredToken", "Unregistered"})
# The configuration or the key is wrong, for all devices.
CREDENTIALS = frozenset(
    {
        "BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadTopic", "Forbidden",
        "InvalidProviderToken", "MissingProviderToken", "MissingTopic", "TopicDisallowed",
        "UnrelatedKeyIdInToken",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApnsSettings:
    """Either a key with its two ids, or a certificate. `address` is that of the service level, or of a test."""

    application: str
    address: str
    key_file: str = ""
    key_id: str = ""
    team_id: str = ""
    certificate: str = ""
    private_key: str = ""
    trusted_ca: str = ""
    # Seconds.
    timeout: float = 30.0


class TeamSignature:
    """The token that stands for the team, and when it was made."""

    def __init__(self, key: EllipticCurvePrivateKey, key_id: str, team_id: str) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._made = -float(RENEW_SIGNATURE)
        self._header = b""

    def header(self, now: float) -> bytes:
        """Packed."""
        # A clock that was set back makes a signature that Apple would find in the future.
        if not 0 <= now - self._made < RENEW_SIGNATURE:
            self._sign(now)
        return self._header

    def renew(self, now: float) -> bool:
        """Make a new one, because Apple calls it expired; False if the last one is too new to be replaced."""
        if 0 <= now - self._made < SHORTEST_SIGNATURE:
            return False
        self._sign(now)
        return True

    def _sign(self, now: float) -> None:
        claims = {"iss": self._team_id, "iat": int(now)}
        signature = jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._key_id})
        self._header = packed([("authorization", f"bearer {signature}")])
        self._made = now


class ApnsProvider:
    """The devices of one application, whose id is the topic of its notifications."""

    platform = Platform.APPLE
    max_payload = MAX_PAYLOAD

    def __init__(self, settings: ApnsSettings) -> None:
        """Raise ProviderError if a file cannot be read or is not what it should be."""
        self.application = settings.application
        self._settings = settings
        self._origin = Origin.configured(settings.address)
        self._topic = packed([("apns-topic", settings.application)])
        self._signature = self._read_signature()
        self._client = HttpClient(self._read_context(), settings.timeout)

    def check_token(self, token: str) -> None:
        if not _is_token(token):
            raise PushRefusal(
                PushReason.TOKEN, "The token of an Apple device is an even number of 32 to 200 hexadecimal digits"
            )

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        aps = structure.get("aps")
        if not isinstance(aps, dict):
            raise PushRefusal(PushReason.FORMAT_EMPTY, 'The notification format has no object "aps"')
        known = {name: value for name, value in aps.items() if name in APS_KEYS}
        if not known:
            raise PushRefusal(
                PushReason.FORMAT_EMPTY,
                f'"aps" of the notification format has nothing that Apple knows: {", ".join(sorted(APS_KEYS))}',
            )
        # Everything beside "aps" is the application's own.
        return {**structure, "aps": known}

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        if not _is_token(token):
            # It was registered while the application had the service level `test`, which takes any.
            return Handover(Verdict.GONE, "the token is not one of Apple's")
        expires = str(notification.expires_millis // 1000)
        headers = (
            self._topic
            + _kind(notification.payload)
            + packed([("apns-id", _uuid(notification.id)), ("apns-expiration", expires)])
        )
        if self._signature is not None:
            headers += self._signature.header(now)
        try:
            reply = await self._client.post(self._origin, f"/3/device/{token}", headers, notification.payload.encode())
        except HttpFailure as error:
            return Handover(Verdict.RETRY, str(error))
        if reply.status == 200:
            return Handover(Verdict.ACCEPTED)
        return self._refused(reply, now)

    def reload(self) -> None:
        signature, context = self._read_signature(), self._read_context()
        self._signature = signature
        self._client.replace_context(context)

    async def close(self) -> None:
        await self._client.close()

    def _refused(self, reply: HttpReply, now: float) -> Handover:
        reason = reason_word(json_object(reply.body).get("reason"))
        said = f"{reply.status} {reason or 'without a reason'}"
        wait = retry_after(reply.headers, now)
        if reason == "ExpiredProviderToken":
            if self._signature is not None and self._signature.renew(now):
                return Handover(Verdict.RETRY, said, 0.0)
            # It was made a moment ago: either the clock is wrong, or others of the same moment have had it renewed.
            return Handover(Verdict.RETRY, f"{said}; is the clock of this machine right?", wait)
        if reason in GONE or reply.status == 410:
            return Handover(Verdict.GONE, said)
        if reason in CREDENTIALS or reply.status in (401, 403):
            return Handover(Verdict.CREDENTIALS, said)
        if reply.status == 429 or reply.status >= 500:
            return Handover(Verdict.RETRY, said, wait)
        return Handover(Verdict.REFUSED, said)

    def _read_signature(self) -> TeamSignature | None:
        settings = self._settings
        if not settings.key_file:
            return None
        key = read_private_key(settings.key_file)
        if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
            raise ProviderError(f"{settings.key_file} has no key for ES256 (P-256), as those of Apple are")
        return TeamSignature(key, settings.key_id, settings.team_id)

    def _read_context(self) -> ssl.SSLContext:
        settings = self._settings
        return client_context(settings.trusted_ca, settings.certificate, settings.private_key)


_ALERT: Final = packed([("apns-push-type", "alert"), ("apns-priority", "10")])
_BACKGROUND: Final = packed([("apns-push-type", "background"), ("apns-priority", "5")])


def _kind(payload: str) -> bytes:
    """Type and priority, which Apple wants to fit what a device does with it: show it, or wake the application."""
    # Most have one of these names; whether it stands where it counts is looked at only for those that may be silent.
    if '"content-available"' in payload:
        aps = json.loads(payload)["aps"]
        if not any(name in aps for name in _SEEN):
            return _BACKGROUND
    return _ALERT


def _is_token(text: str) -> bool:
    return len(text) % 2 == 0 and _TOKEN.fullmatch(text) is not None


def _uuid(text: str) -> str:
    if _UUID.fullmatch(text):
        return text
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid5(_IDS, text))
