"""A hub with a clock that the test moves, tokens that are numbers, and peers in memory that speak real datagrams."""

from __future__ import annotations

from typing import NamedTuple

from penstock.doors.tlex.interpreter import Interpreter
from penstock.doors.tlex.messages import TlexMessages
from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.conversation import Conversation
from penstock.exchange.hub import TICK_SECONDS, Hub
from penstock.exchange.instant import Instant
from penstock.exchange.ports import PayloadBatch, PayloadRecorder
from penstock.exchange.session import HubSession, SessionOrder
from penstock.exchange.settings import HubSettings
from penstock.wire.tlex.datagrams import (
    Bye,
    Datagram,
    IdentifiedPayload,
    KeepAlive,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    decode,
)
from penstock.wire.tlex.forms import PayloadForms
from penstock.wire.tlex.frames import MAX_SIZE, PREAMBLE, TlexFrameReader
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc, TlcType

TLC, BROKER, MONITOR = SessionType.TLC, SessionType.BROKER, SessionType.MONITOR
SINGLEPLEX, MULTIPLEX = Protocol.SINGLEPLEX, Protocol.MULTIPLEX

NOON = 1_700_000_000_000

ADMINS = {TLC: Role.TLC_ADMIN, BROKER: Role.BROKER_ADMIN, MONITOR: Role.MONITOR_ADMIN}

A, B, C, D = "NLZH000A", "NLZH000B", "NLZH000C", "NLZH000D"


class Numbers:
    """Chance that is none."""

    def __init__(self) -> None:
        self.count = 0

    def token(self) -> str:
        self.count += 1
        return f"{self.count:043}"

    def uuid(self) -> str:
        self.count += 1
        return f"session-{self.count}"


class Tape:
    """Records everything; a list for each turn."""

    def __init__(self) -> None:
        self.turns: list[list[PayloadBatch]] = []

    def record(self, batches: list[PayloadBatch]) -> None:
        self.turns.append(batches)


class Happening(NamedTuple):
    what: str
    session: HubSession


class Diary:
    """What a watcher is told."""

    def __init__(self) -> None:
        self.entries: list[Happening] = []

    def opened(self, session: HubSession) -> None:
        self.entries.append(Happening("opened", session))

    def connected(self, session: HubSession) -> None:
        self.entries.append(Happening("connected", session))

    def changed(self, session: HubSession) -> None:
        self.entries.append(Happening("changed", session))

    def ended(self, session: HubSession) -> None:
        self.entries.append(Happening("ended", session))


class Peer:
    """A client in memory, and the channel to it. `stuck`: it takes no more than it has been written before."""

    interpreter: Interpreter

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed = False
        self.stuck = False
        self.writes: list[bytes] = []
        self._reader = TlexFrameReader()

    # -- the channel ----------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert not self.closed, "written after it was closed"
        self.writes.append(data)
        if self.stuck:
            self.conversation.set_writable(False)

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True

    # -- the client -----------------------------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        return self.interpreter.conversation

    @property
    def session(self) -> HubSession:
        assert isinstance(self.conversation.session, HubSession)
        return self.conversation.session

    def send(self, *datagrams: Datagram) -> None:
        self.send_bytes(b"".join([each.encode() for each in datagrams]))

    def send_bytes(self, data: bytes) -> None:
        self.interpreter.received(data, self.world.now)
        self.world.turn()

    def free(self) -> None:
        """Read again."""
        self.stuck = False
        self.conversation.set_writable(True)
        self.world.turn()

    def take(self) -> list[Datagram]:
        """All that came since the last time."""
        frames = self._reader.feed(b"".join(self.writes))
        self.writes.clear()
        assert self._reader.error is None
        assert not self._reader._rest, "the last frame is not whole"
        return [decode(each) for each in frames]

    def payloads(self) -> list[Payload | IdentifiedPayload]:
        """Those that came since the last time; nothing else is looked at."""
        return [each for each in self.take() if isinstance(each, Payload | IdentifiedPayload)]

    def texts(self) -> list[str]:
        return [each.data.decode() for each in self.payloads()]

    def bye(self) -> str | None:
        """The reason of Bye, which must be the last datagram, before the connection is closed."""
        datagrams = self.take()
        byes = [each for each in datagrams if isinstance(each, Bye)]
        if not byes:
            return None
        assert datagrams[-1:] == byes
        assert self.closed
        return byes[0].reason

    def count(self, kind: type[KeepAlive] | type[Reconnect] | type[TimestampsRequest]) -> int:
        return len([each for each in self.take() if isinstance(each, kind)])


