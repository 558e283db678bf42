"""Two servers with one database: each device is served by one of them, and goes to the other when that one is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.push.registry import PushDecision
from penstock.store.push import FoundDevice, PushStore
from tests.services.push.stage import PushServer


def servers(directory: Path) -> list[PushServer]:
    shared = {"push.store": f"sqlite:///{directory}/shared.db", "push.lease_seconds": 3}
    found = []
    for name in ("one", "two"):
        (directory / name).mkdir()
        found.append(PushServer(directory / name, shared))
    return found


def test_a_device_that_registers_at_another_server_is_served_there(tmp_path: Path) -> None:
    one, two = servers(tmp_path)
    with one, two:
        with one.client() as client:
            device = client.register()
            client.activate()
        with two.client() as client:
            assert client.register() == device
        assert one.call(lambda: one.engine.memory.registry.device_count) == 0
        for server in (one, two):
            server.update("item1", x="1")
        two.provider.wait(1)
        assert one.provider.sent == []


def test_a_client_that_comes_back_while_its_device_is_given_up_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers(tmp_path)
    with one, two, ThreadPoolExecutor(1) as elsewhere:
        with one.client() as client:
            device = client.register()
        engine = one.engine
        key = one.call(lambda: engine.memory.registry.known_device(device).key)
        go_on = asyncio.Event()
        decide = engine.decide
        asked: list[FoundDevice | None] = []

        async def hesitate(subjects: Iterable[Hashable], decision: Callable[[], PushDecision[Any]]) -> Any:
            decided = await decide(subjects, decision)
            # Forgotten, and the database has not been told.
            if decided == [device]:
                await go_on.wait()
            return decided

        find = PushStore.find

        def count(store: PushStore, wanted: object) -> FoundDevice | None:
            found = find(store, key)
            if store is engine.store:
                asked.append(found)
            return found

        monkeypatch.setattr(engine, "decide", hesitate)
        monkeypatch.setattr(PushStore, "find", count)
        moved = elsewhere.submit(_register, two)
        one.wait(lambda: engine.memory.registry.device_count == 0)
        back = one.call(lambda: asyncio.get_running_loop().create_task(engine.lease.find(key)))
        # Either it has the device, which is wrong, or it has looked twice and is still waiting.
        one.wait(lambda: back.done() or len(asked) > 1)
        one.call(go_on.set)
        assert moved.result(20) == device
        assert one.call(lambda: engine.memory.registry.device_count) == 0
        one.call(back.cancel)


def _register(server: PushServer) -> str:
    with server.client() as client:
        return client.register()


def test_devices_of_a_server_that_has_stopped_are_taken_over(tmp_path: Path) -> None:
    one, two = servers(tmp_path)
    with one, one.client() as client:
        device = client.register()
        client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
    with two:
        two.wait(lambda: two.engine.memory.registry.device(device) is not None)
        two.update("item1", x="2")
        two.provider.wait(1)
