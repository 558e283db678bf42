"""What the kernel needs from the world, as protocols: a clock, a waker, codecs, channels, data sources, recorders,
message handlers.

Implementations live in `wire` (codecs), `doors` (channels), `adapters` (sources), `journal` (recorders) and `server`
(clock, waker).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NewType, Protocol

if TYPE_CHECKING:
    from penstock.kernel.feed import Feed
    from penstock.kernel.item import Mode
    from penstock.kernel.messages import Message
    from penstock.kernel.recovery import Batch
    from penstock.kernel.session import Session
    from penstock.kernel.subscription import Subscription

# A field value, and the values of a schema's fields in order. States are compared by identity where sharing is decided.
Value = str | None
State = tuple[Value, ...]

# What a data adapter publishes: the fields that changed, or all fields of an event that stands for itself.
Event = Mapping[str, Value]

# The same, as far as it may be trusted: every value is text that UTF-8 can carry, or null, and nobody changes it any
# more. Who makes one says so; `Feed` makes them of what adapters publish.
CheckedEvent = NewType("CheckedEvent", dict[str, Value])

# Events of a DISTINCT item kept as its snapshot, unless its metadata adapter says otherwise.
DISTINCT_HISTORY = 10

# A metadata adapter's choice of events for a subscription.
Selector = Callable[[Event], bool]

# What a metadata adapter makes of an event for one subscription; None drops it.
Customizer = Callable[[Event], Event | None]

# Seconds on a clock that never goes back.
Clock = Callable[[], float]

# What an authority allows now of something that runs; None is no limit.
Limits = Sequence[float | None]


class Waker(Protocol):
    """Asks for `Kernel.turn` to be called: at the end of the current loop turn, and when the next deadline comes."""

    def wake(self) -> None: ...


class Codec(Protocol):
    """Turns events into the bytes of one protocol version. Stateless: one instance serves all its sessions."""

    @property
    def protocol(self) -> str:
        """What people call the protocol: `TLCP`, or `text 6.0.2`."""

    def update_prefix(self, subscription: int, item: int) -> bytes: ...

    def update_body(
        self, values: State, previous: State | None, differences: Sequence[str], patched: int
    ) -> tuple[bytes, int]:
        """The rest of the line, from what the client has to what it gets; and which fields it then has as patched JSON.

        `differences` names for each field the formats to try, in order; it is empty when there are none.
        """

    def subscribed(self, subscription: int, items: int, fields: int) -> bytes: ...
    def subscribed_command(
        self, subscription: int, items: int, fields: int, key_field: int, command_field: int
    ) -> bytes: ...
    def unsubscribed(self, subscription: int) -> bytes: ...
    def configured(self, subscription: int, max_frequency: float | None, filtered: bool) -> bytes: ...
    def end_of_snapshot(self, subscription: int, item: int) -> bytes: ...
    def snapshot_cleared(self, subscription: int, item: int) -> bytes: ...
    def overflow(self, subscription: int, item: int, lost: int) -> bytes: ...
    def message_done(self, sequence: str | None, progressive: int, response: str) -> bytes: ...
    def message_failed(self, sequence: str | None, progressive: int, code: int, message: str) -> bytes: ...
    def constrained(self, max_bandwidth: float | None, managed: bool) -> bytes: ...
    def recovering(self, progressive: int) -> bytes: ...
    def synchronized(self, seconds: int) -> bytes: ...
    def probe(self) -> bytes: ...
    def loop(self, delay_millis: int) -> bytes: ...
    def end(self, code: int, message: str) -> bytes: ...


class Channel(Protocol):
    """The stream connection a session is bound to."""

    @property
    def websocket(self) -> bool:
        """Whether it is a WebSocket; else the answer to an HTTP request."""

    @property
    def overhead(self) -> int:
        """Bytes that the transport adds to each write."""

    @property
    def listening(self) -> bool:
        """Whether its requests are being read; they are not while too many wait for their answers."""

    @property
    def broken(self) -> bool:
        """Whether the peer certainly gets nothing more, although nobody has been told yet. Asked before a poll ends."""

    def write(self, lines: Sequence[bytes]) -> int:
        """Queue whole lines for the one write of this turn; return how many bytes they are."""

    def send(self, batch: Batch) -> None:
        """Send the lines of a batch, after those queued before; may write at once."""

    def room(self) -> int | None:
        """How many bytes this connection may carry beside batches; None when there is no limit."""

    def finish(self, close_socket: bool) -> None:
        """The last line has been written: the session releases this connection."""

    def abort(self) -> None:
        """Abort the connection: the peer is considered dead."""


class Carrier(Protocol):
    """Carries what streams have written in a turn to their channels. Must not raise."""

    def carry(self, batches: Sequence[Batch], channels: Sequence[Sequence[Channel]]) -> None:
        """Each batch to its channels, in this order: all of them are WebSockets, or none is."""


class DataSource(Protocol):
    """A data adapter, seen from the kernel: told on demand which items are wanted. Must not raise."""

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        """`mode` is that of the first who wants it; RAW says nothing about the others."""

    def bind(self, item: str, mode: Mode) -> None:
        """An item that was only wanted in RAW mode so far is about to be seen in another, for the first time."""

    def unsubscribe(self, item: str) -> None: ...
    def has_snapshot(self, item: str) -> bool: ...
    def complain(self, item: str, complaint: str) -> None:
        """An event could not be understood and was dropped."""


class ItemRecorder(Protocol):
    """Records what happens to the items of a data adapter. Must not wait, must not raise."""

    def wants(self, item: str) -> bool:
        """Whether events of the item are recorded, subscribed or not."""

    def record(self, item: str, kind: Literal["update", "snapshot", "clear"], event: Event | None) -> None:
        """An event that the kernel has accepted, or that a snapshot was cleared. If not wanted, nothing happens."""


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """What is known of a client that asks for a session; cookies are among the headers, by names in lower case."""

    address: str
    secure: bool
    headers: Mapping[str, str]
    port: int = 0
    # The subject of its certificate, as `CN=device-7,O=Fields`; None if it has presented none.
    principal: str | None = None
    # Identifies the request that these facts are about; all calls about one session carry the same.
    request_id: str = ""
    # Where it has connected, as the configuration calls it: `stream`, `stream.tls`, `api`.
    listener: str = ""
    # The client library and its version, as it calls itself; None if unknown.
    library: str | None = None
    library_version: str | None = None
    # Whether one of the proxies that are configured for that listener has sent the request.
    is_from_proxy: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """What a session of an authenticated user may have."""

    # The most it may be sent, in kbit/s; None means no limit.
    max_bandwidth: float | None = None
    # Whether the client may set a limit of its own.
    manages_bandwidth: bool = True
    # The user's effective name, if it is not the one that was given; and what else was found out about the user.
    user: str | None = None
    roles: frozenset[str] = frozenset()
    # Seconds until the session is to end; None means never.
    time_to_live: float | None = None
    # Whether the authority wants to be told of the session's subscriptions.
    follows_subscriptions: bool = True
    # Whether the authority decides about the bandwidth again whenever the client asks for another.
    reexamines_bandwidth: bool = False


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session, for those who decide about it."""

    id: str
    user: str | None
    adapter_set: str
    client: ClientFacts
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """A subscription, for those who decide about it."""

    number: int
    data_adapter: str
    mode: Mode
    group: str
    schema: str
    selector: str | None
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """An application on a device that wants push notifications, for those who decide about it."""

    # `Apple`, `Google` or `Web`.
    platform: str
    application: str
    # Whoever has it can register the device as theirs, so it stays out of logs.
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PushFacts:
    """A subscription for push notifications, for those who decide about it. It outlives the session."""

    data_adapter: str
    mode: Mode
    group: str
    schema: str
    items: tuple[str, ...]
    fields: tuple[str, ...]
    # JSON, and an expression or None: arguments in both are indexes of fields, as `$[1]`, not names.
    format: str
    trigger: str | None
    # What it is to have, within the limits granted; None means no limit.
    buffer_size: int | None = None
    max_frequency: float | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """What became of the events of one item of a subscription: sent, lost for lack of room, left out by a limit."""

    sent: int
    lost: int
    filtered: int