class World:
    def __init__(self, settings: HubSettings | None = None, recorder: PayloadRecorder | None = None) -> None:
        self.now = Instant(1_000.0, NOON)
        self.woken = 0
        self.diary = Diary()
        self.hub = Hub(
            settings or HubSettings(),
            Numbers(),
            PayloadForms(),
            TlexMessages(),
            self._wake,
            [self.diary],
            [recorder] if recorder else [],
        )
        # Of the interpreters.
        self.max_frame = MAX_SIZE

    def _wake(self) -> None:
        self.woken += 1

    # -- time -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        self.hub.turn.run(self.now)

    def move(self, seconds: float) -> None:
        """Only the clock."""
        self.now = Instant(self.now.elapsed + seconds, self.now.utc + round(seconds * 1000))

    def wait(self, seconds: float, *alive: Peer) -> None:
        """Time goes by, with everything that is due; these send a keep-alive with every tick."""
        steps = round(seconds / TICK_SECONDS)
        assert steps * TICK_SECONDS == seconds
        for _ in range(steps):
            self.move(TICK_SECONDS)
            for peer in alive:
                peer.interpreter.received(KeepAlive().encode(), self.now)
            self.hub.tick(self.now)
            self.turn()

    # -- requests -------------------------------------------------------------------------------------------------

    def register(self, *identifiers: str, domain: str = "test", type: TlcType = TlcType.TCP_STREAMING) -> None:
        for each in identifiers:
            tlc = Tlc(uuid=f"{domain}-{each}", identifier=each, type=type, domain=domain, account="owner")
            self.hub.register(tlc)

    def authorization(self, type: SessionType, account: str = "ours", domain: str = "test") -> Authorization:
        return Authorization(f"{account}-{type.value}", account, domain, ADMINS[type], frozenset(), f"token-{account}")

    def request(
        self,
        type: SessionType,
        *identifiers: str,
        protocol: Protocol = MULTIPLEX,
        domain: str = "test",
        security: SecurityMode = SecurityMode.NONE,
    ) -> SessionOrder:
        return SessionOrder(domain, type, protocol, security, identifiers)

    def open(
        self,
        type: SessionType,
        *identifiers: str,
        account: str = "ours",
        domain: str = "test",
        protocol: Protocol = MULTIPLEX,
        security: SecurityMode = SecurityMode.NONE,
    ) -> HubSession:
        request = self.request(type, *identifiers, protocol=protocol, domain=domain, security=security)
        return self.hub.create(self.authorization(type, account, domain), request, self.now)

    def put(self, session: HubSession, *identifiers: str, security: SecurityMode = SecurityMode.NONE) -> HubSession:
        authorization = self.authorization(session.type, session.account, session.domain)
        return self.hub.update(authorization, session.token, security, identifiers, self.now)

    # -- connections ----------------------------------------------------------------------------------------------

    def accept(self, security: SecurityMode = SecurityMode.NONE) -> Peer:
        peer = Peer(self)
        peer.interpreter = Interpreter(self.hub, peer, security, self.now, self.max_frame)
        return peer

    def connect(self, session: HubSession) -> Peer:
        peer = self.accept(session.security)
        peer.send_bytes(PREAMBLE + Token(session.token).encode())
        assert peer.session is session
        return peer

    def join(
        self,
        type: SessionType,
        *identifiers: str,
        account: str = "ours",
        domain: str = "test",
        protocol: Protocol = MULTIPLEX,
    ) -> Peer:
        """A session, connected; what it is sent at the beginning is taken."""
        peer = self.connect(self.open(type, *identifiers, account=account, domain=domain, protocol=protocol))
        peer.take()
        return peer


def plain(text: str, type: int = 2, origin: int = NOON) -> Payload:
    return Payload(type, origin, text.encode())


def named(identifier: str, text: str, type: int = 2, origin: int = NOON) -> IdentifiedPayload:
    return IdentifiedPayload(identifier, type, origin, text.encode())


def answer(request: Datagram, ahead: int = 0, took: int = 0, later: int = 0) -> TimestampsResponse:
    """Of a peer whose clock is `ahead`, to a request that was `later` milliseconds on the way to it."""
    assert isinstance(request, TimestampsRequest)
    came = request.sent + later + ahead
    return TimestampsResponse(request.sent, came, came + took)
