"""The hub as items: a TLCP client watches while TLEX clients come, send and go."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.adapters.api import AdapterSet, MetadataAdapter
from penstock.adapters.introduction import introduced
from penstock.adapters.loading import SetPlan
from penstock.adapters.tlex import Board, TlexAdapter
from penstock.adapters.tlex.adapter import FIGURES
from penstock.client.connection import Client
from penstock.client.connection import connect as watch
from penstock.client.tlex import TlexApi, TlexStream, connect
from penstock.config import load
from penstock.exchange.authorization import Role
from penstock.server import Server
from penstock.services.errors import StartError
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import SessionType, TlcType

A, B = "NLZH000A", "NLZH000B"
PAYLOAD = "received origin type size from session payload"
SESSION = "key command type protocol domain account identifiers state connected received sent dropped"


class Hub:
    """A running server, and clients of both kinds."""

    def __init__(self, server: Server, secrets: dict[SessionType, str], client: Client) -> None:
        self.server = server
        self.client = client
        self._secrets = secrets

    def api(self, type: SessionType) -> TlexApi:
        return TlexApi(self.server.api_address, self._secrets[type])

    async def join(self, type: SessionType, *identifiers: str, singleplex: bool = False) -> TlexStream:
        stream = await connect(await self.api(type).create("test", type, identifiers, singleplex=singleplex))
        await stream.synchronize()
        return stream


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Hub]:
    url = f"sqlite:///{directory / 'store.db'}"
    store = Store.open(url)
    account = store.add_account("ours").uuid
    for identifier in (A, B):
        store.add_tlc("test", identifier, TlcType.TCP_STREAMING, account)
    roles = {SessionType.TLC: Role.TLC_SYSTEM, SessionType.BROKER: Role.BROKER_SYSTEM}
    secrets = {
        type: store.add_token(store.authorize(account, "test", role).uuid, 1).secret for type, role in roles.items()
    }
    store.close()
    settings = {
        "stream.port": 0,
        "api.port": 0,
        "tlex.enabled": True,
        "tlex.port": 0,
        "tlex.store": url,
        "tlex.reconnect_millis": 50,
        "tlex.tlc.payloads_per_second": 10_000,
    }
    server = Server(load(None, settings).config, [AdapterSet("HUB", MetadataAdapter(), {"TLEX": TlexAdapter()})])
    await server.start()
    try:
        async with watch(f"http://127.0.0.1:{server.stream_ports[0]}", adapter_set="HUB") as client:
            yield Hub(server, secrets, client)
    finally:
        await server.stop()


def in_hub(directory: Path, test: Callable[[Hub], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(directory) as hub, asyncio.timeout(20):
            await test(hub)

    asyncio.run(run())


def test_the_last_payloads_of_a_controller_are_a_distinct_item_with_a_snapshot(tmp_path: Path) -> None:
    async def test(hub: Hub) -> None:
        controller = await hub.join(SessionType.TLC, A, singleplex=True)
        broker = await hub.join(SessionType.BROKER, A)
        for number in range(30):
            controller.send(b"up %d" % number, 7, origin=123)
        await controller.synchronize()
        item = hub.client.subscribe(f"payloads/test/{A}", PAYLOAD, mode="DISTINCT", data_adapter="TLEX", snapshot=20)
        snapshot = [await anext(item) for _ in range(10)]
        assert [base64.b64decode(each.values["payload"] or "") for each in snapshot] == [
            b"up %d" % number for number in range(20, 30)
        ]
        assert all(each.is_snapshot for each in snapshot)
        first = snapshot[0].values
        assert (first["origin"], first["type"], first["size"], first["from"]) == ("123", "07", "5", "TLC")
        broker.send(b"down", 8, A)
        live = await anext(item)
        assert (live.is_snapshot, live.values["from"], live.values["type"]) == (False, "Broker", "08")
        await controller.close()
        await broker.close()

    in_hub(tmp_path, test)


def test_the_figures_of_a_controller_are_a_merge_item(tmp_path: Path) -> None:
    async def test(hub: Hub) -> None:
        item = hub.client.subscribe(f"controller/test/{A}", FIGURES, data_adapter="TLEX")
        before = await anext(item)
        assert before.values["connected"] in (None, "0")
        controller = await hub.join(SessionType.TLC, A, singleplex=True)
        broker = await hub.join(SessionType.BROKER, A)
        controller.send(b"hello")
        async for update in item:
            if update.values["payloads"] == "1" and update.values["brokers"] == "1" and update.values["latency"]:
                break
        assert update.values["connected"] == "1"
        assert abs(int(update.values["clock_difference"] or "")) < 1_000
        assert int(update.values["last_seen"] or "") > 0
        await controller.close()
        async for update in item:
            if update.values["connected"] == "0":
                break
        await broker.close()

    in_hub(tmp_path, test)


def test_active_sessions_are_a_command_item(tmp_path: Path) -> None:
    async def test(hub: Hub) -> None:
        early = await hub.join(SessionType.TLC, A, singleplex=True)
        item = hub.client.subscribe("sessions/test", SESSION, mode="COMMAND", data_adapter="TLEX")
        found = await anext(item)
        assert (found.values["command"], found.values["type"], found.values["identifiers"]) == ("ADD", "TLC", A)
        assert early.session.token not in str(found)
        broker = await hub.join(SessionType.BROKER, A)
        opened = await anext(item)
        assert (opened.values["command"], opened.values["type"], opened.values["state"]) == ("ADD", "Broker", "pending")
        key = opened.values["key"]
        connected = await anext(item)
        assert (connected.values["key"], connected.values["command"]) == (key, "UPDATE")
        assert connected.values["state"] == "live"
        await hub.api(SessionType.BROKER).update(broker.session, [A, B])
        changed = await anext(item)
        assert changed.values["identifiers"] == f"{A} {B}"
        early.send(b"counted")
        rows = {}
        async for update in item:
            rows[update.values["type"]] = update.values
            if [rows.get("TLC", {}).get("received"), rows.get("Broker", {}).get("sent")] == ["1", "1"]:
                break
        await broker.close()
        async for update in item:
            if update.values["command"] == "DELETE":
                break
        assert update.values["key"] == key
        await early.close()

    in_hub(tmp_path, test)


def test_what_is_not_passed_on_is_counted_in_the_item_of_sessions(tmp_path: Path) -> None:
    counts = "received dropped oversized out_of_scope reserved unrouted"

    async def test(hub: Hub) -> None:
        stream = await hub.join(SessionType.TLC, A)
        item = hub.client.subscribe("sessions/test", f"key command {counts}", mode="COMMAND", data_adapter="TLEX")
        stream.send(b"for nobody who is there", 1, A)
        stream.send(b"for a controller that was not asked for", 1, B)
        stream.send(b"of a type that is the protocol's own", 0xF7, A)
        async for update in item:
            if update.values["received"] == "3":
                break
        assert [update.values[name] for name in counts.split()] == ["3", "0", "0", "1", "1", "1"]
        await stream.close()

    in_hub(tmp_path, test)


def test_sessions_of_all_domains_are_one_item_and_those_of_another_domain_none_of_these(tmp_path: Path) -> None:
    async def test(hub: Hub) -> None:
        stream = await hub.join(SessionType.TLC, A)
        everywhere = hub.client.subscribe("sessions", SESSION, mode="COMMAND", data_adapter="TLEX")
        elsewhere = hub.client.subscribe("sessions/other", SESSION, mode="COMMAND", data_adapter="TLEX")
        assert (await anext(everywhere)).values["domain"] == "test"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(elsewhere), 0.1)
        await stream.close()

    in_hub(tmp_path, test)


def test_without_a_hub_the_adapter_does_not_start() -> None:
    async def start() -> None:
        sets = [AdapterSet("HUB", MetadataAdapter(), {"TLEX": TlexAdapter()})]
        await Server(load(None, {"stream.port": 0, "api.port": 0}).config, sets).start()

    with pytest.raises(StartError, match=r"there is no TLEX hub to show: tlex\.enabled is false"):
        asyncio.run(start())


def test_adapters_that_are_made_later_know_the_board_as_well() -> None:
    board = Board(True)
    plan = introduced(SetPlan(AdapterSet("HUB", MetadataAdapter(), {}), {"TLEX": TlexAdapter}), board.introduce)
    made = plan.optional["TLEX"]()
    assert isinstance(made, TlexAdapter)
    assert made.board is board
