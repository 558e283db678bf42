"""The provider of the service level `test`: notifications go to the log, so that everything before it can be tried.

It takes any token and any format, because there is no platform that would mind. Read next: TLCP specification,
"Hands-On Example", whose log line this one is.
"""

from __future__ import annotations

from typing import Any

from penstock import log
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Notification, Platform
from penstock.push.refusals import PushReason, PushRefusal

_log = log.get(__name__)

# That of the strictest platform but one, so that what passes here is not too long later.
MAX_PAYLOAD = 4_096


class LogProvider:
    """Payloads are logged, tokens are not."""

    max_payload = MAX_PAYLOAD

    def __init__(self, platform: Platform, application: str) -> None:
        self.platform = platform
        self.application = application
        self._sent = 0

    def check_token(self, token: str) -> None:
        if not token:
            raise PushRefusal(PushReason.TOKEN, "The token of the device is empty")

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        if not structure:
            raise PushRefusal(PushReason.FORMAT_EMPTY, "The notification format is empty")
        return structure

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        self._sent += 1
        _log.info(
            f"Payload for subscription {notification.subscription} with notification ID {self._sent}:"
            f" {notification.payload}",
            application=self.application,
        )
        return Handover(Verdict.ACCEPTED)

    def reload(self) -> None:
        """There is nothing to read again."""

    async def close(self) -> None: ...
