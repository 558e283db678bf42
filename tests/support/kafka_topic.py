"""A broker for the tests of a module, and what a topic of it holds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.broker_process import PATIENCE
from tests.support.kafka_broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all tests of a module, because it takes seconds to start."""
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as made:
        yield made


def create_topic(broker: Broker, name: str) -> None:
    broker.create_topic(name)


def committed_records(
    broker: Broker, topic: str, enough: Callable[[list[tuple[str, Any]]], bool]
) -> list[tuple[str, Any]]:
    """Keys and values of one partition, as JSON, read until there are enough and the end is reached."""
    config = {
        "bootstrap.servers": broker.address,
        "group.id": "reads-all",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[str, Any]] = []
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            assert time.monotonic() < deadline, f"{len(found)} records, the last {found[-1:]}"
            record = consumer.poll(1.0)
            if record is None:
                continue
            if record.error() is None:
                found.append(((record.key() or b"").decode(), json.loads(record.value() or b"null")))
            elif enough(found):
                return found
    finally:
        consumer.close()
