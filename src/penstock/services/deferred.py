"""An application of the API port that is built when its first request comes.

FastAPI takes its time over the models of many routes. A server whose administration nobody uses need not wait for that
when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class DeferredApplication:
    """An ASGI application in place of the one that `build` returns; for one event loop.

    `build` runs on a thread, because clients of other ports must not wait for it.
    """

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._built: ASGIApp | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._lock:
            if self._built is None:
                self._built = await asyncio.to_thread(self._build)
        await self._built(scope, receive, send)
