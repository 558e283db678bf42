"""Runs coroutines for conversations: the port `Work`, on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ConversationTasks:
    """Kept here, because the event loop holds only weak references to tasks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def later(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def finish(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                done(task.result())
            elif isinstance(error, Exception):
                done(error)

        task.add_done_callback(finish)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
