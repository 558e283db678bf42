"""Connections on histories in memory: for tests that ask very much, and for batches that end where the test says.

Everything that is begun is done in the same turn; there are no threads, and the clock stands still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from penstock.doors.ditto.answers import DittoAnswer, error_of
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.live_channel import LiveChannel, Ticket
from penstock.doors.ditto.past import PastRow
from penstock.doors.ditto.ports import Heard
from penstock.doors.ditto.waiting_events import Losses
from penstock.testing.clock import Clock
from penstock.twins.enforcement import not_found
from penstock.twins.registry import Twins
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.ranges import HistoryRange, resolve
from penstock.wire.ditto.search import Selection
from penstock.wire.ditto.topic import Topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral
from tests.doors.ditto.world import NOON, SECOND, Peer

T = TypeVar("T")


def event(revision: int) -> PastRow:
    kind = "created" if revision == 1 else "modified"
    return PastRow(kind, "/attributes/counter", str(revision - 1), revision, NOON + revision * SECOND)


class Batches:
    """A history in batches; `closed` when nobody reads it any more."""

    def __init__(self, rows: list[PastRow], size: int) -> None:
        self._rest = deque(rows[at : at + size] for at in range(0, len(rows), size))
        self.read = 0
        self.closed = False

    async def next(self) -> list[PastRow] | None:
        # What was begun before it was closed may come to its end after that.
        if self.closed or not self._rest:
            return None
        self.read += 1
        return self._rest.popleft()

    def close(self) -> None:
        self.closed = True


@dataclass
class Histories:
    """Things by name, each with its number of events. All of them may be read by everybody."""

    lengths: dict[str, int] = field(default_factory=dict)
    size: int = 3
    opened: list[Batches] = field(default_factory=list)
    # Raised by the next history that is looked for.
    fault: Exception | None = None

    # Nobody sends anything there.
    live: LiveChannel = field(default_factory=lambda: LiveChannel(cast(Twins, None)))

    def acknowledge(self, ticket: Ticket, labels: Collection[str], result: DittoAnswer) -> None:
        raise NotImplementedError

    async def search(self, selection: Selection, login: Login) -> Any:
        raise NotImplementedError

    async def history_of(self, topic: Topic, selection: HistoryRange, login: Login) -> Batches:
        if self.fault is not None:
            raise self.fault
        latest = self.lengths.get(topic.entity, 0)
        if not latest:
            raise error_of(not_found(topic.group, topic.entity))
        chosen = resolve(selection, latest)
        rows = [] if chosen.is_empty else [event(number) for number in range(chosen.first, chosen.last + 1)]
        found = Batches(rows, self.size)
        self.opened.append(found)
        return found

    async def submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        raise error_of(not_found(command.topic.group, command.topic.entity))

    def now(self) -> int:
        return NOON

    async def renew(self, login: Login, token: str) -> Login:
        return login

    def listen(
        self,
        login: Login,
        listener: Callable[[Heard], None],
        namespaces: Collection[str],
        miss: Callable[[int], None],
    ) -> Callable[[], None]:
        return lambda: None


class Turns:
    """Implements `ports.Work`: what is begun waits for `settle`, and is then done in its order."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self.turns: int | None = None

    def later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        def step() -> None:
            result: T | Exception
            try:
                work.send(None)
            except StopIteration as end:
                result = end.value
            except (DittoError, RuntimeError) as error:
                result = error
            else:
                raise AssertionError("nothing here has to wait")
            done(result)

        self._calls.append(step)

    def settle(self) -> None:
        taken = 0
        while self._calls and taken != self.turns:
            taken += 1
            self._calls.popleft()()


class MemoryWorld:
    """As `world.World`, as far as peers know."""

    def __init__(self, size: int = 3) -> None:
        self.clock = Clock(1000.0)
        self.now = NOON
        self.work = Turns()
        self.edition = Edition(Losses())
        self.port = Histories(size=size)
        self._peers: list[Peer] = []

    def connect(self) -> Peer:
        peer = Peer(self, "owner", None)
        self._peers.append(peer)
        return peer

    def advance(self, seconds: float) -> None:
        """Move the clock, and let happen what is due."""
        self.clock.advance(seconds)
        for peer in self._peers:
            due = peer.connection.due()
            if due is not None and due <= self.clock():
                peer.connection.run()
        self.work.settle()