@dataclass(frozen=True, slots=True)
class ItemGrant:
    """What a user may have of an item; None means no limit."""

    name: str
    max_frequency: float | None = None
    max_buffer_size: int | None = None
    snapshot_length: int = DISTINCT_HISTORY
    prefilter_frequency: float = 0.0
    # Changes or drops its events for this subscription.
    customizer: Customizer | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A subscription as the metadata adapter allows it."""

    items: tuple[ItemGrant, ...]
    fields: tuple[str, ...]
    selector: Selector | None = None
    # What to tell the authority when it ends; None if it does not want to be told.
    facts: SubscriptionFacts | None = None


class Wish(Protocol):
    """A subscription as a client asks for it, in any protocol."""

    @property
    def data_adapter(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def schema(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def selector(self) -> str | None: ...
    @property
    def buffer_size(self) -> int | None: ...
    @property
    def max_frequency(self) -> float | None: ...
    @property
    def unfiltered(self) -> bool: ...
    @property
    def snapshot(self) -> bool: ...
    @property
    def snapshot_length(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PlainWish:
    """A wish that came by no protocol: what the server itself asks for in somebody's name."""

    data_adapter: str
    group: str
    schema: str
    mode: str
    selector: str | None = None
    buffer_size: int | None = None
    max_frequency: float | None = None
    unfiltered: bool = False
    snapshot: bool = True
    snapshot_length: int | None = None


