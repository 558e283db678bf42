"""The TLEX door and the limits of its sessions: `[tlex]`, `[tlex.tlc]` and so on.

Not here: the API port that its REST part is on (ports.py).
Read next: docs/tlex.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import (
    LARGEST,
    HostName,
    OptionalHostName,
    OptionalLine,
    OptionalPath,
    Port,
    Positive,
    ZeroOrMore,
    about,
)

# How the ports are called where processes share them.
TLEX_PORT = "tlex.port"
TLEX_TLS_PORT = "tlex.tls_port"


class TlexLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session may do before it is ended; clients are told all but the last."""

    keep_alive_millis: Annotated[
        Positive, about("A session from which nothing is received for this long, plus 10 %, is ended.")
    ] = 5_000
    clock_difference_millis: Annotated[
        Positive, about("Largest deviation of the peer's clock, on average over the time of the next key.")
    ] = 3_000
    clock_difference_seconds: Annotated[Positive, about("The time over which clock differences are averaged.")] = 60
    payloads_per_second: Annotated[
        Positive, about("Payloads received per second, on average over the time of the next key.")
    ] = 1_200
    payloads_seconds: Annotated[Positive, about("The time over which payloads are averaged.")] = 5
    kilobytes_per_second: Annotated[
        Positive, about("KB (1024 bytes) of payloads received per second, on average over the time of the next key.")
    ] = 120
    kilobytes_seconds: Annotated[Positive, about("The time over which KB are averaged.")] = 5
    max_identifiers: Annotated[
        Positive, about("Controllers that one session may ask for; a request for more is refused.")
    ] = 10_000


class TlexTlcSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `TLC`; a session that exceeds them is ended. Clients are told all but the last."""

    payloads_per_second: Annotated[
        Positive, about("Payloads received per second, on average over the time of the next key.")
    ] = 12
    kilobytes_per_second: Annotated[
        Positive, about("KB (1024 bytes) of payloads received per second, on average over the time of the next key.")
    ] = 60
    max_identifiers: Annotated[
        Positive, about("Controllers that one session may ask for; a request for more is refused.")
    ] = 100


class TlexBrokerSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `Broker`."""


class TlexMonitorSection(TlexLimitsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of sessions of type `Monitor`, which may not send payloads at all."""


class TlexVlogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of controllers that send V-Log; one that exceeds a limit is ended."""

    payload_type: Annotated[
        int, Meta(ge=0, le=0xEF), about("The payload type as which brokers and monitors get V-Log messages.")
    ] = 0x56
    keep_alive_millis: Annotated[
        Positive, about("A session from which nothing is received for this long, plus 10 %, is ended.")
    ] = 360_000
    payloads_per_second: Annotated[
        Positive, about("Messages received per second, on average over the time of the next key.")
    ] = 100
    payloads_seconds: Annotated[Positive, about("The time over which messages are averaged.")] = 5
    kilobytes_per_second: Annotated[
        Positive, about("KB (1024 bytes) of messages received per second, on average over the time of the next key.")
    ] = 60
    kilobytes_seconds: Annotated[Positive, about("The time over which KB are averaged.")] = 5


class TlexSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TLEX door: payloads between traffic-light controllers, brokers and monitors. REST is on the API port."""

    enabled: Annotated[
        bool,
        about(
            "Whether TLEX is enabled: its TCP ports, and `/api/v1` on the API port. "
            "With workers and in a cluster the edges have the TCP ports, and the hub has the API."
        ),
    ] = False
    host: Annotated[HostName, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port for sessions of security mode `NONE`; 0 = any free port.")] = 8090
    tls_port: Annotated[Port, about("Port for sessions of security mode `TLSv1.2`; 0 = any free port.")] = 8091
    certificate: Annotated[OptionalPath, about("File with the certificate chain, with an RSA key; empty = no TLS.")] = (
        ""
    )
    private_key: Annotated[
        OptionalPath,
        about("File with the certificate's private key, not encrypted; required if `certificate` is set."),
    ] = ""
    announced_host: Annotated[
        OptionalHostName,
        about("Host that clients are told to connect to; empty = `host`, or the host of their request."),
    ] = ""
    announced_port: Annotated[
        Port, about("Port that clients of security mode `NONE` are told to connect to; 0 = the actual port.")
    ] = 0
    announced_tls_port: Annotated[
        Port, about("Port that clients of security mode `TLSv1.2` are told to connect to; 0 = the actual port.")
    ] = 0
    store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about("Database of accounts, tokens, controllers and past sessions; empty = `data_dir/store.db`."),
    ] = ""
    journal: Annotated[bool, about("Whether all payloads go into the journal.")] = False
    journal_policy: Annotated[
        Literal["ack", "interval", "off"],
        about(
            "When they are written to the disk: `ack` at once, `interval` soon, `off` when the operating system "
            "decides."
        ),
    ] = "interval"
    token_millis: Annotated[
        Positive, about("A session whose client does not connect within this time is deleted, with its token.")
    ] = 5_000
    handshake_millis: Annotated[
        Positive, about("A connection that has not sent a token within this time is closed.")
    ] = 5_000
    timestamps_millis: Annotated[Positive, about("Time between two requests for the timestamps of a peer.")] = 15_000
    reconnect_millis: Annotated[
        Positive, about("Time that clients have to disconnect when the server shuts down, from Reconnect to Bye.")
    ] = 2_000
    queue_frames: Annotated[
        Positive, about("Payloads that may wait for a slow receiver; beyond this, the oldest are dropped and counted.")
    ] = 10_000
    queue_bytes: Annotated[
        int,
        Meta(ge=65_539, le=LARGEST),
        about("Bytes that may wait for a slow receiver; beyond this, the oldest payloads are dropped and counted."),
    ] = 1_048_576
    max_strangers: Annotated[
        Positive,
        about(
            "Connections that have not sent a token yet; one more closes the oldest of them. Never more than an "
            "eighth of the file descriptors that the process may have."
        ),
    ] = 1_000
    poll_millis: Annotated[
        Positive,
        about("How often the database is checked for controllers and tokens that other processes have changed."),
    ] = 2_000
    session_log_days: Annotated[
        ZeroOrMore, about("Entries of sessions that ended longer ago than this are deleted. 0 = never.")
    ] = 90
    tlc: TlexTlcSection = TlexTlcSection()
    broker: TlexBrokerSection = TlexBrokerSection()
    monitor: TlexMonitorSection = TlexMonitorSection()
    vlog: TlexVlogSection = TlexVlogSection()
