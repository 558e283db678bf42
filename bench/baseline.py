"""What the figures are compared with: `idle`, a server made with the `websockets` library, and `fanout`, a bare event
loop that writes once per update.

They answer just enough for the load to take them for a TLCP server, and keep no sessions. Not something to learn from.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast
from urllib.parse import parse_qs

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.typing import Subprotocol

from bench.workload import ITEMS, NOTE, Publisher, item_number, value
from penstock.wire.http1 import RequestParser
from penstock.wire.websocket import FrameReader, accept, frame_header

SUBPROTOCOL = "TLCP-2.4.0.lightstreamer.com"
KEEPALIVE = 5.0
BACKLOG = 4096
LIMIT = 65_536

CONOK = f"CONOK,S0,50000,{int(KEEPALIVE * 1000)},*\r\nCONS,unlimited\r\n"
SUBOK = "REQOK,1\r\nSUBOK,1,1,3\r\nCONF,1,unlimited,filtered\r\n"
UNSUB = "REQOK,2\r\nUNSUB,1\r\n"
SNAPSHOT = "U,1,1,Calder Shipping|3.63|08:00:00\r\n"


def answer(message: str) -> str:
    """What a TLCP server would say to the messages of the load."""
    if message.startswith("create_session"):
        return CONOK
    return SUBOK if "LS_op=add" in message else UNSUB


# -- idle ---------------------------------------------------------------------------------------------------------


async def idle() -> None:
    """Hold connections and send each a line of text every five seconds.

    In favour of the library: no compression, no pings with their task per connection, one broadcast for all.
    """
    connections: set[ServerConnection] = set()

    async def handle(connection: ServerConnection) -> None:
        connections.add(connection)
        try:
            async for message in connection:
                reply = answer(str(message))
                await connection.send(reply + SNAPSHOT if reply == SUBOK else reply)
        finally:
            connections.discard(connection)

    async with serve(
        handle,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        compression=None,
        ping_interval=None,
        backlog=BACKLOG,
    ) as server:
        announce(server.sockets[0].getsockname()[1])
        while True:
            await asyncio.sleep(KEEPALIVE)
            broadcast(connections, "PROBE\r\n")


# -- fanout -------------------------------------------------------------------------------------------------------


class BareConnection(asyncio.Protocol):
    """A subscriber: its transport goes into the list of every item it names."""

    def __init__(self, subscribers: list[list[tuple[asyncio.Transport, bytes]]]) -> None:
        self._subscribers = subscribers
        self._transport: asyncio.Transport
        self._handshake: RequestParser | None = RequestParser(LIMIT, LIMIT)
        self._reader = FrameReader(LIMIT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._handshake is not None:
            for request in self._handshake.feed(data):
                self._transport.write(accept(request, SUBPROTOCOL))
                self._handshake = None
            return
        for message in self._reader.feed(data):
            if "LS_op=add" in message:
                self._subscribe(message)
            reply = answer(message).encode()
            self._transport.write(frame_header(len(reply), True, True) + reply)

    def _subscribe(self, message: str) -> None:
        names = parse_qs(message.partition("\r\n")[2])["LS_group"][0].split()
        for place, name in enumerate(names, start=1):
            self._subscribers[item_number(name)].append((self._transport, f"U,1,{place},".encode()))


async def fanout() -> None:
    """Send the updates of the workload, each as a frame of its own."""
    subscribers: list[list[tuple[asyncio.Transport, bytes]]] = [[] for _ in range(ITEMS)]

    def publish(item: int, sequence: int) -> None:
        note = NOTE if sequence == 1 else ""
        body = f"{sequence}|{value(item, sequence)}|{note}\r\n".encode()
        for transport, prefix in subscribers[item]:
            transport.write(frame_header(len(prefix) + len(body), True, True) + prefix + body)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BareConnection(subscribers), "127.0.0.1", 0, backlog=BACKLOG)
    announce(server.sockets[0].getsockname()[1])
    await Publisher(publish).take_orders()


def announce(port: int) -> None:
    print(f"baseline: ready  stream=http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    # A signal to stop just ends it: there is nothing to say goodbye to.
    uvloop.run(idle() if sys.argv[1] == "idle" else fanout())