class Outcomes(Protocol):
    """What became of messages, for whoever has sent them."""

    def done(self, message: Message, response: str) -> None: ...
    def failed(self, message: Message, code: int, text: str) -> None: ...


class AttendedSession(Protocol):
    """A session, for those who decide about it: a session of this kernel, or one whose client is at another process."""

    @property
    def id(self) -> str: ...
    @property
    def user(self) -> str | None: ...
    @property
    def adapter_set(self) -> str: ...
    @property
    def client(self) -> ClientFacts: ...
    @property
    def admission(self) -> Admission: ...
    @property
    def closed(self) -> bool: ...
    @property
    def messages(self) -> Outcomes: ...

    def close(self, code: int | None, message: str) -> None: ...
    def end_after(self, seconds: float) -> None: ...
    def allow_bandwidth(self, limit: float | None) -> None: ...

    def unsubscribe(self, number: int) -> None:
        """Raises a Refusal if there is no such subscription."""

    def allow_frequency(self, number: int, limit: float | None) -> None:
        """For all items of a subscription; raises a Refusal if there is none, or if it cannot be limited."""


class Sessions(Protocol):
    """Sessions whose clients are at other processes."""

    def find_session(self, session_id: str) -> AttendedSession | None: ...
    def of_set(self, adapter_set: str) -> Sequence[AttendedSession]: ...


class Authority(Protocol):
    """A metadata adapter, seen from the doors: decides who may do what. Raises a Refusal to deny it."""

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission: ...

    def authenticate_at_once(
        self, user: str | None, password: str | None, client: ClientFacts
    ) -> Admission | Callable[[], Awaitable[Admission]]:
        """The same for an authority that need not wait, neither for this nor for `welcome`; else what is left to do."""

    async def welcome(self, session: AttendedSession) -> None:
        """A session has been opened for an admitted client; called before anything else about it."""

    def welcome_at_once(self, session: AttendedSession) -> None:
        """The same, where an admission came at once."""

    async def resolve(self, session: AttendedSession, number: int, wish: Wish) -> Grant:
        """The items and the fields of a subscription that is about to begin, and its limits."""

    def resolve_at_once(self, session: AttendedSession, number: int, wish: Wish) -> Grant | None:
        """The same for an authority that need not wait; None if `resolve` has to be awaited."""

    def bandwidth_at_once(self, session: AttendedSession) -> Limits | None:
        """The most that the session may have from now on, in kbit/s, as the only entry; empty if nothing has changed.
        None if `bandwidth` has to be awaited.
        """

    async def bandwidth(self, session: AttendedSession) -> Limits: ...

    def frequencies_at_once(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits | None:
        """The most updates a second that each item of a subscription may have from now on, in its order; empty if
        nothing has changed. None if `frequencies` has to be awaited.
        """

    async def frequencies(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits: ...

    def subscription_refused(self, session: AttendedSession, number: int, grant: Grant) -> None:
        """What was granted could not be done in the end."""

    def subscription_closed(
        self, session: AttendedSession, number: int, grant: Grant, statistics: Sequence[Statistics]
    ) -> None:
        """There are statistics of each item if the grant has facts; else none."""

    def session_closed(self, session: AttendedSession) -> None: ...


class MessageHandler(Protocol):
    """Takes a message whose turn has come; answers later with `session.messages.done` or `.failed`."""

    def deliver(self, session: AttendedSession, message: Message) -> None: ...


class FeedObserver(Protocol):
    """Is told when the items of a data adapter can be subscribed to, and when they no longer can. Must not raise."""

    def feed_served(self, feed: Feed) -> None: ...
    def feed_withdrawn(self, feed: Feed) -> None: ...


class SessionObserver(Protocol):
    """Is told when a subscription has ended, and when a session is gone for good."""

    def subscription_closed(self, session: Session, subscription: Subscription) -> None: ...
    def session_closed(self, session: Session, cause: int | None, message: str) -> None: ...
