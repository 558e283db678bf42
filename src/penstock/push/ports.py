"""What the rules need from the world, as protocols: providers. Implementations are in `penstock.providers`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.push.records import Notification, Platform


class Verdict(Enum):
    """What became of a notification at its provider."""

    ACCEPTED = auto()
    # Not now: the provider is away, overloaded, or wants less; the same may succeed later.
    RETRY = auto()
    # Never: the provider does not take this notification. Others of the device may still succeed.
    REFUSED = auto()
    # The device does not exist any more: it is suspended.
    GONE = auto()
    # The credentials are wrong or expired: nothing of this application succeeds until somebody mends them.
    CREDENTIALS = auto()


@dataclass(frozen=True, slots=True)
class Handover:
    """What a provider answered; `reason` is for logs and people, without secrets and without the device's token."""

    verdict: Verdict
    reason: str = ""
    # Seconds to wait before the next attempt, if the provider says so.
    retry_after: float | None = None


class Provider(Protocol):
    """Sends notifications to the devices of one application. `send` never raises, and it gives up by itself."""

    @property
    def platform(self) -> Platform: ...

    @property
    def application(self) -> str: ...

    @property
    def max_payload(self) -> int:
        """Bytes that a payload may have as UTF-8."""

    def check_token(self, token: str) -> None:
        """Raise PushRefusal for a token that the platform cannot have given."""

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        """The notification format, parsed, without what the platform does not know; raise PushRefusal if useless."""

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        """`now` is in seconds since 1970. A notification with the same id may be sent again after a crash."""

    async def close(self) -> None: ...
