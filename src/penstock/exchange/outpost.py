"""The part of the TLEX hub that is at another node: peers are connected here, and everything else is at the hub.

It holds their conversations: tokens are shown to the hub, payloads within the limits are passed on to it, and what it
delivers waits here for slow peers. Without the hub there is nothing to exchange: `cut_off` ends all sessions. Words
get to the hub in their order, each once, or a new hub is there (`renew`). The other side is `outposts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from penstock.exchange.conversation import Conversation
from penstock.exchange.farewells import Farewell
from penstock.exchange.hub import MEASURE_SECONDS
from penstock.exchange.instant import Instant
from penstock.exchange.places import TlexPlace
from penstock.exchange.ports import Forms, HubMessages, PeerChannel
from penstock.exchange.receiver import Turn
from penstock.exchange.session import PeerSession, SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.kernel.ledger import Ledger
from penstock.wire.fabric.tlex import (
    HubWord,
    NodeWord,
    TlexAdmitted,
    TlexDelivered,
    TlexDenied,
    TlexDismissed,
    TlexFigures,
    TlexLeaving,
    TlexLeft,
    TlexMeasured,
    TlexOffered,
    TlexPublished,
    TlexReconnected,
    TlexShown,
    TlexWithdrawn,
)
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode


class Outpost:
    """A `Doorkeeper`. `wake` is called when a turn is due: its owner then calls `turn.run`, and sends what it takes."""

    def __init__(
        self,
        settings: HubSettings,
        forms: Forms,
        messages: HubMessages,
        wake: Callable[[], None],
        ledger: Ledger | None = None,
    ) -> None:
        self.settings = settings
        self.forms = forms
        self.messages = messages
        self.ledger = Ledger() if ledger is None else ledger
        self.turn = Turn(wake)
        # Peers that were disconnected without a valid token.
        self.turned_away = 0
        self._wake = wake
        self._words: list[NodeWord] = []
        # Where clients connect; None: nowhere any more.
        self._place: TlexPlace | None = None
        # In the order in which they were accepted.
        self._strangers: dict[Conversation, None] = {}
        # Those that have shown their tokens, by ticket.
        self._shown: dict[int, tuple[Conversation, str]] = {}
        self._tickets = 0
        # By session.
        self._conversations: dict[str, Conversation] = {}
        self._measured_at = 0.0
        self._figures: dict[str, TlexFigures] = {}
        self._going_down = False

    @property
    def is_empty(self) -> bool:
        """Whether nobody is connected."""
        return not self._conversations

    @property
    def sessions(self) -> int:
        return len(self._conversations)

    # -- the hub --------------------------------------------------------------------------------------------------

    def take(self) -> list[NodeWord]:
        """What the hub is to be told, in this order."""
        words, self._words = self._words, []
        return words

    def _say(self, word: NodeWord) -> None:
        if not self._words:
            self._wake()
        self._words.append(word)

    def offer(self, place: TlexPlace) -> None:
        """Clients may connect there."""
        self._place = place
        self._say(TlexOffered(place.host, place.port, place.tls_port))

    def welcome(self) -> None:
        """The hub that is known already has greeted this node again, and may have forgotten what it was offered."""
        if self._place is not None:
            self.offer(self._place)

    def renew(self, now: Instant) -> None:
        """Another hub is there: it knows no session of this node, and perhaps the tokens that were shown to no hub."""
        self.cut_off(now)
        self._words.clear()
        self.welcome()
        for ticket, (conversation, token) in self._shown.items():
            self._show(ticket, conversation, token, now)

    def cut_off(self, now: Instant) -> None:
        """There is no hub, or no way to it: all sessions are over, and their peers are told to come again."""
        for conversation in list(self._conversations.values()):
            conversation.cut_off(now)

    def hear(self, words: Sequence[HubWord], now: Instant) -> None:
        """What the hub says, in the order in which it was said."""
        for word in words:
            if isinstance(word, TlexDelivered):
                self._deliver(word, now)
            elif isinstance(word, TlexAdmitted):
                self._admit(word, now)
            elif isinstance(word, TlexDenied):
                conversation, _ = self._shown.pop(word.ticket, (None, ""))
                if conversation is not None and conversation.open:
                    conversation.refuse(now)
            elif isinstance(word, TlexDismissed):
                self._dismiss(word, now)
            else:
                self._reconnect(word, now)

    def _deliver(self, word: TlexDelivered, now: Instant) -> None:
        frames = word.frames
        size = sum(map(len, frames))
        for session in word.sessions:
            conversation = self._conversations.get(session)
            receiver = None if conversation is None else conversation.receiver
            if receiver is not None:
                receiver.put(frames, size, now)
                if receiver.is_monitor:
                    receiver.restamp()

    def _admit(self, word: TlexAdmitted, now: Instant) -> None:
        conversation, _ = self._shown.pop(word.ticket, (None, ""))
        if conversation is None or not conversation.open or self._going_down:
            self._say(TlexLeft(word.session, EndReason.CLIENT_DISCONNECT, None))
            if conversation is not None and conversation.open:
                conversation.refuse(now)
            return
        limits = HubLimits(**msgspec.structs.asdict(word.limits))
        layout = self.forms.multiplex if word.protocol is Protocol.MULTIPLEX else self.forms.singleplex
        session = PeerSession(word.session, word.session_type, word.protocol, limits, layout)
        del self._strangers[conversation]
        self._conversations[session.id] = conversation
        session.become(SessionState.LIVE)
        conversation.attach(session, now)
        conversation.resume(now)

    def _dismiss(self, word: TlexDismissed, now: Instant) -> None:
        conversation, farewell = self._conversations.get(word.session), _farewell(word.farewell)
        if conversation is None:
            return
        if farewell is Farewell.CUT_OFF:
            conversation.cut_off(now)
        else:
            conversation.say_bye(farewell, now, word.details)

    def _reconnect(self, word: TlexReconnected, now: Instant) -> None:
        conversation = self._conversations.get(word.session)
        if conversation is not None and _state(conversation) is SessionState.LIVE:
            conversation.reconnect(_farewell(word.farewell), now)

    # -- peers ----------------------------------------------------------------------------------------------------

    def accept(self, channel: PeerChannel, security: SecurityMode, now: Instant) -> Conversation:
        """A conversation with a new peer, which has no session yet."""
        conversation = Conversation(self, channel, security, now)
        self._strangers[conversation] = None
        return conversation

    def admit(self, conversation: Conversation, token: str, now: Instant) -> None:
        """For `Conversation`: the hub is asked."""
        self._tickets += 1
        self._shown[self._tickets] = conversation, token
        self._show(self._tickets, conversation, token, now)

    def _show(self, ticket: int, conversation: Conversation, token: str, now: Instant) -> None:
        seconds = max(0.0, now.elapsed - conversation.accepted_at)
        self._say(TlexShown(ticket, token, conversation.security, seconds))

    def publish(self, conversation: Conversation, frames: list[bytes], now: Instant) -> None:
        """For `Conversation`: the hub knows who receives them."""
        assert conversation.session is not None
        self._say(TlexPublished(conversation.session.id, frames))

    def ended(self, conversation: Conversation, end: EndReason, now: Instant) -> None:
        """For `Conversation`: it is over."""
        session = conversation.session
        if session is None:
            del self._strangers[conversation]
            self.turned_away += 1
            return
        del self._conversations[session.id]
        self._figures.pop(session.id, None)
        session.become(SessionState.ENDED)
        self._say(TlexLeft(session.id, end, _figures(conversation)))

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Do what is due by now."""
        elapsed = now.elapsed
        due = [each for each in (*self._strangers, *self._conversations.values()) if each.due <= elapsed]
        for conversation in due:
            conversation.run(now)
        if elapsed >= self._measured_at + MEASURE_SECONDS:
            self._measured_at = elapsed
            self._measure()

    def _measure(self) -> None:
        figures = {session: _figures(each) for session, each in self._conversations.items()}
        changed = {session: each for session, each in figures.items() if self._figures.get(session) != each}
        self._figures = figures
        if changed:
            self._say(TlexMeasured(changed))

    # -- the end --------------------------------------------------------------------------------------------------

    def go_down(self, now: Instant) -> None:
        """Nobody may come any more; all peers are asked to reconnect, which they will do elsewhere."""
        self._going_down = True
        self._place = None
        self._say(TlexWithdrawn())
        for session, conversation in self._conversations.items():
            if _state(conversation) is SessionState.LIVE:
                conversation.reconnect(Farewell.SHUTDOWN, now)
                self._say(TlexLeaving(session))

    def shut(self, now: Instant) -> None:
        """Disconnect everybody, at once."""
        for conversation in list(self._conversations.values()):
            conversation.say_bye(Farewell.SHUTDOWN, now)
        for conversation in list(self._strangers):
            conversation.lost(False, now)


def _state(conversation: Conversation) -> SessionState:
    assert conversation.session is not None
    return conversation.session.state


def _figures(conversation: Conversation) -> TlexFigures:
    assert conversation.session is not None
    counters, clock = conversation.session.counters, conversation.clock
    return TlexFigures(
        counters.sent,
        counters.dropped,
        counters.unknown,
        clock.latency,
        clock.difference,
        clock.average,
        conversation.last_seen,
    )


def _farewell(name: str) -> Farewell:
    """A hub of another release may have one more."""
    return Farewell.__members__.get(name, Farewell.MAINTENANCE)
