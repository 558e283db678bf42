"""What happens to push subscriptions when something is away: a data adapter, an adapter set, the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.adapters.loading import SetPlan
from penstock.push.records import SubscriptionStatus
from tests.services.push.stage import PushClient, PushServer
from tests.support.background import HandAdapter


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with PushServer(tmp_path) as server:
        yield server


class Broken:
    """Stands before the store's `write`, and fails as long as it is told to."""

    def __init__(self, server: PushServer) -> None:
        store = server.engine.store
        assert store is not None
        self._write = store.write
        self.away = True
        store.write = self.write  # type: ignore[method-assign]

    def write(self, changes: object) -> None:
        if self.away:
            raise OperationalError("INSERT", {}, Exception("disk I/O error"))
        self._write(changes)  # type: ignore[arg-type]


def test_requests_are_refused_while_the_database_is_away_and_triggers_wait(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        subscription = client.activate(PN_trigger="Double.parseDouble($[1]) > 1")
        store = server.call(Broken, server)
        assert client.ask("activate", **client.parameters()).split(",")[2] == "41"
        server.update("item1", x="2")
        server.wait(lambda: server.server.push.degradations() == ["push database"])
        assert server.provider.sent == []
        store.away = False
        (sent,) = server.provider.wait(1)
        assert sent.subscription == subscription
        server.wait(lambda: server.server.push.degradations() == [])
        server.wait(lambda: server.engine.memory.sender.waiting_count == 0)
        registry = server.call(lambda: server.engine.memory.registry)
        assert registry.subscription_count == 1
        found = registry.subscription(subscription)
        assert found is not None
        assert found.status is SubscriptionStatus.TRIGGERED


def test_updates_without_a_trigger_need_no_database(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        client.activate()
        server.call(Broken, server)
        server.update("item1", x="2")
        server.provider.wait(1)


def test_a_data_adapter_that_comes_back_is_followed_again(server: PushServer) -> None:
    first, second = HandAdapter(), HandAdapter()
    on_loop(server, server.server.sets.add(SetPlan(AdapterSet("OTHER", MetadataAdapter(), {"HAND": first}))))
    with PushClient(server.tlcp, "OTHER") as client:
        client.register()
        client.activate()
    assert server.call(lambda: set(first.subscribed)) == {"item1"}
    on_loop(server, stop_set(server, "OTHER"))
    assert server.call(lambda: server.engine.watches and server.engine.watches.waiting) == 1
    on_loop(server, server.server.sets.add(SetPlan(AdapterSet("OTHER", MetadataAdapter(), {"HAND": second}))))
    assert server.call(lambda: set(second.subscribed)) == {"item1"}
    server.call(second.publish, "item1", {"x": "1", "y": "2"})
    (sent,) = server.provider.wait(1)
    assert sent.payload == '{"aps":{"alert":"1 and 2"}}'


def test_items_in_another_mode_are_followed_when_they_are_free(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        assert client.ask(
            "add",
            LS_subId="100",
            LS_data_adapter="HAND",
            LS_group="item1",
            LS_schema="x",
            LS_mode="DISTINCT",
        ).startswith("REQOK")
        assert client.ask("activate", **client.parameters()).split(",")[2] == "24"


def test_a_device_that_nobody_uses_is_deleted_and_others_stay(tmp_path: Path) -> None:
    week = 7 * 24 * 3_600_000
    with PushServer(tmp_path) as server:
        with server.client() as client:
            for token in ("unused", "used", "open"):
                client.register(token)
                if token == "used":
                    client.activate()
            client.ask("destroy")
        with server.client() as client:
            kept = client.register("open")
            later = server.call(lambda: server.engine.clock()) + week + 1
            server.server.push._clock = lambda: later
            assert on_loop(server, server.server.push.collect()) == 1
            registry = server.call(lambda: server.engine.memory.registry)
            assert registry.device_count == 2
            assert registry.device(kept) is not None


def on_loop(server: PushServer, work: object) -> object:
    return asyncio.run_coroutine_threadsafe(work, server._loop).result(20)  # type: ignore[arg-type]


async def stop_set(server: PushServer, name: str) -> None:
    running = server.server.sets.running.pop(name)
    running.retire("gone")
    del server.server.sets.open_sets[name]
    await running.stop()
