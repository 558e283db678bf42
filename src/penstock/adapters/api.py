"""The base classes that adapters extend. Everything has a default: a metadata adapter that overrides nothing admits
everybody.

A method may be plain or `async def`. Plain ones run on worker threads, so that they may block, unless the class is
marked as `quick`; async ones run on the event loop. How the server calls them, and protects itself from their errors,
is in `source` and `authority`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import (
    Admission,
    ClientFacts,
    Customizer,
    DeviceFacts,
    Grant,
    PushFacts,
    Selector,
    SessionFacts,
    Statistics,
    SubscriptionFacts,
    Value,
    Wish,
)

if TYPE_CHECKING:
    import pyarrow

    from penstock.adapters.publisher import Publisher
    from penstock.adapters.server import ServerHandle
    from penstock.certificates import Certificate

T = TypeVar("T")

# What a method may return: the value itself, or something to await.
Maybe: TypeAlias = T | Awaitable[T]


class Adapter:
    """What both kinds of adapters have in common: how they start and stop, and what they say about themselves."""

    # Whether all plain methods return at once: they are then called on the event loop.
    quick = False

    def start(self) -> Maybe[None]:
        """The server is about to open: connect to whatever the adapter needs. An exception stops the server."""

    def check_start(self) -> Maybe[None]:
        """Raise what `start` would raise, if that can be known without side effects; for `penstock config check`."""

    async def wait_until_ready(self) -> None:
        """All adapters of the set have been started: wait for what must be there before the first client comes. An
        exception stops the server.
        """

    def stop(self) -> Maybe[None]:
        """The server is shutting down."""

    def listener_certificate(self) -> Certificate | None:
        """For an adapter that listens with TLS: its certificate. The server reads it again on SIGHUP."""
        return None

    @property
    def trouble(self) -> str | None:
        """Why the adapter cannot do its work at present, such as a lost connection; None when it can.

        /ready names the adapter as degraded as long as there is a reason, which is not shown.
        """
        return None


class DataAdapter(Adapter):
    """Publishes items: override the calls that matter to you, and call `update`, from any thread."""

    publisher: Publisher

    def attach(self, publisher: Publisher) -> None:
        """The adapter is given its way into the server; before `start`."""
        self.publisher = publisher

    # -- what the server asks for ---------------------------------------------------------------------------------

    def subscribe(self, item: str) -> Maybe[None]:
        """A client has subscribed to the item: publish it from now on, its snapshot first."""

    def unsubscribe(self, item: str) -> Maybe[None]:
        """Nobody is subscribed to the item any more."""

    def has_snapshot(self, item: str) -> bool:
        """Whether `subscribe` leads to updates marked as snapshot. Always called on the event loop."""
        return True

    # -- what it tells the server ---------------------------------------------------------------------------------

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        """Something has happened to an item: the fields that changed, or all of an event that stands for itself."""
        self.publisher.update(item, event, snapshot)

    def updates(self, events: Iterable[tuple[str, Mapping[str, Value]]]) -> None:
        """Many events at once, of any items, in order: cheaper than one by one."""
        self.publisher.updates(events)

    def update_rows(self, fields: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
        """Many events at once, of any items, in order, that all carry the same fields: cheaper than `updates`.

        Each row is a list or tuple: an item, then a value for each of `fields`.
        """
        self.publisher.update_rows(fields, rows)

    def update_table(self, table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> None:
        """Many events at once, as the rows of an Arrow table; `item` is the column that names the item."""
        self.publisher.update_table(table, item)

    def end_of_snapshot(self, item: str) -> None:
        """All of the snapshot has been published; needed in DISTINCT and COMMAND mode."""
        self.publisher.end_of_snapshot(item)

    def clear_snapshot(self, item: str) -> None:
        """The item is empty from now on."""
        self.publisher.clear_snapshot(item)

    def declare_differences(self, item: str, orders: Mapping[str, str]) -> None:
        """Difference formats to try for fields, in order: `{"text": "PT"}`. P is JSON Patch, T is TLCP-diff."""
        self.publisher.declare_differences(item, orders)

    def fail(self, reason: str) -> None:
        """The source of the data is lost for good; the reason goes to the log and the adapter's health."""
        self.publisher.fail(reason)


