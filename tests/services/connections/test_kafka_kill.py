"""kill -9 in the middle of records of Kafka: each of them takes effect exactly once, in its order."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.services.connections.test_kafka import document, numbers, put, send
from tests.services.connections.world import TwinServer, source
from tests.support.effort import kills
from tests.support.kafka_broker import Broker
from tests.support.kafka_topic import broker, create_topic
from tests.support.waiting import wait_until

__all__ = ["broker"]

KILLS = kills(4, long=50)
RECORDS = 150

# A start takes a second or two, and many times as long on a machine with other work.
pytestmark = pytest.mark.timeout(120 + 30 * KILLS)


def test_each_record_takes_effect_once_although_the_server_is_killed(broker: Broker, tmp_path: Path) -> None:
    topic = "killed"
    create_topic(broker, topic)
    chance = random.Random(23)
    things = [f"plant:t{number}" for number in range(5)]
    sent: dict[str, list[int]] = {thing: [] for thing in things}
    count = itertools.count(1)

    def some(records: int) -> None:
        commands = []
        for _ in range(records):
            thing, number = chance.choice(things), next(count)
            sent[thing].append(number)
            commands.append(put(thing.removeprefix("plant:"), number))
        send(broker, topic, *commands)

    with TwinServer(tmp_path) as server:
        server.make_policy()
        for thing in things:
            server.make_thing(thing)
        server.connect(topic, document(broker, sources=[source(topic)]))
        for _ in range(KILLS):
            some(RECORDS)
            # Somewhere in the middle of them.
            enough = chance.randrange(1, RECORDS)
            before = sum(len(values) for values in sent.values()) - RECORDS
            wait_until(
                lambda least=before + enough: sum(len(numbers(server, thing)) for thing in things) >= least,  # type: ignore[misc]
                "some records are in the journal",
            )
            server.kill()
            server.start()
        server.wait_open(topic)
        total = sum(len(values) for values in sent.values())
        wait_until(
            lambda: sum(len(numbers(server, thing)) for thing in things) >= total, "all records are in the journal"
        )
        assert {thing: numbers(server, thing) for thing in things} == sent
    print(f"Kafka: {KILLS} kills, {total} records, 0 lost, 0 doubled")
