"""Google's Firebase Cloud Messaging, HTTP v1, with the account of a service.

Not here: who connects (`http`), how access is asked for (`google_access`). Read next: Google's reference of
projects.messages.send and of FCM's error codes; docs/push-providers.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from penstock.providers.answers import json_object, reason_word, retry_after
from penstock.providers.google_access import GoogleAccess, NoAccess, ServiceAccount
from penstock.providers.http import HttpClient, Origin, client_context
from penstock.providers.http2 import HttpFailure, HttpReply
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Notification, Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.http2_headers import packed

PRODUCTION = "https://fcm.googleapis.com"

MAX_PAYLOAD = 4_096
# Google asks for a minute, where it has not said how long to wait.
WAIT_WHEN_TOO_MANY = 60.0

_TOKEN = re.compile(r"[A-Za-z0-9_:.-]{1,4096}")
# What a message may have. Not `token`, `topic` and `condition`: who gets it is not for the format to say.
MESSAGE_KEYS = frozenset({"android", "apns", "data", "fcm_options", "notification", "webpush"})


@dataclass(frozen=True, slots=True)
class FcmSettings:
    application: str
    service_json_file: str
    # Google looks at the notification, and delivers nothing.
    is_dry_run: bool = False
    address: str = PRODUCTION
    trusted_ca: str = ""
    # Seconds.
    timeout: float = 30.0


class FcmProvider:
    """The devices of one application; which project it belongs to is in the file of the service account."""

    platform = Platform.GOOGLE
    max_payload = MAX_PAYLOAD

    def __init__(self, settings: FcmSettings) -> None:
        """Raise ProviderError if a file cannot be read or is not what it should be."""
        self.application = settings.application
        self._settings = settings
        self._origin = Origin.configured(settings.address)
        account = ServiceAccount.read(settings.service_json_file)
        self._client = HttpClient(client_context(settings.trusted_ca), settings.timeout)
        self._use(account)

    def check_token(self, token: str) -> None:
        if not _TOKEN.fullmatch(token):
            raise PushRefusal(
                PushReason.TOKEN, "The token of a Firebase device has letters, digits and the characters _ : . - only"
            )

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in structure.items() if name in MESSAGE_KEYS and value not in ({}, None)}
        if not known:
            raise PushRefusal(
                PushReason.FORMAT_EMPTY,
                f"The notification format has nothing that Firebase knows; it knows {', '.join(sorted(MESSAGE_KEYS))}",
            )
        return known

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        access, path = self._account
        try:
            bearer = await access.bearer(now)
        except HttpFailure as error:
            return Handover(Verdict.RETRY, str(error))
        except NoAccess as error:
            return Handover(error.verdict, str(error), error.retry_after)
        request: dict[str, Any] = {"message": {**json.loads(notification.payload), "token": token}}
        if self._settings.is_dry_run:
            request["validate_only"] = True
        headers = packed([("authorization", bearer), ("content-type", "application/json")])
        body = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            reply = await self._client.post(self._origin, path, headers, body)
        except HttpFailure as error:
            return Handover(Verdict.RETRY, str(error))
        if reply.status == 200:
            return Handover(Verdict.ACCEPTED)
        if reply.status == 401 and access.renew(bearer, now):
            return Handover(Verdict.RETRY, "401: access has ended early", 0.0)
        return handover_of(reply, now)

    def reload(self) -> None:
        account, context = (
            ServiceAccount.read(self._settings.service_json_file),
            client_context(self._settings.trusted_ca),
        )
        self._client.replace_context(context)
        self._use(account)

    async def close(self) -> None:
        await self._account[0].close()
        await self._client.close()

    def _use(self, account: ServiceAccount) -> None:
        path = f"/v1/projects/{quote(account.project, safe='')}/messages:send"
        # Both at once, because this may be another thread than the one that sends.
        self._account = GoogleAccess(account, self._client), path


def handover_of(reply: HttpReply, now: float) -> Handover:
    """What an answer other than success means."""
    error = json_object(reply.body).get("error")
    error = error if isinstance(error, dict) else {}
    code = _code(error)
    said = f"{reply.status} {code or 'without a reason'}"
    wait = retry_after(reply.headers, now)
    if code in ("UNREGISTERED", "SENDER_ID_MISMATCH") or (reply.status == 400 and _is_about_token(error)):
        return Handover(Verdict.GONE, said)
    if reply.status == 429:
        return Handover(Verdict.RETRY, said, WAIT_WHEN_TOO_MANY if wait is None else wait)
    if reply.status >= 500:
        return Handover(Verdict.RETRY, said, wait)
    # 404 without the code of a device is that of the project.
    if reply.status in (401, 403, 404):
        return Handover(Verdict.CREDENTIALS, said)
    return Handover(Verdict.REFUSED, said)


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    found = error.get("details")
    return [detail for detail in found if isinstance(detail, dict)] if isinstance(found, list) else []


def _code(error: dict[str, Any]) -> str:
    """That of FCM if there is one, else that of all of Google's services."""
    for detail in _details(error):
        if code := reason_word(detail.get("errorCode")):
            return code
    return reason_word(error.get("status"))


def _is_about_token(error: dict[str, Any]) -> bool:
    for detail in _details(error):
        violations = detail.get("fieldViolations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict) and violation.get("field") == "message.token":
                return True
    return False
