"""The hub: sessions from the request to the end, their connections, and the registered controllers.

Requests raise a Refusal and then have changed nothing. No sockets, no clock, no chance: they are given. Around it:
`wake` is called when a turn is due, and `run_turn` and `tick` are to be called. Read next: `session`, `connection`,
`relay`. Specification: 5.2.1 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.doors.tlex import claims
from penstock.doors.tlex.connection import Connection
from penstock.doors.tlex.errors import bad_request, going_down, not_found
from penstock.doors.tlex.moment import Moment
from penstock.doors.tlex.ports import Chance, Channel, Recorder, Watcher
from penstock.doors.tlex.registry import Controller, Registry
from penstock.doors.tlex.rights import Right, covers, may_see, require, require_domain, require_type, sees_account
from penstock.doors.tlex.session import Session, State
from penstock.doors.tlex.settings import Settings
from penstock.doors.tlex.turn import Turn
from penstock.kernel.ledger import Ledger
from penstock.store.records import Authorization
from penstock.wire.tlex.reasons import EndReason, Reason
from penstock.wire.tlex.rest import RequestDetails, SessionRequest
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc

# How often `tick` is to be called; deadlines are met to within this.
TICK_SECONDS = 0.25

# Rates of controllers are those of the last second.
MEASURE_SECONDS = 1.0


class Hub:
    def __init__(
        self,
        settings: Settings,
        chance: Chance,
        wake: Callable[[], None],
        watchers: Sequence[Watcher] = (),
        recorders: Sequence[Recorder] = (),
        ledger: Ledger | None = None,
    ) -> None:
        self.settings = settings
        # What waits for slow receivers, together with what waits for clients of other doors.
        self.ledger = Ledger() if ledger is None else ledger
        self.turn = Turn(wake, recorders)
        self.registry = Registry()
        # By token; all that have not ended.
        self.sessions: dict[str, Session] = {}
        # Connections that were closed without a right token.
        self.turned_away = 0
        self._chance = chance
        self._watchers = tuple(watchers)
        # In the order in which they expire.
        self._pending: dict[str, Session] = {}
        # In the order in which they were accepted.
        self._strangers: dict[Connection, None] = {}
        self._connections: dict[Connection, None] = {}
        self._measured_at = 0.0
        self._going_down = False

    # -- requests -------------------------------------------------------------------------------------------------

    def create(self, authorization: Authorization, request: SessionRequest, now: Moment) -> Session:
        """A new session, whose connection is awaited."""
        self._expire(now)
        require(authorization, Right.USE_SESSIONS)
        require_type(authorization, request.type)
        require_domain(authorization, request.domain)
        if self._going_down:
            raise going_down()
        limits = self.settings.limits(request.type)
        session = Session(
            self._chance.uuid(),
            self._chance.token(),
            authorization,
            request,
            limits,
            now,
            self.settings.token_seconds,
        )
        found = self._find(session, authorization, request.details, "details.")
        claims.take(session, found)
        self.sessions[session.token] = session
        self._pending[session.token] = session
        for watcher in self._watchers:
            watcher.opened(session)
        return session

    def visible(
        self,
        authorization: Authorization,
        now: Moment,
        type: SessionType | None = None,
        protocol: Protocol | None = None,
    ) -> list[Session]:
        """The sessions that one may see."""
        self._expire(now)
        require(authorization, Right.SEE_SESSIONS)
        return [
            each
            for each in self.sessions.values()
            if _is_visible(each, authorization) and type in (None, each.type) and protocol in (None, each.protocol)
        ]

    def get(self, authorization: Authorization, token: str, now: Moment) -> Session:
        self._expire(now)
        require(authorization, Right.SEE_SESSIONS)
        session = self.sessions.get(token)
        if session is None or not _is_visible(session, authorization):
            raise not_found()
        return session

    def update(self, authorization: Authorization, token: str, details: RequestDetails, now: Moment) -> Session:
        """Other controllers for a session, from now on; what already waits for it is still sent."""
        require(authorization, Right.USE_SESSIONS)
        session = self.get(authorization, token, now)
        if session.is_singleplex:
            raise bad_request(f"A session with protocol {session.protocol.value!r} cannot be changed")
        if session.state is State.LEAVING:
            raise bad_request("The session has been told to reconnect and cannot be changed")
        if details.security_mode is not session.security:
            raise bad_request(
                f"securityMode: {details.security_mode.value!r}, the session has {session.security.value!r}"
            )
        claims.take(session, self._find(session, authorization, details, ""))
        if session.state is State.LIVE:
            claims.join(session)
        for watcher in self._watchers:
            watcher.changed(session)
        return session

    def delete(self, authorization: Authorization, token: str, now: Moment) -> None:
        require(authorization, Right.END_SESSIONS)
        self._dismiss(self.get(authorization, token, now), Reason.DELETED, now)

    def _find(
        self, session: Session, authorization: Authorization, details: RequestDetails, path: str
    ) -> list[Controller]:
        most = session.limits.max_identifiers
        field = f"{path}tlcIdentifier" if session.is_singleplex else f"{path}tlcIdentifiers"
        if len(details.identifiers) > most:
            raise bad_request(f"{field}: {len(details.identifiers)} identifiers, allowed are 1 to {most}")
        return claims.find(self.registry, authorization, session, details.identifiers, field)

    # -- controllers and tokens -----------------------------------------------------------------------------------

    def tlcs(self, authorization: Authorization) -> list[Tlc]:
        """The controllers that one may see."""
        require(authorization, Right.SEE_TLCS)
        return [each.tlc for each in self.registry if may_see(authorization, each.tlc)]

    def tlc(self, authorization: Authorization, uuid: str) -> Tlc:
        require(authorization, Right.SEE_TLCS)
        controller = self.registry.by_uuid(uuid)
        if controller is None or not may_see(authorization, controller.tlc):
            raise not_found()
        return controller.tlc

    def own_tlc(self, authorization: Authorization, uuid: str) -> Tlc:
        """One that may be unregistered: of one's own account."""
        require(authorization, Right.CHANGE_TLCS)
        tlc = self.tlc(authorization, uuid)
        if tlc.account != authorization.account:
            raise not_found()
        return tlc

    def register(self, tlc: Tlc) -> Controller:
        return self.registry.add(tlc)

    def unregister(self, uuid: str, now: Moment) -> None:
        """The controller leaves every session; one that has no other ends."""
        controller = self.registry.remove(uuid)
        if controller is None:
            return
        for session in dict.fromkeys([*controller.claims.values(), *controller.live.values()]):
            if len(session.scope) == 1:
                self._dismiss(session, Reason.TLC_DELETED, now)
                continue
            claims.lose(session, controller)
            for watcher in self._watchers:
                watcher.changed(session)

    def synchronize(self, tlcs: Iterable[Tlc], now: Moment) -> None:
        """Have exactly these controllers: the database may be changed by others."""
        wanted = {each.uuid: each for each in tlcs}
        for controller in list(self.registry):
            if wanted.get(controller.tlc.uuid) != controller.tlc:
                self.unregister(controller.tlc.uuid, now)
        for uuid, tlc in wanted.items():
            if self.registry.by_uuid(uuid) is None:
                self.register(tlc)

    def credentials(self) -> set[str]:
        """The authorization tokens, by uuid, that sessions are there by."""
        return {each.credential for each in self.sessions.values()}

    def revoke(self, credential: str, now: Moment) -> None:
        """End the sessions of an authorization token."""
        for session in list(self.sessions.values()):
            if session.credential == credential:
                self._dismiss(session, Reason.TOKEN_REVOKED, now)

    # -- connections ----------------------------------------------------------------------------------------------

    def accept(self, channel: Channel, security: SecurityMode, now: Moment) -> Connection:
        """A connection of somebody; not yet of a session."""
        connection = Connection(self, channel, security, now)
        self._strangers[connection] = None
        return connection

    def admit(self, connection: Connection, token: str, now: Moment) -> Session | None:
        """For `Connection`: its session, if it has the token of one that awaits it and was there in time."""
        session = self._pending.get(token)
        if (
            session is None
            or session.security is not connection.security
            or connection.accepted_at >= session.expires_at
        ):
            return None
        del self._pending[token]
        del self._strangers[connection]
        self._connections[connection] = None
        session.connection = connection
        session.connected = now.utc
        session.become(State.LIVE)
        session.receiver = connection.attach(session, now)
        claims.join(session)
        for watcher in self._watchers:
            watcher.connected(session)
        return session

    def ended(self, connection: Connection, end: EndReason, now: Moment) -> None:
        """For `Connection`: it is closed."""
        session = connection.session
        if session is None:
            del self._strangers[connection]
            self.turned_away += 1
        else:
            del self._connections[connection]
            self._end(session, end, now)

    # -- time -----------------------------------------------------------------------------------------------------

    def run_turn(self, now: Moment) -> None:
        """Record and write everything that has gathered."""
        self.turn.run(now)

    def tick(self, now: Moment) -> None:
        """Do what is due by now."""
        elapsed = now.elapsed
        for connections in (self._strangers, self._connections):
            for connection in [each for each in connections if each.due <= elapsed]:
                connection.run(now)
        self._expire(now)
        if elapsed >= self._measured_at + MEASURE_SECONDS:
            self._measured_at = elapsed
            for controller in self.registry:
                controller.measure(elapsed)

    def _expire(self, now: Moment) -> None:
        """End the sessions that nobody has come for; who is at the door since before may still show the token."""
        first = next(iter(self._strangers), None)
        at_the_door = now.elapsed if first is None else first.accepted_at
        before = min(now.elapsed, at_the_door)
        while self._pending:
            session = next(iter(self._pending.values()))
            if session.expires_at > before:
                break
            self._dismiss(session, None, now)

    # -- the end --------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Nobody is connected: the server may go."""
        return not self._connections

    def go_down(self, now: Moment) -> None:
        """Ask everybody to come again, and refuse new sessions; who does not leave is sent away by `tick`."""
        self._going_down = True
        for session in list(self._pending.values()):
            self._dismiss(session, Reason.SHUTDOWN, now)
        for connection in list(self._connections):
            if connection.session is not None and connection.session.state is State.LIVE:
                self.reconnect(connection.session, now, Reason.SHUTDOWN)

    def shut(self, now: Moment) -> None:
        """Send away everybody, at once."""
        self.go_down(now)
        for connection in list(self._connections):
            connection.say_bye(Reason.SHUTDOWN, now)
        for connection in list(self._strangers):
            connection.lost(False, now)

    def reconnect(self, session: Session, now: Moment, reason: Reason = Reason.MAINTENANCE) -> None:
        """Ask the peer of a connected session to come again; its controllers can be had at once."""
        assert session.connection is not None
        session.connection.reconnect(reason, now)
        claims.release(session)

    def _dismiss(self, session: Session, reason: Reason | None, now: Moment) -> None:
        """End a session, connected or not; None: it has expired."""
        if session.connection is not None and reason is not None:
            session.connection.say_bye(reason, now)
        else:
            self._end(session, EndReason.SESSION_EXPIRED if reason is None else reason.end, now)

    def _end(self, session: Session, end: EndReason, now: Moment) -> None:
        self._pending.pop(session.token, None)
        del self.sessions[session.token]
        session.become(State.ENDED)
        session.ended = now.utc
        session.end_reason = end
        claims.leave(session)
        for watcher in self._watchers:
            watcher.ended(session)


def _is_visible(session: Session, authorization: Authorization) -> bool:
    return covers(authorization, session.domain) and sees_account(authorization, session.account)
