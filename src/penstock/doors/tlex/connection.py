"""One connection: from the version byte over the token to the last datagram, and the limits of its session.

What each datagram means is a table, `_MEANINGS`; before the token was right there is only one that is not refused.
Nobody who has not shown a token is told why. Who may connect and what ends with a session is in `hub`.
Specification: 6.2, 6.3.4.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from penstock.doors.tlex.clockwatch import ClockWatch
from penstock.doors.tlex.moment import Moment
from penstock.doors.tlex.ports import Channel
from penstock.doors.tlex.receiver import Receiver
from penstock.doors.tlex.relay import relay
from penstock.doors.tlex.session import Session, State
from penstock.doors.tlex.settings import KILOBYTE, Settings
from penstock.doors.tlex.turn import Turn
from penstock.doors.tlex.window import Window
from penstock.kernel.ledger import Ledger
from penstock.wire.tlex.datagrams import (
    KEEP_ALIVE_FRAME,
    RECONNECT_FRAME,
    Kind,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    check_size,
    decode,
)
from penstock.wire.tlex.errors import BadDatagram
from penstock.wire.tlex.frames import PREAMBLE, FrameReader
from penstock.wire.tlex.payloads import BODY_AT, BODY_HEAD_SIZE, IDENTIFIED_BODY_AT, KIND_AT
from penstock.wire.tlex.reasons import EndReason, Reason
from penstock.wire.tlex.vocabulary import SecurityMode, SessionType

# A keep-alive is sent this many times as often as the peer must hear something.
KEEP_ALIVES_A_TIMEOUT = 2

# The payload datagram of sessions that must not send any.
_NO_KIND = -1


class Doorkeeper(Protocol):
    """What a connection asks of the hub."""

    turn: Turn
    settings: Settings
    ledger: Ledger

    def admit(self, connection: Connection, token: str, now: Moment) -> Session | None:
        """The session that has waited for this connection."""

    def ended(self, connection: Connection, end: EndReason, now: Moment) -> None:
        """The connection is closed, and with it its session, if it had one."""


class Connection:
    """Give it what comes in with `received`, say when it breaks with `lost`, and call `run` when it is `due`."""

    __slots__ = (
        "_bytes",
        "_channel",
        "_doorkeeper",
        "_farewell",
        "_head",
        "_kind",
        "_last_read",
        "_next_request",
        "_payloads",
        "_reader",
        "_silence",
        "_writable",
        "accepted_at",
        "clock",
        "due",
        "leave_at",
        "open",
        "receiver",
        "security",
        "session",
    )

    def __init__(self, doorkeeper: Doorkeeper, channel: Channel, security: SecurityMode, now: Moment) -> None:
        settings = doorkeeper.settings
        self.open = True
        self.security = security
        self.accepted_at = now.elapsed
        # When `run` is to be called, at the latest.
        self.due = now.elapsed + settings.handshake_seconds
        # When a session that was told to reconnect is sent away.
        self.leave_at = inf
        self._farewell = Reason.SHUTDOWN
        self.session: Session | None = None
        self.receiver: Receiver | None = None
        self.clock = ClockWatch(1.0)
        self._doorkeeper = doorkeeper
        self._channel = channel
        self._reader = FrameReader(settings.max_frame)
        self._writable = True
        self._last_read = now
        self._next_request = inf
        self._silence = inf
        # The kind of payload datagram that it may send, and how many bytes come before the payload.
        self._kind = _NO_KIND
        self._head = 0
        self._payloads = Window(0, 1.0)
        self._bytes = Window(0, 1.0)
        # At once: clients wait for it before they send their token.
        channel.write(PREAMBLE)

    # -- what others look at ---------------------------------------------------------------------------------------

    @property
    def last_seen(self) -> int:
        """When the peer's last byte came, in milliseconds since 1970."""
        return self._last_read.utc

    def rate(self, now: Moment) -> float:
        """Payloads a second, as they are limited: on average over the window."""
        return self._payloads.average(now.elapsed)

    def throughput(self, now: Moment) -> float:
        """Bytes of payloads a second, as they are limited."""
        return self._bytes.average(now.elapsed)

    # -- what comes in --------------------------------------------------------------------------------------------

    def received(self, data: bytes, now: Moment) -> None:
        """Bytes of the peer, in any pieces."""
        if not self.open:
            return
        self._last_read = now
        kind, head = self._kind, self._head
        payloads: list[bytes] = []
        for frame in self._reader.feed(data):
            if frame[KIND_AT] == kind and len(frame) >= head:
                payloads.append(frame)
                continue
            if payloads:
                if not self._publish(payloads, now):
                    return
                payloads = []
            if not self._understand(frame, now):
                return
            # The first of them has made a session of it.
            kind, head = self._kind, self._head
        if payloads and not self._publish(payloads, now):
            return
        if self._reader.error is not None:
            self._end(EndReason.PROTOCOL_ERROR, now)

    def lost(self, broken: bool, now: Moment) -> None:
        """The peer is gone: it has closed the connection, or it is `broken`."""
        if self.open:
            # What waits reaches nobody any more, and must not count as sent.
            self.set_writable(False)
            self._end(EndReason.CONNECTION_ERROR if broken else EndReason.CLIENT_DISCONNECT, now)

    def set_writable(self, writable: bool) -> None:
        """Whether the channel takes more to write."""
        self._writable = writable
        if self.receiver is not None and self.open:
            self.receiver.set_writable(writable)

    def _understand(self, frame: bytes, now: Moment) -> bool:
        """Any datagram but the payloads it is there for. Whether to go on."""
        try:
            kind = check_size(frame)
            if self.session is None:
                self._authenticate(kind, frame, now)
            elif kind is None:
                self.session.counters.unknown += 1
            else:
                _MEANINGS[kind](self, frame, now)
        except BadDatagram as error:
            if self.session is None:
                self._end(EndReason.PROTOCOL_ERROR, now)
            else:
                self.say_bye(Reason.PROTOCOL_VIOLATION, now, str(error))
        return self.open

    def _authenticate(self, kind: Kind | None, frame: bytes, now: Moment) -> None:
        datagram = decode(frame) if kind is Kind.TOKEN else None
        session = self._doorkeeper.admit(self, datagram.token, now) if isinstance(datagram, Token) else None
        if session is None:
            self._end(EndReason.PROTOCOL_ERROR, now)

    def attach(self, session: Session, now: Moment) -> Receiver:
        """This is the session's connection from now on: called by the hub, from `admit`."""
        settings = self._doorkeeper.settings
        limits = session.limits
        self.session = session
        self.receiver = Receiver(
            self._channel,
            self._doorkeeper.turn,
            session.counters,
            settings.queue_frames,
            settings.queue_bytes,
            is_singleplex=session.is_singleplex,
            is_monitor=session.type is SessionType.MONITOR,
            ledger=self._doorkeeper.ledger,
        )
        self.receiver.set_writable(self._writable)
        self.receiver.last_write = self.accepted_at
        if session.is_singleplex:
            self._kind, self._head = Kind.PAYLOAD, BODY_AT + BODY_HEAD_SIZE
        elif session.type is not SessionType.MONITOR:
            self._kind, self._head = Kind.IDENTIFIED_PAYLOAD, IDENTIFIED_BODY_AT + BODY_HEAD_SIZE
        seconds = limits.payloads_window_seconds
        self._payloads = Window(int(limits.payloads_per_second * seconds), seconds)
        seconds = limits.kilobytes_window_seconds
        self._bytes = Window(int(limits.kilobytes_per_second * KILOBYTE * seconds), seconds)
        self.clock = ClockWatch(limits.clock_difference_window_seconds)
        self._silence = limits.keep_alive_seconds * (1 + settings.keep_alive_slack)
        self._next_request = now.elapsed
        self._run(now)
        return self.receiver

    # -- datagrams ------------------------------------------------------------------------------------------------

    def _ignore(self, frame: bytes, now: Moment) -> None:
        """That it came is all there is to it."""

    def _refuse(self, frame: bytes, now: Moment) -> None:
        assert self.session is not None
        who = f"a {self.session.type.value} session with {self.session.protocol.value}"
        raise BadDatagram(Kind(frame[KIND_AT]).label, f"not allowed here, in {who}")

    def _leave(self, frame: bytes, now: Moment) -> None:
        self._end(EndReason.CLIENT_DISCONNECT, now)

    def _answer(self, frame: bytes, now: Moment) -> None:
        request = decode(frame)
        assert isinstance(request, TimestampsRequest)
        assert self.receiver is not None
        self.receiver.answer(request.sent, now)

    def _compare(self, frame: bytes, now: Moment) -> None:
        answer = decode(frame)
        assert isinstance(answer, TimestampsResponse)
        assert self.session is not None
        self.clock.answered(answer, now)
        average, most = self.clock.average, self.session.limits.clock_difference_millis
        if average is not None and average > most:
            self.say_bye(Reason.CLOCK_DIFFERENCE, now, f"{average:.0f} ms on average, allowed are {most} ms")

    def _publish(self, frames: list[bytes], now: Moment) -> bool:
        """Pass on what is within the limits; the payload that exceeds one ends the session. Whether to go on."""
        session = self.session
        assert session is not None
        head = self._head
        count = len(frames)
        size = sum(map(len, frames)) - count * head
        over: Reason | None = None
        room = self._payloads.room(now.elapsed)
        if count > room:
            over = Reason.PAYLOAD_RATE
            frames = frames[:room]
        room = self._bytes.room(now.elapsed)
        if size > room:
            within = _within(frames, head, room)
            if within < len(frames):
                over = Reason.PAYLOAD_THROUGHPUT
                frames = frames[:within]
        if over is not None:
            count = len(frames)
            size = sum(map(len, frames)) - count * head
        self._payloads.add(now.elapsed, count)
        self._bytes.add(now.elapsed, size)
        session.counters.received += count
        session.counters.received_bytes += size
        if frames:
            relay(session, frames, self._doorkeeper.turn, now)
        if over is not None:
            self.say_bye(over, now, self._limit(over))
        return self.open

    def _limit(self, reason: Reason) -> str:
        assert self.session is not None
        limits = self.session.limits
        if reason is Reason.PAYLOAD_RATE:
            return f"allowed are {limits.payloads_per_second} a second over {limits.payloads_window_seconds:g} s"
        return f"allowed are {limits.kilobytes_per_second} KB a second over {limits.kilobytes_window_seconds:g} s"

    # -- time -----------------------------------------------------------------------------------------------------

    def run(self, now: Moment) -> None:
        """Do what is due: keep alive, ask for timestamps, or end a connection that has been silent for too long."""
        if not self.open:
            return
        if self.session is None:
            if now.elapsed >= self.due:
                self._end(EndReason.SESSION_EXPIRED, now)
        elif now.elapsed >= self.leave_at:
            self.say_bye(self._farewell, now)
        elif now.elapsed >= self._last_read.elapsed + self._silence:
            self.say_bye(Reason.KEEP_ALIVE, now, f"nothing received for {self._silence:g} s")
        else:
            self._run(now)

    def _run(self, now: Moment) -> None:
        session, receiver = self.session, self.receiver
        assert session is not None
        assert receiver is not None
        elapsed = now.elapsed
        interval = session.limits.keep_alive_seconds / KEEP_ALIVES_A_TIMEOUT
        # A peer that takes nothing is not written to: it would have to be remembered, and bytes wait for it anyway.
        if elapsed >= self._next_request:
            self._next_request = elapsed + self._doorkeeper.settings.timestamps_seconds
            if receiver.writable:
                receiver.send(self.clock.ask(now))
                receiver.last_write = elapsed
        elif elapsed >= receiver.last_write + interval and receiver.writable:
            receiver.send(KEEP_ALIVE_FRAME)
            receiver.last_write = elapsed
        next_write = receiver.last_write + interval if receiver.writable else elapsed + interval
        self.due = min(self._last_read.elapsed + self._silence, self._next_request, next_write, self.leave_at)

    # -- the end --------------------------------------------------------------------------------------------------

    def reconnect(self, reason: Reason, now: Moment) -> None:
        """Ask the peer to come again with a new session; it has some time for that before it is sent away."""
        assert self.session is not None
        assert self.receiver is not None
        self.session.become(State.LEAVING)
        self._farewell = reason
        self.leave_at = now.elapsed + self._doorkeeper.settings.reconnect_grace_seconds
        self.due = min(self.due, self.leave_at)
        self.receiver.send(RECONNECT_FRAME)

    def say_bye(self, reason: Reason, now: Moment, details: str = "") -> None:
        """The last datagram, for who has shown a token."""
        assert self.session is not None
        self._end(reason.end, now, reason.bye(details).encode())

    def _end(self, end: EndReason, now: Moment, last: bytes = b"") -> None:
        self.open = False
        if self.receiver is not None:
            self.receiver.end(last, now)
        else:
            self._channel.close()
        self._doorkeeper.ended(self, end, now)


_MEANINGS: dict[Kind, Callable[[Connection, bytes, Moment], None]] = {
    Kind.KEEP_ALIVE: Connection._ignore,
    Kind.TOKEN: Connection._refuse,
    Kind.BYE: Connection._leave,
    Kind.RECONNECT: Connection._refuse,
    # Those that the session may send do not come this way.
    Kind.PAYLOAD: Connection._refuse,
    Kind.IDENTIFIED_PAYLOAD: Connection._refuse,
    Kind.TIMESTAMPS_REQUEST: Connection._answer,
    Kind.TIMESTAMPS_RESPONSE: Connection._compare,
}


def _within(frames: list[bytes], head: int, room: int) -> int:
    """How many of these have payloads of no more than `room` bytes together."""
    for index, frame in enumerate(frames):
        room -= len(frame) - head
        if room < 0:
            return index
    return len(frames)