class MetadataAdapter(Adapter):
    """Decides who may do what. By default groups and schemas are names separated by spaces, and everything is allowed.

    Raise a `Refusal` to deny a request; with a `code` of zero or below the client is told that code.
    """

    # How many sessions a user may have at a time; one more ends the oldest with cause 35. None: any number.
    sessions_per_user: int | None = None

    # Whether its own `authenticate` verifies who clients are; if not, the name that a client gives means nothing.
    knows_names: bool = True

    # Whether `authenticate` depends only on user and password, so that its answer may be cached for a while.
    decides_by_password: bool = False

    server: ServerHandle
    # The name of the set that it decides for, known from `attach` on.
    adapter_set: str = ""

    def attach(self, server: ServerHandle) -> None:
        """The adapter is given control of sessions; before `start`."""
        self.server = server

    # -- sessions -------------------------------------------------------------------------------------------------

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Maybe[Admission | None]:
        """Admit the client, or raise `Refusal(Reason.CREDENTIALS, "...")`. None: limited by `max_bandwidth` etc."""
        return None

    def new_session(self, session: SessionFacts) -> Maybe[float | None]:
        """A session has been opened; a Refusal ends it at once. Returns the seconds it may live; None: no change."""
        return None

    def session_closed(self, session: SessionFacts) -> Maybe[None]:
        """A session has ended; called after everything else about it."""

    def max_bandwidth(self, user: str | None) -> float | None:
        """The most a session of the user may have, in kbit/s; None for no limit."""
        return None

    def manages_bandwidth(self, user: str | None) -> bool:
        """Whether the user's clients may limit their own bandwidth."""
        return True

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def resolve(self, session: SessionFacts, wish: Wish) -> Grant:
        """All about a subscription at once. Only for adapters that prefer one call: then no other method between here
        and `subscribed` is called.
        """
        raise NotImplementedError

    async def resolve_frequencies(
        self, session: SessionFacts, data_adapter: str, items: Sequence[str]
    ) -> Sequence[float | None] | None:
        """What `max_frequency` would say of each item; asked when a client wants another frequency for a subscription.
        Only for those who override `resolve`. None: what was granted holds.
        """
        return None

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Maybe[Sequence[str]]:
        """The items of a group, which may have none; raise `Refusal(Reason.GROUP, "...")` if there is no such group."""
        return group.split()

    def fields(self, session: SessionFacts, data_adapter: str, group: str, schema: str) -> Maybe[Sequence[str]]:
        """The fields of a schema; raise `Refusal(Reason.SCHEMA, "...")` if there is none."""
        return schema.split()

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Maybe[bool]:
        """Whether the item may be subscribed in this mode."""
        return True

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> Maybe[float | None]:
        """The most updates of the item per second that the user may have; None for no limit."""
        return None

    def max_buffer_size(self, session: SessionFacts, data_adapter: str, item: str) -> Maybe[int | None]:
        """The most events of the item that may wait for the user; None for no limit."""
        return None

    def snapshot_length(self, data_adapter: str, item: str) -> Maybe[int]:
        """How many events of a DISTINCT item are kept as its snapshot."""
        return 10

    def prefilter_frequency(self, data_adapter: str, item: str) -> Maybe[float]:
        """Updates of the item per second let through to all filtered subscriptions; 0 for all of them."""
        return 0.0

    def selector(self, session: SessionFacts, data_adapter: str, name: str) -> Maybe[Selector]:
        """The selector of this name: a function that says which events may pass."""
        raise Refusal(Reason.SELECTOR, f"{name[:60]} is not a selector of this adapter set")

    def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Maybe[Customizer | None]:
        """What changes the events of an item for this subscription; None, for most, if nothing does.

        A function of an event that returns another, or None to drop it. It is given all fields of the item that are
        not null in MERGE mode, all fields of a row in COMMAND mode (a DELETE may have its key only), and the event
        itself in the other modes; fields that it does not return are null. It is called on the event loop, for each
        event and subscription, and must return at once. An event that it fails on is dropped.
        """
        return None

    def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> Maybe[None]:
        """A subscription is about to begin; a Refusal prevents it."""

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> Maybe[None]:
        """A subscription has ended; what became of the events of each of its items."""

    def resumed(self, session: SessionFacts, subscription: SubscriptionFacts) -> Maybe[None]:
        """A subscription goes on that began before this adapter was started, because the hub of workers or of a cluster
        was replaced; a Refusal ends it. Only for adapters that are told of subscriptions by the methods above.
        """

    # -- push notifications ---------------------------------------------------------------------------------------

    # Devices and subscriptions outlive sessions; after a restart of the server nobody is asked about them again.

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> Maybe[None]:
        """A client wants to use a device for push notifications; a Refusal prevents that, and all else about it."""

    def change_device_token(self, session: SessionFacts, device: DeviceFacts, new_token: str) -> Maybe[None]:
        """A device is to be known by another token, and keep its subscriptions; called after `register_device`. A
        Refusal prevents both.
        """

    def activate_push(self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts) -> Maybe[None]:
        """A subscription for push notifications is about to begin, or to change; a Refusal prevents that.

        Its items, fields and mode have been granted by the methods for subscriptions above.
        """

    # -- messages -------------------------------------------------------------------------------------------------

    def message(self, session: SessionFacts, text: str) -> Maybe[str | None]:
        """A message from a client; the return value is sent back to it. Raise a Refusal to reject it."""
        raise Refusal(Reason.MESSAGE_FAILED, "This adapter set accepts no messages")


@dataclass(frozen=True, slots=True)
class Journaling:
    """Which items of a data adapter are journaled: names, with `*` for any characters.

    A name without it is kept subscribed at the adapter from the start, so that its history has no gaps; a pattern
    journals what is published anyway.
    """

    items: tuple[str, ...]
    # When it is on the disk: see docs/journal.md.
    policy: Literal["ack", "interval", "off"] = "interval"

    @property
    def names(self) -> list[str]:
        return [item for item in self.items if "*" not in item]


@dataclass(frozen=True, slots=True)
class AdapterSet:
    """One metadata adapter and its data adapters, by name."""

    name: str
    metadata: MetadataAdapter
    data: Mapping[str, DataAdapter]
    # How long a call of the metadata adapter may take.
    timeout_millis: int = 10_000
    # What is journaled of each data adapter, by name, if the server keeps a journal; of others nothing is.
    journal: Mapping[str, Journaling] = field(default_factory=dict)
