"""What one client may ask of the server: `[limits]`.

Not here: how long sessions live (session.py), the limits of TLEX sessions (tlex.py).
Read next: docs/configuration.md.
"""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.schema.values import LARGEST, Positive, ZeroOrMore, about


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
            "A request must be complete within this time after its first byte, or its connection is closed. At the "
            "API port this applies to the request line and headers; after that the body must arrive at 500 bytes per "
            "second or faster."
        ),
    ] = 20_000
    idle_timeout_millis: Annotated[
        Positive,
        about(
            "A connection with no request in progress and no bound session is closed after this time. A WebSocket of "
            "the API port is pinged twice within this time, and closed if it does not answer."
        ),
    ] = 60_000
    handshake_timeout_millis: Annotated[
        Positive, about("A TLS handshake must be complete within this time, or the connection is closed.")
    ] = 4000
    write_timeout_millis: Annotated[
        Positive,
        about(
            "A connection whose peer accepts no bytes for this long while data waits is closed; this also detects "
            "peers that have vanished."
        ),
    ] = 120_000
    connections_per_address: Annotated[
        ZeroOrMore, about("Open connections from one client address; more are refused. 0 = unlimited.")
    ] = 0
    sessions_per_address: Annotated[
        ZeroOrMore, about("Open sessions from one client address; more are refused. 0 = unlimited.")
    ] = 0
    max_sessions: Annotated[
        ZeroOrMore, about("Maximum number of open sessions; more are refused with error 8. 0 = unlimited.")
    ] = 0
    max_lag_millis: Annotated[
        ZeroOrMore,
        about(
            "While the lag of the event loop is, or was within the last second, greater than this, new sessions are "
            "refused with error 5. 0 = unlimited."
        ),
    ] = 0
    max_memory_bytes: Annotated[
        int,
        Meta(ge=0, le=2**53),
        about("While the process uses more memory than this, new sessions are refused with error 9. 0 = unlimited."),
    ] = 0
    max_unanswered_requests: Annotated[
        Positive,
        about("Unanswered requests of one connection; at this number the server stops reading from it."),
    ] = 100
    max_pending_messages: Annotated[
        Positive,
        about(
            "Unprocessed messages of one session; at this number the server accepts no more until some are processed."
        ),
    ] = 100
    max_subscriptions_per_session: Annotated[
        Positive, about("Subscriptions that one session may have; more are refused.")
    ] = 10_000
    max_items_per_subscription: Annotated[
        Positive, about("Items that one subscription may have; more are refused.")
    ] = 10_000
