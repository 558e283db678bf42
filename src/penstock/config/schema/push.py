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
        Positive, about("A notification that could not be delivered within this time is dropped.")
    ] = 86_400
    address: Annotated[
        WebAddress,
        about("Address of the provider if it is not the platform's own, such as a proxy or a test server."),
    ] = ""
    trusted_ca: Annotated[
        OptionalPath,
        about("File with the certificate authorities (CAs) for the provider's certificate; empty = the public ones."),
    ] = ""


class AppleSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application for Apple's devices, named by its bundle id, or a site for Safari, whose id begins with `web.`."""

    service_level: Annotated[
        Literal["test", "development", "production"],
        about("Where notifications go: `test` only to the log, `development` to the sandbox, `production` to devices."),
    ] = "test"
    key_file: Annotated[
        OptionalFile, about("File with the signing key (`.p8`), not encrypted; without it `certificate` is required.")
    ] = ""
    key_id: Annotated[OptionalLine, about("Id of the signing key; required if `key_file` is set.")] = ""
    team_id: Annotated[OptionalLine, about("Id of the team that owns the key; required if `key_file` is set.")] = ""
    certificate: Annotated[OptionalPath, about("File with the client certificate, instead of a key.")] = ""
    private_key: Annotated[
        OptionalPath, about("File with the certificate's private key, not encrypted; required if `certificate` is set.")
    ] = ""
    push_package_file: Annotated[
        OptionalFile,
        about("Push package (zip file) for Safari; required for ids that begin with `web.`, and not used for others."),
    ] = ""


class GoogleSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application for devices that Firebase serves, named by its package name."""

    service_level: Annotated[
        Literal["test", "dry_run", "production"],
        about(
            "Where notifications go: `test` only to the log, `dry_run` only to Google, which checks them, "
            "`production` to devices."
        ),
    ] = "test"
    service_json_file: Annotated[
        OptionalFile, about("File with the service account that sends; required unless `service_level` is `test`.")
    ] = ""


class WebSection(ApplicationSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site whose pages get notifications by Web Push, without a vendor account; its name is your choice."""

    service_level: Annotated[
        Literal["test", "production"],
        about("Where notifications go: `test` only to the log, `production` to browsers."),
    ] = "test"
    contact: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'an address such as "mailto:ops@example.com" or "https://example.com", or empty'}),
        about("Contact address for the operators of push services; required unless `service_level` is `test`."),
    ] = ""
    key_file: Annotated[
        OptionalPath,
        about("File with the site's private key (P-256); empty = one is generated and stored in `data_dir/push`."),
    ] = ""


AnyApplicationSection: TypeAlias = AppleSection | GoogleSection | WebSection

# The keys of `PushSection` with an application in each table, by platform.
PLATFORM_TABLES = ("apple", "google", "web")


class PushSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Push notifications for registered devices, with subscriptions that outlive sessions."""

    enabled: Annotated[
        bool, about("Whether push notifications are enabled; if not, requests are refused with error 40.")
    ] = False
    data_adapter: Annotated[
        Line, about("Name of the data adapter, in every adapter set, for items about devices and their subscriptions.")
    ] = "MPN_INTERNAL_DATA_ADAPTER"
    store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about("Database of devices and subscriptions, shared by all nodes; empty = `data_dir/store.db`."),
    ] = ""
    lease_seconds: Annotated[
        int,
        Meta(ge=3, le=3_600),
        about(
            "If a node does not renew its lease for this long, other nodes with the same database take over its "
            "devices."
        ),
    ] = 15
    max_devices: Annotated[
        Positive, about("Maximum number of registered devices; one more is refused with error 41.")
    ] = 1_000_000
    max_subscriptions_per_device: Annotated[
        Positive, about("Subscriptions that one device may have; one more is refused with error 41.")
    ] = 1_000
    max_token_length: Annotated[
        int,
        Meta(ge=64, le=65_536),
        about("Longest token of a device, in characters; a longer one is refused with error 49."),
    ] = 4_096
    max_format_length: Annotated[
        int,
        Meta(ge=64, le=65_536),
        about("Longest notification format, in characters; a longer one is refused with error 49."),
    ] = 8_192
    max_trigger_length: Annotated[
        int, Meta(ge=16, le=10_000), about("Longest trigger, in characters; a longer one is refused with error 49.")
    ] = 4_096
    max_name_length: Annotated[
        int,
        Meta(ge=16, le=65_536),
        about(
            "Longest group, schema, or name of an application, in characters; a longer one is refused with error 49."
        ),
    ] = 4_096
    queue_per_device: Annotated[
        Positive,
        about("Notifications that may wait for one device; beyond this, the oldest without a trigger are dropped."),
    ] = 100
    send_timeout_millis: Annotated[
        Positive, about("If a provider does not answer within this time, the request is repeated later.")
    ] = 30_000
    max_sends: Annotated[
        int,
        Meta(ge=1, le=100_000),
        about("Notifications of one application that are sent to its provider at the same time."),
    ] = 1_000
    collector_period_minutes: Annotated[Positive, about("Time between two searches for unused devices.")] = 60
    device_inactivity_timeout_minutes: Annotated[
        int,
        Meta(ge=1, le=LARGEST),
        about("A device that has had no subscriptions, or has been suspended, for this long is deleted."),
    ] = 10_080
    safari_path: Annotated[
        UrlPath, about("Path on the API port of the web service from which Safari gets push packages.")
    ] = "/apple_web_service"
    journal: Annotated[
        bool, about("Whether the journal records all notifications: to whom they were sent, and the result.")
    ] = False
    apple: Mapping[Line, AppleSection] = {}
    google: Mapping[Line, GoogleSection] = {}
    web: Mapping[Line, WebSection] = {}

    def applications(self) -> Iterator[tuple[str, str, AnyApplicationSection]]:
        """All of them: the table of its platform, its name there, its settings."""
        for table in PLATFORM_TABLES:
            sections: Mapping[str, AnyApplicationSection] = getattr(self, table)
            for name, section in sections.items():
                yield table, name, section

    def __post_init__(self) -> None:
        for name in PLATFORM_TABLES:
            force_setattr(self, name, MappingProxyType(getattr(self, name)))

    def __hash__(self) -> int:
        values = [getattr(self, name) for name in self.__struct_fields__ if name not in PLATFORM_TABLES]
        return hash((*values, *self.apple.items(), *self.google.items(), *self.web.items()))
