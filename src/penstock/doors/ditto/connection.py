"""One WebSocket without its socket: text messages in, text messages out, with the clock as an argument.

It decides who answers which message, and when no more are read. Not here: the socket (`websocket`), histories
(`streaming`), live events (`live`). Read next: docs/ditto.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.doors.ditto.answers import DittoAnswer
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition, Watch
from penstock.doors.ditto.live_wait import LiveWait, twin_wish
from penstock.doors.ditto.ports import DittoChannel, TwinServicePort, Work
from penstock.doors.ditto.service import as_answer
from penstock.doors.ditto.streaming import HistoryStreams, answer_to
from penstock.log import RequestNumber
from penstock.wire.ditto import streaming, twin
from penstock.wire.ditto.acks import Gathering
from penstock.wire.ditto.control import ControlLine, RenewToken, Signals, StartSending, parse_control
from penstock.wire.ditto.envelope import Envelope, Headers, UnreadableMessage, error_response, parse_envelope
from penstock.wire.ditto.errors import (
    AUTHENTICATION_FAILED,
    SEARCH_ERRORS,
    UNKNOWN_TOPIC,
    UNSUPPORTED_SIGNAL,
    DittoError,
)
from penstock.wire.ditto.search import parse_search
from penstock.wire.ditto.topic import UNKNOWN, Criterion, Topic, TopicChannel

# The default limit of unanswered commands on one connection. At the limit nothing more is read until there are fewer.
MAX_UNANSWERED = 100

# Codes of RFC 6455: the client's token has expired or is wrong.
POLICY_VIOLATION = 1008


class DittoConversation:
    """Pass messages to `received`, report changes of the socket, and call `run` when it is `due`."""

    def __init__(
        self,
        service: TwinServicePort,
        edition: Edition,
        login: Login,
        channel: DittoChannel,
        work: Work,
        clock: Callable[[], float],
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        max_unanswered: int = MAX_UNANSWERED,
        declared: tuple[str, ...] = (),
    ) -> None:
        """`declared` are the labels of acknowledgements that the client issues; raises that one of them is taken."""
        self._service = service
        self._login = login
        self._channel = channel
        self._clock = clock
        self._new_id = new_id
        self._work = work
        self._streams = HistoryStreams(service, login, self._send, work, clock)
        self._searches = HistoryStreams(service, login, self._send, work, clock, SEARCH_ERRORS)
        self._watch = Watch(service, edition, login.caller.names[0], self._send, new_id)
        self._live = LiveWait(service.live, login, self._send, clock, service.now, edition.losses, new_id, declared)
        self._watch.sent = partial(service.live.was_sent, self._live)
        # Commands that wait for acknowledgements: the deadline of each, what is to be done then, and what ends it.
        self._gathered: dict[object, tuple[float, Callable[[], None], Callable[[], None]]] = {}
        self._expires = self._end_of(login)
        self._is_open = True
        self._writable = True
        self._unanswered = 0
        self._max_unanswered = max_unanswered
        self._reading = True

    # -- called by the socket --------------------------------------------------------------------------------------

    def received(self, text: str) -> None:
        """A text message of the client."""
        if not self._is_open:
            return
        with RequestNumber():
            try:
                control = parse_control(text)
                if control is None:
                    self._take(parse_envelope(text), self._login)
                else:
                    self._obey(control)
            except UnreadableMessage as refused:
                self._refuse(refused.error, refused.topic, refused.headers)
            except DittoError as error:
                self._refuse(error, UNKNOWN, {})

    def take(self, envelope: Envelope, login: Login) -> None:
        """A message that has been read already; a command in it is carried out as `login`, of the same caller."""
        if self._is_open:
            with RequestNumber():
                self._take(envelope, login)

    def set_writable(self, writable: bool) -> None:
        """Whether the socket takes more. While it does not, little more is produced for it, and nothing is read."""
        self._writable = writable
        self._read_or_not()
        self._watch.set_writable(writable)
        self._streams.set_writable(writable)
        self._searches.set_writable(writable)
        self._live.set_writable(writable)

    def lost(self) -> None:
        """The socket is gone. Pending commands end without an answer."""
        self._is_open = False
        self._watch.stop()
        self._live.close()
        for _, _, end in self._gathered.values():
            end()
        self._gathered.clear()
        self._streams.close()
        self._searches.close()

    def due(self) -> float | None:
        """When to call `run` at the latest; it may become earlier with each message, and later at any time."""
        parts = (self._streams.due(), self._searches.due(), self._live.due(), self._expires)
        times = [time for time in parts if time is not None] + [due for due, _, _ in self._gathered.values()]
        return min(times, default=None)

    def run(self) -> None:
        """Do what is due."""
        if not self._is_open:
            return
        self._streams.run()
        self._searches.run()
        self._live.run()
        now = self._clock()
        for due, give_up, _ in list(self._gathered.values()):
            if now >= due:
                give_up()
        if self._expires is not None and self._clock() >= self._expires:
            self._send_away(AUTHENTICATION_FAILED.of("The token has expired."))

    # -- what a client sends ---------------------------------------------------------------------------------------

    def _take(self, envelope: Envelope, login: Login) -> None:
        if "correlation-id" not in envelope.headers:
            envelope = replace(envelope, headers={**envelope.headers, "correlation-id": self._new_id()})
        criterion = envelope.topic.criterion
        try:
            if criterion is Criterion.STREAMING:
                self._streams.take(streaming.parse_command(envelope))
            elif criterion is Criterion.SEARCH:
                self._searches.take(parse_search(envelope))
            elif criterion is Criterion.MESSAGES or envelope.topic.channel is TopicChannel.LIVE:
                if criterion is Criterion.ACKS:
                    self._live.acknowledge(envelope)
                else:
                    self._live.send(envelope)
            elif criterion is Criterion.ACKS:
                self._live.acknowledge(envelope)
            elif criterion is Criterion.COMMANDS:
                self._command(envelope, login)
            elif criterion in (Criterion.EVENTS, Criterion.ERRORS):
                raise UNKNOWN_TOPIC.of(envelope.topic, description="The topic is not one that a client can send.")
            else:
                raise UNSUPPORTED_SIGNAL.of(envelope.topic)
        except DittoError as error:
            self._refuse(error, envelope.topic, envelope.headers)
        except Exception as error:
            self._refuse(as_answer(error, str(envelope.topic)), envelope.topic, envelope.headers)

    def _command(self, envelope: Envelope, login: Login) -> None:
        required = envelope.response_required
        try:
            command = twin.parse_command(envelope)
        except DittoError:
            if required:
                raise
            return
        gathered = None if isinstance(command, twin.RetrieveSeveral) else self._gather(command)
        self._unanswered += 1
        self._read_or_not()

        def answer(result: DittoAnswer | Exception) -> None:
            if gathered is not None and gathered(result):
                # The answer comes with the acknowledgements.
                return
            self._unanswered -= 1
            if required:
                if isinstance(result, Exception):
                    self._refuse(answer_to(result, str(command.topic)), command.topic, command.headers)
                else:
                    self._send([result.response(command).to_bytes()])
            self._read_or_not()

        self._work.run(self._service.submit(command, login), answer)

    def _gather(self, command: twin.Command) -> Callable[[DittoAnswer | Exception], bool] | None:
        """What takes the result of a command that asks for acknowledgements, unless it failed; None for another one."""
        wanted = twin_wish(command.action, command.headers)
        if wanted is None:
            return None
        labels, seconds = wanted
        gathering = Gathering(command.topic, command.headers, labels)
        ticket = (str(command.entity), str(command.headers.get("correlation-id")))

        def done() -> None:
            self._gathered.pop(ticket, None)
            self._unanswered -= 1
            self._send([gathering.envelope().to_bytes()])
            self._read_or_not()

        end = self._service.live.wait(ticket, gathering, self._login, done)

        def give_up() -> None:
            end()
            gathering.expire(seconds)
            done()

        self._gathered[ticket] = (self._clock() + seconds, give_up, end)

        def take(result: DittoAnswer | Exception) -> bool:
            if isinstance(result, Exception):
                end()
                self._gathered.pop(ticket, None)
                return False
            self._service.acknowledge(ticket, labels, result)
            return True

        return take

    def _obey(self, control: ControlLine) -> None:
        if isinstance(control, RenewToken):
            self._work.run(self._service.renew(self._login, control.token), self._renewed)
            return
        if control.signals is Signals.EVENTS:
            if isinstance(control, StartSending):
                self._watch.start(self._login, control)
            else:
                self._watch.stop()
        elif isinstance(control, StartSending):
            self._live.start(control)
        else:
            self._live.stop(control.signals)
        self._send([control.acknowledgement.encode()])

    def _renewed(self, result: Login | Exception) -> None:
        if not self._is_open:
            return
        if isinstance(result, Exception):
            error = answer_to(result, "JWT-TOKEN")
            if error.status == AUTHENTICATION_FAILED.status:
                self._send_away(error)
            else:
                # It could not be checked; the present token is still valid.
                self._refuse(error, UNKNOWN, {})
        else:
            self._login = self._streams.login = self._searches.login = self._live.login = result
            self._expires = self._end_of(result)

    def _end_of(self, login: Login) -> float | None:
        return None if login.time_to_live is None else self._clock() + login.time_to_live

    # -- what goes out ---------------------------------------------------------------------------------------------

    def _refuse(self, error: DittoError, topic: Topic, headers: Headers) -> None:
        if "correlation-id" not in headers:
            headers = {**headers, "correlation-id": self._new_id()}
        self._send([error_response(error, topic, headers).to_bytes()])

    def _send_away(self, error: DittoError) -> None:
        self._refuse(error, UNKNOWN, {})
        self._channel.close(POLICY_VIOLATION, error.message)
        self.lost()

    def _send(self, messages: list[bytes]) -> None:
        if self._is_open:
            self._channel.send(messages)

    def _read_or_not(self) -> None:
        reading = self._writable and self._unanswered < self._max_unanswered
        if reading is not self._reading:
            self._reading = reading
            if self._is_open:
                self._channel.set_reading(reading)
