"""The hub: sessions from the request to the end, their conversations, and the registered controllers.

A request that raises a HubRefusal has changed nothing. Sockets, clock and random numbers are passed in. The hub calls
`wake` when a turn is due; its owner calls `turn.run` and `tick`. Read next: `session`, `conversation`, `relay`.
Specification: 5.2.1 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from penstock.exchange import claims
from penstock.exchange.authorization import Authorization
from penstock.exchange.conversation import Conversation
from penstock.exchange.counters import Counters
from penstock.exchange.farewells import ENDS, Farewell
from penstock.exchange.instant import Instant
from penstock.exchange.payload_policy import Sieve
from penstock.exchange.places import TlexPlace
from penstock.exchange.ports import Chance, Forms, HubMessages, PayloadReceiver, PayloadRecorder, PeerChannel, Watcher
from penstock.exchange.receiver import Turn
from penstock.exchange.refusals import HubReason, HubRefusal, going_down, unknown
from penstock.exchange.registry import Controller, ControllerRegistry
from penstock.exchange.relay import relay
from penstock.exchange.remote import NodeWay, RemoteConversation, RemoteReceiver
from penstock.exchange.rights import Right, covers, may_see, require, require_domain, require_type, sees_account
from penstock.exchange.session import HubSession, SessionOrder, SessionState
from penstock.exchange.settings import HubSettings
from penstock.kernel.ledger import Ledger
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode, SessionType, Tlc

# How often `tick` must be called; deadlines are met to within this.
TICK_SECONDS = 0.25

# Rates of controllers are those of the last second.
MEASURE_SECONDS = 1.0

# Seconds that a token shown to another node in time may take to get here.
LATE_TOKENS = 1.0


class Hub:
    def __init__(
        self,
        settings: HubSettings,
        chance: Chance,
        forms: Forms,
        messages: HubMessages,
        wake: Callable[[], None],
        watchers: Sequence[Watcher] = (),
        recorders: Sequence[PayloadRecorder] = (),
        ledger: Ledger | None = None,
    ) -> None:
        if settings.queue_bytes < forms.largest:
            raise ValueError(f"queue_bytes is {settings.queue_bytes}; a frame needs up to {forms.largest}")
        self.settings = settings
        self.forms = forms
        self.messages = messages
        # What waits for slow receivers, together with what waits for clients of other doors.
        self.ledger = Ledger() if ledger is None else ledger
        self.turn = Turn(wake, recorders)
        self.registry = ControllerRegistry()
        # By token; all that have not ended.
        self.sessions: dict[str, HubSession] = {}
        # How many there have been.
        self.created = 0
        # Peers that were disconnected without a valid token.
        self.turned_away = 0
        # Of sessions that have ended, all together.
        self._ended = Counters()
        self._chance = chance
        self._watchers = tuple(watchers)
        # In the order in which they expire.
        self._pending: dict[str, HubSession] = {}
        # In the order in which they were accepted.
        self._strangers: dict[Conversation, None] = {}
        self._conversations: dict[Conversation | RemoteConversation, HubSession] = {}
        # Whether peers may be connected to other nodes.
        self.has_nodes = False
        self._measured_at = 0.0
        self._going_down = False

    # -- requests -------------------------------------------------------------------------------------------------

    def create(
        self, authorization: Authorization, order: SessionOrder, now: Instant, place: TlexPlace | None = None
    ) -> HubSession:
        """A new session, whose peer is awaited. It will be told to connect at this place."""
        self._expire(now)
        require(authorization, Right.USE_SESSIONS)
        require_type(authorization, order.type)
        require_domain(authorization, order.domain)
        if self._going_down:
            raise going_down()
        session = HubSession(
            self._chance.uuid(),
            self._chance.token(),
            authorization,
            order,
            self.settings.limits(order.type, order.protocol),
            self.forms.multiplex if order.protocol is Protocol.MULTIPLEX else self.forms.singleplex,
            now,
            self.settings.token_seconds,
            place,
        )
        claims.take(session, claims.find(self.registry, authorization, session, order.identifiers))
        self.created += 1
        self.sessions[session.token] = session
        self._pending[session.token] = session
        for watcher in self._watchers:
            watcher.opened(session)
        return session

    def visible(
        self,
        authorization: Authorization,
        now: Instant,
        type: SessionType | None = None,
        protocol: Protocol | None = None,
    ) -> list[HubSession]:
        """The sessions that the authorization may see."""
        self._expire(now)
        require(authorization, Right.SEE_SESSIONS)
        return [
            each
            for each in self.sessions.values()
            if _is_visible(each, authorization) and type in (None, each.type) and protocol in (None, each.protocol)
        ]

    def get(self, authorization: Authorization, token: str, now: Instant) -> HubSession:
        self._expire(now)
        require(authorization, Right.SEE_SESSIONS)
        session = self.sessions.get(token)
        if session is None or not _is_visible(session, authorization):
            raise unknown()
        return session

    def changeable(self, authorization: Authorization, token: str, now: Instant) -> HubSession:
        """A session with several controllers, which can be changed."""
        session = self.get(authorization, token, now)
        if session.is_singleplex:
            text = f"A session with protocol {session.protocol.value!r} cannot be changed"
            raise HubRefusal(HubReason.SINGLEPLEX, text)
        return session

    def update(
        self,
        authorization: Authorization,
        token: str,
        security: SecurityMode,
        identifiers: tuple[str, ...],
        now: Instant,
    ) -> HubSession:
        """Other controllers for a session, from now on; what already waits for it is still sent."""
        require(authorization, Right.USE_SESSIONS)
        session = self.changeable(authorization, token, now)
        if session.state is SessionState.LEAVING:
            raise HubRefusal(HubReason.LEAVING, "The session has been told to reconnect and cannot be changed")
        if security is not session.security:
            raise HubRefusal(HubReason.SECURITY, f"{security.value!r}, the session has {session.security.value!r}")
        claims.take(session, claims.find(self.registry, authorization, session, identifiers))
        if session.state is SessionState.LIVE:
            claims.join(session)
        for watcher in self._watchers:
            watcher.changed(session)
        return session

    def delete(self, authorization: Authorization, token: str, now: Instant) -> None:
        require(authorization, Right.END_SESSIONS)
        self._dismiss(self.get(authorization, token, now), Farewell.DELETED, now)

    def find(self, id: str, now: Instant) -> HubSession | None:
        """For an administrator, who may see all: by the identifier that logs show, because the token is a secret."""
        self._expire(now)
        return next((each for each in self.sessions.values() if each.id == id), None)

    def end(self, session: HubSession, now: Instant) -> None:
        """An administrator ends a session, connected or not."""
        self._dismiss(session, Farewell.DELETED, now)

    # -- controllers and tokens -----------------------------------------------------------------------------------

    def tlcs(self, authorization: Authorization) -> list[Tlc]:
        """The controllers that the authorization may see."""
        require(authorization, Right.SEE_TLCS)
        return [each.tlc for each in self.registry if may_see(authorization, each.tlc)]

    def tlc(self, authorization: Authorization, uuid: str) -> Tlc:
        require(authorization, Right.SEE_TLCS)
        controller = self.registry.by_uuid(uuid)
        if controller is None or not may_see(authorization, controller.tlc):
            raise unknown()
        return controller.tlc

    def own_tlc(self, authorization: Authorization, uuid: str) -> Tlc:
        """A controller that may be changed and unregistered: one of the own account."""
        require(authorization, Right.CHANGE_TLCS)
        tlc = self.tlc(authorization, uuid)
        if tlc.account != authorization.account:
            raise unknown()
        return tlc

    def register(self, tlc: Tlc) -> Controller:
        return self.registry.add(tlc)

    def unregister(self, uuid: str, now: Instant) -> None:
        """The controller leaves every session; one that has no other ends."""
        controller = self.registry.remove(uuid)
        if controller is None:
            return
        for session in dict.fromkeys([*controller.claims.values(), *controller.live.values()]):
            if len(session.scope) == 1:
                self._dismiss(session, Farewell.TLC_DELETED, now)
                continue
            claims.lose(session, controller)
            for watcher in self._watchers:
                watcher.changed(session)

    def synchronize(self, tlcs: Iterable[Tlc], now: Instant) -> None:
        """Have exactly these controllers: the database may be changed by others."""
        wanted = {each.uuid: each for each in tlcs}
        for controller in list(self.registry):
            if wanted.get(controller.tlc.uuid) != controller.tlc:
                self.unregister(controller.tlc.uuid, now)
        for uuid, tlc in wanted.items():
            if self.registry.by_uuid(uuid) is None:
                self.register(tlc)

    def credentials(self) -> set[str]:
        """The UUIDs of the authorization tokens with which sessions were requested."""
        return {each.credential for each in self.sessions.values()}

    def recheck(self, known: Collection[str], current: Mapping[str, Authorization], now: Instant) -> None:
        """End the sessions of those of the `known` tokens that are revoked, or whose authorization has changed."""
        for session in list(self.sessions.values()):
            if session.credential in known and current.get(session.credential) != session.authorization:
                self._dismiss(session, Farewell.TOKEN_REVOKED, now)

    # -- peers ----------------------------------------------------------------------------------------------------

    def accept(self, channel: PeerChannel, security: SecurityMode, now: Instant) -> Conversation:
        """A conversation with a new peer, which has no session yet."""
        conversation = Conversation(self, channel, security, now)
        self._strangers[conversation] = None
        return conversation

    def admit(self, conversation: Conversation, token: str, now: Instant) -> None:
        """For `Conversation`: its session, if the token belongs to one that waits for its peer, and it came in time."""
        session = self._claim(token, conversation.security, conversation.accepted_at)
        if session is None:
            conversation.refuse(now)
            return
        del self._strangers[conversation]
        self._conversations[conversation] = session
        session.conversation = conversation
        self._connect(session, now)
        session.receiver = self._sieved(session, conversation.attach(session, now))
        self._join(session)

    def admit_remote(
        self, way: NodeWay, token: str, security: SecurityMode, accepted_at: float, now: Instant
    ) -> HubSession | None:
        """For a peer of another node: its session, whose conversation is held there. None: as with `refuse`."""
        session = self._claim(token, security, accepted_at)
        if session is None:
            return None
        conversation = RemoteConversation(self, way, session, now)
        self._conversations[conversation] = session
        session.conversation = conversation
        self._connect(session, now)
        session.receiver = self._sieved(session, RemoteReceiver(way, session))
        self._join(session)
        return session

    def _sieved(self, session: HubSession, receiver: PayloadReceiver) -> PayloadReceiver:
        allowed = session.authorization.policy.receive
        return receiver if allowed is None else Sieve(receiver, allowed, self.forms.original_type, session.counters)

    def _claim(self, token: str, security: SecurityMode, accepted_at: float) -> HubSession | None:
        """The session of a token; it cannot be had again."""
        session = self._pending.get(token)
        if session is None or session.security is not security or accepted_at >= session.expires_at:
            return None
        del self._pending[token]
        return session

    def _connect(self, session: HubSession, now: Instant) -> None:
        session.connected = now.utc
        session.become(SessionState.LIVE)

    def _join(self, session: HubSession) -> None:
        claims.join(session)
        for watcher in self._watchers:
            watcher.connected(session)

    def publish(self, conversation: Conversation, frames: list[bytes], now: Instant) -> None:
        """For `Conversation`: payloads within the limits of its session."""
        relay(self._conversations[conversation], frames, self.forms, self.turn, now)

    def publish_remote(self, session: HubSession, frames: list[bytes], now: Instant) -> None:
        """Payloads of a peer of another node, which has found them to be within the limits."""
        session.counters.received += len(frames)
        session.counters.received_bytes += sum(map(len, frames)) - len(frames) * session.layout.head
        relay(session, frames, self.forms, self.turn, now)

    def ended(self, conversation: Conversation | RemoteConversation, end: EndReason, now: Instant) -> None:
        """For conversations: it is over."""
        session = self._conversations.pop(conversation, None)
        if session is not None:
            self._end(session, end, now)
        elif isinstance(conversation, Conversation):
            del self._strangers[conversation]
            self.turned_away += 1

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Do what is due by now."""
        elapsed = now.elapsed
        due = [each for each in (*self._strangers, *self._conversations) if each.due <= elapsed]
        for conversation in due:
            conversation.run(now)
        self._expire(now)
        if elapsed >= self._measured_at + MEASURE_SECONDS:
            self._measured_at = elapsed
            for controller in self.registry:
                controller.measure(elapsed)

    def _expire(self, now: Instant) -> None:
        """End the sessions whose peers did not come; a peer that connected before may still present the token."""
        first = next(iter(self._strangers), None)
        at_the_door = now.elapsed if first is None else first.accepted_at
        before = min(now.elapsed - LATE_TOKENS if self.has_nodes else now.elapsed, at_the_door)
        while self._pending:
            session = next(iter(self._pending.values()))
            if session.expires_at > before:
                break
            self._dismiss(session, None, now)

    # -- the end --------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nobody is connected: the server may stop."""
        return not self._conversations

    def go_down(self, now: Instant) -> None:
        """Ask all peers to reconnect, and refuse new sessions; those that do not leave are disconnected by `tick`."""
        self._going_down = True
        for session in list(self._pending.values()):
            self._dismiss(session, Farewell.SHUTDOWN, now)
        for session in list(self._conversations.values()):
            if session.state is SessionState.LIVE:
                self.reconnect(session, now, Farewell.SHUTDOWN)

    def shut(self, now: Instant) -> None:
        """Disconnect everybody, at once."""
        self.go_down(now)
        for conversation in list(self._conversations):
            conversation.say_bye(Farewell.SHUTDOWN, now)
        for conversation in list(self._strangers):
            conversation.lost(False, now)

    def reconnect(self, session: HubSession, now: Instant, farewell: Farewell = Farewell.MAINTENANCE) -> None:
        """Ask the peer of a connected session to reconnect; its controllers are available at once."""
        assert session.conversation is not None
        session.conversation.reconnect(farewell, now)
        claims.release(session)

    def left(self, session: HubSession) -> None:
        """The node of a connected session has asked its peer to reconnect: its controllers are available."""
        if session.state is SessionState.LIVE:
            session.become(SessionState.LEAVING)
            claims.release(session)

    def abandon(self, place: TlexPlace, now: Instant) -> None:
        """Nobody can connect there any more: sessions that wait for their peers are over, and can be had again."""
        for session in [each for each in self._pending.values() if each.place == place]:
            self._dismiss(session, None, now)

    def _dismiss(self, session: HubSession, farewell: Farewell | None, now: Instant) -> None:
        """End a session, connected or not; None: it has expired."""
        if session.conversation is not None and farewell is not None:
            session.conversation.say_bye(farewell, now)
        else:
            self._end(session, EndReason.SESSION_EXPIRED if farewell is None else ENDS[farewell], now)

    def _end(self, session: HubSession, end: EndReason, now: Instant) -> None:
        self._pending.pop(session.token, None)
        del self.sessions[session.token]
        session.become(SessionState.ENDED)
        session.ended = now.utc
        session.end_reason = end
        claims.leave(session)
        self._ended = Counters.sum((self._ended, session.counters))
        for watcher in self._watchers:
            watcher.ended(session)

    def totals(self) -> Counters:
        """Of all sessions that there ever were."""
        return Counters.sum([self._ended, *[session.counters for session in self.sessions.values()]])

    def clock_error(self) -> float:
        """By how many milliseconds the clock of that peer is off which is off most, on average."""
        return max([each.clock.average or 0.0 for each in self._conversations], default=0.0)


def _is_visible(session: HubSession, authorization: Authorization) -> bool:
    return covers(authorization, session.domain) and sees_account(authorization, session.account)
