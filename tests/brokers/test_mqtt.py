"""The client of MQTT against a broker that hangs, refuses or breaks the protocol: one sentence, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.brokers import mqtt
from penstock.brokers.mqtt import MqttLink, MqttSettings
from penstock.wire.mqtt.errors import MqttError
from penstock.wire.mqtt.packets import MqttMessage

Broker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WELCOME = b"\x20\x03\x00\x00\x00"


async def against(broker: Broker, use: Callable[[MqttLink], Awaitable[None]]) -> str:
    """What the link says at its end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await broker(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        link = MqttLink(MqttSettings("127.0.0.1", server.sockets[0].getsockname()[1], keep_alive=1), lambda _: None)
        try:
            await use(link)
            async with asyncio.timeout(30):
                return await asyncio.shield(link.ended)
        finally:
            await link.close()
    finally:
        server.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def answering(answer: bytes, then: bytes = b"") -> Broker:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(answer)
        if then:
            await reader.read(1_000)
            writer.write(then)
        await reader.read()

    return broker


async def opened(link: MqttLink) -> None:
    await link.open()


def test_a_broker_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "TIMEOUT", 0.1)
    with pytest.raises(MqttError, match=r"no answer within 0\.1 seconds"):
        asyncio.run(against(silent, opened))


def test_a_refusal_is_named() -> None:
    with pytest.raises(MqttError, match=r"refuses the connection: not authorized \(135\)"):
        asyncio.run(against(answering(b"\x20\x03\x00\x87\x00"), opened))


def test_what_is_no_packet_ends_the_connection() -> None:
    with pytest.raises(MqttError, match="MQTT protocol error: a broker does not send packets of kind 0"):
        asyncio.run(against(answering(WELCOME + b"\x00\x00"), opened))


def test_a_broker_that_falls_silent_is_lost() -> None:
    assert "has been silent for 1.5 seconds" in asyncio.run(against(answering(WELCOME), opened))


def test_a_broker_that_says_goodbye_gives_its_reason() -> None:
    reason = asyncio.run(against(answering(WELCOME + b"\xe0\x01\x8b"), opened))
    assert "server shutting down" in reason


def test_a_message_that_was_not_acknowledged_is_not_taken_for_sent() -> None:
    async def use(link: MqttLink) -> None:
        await link.open()
        sending = asyncio.ensure_future(link.publish(MqttMessage("t", b"", 1)))
        await asyncio.sleep(0)
        link.abort("cut")
        with pytest.raises(MqttError, match="cut"):
            await sending

    assert asyncio.run(against(answering(WELCOME), use)) == "cut"


def test_answers_to_a_subscription_must_fit_it() -> None:
    async def use(link: MqttLink) -> None:
        await link.open()
        with pytest.raises(MqttError, match="2 answers to 1 subscriptions"):
            await link.subscribe([("a", 1)])
        link.abort("enough")

    assert asyncio.run(against(answering(WELCOME, b"\x90\x05\x00\x01\x00\x01\x01"), use)) == "enough"
