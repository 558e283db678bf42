"""How adapters' methods are called: async ones on the event loop, plain ones on threads, all with a timeout.

A thread that never returns is lost only to its adapter set; its caller has got a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from penstock.adapters.faults import CONTAINED, AdapterExit

# Seconds that stopping an adapter waits for its running calls, such as those about the end of sessions.
LAST_CALLS = 1.0

# Threads that an adapter set may keep busy at a time; more calls wait for one of them.
MAX_THREADS = 32


def overrides(adapter: object, base: type, name: str) -> bool:
    """Whether an adapter has its own version of a method."""
    return getattr(type(adapter), name) is not getattr(base, name)


class AdapterCaller:
    """Calls the methods of one adapter."""

    def __init__(self, adapter: object, base: type, quick: bool, timeout: float | None, threads: str) -> None:
        self._adapter = adapter
        self._base = base
        self._quick = quick
        self._timeout = timeout
        # Its threads are made when they are needed.
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix=threads)
        self._closed = False

    def returns_at_once(self, name: str) -> bool:
        """Whether the method may be called on the event loop itself, without waiting for anything."""
        method = getattr(self._adapter, name)
        return not iscoroutinefunction(method) and (self._quick or not overrides(self._adapter, self._base, name))

    async def call(self, name: str, *arguments: Any) -> Any:
        """What the method returns; raises what it raises, always an Exception, or TimeoutError."""
        method = getattr(self._adapter, name)
        if self.returns_at_once(name):
            with CONTAINED:
                result = method(*arguments)
            return await self._within_time(result) if isawaitable(result) else result
        if iscoroutinefunction(method):
            return await self._within_time(method(*arguments))
        return await self.run(method, *arguments)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run anything that may wait on a thread; what it logs has the number of the request that it is for."""
        result = await self._within_time(
            asyncio.get_running_loop().run_in_executor(self._pool, partial(copy_context().run, function, *arguments))
        )
        # A plain method may hand back a coroutine of another.
        return await self._within_time(result) if isawaitable(result) else result

    async def _within_time(self, result: Any) -> Any:
        try:
            with CONTAINED:
                async with asyncio.timeout(self._timeout):
                    return await cast(Any, result)
        except AdapterExit as error:
            if self._closed and isinstance(error.__cause__, asyncio.CancelledError):
                # Not of the adapter: the call was still waiting for a thread at the end.
                raise error.__cause__ from None
            raise

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


class Tasks:
    """Background tasks; kept here, because the event loop holds only weak references to tasks."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.get_running_loop().create_task(work))

    def start_after(self, key: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """One after another for each key."""
        before = self._last.get(key)
        task = asyncio.get_running_loop().create_task(self._follow(before, work))
        self._last[key] = task
        self._keep(task)
        task.add_done_callback(lambda done: self._forget(key, done))
        return task

    def idle(self, key: str) -> bool:
        """Whether nothing is under way for a key."""
        return key not in self._last

    async def _follow(self, before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
        if before is not None:
            await asyncio.wait([before])
        await work

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        if self._last.get(key) is task:
            del self._last[key]

    async def settle(self, seconds: float) -> None:
        """Wait for running calls, but not for ever: an adapter should get all earlier calls before it is stopped."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
