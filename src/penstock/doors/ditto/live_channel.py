"""The live channel: passes signals on to those who may receive them, and brings answers and acknowledgements back.

Nothing is kept: who is not connected misses a signal. A sender that waits is found by the thing and the correlation ID
of its signal; the first answer counts. Deadlines are up to those who wait: the connection, or the HTTP request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from msgspec import UNSET, Raw, UnsetType

from penstock.doors.ditto.answers import error_of
from penstock.doors.ditto.identity import Login
from penstock.twins.access import Rights, Subjects
from penstock.twins.enforcement import not_found
from penstock.twins.live import may_change, may_look, may_receive_message, may_send_message, shown
from penstock.twins.names import thing_key
from penstock.twins.registry import Twins
from penstock.wire.ditto.acks import LIVE_RESPONSE, WEAK, Acknowledgement, Gathering
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import ACK_NOT_DECLARED, ACK_NOT_UNIQUE, DUPLICATE_CORRELATION, MESSAGE_NOT_ALLOWED
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.live import LiveKind, LiveSignal
from penstock.wire.ditto.pointer import MISSING, Absent
from penstock.wire.ditto.thing_errors import THING_NOT_MODIFIABLE

# Headers that name the one who has sent a signal, as the server knows it.
ORIGINATOR = "ditto-originator"

# Signals with requested acknowledgements that one connection got last, so that it is known which ones it did not get.
REMEMBERED = 1000

# Who waits: the thing, and the correlation ID.
Ticket = tuple[str, str]


class LiveReceiver(Protocol):
    """A connection that may receive signals."""

    @property
    def login(self) -> Login: ...

    def take(self, signal: LiveSignal, envelope: Envelope) -> bool:
        """Send it to the client, if that wants it; whether it does."""

    def announce(self, announcement: Envelope) -> None:
        """Send the announcement of a policy to the client, if that wants it."""


class _Subscriber:
    """A connection, the labels that it has declared, and what it got of signals that ask for acknowledgements."""

    def __init__(self, receiver: LiveReceiver, declared: frozenset[str]) -> None:
        self.receiver = receiver
        self.declared = declared
        self.got: deque[Ticket] = deque(maxlen=REMEMBERED)


class LiveChannel:
    """For one thread, the server's loop."""

    def __init__(self, twins: Twins) -> None:
        self._twins = twins
        self._subscribers: dict[LiveReceiver, _Subscriber] = {}
        self._waiting: dict[Ticket, tuple[Gathering, Login | None, LiveSignal | None, Callable[[], None]]] = {}
        # Figures for the monitor.
        self.signals = 0
        self.responses = 0

    # -- who is there ----------------------------------------------------------------------------------------------

    def join(self, receiver: LiveReceiver, declared: Collection[str] = ()) -> None:
        """Raises what `check_free` raises."""
        self.check_free(declared)
        self._subscribers[receiver] = _Subscriber(receiver, frozenset(declared))

    def check_free(self, declared: Collection[str]) -> None:
        """Raises `acknowledgement:label.not.unique` if another connection has declared one of these labels."""
        if any(not each.declared.isdisjoint(declared) for each in self._subscribers.values()):
            raise ACK_NOT_UNIQUE.of()

    def leave(self, receiver: LiveReceiver) -> None:
        self._subscribers.pop(receiver, None)

    # -- signals ---------------------------------------------------------------------------------------------------

    def send(self, signal: LiveSignal, login: Login) -> None:
        """Pass a signal on. Raises what `check_sender` raises."""
        id = str(signal.entity)
        self.check_sender(signal, login)
        self.signals += 1
        envelope = signal.envelope
        headers = {**envelope.headers, ORIGINATOR: login.caller.names[0]}
        for subscriber in tuple(self._subscribers.values()):
            receiver = subscriber.receiver
            origin = receiver.login.caller.origin
            got = False
            if origin is None or origin is not login.caller.origin:
                rights = self._twins.rights(thing_key(id), receiver.login.caller.subjects)
                visible = _for_receiver(signal, rights)
                if not isinstance(visible, Absent):
                    got = receiver.take(signal, replace(envelope, headers=headers, value=visible))
            if not got and subscriber.declared:
                self._weakly(subscriber, (id, signal.correlation))

    def check_sender(self, signal: LiveSignal, login: Login) -> None:
        """Raises the error for a sender who may not send it: before anything else is told about the thing."""
        id = str(signal.entity)
        key = thing_key(id)
        rights = self._twins.rights(key, login.caller.subjects)
        pointer = signal.pointer
        if self._twins.thing(id) is not None:
            if signal.kind is LiveKind.MESSAGE:
                if signal.is_claim or may_send_message(rights, pointer):
                    return
                if may_look(rights, ()):
                    raise MESSAGE_NOT_ALLOWED.of(id)
            elif signal.action is Action.RETRIEVE:
                if may_look(rights, pointer):
                    return
            elif may_change(rights, pointer):
                return
            elif may_look(rights, ()):
                raise THING_NOT_MODIFIABLE.of(id)
        raise error_of(not_found(EntityGroup.THINGS, id))

    def announce(self, announcement: Envelope, subjects: Subjects) -> None:
        """Tell those who are one of these subjects something about a policy."""
        for subscriber in tuple(self._subscribers.values()):
            if not subjects.isdisjoint(subscriber.receiver.login.caller.subjects):
                subscriber.receiver.announce(announcement)

    # -- answers ---------------------------------------------------------------------------------------------------

    def wait(
        self,
        ticket: Ticket,
        gathering: Gathering,
        login: Login | None,
        done: Callable[[], None],
        signal: LiveSignal | None = None,
    ) -> Callable[[], None]:
        """Call `done` once all that is gathered has come. Returns a function that ends the wait.

        `signal` is the live signal that is to be answered. Raises an error if somebody waits by the same ticket.
        """
        if ticket in self._waiting:
            raise DUPLICATE_CORRELATION.of(ticket[1])
        entry = (gathering, login, signal, done)
        self._waiting[ticket] = entry

        def end() -> None:
            if self._waiting.get(ticket) is entry:
                del self._waiting[ticket]

        return end

    def respond(self, signal: LiveSignal) -> None:
        """An answer of a subscriber. One that nobody waits for is dropped: its sender has given up, or has one."""
        ticket = (str(signal.entity), signal.correlation)
        found = self._waiting.get(ticket)
        if found is None or LIVE_RESPONSE in found[0].got:
            return
        gathering, login, asked, _ = found
        envelope = signal.envelope
        if asked is not None and asked.kind is not signal.kind:
            return
        if login is None:
            # The server itself waits for acknowledgements.
            return
        if asked is not None and asked.action is Action.RETRIEVE and not isinstance(envelope.value, UnsetType):
            rights = self._twins.rights(thing_key(str(signal.entity)), login.caller.subjects)
            visible = shown(rights, asked.pointer, envelope.value)
            envelope = replace(envelope, value={} if isinstance(visible, Absent) else visible)
        self.responses += 1
        gathering.response = envelope
        status = 200 if envelope.status is None else envelope.status
        value: Json | UnsetType = UNSET if isinstance(envelope.value, Raw) else envelope.value
        gathering.take(LIVE_RESPONSE, status, value, envelope.headers)
        self._look(ticket)

    def acknowledge(self, ack: Acknowledgement, receiver: LiveReceiver) -> None:
        """Raises `acknowledgement:label.not.declared`. One that nobody waits for is dropped."""
        subscriber = self._subscribers.get(receiver)
        if subscriber is None or ack.label not in subscriber.declared:
            raise ACK_NOT_DECLARED.of(ack.label)
        self.take((str(ack.entity), str(ack.headers.get("correlation-id"))), ack.label, ack.status, ack.value)

    def take(self, ticket: Ticket, label: str, status: int, value: Json | UnsetType, **headers: Json) -> None:
        """An acknowledgement that has come."""
        found = self._waiting.get(ticket)
        if found is not None:
            found[0].take(label, status, value, {name.replace("_", "-"): each for name, each in headers.items()})
            self._look(ticket)

    def _look(self, ticket: Ticket) -> None:
        gathering, _, _, done = self._waiting[ticket]
        if gathering.is_complete:
            del self._waiting[ticket]
            done()

    # -- acknowledgements of events --------------------------------------------------------------------------------

    def wanted(self, ticket: Ticket) -> tuple[str, ...]:
        """The labels that subscribers are asked for, with the event of a change."""
        found = self._waiting.get(ticket)
        return () if found is None else found[0].custom

    def was_sent(self, receiver: LiveReceiver, ticket: Ticket) -> None:
        """A connection was sent an event whose sender waits."""
        subscriber = self._subscribers.get(receiver)
        if subscriber is not None and subscriber.declared:
            subscriber.got.append(ticket)

    def all_were_sent(self, ticket: Ticket) -> None:
        """The event is with all who get it: those who have declared a label and did not get it acknowledge weakly."""
        for subscriber in tuple(self._subscribers.values()):
            if subscriber.declared and ticket not in subscriber.got:
                self._weakly(subscriber, ticket)

    def _weakly(self, subscriber: _Subscriber, ticket: Ticket) -> None:
        for label in subscriber.declared:
            if ticket in self._waiting:
                self.take(ticket, label, 200, UNSET, **{WEAK: True})


def _for_receiver(signal: LiveSignal, rights: Rights) -> Json | Raw | UnsetType | Absent:
    """The value as a receiver may see it; MISSING if it may not receive the signal."""
    value = signal.envelope.value
    if signal.kind is LiveKind.MESSAGE:
        return value if may_receive_message(rights, signal.pointer) else MISSING
    if not may_look(rights, signal.pointer):
        return MISSING
    return value if isinstance(value, UnsetType | Raw) else shown(rights, signal.pointer, value)
