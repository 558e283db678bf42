"""A connection to an MQTT broker, 3.1.1 or 5. A message is acknowledged when it has been dealt with.

The broker keeps the session, under the client identifier, so that what was not acknowledged comes again.
"""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.brokers.bridge import Bridge, BridgeLost, PublishRefused, TakeInbound, addresses, tls_of
from penstock.brokers.mqtt import MqttLink, MqttSettings
from penstock.connections.document import ConnectionDocument
from penstock.connections.message import InboundMessage, OutboundMessage, Settlement
from penstock.wire.mqtt.errors import MqttError, MqttRefused
from penstock.wire.mqtt.packets import MqttMessage, message_properties
from penstock.wire.mqtt.properties import CONTENT_TYPE, CORRELATION_DATA, RESPONSE_TOPIC

# Answers to CONNECT that do not change by themselves.
FINAL = (0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C)

# Headers that are no user properties.
_OWN = ("content-type", "reply-to", "correlation-id", "mqtt.retain", "mqtt.qos", "mqtt.topic")


class MqttBridge(Bridge):
    """`specificConfig` has clientId (default: `penstock-` and the ID) and keepAlive in seconds."""

    def __init__(self, document: ConnectionDocument, take: TakeInbound) -> None:
        super().__init__(document)
        self._take = take
        self._is_new = document.connection_type == "mqtt-5"
        given = document.specific_config
        client = given.get("clientId") or f"penstock-{document.id}"
        try:
            keep_alive = int(given.get("keepAlive", "30").removesuffix("s"))
        except ValueError:
            keep_alive = 0
        if not 1 <= keep_alive <= 65_535:
            raise BridgeLost(f"specificConfig.keepAlive = '{given['keepAlive']}': expected 1 to 65535", is_final=True)
        port = document.port or (8883 if document.is_encrypted else 1883)
        self._settings = MqttSettings(
            document.host,
            port,
            self._is_new,
            client,
            document.user,
            document.password,
            keep_alive,
            clean=not document.sources,
            tls=tls_of(document),
        )
        self._filters = [(number, address, address.split("/")) for number, address in addresses(document)]
        self._link: MqttLink | None = None

    async def open(self) -> None:
        link = self._link = MqttLink(self._settings, self._arrived)
        link.ended.add_done_callback(lambda done: self.end(done.result()))
        sources = self.document.sources
        wanted = [(address, sources[number].qos) for number, address, _ in self._filters]
        try:
            await link.open()
            if wanted:
                await link.subscribe(wanted)
        except MqttRefused as refused:
            raise BridgeLost(str(refused), refused.code in FINAL) from None
        except MqttError as error:
            raise BridgeLost(str(error)) from None

    async def publish(self, message: OutboundMessage) -> int:
        if self._link is None:
            raise BridgeLost("it is not open")
        headers = message.headers
        topic = headers.get("mqtt.topic", message.address)
        if not topic or "+" in topic or "#" in topic or "\0" in topic or len(topic.encode()) > 65_535:
            raise PublishRefused(f"'{topic[:60]}' is not the name of a topic: expected no wildcards")
        made = MqttMessage(topic, message.payload, message.qos, headers.get("mqtt.retain") == "true")
        if self._is_new:
            users = [(name, value) for name, value in headers.items() if name not in _OWN]
            made.properties = message_properties(
                users, headers.get("content-type"), headers.get("reply-to"), headers.get("correlation-id")
            )
        try:
            await self._link.publish(made)
        except MqttRefused as refused:
            raise PublishRefused(str(refused)) from None
        except MqttError as error:
            raise BridgeLost(str(error)) from None
        except ValueError as error:
            raise PublishRefused(str(error)) from None
        return 200

    def hold(self, held: bool) -> None:
        if self._link is not None:
            self._link.hold(held)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
        self.end("it was closed")
        await asyncio.sleep(0)

    def _arrived(self, messages: list[MqttMessage]) -> None:
        assert self._link is not None
        found = []
        for message in messages:
            source = self._source_of(message.topic)
            if source is None:
                # Of a subscription that the document does not have any more; the broker keeps it with the session.
                self._link.settle(message)
                continue
            number, address = source
            settle = partial(self._settled, self._link, message)
            headers = self._headers(message)
            found.append(InboundMessage(number, address, message.topic, message.payload, headers, settle))
        if found:
            self._take(found)

    def _settled(self, link: MqttLink, message: MqttMessage, settlement: Settlement) -> None:
        if settlement is not Settlement.AGAIN:
            link.settle(message)
        elif message.qos:
            # There is no other way to have it again.
            link.abort("a message could not be processed yet; reconnecting to receive it again")

    def _headers(self, message: MqttMessage) -> dict[str, str]:
        headers = {"mqtt.topic": message.topic, "mqtt.qos": str(message.qos)}
        headers["mqtt.retain"] = "true" if message.retain else "false"
        given = message.properties
        for name, value in given.users:
            headers[name.lower()] = value
        known = ((CONTENT_TYPE, "content-type"), (RESPONSE_TOPIC, "reply-to"), (CORRELATION_DATA, "correlation-id"))
        for kind, name in known:
            text = given.text(kind)
            if text is not None:
                headers[name] = text
        return headers

    def _source_of(self, topic: str) -> tuple[int, str] | None:
        levels = topic.split("/")
        for number, address, wanted in self._filters:
            if matches(wanted, levels):
                return number, address
        return None


def matches(wanted: list[str], levels: list[str]) -> bool:
    """Whether a filter with the wildcards + and # is met by the levels of a topic."""
    if wanted[0] == "$share":
        wanted = wanted[2:]
    if levels[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)
