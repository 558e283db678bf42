"""A session: who requested it, for which controllers, and its state. Its life cycle is a table, `NEXT`.

Sessions are made and ended by `hub`; what its peer does is in `conversation`, which needs no more than a `PeerSession`:
that is what a node knows of a session whose hub is another process. How clients see it is up to the door.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.exchange.counters import Counters
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType

if TYPE_CHECKING:
    from penstock.exchange.authorization import Authorization
    from penstock.exchange.conversation import Conversation
    from penstock.exchange.instant import Instant
    from penstock.exchange.places import TlexPlace
    from penstock.exchange.ports import Layout, PayloadReceiver
    from penstock.exchange.registry import Controller
    from penstock.exchange.remote import RemoteConversation
    from penstock.exchange.settings import HubLimits
    from penstock.wire.tlex.vocabulary import EndReason

# Two sessions with the same key cannot have the same controller. A controller's own session is the only one in its
# domain; each account may have one session as broker and one as monitor.
ClaimKey = tuple[SessionType, str]


class SessionOrder(NamedTuple):
    """What a client asks for. Domains are in lower case; identifiers are one or several, none of them twice."""

    domain: str
    type: SessionType
    protocol: Protocol
    security: SecurityMode
    identifiers: tuple[str, ...]


class SessionState(Enum):
    # Its peer is awaited.
    PENDING = "pending"
    # Connected, with a valid token.
    LIVE = "live"
    # Told to reconnect: others may claim its controllers.
    LEAVING = "leaving"
    ENDED = "ended"


NEXT: dict[SessionState, frozenset[SessionState]] = {
    SessionState.PENDING: frozenset({SessionState.LIVE, SessionState.ENDED}),
    SessionState.LIVE: frozenset({SessionState.LEAVING, SessionState.ENDED}),
    SessionState.LEAVING: frozenset({SessionState.ENDED}),
    SessionState.ENDED: frozenset(),
}


class PeerSession:
    """What a conversation has to know. Hot: `counters` are used for every payload."""

    __slots__ = ("counters", "id", "is_singleplex", "layout", "limits", "protocol", "state", "type")

    def __init__(self, id: str, type: SessionType, protocol: Protocol, limits: HubLimits, layout: Layout) -> None:
        # Public, unlike the token, by which a connection is made.
        self.id = id
        self.type = type
        self.protocol = protocol
        # Of one controller, which sends payloads without its identifier.
        self.is_singleplex = protocol is not Protocol.MULTIPLEX
        self.limits = limits
        # Of the payloads that it sends.
        self.layout = layout
        self.state = SessionState.PENDING
        self.counters = Counters()

    @property
    def may_publish(self) -> bool:
        """Monitors only look."""
        return self.type is not SessionType.MONITOR

    def become(self, state: SessionState) -> None:
        assert state in NEXT[self.state], f"{self!r} cannot become {state.value}"
        self.state = state


class HubSession(PeerSession):
    """Hot: `scope` and `receiver` are used for every payload."""

    __slots__ = (
        "account",
        "authorization",
        "claim_key",
        "connected",
        "conversation",
        "created",
        "credential",
        "domain",
        "end_reason",
        "ended",
        "expires",
        "expires_at",
        "identifiers",
        "place",
        "receiver",
        "scope",
        "security",
        "sends",
        "token",
        "token_bytes",
    )

    def __init__(
        self,
        id: str,
        token: str,
        authorization: Authorization,
        order: SessionOrder,
        limits: HubLimits,
        layout: Layout,
        now: Instant,
        seconds: float,
        place: TlexPlace | None = None,
    ) -> None:
        super().__init__(id, order.type, order.protocol, limits, layout)
        self.token = token
        self.token_bytes = token.encode()
        self.account = authorization.account
        # As it was when the session was requested, with the token.
        self.authorization = authorization
        self.credential = authorization.token
        # The payload types that it may send; None: all.
        self.sends = authorization.policy.send
        self.domain = order.domain
        self.security = order.security
        # Where its peer was told to connect; None: at the only place that there is.
        self.place = place
        self.claim_key: ClaimKey = (self.type, "" if self.type is SessionType.TLC else self.account)
        # What was asked for last, and of that what it has: a successor may have taken it over.
        self.identifiers: tuple[str, ...] = ()
        self.scope: dict[bytes, Controller] = {}
        # Both are there while it is connected.
        self.conversation: Conversation | RemoteConversation | None = None
        self.receiver: PayloadReceiver | None = None
        # The deadline for its peer: by the monotonic clock, and as clients are told.
        self.expires_at = now.elapsed + seconds
        self.expires = now.utc + round(seconds * 1000)
        # Milliseconds since 1970; None: not yet.
        self.created = now.utc
        self.connected: int | None = None
        self.ended: int | None = None
        self.end_reason: EndReason | None = None

    def __repr__(self) -> str:
        return f"HubSession({self.id}, {self.type.value}, {self.domain!r}, {self.state.value})"
