"""Server-sent events of the messages of a thing or a feature, from now on, as far as the client may receive them.

Each event has the subject of the message as its name, and its payload as data. Upstream documentation: "HTTP API
server sent events".
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request
from msgspec import Raw, UnsetType
from starlette.responses import StreamingResponse

from penstock.doors.ditto.http_request import entity_of, parameters_of, segments_of
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.service import TwinService
from penstock.doors.ditto.sse import StreamQueue, check_stream, event_stream, live_events
from penstock.doors.ditto.waiting_events import WaitingEvents
from penstock.wire.ditto.document import decode, encode
from penstock.wire.ditto.envelope import JSON_TYPE, Envelope
from penstock.wire.ditto.errors import HEADER_UNSUPPORTED
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.live import LiveKind, LiveSignal

_MAILBOXES = ("inbox", "outbox")

# Parameters of streams of changes.
_OTHERS = ("filter", "fields", "namespaces", "ids")


def asks_for_messages(request: Request) -> bool:
    """Whether its address is that of a mailbox, with or without a subject."""
    return _place(segments_of(request, EntityGroup.THINGS)[1:]) is not None


def _place(parts: list[str]) -> tuple[str, ...] | None:
    """Where the messages are in the thing."""
    box = parts[2:] if parts[:1] == ["features"] and len(parts) > 2 else parts
    return tuple(parts) if len(box) >= 2 and box[0] in _MAILBOXES and box[1] == "messages" else None


def message_stream(service: TwinService, request: Request, login: Login) -> StreamingResponse:
    """Raises what is wrong with the request before anything is sent."""
    check_stream(request)
    given = next((name for name in _OTHERS if name in parameters_of(request)), None)
    if given is not None:
        told = "A stream of messages is chosen by its address alone."
        raise HEADER_UNSUPPORTED.of(parameters_of(request)[given], given, description=told)
    id, *parts = segments_of(request, EntityGroup.THINGS)
    place = _place(parts)
    assert place is not None
    queue = StreamQueue(WaitingEvents(service.losses, login.caller.names[0]))
    listener = _Listener(login, queue, entity_of(EntityGroup.THINGS, id), place)

    def listen() -> Callable[[], None]:
        service.live.join(listener)
        return lambda: service.live.leave(listener)

    return event_stream(live_events(service, login, queue, listen))


class _Listener:
    """A `LiveReceiver` that cannot answer."""

    def __init__(self, login: Login, queue: StreamQueue, entity: EntityId, place: tuple[str, ...]) -> None:
        self.login = login
        self._queue = queue
        self._entity = entity
        self._place = place

    def take(self, signal: LiveSignal, envelope: Envelope) -> bool:
        if signal.kind is not LiveKind.MESSAGE or signal.entity != self._entity:
            return False
        if signal.pointer[: len(self._place)] != self._place:
            return False
        self._queue.put(_event(signal.envelope.topic.subject or "", envelope))
        return True

    def announce(self, announcement: Envelope) -> None:
        """Of a policy: not here."""


def _event(subject: str, envelope: Envelope) -> bytes:
    lines = [b"data:" + line.encode() for line in _payload(envelope).splitlines() or [""]]
    return b"\n".join([b"event:" + subject.encode(), *lines, b"", b""])


def _payload(envelope: Envelope) -> str:
    """JSON as it is; a text, and bytes in Base64, without quotes."""
    value = envelope.value
    if isinstance(value, UnsetType):
        return ""
    kind = str(envelope.headers.get("content-type", JSON_TYPE)).partition(";")[0].strip().lower()
    if kind != JSON_TYPE and not kind.endswith("+json"):
        value = decode(bytes(value)) if isinstance(value, Raw) else value
        if type(value) is str:
            return value
    return encode(value).decode()
