"""The store's thread: calls of the event loop run there, one after the other, in the order they were made.

One thread is enough for what is asked: requests for sessions, not payloads. The calls themselves are in `store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from penstock.store.errors import Closed
from penstock.store.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class StoreThread:
    """Close it when nothing is to be asked any more: what was asked before is done first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._executor = ThreadPoolExecutor(1, "store")
        self._closed = False

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`await thread.call(thread.store.find, secret)`; raises Closed after the end."""
        if self._closed:
            raise Closed("The database is closed")
        return await asyncio.wrap_future(self._executor.submit(function, *args, **kwargs))

    async def close(self) -> None:
        self._closed = True
        await asyncio.wrap_future(self._executor.submit(self.store.close))
        self._executor.shutdown()
