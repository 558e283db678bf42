"""A connection from a neighbour: what was read there comes first, and nothing is read that would be lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

from penstock.transport.arrival import HandedConnection
from tests.transport.loops import Run


class Keeper(asyncio.Protocol):
    """Keeps what it gets; on request it does not read on, as a connection that leaves for the next neighbour."""

    def __init__(self, pauses: bool) -> None:
        self.pauses = pauses
        self.data = b""
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.transport = cast(asyncio.Transport, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def go_on(self) -> None:
        self.data_received(b"read there, ")
        if self.pauses:
            self.transport.pause_reading()
        self.begun.set()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.ended.set()
        return False


async def arrive(keeper: Keeper, accepted: socket.socket, acknowledge: Callable[[], None] = lambda: None) -> None:
    loop = asyncio.get_running_loop()
    accepted.setblocking(False)
    arrival = HandedConnection(keeper, acknowledge, keeper.go_on)
    await loop.connect_accepted_socket(lambda: arrival, accepted)


def test_what_came_on_the_way_follows_what_was_read_there_and_then_the_end(run: Run) -> None:
    async def scenario() -> None:
        client, accepted = socket.socketpair()
        with client:
            client.sendall(b"sent meanwhile")
            client.shutdown(socket.SHUT_WR)
            keeper = Keeper(pauses=False)
            await arrive(keeper, accepted)
            async with asyncio.timeout(30):
                await keeper.ended.wait()
            assert keeper.data == b"read there, sent meanwhile"

    run(scenario())


def test_nothing_is_read_by_one_that_leaves_again_at_once(run: Run) -> None:
    async def scenario() -> None:
        client, accepted = socket.socketpair()
        with client, accepted.dup() as elsewhere:
            client.sendall(b"sent meanwhile, ")
            keeper = Keeper(pauses=True)
            await arrive(keeper, accepted)
            async with asyncio.timeout(30):
                await keeper.begun.wait()
            # This is what the next neighbour gets; all that follows must still be in the socket.
            leaving = keeper.data
            client.sendall(b"sent later")
            for _ in range(10):
                await asyncio.sleep(0)
            keeper.transport.abort()
            with contextlib.suppress(BlockingIOError):
                leaving += elsewhere.recv(100)
            assert leaving == b"read there, sent meanwhile, sent later"

    run(scenario())


def test_one_that_the_neighbour_has_answered_itself_is_not_read(run: Run) -> None:
    def refuse() -> None:
        raise BrokenPipeError

    async def scenario() -> None:
        client, accepted = socket.socketpair()
        with client, accepted.dup() as elsewhere:
            client.sendall(b"for the neighbour")
            keeper = Keeper(pauses=False)
            with contextlib.suppress(OSError):
                await arrive(keeper, accepted, refuse)
            for _ in range(10):
                await asyncio.sleep(0)
            assert keeper.data == b""
            assert elsewhere.recv(100) == b"for the neighbour"

    run(scenario())
