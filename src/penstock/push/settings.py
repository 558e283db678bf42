"""The numbers of push notifications: limits of requests, what is sent how fast, when it is given up.

What happens at each limit is described here; it is done in `registry`, `flows` and `sending`. Where the values come
from is `penstock.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.push.records import DeviceKey, Platform


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """Of one application of one platform."""

    # Bytes of a payload as UTF-8; a larger one is dropped before it is sent.
    max_payload: int = 4_096
    # Shortest time between two notifications to one device; others wait.
    min_send_delay_millis: int = 1_000
    # A notification that could not be delivered for this long is given up.
    time_to_live_millis: int = 86_400_000

    def __post_init__(self) -> None:
        _check("max_payload", self.max_payload, 1)
        _check("min_send_delay_millis", self.min_send_delay_millis, 0)
        _check("time_to_live_millis", self.time_to_live_millis, 1)


@dataclass(frozen=True, slots=True)
class PushSettings:
    """Of the whole module."""

    # Those that devices may be registered for.
    applications: Mapping[tuple[Platform, str], ApplicationSettings] = field(default_factory=dict)

    # One more is refused with UNAVAILABLE.
    max_devices: int = 1_000_000
    max_subscriptions_per_device: int = 1_000

    # Characters; a longer one is refused with TOO_LONG. A name is that of an application, a group or a schema.
    max_token_length: int = 4_096
    max_format_length: int = 8_192
    max_trigger_length: int = 4_096
    max_name_length: int = 4_096

    # A device that was suspended, or has had no active subscription, for this long is deleted.
    inactivity_millis: int = 10_080 * 60_000

    # States that a subscription with a frequency limit holds at most, also if its buffer is unlimited; beyond it the
    # oldest is dropped.
    max_buffer: int = 100
    # Notifications that wait for one device; beyond it the oldest without a trigger is dropped.
    queue_per_device: int = 100
    # The wait after the first failure; it doubles with each that follows, up to the longest.
    first_retry_millis: int = 1_000
    longest_retry_millis: int = 300_000
    # An application with wrong credentials tries one notification this often.
    credentials_retry_millis: int = 60_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "applications":
                _check(name, getattr(self, name), 1)

    def application(self, key: DeviceKey) -> ApplicationSettings | None:
        """Those of the device's application; None if it is not configured (any more)."""
        return self.applications.get((key.platform, key.application))


def _check(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}; it must be {least} or more")
