"""Topics of a real broker as items: what clients see, where reading begins, and what becomes of mistakes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from penstock.adapters.kafka import KafkaAdapter
from penstock.adapters.kafka import reader as reading
from penstock.kernel.item import Mode
from tests.adapters.brokers.scene import at_work, told, until
from tests.support.broker_process import PATIENCE
from tests.support.kafka_broker import Broker

numbers = itertools.count(1)


class Topic:
    """A new one."""

    def __init__(self, broker: Broker, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        self.name = f"topic-{next(numbers)}"
        self.address = broker.address
        self.admin = AdminClient({"bootstrap.servers": broker.address})
        made = self.admin.create_topics([NewTopic(self.name, partitions, 1, config=config or {})])
        made[self.name].result(PATIENCE)
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def put(self, *records: tuple[str, object], partition: int = 0, **more: object) -> None:
        """Keys and values, on the broker's disk when this returns."""
        for key, value in records:
            data = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
            self._producer.produce(self.name, data, key.encode(), partition, **more)  # type: ignore[arg-type]
        assert self._producer.flush(PATIENCE) == 0


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene()

    asyncio.run(run())


def test_what_comes_from_now_on_is_seen_in_the_order_of_each_partition(broker: Broker) -> None:
    topic = Topic(broker, partitions=2)
    topic.put(("acme", {"bid": 0}))

    async def scene() -> None:
        adapter = KafkaAdapter(servers=broker.address, topics=topic.name, item="quote.{key}")
        async with at_work(adapter) as stage:
            watcher = stage.watch("quote.acme quote.globex", "bid", Mode.DISTINCT)
            await until(lambda: len(adapter._wanted) == 2)
            topic.put(*[("acme", {"bid": n}) for n in range(1, 51)])
            topic.put(*[("globex", {"bid": n}) for n in range(1, 51)], partition=1)
            lines = [line for line in await told(watcher, 102) if line[0] == "U"]
            for place in "12":
                assert [line for line in lines if line.startswith(f"U,1,{place},")] == [
                    f"U,1,{place},{n}" for n in range(1, 51)
                ]

    play(scene)


def test_a_compacted_topic_is_a_table_with_all_its_rows_for_the_first_client(broker: Broker) -> None:
    topic = Topic(broker, config={"cleanup.policy": "compact"})
    topic.put(("a", {"size": 1}), ("b", {"size": 2}), ("a", None), ("c", {"size": 3}), ("b", {"size": 4}))

    async def scene() -> None:
        adapter = KafkaAdapter(
            servers=broker.address, topics=[topic.name], item="positions", mode="COMMAND", start="earliest"
        )
        async with at_work(adapter) as stage:
            assert adapter.records == 5
            watcher = stage.watch("positions", "key command size", Mode.COMMAND)
            assert sorted(await told(watcher, 3)) == ["EOS,1,1", "U,1,1,b|ADD|4", "U,1,1,c||3"]
            topic.put(("b", None), ("d", {"size": 5}))
            assert (await told(watcher, 2))[0].startswith("U,1,1,b|DELETE")

    play(scene)


def test_reading_begins_at_a_time(broker: Broker) -> None:
    topic = Topic(broker, partitions=2)
    topic.put(("old", {"n": 1}), timestamp=1_000)
    topic.put(("new", {"n": 2}), timestamp=2_000)

    async def scene() -> None:
        adapter = KafkaAdapter(servers=broker.address, topics=topic.name, start="1970-01-01T00:00:02Z")
        async with at_work(adapter) as stage:
            assert adapter.records == 1
            watcher = stage.watch("new", "n")
            assert await told(watcher, 1) == ["U,1,1,2"]
            # Nothing in the other partition is as late, and what comes there is seen all the same.
            topic.put(("new", {"n": 3}), partition=1)
            assert await told(watcher, 1) == ["U,1,1,3"]

    play(scene)


def test_headers_partition_and_time_can_be_fields(broker: Broker) -> None:
    topic = Topic(broker)
    topic.put(("k", b"plain text"), timestamp=5_000, headers={"trace-id": b"t1"})

    async def scene() -> None:
        adapter = KafkaAdapter(
            servers=broker.address,
            topics=topic.name,
            start="earliest",
            value_format="text",
            item="{topic}.{headers['trace-id']}",
            fields={"text": "{value}", "place": "{partition}/{offset}", "time": "{timestamp}"},
        )
        async with at_work(adapter) as stage:
            watcher = stage.watch(f"{topic.name}.t1", "text place time")
            assert await told(watcher, 1) == ["U,1,1,plain text|0/0|5000"]

    play(scene)


