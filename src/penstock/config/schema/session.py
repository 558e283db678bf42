"""How long sessions live and how their streams run: `[session]`.

Not here: how many there may be (limits.py).
Read next: kernel/limits.py, whose fields of the same names are filled from here.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import LARGEST, Positive, ZeroOrMore, about

MILLIS_PER_MINUTE = 60_000


class SessionSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long sessions live, what is kept for them, and how their streams run."""

    session_timeout_millis: Annotated[
        Positive, about("A session that its client does not bind within this time is closed.")
    ] = 10_000
    session_recovery_millis: Annotated[
        ZeroOrMore, about("A session whose connection broke is kept this long for recovery; 0 = not at all.")
    ] = 13_000
    max_recovery_length: Annotated[
        ZeroOrMore, about("Bytes of sent notifications kept for recovery; older ones cannot be recovered.")
    ] = 65_536
    max_recovery_age_millis: Annotated[
        ZeroOrMore,
        about("Time for which sent notifications are kept for recovery; older ones cannot be recovered."),
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
        Positive, about("Shortest keep-alive time; if a client asks for less, it gets this.")
    ] = 1000
    max_keepalive_millis: Annotated[
        Positive, about("Longest keep-alive time; if a client asks for more, it gets this.")
    ] = 30_000
    max_polling_millis: Annotated[
        ZeroOrMore, about("Longest pause between polls; if a client asks for more, it gets this.")
    ] = 15_000
    max_idle_millis: Annotated[
        ZeroOrMore, about("Longest time that a poll waits for data; if a client asks for more, it gets this.")
    ] = 30_000
    min_inactivity_millis: Annotated[
        Positive, about("Shortest time-out for inactive clients; if a client asks for less, it gets this.")
    ] = 1000
    max_inactivity_millis: Annotated[
        Positive, about("Longest time-out for inactive clients; if a client asks for more, it gets this.")
    ] = 3_600_000
    content_length: Annotated[
        Positive, about("Bytes of one HTTP stream before LOOP, unless the client asks for another length.")
    ] = 4_000_000
    min_content_length: Annotated[
        Positive, about("Shortest stream, in bytes; if a client asks for less, it gets this.")
    ] = 1000
    max_streaming_millis: Annotated[
        ZeroOrMore, about("A stream connection open for this long ends with LOOP. 0 = unlimited.")
    ] = 0
    sync_millis: Annotated[Positive, about("Time between two SYNC notifications on a stream.")] = 10_000
    noop_padding: Annotated[
        int,
        Meta(ge=0, le=65_536),
        about(
            "Bytes of NOOP at the beginning of an HTTP stream, because some browsers and proxies buffer the first "
            "bytes."
        ),
    ] = 2048
    max_buffer_size: Annotated[
        Positive,
        about("Largest buffer of an item, in updates; if a client asks for more, it gets this."),
    ] = 1000
    max_pending_bytes: Annotated[
        int,
        Meta(ge=65_536, le=LARGEST),
        about("Bytes of updates that may wait for one session; beyond this, the oldest are dropped."),
    ] = 4_194_304
    max_waiting_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about(
            "Bytes that may wait for all clients together, including unsent bytes and those kept for recovery. "
            "Beyond this, the clients for which most bytes wait lose updates first, then their connections. 0 = "
            "unlimited."
        ),
    ] = 536_870_912
    max_delay_millis: Annotated[
        int,
        Meta(ge=0, le=60_000),
        about("Shortest time between two writes of a session; updates in between are sent together. 0 = no delay."),
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
        ZeroOrMore, about("How long the server waits for a missing message of a sequence before it skips it.")
    ] = 30_000
    max_unbound_notifications: Annotated[
        Positive, about("Data notifications that are kept while no stream is bound; one more closes the session.")
    ] = 10_000
    use_compression: Annotated[
        Literal["auto", "always", "off"],
        about("gzip compression of HTTP answers for clients that accept it: if worthwhile, always, or never."),
    ] = "auto"
    compression_threshold: Annotated[
        ZeroOrMore, about("With `auto`, answers shorter than this many bytes are sent uncompressed.")
    ] = 1024
