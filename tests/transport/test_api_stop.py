"""The API port on its way down: at once when nobody is there, and not before requests have ended."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from penstock.config import load
from penstock.kernel.ledger import Ledger
from penstock.transport.asgi import AsgiPort

PATIENCE = 15.0


def test_a_request_whose_client_has_left_ends_before_the_port_does() -> None:
    begun, left, go_on, done = (asyncio.Event() for _ in range(4))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()
        await go_on.wait()
        done.set()

    async def test() -> None:
        port = AsgiPort(load(None, {"api.port": 0}).config, application, 10, Ledger())
        await port.listen()
        _, writer = await asyncio.open_connection("127.0.0.1", port.ports[0])
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        await begun.wait()
        # With a reset: one that only says that it sends no more may still read.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        await left.wait()
        assert not port.connections
        stopping = asyncio.create_task(port.stop(PATIENCE))
        await asyncio.wait([stopping], timeout=0.2)
        assert not stopping.done()
        go_on.set()
        await stopping
        assert done.is_set()

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
