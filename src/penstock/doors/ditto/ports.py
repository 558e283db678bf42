"""What a WebSocket without its socket needs from the outside, as protocols.

Things, policies and histories are behind `TwinServicePort`, which is `service`; the rest is implemented by `websocket`,
and all of it by the tests. Nothing here knows of a socket or a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.doors.ditto.answers import DittoAnswer
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live_channel import LiveChannel, Ticket
from penstock.doors.ditto.past import PastRow
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.search import Selection
from penstock.wire.ditto.topic import Topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, TwinEvent

T = TypeVar("T")


class Past(Protocol):
    """A history that its reader may see, as long as it was when it was opened; filtered, if that was asked for."""

    async def next(self) -> list[PastRow] | None:
        """More events, at least one; None when there are no more."""

    def close(self) -> None:
        """Release it; also while `next` is running, and more than once."""


class ResultPages(Protocol):
    """The results of a search, as far as its reader may see them."""

    async def next(self) -> list[bytes] | None:
        """More pages, at least one, as JSON; None when there are no more."""

    def close(self) -> None:
        """Release it; also while `next` is running, and more than once."""


class Heard(Protocol):
    """A live event, as far as its listener may know it."""

    @property
    def event(self) -> TwinEvent: ...

    def entity(self) -> Json:
        """The thing as it is now, as far as the listener may read it."""


class TwinServicePort(Protocol):
    """What a connection asks for. Every method may raise DittoError, which is the answer then."""

    async def submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        """The result of a command, once it is on the disk."""

    async def history_of(self, topic: Topic, selection: HistoryRange, login: Login) -> Past:
        """The history of the topic's entity as it is now; 404 if there is none, or the caller may not read it."""

    async def search(self, selection: Selection, login: Login) -> ResultPages:
        """The results of a search; 400 for one that cannot be read."""

    @property
    def live(self) -> LiveChannel:
        """The live channel, and those who wait for acknowledgements."""

    def acknowledge(self, ticket: Ticket, labels: Collection[str], result: DittoAnswer) -> None:
        """A change of a twin is on the disk: acknowledge what the server itself acknowledges of these labels."""

    def now(self) -> int:
        """Microseconds since 1970: the present time for a filter."""

    async def renew(self, login: Login, token: str) -> Login:
        """The same user with another token; 401 also for a token of another user."""

    def listen(
        self,
        login: Login,
        listener: Callable[[Heard], None],
        namespaces: Collection[str],
        miss: Callable[[int], None],
    ) -> Callable[[], None]:
        """Call back with changes, except those of its own connection, once they are on the disk. Returns what ends it.

        Items only in the given namespaces. `miss` is called with how many events could not be kept.
        """


class Work(Protocol):
    """Runs what is not done at once."""

    def later(self, call: Callable[[], None]) -> None:
        """Run it after other callbacks that are ready."""

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        """Coroutines take their first steps in the order of these calls. `done` is called once, after this returns."""


class DittoChannel(Protocol):
    """The way to a client. No call may raise, even if the client is gone."""

    def send(self, messages: list[bytes]) -> None:
        """Send text messages. When it takes no more for now, it calls the connection's `set_writable(False)`."""

    def set_reading(self, reading: bool) -> None:
        """Whether the connection takes more messages."""

    def close(self, code: int, reason: str) -> None:
        """What was queued is still sent; nothing more comes in or goes out."""
