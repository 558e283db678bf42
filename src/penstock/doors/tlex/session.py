"""A session: who asked for it, for which controllers, and what has become of it. Its life is a table, `NEXT`.

Sessions are made and ended by `hub`; what its peer sends is understood in `connection`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import UNSET

from penstock.doors.tlex.counters import Counters
from penstock.store.records import SessionLog
from penstock.wire.tlex.rest import Listener, SessionDetails, SessionRequest
from penstock.wire.tlex.rest import Session as Answer
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType

if TYPE_CHECKING:
    from penstock.doors.tlex.connection import Connection
    from penstock.doors.tlex.moment import Moment
    from penstock.doors.tlex.receiver import Receiver
    from penstock.doors.tlex.registry import Controller
    from penstock.doors.tlex.settings import Limits
    from penstock.store.records import Authorization
    from penstock.wire.tlex.reasons import EndReason

# Two sessions with the same one cannot have the same controller. A controller's own session is the only one in its
# domain; of brokers and monitors each account may have one.
ClaimKey = tuple[SessionType, str]


class State(Enum):
    # Its connection is awaited.
    PENDING = "pending"
    # Connected, and the token was right.
    LIVE = "live"
    # Told to reconnect: others may have its controllers.
    LEAVING = "leaving"
    ENDED = "ended"


NEXT: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.LIVE, State.ENDED}),
    State.LIVE: frozenset({State.LEAVING, State.ENDED}),
    State.LEAVING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


class Session:
    """Hot: `scope`, `counters` and `receiver` are used for every payload."""

    __slots__ = (
        "account",
        "claim_key",
        "connected",
        "connection",
        "counters",
        "created",
        "credential",
        "domain",
        "end_reason",
        "ended",
        "expires",
        "expires_at",
        "id",
        "identifiers",
        "is_singleplex",
        "limits",
        "protocol",
        "receiver",
        "scope",
        "security",
        "state",
        "token",
        "token_bytes",
        "type",
    )

    def __init__(
        self,
        id: str,
        token: str,
        authorization: Authorization,
        request: SessionRequest,
        limits: Limits,
        now: Moment,
        seconds: float,
    ) -> None:
        # Public, unlike the token, by which a connection is made.
        self.id = id
        self.token = token
        self.token_bytes = token.encode()
        self.account = authorization.account
        # The authorization token that it was asked for with.
        self.credential = authorization.token
        self.domain = request.domain
        self.type = request.type
        self.protocol = request.protocol
        self.is_singleplex = request.protocol is Protocol.SINGLEPLEX
        self.security: SecurityMode = request.details.security_mode
        self.limits = limits
        self.claim_key: ClaimKey = (self.type, "" if self.type is SessionType.TLC else self.account)
        # What was asked for last, and of that what it has: a successor may have taken it over.
        self.identifiers: tuple[str, ...] = ()
        self.scope: dict[bytes, Controller] = {}
        self.state = State.PENDING
        self.counters = Counters()
        # Both are there while it is connected.
        self.connection: Connection | None = None
        self.receiver: Receiver | None = None
        # A connection must be there before: by the clock that does not jump, and as clients are told.
        self.expires_at = now.elapsed + seconds
        self.expires = now.utc + round(seconds * 1000)
        # Milliseconds since 1970; None: not yet.
        self.created = now.utc
        self.connected: int | None = None
        self.ended: int | None = None
        self.end_reason: EndReason | None = None

    def __repr__(self) -> str:
        return f"Session({self.id}, {self.type.value}, {self.domain!r}, {self.state.value})"

    def become(self, state: State) -> None:
        assert state in NEXT[self.state], f"{self!r} cannot become {state.value}"
        self.state = state

    def log_entry(self) -> SessionLog:
        """What is kept of it, when it has ended."""
        assert self.ended is not None
        assert self.end_reason is not None
        return SessionLog(
            id=self.id,
            account=self.account,
            domain=self.domain,
            type=self.type.value,
            protocol=self.protocol.value,
            identifiers=self.identifiers,
            created=self.created,
            connected=self.connected,
            ended=self.ended,
            end_reason=self.end_reason.value,
        )

    def describe(self, host: str, port: int) -> Answer:
        """As clients see it."""
        limits = self.limits
        # A whole second, the next one: clients must not give up too early.
        expiration = datetime.fromtimestamp(-(-self.expires // 1000), UTC)
        return Answer(
            token=self.token,
            domain=self.domain,
            type=self.type,
            protocol=self.protocol,
            details=SessionDetails(
                security_mode=self.security,
                tlc_identifier=self.identifiers[0] if self.is_singleplex else UNSET,
                tlc_identifiers=UNSET if self.is_singleplex else self.identifiers,
                listener=Listener(host=host, port=port, expiration=expiration),
                keep_alive_timeout=timedelta(seconds=limits.keep_alive_seconds),
                clock_diff_limit=timedelta(milliseconds=limits.clock_difference_millis),
                clock_diff_limit_duration=timedelta(seconds=limits.clock_difference_window_seconds),
                payload_rate_limit=limits.payloads_per_second,
                payload_rate_limit_duration=timedelta(seconds=limits.payloads_window_seconds),
                payload_throughput_limit=limits.kilobytes_per_second,
                payload_throughput_limit_duration=timedelta(seconds=limits.kilobytes_window_seconds),
            ),
        )
