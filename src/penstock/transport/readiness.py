"""Waiting for a bare socket, for what asyncio has no call for: looking at bytes, and receiving descriptors."""

from __future__ import annotations

import asyncio
import socket


async def readable(accepted: socket.socket) -> None:
    """Wait until it has something to read, or has been closed."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(accepted.fileno(), _tell, ready)
    try:
        await ready
    finally:
        loop.remove_reader(accepted.fileno())


def _tell(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
