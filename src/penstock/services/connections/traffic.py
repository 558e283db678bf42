"""One source or target at work: a conversation of the Ditto door whose other end is a broker.

A source passes what its messages ask for to the conversation, and settles each when all of it is on the disk. A target
is what a WebSocket would be that has asked for events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from penstock.connections.message import InboundMessage, Settlement
from penstock.connections.offsets import OffsetLedger
from penstock.connections.source import SourceRules
from penstock.connections.target import TargetRules
from penstock.doors.ditto.connection import DittoConversation
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.service import TwinService
from penstock.doors.ditto.tasks import ConversationTasks
from penstock.log import get
from penstock.services.connections.outflow import Outflow
from penstock.services.connections.tally import AddressTally, ConnectionTally
from penstock.twins.ports import NewRecord
from penstock.wire.ditto.document import encode
from penstock.wire.ditto.envelope import Envelope, UnreadableMessage, error_response, parse_envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.topic import UNKNOWN, Criterion

log = get(__name__)

T = TypeVar("T")

# Commands of a source that may be under way.
MAX_UNANSWERED = 1_000

# What the journal calls a mark.
MARK = "mark"


class _Pending:
    """A message until all that it asks for is done."""

    __slots__ = ("again", "failed", "message", "open", "reason", "sealed")

    def __init__(self, message: InboundMessage) -> None:
        self.message = message
        self.open = 0
        # All of it has been passed on.
        self.sealed = False
        self.again = False
        self.failed = False
        self.reason = ""


class _Traffic:
    """What sources and targets have in common: the ports of a conversation, and its deadlines."""

    def __init__(
        self,
        service: TwinService,
        edition: Edition,
        login: Login,
        tally: ConnectionTally,
        declared: tuple[str, ...] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._login = login
        self._tally = tally
        self._tasks = ConversationTasks()
        self._timer: asyncio.TimerHandle | None = None
        self.conversation = DittoConversation(
            service, edition, login, self, self, self._loop.time, max_unanswered=MAX_UNANSWERED, declared=declared
        )

    def close(self, code: int = 0, reason: str = "") -> None:
        """Also called by the conversation; there is no socket that would need the code."""
        if self._timer is not None:
            self._timer.cancel()
        self.conversation.lost()
        self._tasks.cancel()

    def schedule(self) -> None:
        due = self.conversation.due()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._run_due)

    def _run_due(self) -> None:
        self._timer = None
        self.conversation.run()
        self.schedule()

    # -- ports.Work and ports.DittoChannel, as far as they are alike ------------------------------------------------

    def later(self, call: Callable[[], None]) -> None:
        self._tasks.later(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        def finish(result: T | Exception) -> None:
            done(result)
            self.schedule()

        self._tasks.run(work, finish)

    def send(self, messages: list[bytes]) -> None:
        raise NotImplementedError

    def set_reading(self, reading: bool) -> None:
        """Whether the conversation takes more."""


class SourceTraffic(_Traffic):
    """`hold` is told whether the broker should wait; `ledger` finds what is known of a partition."""

    def __init__(
        self,
        rules: SourceRules,
        service: TwinService,
        edition: Edition,
        login: Login,
        tally: ConnectionTally,
        outflow: Outflow,
        hold: Callable[[], None],
        ledger: Callable[[str, int], tuple[OffsetLedger, str]],
    ) -> None:
        super().__init__(service, edition, login, tally)
        self._rules = rules
        self._outflow = outflow
        self._hold = hold
        self._ledger = ledger
        self._inbox: deque[InboundMessage] = deque()
        self._current: _Pending | None = None
        self._reading = True
        self._is_delivering = False
        # Messages that are not settled.
        self.under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def wants_more(self) -> bool:
        return self._reading and len(self._inbox) < MAX_UNANSWERED

    def take(self, messages: list[InboundMessage]) -> None:
        self._inbox.extend(messages)
        self._deliver()
        self._hold()

    def forget(self) -> None:
        """What waits comes again, because its bridge has ended."""
        self._inbox.clear()

    async def settled(self) -> None:
        """Until nothing is under way."""
        await self._idle.wait()

    def _deliver(self) -> None:
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._inbox and self._reading:
                self._handle(self._inbox.popleft())
        finally:
            self._is_delivering = False
        self.schedule()

    def _handle(self, message: InboundMessage) -> None:
        pending = _Pending(message)
        self.under_way += 1
        self._idle.clear()
        try:
            envelopes = self._rules.envelopes(message, self._service.now())
        except DittoError as error:
            self._refuse(pending, error)
            envelopes = []
        except Exception as error:
            log.exception("message could not be mapped", connection=self._rules.connection, address=message.address)
            self._fail(pending, f"it could not be mapped: {type(error).__name__}")
            envelopes = []
        for part, envelope in enumerate(envelopes):
            self._pass_on(pending, part, envelope)
        pending.sealed = True
        self._settle_if_done(pending)

    def _pass_on(self, pending: _Pending, part: int, envelope: Envelope) -> None:
        place = pending.message.place
        login = self._login
        if place is not None and envelope.topic.criterion is Criterion.COMMANDS:
            ledger, entity = self._ledger(place.topic, place.partition)
            if ledger.is_applied(place.offset, part):
                self._tally.inbound.setdefault(pending.message.address, AddressTally()).repeated += 1
                return
            mark = NewRecord(entity, self._service.now(), MARK, "", ledger.mark(place.offset, part), None)
            login = replace(login, caller=replace(login.caller, marks=(mark,)))
        self._current = pending
        try:
            self.conversation.take(envelope, login)
        finally:
            self._current = None

    # -- what becomes of it -----------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        pending = self._current
        if pending is None:
            super().run(work, done)
            return
        pending.open += 1

        def finish(result: T | Exception) -> None:
            try:
                done(result)
            finally:
                self._finished(pending, result)

        super().run(work, finish)

    def _finished(self, pending: _Pending, result: object) -> None:
        pending.open -= 1
        if isinstance(result, DittoError):
            if result.status >= 500:
                pending.again = True
            self._fail(pending, result.message)
        elif isinstance(result, Exception):
            pending.again = True
            self._fail(pending, type(result).__name__)
        self._settle_if_done(pending)

    def _fail(self, pending: _Pending, reason: str) -> None:
        pending.failed = True
        message = pending.message
        self._tally.note("failure", "inbound", reason, message.address, message.headers.get("correlation-id"))

    def _refuse(self, pending: _Pending, error: DittoError) -> None:
        """A message that cannot be mapped, or is not allowed: its sender is told, if there is a way to them."""
        self._fail(pending, f"{error.message}")
        headers = pending.message.headers
        known = {name: headers[name] for name in ("correlation-id", "reply-to") if name in headers}
        self._reply(error_response(error, UNKNOWN, known), pending.message.address)

    def _settle_if_done(self, pending: _Pending) -> None:
        if pending.open or not pending.sealed:
            return
        message = pending.message
        self._tally.came(message.address, not pending.failed)
        self.under_way -= 1
        if not self.under_way:
            self._idle.set()
        if pending.again:
            message.settle(Settlement.AGAIN)
        else:
            message.settle(Settlement.REJECTED if pending.failed else Settlement.DONE)

    # -- ports.DittoChannel -----------------------------------------------------------------------------------------

    def send(self, messages: list[bytes]) -> None:
        if not self._rules.replies:
            return
        for message in messages:
            try:
                envelope = parse_envelope(message)
            except UnreadableMessage:
                continue
            self._reply(envelope, self._current.message.address if self._current is not None else "")

    def _reply(self, envelope: Envelope, address: str) -> None:
        try:
            message = self._rules.reply(envelope, address, self._service.now())
        except DittoError as error:
            self._tally.note("failure", "outbound", f"an answer could not be mapped: {error.message}")
            return
        if message is not None:
            self._outflow.put(message, _counting(self._tally, message.address))

    def set_reading(self, reading: bool) -> None:
        self._reading = reading
        if reading:
            self._deliver()
        self._hold()


class TargetTraffic(_Traffic):
    """Begins with `start`."""

    def __init__(
        self,
        rules: TargetRules,
        service: TwinService,
        edition: Edition,
        login: Login,
        tally: ConnectionTally,
        outflow: Outflow,
    ) -> None:
        super().__init__(service, edition, login, tally, () if rules.label is None else (rules.label,))
        self._rules = rules
        self._outflow = outflow

    def start(self) -> None:
        for line in self._rules.lines:
            self.conversation.received(line)
        self.schedule()

    def send(self, messages: list[bytes]) -> None:
        for message in messages:
            if not message.startswith(b"{"):
                # What was asked for is acknowledged.
                continue
            try:
                self._publish(parse_envelope(message))
            except (DittoError, UnreadableMessage) as error:
                self._tally.went(self._rules.target.address, success=False)
                self._tally.note("failure", "outbound", str(error), self._rules.target.address)

    def _publish(self, envelope: Envelope) -> None:
        address = self._rules.target.address
        if envelope.topic.criterion is Criterion.ERRORS:
            self._tally.note("failure", "outbound", encode(envelope.to_json().get("value")).decode(), address)
            lost = self._tally.outbound.setdefault(address, AddressTally())
            lost.dropped += 1
            return
        count = _counting(self._tally, address)
        messages = self._rules.messages(envelope, self._service.now())
        told = None if messages else self._rules.acknowledgement(envelope, 200)
        if told is not None:
            # It is not sent on purpose: nobody has to wait for that.
            self.conversation.received(encode(told).decode())
        for message in messages:

            def done(status: int, reason: str, envelope: Envelope = envelope) -> None:
                count(status, reason)
                told = self._rules.acknowledgement(envelope, status)
                if told is not None:
                    self.conversation.received(encode(told).decode())

            self._outflow.put(message, done)


def _counting(tally: ConnectionTally, address: str) -> Callable[[int, str], None]:
    def done(status: int, reason: str) -> None:
        tally.went(address, success=status < 400)
        if status >= 400:
            tally.note("failure", "outbound", reason, address)

    return done
