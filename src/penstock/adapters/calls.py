"""How adapters' methods are called: async ones on the event loop, plain ones on threads, all with a timeout.

A thread that never returns is lost only to its adapter set; its caller has got a timeout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar, cast

from penstock.adapters.call_tally import CallTally
from penstock.adapters.faults import CONTAINED, AdapterExit
from penstock.kernel.errors import Refusal

T = TypeVar("T")

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
        self.tally = CallTally()
        # Its threads are made when they are needed.
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix=threads, initializer=self.tally.thread_made)
        self._closed = False
        # Functions behind methods, by their names, and what `returns_at_once` has found out about them.
        self._known: dict[str, tuple[object, bool]] = {}

    def returns_at_once(self, name: str) -> bool:
        """Whether the method may be called on the event loop itself, without waiting for anything."""
        method = getattr(self._adapter, name)
        function = getattr(method, "__func__", method)
        known = self._known.get(name)
        if known is None or known[0] is not function:
            # Asked for every call, and slow to find out.
            is_plain = not iscoroutinefunction(method)
            known = function, is_plain and (self._quick or not overrides(self._adapter, self._base, name))
            self._known[name] = known
        return known[1]

    def call_at_once(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a method that returns at once returns; raises what it raises, always an Exception."""
        begun = time.perf_counter()
        failed = True
        try:
            with CONTAINED:
                result = function(*arguments)
            failed = False
        except Refusal:
            failed = False
            raise
        finally:
            self.tally.ended(begun, failed)
        return result

    async def call(self, name: str, *arguments: Any) -> Any:
        """What the method returns; raises what it raises, always an Exception, or TimeoutError."""
        return await self._counted(self._call(name, *arguments))

    async def _counted(self, call: Coroutine[Any, Any, Any]) -> Any:
        begun = time.perf_counter()
        failed = False
        self.tally.pending += 1
        try:
            return await call
        except Refusal:
            raise
        except Exception:
            failed = True
            raise
        finally:
            self.tally.pending -= 1
            self.tally.ended(begun, failed)

    async def _call(self, name: str, *arguments: Any) -> Any:
        method = getattr(self._adapter, name)
        if self.returns_at_once(name):
            with CONTAINED:
                result = method(*arguments)
            return await self.within_time(result) if isawaitable(result) else result
        if iscoroutinefunction(method):
            return await self.within_time(method(*arguments))
        return await self._run(method, *arguments)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run anything that may wait on a thread."""
        return await self._counted(self._run(function, *arguments))

    async def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        asked = time.perf_counter()
        result = await self.within_time(
            # With the number of the request that asks, which lines of the log about it have.
            asyncio.get_running_loop().run_in_executor(
                self._pool, copy_context().run, self._on_thread, asked, function, arguments
            )
        )
        # A plain method may hand back a coroutine of another.
        return await self.within_time(result) if isawaitable(result) else result

    def _on_thread(self, asked: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.tally.thread_taken(asked)
        try:
            return function(*arguments)
        finally:
            self.tally.thread_left()

    async def within_time(self, result: Any) -> Any:
        """What this awaitable of the adapter comes to; raises what it raises, always an Exception, or TimeoutError."""
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
