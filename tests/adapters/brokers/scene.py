"""Adapters of brokers at work in a kernel without sockets, and waiting for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.adapters.brokers.adapter import BrokerAdapter
from tests.adapters.stage import Stage, Watcher

PATIENCE = 60.0


@asynccontextmanager
async def at_work(adapter: BrokerAdapter) -> AsyncIterator[Stage]:
    async with Stage(adapter) as stage:
        await adapter.wait_until_ready()
        yield stage


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        # What is waited for happens on a thread, or in another process.
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def told(watcher: Watcher, count: int) -> list[str]:
    """At least so many lines."""
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(lines) < count:
            lines += watcher.lines()
            await asyncio.sleep(0.01)
    return lines
