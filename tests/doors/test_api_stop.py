"""The API port on its way down: at once when nobody is there, and not before requests have ended."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn

from penstock.server import _ApiServer

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
        server = _ApiServer(uvicorn.Config(application, "127.0.0.1", 0, lifespan="off", log_level="critical"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        await begun.wait()
        writer.transport.abort()
        await left.wait()
        assert not server.server_state.connections
        server.end()
        await asyncio.wait([serving], timeout=0.2)
        assert not serving.done()
        go_on.set()
        await serving
        assert done.is_set()

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
