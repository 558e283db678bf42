"""kill -9 in the middle of records of Kafka: each of them takes effect exactly once, in its order."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path

import pytest

from tests.services.connections.test_kafka import document, numbers, put, send
from tests.services.connections.world import TwinServer, source
from tests.support.effort import kills
from tests.support.kafka_broker import Broker
from tests.support.kafka_topic import broker, create_topic
from tests.support.waiting import PATIENCE, wait_until

__all__ = ["broker"]

KILLS = kills(4, long=50)
RECORDS = 300
# Sent at a time: what is there at once is one batch, which is carried out as a whole.
PART = 20

# A start takes a second or two, and many times as long on a machine with other work.
pytestmark = pytest.mark.timeout(120 + 30 * KILLS)


def latest(server: TwinServer, things: list[str]) -> int:
    """The number of the last record that has changed a thing: they come in their order."""
    found = server.twins.get("/things", params={"ids": ",".join(things), "fields": "attributes"}).json()
    return max(int(each.get("attributes", {}).get("n", 0)) for each in found)


def test_each_record_takes_effect_once_although_the_server_is_killed(broker: Broker, tmp_path: Path) -> None:
    topic = "killed"
    create_topic(broker, topic)
    chance = random.Random(23)
    things = [f"plant:t{number}" for number in range(5)]
    sent: dict[str, list[int]] = {thing: [] for thing in things}
    count = itertools.count(1)
    interrupted = 0

    def send_all() -> None:
        for _ in range(RECORDS // PART):
            commands = []
            for _ in range(PART):
                number = next(count)
                thing = things[number % 7 % 5]
                sent[thing].append(number)
                commands.append(put(thing.removeprefix("plant:"), number))
            send(broker, topic, *commands)

    with TwinServer(tmp_path) as server:
        server.make_policy()
        for thing in things:
            server.make_thing(thing)
        server.connect(topic, document(broker, sources=[source(topic)]))
        for before in range(0, KILLS * RECORDS, RECORDS):
            sender = threading.Thread(target=send_all)
            sender.start()
            # Somewhere in the middle of them.
            enough = chance.randrange(1, RECORDS - PART)
            deadline = time.monotonic() + PATIENCE
            # Not by the histories: once they are long, all records would be done before they are read.
            while (at := latest(server, things)) < before + enough:
                assert time.monotonic() < deadline, f"waited in vain for record {before + enough}, {at} was the last"
            server.kill()
            interrupted += at < before + RECORDS
            server.start()
            sender.join()
        server.wait_open(topic)
        total = sum(len(values) for values in sent.values())
        wait_until(
            lambda: sum(len(numbers(server, thing)) for thing in things) >= total, "all records are in the journal"
        )
        assert {thing: numbers(server, thing) for thing in things} == sent
    print(f"Kafka: {KILLS} kills, {interrupted} of them in the middle, {total} records, 0 lost, 0 doubled")
