"""A client of a harness: real requests, real lines, and a network that breaks at the byte the test wants.

It reads what the channel holds only when told to, so that the client may lag behind the server as in real life.
"""

from __future__ import annotations

from penstock.client.events import (
    ClientEvent,
    Configured,
    EndOfSnapshot,
    MessageDone,
    MessageFailed,
    Overflow,
    SnapshotCleared,
    Subscribed,
    Unsubscribed,
    Update,
)
from penstock.client.requests import PLAIN_STREAM, OutgoingRequest, StreamWishes
from penstock.client.tlcp import ClientState
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, ItemGrant
from penstock.kernel.session import Binding, Session
from penstock.testing.channel import MemoryChannel
from penstock.testing.harness import Harness
from penstock.testing.meter import Meter
from penstock.wire.tlcp.requests import BindSession, CreateSession, parse_requests

# What is told of an item, and all that is numbered.
ItemEvent = Update | Overflow | EndOfSnapshot | SnapshotCleared
DataEvent = ItemEvent | Subscribed | Unsubscribed | Configured | MessageDone | MessageFailed


class Peer:
    """`events` is all it was told, `data` the data notifications of its session, and `seen` those of each item, by
    subscription and item number. `meter` knows when they were sent."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.state = ClientState()
        self.events: list[ClientEvent] = []
        self.data: list[DataEvent] = []
        self.seen: dict[tuple[int, int], list[ItemEvent]] = {}
        self.meter = Meter()
        self.session: Session
        self.channel: MemoryChannel
        self._read = 0

    # -- connections ----------------------------------------------------------------------------------------------

    def open(self, wishes: StreamWishes = PLAIN_STREAM, max_bandwidth: float | None = None) -> None:
        """Create a session and read its head."""
        request = _parsed(self.state.create_session(wishes, max_bandwidth=max_bandwidth))
        assert isinstance(request, CreateSession)
        self.session, self.channel = self.harness.open(
            _binding(request), request.stream.content_length, request.max_bandwidth
        )
        self._read = 0
        self.data.clear()
        self.meter = Meter()
        self.receive()

    def bind(self, wishes: StreamWishes = PLAIN_STREAM, recovery_from: int | None = None) -> None:
        """Bind the session to a new channel, with recovery unless the last one ended with LOOP. Reads nothing yet."""
        request = _parsed(self.state.bind_session(wishes, recovery_from))
        assert isinstance(request, BindSession)
        session = self.harness.kernel.find_session(request.session or "")
        ready = session.log.sent + session.unsent
        left = self.channel
        self.channel = self.harness.bind(
            session, _binding(request), request.stream.content_length, request.recovery_from
        )
        self.meter.leave(left, ready)
        self._read = 0

    def receive(self, size: int | None = None) -> list[ClientEvent]:
        """Read all that has been sent, or no more than `size` bytes of it."""
        data = self.channel.data[self._read :][:size]
        self._read += len(data)
        events = self.state.receive_data(data)
        self.events += events
        for event in events:
            if isinstance(event, DataEvent):
                self.data.append(event)
            if isinstance(event, ItemEvent):
                self.seen.setdefault((event.subscription, event.item), []).append(event)
        return events

    def cut(self, size: int | None = None) -> None:
        """The connection breaks after `size` more bytes; whatever else has been sent is lost on the way."""
        self.receive(size)
        self.channel.cut()

    @property
    def unread(self) -> int:
        """How many bytes are on their way."""
        return self.channel.size - self._read

    @property
    def is_looped(self) -> bool:
        """Whether it has been asked to bind again."""
        return self.state.is_looped

    # -- subscriptions --------------------------------------------------------------------------------------------

    def subscribe(
        self,
        items: str,
        fields: str,
        mode: Mode = Mode.MERGE,
        snapshot: bool = False,
        max_frequency: float | None = None,
        buffer_size: int | None = None,
        unfiltered: bool = False,
        snapshot_length: int | None = None,
        customizer: Customizer | None = None,
    ) -> int:
        """Subscribe; the number of the subscription."""
        number, _ = self.state.subscribe(items, fields, mode=mode.value, snapshot=snapshot)
        self.harness.subscribe(
            self.session,
            number,
            items,
            fields,
            mode,
            snapshot,
            snapshot_length,
            max_frequency=max_frequency,
            unfiltered=unfiltered,
            buffer_size=buffer_size,
            granted=tuple([ItemGrant(item, customizer=customizer) for item in items.split()]),
        )
        return number

    def unsubscribe(self, number: int) -> None:
        self.session.unsubscribe(number)
        self.harness.turn()


def _parsed(request: OutgoingRequest) -> object:
    """What a server makes of the request."""
    (parsed,) = parse_requests(request.name, [request.line], {})
    return parsed


def _binding(request: CreateSession | BindSession) -> Binding:
    stream = request.stream
    return Binding(
        polling=stream.polling,
        polling_millis=stream.polling_millis,
        idle_millis=stream.idle_millis,
        keepalive_millis=stream.keepalive_millis,
        inactivity_millis=stream.inactivity_millis,
        send_sync=stream.send_sync,
    )
