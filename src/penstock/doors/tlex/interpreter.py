"""What the bytes of a peer mean: frames become datagrams, and each datagram a verb of the hub's `Conversation`.

The meanings are a table, `_MEANINGS`; before a valid token all others are refused. No sockets (`listener`), and no
rules: what follows is decided in `exchange`. Lines of V-Log are in `vlog`. Specification: 6.2, 6.3.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.doors.tlex.vlog import VlogInterpreter
from penstock.wire.tlex.datagrams import (
    DatagramKind,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    check_size,
    decode,
)
from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.frames import MAX_SIZE, PREAMBLE, TlexFrameReader
from penstock.wire.tlex.payloads import KIND_AT
from penstock.wire.tlex.vlog import STARTS
from penstock.wire.tlex.vocabulary import Protocol as SessionProtocol

if TYPE_CHECKING:
    from penstock.exchange.conversation import Conversation
    from penstock.exchange.instant import Instant
    from penstock.exchange.ports import PeerChannel
    from penstock.exchange.session import PeerSession
    from penstock.exchange.settings import HubSettings
    from penstock.wire.tlex.vocabulary import SecurityMode

# The payload datagram of sessions that must not send any.
_NO_KIND = -1


class TlexReception(Protocol):
    """Who peers are received by: the hub, or the part of it that is at this node."""

    settings: HubSettings

    def accept(self, channel: PeerChannel, security: SecurityMode, now: Instant) -> Conversation: ...


class Interpreter:
    """For one peer: pass what comes in to `received`. Everything else goes to its `conversation`.

    While that is awaiting its session, what follows the token is kept: call `resume` when it is there.
    """

    __slots__ = ("_head", "_kept", "_kind", "_reader", "_vlog", "_vlog_type", "conversation")

    def __init__(
        self, hub: TlexReception, channel: PeerChannel, security: SecurityMode, now: Instant, max_frame: int = MAX_SIZE
    ) -> None:
        """`max_frame` is the most data of a frame; a longer one ends the conversation."""
        self.conversation = hub.accept(channel, security, now)
        self._reader = TlexFrameReader(max_frame)
        # The kind of payload datagram that it may send, and how many bytes come before the payload.
        self._kind = _NO_KIND
        self._head = 0
        # Frames that came after a token that nobody has decided about yet.
        self._kept: list[bytes] = []
        # Of a peer that does not begin with the version of the protocol, but with the line of its token.
        self._vlog: VlogInterpreter | None = None
        self._vlog_type = hub.settings.vlog_payload_type
        # Sent at once, because clients wait for it before they send their token.
        channel.write(PREAMBLE)

    def received(self, data: bytes, now: Instant) -> None:
        """Bytes of the peer, in any pieces."""
        conversation = self.conversation
        if not conversation.open:
            return
        conversation.last_heard = now
        if self._reader.version is None and self._vlog is None and data and data[0] in STARTS:
            self._vlog = VlogInterpreter(conversation, self._vlog_type)
        if self._vlog is not None:
            self._vlog.received(data, now)
            return
        frames = self._reader.feed(data)
        if conversation.awaiting:
            self._kept += frames
        else:
            self._interpret(frames, now)

    def resume(self, now: Instant) -> None:
        """The session is there: what the peer has sent since it showed its token is understood now."""
        if self._vlog is not None:
            self._vlog.resume(now)
            return
        frames, self._kept = self._kept, []
        self._begin(now)
        if self.conversation.open:
            self._interpret(frames, now)

    def _interpret(self, frames: list[bytes], now: Instant) -> None:
        conversation = self.conversation
        kind, head = self._kind, self._head
        payloads: list[bytes] = []
        for position, frame in enumerate(frames):
            if frame[KIND_AT] == kind and len(frame) >= head:
                payloads.append(frame)
                continue
            if payloads:
                if not conversation.publish(payloads, now):
                    return
                payloads = []
            if not self._understand(frame, now):
                return
            if conversation.awaiting:
                self._kept = frames[position + 1 :]
                return
            # The first of them may have connected a session.
            kind, head = self._kind, self._head
        if payloads and not conversation.publish(payloads, now):
            return
        if self._reader.error is not None:
            conversation.garble(now)

    def _understand(self, frame: bytes, now: Instant) -> bool:
        """Any datagram except the payloads of its session. Returns whether to go on."""
        conversation = self.conversation
        session = conversation.session
        try:
            kind = check_size(frame)
            if session is None:
                self._authenticate(kind, frame, now)
            elif kind is None:
                session.counters.unknown += 1
            else:
                _MEANINGS[kind](self, session, frame, now)
        except BadDatagram as error:
            conversation.violate(str(error), now)
        return conversation.open

    def _authenticate(self, kind: DatagramKind | None, frame: bytes, now: Instant) -> None:
        if kind is not DatagramKind.TOKEN:
            self.conversation.violate("the token must come first", now)
            return
        datagram = decode(frame)
        assert isinstance(datagram, Token)
        self.conversation.show(datagram.token, now)
        self._begin(now)

    def _begin(self, now: Instant) -> None:
        """What the session may send, if there is one."""
        session = self.conversation.session
        if session is not None and session.protocol is SessionProtocol.VLOG:
            self.conversation.violate(f"this session has {session.protocol.value}, which has no frames", now)
        elif session is not None and session.may_publish:
            self._kind = int(DatagramKind.PAYLOAD if session.is_singleplex else DatagramKind.IDENTIFIED_PAYLOAD)
            self._head = session.layout.head

    # -- datagrams after a valid token ----------------------------------------------------------------------------

    def _ignore(self, session: PeerSession, frame: bytes, now: Instant) -> None:
        """Its arrival is all that matters."""

    def _refuse(self, session: PeerSession, frame: bytes, now: Instant) -> None:
        who = f"a {session.type.value} session with {session.protocol.value}"
        raise BadDatagram(DatagramKind(frame[KIND_AT]).label, f"not allowed here, in {who}")

    def _leave(self, session: PeerSession, frame: bytes, now: Instant) -> None:
        self.conversation.leave(now)

    def _answer(self, session: PeerSession, frame: bytes, now: Instant) -> None:
        request = decode(frame)
        assert isinstance(request, TimestampsRequest)
        self.conversation.answer(request.sent, now)

    def _compare(self, session: PeerSession, frame: bytes, now: Instant) -> None:
        answer = decode(frame)
        assert isinstance(answer, TimestampsResponse)
        self.conversation.compare(answer.request_sent, answer.request_received, answer.response_sent, now)


_MEANINGS: dict[DatagramKind, Callable[[Interpreter, PeerSession, bytes, Instant], None]] = {
    DatagramKind.KEEP_ALIVE: Interpreter._ignore,
    DatagramKind.TOKEN: Interpreter._refuse,
    DatagramKind.BYE: Interpreter._leave,
    DatagramKind.RECONNECT: Interpreter._refuse,
    # Those that the session may send are handled elsewhere.
    DatagramKind.PAYLOAD: Interpreter._refuse,
    DatagramKind.IDENTIFIED_PAYLOAD: Interpreter._refuse,
    DatagramKind.TIMESTAMPS_REQUEST: Interpreter._answer,
    DatagramKind.TIMESTAMPS_RESPONSE: Interpreter._compare,
}
