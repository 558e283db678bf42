"""Topics of a real broker as items."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.adapters.brokers import link
from penstock.adapters.mqtt import MqttAdapter
from penstock.adapters.mqtt.adapter import MqttParameters
from penstock.kernel.item import Mode
from tests.adapters.brokers.scene import at_work, told, until
from tests.support.mosquitto import Mosquitto


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as made:
        yield made


def publisher(broker: Mosquitto, **more: str) -> aiomqtt.Client:
    version = aiomqtt.ProtocolVersion.V5
    return aiomqtt.Client("127.0.0.1", broker.port, protocol=version, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_retained_messages_are_snapshots_and_others_are_updates(broker: Mosquitto, version: str) -> None:
    async def scene() -> None:
        async with publisher(broker) as client:
            await client.publish("plant/press/celsius", '{"value": 20.5}', retain=True, qos=1)
            adapter = MqttAdapter(
                server=broker.address, topics="plant/+/celsius", item="heat.{topic[1]}", version=version, qos=1
            )
            async with at_work(adapter) as stage:
                await until(lambda: adapter.records == 1)
                watcher = stage.watch("heat.press", "value")
                assert await told(watcher, 1) == ["U,1,1,20.5"]
                await client.publish("plant/press/celsius", '{"value": 21.0}', qos=1)
                assert await told(watcher, 1) == ["U,1,1,21.0"]
                # What deletes a retained message empties the item.
                await client.publish("plant/press/celsius", b"", retain=True, qos=1)
                assert await told(watcher, 1) == ["U,1,1,#"]

    asyncio.run(scene())


def test_user_properties_are_headers_and_topics_are_rows(broker: Mosquitto) -> None:
    async def scene() -> None:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = [("unit", "C")]
        async with publisher(broker) as client:
            adapter = MqttAdapter(
                server=broker.address,
                topics=["plant/#"],
                item="plant",
                mode="COMMAND",
                value_format="text",
                fields={"reading": "{value} {headers.unit}"},
            )
            async with at_work(adapter) as stage:
                watcher = stage.watch("plant", "key command reading", Mode.COMMAND)
                await client.publish("plant/press", "20", qos=1, properties=properties)
                assert (await told(watcher, 2))[-1] == "U,1,1,plant/press|ADD|20 C"

    asyncio.run(scene())


def test_a_broker_that_goes_away_is_trouble_until_it_is_back(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LONGEST_PAUSE", 0.2)

    async def scene() -> None:
        adapter = MqttAdapter(server=broker.address, topics="a")
        async with at_work(adapter) as stage:
            watcher = stage.watch("a", "n")
            broker.kill()
            await until(lambda: adapter.trouble is not None)
            broker.start()
            await until(lambda: adapter.trouble is None)
            async with publisher(broker) as client:
                await client.publish("a", '{"n": 1}', qos=1)
            assert await told(watcher, 1) == ["U,1,1,1"]

    asyncio.run(scene())


def test_a_broker_that_is_not_there_or_refuses_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_CONNECTION", 5.0)
    with pytest.raises(ValueError, match=r"MQTT at 127\.0\.0\.1:9 cannot be read: .*refused"):
        asyncio.run(MqttAdapter(server="127.0.0.1:9", topics="a").start())
    with Mosquitto(tmp_path, "allow_anonymous false") as broker:
        adapter = MqttAdapter(server=broker.address, topics="a", user="ada", password="secret-word")
        with pytest.raises(ValueError, match="not authorized") as raised:
            asyncio.run(adapter.start())
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"server": "mqtt://broker"}, "server = 'mqtt://broker': expected host:port"),
        ({"topics": []}, "topics = []: expected at least one"),
        *(({"topics": wrong}, "expected names with / between levels") for wrong in ("", "a+/b", "#/a", "a/b#", "a#/b")),
        ({"version": "4"}, "version = '4': expected 3.1.1 or 5"),
        ({"qos": 3}, "qos = 3: expected 0, 1 or 2"),
        ({"keepalive_seconds": 0}, "keepalive_seconds = 0: expected 1 to 65535"),
        ({"tls_ca_file": Path("/nonexistent")}, "tls_ca_file = '/nonexistent': No such file"),
        ({"tls_private_key": Path("/x")}, "tls_private_key is set without tls_certificate"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_is_allowed(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        MqttAdapter(**cast(MqttParameters, {"server": "broker", "topics": "a/+/b/#", **parameters}))
