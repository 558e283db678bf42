"""What a WebSocket without its socket needs of the world around it: Protocols.

Things, policies and histories are behind `TwinServicePort`, which is `service`; the rest is implemented by `websocket`,
and all of it by the tests. Nothing here knows of a socket or a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.doors.ditto.answers import DittoAnswer
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.past import PastRow
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.ranges import HistoryRange
from penstock.wire.ditto.topic import Topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, TwinEvent

T = TypeVar("T")


class Past(Protocol):
    """A history that its reader may see, as long as it was when it was opened; filtered, if that was asked for."""

    async def next(self) -> list[PastRow] | None:
        """Some events more, at least one; None when there are none."""

    def close(self) -> None:
        """Let go of it; also while `next` is under way, and more than once."""


class Heard(Protocol):
    """A live event, as far as its listener may know it."""

    @property
    def event(self) -> TwinEvent: ...

    def entity(self) -> Json:
        """The thing as it is now, as far as the listener may read it."""


class TwinServicePort(Protocol):
    """What a connection asks for. All of it raises DittoError, which is the answer then."""

    async def submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        """What a command comes to, once that is on the disk."""

    async def history_of(self, topic: Topic, selection: HistoryRange, login: Login) -> Past:
        """The history of the topic's entity as it is now; 404 where there is none, or none for this caller."""

    def now(self) -> int:
        """Microseconds since 1970: what a filter takes for the present."""

    async def renew(self, login: Login, token: str) -> Login:
        """The same user with another token; 401 also for another user's."""

    def listen(
        self,
        login: Login,
        listener: Callable[[Heard], None],
        namespaces: Collection[str],
        miss: Callable[[int], None],
    ) -> Callable[[], None]:
        """Be told of changes, but those of its own connection, once they are on the disk. Returns what ends it.

        Of items only those in the namespaces that are named. `miss` is told how many events could not be kept.
        """


class Work(Protocol):
    """Where things are done that are not done at once."""

    def later(self, call: Callable[[], None]) -> None:
        """After everybody else has had a turn."""

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        """What is begun in some order goes its first steps in that order. `done` is called once, after this returns."""


class DittoChannel(Protocol):
    """The way to a client. No call may raise, whatever has become of it."""

    def send(self, messages: list[bytes]) -> None:
        """Text messages. When it takes no more for now, tell the connection: `set_writable(False)`."""

    def set_reading(self, reading: bool) -> None:
        """Whether the connection takes more messages."""

    def close(self, code: int, reason: str) -> None:
        """What was sent is still sent; nothing more comes in or goes out."""
