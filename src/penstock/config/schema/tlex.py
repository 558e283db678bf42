"""The TLEX door and the limits of its sessions: `[tlex]`, `[tlex.tlc]`, `[tlex.broker]`, `[tlex.monitor]`.

Not here: the API port that its REST part is on (ports.py).
Read next: docs/tlex.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import (
    LARGEST,
    Host,
    OptionalHost,
    OptionalLine,
    OptionalPath,
    Port,
    Positive,
    ZeroOrMore,
    about,
)


class TlexLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session may do before it is ended; clients are told all but the last."""

    keep_alive_millis: Annotated[
        Positive, about("A session that nothing is received from for this long is ended (with 10 % slack).")
    ] = 5_000
    clock_difference_millis: Annotated[
        Positive, about("The most that the peer's clock may be off, on average over the next key's time.")
    ] = 3_000
    clock_difference_seconds: Annotated[Positive, about("The time over which clock differences are averaged.")] = 60
    payloads_per_second: Annotated[
        Positive, about("Payloads received a second, on average over the next key's time.")
    ] = 1_200
    payloads_seconds: Annotated[Positive, about("The time over which payloads are averaged.")] = 5
    kilobytes_per_second: Annotated[
        Positive, about("KB (1024 bytes) of payloads received a second, on average over the next key's time.")
    ] = 120
    kilobytes_seconds: Annotated[Positive, about("The time over which KB are averaged.")] = 5
    max_identifiers: Annotated[
        Positive, about("Controllers that one session may ask for; a request for more is refused.")
    ] = 10_000


class TlexTlcSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `TLC`: what a session may do before it is ended; clients are told all but the last."""

    payloads_per_second: Annotated[
        Positive, about("Payloads received a second, on average over the next key's time.")
    ] = 12
    kilobytes_per_second: Annotated[
        Positive, about("KB (1024 bytes) of payloads received a second, on average over the next key's time.")
    ] = 60
    max_identifiers: Annotated[
        Positive, about("Controllers that one session may ask for; a request for more is refused.")
    ] = 100


class TlexBrokerSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `Broker`."""


class TlexMonitorSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `Monitor`, which may not send payloads at all."""


class TlexSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TLEX door: payloads between traffic-light controllers, brokers and monitors. REST is on the API port."""

    enabled: Annotated[bool, about("Whether the door is open: its TCP ports, and `/api/v1` on the API port.")] = False
    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port for sessions of security mode `NONE`; 0 takes any free one.")] = 8090
    tls_port: Annotated[Port, about("Port for sessions of security mode `TLSv1.2`; 0 takes any free one.")] = 8091
    certificate: Annotated[
        OptionalPath, about("File of the certificate chain, with an RSA key; empty offers no TLS.")
    ] = ""
    private_key: Annotated[
        OptionalPath,
        about("File of the certificate's private key, not encrypted; needed when `certificate` is set."),
    ] = ""
    announced_host: Annotated[
        OptionalHost, about("Host that clients are told to connect to; empty: `host`, or the one of their request.")
    ] = ""
    store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about("Database of accounts, tokens, controllers and past sessions; empty: `data_dir/store.db`."),
    ] = ""
    journal: Annotated[bool, about("Whether all payloads go into the journal.")] = False
    journal_policy: Annotated[
        Literal["ack", "interval", "off"],
        about("When they are on the disk: `ack` at once, `interval` soon, `off` when the system likes."),
    ] = "interval"
    token_millis: Annotated[
        Positive, about("A session must be connected within this time, or it is gone with its token.")
    ] = 5_000
    handshake_millis: Annotated[
        Positive, about("A connection that has not shown a token within this time is closed.")
    ] = 5_000
    timestamps_millis: Annotated[Positive, about("Time between two requests for the timestamps of a peer.")] = 15_000
    reconnect_millis: Annotated[
        Positive, about("Time that clients have to leave when the server goes down, from Reconnect to Bye.")
    ] = 2_000
    queue_frames: Annotated[
        Positive, about("Payloads that may wait for a slow receiver; beyond it the oldest are dropped and counted.")
    ] = 10_000
    queue_bytes: Annotated[
        int,
        Meta(ge=65_539, le=LARGEST),
        about("Bytes that may wait for a slow receiver; beyond it the oldest payloads are dropped and counted."),
    ] = 1_048_576
    max_strangers: Annotated[
        Positive,
        about(
            "Connections that have not shown a token; one more closes the oldest of them. "
            "Never more than an eighth of the descriptors that the process may have."
        ),
    ] = 1_000
    poll_millis: Annotated[
        Positive, about("How often the database is looked at for controllers and tokens that others have changed.")
    ] = 2_000
    session_log_days: Annotated[
        ZeroOrMore, about("Entries of sessions that ended longer ago are deleted. 0 = never.")
    ] = 90
    tlc: TlexTlcSection = TlexTlcSection()
    broker: TlexBrokerSection = TlexBrokerSection()
    monitor: TlexMonitorSection = TlexMonitorSection()
