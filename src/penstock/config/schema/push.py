"""Push notifications, `[push]`, and who gets them: `[push.apple.APP]`, `[push.google.APP]`, `[push.web.APP]`.

Not here: what providers do with these tables (penstock.providers).
Read next: docs/push.md.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import (
    LARGEST,
    Line,
    OptionalLine,
    OptionalPath,
    Positive,
    UrlPath,
    WebAddress,
    ZeroOrMore,
    about,
)

OptionalFile = Annotated[OptionalLine, Meta(extra={"allowed": "the path of a file, or empty"})]


class ApplicationSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What applications of all platforms can be told."""

    triggers: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": "a list of regular expressions"}),
        about(
            "A trigger is accepted if one of these matches all of it, with its arguments as indexes (`$[1]`). Empty:"
            " no triggers."
        ),
    ] = ()
    min_send_delay_millis: Annotated[
        ZeroOrMore, about("Shortest time between two notifications to one device; others wait.")
    ] = 1_000
    time_to_live_seconds: Annotated[
        Positive, about("A notification that could not be delivered for this long is given up.")
    ] = 86_400
    address: Annotated[
        WebAddress,
        about("Address of the provider, if it is not the platform's own, such as that of a proxy or a test."),
    ] = ""
    trusted_ca: Annotated[
        OptionalPath,
        about("File of the authorities that the provider's certificate is checked with; empty: public ones."),
    ] = ""


class AppleSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application for Apple's devices, under its bundle id, or a site for Safari, whose id begins with `web.`."""

    service_level: Annotated[
        Literal["test", "development", "production"],
        about("Where notifications go: `test` to the log only, `development` to the sandbox, or to devices."),
    ] = "test"
    key_file: Annotated[
        OptionalFile, about("File of the signing key (`.p8`), not encrypted; or else `certificate` is needed.")
    ] = ""
    key_id: Annotated[OptionalLine, about("Id of the signing key; needed when `key_file` is set.")] = ""
    team_id: Annotated[OptionalLine, about("Id of the team that has the key; needed when `key_file` is set.")] = ""
    certificate: Annotated[OptionalPath, about("File of the client certificate, instead of a key.")] = ""
    private_key: Annotated[
        OptionalPath, about("File of the certificate's private key, not encrypted; needed when `certificate` is set.")
    ] = ""
    push_package_file: Annotated[
        OptionalFile, about("Zip file that Safari asks for; needed for ids that begin with `web.`, and for no other.")
    ] = ""


class GoogleSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application for devices that Firebase serves, under its package name."""

    service_level: Annotated[
        Literal["test", "dry_run", "production"],
        about("Where notifications go: `test` to the log only, `dry_run` to Google but no further, or to devices."),
    ] = "test"
    service_json_file: Annotated[
        OptionalFile, about("File of the service account that sends; needed unless `service_level` is `test`.")
    ] = ""


class WebSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site whose pages get notifications by Web Push, without any vendor, under a name of its own."""

    service_level: Annotated[
        Literal["test", "production"], about("Where notifications go: `test` to the log only, or to browsers.")
    ] = "test"
    contact: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'an address such as "mailto:ops@example.com" or "https://example.com", or empty'}),
        about("Whom push services can write to; needed unless `service_level` is `test`."),
    ] = ""
    key_file: Annotated[
        OptionalPath, about("File of the site's private key (P-256); empty: one is made and kept in `data_dir/push`.")
    ] = ""


Application: TypeAlias = AppleSection | GoogleSection | WebSection

# The keys of `PushSection` with an application in each table, by platform.
PLATFORM_TABLES = ("apple", "google", "web")


class PushSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Push notifications, for devices that are registered and subscriptions that outlive sessions."""

    enabled: Annotated[bool, about("Whether there are push notifications; if not, requests get error 40.")] = False
    data_adapter: Annotated[
        Line, about("Name of the data adapter, in every adapter set, of items about devices and their subscriptions.")
    ] = "MPN_INTERNAL_DATA_ADAPTER"
    store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about("Database of devices and subscriptions, the same one for all nodes; empty: `data_dir/store.db`."),
    ] = ""
    lease_seconds: Annotated[
        int,
        Meta(ge=3, le=3_600),
        about("A node that has not been heard of for this long loses its devices to others with the same database."),
    ] = 15
    max_devices: Annotated[Positive, about("Devices that may be registered; one more gets error 41.")] = 1_000_000
    max_subscriptions_per_device: Annotated[
        Positive, about("Subscriptions that one device may have; one more gets error 41.")
    ] = 1_000
    max_token_length: Annotated[
        int, Meta(ge=64, le=65_536), about("Longest token of a device, in characters; a longer one gets error 49.")
    ] = 4_096
    max_format_length: Annotated[
        int, Meta(ge=64, le=65_536), about("Longest notification format, in characters; a longer one gets error 49.")
    ] = 8_192
    max_trigger_length: Annotated[
        int, Meta(ge=16, le=10_000), about("Longest trigger, in characters; a longer one gets error 49.")
    ] = 4_096
    max_name_length: Annotated[
        int,
        Meta(ge=16, le=65_536),
        about("Longest group, schema, or name of an application, in characters; a longer one gets error 49."),
    ] = 4_096
    queue_per_device: Annotated[
        Positive,
        about("Notifications that may wait for one device; beyond it the oldest without trigger are dropped."),
    ] = 100
    send_timeout_millis: Annotated[
        Positive, about("A provider that has not answered within this time is asked again later.")
    ] = 30_000
    max_sends: Annotated[
        int,
        Meta(ge=1, le=100_000),
        about("Notifications of one application that are on their way to its provider at the same time."),
    ] = 1_000
    collector_period_minutes: Annotated[
        Positive, about("Time between two searches for devices that nobody uses any more.")
    ] = 60
    device_inactivity_timeout_minutes: Annotated[
        int,
        Meta(ge=1, le=LARGEST),
        about("Devices are deleted after this time without subscriptions, or suspended."),
    ] = 10_080
    safari_path: Annotated[
        UrlPath, about("Path on the API port of the web service that Safari asks for push packages.")
    ] = "/apple_web_service"
    journal: Annotated[bool, about("Whether the journal keeps what was sent to whom, and what became of it.")] = False
    apple: Mapping[Line, AppleSection] = {}
    google: Mapping[Line, GoogleSection] = {}
    web: Mapping[Line, WebSection] = {}

    def applications(self) -> Iterator[tuple[str, str, Application]]:
        """All of them: the table of its platform, its name there, its settings."""
        for table in PLATFORM_TABLES:
            sections: Mapping[str, Application] = getattr(self, table)
            for name, section in sections.items():
                yield table, name, section

    def __post_init__(self) -> None:
        for name in PLATFORM_TABLES:
            force_setattr(self, name, MappingProxyType(getattr(self, name)))

    def __hash__(self) -> int:
        values = [getattr(self, name) for name in self.__struct_fields__ if name not in PLATFORM_TABLES]
        return hash((*values, *self.apple.items(), *self.google.items(), *self.web.items()))
