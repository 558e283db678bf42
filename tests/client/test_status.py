"""A client that loses its server says so: since when nothing is heard, why, and when it is back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.client import Client, Status, SubscriptionEnded, connect
from penstock.client import connection as connections
from tests.support.background import BackgroundServer
from tests.support.cut_proxy import CutProxy
from tests.support.tls import TLS, trusting_context

PATIENCE = 45.0

# A server that shows often that it is alive.
QUICK = {"session.min_keepalive_millis": 200, "session.default_keepalive_millis": 200}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))


class Reports:
    """What a client has told, one after the other."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[Status] = asyncio.Queue()

    def client(self, url: str, **options: Any) -> Client:
        return connect(url, adapter_set="TEST", proxy=None, on_status=self._told.put_nowait, **options)

    async def next(self) -> Status:
        return await self._told.get()


def test_a_cut_that_is_recovered_is_told_with_when_the_server_was_last_heard(server: BackgroundServer) -> None:
    async def test() -> None:
        reports = Reports()
        before = time.time()
        with CutProxy(server.host, server.port) as proxy:
            async with reports.client(proxy.url) as client:
                first = await reports.next()
                assert (first.connected, first.reason, first.sessions) == (True, "", 1)
                await client.send_message("heard")
                await asyncio.to_thread(proxy.cut)
                lost = await reports.next()
                assert not lost.connected
                assert lost.reason
                assert before <= first.since <= lost.since <= time.time()
                back = await reports.next()
                assert (back.connected, back.sessions) == (True, 1)
                assert back.since >= lost.since

    run(test())


def test_a_server_that_stays_away_is_told_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, connections.__name__)

    def wait_for_attempts(count: int) -> None:
        while [record.getMessage() for record in caplog.records].count("connection lost") < count:
            time.sleep(0.01)

    async def test() -> None:
        reports = Reports()
        with BackgroundServer({}) as server:
            port = server.port
            client = reports.client(server.url)
            await client.__aenter__()
            assert (await reports.next()).connected
            await asyncio.to_thread(server.stop)
            ended = await reports.next()
            assert ended.reason.endswith("(code 48)")
            refused = await reports.next()
            assert refused == Status(False, ended.since, "nothing listens there (connection refused)", 1)
        await asyncio.to_thread(wait_for_attempts, 4)
        with BackgroundServer({"stream.port": port}):
            back = await reports.next()
            assert (back.connected, back.sessions) == (True, 2)
            await client.close()

    run(test())


def test_a_server_that_falls_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.1)

    async def test() -> None:
        reports = Reports()
        with (
            BackgroundServer({**QUICK, **TLS}) as server,
            CutProxy(server.host, server.tls_port) as proxy,
        ):
            url = f"https://localhost:{proxy.port}"
            async with reports.client(url, tls=trusting_context()):
                assert (await reports.next()).connected
                await asyncio.to_thread(proxy.stall)
                lost = await reports.next()
                assert lost.reason.startswith("nothing was received from the server for ")
                # Since it was last heard, not since that was noticed: the keep-alive time and more lie between.
                assert time.time() - lost.since > 0.2

    run(test())


def test_a_subscription_that_the_server_ends_is_not_waited_for(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1"}

    async def test() -> None:
        async with connect(server.url, adapter_set="TEST", proxy=None) as client:
            subscription = client.subscribe("a", "x")
            await anext(subscription)
            (session,) = server.server.kernel.sessions.values()
            assert await asyncio.to_thread(server.metadata.server.unsubscribe, session.id, 1)
            with pytest.raises(SubscriptionEnded):
                await anext(subscription)
            # The session goes on.
            assert (await anext(client.subscribe("a", "x"))).values == {"x": "1"}

    run(test())
