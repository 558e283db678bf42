"""One peer's conversation with the hub, from connection and token to the farewell, and the limits of its session.

The door parses the peer's bytes, and calls a method for each thing that the peer does. A peer that has not presented a
token is not told why the conversation ends. Who is admitted and what ends with a session is in `hub`.
Specification: 6.2, 6.3.4.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from penstock.exchange.clockwatch import ClockWatch
from penstock.exchange.farewells import ENDS, Farewell
from penstock.exchange.instant import Instant
from penstock.exchange.ports import Forms, HubMessages, PeerChannel
from penstock.exchange.receiver import Receiver, Turn
from penstock.exchange.session import PeerSession, SessionState
from penstock.exchange.settings import KILOBYTE, HubSettings
from penstock.exchange.window import Window
from penstock.kernel.ledger import Ledger
from penstock.wire.tlex.vocabulary import EndReason, SecurityMode, SessionType
from penstock.wire.tlex.vocabulary import Protocol as SessionProtocol

# Keep-alives are sent this many times as often as the peer's timeout requires.
KEEP_ALIVES_A_TIMEOUT = 2


class Doorkeeper(Protocol):
    """What a conversation needs: from the hub, or from the part of it that is at its node (`outpost`)."""

    turn: Turn
    settings: HubSettings
    forms: Forms
    messages: HubMessages
    ledger: Ledger

    def admit(self, conversation: Conversation, token: str, now: Instant) -> None:
        """Have it `attach` the session that has waited for this peer, or `refuse` it; at once or later."""

    def publish(self, conversation: Conversation, frames: list[bytes], now: Instant) -> None:
        """Relay payloads of its session that are within the limits."""

    def ended(self, conversation: Conversation, end: EndReason, now: Instant) -> None:
        """The conversation is over, and with it its session, if it had one."""


class Conversation:
    """Set `last_heard` with all that comes in, call a method for each event, `lost` when it breaks, `run` when `due`.

    A method that returns whether it is still `open` may have ended it; after the others check `open`.
    """

    __slots__ = (
        "_bytes",
        "_channel",
        "_doorkeeper",
        "_farewell",
        "_messages",
        "_next_request",
        "_payloads",
        "_silence",
        "_writable",
        "accepted_at",
        "awaiting",
        "clock",
        "due",
        "last_heard",
        "leave_at",
        "open",
        "receiver",
        "resumed",
        "security",
        "session",
    )

    def __init__(self, doorkeeper: Doorkeeper, channel: PeerChannel, security: SecurityMode, now: Instant) -> None:
        self.open = True
        self.security = security
        self.accepted_at = now.elapsed
        # When `run` is to be called, at the latest.
        self.due = now.elapsed + doorkeeper.settings.handshake_seconds
        # When a session that was told to reconnect is disconnected.
        self.leave_at = inf
        self._farewell = Farewell.SHUTDOWN
        self.session: PeerSession | None = None
        # A token was presented, and it is not known yet whether it is right: nothing else is to be understood before.
        self.awaiting = False
        # Called when it was, if that was not at once.
        self.resumed: Callable[[Instant], None] | None = None
        self.receiver: Receiver | None = None
        self.clock = ClockWatch(1.0)
        # When the peer's last byte came.
        self.last_heard = now
        self._doorkeeper = doorkeeper
        self._messages = doorkeeper.messages
        self._channel = channel
        self._writable = True
        self._next_request = inf
        self._silence = inf
        self._payloads = Window(0, 1.0)
        self._bytes = Window(0, 1.0)

    # -- figures for others ----------------------------------------------------------------------------------------

    @property
    def last_seen(self) -> int:
        """When the peer's last byte came, in milliseconds since 1970."""
        return self.last_heard.utc

    def rate(self, now: Instant) -> float:
        """Payloads per second, as they are limited: on average over the window."""
        return self._payloads.average(now.elapsed)

    def throughput(self, now: Instant) -> float:
        """Bytes of payloads per second, as they are limited."""
        return self._bytes.average(now.elapsed)

    # -- what becomes of the channel -------------------------------------------------------------------------------

    def lost(self, broken: bool, now: Instant) -> None:
        """The peer is gone: it has closed the connection, or it is `broken`."""
        if self.open:
            # What waits can no longer be delivered, and must not count as sent.
            self.set_writable(False)
            self._end(EndReason.CONNECTION_ERROR if broken else EndReason.CLIENT_DISCONNECT, now)

    def set_writable(self, writable: bool) -> None:
        """Whether the channel takes more to write."""
        self._writable = writable
        if self.receiver is not None and self.open:
            self.receiver.set_writable(writable)

    # -- what the peer does ----------------------------------------------------------------------------------------

    def show(self, token: str, now: Instant) -> None:
        """It presents a token, which may be invalid."""
        self.awaiting = True
        self._doorkeeper.admit(self, token, now)

    def refuse(self, now: Instant) -> None:
        """The token is not right: called by the doorkeeper."""
        self._end(EndReason.PROTOCOL_ERROR, now)

    def resume(self, now: Instant) -> None:
        """The session is there, later than its peer may have gone on: called by the doorkeeper."""
        if self.resumed is not None:
            self.resumed(now)

    def attach(self, session: PeerSession, now: Instant) -> Receiver:
        """This is the session's conversation from now on: called by the doorkeeper."""
        doorkeeper = self._doorkeeper
        self.awaiting = False
        settings = doorkeeper.settings
        limits = session.limits
        self.session = session
        self._messages = doorkeeper.messages.of(session.protocol)
        self.receiver = Receiver(
            self._channel,
            doorkeeper.forms,
            self._messages,
            doorkeeper.turn,
            session.counters,
            settings.queue_frames,
            settings.queue_bytes,
            is_singleplex=session.is_singleplex,
            is_monitor=session.type is SessionType.MONITOR,
            ledger=doorkeeper.ledger,
        )
        self.receiver.set_writable(self._writable)
        self.receiver.last_write = self.accepted_at
        seconds = limits.payloads_window_seconds
        self._payloads = Window(int(limits.payloads_per_second * seconds), seconds)
        seconds = limits.kilobytes_window_seconds
        self._bytes = Window(int(limits.kilobytes_per_second * KILOBYTE * seconds), seconds)
        self.clock = ClockWatch(limits.clock_difference_window_seconds)
        self._silence = limits.keep_alive_seconds * (1 + settings.keep_alive_slack)
        # A line of V-Log has no clock.
        self._next_request = inf if session.protocol is SessionProtocol.VLOG else now.elapsed
        self._run(now)
        return self.receiver

    def publish(self, frames: list[bytes], now: Instant) -> bool:
        """Relay what is within the limits; the payload that exceeds one ends the session. Returns whether to go on.

        Frames are as long as the session's layout says, at least.
        """
        session = self.session
        assert session is not None
        head = session.layout.head
        count = len(frames)
        size = sum(map(len, frames)) - count * head
        over: Farewell | None = None
        room = self._payloads.room(now.elapsed)
        if count > room:
            over = Farewell.PAYLOAD_RATE
            frames = frames[:room]
        room = self._bytes.room(now.elapsed)
        if size > room:
            within = _within(frames, head, room)
            if within < len(frames):
                over = Farewell.PAYLOAD_THROUGHPUT
                frames = frames[:within]
        if over is not None:
            count = len(frames)
            size = sum(map(len, frames)) - count * head
        self._payloads.add(now.elapsed, count)
        self._bytes.add(now.elapsed, size)
        session.counters.received += count
        session.counters.received_bytes += size
        if frames:
            self._doorkeeper.publish(self, frames, now)
        if over is not None:
            self.say_bye(over, now, self._limit(over))
        return self.open

    def answer(self, asked: int, now: Instant) -> None:
        """It asks for timestamps."""
        assert self.receiver is not None
        self.receiver.answer(asked, now)

    def compare(self, asked: int, came: int, sent: int, now: Instant) -> None:
        """It answers with timestamps: that of the request, and two of its own clock."""
        assert self.session is not None
        self.clock.answered(asked, came, sent, now)
        average, most = self.clock.average, self.session.limits.clock_difference_millis
        if average is not None and average > most:
            self.say_bye(Farewell.CLOCK_DIFFERENCE, now, f"{average:.0f} ms on average, at most {most} ms is allowed")

    def leave(self, now: Instant) -> None:
        """It says goodbye."""
        self._end(EndReason.CLIENT_DISCONNECT, now)

    def violate(self, details: str, now: Instant) -> None:
        """It violates the protocol; `details` are sent only to a peer that has presented a token."""
        if self.session is None:
            self._end(EndReason.PROTOCOL_ERROR, now)
        else:
            self.say_bye(Farewell.PROTOCOL_VIOLATION, now, details)

    def garble(self, now: Instant) -> None:
        """Nothing that it sends can be parsed any more."""
        self._end(EndReason.PROTOCOL_ERROR, now)

    def _limit(self, farewell: Farewell) -> str:
        assert self.session is not None
        limits = self.session.limits
        if farewell is Farewell.PAYLOAD_RATE:
            return f"at most {limits.payloads_per_second} a second over {limits.payloads_window_seconds:g} s"
        return f"at most {limits.kilobytes_per_second} KB a second over {limits.kilobytes_window_seconds:g} s"

    # -- time -----------------------------------------------------------------------------------------------------

    def run(self, now: Instant) -> None:
        """Do what is due: send a keep-alive, ask for timestamps, or end a conversation that was silent for too long."""
        if not self.open:
            return
        if self.session is None:
            if now.elapsed >= self.due:
                self._end(EndReason.SESSION_EXPIRED, now)
        elif now.elapsed >= self.leave_at:
            self.say_bye(self._farewell, now)
        elif now.elapsed >= self.last_heard.elapsed + self._silence:
            self.say_bye(Farewell.KEEP_ALIVE, now, f"nothing received for {self._silence:g} s")
        else:
            self._run(now)

    def _run(self, now: Instant) -> None:
        session, receiver, messages = self.session, self.receiver, self._messages
        assert session is not None
        assert receiver is not None
        elapsed = now.elapsed
        interval = session.limits.keep_alive_seconds / KEEP_ALIVES_A_TIMEOUT
        # Nothing is written to a congested peer: it would have to be queued, and bytes wait for the peer anyway.
        if elapsed >= self._next_request:
            self._next_request = elapsed + self._doorkeeper.settings.timestamps_seconds
            if receiver.writable:
                receiver.send(messages.ask(self.clock.ask(now)))
                receiver.last_write = elapsed
        elif elapsed >= receiver.last_write + interval and receiver.writable:
            receiver.send(messages.keep_alive)
            receiver.last_write = elapsed
        next_write = receiver.last_write + interval if receiver.writable else elapsed + interval
        self.due = min(self.last_heard.elapsed + self._silence, self._next_request, next_write, self.leave_at)

    # -- the end --------------------------------------------------------------------------------------------------

    def reconnect(self, farewell: Farewell, now: Instant) -> None:
        """Ask the peer to reconnect with a new session; it has some time for that before it is disconnected."""
        assert self.session is not None
        assert self.receiver is not None
        self.session.become(SessionState.LEAVING)
        self._farewell = farewell
        self.leave_at = now.elapsed + self._doorkeeper.settings.reconnect_grace_seconds
        self.due = min(self.due, self.leave_at)
        self.receiver.send(self._messages.reconnect)

    def cut_off(self, now: Instant) -> None:
        """The node cannot reach the hub: the peer is to come again, here or elsewhere, and is disconnected at once."""
        assert self.receiver is not None
        self.receiver.send(self._messages.reconnect)
        self.say_bye(Farewell.CUT_OFF, now)

    def say_bye(self, farewell: Farewell, now: Instant, details: str = "") -> None:
        """The last message, to a peer that has presented a token."""
        assert self.session is not None
        self._end(ENDS[farewell], now, self._messages.bye(farewell, details))

    def _end(self, end: EndReason, now: Instant, last: bytes = b"") -> None:
        self.open = False
        if self.receiver is not None:
            self.receiver.end(last, now)
        else:
            self._channel.close()
        self._doorkeeper.ended(self, end, now)


def _within(frames: list[bytes], head: int, room: int) -> int:
    """How many of these have payloads of at most `room` bytes together."""
    for index, frame in enumerate(frames):
        room -= len(frame) - head
        if room < 0:
            return index
    return len(frames)
