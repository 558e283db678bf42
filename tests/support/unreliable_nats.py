"""A NATS server behind a proxy of ours that drops, repeats and delays what the server delivers, as often as it is told.

It knows the lines of the protocol, so that connections stay as they are: only messages get lost, come twice, or come
after later ones. What nodes send and what they hear goes through it, because all of them are its clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.broker_process import PATIENCE
from tests.support.nats_server import NatsServer

T = TypeVar("T")

# Seconds: a message that is delayed comes after those of at most so long.
LONGEST_DELAY = 0.05


class UnreliableNats(NatsServer):
    """A context manager. `chance` is that of each of the three for each message; 0 to begin with."""

    def __init__(self, directory: Path, seed: int = 1) -> None:
        super().__init__(directory)
        self.chance = 0.0
        self.dropped = self.repeated = self.delayed = 0
        self._random = Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="unreliable-nats", daemon=True)
        self._thread.start()
        self._connections: set[asyncio.Task[None]] = set()
        self._listener = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self._proxy_port = self._listener.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._proxy_port}"

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        super().__exit__(kind, error, trace)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    # -- on the proxy's thread ------------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._listener.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.port)
            both = [asyncio.ensure_future(each) for each in (_copy(reader, to_server), self._deliver(server, writer))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.wait(both)
                to_server.close()
        except OSError:
            """The server is not there, or has gone."""
        finally:
            writer.close()
            self._connections.discard(task)

    async def _deliver(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await server.readline():
            if not line.startswith((b"MSG ", b"HMSG ")):
                writer.write(line)
                continue
            message = line + await server.readexactly(int(line.split()[-1]) + 2)
            fate = self._random.random() / self.chance if self.chance else 3.0
            if fate < 1.0:
                self.dropped += 1
            elif fate < 2.0:
                self.repeated += 1
                writer.write(message + message)
            elif fate < 3.0:
                self.delayed += 1
                self._loop.call_later(self._random.uniform(0.0, LONGEST_DELAY), writer.write, message)
            else:
                writer.write(message)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
