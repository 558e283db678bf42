"""Subjects of a real server as items."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import nats
import pytest

from penstock.adapters.brokers import link
from penstock.adapters.nats import NatsAdapter
from penstock.adapters.nats.adapter import NatsParameters
from penstock.kernel.item import Mode
from tests.adapters.brokers.scene import at_work, told, until
from tests.support.nats_server import NatsServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path, f'jetstream {{ store_dir: "{tmp_path}/jetstream" }}') as made:
        yield made


def test_messages_of_subjects_are_updates_of_items(server: NatsServer) -> None:
    async def scene() -> None:
        client = await nats.connect(server.url)
        adapter = NatsAdapter(servers=server.url, topics=["quotes.*", "orders.>"], item="{topic[0]}-{topic[1]}")
        async with at_work(adapter) as stage:
            watcher = stage.watch("quotes-acme orders-1", "bid trace")
            await client.publish("quotes.acme", b'{"bid": 1.50}')
            await client.publish("orders.1.new", b'{"bid": 2}', headers={"other": "1"})
            assert sorted(await told(watcher, 2)) == ["U,1,1,1.50|#", "U,1,2,2|#"]
        await client.close()

    asyncio.run(scene())


def test_servers_of_a_group_share_the_messages(server: NatsServer) -> None:
    async def scene() -> None:
        client = await nats.connect(server.url)
        one, other = (NatsAdapter(servers=server.url, topics="a.*", group="g") for _ in range(2))
        async with at_work(one), at_work(other):
            for n in range(40):
                await client.publish(f"a.{n}", b"{}")
            await until(lambda: one.records + other.records == 40)
        await client.close()

    asyncio.run(scene())


def test_a_bucket_is_a_table_and_a_stream_goes_on_where_it_stopped(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LONGEST_PAUSE", 0.2)

    async def scene() -> None:
        client = await nats.connect(server.url)
        bucket = await client.jetstream().create_key_value(bucket="positions")
        for name, size in (("a", 1), ("b", 2), ("a", 3)):
            await bucket.put(name, f'{{"size": {size}}}'.encode())
        await bucket.delete("b")
        adapter = NatsAdapter(
            servers=server.url,
            topics="$KV.positions.>",
            stream="KV_positions",
            start="last",
            mode="COMMAND",
            item="positions",
            row="{topic[2]}",
        )
        async with at_work(adapter) as stage:
            watcher = stage.watch("positions", "key command size", Mode.COMMAND)
            assert await told(watcher, 2) == ["U,1,1,a|ADD|3", "EOS,1,1"]
            await bucket.put("c", b'{"size": 4}')
            assert await told(watcher, 1) == ["U,1,1,c||4"]
            # The connection of the adapter is cut; what came meanwhile is not lost, and nothing comes twice.
            server.kill()
            await until(lambda: adapter.trouble is not None)
            server.start()
            again = await nats.connect(server.url)
            await (await again.jetstream().key_value("positions")).put("d", b'{"size": 5}')
            assert await told(watcher, 1) == ["U,1,1,d||5"]
            await again.close()
            assert adapter.trouble is None
        await client.close()

    asyncio.run(scene())


def test_what_cannot_be_read_is_told_at_the_start(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_CONNECTION", 5.0)
    with pytest.raises(ValueError, match=r"NATS at nats://127\.0\.0\.1:9 cannot be read"):
        asyncio.run(NatsAdapter(servers="nats://127.0.0.1:9", topics="a").start())
    with pytest.raises(ValueError, match="there is no stream missing"):
        asyncio.run(NatsAdapter(servers=server.url, topics="a", stream="missing").start())
    with NatsServer(tmp_path, 'authorization { user: ada, password: "friend-word" }') as closed:
        adapter = NatsAdapter(servers=closed.url, topics="a", user="ada", password="secret-word")
        with pytest.raises(ValueError, match="Authorization") as raised:
            asyncio.run(adapter.start())
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"servers": "localhost:4222"}, 'servers: expected "nats://host:port"'),
        ({"servers": "nats://ada:secret-word@localhost"}, "without a user or password"),
        ({"topics": []}, "topics = []: expected at least one"),
        *(({"topics": wrong}, "expected subjects with . between tokens") for wrong in ("", "a..b", ">.a", "a b", "a*")),
        ({"start": "first"}, "start = 'first': expected latest, earliest, last"),
        ({"start": "last"}, "only a stream keeps messages; set stream"),
        ({"stream": "s", "group": "g"}, "group is set together with stream"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_is_allowed(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        NatsAdapter(**cast(NatsParameters, {"servers": "nats://localhost:4222", "topics": "a.*.>", **parameters}))
    assert "secret-word" not in str(raised.value)
