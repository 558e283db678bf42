"""A whole server, real sockets included, on a thread of the test process; one with a data adapter that tests drive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from unittest.mock import patch

import uvloop

from penstock.adapters import AdapterSet, ClientFacts, DataAdapter, MetadataAdapter, Reason, Refusal
from penstock.adapters.api import Maybe
from penstock.adapters.authority import SetAuthority
from penstock.adapters.demo import demo_sets
from penstock.adapters.monitor import MonitorAdapter
from penstock.adapters.publisher import Publisher
from penstock.config import load
from penstock.doors.tlcp.refusals import control_error
from penstock.kernel.ports import Event, Selector, SessionFacts
from penstock.kernel.session import Session
from penstock.server import Server
from penstock.transport import closing

T = TypeVar("T")

# Seconds for anything, on a machine that is busy with something else.
PATIENCE = 60.0

# What an authority may be asked about a session.
Question = Callable[[SetAuthority, Session], Awaitable[None]]


class HandAdapter(DataAdapter):
    """Publishes what the test says. `subscribed` and `history` show what the kernel asked for."""

    quick = True

    def __init__(self, snapshots: bool = True) -> None:
        self.snapshots = snapshots
        self.subscribed: set[str] = set()
        self.history: list[tuple[str, str]] = []
        # Sent as snapshot when the item is subscribed; whether that is all of the snapshot.
        self.state: dict[str, dict[str, str | None]] = {}
        self.ends_snapshots = False

        # The adapter serves under two names, each with a feed of its own.
        self.publishers: list[Publisher] = []

    def attach(self, publisher: Publisher) -> None:
        super().attach(publisher)
        self.publishers.append(publisher)

    def publish(self, item: str, event: dict[str, str | None], snapshot: bool = False) -> None:
        for publisher in self.publishers:
            publisher.update(item, event, snapshot)

    def subscribe(self, item: str) -> None:
        self.subscribed.add(item)
        self.history.append(("subscribe", item))
        if self.snapshots and item in self.state:
            self.publish(item, self.state[item], snapshot=True)
            if self.ends_snapshots:
                for publisher in self.publishers:
                    publisher.end_of_snapshot(item)

    def unsubscribe(self, item: str) -> None:
        self.subscribed.discard(item)
        self.history.append(("unsubscribe", item))

    def has_snapshot(self, item: str) -> bool:
        return self.snapshots


class HandMetadata(MetadataAdapter):
    """Lets everybody in but user `nobody`; answers messages; fails on purpose for user or message `crash`.

    Group `empty` has no items.
    Item `limited` has at most 2 updates a second, `prefiltered` 4; user `unmanaged` may not limit the bandwidth; the
    selector `odd` lets events pass whose field x is an odd number.
    """

    quick = True

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.clients: list[ClientFacts] = []

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> None:
        self.clients.append(client)
        if user == "nobody":
            raise Refusal(Reason.CREDENTIALS, "User/password check failed")
        if user == "custom":
            raise Refusal(Reason.CREDENTIALS, "Come back, tomorrow", code=-7)
        if user == "away":
            raise Refusal(Reason.AUTHORITY_UNAVAILABLE, "The user store is away")
        if user == "slow":
            await asyncio.Event().wait()
        if user == "crash":
            raise RuntimeError("authentication crashed on purpose")

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Maybe[Sequence[str]]:
        return () if group == "empty" else super().items(session, data_adapter, group)

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> float | None:
        return 2.0 if item == "limited" else None

    def prefilter_frequency(self, data_adapter: str, item: str) -> float:
        return 4.0 if item == "prefiltered" else 0.0

    def manages_bandwidth(self, user: str | None) -> bool:
        return user != "unmanaged"

    def selector(self, session: SessionFacts, data_adapter: str, name: str) -> Maybe[Selector]:
        return _is_odd if name == "odd" else super().selector(session, data_adapter, name)

    async def message(self, session: SessionFacts, text: str) -> str | None:
        if text == "crash":
            raise RuntimeError("message crashed on purpose")
        if text.startswith("refuse"):
            raise Refusal(Reason.MESSAGE_FAILED, "refused, on purpose", code=-3 if text == "refuse with code" else None)
        self.messages.append(text)
        return f"got {text}"


def _is_odd(event: Event) -> bool:
    return int(event.get("x") or 0) % 2 == 1


class ServerThread:
    """A server on a thread of its own, used as a context manager. Which server, `make` says."""

    def __init__(self) -> None:
        self.server: Server
        self._loop: asyncio.AbstractEventLoop
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._run, daemon=True)

    def make(self) -> Server:
        """Called on that thread, where a loop is running."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as failure:
            self._failure = failure
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = self.make()
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE), "the server has not started"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The test is over: connections that it has left open need not be waited for.
        with patch.object(closing, "LINGER", 0.01):
            self.stop()

    def stop(self) -> None:
        """Graceful, as on SIGTERM."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE)
        if self._failure is not None:
            raise self._failure

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function on the server's thread and return what it returns, after the turn it belongs to."""

        async def run() -> T:
            return function(*arguments)

        return self.run(run())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's thread and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def ask_authority(self, session: str, question: Question) -> tuple[int, str] | None:
        """Ask the metadata adapter about a session: None if it agrees, else what a TLCP client is told."""

        async def run() -> tuple[int, str] | None:
            found = self.server.kernel.find_session(session)
            try:
                await question(self.server.sets.running[found.adapter_set].authority, found)
            except Refusal as refusal:
                error = control_error(refusal, "1")
                return error.code, error.message
            return None

        return self.run(run())

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.stream_ports[0]

    @property
    def tls_port(self) -> int:
        return self.server.stream_ports[1]

    @property
    def api_port(self) -> int:
        return self.server.api_port

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def port_of(self, listener: str) -> int:
        """Of a listener by its name."""
        (found,) = [each.port for each in self.call(self.server.listeners) if each.name == listener]
        return found


class BackgroundServer(ServerThread):
    """Adapter set TEST has data adapter HAND (and DEFAULT, the same); the demo sets are there too."""

    def __init__(self, overrides: Mapping[str, object], file: Path | None = None) -> None:
        """`file` is a configuration file, for what overrides cannot say: tables with names of their own."""
        super().__init__()
        settings = {"stream.port": 0, "api.port": 0, "log.level": "error", **overrides}
        self.config = load(file, settings).config
        self.adapter = HandAdapter()
        self.plain = HandAdapter(snapshots=False)
        self.metadata = HandMetadata()

    def make(self) -> Server:
        return Server(self.config, [AdapterSet("TEST", self.metadata, self.adapters()), *demo_sets(seed=7)])

    def adapters(self) -> dict[str, DataAdapter]:
        return {"HAND": self.adapter, "PLAIN": self.plain, "DEFAULT": self.adapter}

    def update(self, item: str, snapshot: bool = False, **fields: str | None) -> None:
        """Publish one event of the HAND adapter."""
        self.call(self.adapter.publish, item, fields, snapshot)


class MonitoredServer(BackgroundServer):
    """The same with the items of monitoring, as data adapter MONITOR of TEST."""

    def adapters(self) -> dict[str, DataAdapter]:
        return {**super().adapters(), "MONITOR": MonitorAdapter()}

    def sample(self) -> None:
        """A second has passed, as far as the sampler is concerned."""
        self.call(self.server.sampler.sample)
