"""The adapter: topics of Kafka as items, by templates. All about the connection is in reader.py."""

from __future__ import annotations

import asyncio
from typing import Unpack

from penstock.adapters.brokers.adapter import BrokerAdapter
from penstock.adapters.brokers.registry import SchemaRegistry
from penstock.adapters.kafka.reader import KafkaProblem, KafkaReader
from penstock.adapters.kafka.settings import KafkaParameters, KafkaSettings
from penstock.log import get

log = get(__name__)


class KafkaAdapter(BrokerAdapter):
    """Reads whether somebody is subscribed or not, because a topic is read as a whole."""

    def __init__(self, **parameters: Unpack[KafkaParameters]) -> None:
        self._settings = KafkaSettings.of(parameters)
        registry = None
        if address := parameters.get("registry"):
            registry = SchemaRegistry(
                address,
                parameters.get("registry_user"),
                parameters.get("registry_password"),
                parameters.get("registry_ca_file"),
            )
        super().__init__(parameters, registry)
        self._reader: KafkaReader | None = None

    async def start(self) -> None:
        reader = KafkaReader(self._settings, self.take)
        try:
            await asyncio.to_thread(reader.open)
        except KafkaProblem as problem:
            raise ValueError(str(problem)) from None
        self._reader = reader
        reader.begin(f"kafka-{','.join(self._settings.topics)}"[:60])

    async def wait_until_ready(self) -> None:
        """What came before is part of the snapshots of the first clients."""
        if self._reader is None or self._memory is None:
            return
        if not await asyncio.to_thread(self._reader.caught_up.wait, self._settings.catch_up):
            log.warning("not all records have been read yet", seconds=self._settings.catch_up, records=self.records)

    async def stop(self) -> None:
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)

    @property
    def trouble(self) -> str | None:
        return None if self._reader is None else self._reader.trouble
