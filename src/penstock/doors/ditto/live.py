"""Live events: every change of a thing to the connections that want it, and what becomes of those that read slowly.

Which changes a client may know of, and that it does not get its own, is decided in `service`. Read next:
docs/ditto.md, "Live events".
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.ports import Heard, TwinServicePort
from penstock.doors.ditto.waiting_events import Losses, WaitingEvents
from penstock.wire.ditto.control import StartSending
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import error_response
from penstock.wire.ditto.errors import TOO_MANY_REQUESTS
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.topic import UNKNOWN
from penstock.wire.ditto.twin import TwinEvent


class Edition:
    """Shared by all connections: a change that many may see is encoded once, and losses are counted together."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses
        self._event: TwinEvent | None = None
        self._message = b""

    def message(self, event: TwinEvent) -> bytes:
        if event is not self._event:
            self._event, self._message = event, event.envelope().to_bytes()
        return self._message


class Watch:
    """The live events of one connection. `say` sends messages, `reader` is the client's name in the log."""

    def __init__(
        self,
        service: TwinServicePort,
        edition: Edition,
        reader: str,
        say: Callable[[list[bytes]], None],
        new_id: Callable[[], str],
    ) -> None:
        self._service = service
        self._edition = edition
        self._say = say
        self._new_id = new_id
        self._wish: StartSending | None = None
        self._end: Callable[[], None] | None = None
        self._writable = True
        self._waiting = WaitingEvents(edition.losses, reader)
        # Called with the thing and the correlation ID of an event that asks for acknowledgements and is sent.
        self.sent: Callable[[tuple[str, str]], None] = lambda ticket: None

    def start(self, login: Login, wish: StartSending) -> None:
        """Send these events from now on, instead of those requested before."""
        self._leave()
        self._wish = wish
        self._end = self._service.listen(login, self._hear, wish.namespaces, self._miss)

    def stop(self) -> None:
        """Stop; also if it never started. What waits is not sent any more."""
        self._leave()
        self._waiting.take()

    def _leave(self) -> None:
        end, self._end, self._wish = self._end, None, None
        if end is not None:
            end()

    def set_writable(self, writable: bool) -> None:
        """Whether the socket takes more."""
        self._writable = writable
        if writable:
            self._flush()

    def _flush(self) -> None:
        messages, lost = self._waiting.take()
        if lost:
            messages.append(self._complaint(lost))
        if messages:
            self._say(messages)

    def _hear(self, heard: Heard) -> None:
        wish, event = self._wish, heard.event
        if wish is None or event.topic.group is not EntityGroup.THINGS or not wish.wants(event.topic.namespace):
            return
        extra: Json = None if wish.extra_fields is None else wish.extra_fields.select(heard.entity())
        if wish.filter is not None and not event.fits(wish.filter, self._service.now(), extra):
            return
        if "requested-acks" in event.headers and (self._writable or not self._waiting.is_full):
            self.sent((event.topic.entity, str(event.headers.get("correlation-id"))))
        if self._writable:
            self._say([self._message(event, extra)])
        elif self._waiting.is_full:
            self._waiting.lose()
        else:
            self._waiting.put(self._message(event, extra))

    def _miss(self, count: int) -> None:
        """This many events were lost before they came here."""
        self._waiting.lose(count)
        if self._writable:
            self._flush()

    def _message(self, event: TwinEvent, extra: Json) -> bytes:
        return self._edition.message(event) if extra is None else event.envelope(extra).to_bytes()

    def _complaint(self, lost: int) -> bytes:
        told = f"{lost} events were lost here, because they came faster than they could be sent."
        error = TOO_MANY_REQUESTS.of(told, description="Retrieve the things again, or read their history.")
        return error_response(error, UNKNOWN, {"correlation-id": self._new_id()}).to_bytes()
