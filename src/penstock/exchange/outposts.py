"""Other nodes that TLEX peers are connected to, as the hub knows them: what they offer, and which sessions they have.

All words of a node come here, in their order; what the hub has for it is gathered, and sent once in a turn. The hub
decides: a session that it has ended, or does not know, ends at the node as well. The other side is `outpost`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import convert

from penstock.exchange.farewells import Farewell
from penstock.exchange.hub import Hub
from penstock.exchange.instant import Instant
from penstock.exchange.places import Places, TlexPlace
from penstock.exchange.remote import RemoteConversation
from penstock.exchange.session import HubSession
from penstock.wire.fabric.tlex import (
    HubWord,
    NodeWord,
    TlexAdmitted,
    TlexDelivered,
    TlexDenied,
    TlexDismissed,
    TlexLeaving,
    TlexLeft,
    TlexLimits,
    TlexMeasured,
    TlexOffered,
    TlexPublished,
    TlexShown,
)
from penstock.wire.tlex.vocabulary import EndReason


class NodeRun:
    """One run of a node: a `NodeWay` to it."""

    def __init__(self, name: str, run: str, wake: Callable[[], None]) -> None:
        self.name = name
        self.run = run
        # By their public ids.
        self.sessions: dict[str, HubSession] = {}
        self.words: list[HubWord] = []
        self._wake = wake
        # The payloads that were delivered last, if nothing was said since.
        self._frames: list[bytes] | None = None

    def say(self, word: HubWord) -> None:
        if not self.words:
            self._wake()
        self._frames = None
        self.words.append(word)

    def deliver(self, session: str, frames: list[bytes]) -> None:
        if frames is self._frames:
            last = self.words[-1]
            assert isinstance(last, TlexDelivered)
            last.sessions.append(session)
            return
        self.say(TlexDelivered([session], frames))
        self._frames = frames

    def take(self) -> list[HubWord]:
        words, self.words = self.words, []
        self._frames = None
        return words


class Outposts:
    """`wake` is called when there is something to take. Nothing here raises because of what a node says."""

    def __init__(self, hub: Hub, places: Places, wake: Callable[[], None]) -> None:
        self.posts: dict[str, NodeRun] = {}
        # Those that are lost, until what they are to be told is taken.
        self._gone: set[str] = set()
        self._hub = hub
        self._places = places
        self._wake = wake
        self._is_awake = False
        hub.has_nodes = True

    # -- nodes ----------------------------------------------------------------------------------------------------

    def came(self, node: str, run: str, now: Instant) -> None:
        """A node is there, or there again. If its process is another one, the sessions of the old one are over."""
        known = self.posts.get(node)
        if known is None or known.run != run:
            self.lost(node, now)
            self.posts[node] = NodeRun(node, run, self._call)
        self._gone.discard(node)

    def lost(self, node: str, now: Instant) -> None:
        """There is no way to a node: its sessions are over, and others may have their controllers.

        If it comes back, it is told so: it may not have noticed.
        """
        post = self.posts.get(node)
        if post is None:
            return
        self._withdraw(node, now)
        self.cut_off(node, now)
        self._gone.add(node)
        self._call()

    def cut_off(self, node: str, now: Instant) -> None:
        """End the sessions of a node; it may have others."""
        post = self.posts.get(node)
        for session in [] if post is None else list(post.sessions.values()):
            assert post is not None
            post.say(TlexDismissed(session.id, Farewell.CUT_OFF.name, ""))
            self._end(post, session, EndReason.CONNECTION_ERROR, now)

    def _withdraw(self, node: str, now: Instant) -> None:
        place = self._places.withdraw(node)
        if place is not None and not self._places.is_offered(place):
            self._hub.abandon(place, now)

    def take(self) -> list[tuple[str, list[HubWord]]]:
        """What each node is to be told."""
        self._is_awake = False
        taken = [(post.name, post.take()) for post in self.posts.values() if post.words]
        for node in self._gone:
            del self.posts[node]
        self._gone.clear()
        return taken

    def _call(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    # -- what they say --------------------------------------------------------------------------------------------

    def hear(self, node: str, words: Sequence[NodeWord], now: Instant) -> None:
        post = self.posts.get(node)
        if post is None:
            return
        for word in words:
            if isinstance(word, TlexPublished):
                session = self._session(post, word.session)
                if session is not None:
                    self._hub.publish_remote(session, word.frames, now)
            elif isinstance(word, TlexShown):
                self._show(post, word, now)
            elif isinstance(word, TlexMeasured):
                self._measure(post, word)
            elif isinstance(word, TlexLeft):
                self._leave(post, word, now)
            elif isinstance(word, TlexLeaving):
                session = self._session(post, word.session)
                if session is not None:
                    self._hub.left(session)
            elif isinstance(word, TlexOffered):
                self._offer(node, TlexPlace(word.host, word.port, word.tls_port), now)
            else:
                self._withdraw(node, now)

    def _offer(self, node: str, place: TlexPlace, now: Instant) -> None:
        before = self._places.offer(node, place)
        if before is not None and not self._places.is_offered(before):
            self._hub.abandon(before, now)

    def _session(self, post: NodeRun, id: str) -> HubSession | None:
        """One of the node's that goes on; it is told of others that they do not."""
        session = post.sessions.get(id)
        if session is None or session.ended is not None:
            post.sessions.pop(id, None)
            post.say(TlexDismissed(id, Farewell.CUT_OFF.name, ""))
            return None
        return session

    def _show(self, post: NodeRun, word: TlexShown, now: Instant) -> None:
        accepted_at = now.elapsed - max(0.0, word.seconds)
        session = self._hub.admit_remote(post, word.token, word.security, accepted_at, now)
        if session is None:
            post.say(TlexDenied(word.ticket))
            return
        post.sessions[session.id] = session
        limits = convert(session.limits, TlexLimits, from_attributes=True)
        post.say(TlexAdmitted(word.ticket, session.id, session.type, session.protocol, limits))

    def _measure(self, post: NodeRun, word: TlexMeasured) -> None:
        for id, figures in word.figures.items():
            session = self._session(post, id)
            if session is not None:
                _conversation(session).measured(figures)

    def _leave(self, post: NodeRun, word: TlexLeft, now: Instant) -> None:
        session = post.sessions.get(word.session)
        if session is not None:
            if word.figures is not None and session.ended is None:
                _conversation(session).measured(word.figures)
            self._end(post, session, word.end, now)

    def _end(self, post: NodeRun, session: HubSession, end: EndReason, now: Instant) -> None:
        del post.sessions[session.id]
        # The hub may have ended it, and told the node so, which did not know it yet.
        if session.ended is None:
            _conversation(session).end(end, now)


def _conversation(session: HubSession) -> RemoteConversation:
    assert isinstance(session.conversation, RemoteConversation)
    return session.conversation