def test_members_of_a_group_share_the_partitions_and_go_on_where_it_stopped(broker: Broker) -> None:
    topic = Topic(broker, partitions=2)

    def member() -> KafkaAdapter:
        return KafkaAdapter(servers=broker.address, topics=topic.name, group=topic.name, start="earliest")

    async def scene() -> None:
        one, other = member(), member()
        async with at_work(one), at_work(other):
            for partition in (0, 1):
                topic.put(*[(f"k{n}", {"n": n}) for n in range(20)], partition=partition)
            await until(lambda: one.records + other.records == 40)
        third = member()
        async with at_work(third):
            topic.put(("k0", {"n": 99}))
            await until(lambda: third.records > 0)
            assert third.records == 1

    play(scene)


def test_new_partitions_and_new_topics_of_a_pattern_are_found(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "REFRESH", 0.0)
    topic = Topic(broker)

    async def scene() -> None:
        adapter = KafkaAdapter(servers=broker.address, topics=f"^{topic.name}(-more)?$")
        async with at_work(adapter):
            topic.admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(PATIENCE)
            topic.put(("a", {"n": 1}), partition=1)
            await until(lambda: adapter.records == 1)
            more = NewTopic(f"{topic.name}-more", 1, 1)
            topic.admin.create_topics([more])[more.topic].result(PATIENCE)
            topic.name = more.topic
            topic.put(("b", {"n": 2}))
            await until(lambda: adapter.records == 2)

    play(scene)


def test_a_record_of_an_aborted_transaction_is_never_seen(broker: Broker) -> None:
    topic = Topic(broker)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic.name})
    producer.init_transactions(PATIENCE)
    for value, commits in ((b'{"n": 1}', False), (b'{"n": 2}', True)):
        producer.begin_transaction()
        producer.produce(topic.name, value, b"k")
        producer.flush(PATIENCE)
        if commits:
            producer.commit_transaction(PATIENCE)
        else:
            producer.abort_transaction(PATIENCE)

    async def scene() -> None:
        adapter = KafkaAdapter(servers=broker.address, topics=topic.name, start="earliest")
        async with at_work(adapter) as stage:
            assert adapter.records == 1
            assert await told(stage.watch("k", "n"), 1) == ["U,1,1,2"]

    play(scene)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"topics": "nothing-like-it"}, "there is no topic nothing-like-it at 127.0.0.1:"),
        ({"options": {"no.such.option": "1"}}, 'No such configuration property: "no.such.option"'),
        ({"options": {"fetch.min.bytes": "many"}}, "fetch.min.bytes"),
    ],
)
def test_what_cannot_be_read_is_told_at_the_start(broker: Broker, parameters: dict[str, object], words: str) -> None:
    adapter = KafkaAdapter(**{"servers": broker.address, "topics": "t", **parameters})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        asyncio.run(adapter.start())


def test_brokers_that_are_not_there_are_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TIMEOUT", 0.5)
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9"):
        asyncio.run(KafkaAdapter(servers="127.0.0.1:9", topics="quotes").start())


def test_a_broker_that_goes_away_is_trouble_until_it_is_back_and_nothing_is_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of this file's tests with the broker, because others would meet it while it starts."""
    monkeypatch.setattr(reading, "RECHECK", 0.1)
    topic = Topic(broker)

    async def scene() -> None:
        adapter = KafkaAdapter(servers=broker.address, topics=topic.name)
        async with at_work(adapter) as stage:
            watcher = stage.watch("k", "n", Mode.DISTINCT)
            await until(lambda: "k" in adapter._wanted)
            topic.put(("k", {"n": 1}))
            await told(watcher, 2)
            broker.kill()
            await until(lambda: adapter.trouble is not None)
            broker.start()
            await until(lambda: adapter.trouble is None)
            topic.put(("k", {"n": 2}))
            assert await told(watcher, 1) == ["U,1,1,2"]

    begun = time.monotonic()
    play(scene)
    assert time.monotonic() - begun < 2 * PATIENCE
