"""An application that is built by its first request."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.services.deferred import DeferredApplication


class Workshop:
    """Builds applications that note the paths they are asked for; it waits for `may_go_on` each time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.built = 0
        self.is_building = asyncio.Event()
        self.asked: list[str] = []
        self.may_go_on = threading.Event()
        self.fails = False

    def build(self) -> ASGIApp:
        self.built += 1
        self._loop.call_soon_threadsafe(self.is_building.set)
        assert self.may_go_on.wait(60)
        if self.fails:
            raise RuntimeError("not this time")
        return self._application

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])


async def ask(application: ASGIApp, path: str) -> None:
    async def receive() -> Message:
        raise AssertionError("nobody reads")

    async def send(message: Message) -> None:
        raise AssertionError("nobody answers")

    await application({"type": "http", "path": path}, receive, send)


def test_it_is_built_once_for_requests_that_come_meanwhile_and_later_and_the_loop_goes_on() -> None:
    async def run() -> None:
        workshop = Workshop()
        application = DeferredApplication(workshop.build)
        assert workshop.built == 0
        requests = [asyncio.create_task(ask(application, path)) for path in ("/a", "/b")]
        # Only a loop that is not held up comes back from here.
        await workshop.is_building.wait()
        workshop.may_go_on.set()
        await asyncio.gather(*requests)
        await ask(application, "/c")
        assert workshop.built == 1
        assert workshop.asked == ["/a", "/b", "/c"]

    asyncio.run(run())


def test_after_a_failure_the_next_request_tries_again() -> None:
    async def run() -> None:
        workshop = Workshop()
        workshop.may_go_on.set()
        workshop.fails = True
        application = DeferredApplication(workshop.build)
        with pytest.raises(RuntimeError, match="not this time"):
            await ask(application, "/a")
        workshop.fails = False
        await ask(application, "/b")
        assert workshop.asked == ["/b"]

    asyncio.run(run())
