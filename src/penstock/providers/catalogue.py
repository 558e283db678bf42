"""The providers of the configuration: one for each application of each platform.

Those that need HTTP/2 and cryptography are imported only when one of them is made, because these are an extra. Not
here: what a provider does with its settings. Read next: docs/push-providers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from penstock.config.schema.push import AnyApplicationSection, AppleSection, GoogleSection, PushSection, WebSection
from penstock.providers.errors import ProviderError
from penstock.providers.log import LogProvider
from penstock.providers.ports import ReloadableProvider
from penstock.push.records import Platform

if TYPE_CHECKING:
    from penstock.providers.safari import SafariService

Providers: TypeAlias = Mapping[tuple[Platform, str], ReloadableProvider]

# The directory of made keys, below that of the data.
KEYS = "push"
MILLIS = 1_000


def make_providers(push: PushSection, data_dir: Path | None) -> Providers:
    """Raise ProviderError, which names the table, at the first that cannot be made. Reads files, and may make keys.

    Needs no event loop. Who has them closes each of them.
    """
    made: dict[tuple[Platform, str], ReloadableProvider] = {}
    for table, application, section in push.applications():
        platform = platform_of(table)
        try:
            made[platform, application] = _make(platform, application, section, push, data_dir)
        except ProviderError as error:
            raise ProviderError(f'push.{table}."{application}": {error}') from None
    return made


def platform_of(table: str) -> Platform:
    """Whose applications a table of the configuration has."""
    return Platform(table.capitalize())


def safari_service(providers: Providers) -> SafariService | None:
    """What answers Safari's requests; None if there is no site for it, and so nothing to serve."""
    if all(isinstance(provider, LogProvider) for provider in providers.values()):
        return None
    from penstock.providers.safari import SafariProvider, SafariService

    sites = {name: provider for (_, name), provider in providers.items() if isinstance(provider, SafariProvider)}
    return SafariService(sites) if sites else None


def _make(
    platform: Platform, application: str, section: AnyApplicationSection, push: PushSection, data_dir: Path | None
) -> ReloadableProvider:
    if section.service_level == "test":
        return LogProvider(platform, application)
    timeout = push.send_timeout_millis / MILLIS
    try:
        if isinstance(section, AppleSection):
            return _make_apple(application, section, timeout)
        if isinstance(section, GoogleSection):
            return _make_google(application, section, timeout)
        return _make_web(application, section, timeout, data_dir)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("hpack", "cryptography"):
            raise
        raise ProviderError(
            f"the service level {section.service_level} needs the extra push: pip install 'penstock[push]'"
        ) from None


def _make_apple(application: str, section: AppleSection, timeout: float) -> ReloadableProvider:
    from penstock.providers.apns import PRODUCTION, SANDBOX, ApnsProvider, ApnsSettings
    from penstock.providers.safari import SITE_PREFIX, SafariProvider

    settings = ApnsSettings(
        application=application,
        address=section.address or (PRODUCTION if section.service_level == "production" else SANDBOX),
        key_file=section.key_file,
        key_id=section.key_id,
        team_id=section.team_id,
        certificate=section.certificate,
        private_key=section.private_key,
        trusted_ca=section.trusted_ca,
        timeout=timeout,
    )
    if not application.startswith(SITE_PREFIX):
        return ApnsProvider(settings)
    if section.service_level == "development":
        raise ProviderError("expected the service level test or production, because Safari has no sandbox")
    return SafariProvider(settings, section.push_package_file)


def _make_google(application: str, section: GoogleSection, timeout: float) -> ReloadableProvider:
    from penstock.providers.fcm import PRODUCTION, FcmProvider, FcmSettings

    return FcmProvider(
        FcmSettings(
            application=application,
            service_json_file=section.service_json_file,
            is_dry_run=section.service_level == "dry_run",
            address=section.address or PRODUCTION,
            trusted_ca=section.trusted_ca,
            timeout=timeout,
        )
    )


def _make_web(application: str, section: WebSection, timeout: float, data_dir: Path | None) -> ReloadableProvider:
    from penstock.providers.webpush import WebPushProvider, WebPushSettings

    if section.key_file:
        key_file = Path(section.key_file)
        if not key_file.exists():
            raise ProviderError(f"cannot read {key_file}: No such file or directory")
    elif data_dir is not None:
        # The name may have any characters.
        key_file = data_dir / KEYS / f"{quote(application, safe='')}.pem"
    else:
        raise ProviderError("expected key_file to be set, because there is no data directory")
    return WebPushProvider(
        WebPushSettings(
            application=application,
            contact=section.contact,
            key_file=key_file,
            address=section.address,
            trusted_ca=section.trusted_ca,
            timeout=timeout,
        )
    )
