"""One connection on the live channel: what it wants to receive, what it has sent and waits for.

Signals for a client that does not read wait as live events do, and what is lost is told (`waiting_events`). Deadlines
are in `run`, by the clock of the connection. The channel itself is `live_channel`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import UNSET, Raw, UnsetType

from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live_channel import LiveChannel, Ticket
from penstock.doors.ditto.waiting_events import Losses, WaitingEvents
from penstock.wire.ditto.acks import LIVE_RESPONSE, PERSISTED, Gathering, labels_in, parse_acknowledgement
from penstock.wire.ditto.control import Signals, StartSending
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import (
    MAX_DURATION,
    Envelope,
    Headers,
    answer_headers,
    boolean_header,
    duration_header,
    error_response,
    text_header,
)
from penstock.wire.ditto.errors import COMMAND_TIMEOUT, HEADER_INVALID, TOO_MANY_REQUESTS
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.live import LiveKind, LiveSignal, parse_live
from penstock.wire.ditto.pointer import put
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.topic import UNKNOWN

# Signals of one connection that may wait for an answer.
MAX_WAITING = 1000


@dataclass(frozen=True, slots=True)
class AnswerWish:
    """Whether a sender wants an answer, which acknowledgements, and within how many seconds."""

    labels: tuple[str, ...]
    seconds: float

    @property
    def is_plain(self) -> bool:
        """Whether only the answer itself is wanted."""
        return self.labels == (LIVE_RESPONSE,)


def wish_of(kind: LiveKind, headers: Headers) -> AnswerWish:
    """What the headers of a live signal ask for; raises `header.invalid` for those that contradict one another."""
    labels = labels_in(headers, "requested-acks")
    now = text_header(headers, "timeout") in ("0", "0s", "0ms", "0m")
    seconds = 0.0 if now else duration_header(headers, "timeout", MAX_DURATION)
    required = boolean_header(headers, "response-required", not now and labels != ())
    if kind is LiveKind.EVENT:
        required, labels = False, labels or ()
    wanted = labels or ()
    if required and LIVE_RESPONSE not in wanted and labels != ():
        wanted = (LIVE_RESPONSE, *wanted)
    elif not required:
        wanted = tuple([label for label in wanted if label != LIVE_RESPONSE])
    if wanted and now:
        raise HEADER_INVALID.of("0", "timeout", "time above zero, because a response or an acknowledgement is required")
    return AnswerWish(wanted, seconds)


def twin_wish(action: Action, headers: Headers) -> tuple[tuple[str, ...], float] | None:
    """The acknowledgements that a change of a twin asks for, and within how many seconds; None for its answer alone."""
    labels = labels_in(headers, "requested-acks")
    if labels is None or action is Action.RETRIEVE:
        return None
    wanted = tuple([label for label in labels if label != LIVE_RESPONSE])
    if wanted in ((), (PERSISTED,)):
        return None
    if not boolean_header(headers, "response-required", True):
        raise HEADER_INVALID.of("false", "response-required", "boolean: true, because acknowledgements are requested")
    return wanted, duration_header(headers, "timeout", MAX_DURATION)


@dataclass(slots=True)
class _Asked:
    signal: LiveSignal
    gathering: Gathering
    wish: AnswerWish
    due: float
    end: Callable[[], None]


class LiveWait:
    """`say` sends messages; `clock` returns seconds. Call `run` when it is `due`."""

    def __init__(
        self,
        channel: LiveChannel,
        login: Login,
        say: Callable[[list[bytes]], None],
        clock: Callable[[], float],
        now: Callable[[], int],
        losses: Losses,
        new_id: Callable[[], str],
        declared: tuple[str, ...] = (),
    ) -> None:
        """Raises `acknowledgement:label.not.unique`."""
        self.login = login
        self._channel = channel
        self._say = say
        self._clock = clock
        self._now = now
        self._new_id = new_id
        self._wishes: dict[Signals, StartSending] = {}
        self._asked: dict[Ticket, _Asked] = {}
        self._waiting = WaitingEvents(losses, login.caller.names[0])
        self._writable = True
        channel.join(self, declared)

    # -- what the client wants -------------------------------------------------------------------------------------

    def start(self, wish: StartSending) -> None:
        self._wishes[wish.signals] = wish

    def stop(self, signals: Signals) -> None:
        self._wishes.pop(signals, None)

    def close(self) -> None:
        self._channel.leave(self)
        for asked in list(self._asked.values()):
            asked.end()
        self._asked.clear()

    # -- what the client sends -------------------------------------------------------------------------------------

    def send(self, envelope: Envelope) -> None:
        """Raises the error to answer with."""
        signal = parse_live(envelope)
        if signal.is_response:
            self._channel.respond(signal)
            return
        wish = wish_of(signal.kind, envelope.headers)
        if not wish.labels:
            self._channel.send(signal, self.login)
            return
        if len(self._asked) >= MAX_WAITING:
            raise TOO_MANY_REQUESTS.of(f"No more than {MAX_WAITING} signals of one connection may wait for an answer.")
        self._channel.check_sender(signal, self.login)
        ticket = (str(signal.entity), signal.correlation)
        gathering = Gathering(envelope.topic, envelope.headers, wish.labels)
        end = self._channel.wait(ticket, gathering, self.login, lambda: self._done(ticket), signal)
        self._asked[ticket] = _Asked(signal, gathering, wish, self._clock() + wish.seconds, end)
        try:
            self._channel.send(signal, self.login)
        except BaseException:
            end()
            self._asked.pop(ticket, None)
            raise

    def acknowledge(self, envelope: Envelope) -> None:
        self._channel.acknowledge(parse_acknowledgement(envelope), self)

    def _done(self, ticket: Ticket) -> None:
        asked = self._asked.pop(ticket, None)
        if asked is not None:
            self._say([answer_of(asked.gathering, asked.wish).to_bytes()])

    def due(self) -> float | None:
        return min([asked.due for asked in self._asked.values()], default=None)

    def run(self) -> None:
        now = self._clock()
        for ticket, asked in list(self._asked.items()):
            if now < asked.due:
                continue
            asked.end()
            del self._asked[ticket]
            if asked.wish.is_plain:
                envelope = asked.signal.envelope
                error = COMMAND_TIMEOUT.of(f"{asked.wish.seconds:g}")
                self._say([error_response(error, envelope.topic, envelope.headers).to_bytes()])
            else:
                asked.gathering.expire(asked.wish.seconds)
                self._say([answer_of(asked.gathering, asked.wish).to_bytes()])

    # -- what the client receives ----------------------------------------------------------------------------------

    def take(self, signal: LiveSignal, envelope: Envelope) -> bool:
        wish = self._wishes.get(signal.kind.signals)
        if wish is None or not wish.wants(signal.entity.namespace) or not self._fits(wish, signal, envelope):
            return False
        self.deliver(envelope)
        return True

    def announce(self, announcement: Envelope) -> None:
        if self.wants(Signals.POLICY_ANNOUNCEMENTS, announcement.topic.namespace):
            self.deliver(announcement)

    def deliver(self, envelope: Envelope) -> None:
        """Send a message, or let it wait until the socket takes more."""
        if self._writable:
            self._say([envelope.to_bytes()])
        elif self._waiting.is_full:
            self._waiting.lose()
        else:
            self._waiting.put(envelope.to_bytes())

    def wants(self, signals: Signals, namespace: str) -> bool:
        wish = self._wishes.get(signals)
        return wish is not None and wish.wants(namespace)

    def set_writable(self, writable: bool) -> None:
        self._writable = writable
        if writable:
            messages, lost = self._waiting.take()
            if lost:
                told = f"{lost} signals were lost here, because they came faster than they could be sent."
                error = TOO_MANY_REQUESTS.of(told)
                messages.append(error_response(error, UNKNOWN, {"correlation-id": self._new_id()}).to_bytes())
            if messages:
                self._say(messages)

    def _fits(self, wish: StartSending, signal: LiveSignal, envelope: Envelope) -> bool:
        if wish.filter is None:
            return True
        document: Json = {"thingId": str(signal.entity)}
        value = envelope.value
        if signal.kind is not LiveKind.MESSAGE and not isinstance(value, UnsetType | Raw):
            if signal.pointer:
                document = put(document, signal.pointer, value)
            elif type(value) is dict:
                document = {**document, **value}
        topic = envelope.topic
        action = str(topic.action if topic.action is not None else topic.subject)
        known: dict[str, Json] = {
            "topic:full": str(topic),
            "topic:namespace": topic.namespace,
            "topic:entityName": topic.name,
            "topic:entityId": topic.entity,
            "topic:group": str(topic.group),
            "topic:channel": str(topic.channel),
            "topic:criterion": str(topic.criterion),
            "topic:action": None if topic.action is None else action,
            "topic:subject": topic.subject,
            "topic:action-subject": action,
            "resource:type": "message" if signal.kind is LiveKind.MESSAGE else "thing",
            "resource:path": envelope.path,
        }
        return matches(wish.filter, document, self._now(), known)


def answer_of(gathering: Gathering, wish: AnswerWish) -> Envelope:
    """What a sender gets: the answer as it came, or all acknowledgements together."""
    if not wish.is_plain or gathering.response is None:
        return gathering.envelope()
    response = gathering.response
    kind = response.headers.get("content-type")
    headers = answer_headers(response.headers, kind if type(kind) is str else "application/json")
    status = 200 if response.status is None else response.status
    value = UNSET if response.value is UNSET else response.value
    return Envelope(response.topic, response.path, headers, value, status=status)
