"""The adapter: topics of an MQTT broker as items. Retained messages are where snapshots come from.

Versions 3.1.1 and 5. The connection is `penstock.brokers.mqtt`; that it is made again is in brokers/link.py.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Required, Unpack

from penstock.adapters.brokers.adapter import RecordParameters
from penstock.adapters.brokers.link import LinkedAdapter, LinkLost, secret, tls_context
from penstock.brokers.mqtt import MqttLink, MqttSettings
from penstock.wire.mqtt.errors import MqttError
from penstock.wire.mqtt.packets import MqttMessage
from penstock.wire.records.record import DeliveredRecord

VERSIONS = ("3.1.1", "5")

_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?")


class MqttParameters(RecordParameters, total=False):
    """As they come from a TOML table."""

    # host:port; the port is 1883, or 8883 with TLS.
    server: Required[str]
    # Filters, with the wildcards + and #.
    topics: Required[str | Sequence[str]]
    version: str
    qos: int
    client_id: str | None
    user: str | None
    password: str | None
    password_file: Path | None
    keepalive_seconds: int
    tls: bool
    tls_ca_file: Path | None
    tls_certificate: Path | None
    tls_private_key: Path | None


class MqttAdapter(LinkedAdapter):
    """Subscribes to all its topics at the start, because retained messages come only then."""

    default_item = "{topic}"
    separator = "/"
    broker = "MQTT"

    def __init__(self, **parameters: Unpack[MqttParameters]) -> None:
        server = parameters["server"]
        found = _SERVER.fullmatch(server)
        if found is None:
            raise ValueError(f'server = {server!r}: expected host:port, such as "broker:1883"')
        super().__init__(server, parameters)
        self._topics = _topics(parameters["topics"])
        version = parameters.get("version", "5")
        if version not in VERSIONS:
            raise ValueError(f"version = {version!r}: expected {' or '.join(VERSIONS)}")
        self._qos = parameters.get("qos", 0)
        if self._qos not in (0, 1, 2):
            raise ValueError(f"qos = {self._qos!r}: expected 0, 1 or 2")
        keepalive = parameters.get("keepalive_seconds", 30)
        if not 1 <= keepalive <= 65_535:
            raise ValueError(f"keepalive_seconds = {keepalive!r}: expected 1 to 65535")
        context: ssl.SSLContext | None = None
        files = [parameters.get(name) for name in ("tls_ca_file", "tls_certificate", "tls_private_key")]
        if parameters.get("tls", any(files)):
            context = tls_context(
                parameters.get("tls_ca_file"), parameters.get("tls_certificate"), parameters.get("tls_private_key")
            )
        self._settings = MqttSettings(
            found["host"].strip("[]"),
            int(found["port"] or (1883 if context is None else 8883)),
            version == "5",
            # Version 3.1.1 does not promise to find one.
            parameters.get("client_id") or f"penstock-{uuid.uuid4().hex[:14]}",
            parameters.get("user"),
            secret(parameters, "password"),
            keepalive,
            tls=context,
        )
        self._link: MqttLink | None = None

    async def read(self) -> None:
        link = self._link = MqttLink(self._settings, self._arrived)
        try:
            await link.open()
            await link.subscribe([(topic, self._qos) for topic in self._topics])
            self.linked()
            raise LinkLost(await asyncio.shield(link.ended))
        except MqttError as error:
            raise LinkLost(str(error)) from None
        finally:
            await link.close()

    def _arrived(self, messages: list[MqttMessage]) -> None:
        self.take([_record(message) for message in messages])
        assert self._link is not None
        for message in messages:
            self._link.settle(message)


def _record(message: MqttMessage) -> DeliveredRecord:
    """An empty payload deletes what is retained under the topic, and so it is a record without a value."""
    users = message.properties.users
    headers = [(name, value.encode()) for name, value in users] if users else ()
    return DeliveredRecord(message.topic, message.payload or None, headers=headers)


def _topics(given: str | Sequence[str]) -> list[str]:
    topics = [given] if isinstance(given, str) else list(given)
    if not topics:
        raise ValueError("topics = []: expected at least one")
    for one in topics:
        *first, last = one.split("/")
        wrong = any(("+" in level and level != "+") or "#" in level for level in first) or (
            any(wildcard in last for wildcard in "+#") and last not in ("+", "#")
        )
        if not one or wrong or "\0" in one or len(one.encode()) > 65_535:
            raise ValueError(
                f"topics = {one[:60]!r}: expected names with / between levels, + for one level, # for the rest"
            )
    return topics
