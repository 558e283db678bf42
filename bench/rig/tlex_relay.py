"""What the TLEX hub is compared with: a bare event loop that writes what controllers send to the broker, as it comes.

It has no sessions, no frames, no limits, no queues and no identifiers: the least that a relay in Python can do. Whose
connection it is, the first byte says. Not something to learn from.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, cast

import uvloop

from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME

CONTROLLER = b"c"
BROKER = b"b"

KEEP_ALIVE_SECONDS = 2.5


class Connection(asyncio.Protocol):
    everybody: ClassVar[set[asyncio.Transport]] = set()
    brokers: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.everybody.add(self.transport)
        self.is_known = False

    def data_received(self, data: bytes) -> None:
        if not self.is_known:
            self.is_known = True
            if data[:1] == BROKER:
                self.brokers.append(self.transport)
            data = data[1:]
        if data and self.transport not in self.brokers:
            for broker in self.brokers:
                broker.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.everybody.discard(self.transport)
        if self.transport in self.brokers:
            self.brokers.remove(self.transport)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(f"relay: ready  stream=http://127.0.0.1:{port}", flush=True)
    while True:
        await asyncio.sleep(KEEP_ALIVE_SECONDS)
        for transport in Connection.everybody:
            transport.write(KEEP_ALIVE_FRAME)


if __name__ == "__main__":
    uvloop.run(serve())
