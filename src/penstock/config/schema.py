"""Every configuration key: its type, range, default and what it does, declared once.

Not here: reading files (loading.py), checks that need two keys or the disk (checks.py), printing.
Read next: docs/configuration.md, whose tables are generated from this module (reference.py).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

# Times and sizes stay inside a signed 32-bit number: clients read them into one, and far larger delays
# overflow the timers of event loops.
LARGEST = 2_147_483_647
MILLIS_PER_MINUTE = 60_000

# The sorts of value. `extra["allowed"]` says in words what a pattern says in symbols; ranges need no words.
Port = Annotated[int, Meta(ge=0, le=65_535)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
ZeroOrMore = Annotated[int, Meta(ge=0, le=LARGEST)]
# One line of text that a log line, a protocol line and a TOML file can all carry unharmed.
Line = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]+\Z",
        extra={"allowed": "text on one line, not empty"},
    ),
]
OptionalLine = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]*\Z",
        extra={"allowed": "text on one line, or empty"},
    ),
]
OptionalPath = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]*\Z",
        extra={"allowed": "the path of a PEM file, or empty"},
    ),
]
NodeId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,32}\Z", extra={"allowed": '1 to 32 letters, digits or "-"'})]
Host = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:%-]+\Z", extra={"allowed": "a host name or address, without port"}),
]
OptionalHost = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:%-]*\Z", extra={"allowed": "a host name or address, without port, or empty"}),
]
Address = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:\[\]-]*\Z", extra={"allowed": "host or host:port, or empty"}),
]
Ciphers = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_:,+!@=. -]*\Z", extra={"allowed": "an OpenSSL cipher list, or empty"})
]
# Browsers send origins in lower case and without a path; anything else here could never match.
Origin = Annotated[
    str,
    Meta(
        pattern=r"^(\*|null|[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+)\Z",
        extra={"allowed": '"*", "null" or an origin in lower case such as "https://example.com"'},
    ),
]
AdapterPath = Annotated[
    str,
    Meta(
        pattern=r"^([^\W\d]\w*(\.[^\W\d]\w*)*:)?[^\W\d]\w*\Z",
        extra={"allowed": '"module:Class" or the name of a ready-made adapter'},
    ),
]
HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", extra={"allowed": "an HTTP header name"})]


# Marks a key whose value is never printed.
SECRET = Meta(extra_json_schema={"writeOnly": True})


def about(description: str) -> Meta:
    return Meta(description=description)


class ServerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server as a whole."""

    name: Annotated[Line, about("Name announced to clients (SERVNAME) and in the `Server` header.")] = "Penstock"
    node: Annotated[NodeId, about("Short id of this server inside session ids; keep it the same across restarts.")] = (
        "penstock"
    )
    data_dir: Annotated[
        Line,
        Meta(extra={"allowed": "a directory path"}),
        about("Directory for everything kept on disk; created when missing."),
    ] = "./penstock-data"
    server_tokens: Annotated[
        Literal["full", "minimal"],
        about("The `Server` header: `full` gives name and version, `minimal` the name only."),
    ] = "full"
    stall_millis: Annotated[
        ZeroOrMore,
        about("An event loop that does not turn for this long is logged, with the adapter and its stack. 0 = never."),
    ] = 1000


class TlsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming door over TLS, on the same host; it opens when `certificate` is set."""

    certificate: Annotated[
        OptionalPath, about("File of the certificate chain; empty keeps the TLS listener closed.")
    ] = ""
    private_key: Annotated[
        OptionalPath,
        about("File of the certificate's private key, not encrypted; needed when `certificate` is set."),
    ] = ""
    port: Annotated[Port, about("Port of the TLS listener; 0 takes any free one.")] = 8443
    ciphers: Annotated[
        Ciphers, about("Cipher list for TLS 1.2 (1.3 has its own); empty keeps the defaults of Python's ssl.")
    ] = ""
    client_ca: Annotated[
        OptionalPath,
        about("File of the authorities that sign clients' certificates; empty asks clients for none."),
    ] = ""
    client_certificate: Annotated[
        Literal["optional", "required"],
        about("With `client_ca`: whether a client without a certificate is let in. Adapters are told whom it names."),
    ] = "optional"

    @property
    def enabled(self) -> bool:
        return self.certificate != ""


class StreamSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The streaming door: clients over HTTP and WebSocket, and the pages."""

    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 takes any free one.")] = 8080
    backlog: Annotated[
        int,
        Meta(ge=1, le=65_535),
        about("Connections the system queues until the server accepts them; more may be refused."),
    ] = 1024
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Open connections in all; one more closes the one that is idle the longest, or is refused where none is. "
            "0 = what others leave of the process's descriptors: an eighth is for files, and see `api.max_connections`."
        ),
    ] = 0
    control_link_address: Annotated[
        Address,
        about("Address announced in CONOK for rebinds and control requests; empty announces `*` (this one)."),
    ] = ""
    max_unsent_bytes: Annotated[
        int,
        Meta(ge=1024, le=LARGEST),
        about("Bytes of a connection that the system may hold unsent; beyond it, updates are held and merged instead."),
    ] = 16_384
    max_outbound_frame_size: Annotated[
        int,
        Meta(ge=125, le=LARGEST),
        about("Largest WebSocket frame sent, in bytes; longer data takes several frames."),
    ] = 16_384
    allow_websocket_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may open a WebSocket, others are refused; `*` allows every origin."),
    ] = ("*",)
    tls: TlsSection = TlsSection()


class CorsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages from elsewhere may use the HTTP requests of the streaming door."""

    allow_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may read the answers; `*` allows every origin, an empty list none."),
    ] = ("*",)
    accept_credentials: Annotated[bool, about("Whether those pages may send cookies and other credentials.")] = True
    accept_extra_headers: Annotated[
        tuple[HeaderName, ...], about("Request headers allowed beyond those that clients normally send.")
    ] = ()
    options_max_age: Annotated[
        ZeroOrMore, about("Seconds for which a browser may remember the answer to a preflight request.")
    ] = 3600


class ApiCorsSection(CorsSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages from elsewhere may use the API port: none that is not named here."""

    allow_origins: Annotated[
        tuple[Origin, ...],
        about("Origins whose pages may read the answers; `*` allows every origin, but not together with credentials."),
    ] = ()
    accept_credentials: Annotated[
        bool, about("Whether those pages may send cookies and what the browser knows of passwords.")
    ] = False


class ApiSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API port: health, the ingest adapters, and the REST doors. `[limits]` holds for its connections as well."""

    host: Annotated[Host, about("Address to listen on; `0.0.0.0` or `::` for every interface.")] = "127.0.0.1"
    port: Annotated[Port, about("Port to listen on; 0 takes any free one.")] = 8081
    max_connections: Annotated[
        ZeroOrMore,
        about(
            "Open connections in all; one more closes the one that is idle the longest, or is refused where none is. "
            "0 = a quarter of the descriptors that the process may have."
        ),
    ] = 0
    cors: ApiCorsSection = ApiCorsSection()


class LimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one client may ask of the server."""

    request_limit: Annotated[
        int,
        Meta(ge=1000, le=LARGEST),
        about("Longest request, in bytes; announced in CONOK. A longer one is refused."),
    ] = 50_000
    header_limit: Annotated[
        int,
        Meta(ge=1024, le=LARGEST),
        about("Longest HTTP request line with headers, in bytes. A longer one is refused."),
    ] = 16_384
    read_timeout_millis: Annotated[
        Positive,
        about(
            "A request that began must be complete within this time, or its connection is closed. "
            "At the API port its head must; its body must bring 500 bytes a second from then on."
        ),
    ] = 20_000
    idle_timeout_millis: Annotated[
        Positive,
        about(
            "A connection without a request under way or a session bound is closed after this time. "
            "A WebSocket of the API port is pinged twice in it, and closed if it does not answer."
        ),
    ] = 60_000
    handshake_timeout_millis: Annotated[
        Positive, about("A TLS handshake must be complete within this time, or the connection is closed.")
    ] = 4000
    write_timeout_millis: Annotated[
        Positive,
        about("A connection that takes no bytes for this long while data waits is closed, also one that has vanished."),
    ] = 120_000
    connections_per_address: Annotated[
        ZeroOrMore, about("Open connections from one client address; more are refused. 0 = unlimited.")
    ] = 0
    sessions_per_address: Annotated[
        ZeroOrMore, about("Open sessions from one client address; more are refused. 0 = unlimited.")
    ] = 0
    max_sessions: Annotated[
        ZeroOrMore, about("Open sessions in all; more are refused with error 8. 0 = unlimited.")
    ] = 0
    max_unanswered_requests: Annotated[
        Positive,
        about("Requests of one connection that may wait for their answers; with more, nothing is read from it."),
    ] = 100
    max_pending_messages: Annotated[
        Positive,
        about("Messages of one session that may wait for their outcome; more are taken in when there is room."),
    ] = 100
    max_subscriptions_per_session: Annotated[
        Positive, about("Subscriptions one session may hold; more are refused.")
    ] = 10_000
    max_items_per_subscription: Annotated[Positive, about("Items one subscription may name; more are refused.")] = (
        10_000
    )


class SessionSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long sessions live, what is kept for them, and how their streams run."""

    session_timeout_millis: Annotated[
        Positive, about("A session that waits for its client to bind it is closed after this time.")
    ] = 10_000
    session_recovery_millis: Annotated[
        ZeroOrMore, about("A session whose connection broke is kept this long for recovery; 0 = not at all.")
    ] = 13_000
    max_recovery_length: Annotated[
        ZeroOrMore, about("Bytes of sent notifications kept for recovery; older ones are beyond recovery.")
    ] = 65_536
    max_recovery_age_millis: Annotated[
        ZeroOrMore,
        about("Time that sent notifications are kept for recovery; older ones are beyond recovery."),
    ] = 60_000
    max_session_duration_minutes: Annotated[
        int,
        Meta(ge=0, le=LARGEST // MILLIS_PER_MINUTE),
        about("A session this old is closed with cause 48. 0 = unlimited."),
    ] = 0
    default_keepalive_millis: Annotated[
        Positive, about("A stream silent for this long sends PROBE, unless the client asks for another time.")
    ] = 5000
    min_keepalive_millis: Annotated[
        Positive, about("Shortest keep-alive time granted; a shorter one asked for is raised to it.")
    ] = 1000
    max_keepalive_millis: Annotated[
        Positive, about("Longest keep-alive time granted; a longer one asked for is lowered to it.")
    ] = 30_000
    max_polling_millis: Annotated[
        ZeroOrMore, about("Longest pause between polls granted; a longer one asked for is lowered to it.")
    ] = 15_000
    max_idle_millis: Annotated[
        ZeroOrMore, about("Longest wait of a poll for data granted; a longer one asked for is lowered to it.")
    ] = 30_000
    min_inactivity_millis: Annotated[
        Positive, about("Shortest client inactivity limit granted; a shorter one asked for is raised to it.")
    ] = 1000
    max_inactivity_millis: Annotated[
        Positive, about("Longest client inactivity limit granted; a longer one asked for is lowered to it.")
    ] = 3_600_000
    content_length: Annotated[
        Positive, about("Bytes of one HTTP stream before LOOP, unless the client asks for another length.")
    ] = 4_000_000
    min_content_length: Annotated[
        Positive, about("Shortest stream granted, in bytes; a shorter one asked for is raised to it.")
    ] = 1000
    max_streaming_millis: Annotated[
        ZeroOrMore, about("A stream connection open for this long ends with LOOP. 0 = unlimited.")
    ] = 0
    sync_millis: Annotated[Positive, about("Time between two SYNC notifications on a stream.")] = 10_000
    noop_padding: Annotated[
        int,
        Meta(ge=0, le=65_536),
        about("Bytes of NOOP that open an HTTP stream, for browsers and proxies that hold back a short start."),
    ] = 2048
    max_buffer_size: Annotated[
        Positive,
        about("Largest buffer of an item granted, in updates; a larger one asked for is lowered to it."),
    ] = 1000
    max_pending_bytes: Annotated[
        int,
        Meta(ge=65_536, le=LARGEST),
        about("Bytes of updates that may wait for one session; beyond it the oldest are dropped."),
    ] = 4_194_304
    max_waiting_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about(
            "Bytes that may wait for all clients together, kept for recovery or unsent included; beyond it those for"
            " whom most waits lose updates first, then their connections. 0 = unlimited."
        ),
    ] = 536_870_912
    max_delay_millis: Annotated[
        int,
        Meta(ge=0, le=60_000),
        about("Shortest time between two writes of a session: updates in between go in one. 0 = none."),
    ] = 0
    default_diff_order: Annotated[
        str,
        Meta(pattern=r"^(P|T|PT|TP)?\Z", extra={"allowed": 'some of "P" and "T", in the order to try them, or empty'}),
        about("Difference formats tried for fields whose data adapter declares none: P is JSON Patch, T is TLCP-diff."),
    ] = ""
    jsonpatch_min_length: Annotated[
        Positive, about("Values shorter than this many characters are never sent as differences.")
    ] = 50
    missing_message_timeout_millis: Annotated[
        ZeroOrMore, about("A gap in a sequence of client messages is waited for this long, then passed over.")
    ] = 30_000
    max_unbound_notifications: Annotated[
        Positive, about("Data notifications kept while no stream is bound; one more closes the session.")
    ] = 10_000
    use_compression: Annotated[
        Literal["auto", "always", "off"],
        about("gzip of HTTP answers for clients that accept it: where worthwhile, always, or never."),
    ] = "auto"
    compression_threshold: Annotated[
        ZeroOrMore, about("With `auto`, answers shorter than this many bytes are sent as they are.")
    ] = 1024


class LogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on standard error, one event a line."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], about("Events below this level are not written.")
    ] = "info"
    format: Annotated[Literal["text", "json"], about("`text` to be read by people, `json` for an object a line.")] = (
        "text"
    )
    max_repeats: Annotated[
        ZeroOrMore,
        about("The same warning or error is written this often in 10 s; more are counted in one line. 0 = unlimited."),
    ] = 20


class DemoSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The demo adapter sets."""

    enabled: Annotated[
        bool,
        about("Whether the demo adapter sets are served. With adapter sets of one's own the default is `false`."),
    ] = True
    pace: Annotated[
        float,
        Meta(gt=0, le=1000),
        about("Speed of the demo feed: 2.0 updates twice as often, 0.5 half as often."),
    ] = 1.0


class JournalSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal, in `data_dir/journal`: the history of everything that data adapters are told to have journaled."""

    enabled: Annotated[bool, about("Whether there is a journal at all; without it nothing may be journaled.")] = True
    interval_millis: Annotated[
        int,
        Meta(ge=1, le=60_000),
        about("Longest time that events of policies `interval` and `off` wait for others; a crash loses 5 ms more."),
    ] = 50
    segment_bytes: Annotated[
        int,
        Meta(ge=65_536, le=LARGEST),
        about("A file of the journal this large is closed and another begun; start-up reads at most one."),
    ] = 134_217_728
    segment_seconds: Annotated[
        Positive, about("A file of the journal this old is closed and another begun; whole files are dropped.")
    ] = 3600
    queue_bytes: Annotated[
        int,
        Meta(ge=1_048_576, le=LARGEST),
        about("Bytes that may wait for the disk; beyond it events are not journaled, which is counted and logged."),
    ] = 67_108_864
    max_age_hours: Annotated[
        ZeroOrMore,
        about("Closed files older than this are dropped once the lake has all of them. 0 = never for their age."),
    ] = 168
    max_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about("Size of all files above which the oldest are dropped once the lake has all of them. 0 = unlimited."),
    ] = 0


class PipelineSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Spark pipeline, which runs in a process of its own: `penstock pipeline`."""

    master: Annotated[
        Line,
        Meta(extra={"allowed": 'a Spark master such as "local[*,4]" or "spark://host:7077"'}),
        about("Where it runs."),
    ] = "local[*,4]"
    memory: Annotated[
        str,
        Meta(pattern=r"^[1-9][0-9]*[mg]\Z", extra={"allowed": 'a number and "m" or "g", such as "1g"'}),
        about("Memory of the Java process."),
    ] = "1g"
    api: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[A-Za-z0-9._:\[\]-]+)?\Z",
            extra={"allowed": 'an address such as "http://127.0.0.1:8081", or empty'},
        ),
        about("The API port of the server that it publishes to; empty: the one of this configuration."),
    ] = ""
    token: Annotated[OptionalLine, SECRET, about("What it shows at the ingest port; empty: see `token_file`.")] = ""
    token_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the path of a file, or empty"}),
        about("File that the token is in; empty: the one that the demo makes, `data_dir/pipeline/token`."),
    ] = ""
    status: Annotated[
        str,
        Meta(
            pattern=r"^([^/\x00-\x1f\x7f]+/[^/\x00-\x1f\x7f]+)?\Z",
            extra={"allowed": 'an adapter set and an ingest adapter such as "WELCOME/PIPELINE", or empty'},
        ),
        about("Where it publishes how its queries are doing: items `query.NAME` and `queries`; empty: nowhere."),
    ] = "WELCOME/PIPELINE"
    restart: Annotated[
        Literal["always", "never"],
        about("Whether a query that has failed is started again, after a pause that grows."),
    ] = "always"
    spark: Annotated[Mapping[Line, Any], Meta(extra={"allowed": "a table"}), about("Settings of Spark, by name.")] = {}
    jobs: Annotated[
        Mapping[Line, Mapping[Line, Any]],
        Meta(extra={"allowed": "a table of tables"}),
        about("Settings of jobs: a table for each, such as `[pipeline.jobs.candles]`."),
    ] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "spark", MappingProxyType(self.spark))
        force_setattr(self, "jobs", MappingProxyType(self.jobs))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name not in ("spark", "jobs")]
        return hash((*fixed, *self.spark, *self.jobs))


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


class DittoSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ditto door: digital twins and their history, `/api/2` and `/ws/2` on the API port. It needs the journal."""

    enabled: Annotated[
        bool, about("Whether the door is open; without `adapter_set` and without the demo it is closed all the same.")
    ] = True
    adapter_set: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the name of an adapter set, or empty"}),
        about(
            "The adapter set whose metadata adapter knows the users. Empty: with the demo, user `ditto` with password"
            " `ditto`, for clients on this machine, without a proxy in between, of a server that only listens there."
        ),
    ] = ""
    issuer: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z", extra={"allowed": '1 to 64 letters, digits, ".", "_" or "-"'}),
        about("What policies call users with a token: `ISSUER:USER`. Users with a password are `nginx:USER`."),
    ] = "token"
    default_namespace: Annotated[
        str,
        Meta(
            pattern=r"^[a-zA-Z]\w*([.-][a-zA-Z]\w*)*\Z",
            extra={"allowed": 'words with dots between them, such as "com.example"'},
        ),
        about("The namespace of things whose ID is made up by the server."),
    ] = "org.eclipse.ditto"
    historical_headers: Annotated[
        tuple[HeaderName, ...],
        about(
            "Headers of commands that are journaled with their changes and come back with their history, as"
            " `historical-headers`. `ditto-originator` is the subject that sent the command."
        ),
    ] = ()


class MetadataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata adapter of the set: it decides who may see what. Without this table it is `literal`."""

    adapter: Annotated[AdapterPath, about("The class to import, or the name of a ready-made adapter.")] = "literal"
    parameters: Annotated[
        Mapping[str, Any],
        Meta(extra={"allowed": "a table"}),
        about("Keyword arguments of the class."),
    ] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", MappingProxyType(self.parameters))

    def __hash__(self) -> int:
        return hash((self.adapter, *self.parameters))


class JournaledSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the data adapter publishes and the journal keeps. Without this table it is nothing."""

    items: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": 'a list of item names, with "*" for any characters'}),
        about(
            "Items that are journaled. One named without `*` is kept subscribed at the adapter from the start, so that"
            " its history has no gaps; a pattern journals what is published anyway."
        ),
    ] = ()
    policy: Annotated[
        Literal["ack", "interval", "off"],
        about("When events are on the disk: `ack` at once, `interval` soon, `off` when the system likes."),
    ] = "interval"


class DataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A data adapter of the set, under the name that clients ask for; those that ask for none get `DEFAULT`."""

    adapter: Annotated[AdapterPath, about("The class to import, or the name of a ready-made adapter.")]
    parameters: Annotated[
        Mapping[str, Any],
        Meta(extra={"allowed": "a table"}),
        about("Keyword arguments of the class."),
    ] = {}
    optional: Annotated[
        bool, about("Whether the set is served without the adapter when it fails to start; it is then tried again.")
    ] = False
    journal: JournaledSection = JournaledSection()

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", MappingProxyType(self.parameters))

    def __hash__(self) -> int:
        return hash((self.adapter, *self.parameters, self.optional, self.journal))


class AdapterSetSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adapter set, under the name that clients ask for."""

    timeout_millis: Annotated[
        Positive, about("Calls of the metadata adapter that take longer are given up, and the client is refused.")
    ] = 10_000
    metadata: MetadataSection = MetadataSection()
    data: Mapping[Line, DataSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "data", MappingProxyType(self.data))

    def __hash__(self) -> int:
        return hash((self.timeout_millis, self.metadata, *self.data.items()))


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `Config()` is the defaults; one built by hand is not checked."""

    server: ServerSection = ServerSection()
    stream: StreamSection = StreamSection()
    api: ApiSection = ApiSection()
    limits: LimitsSection = LimitsSection()
    session: SessionSection = SessionSection()
    cors: CorsSection = CorsSection()
    log: LogSection = LogSection()
    demo: DemoSection = DemoSection()
    journal: JournalSection = JournalSection()
    pipeline: PipelineSection = PipelineSection()
    tlex: TlexSection = TlexSection()
    ditto: DittoSection = DittoSection()
    adapters: Mapping[Line, AdapterSetSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "adapters", MappingProxyType(self.adapters))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name != "adapters"]
        return hash((*fixed, *self.adapters.items()))
