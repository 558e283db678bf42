"""Adapters at work: `Stage` in a kernel without sockets, inside the test's own event loop; `SetServer` in a whole
server on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.running import RunningSet
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.session import Binding, Session
from penstock.server import Server
from penstock.testing import Harness
from tests.support.background import BackgroundServer
from tests.support.raw import CID, Exchange, Stream, params

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


class Stage:
    """One data adapter, and as many clients as `watch` is called for."""

    def __init__(self, adapter: DataAdapter, metadata: MetadataAdapter | None = None) -> None:
        self.adapter = adapter
        self.harness = Harness()
        self._running = RunningSet(
            self.harness.kernel, AdapterSet("SET", metadata or MetadataAdapter(), {"ADAPTER": adapter})
        )
        self.feed: Feed

    async def __aenter__(self) -> Stage:
        await self._running.start()
        self.feed = self.harness.feed = self.harness.kernel.feed("SET", "ADAPTER")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.stop()

    def watch(self, items: str, fields: str, mode: Mode = Mode.MERGE) -> Watcher:
        session, channel = self.harness.open(QUIET)
        self.harness.subscribe(session, 1, items, fields, mode, snapshot=True, buffer_size=1_000)
        return Watcher(self.harness, session, channel.take)


class Watcher:
    """A client with one subscription."""

    def __init__(self, harness: Harness, session: Session, take: object) -> None:
        self._harness = harness
        self._take = take
        self.session = session

    def lines(self) -> list[str]:
        """What it was told of its items since the last time."""
        self._harness.turn()
        assert callable(self._take)
        return [line for line in self._take() if line.split(",")[0] in ("U", "EOS", "CS", "UNSUB")]


class SetServer(BackgroundServer):
    """A whole server with these adapter sets and no others."""

    def __init__(self, sets: Sequence[AdapterSet], overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(overrides or {})
        self._sets = list(sets)

    def __enter__(self) -> SetServer:
        super().__enter__()
        return self

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = Server(self.config, self._sets)
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    # -- its clients ----------------------------------------------------------------------------------------------

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.host, self.port)

    def open(self, adapter_set: str = "SET", **parameters: object) -> Stream:
        """A session, or its refusal: see `Stream.head`."""
        return self.exchange.stream(adapter_set, **parameters)  # type: ignore[arg-type]

    def ask(self, adapter_set: str = "SET", **parameters: object) -> list[str]:
        """What the server says to somebody who wants a session and does not stay."""
        with self.exchange.http() as http:
            http.post("create_session", f"{params(adapter_set=adapter_set, **parameters)}&LS_cid={CID}")
            http.read_head()
            return http.read_until("CONS", "CONERR", "END")

    def subscribe(
        self,
        stream: Stream,
        group: str,
        schema: str,
        mode: str = "MERGE",
        number: int = 1,
        data_adapter: str = "ADAPTER",
        **parameters: object,
    ) -> list[str]:
        """The answer to a subscription request."""
        return self.exchange.control(
            stream.session,
            reqId=number,
            op="add",
            subId=number,
            data_adapter=data_adapter,
            group=group,
            schema=schema,
            mode=mode,
            snapshot=mode != "RAW",
            **parameters,
        )
