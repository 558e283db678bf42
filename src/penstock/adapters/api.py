"""The base classes that adapters extend. Everything has a default: a metadata adapter that overrides nothing lets
everybody in.

How the server calls them, and keeps itself safe from their mistakes, is in `runtime`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.ports import ClientFacts, Selector
from penstock.kernel.session import Session


class DataAdapter:
    """Publishes items. `feed` is there from `start` on; updates must come from the thread of the event loop."""

    feed: Feed

    async def start(self, feed: Feed) -> None:
        """The server is about to open: connect to whatever the data comes from."""
        self.feed = feed

    async def stop(self) -> None:
        """The server goes down."""

    def subscribe(self, item: str) -> None:
        """Somebody wants the item: publish it with `self.feed.update(item, {...})`, its snapshot first."""

    def unsubscribe(self, item: str) -> None:
        """Nobody wants the item any more."""

    def has_snapshot(self, item: str) -> bool:
        """Whether `subscribe` leads to an update marked as snapshot."""
        return True


class MetadataAdapter:
    """Decides. By default groups and schemas are lists of names with spaces between them, and everything is allowed."""

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> None:
        """Let the client in, or raise `Refusal(Reason.CREDENTIALS, "...")`."""

    def items(self, user: str | None, data_adapter: str, group: str) -> Sequence[str]:
        """The items of a group; raise `Refusal(Reason.GROUP, "...")` if there is none."""
        return group.split()

    def fields(self, user: str | None, data_adapter: str, group: str, schema: str) -> Sequence[str]:
        """The fields of a schema; raise `Refusal(Reason.SCHEMA, "...")` if there is none."""
        return schema.split()

    def allows_mode(self, user: str | None, data_adapter: str, item: str, mode: Mode) -> bool:
        """Whether the item may be subscribed in this mode."""
        return True

    def max_bandwidth(self, user: str | None) -> float | None:
        """The most a session of the user may have, in kbit/s; None for no limit."""
        return None

    def manages_bandwidth(self, user: str | None) -> bool:
        """Whether the user's clients may limit their own bandwidth."""
        return True

    def max_frequency(self, user: str | None, data_adapter: str, item: str) -> float | None:
        """The most updates of the item per second that the user may have; None for no limit."""
        return None

    def max_buffer_size(self, user: str | None, data_adapter: str, item: str) -> int | None:
        """The most events of the item that may wait for the user; None for no limit."""
        return None

    def snapshot_length(self, data_adapter: str, item: str) -> int:
        """How many events of a DISTINCT item are kept as its snapshot."""
        return 10

    def prefilter_frequency(self, data_adapter: str, item: str) -> float:
        """Updates of the item per second let through to all filtered subscriptions; 0 for all of them."""
        return 0.0

    def selector(self, user: str | None, data_adapter: str, name: str) -> Selector:
        """The choice of events that a selector's name stands for: a function that says which event may pass."""
        raise Refusal(Reason.SELECTOR, f"{name[:60]} is not a selector here")

    async def message(self, session: Session, text: str) -> str | None:
        """A message from a client; what is returned goes back to it. Raise a Refusal to turn it down."""
        raise Refusal(Reason.MESSAGE_FAILED, "This adapter set takes no messages")


@dataclass(frozen=True, slots=True)
class AdapterSet:
    """One metadata adapter and its data adapters, by name."""

    name: str
    metadata: MetadataAdapter
    data: Mapping[str, DataAdapter]
