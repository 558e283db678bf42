"""Live events: every change of a thing to the connections that want it, and what becomes of those that read slowly.

Which changes a client may know of, and that its own are not told to it, is decided in `service`. Read next:
docs/ditto.md, "Live events".
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.ports import Heard, Service
from penstock.wire.ditto.control import Start
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import error_response
from penstock.wire.ditto.errors import TOO_MANY_REQUESTS
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.topic import UNKNOWN, Group
from penstock.wire.ditto.twin import Event

# Live events that wait for a client that does not read. Beyond it the newer ones are lost, and the client is told so.
MAX_WAITING_EVENTS = 200


class Edition:
    """Shared by all connections: a change that many may see is encoded once."""

    def __init__(self) -> None:
        self._event: Event | None = None
        self._message = b""
        # Events that slow readers did not get, of all connections; for the monitor.
        self.lost = 0

    def message(self, event: Event) -> bytes:
        if event is not self._event:
            self._event, self._message = event, event.envelope().to_bytes()
        return self._message


class Watch:
    """The live events of one connection. `say` takes messages to send."""

    def __init__(
        self, service: Service, edition: Edition, say: Callable[[list[bytes]], None], new_id: Callable[[], str]
    ) -> None:
        self._service = service
        self._edition = edition
        self._say = say
        self._new_id = new_id
        self._wish: Start | None = None
        self._end: Callable[[], None] | None = None
        self._writable = True
        # What waits for the client to read, and how many were lost after that.
        self._waiting: list[bytes] = []
        self._lost = 0

    def start(self, login: Login, wish: Start) -> None:
        """Send events from now on; what was wished before does not count any more."""
        self._leave()
        self._wish = wish
        self._end = self._service.listen(login, self._hear, wish.namespaces)

    def stop(self) -> None:
        """Also if it never started. What waits is not sent any more."""
        self._leave()
        self._waiting = []
        self._lost = 0

    def _leave(self) -> None:
        end, self._end, self._wish = self._end, None, None
        if end is not None:
            end()

    def set_writable(self, writable: bool) -> None:
        """Whether the socket takes more."""
        self._writable = writable
        if not writable:
            return
        messages, self._waiting = self._waiting, []
        if self._lost:
            messages.append(self._complaint())
            self._lost = 0
        if messages:
            self._say(messages)

    def _hear(self, heard: Heard) -> None:
        wish, event = self._wish, heard.event
        if wish is None or event.topic.group is not Group.THINGS or not wish.wants(event.topic.namespace):
            return
        extra: Json = None if wish.extra_fields is None else wish.extra_fields.select(heard.entity())
        if wish.filter is not None:
            document = event.partial() if extra is None else merge(extra, event.partial())
            if not matches(wish.filter, document, known(event)):
                return
        if self._writable:
            self._say([self._message(event, extra)])
        elif len(self._waiting) < MAX_WAITING_EVENTS:
            self._waiting.append(self._message(event, extra))
        else:
            self._lost += 1
            self._edition.lost += 1

    def _message(self, event: Event, extra: Json) -> bytes:
        return self._edition.message(event) if extra is None else event.envelope(extra).to_bytes()

    def _complaint(self) -> bytes:
        told = f"{self._lost} events were lost here, because the client did not read fast enough."
        error = TOO_MANY_REQUESTS.of(told, description="Retrieve the things that matter, or read their history.")
        return error_response(error, UNKNOWN, {"correlation-id": self._new_id()}).to_bytes()


def known(event: Event) -> dict[str, Json]:
    """What filters may ask about an event beside the thing."""
    # Plain texts: an enumeration's member is no text to a filter.
    topic = event.topic
    return {
        "topic:action": str(topic.action),
        "topic:channel": str(topic.channel),
        "topic:criterion": str(topic.criterion),
        "topic:group": str(topic.group),
        "topic:namespace": topic.namespace,
        "topic:entityName": topic.name,
        "resource:type": "thing",
        "resource:path": event.path,
    }
