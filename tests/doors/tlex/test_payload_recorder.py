from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from penstock.client.tlex import TlexApi, connect
from penstock.config import ConfigError, load
from penstock.doors.tlex.payload_recorder import JournalPayloadRecorder
from penstock.exchange.authorization import Role
from penstock.journal.gatherer import Gatherer
from penstock.journal.reader import JournalReader
from penstock.server import Server
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import SessionType, Tlc, TlcType
from tests.exchange.world import BROKER, SINGLEPLEX, TLC, A, World, plain

SETTINGS = {
    "stream.port": 0,
    "api.port": 0,
    "demo.enabled": False,
    "tlex.enabled": True,
    "tlex.port": 0,
    "tlex.journal": True,
    "tlex.reconnect_millis": 100,
}


def prepared(directory: Path) -> tuple[Tlc, str, str]:
    """A controller in the server's database, a token for itself and one for a broker."""
    directory.mkdir()
    store = Store.open(f"sqlite:///{directory / 'store.db'}")
    account = store.add_account("ours").uuid
    tlc = store.add_tlc("test", "NLZH0023", TlcType.TCP_STREAMING, account)
    secrets = [
        store.add_token(store.authorize(account, "test", role).uuid, 1).secret
        for role in (Role.TLC_SYSTEM, Role.BROKER_SYSTEM)
    ]
    store.close()
    return tlc, secrets[0], secrets[1]


def serving(directory: Path, overrides: dict[str, object], use: Any) -> None:
    """Run something beside a server in the same loop."""

    async def run() -> None:
        server = Server(load(None, {**SETTINGS, **overrides}).config, [], None, directory)
        await server.start()
        try:
            found: Coroutine[Any, Any, None] = use(server)
            await found
        finally:
            await server.stop()

    asyncio.run(run())


def records(directory: Path) -> list[dict[str, Any]]:
    reader = JournalReader(directory / "journal")
    reader.poll()
    return [row for batch in reader.read() for row in batch.to_pylist()]


@pytest.mark.parametrize("policy", ["ack", "interval", "off"])
def test_every_accepted_payload_is_journaled_with_who_sent_it_and_when(tmp_path: Path, policy: str) -> None:
    tlc, own, brokers = prepared(tmp_path / "data")
    before = time.time_ns() // 1_000

    async def use(server: Server) -> None:
        controller_session = await TlexApi(server.api_address, own).create(
            "test", SessionType.TLC, ["NLZH0023"], singleplex=True
        )
        broker_session = await TlexApi(server.api_address, brokers).create("test", SessionType.BROKER, ["NLZH0023"])
        async with await connect(controller_session) as controller, await connect(broker_session) as broker:
            await broker.synchronize()
            controller.send(b"\x00up\xff", 7, origin=2**64 - 1)
            controller.send(b"reserved", 0xF0)
            await anext(broker)
            broker.send(b"nobody's", 2, "NOTTHERE")
            broker.send(b"down", 8, "NLZH0023", origin=123)
            await anext(controller)

    serving(tmp_path / "data", {"tlex.journal_policy": policy}, use)
    up, down = records(tmp_path / "data")
    assert [each["entity"] for each in (up, down)] == [f"TLEX/TLEX/{tlc.uuid}"] * 2
    assert [each["kind"] for each in (up, down)] == ["payload"] * 2
    assert [each["revision"] for each in (up, down)] == [1, 2]
    assert before <= up["timestamp"].timestamp() * 1e6 + 1_000 <= time.time_ns() // 1_000 + 1_000
    first, second = json.loads(up["value"]), json.loads(down["value"])
    assert (first["domain"], first["identifier"], first["publisher"]) == ("test", "NLZH0023", "TLC")
    assert (first["type"], first["sent"], base64.b64decode(first["payload"])) == (7, 2**64 - 1, b"\x00up\xff")
    assert (second["publisher"], second["sent"], base64.b64decode(second["payload"])) == ("Broker", 123, b"down")
    assert first["session"] != second["session"]


def test_tokens_are_not_journaled(tmp_path: Path) -> None:
    _, own, _ = prepared(tmp_path / "data")
    tokens = [own]

    async def use(server: Server) -> None:
        session = await TlexApi(server.api_address, own).create("test", SessionType.TLC, ["NLZH0023"])
        tokens.append(session.token)
        async with await connect(session) as stream:
            stream.send(b"hello", 1, "NLZH0023")
            await stream.synchronize()

    serving(tmp_path / "data", {}, use)
    (record,) = records(tmp_path / "data")
    assert [token for token in tokens if token in str(record)] == []


def test_nothing_is_journaled_unless_configured(tmp_path: Path) -> None:
    _, own, _ = prepared(tmp_path / "data")

    async def use(server: Server) -> None:
        session = await TlexApi(server.api_address, own).create("test", SessionType.TLC, ["NLZH0023"])
        async with await connect(session) as stream:
            stream.send(b"hello", 1, "NLZH0023")
            await stream.synchronize()

    serving(tmp_path / "data", {"tlex.journal": False}, use)
    assert records(tmp_path / "data") == []


def test_without_a_journal_payloads_cannot_be_journaled() -> None:
    with pytest.raises(ConfigError, match=r"tlex\.journal = true: expected false, because journal.enabled"):
        load(None, {"tlex.journal": True, "journal.enabled": False})


def test_a_journal_that_fails_in_an_unforeseen_way_keeps_no_payload_from_anybody() -> None:
    lost: list[tuple[int, str]] = []

    class Broken:
        def take(self, columns: object, policy: object) -> None:
            raise MemoryError("no room")

        def lose(self, count: int, reason: str) -> None:
            lost.append((count, reason))

    due: list[Any] = []
    world = World(recorder=JournalPayloadRecorder(cast(Gatherer, Broken()), "interval", due.append))
    world.register(A)
    broker, controller = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    controller.send(plain("hello"))
    due.pop()()
    assert broker.texts() == ["hello"]
    assert lost == [(1, "MemoryError: no room")]


def test_the_history_of_a_controller_goes_on_when_it_is_renamed(tmp_path: Path) -> None:
    tlc, own, _ = prepared(tmp_path / "data")
    store = Store.open(f"sqlite:///{tmp_path / 'data' / 'store.db'}")
    admin = store.add_token(store.authorize(tlc.account, "test", Role.TLC_ADMIN).uuid, 1).secret
    store.close()

    async def say(server: Server, identifier: str) -> None:
        session = await TlexApi(server.api_address, own).create("test", SessionType.TLC, [identifier])
        async with await connect(session) as stream:
            stream.send(b"hello", 1, identifier)
            await stream.synchronize()

    async def use(server: Server) -> None:
        await say(server, "NLZH0023")
        path, headers = f"{server.api_address}/api/v1/tlcs/{tlc.uuid}", {"X-Authorization": admin}
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.put(path, json={"identifier": "NLZH0099"}, headers=headers)
        assert answer.status_code == 200
        await say(server, "NLZH0099")

    serving(tmp_path / "data", {}, use)
    found = records(tmp_path / "data")
    assert {each["entity"] for each in found} == {f"TLEX/TLEX/{tlc.uuid}"}
    assert [each["revision"] for each in found] == [1, 2]
    assert [json.loads(each["value"])["identifier"] for each in found] == ["NLZH0023", "NLZH0099"]
