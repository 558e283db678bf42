"""Connections without sockets on a real service: a journal on the disk, its histories, and a clock that tests move.

`Peer.say` gives a message to the connection and waits until nothing more comes of it, which takes no time but that of
the journal and of threads; what was answered is in `Peer.heard`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.connection import DittoConversation
from penstock.doors.ditto.identity import DittoIdentity, Login, ShownCredentials
from penstock.doors.ditto.items import Items, Sets
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.ports import TwinServicePort, Work
from penstock.doors.ditto.service import TwinService
from penstock.history.reader import History
from penstock.journal.gatherer import Gatherer
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.record import Columns
from penstock.kernel.ports import ClientFacts
from penstock.testing.clock import Clock
from penstock.twins.command import Caller
from penstock.twins.names import EntityKey, TwinNames, thing_key
from penstock.twins.registry import RegistrySettings, Twins
from penstock.wire.ditto.errors import AUTHENTICATION_FAILED
from penstock.wire.ditto.instant import print_instant

T = TypeVar("T")
Message = dict[str, Any]

NOON = 1_700_000_000_000_000
SECOND = 1_000_000

THING = "ns:thing"
ALL = {"grant": ["READ", "WRITE"], "revoke": []}
READ = {"grant": ["READ"], "revoke": []}


def instant(seconds: float) -> str:
    """The text of a time, in seconds after noon, when the world begins: message n of all comes n seconds later."""
    return print_instant(int((NOON + seconds * SECOND) * 1000))


class Loop:
    """Runs what was begun until nothing is left of it. Implements `ports.Work`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._calls: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        # While this is set nothing that was begun goes on.
        self.stands_still = False
        # How many turns are taken each time; None for all it takes.
        self.turns: int | None = None

    def later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)

        def finish(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            error = task.exception()
            done(task.result() if error is None else error)  # type: ignore[arg-type]

        task.add_done_callback(finish)

    def settle(self) -> None:
        turns = 0
        while not self.stands_still and (self._calls or self._tasks) and turns != self.turns:
            turns += 1
            calls, self._calls = self._calls, []
            for call in calls:
                call()
            if self._tasks:
                self.loop.run_until_complete(asyncio.wait(set(self._tasks), return_when=asyncio.FIRST_COMPLETED))
                # What is told when a task is done, is told by the loop.
                self.loop.run_until_complete(asyncio.sleep(0))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.stands_still, self.turns = False, None
        self.settle()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class Settling(Work, Protocol):
    def settle(self) -> None: ...


class Place(Protocol):
    """Where peers are."""

    now: int

    @property
    def port(self) -> TwinServicePort: ...
    @property
    def edition(self) -> Edition: ...
    @property
    def work(self) -> Settling: ...
    @property
    def clock(self) -> Clock: ...


class Peer:
    """A client, and its connection's channel."""

    def __init__(self, world: Place, user: str, time_to_live: float | None, declared: tuple[str, ...] = ()) -> None:
        self._world = world
        self.heard: list[Message | str] = []
        self.closed: tuple[int, str] | None = None
        self.reading = True
        facts = ClientFacts("127.0.0.1", False, {})
        login = Login(Caller((f"nginx:{user}",), self), ShownCredentials(user, "secret", facts), time_to_live)
        numbers = iter(range(1_000_000))
        self.connection = DittoConversation(
            world.port,
            world.edition,
            login,
            self,
            world.work,
            world.clock,
            lambda: f"made-{next(numbers)}",
            declared=declared,
        )

    # -- ports.Channel ---------------------------------------------------------------------------------------------

    def send(self, messages: list[bytes]) -> None:
        assert self.closed is None
        for message in messages:
            text = message.decode()
            self.heard.append(json.loads(text) if text.startswith("{") else text)

    def set_reading(self, reading: bool) -> None:
        self.reading = reading

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    # -- what tests do ---------------------------------------------------------------------------------------------

    def say(self, message: Message | str) -> list[Any]:
        """Send a message; what came of it, and of whatever was under way."""
        self._world.now += SECOND
        self.connection.received(message if isinstance(message, str) else json.dumps(message))
        return self.hear()

    def hear(self) -> list[Any]:
        self._world.work.settle()
        heard, self.heard = self.heard, []
        return heard

    def ask(self, message: Message | str) -> Message:
        """Send a message that has exactly one answer."""
        (answer,) = self.say(message)
        assert isinstance(answer, dict)
        return answer

    def subscribe(self, id: str = THING, headers: Message | None = None, **value: Any) -> str:
        """The number of a new subscription; for names of the value `fromHistoricalRevision` and so on."""
        answer = self.ask(streaming(id, "subscribeForPersistedEvents", value or None, headers))
        assert answer["topic"].endswith("/streaming/created"), answer
        return str(answer["value"]["subscriptionId"])

    def request(self, number: str, demand: Any, id: str = THING, headers: Message | None = None) -> list[Message]:
        return self.say(streaming(id, "request", {"subscriptionId": number, "demand": demand}, headers))

    def cancel(self, number: str, id: str = THING, headers: Message | None = None) -> list[Message]:
        return self.say(streaming(id, "cancel", {"subscriptionId": number}, headers))

    def read(self, demand: int = 2**40, id: str = THING, **value: Any) -> list[int]:
        """Revisions of the items of a history that is read at once to its end."""
        *items, end = self.request(self.subscribe(id, **value), demand, id)
        assert kind(end) == "complete", end
        return revisions(items)

    def command(
        self, action: str, path: str = "/", value: Any = None, id: str = THING, group: str = "things", **more: Any
    ) -> Message:
        return self.ask(command(action, path, value, id, group, **more))


def streaming(id: str, action: str, value: Any = None, headers: Message | None = None) -> Message:
    group = "policies" if id.startswith("policy ") else "connections" if id.startswith("connection ") else "things"
    name = id.rpartition(" ")[2]
    space, _, rest = name.partition(":") if group != "connections" else ("_", "", name)
    channel = "/twin" if group == "things" else ""
    message: Message = {"topic": f"{space}/{rest}/{group}{channel}/streaming/{action}", "path": "/"}
    if headers is not None:
        message["headers"] = headers
    if value is not None:
        message["value"] = value
    return message


def command(
    action: str,
    path: str = "/",
    value: Any = None,
    id: str = THING,
    group: str = "things",
    headers: Message | None = None,
    **more: Any,
) -> Message:
    space, _, name = id.partition(":")
    channel = "/twin" if group == "things" else ""
    message = {"topic": f"{space}/{name}/{group}{channel}/commands/{action}", "path": path, "headers": headers or {}}
    return message | ({} if value is None else {"value": value}) | more


def kind(message: Message) -> str:
    return str(message["topic"]).rpartition("/")[2]


def kinds(messages: list[Message]) -> list[str]:
    return [kind(message) for message in messages]


def revisions(messages: list[Message]) -> list[int]:
    assert set(kinds(messages)) <= {"next"}, messages
    return [message["value"]["item"]["revision"] for message in messages]


def failure(messages: list[Message]) -> tuple[int, str]:
    """Status and code of a subscription that failed, and of nothing else."""
    (message,) = messages
    assert kind(message) == "failed", message
    return message["value"]["error"]["status"], message["value"]["error"]["error"]


def refusal(messages: list[Message]) -> tuple[int, str]:
    """Status and code of an error response, and of nothing else."""
    (message,) = messages
    assert message["topic"].endswith("/errors"), message
    assert message["status"] == message["value"]["status"]
    return message["status"], message["value"]["error"]


class World:
    """One service, and who is connected to it. Each message comes a second after the one before, by the journal's
    clock, which is not the one that connections have."""

    def __init__(
        self, directory: Path, settings: JournalSettings | None = None, kept_headers: tuple[str, ...] = ()
    ) -> None:
        self.clock = Clock(1000.0)
        self.now = NOON
        self.work = Loop()
        loop = self.work.loop
        self._executor = ThreadPoolExecutor(2)
        self.journal = Journal(directory / "journal", settings)
        self.names = TwinNames()
        # Entities of which an answer, or a change, was not taken.
        self.faults: list[EntityKey] = []
        change_log = JournalChangeLog(self.journal, loop.call_soon_threadsafe)
        self.twins = Twins(change_log, self._time, self.faults.append, RegistrySettings(names=self.names))
        reader = History(directory / "journal", directory / "lake")
        identity = DittoIdentity(lambda name: None, "", "jwt", lambda client: True)
        sets = Sets(lambda name: None, lambda adapter_set, adapter: False, self.names.adapter_set)
        gatherer = Gatherer(self.journal, loop.call_soon, self._time)
        items = Items(sets, identity, gatherer, reader, self._executor)
        self.service = TwinService(
            self.twins,
            self.names,
            identity,
            items,
            reader,
            self._executor,
            kept_headers=kept_headers,
            now=lambda: self.now,
        )
        self.port: TwinServicePort = self.service
        self.edition = Edition(self.service.losses)
        self._peers: list[Peer] = []

    def _time(self) -> int:
        return self.now

    def connect(self, user: str = "owner", time_to_live: float | None = None, declared: tuple[str, ...] = ()) -> Peer:
        peer = Peer(self, user, time_to_live, declared)
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

    async def work_is_done(self) -> None:
        """Tasks of the service are given turns until there are none."""
        while self.service._tasks:  # noqa: ASYNC110, they tell nobody
            await asyncio.sleep(0)

    def make(self, id: str = THING, events: int = 1, user: str = "owner") -> None:
        """A thing with so many events: revision n has the counter n - 1."""
        peer = self.connect(user)
        assert peer.command("create", value={"attributes": {"counter": 0}}, id=id)["status"] == 201
        for number in range(1, events):
            assert peer.command("modify", "/attributes/counter", number, id=id)["status"] == 204
        peer.connection.lost()

    def subscribed(self, events: int = 1, **options: Any) -> tuple[Peer, str]:
        """A client that has subscribed to the history of a thing with so many events, and the number of that."""
        self.make(events=events)
        peer = self.connect()
        return peer, peer.subscribe(**options)

    def journaled(self, count: int, id: str = THING) -> None:
        """Many events of a thing that is there, past the registry: for histories that are long."""
        columns = Columns()
        entity = self.names.entity(thing_key(id))
        for number in range(count):
            self.now += SECOND
            columns.add(entity, self.now, "modified", "/attributes/counter", str(number))
        done = self.journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(30)

    def close(self) -> None:
        for peer in self._peers:
            peer.connection.lost()
        self.work.close()
        self.journal.close()
        self._executor.shutdown()


@contextmanager
def running(
    directory: Path, settings: JournalSettings | None = None, kept_headers: tuple[str, ...] = ()
) -> Iterator[World]:
    world = World(directory, settings, kept_headers)
    try:
        yield world
    finally:
        world.close()


class Renewing:
    """A service whose tokens are the names of their users, and last a minute."""

    def __init__(self, service: TwinService) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def renew(self, login: Login, token: str) -> Login:
        if f"nginx:{token}" not in login.caller.names:
            raise AUTHENTICATION_FAILED.of("The token belongs to another subject.")
        return Login(login.caller, login.credentials, 60.0)
