"""From the configuration of push notifications to the numbers of the rules and the patterns of triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.config import PushSection
from penstock.providers.catalogue import platform_of
from penstock.push.ports import Provider
from penstock.push.sending import ApplicationKey
from penstock.push.settings import ApplicationSettings, PushSettings
from penstock.push.trigger.pattern import RegularExpression

MILLIS = 1_000
MINUTE = 60 * MILLIS


def settings_of(section: PushSection, providers: Mapping[ApplicationKey, Provider]) -> PushSettings:
    return PushSettings(
        {
            (key := (platform_of(table), name)): ApplicationSettings(
                providers[key].max_payload,
                application.min_send_delay_millis,
                application.time_to_live_seconds * MILLIS,
            )
            for table, name, application in section.applications()
        },
        max_devices=section.max_devices,
        max_subscriptions_per_device=section.max_subscriptions_per_device,
        max_token_length=section.max_token_length,
        max_format_length=section.max_format_length,
        max_trigger_length=section.max_trigger_length,
        max_name_length=section.max_name_length,
        inactivity_millis=section.device_inactivity_timeout_minutes * MINUTE,
        queue_per_device=section.queue_per_device,
    )


def triggers_of(section: PushSection) -> dict[ApplicationKey, Sequence[RegularExpression]]:
    """The triggers that each application accepts; the configuration has checked them."""
    return {
        (platform_of(table), name): [RegularExpression(text) for text in application.triggers]
        for table, name, application in section.applications()
    }
