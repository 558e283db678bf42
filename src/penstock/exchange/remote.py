"""A session whose peer is at another node, as the hub sees it: its conversation, and its receiver of payloads.

The conversation itself is held at that node, by `outpost`; keep-alives, timestamps, limits and slow peers are its
business. Here it is told what the hub decides. Words of nodes are heard in `outposts`.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from penstock.exchange.clockwatch import ClockReading
from penstock.exchange.counters import Counters
from penstock.exchange.farewells import ENDS, Farewell
from penstock.exchange.instant import Instant
from penstock.exchange.session import HubSession, SessionState
from penstock.wire.fabric.tlex import HubWord, TlexDismissed, TlexFigures, TlexReconnected
from penstock.wire.tlex.vocabulary import EndReason


class NodeWay(Protocol):
    """To a node: words arrive in the order in which they are said, once each, or the node is lost."""

    def say(self, word: HubWord) -> None: ...

    def deliver(self, session: str, frames: list[bytes]) -> None:
        """Payloads for a session. The same list for several sessions crosses once."""


class RemoteHost(Protocol):
    """What a remote conversation needs from the hub."""

    def ended(self, conversation: RemoteConversation, end: EndReason, now: Instant) -> None: ...


class RemoteConversation:
    """The session ends here when the hub or the node says so, whichever is first."""

    __slots__ = ("_host", "_way", "clock", "due", "last_seen", "session")

    def __init__(self, host: RemoteHost, way: NodeWay, session: HubSession, now: Instant) -> None:
        self.session = session
        # Nothing is ever due: its node looks after time.
        self.due = inf
        self.clock = ClockReading()
        # When the peer's last byte came, in milliseconds since 1970, as the node has said last.
        self.last_seen = now.utc
        self._host = host
        self._way = way

    def run(self, now: Instant) -> None:
        """Its node does what is due."""

    def measured(self, figures: TlexFigures) -> None:
        """What its node has counted."""
        counters = self.session.counters
        counters.sent = figures.sent
        counters.dropped = figures.dropped
        counters.unknown = figures.unknown
        clock = self.clock
        clock.latency, clock.difference, clock.average = figures.latency, figures.difference, figures.average
        self.last_seen = figures.last_seen

    def reconnect(self, farewell: Farewell, now: Instant) -> None:
        """Ask the peer to reconnect with a new session; its node disconnects it after a while."""
        self.session.become(SessionState.LEAVING)
        self._way.say(TlexReconnected(self.session.id, farewell.name))

    def say_bye(self, farewell: Farewell, now: Instant, details: str = "") -> None:
        """The session is over, and its peer is told so."""
        self._way.say(TlexDismissed(self.session.id, farewell.name, details))
        self.end(ENDS[farewell], now)

    def end(self, end: EndReason, now: Instant) -> None:
        """The connection is closed, or its node is lost."""
        counters = self.session.counters
        # Nobody knows more of what was on the way, or waited at the node, or was written since its last figures.
        counters.discarded = counters.routed - counters.sent - counters.dropped - counters.oversized
        self._host.ended(self, end, now)


class RemoteReceiver:
    """Its node has the queue: there the oldest payloads are dropped, if the peer is slow."""

    __slots__ = ("_counters", "_session", "_way", "is_singleplex")

    def __init__(self, way: NodeWay, session: HubSession) -> None:
        self.is_singleplex = session.is_singleplex
        self._way = way
        self._session = session.id
        self._counters: Counters = session.counters

    def put(self, frames: list[bytes], size: int, now: Instant) -> None:
        self._counters.routed += len(frames)
        self._way.deliver(self._session, frames)

    def refuse(self, count: int) -> None:
        self._counters.routed += count
        self._counters.oversized += count
