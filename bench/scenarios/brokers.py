"""Records of brokers into the kernel: of items that nobody wants, and of items that one client is subscribed to.

Beside a bare loop of the same library over the same records, which looks at key and value and does nothing with them.
CPU time is that of the whole process, the threads of librdkafka included. The brokers run on the other core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rig.build import Unavailable
from bench.rig.machine import Cores, pin
from bench.rig.results import Report
from penstock.adapters.publisher import Publisher
from penstock.adapters.source import GuardedSource
from penstock.doors.stream.turns import Turns
from penstock.kernel.identity import SessionIds
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Admission, Grant, ItemGrant
from penstock.kernel.session import Binding
from penstock.kernel.subscription import SubscriptionRequest
from penstock.log import configure
from penstock.testing.hands import HandHandler
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST
from tests.support.broker_process import PATIENCE
from tests.support.kafka_broker import Broker, jars
from tests.support.mosquitto import Mosquitto

if TYPE_CHECKING:
    # Extras: imported when they are measured.
    from penstock.adapters.kafka import KafkaAdapter
    from penstock.adapters.mqtt import MqttAdapter

ABOUT = "records a second from Kafka and MQTT into the kernel, beside a bare loop over the same records"

KAFKA_UNWANTED_GOAL = 200_000
KAFKA_WANTED_GOAL = 60_000
MQTT_GOAL = 20_000

ITEMS = 1_000
FIELDS = ("bid", "ask", "size", "venue", "time")

TOPIC = "quotes"

# Seconds until an adapter has all records.
ALL_PATIENCE = 120.0


def _value(number: int) -> bytes:
    return json.dumps(
        {"bid": number / 4, "ask": number / 4 + 0.5, "size": number % 900, "venue": "XETRA", "time": 1_794_743_665_602}
    ).encode()


@dataclass(frozen=True, slots=True)
class Cost:
    records: int
    cpu: float

    @property
    def per_cpu_second(self) -> float:
        return self.records / self.cpu


class Sink:
    """A client's connection that takes everything."""

    overhead = 0
    websocket = True
    listening = True
    broken = False

    def write(self, lines: object) -> int:
        return 1

    def send(self, batch: object) -> None:
        pass

    def room(self) -> int | None:
        return None

    def finish(self, close_socket: bool) -> None:
        pass

    def abort(self) -> None:
        raise AssertionError("the client was given up")


async def _measure(adapter: KafkaAdapter | MqttAdapter, records: int, wanted: bool, fill: Callable[[], None]) -> Cost:
    turns = Turns(asyncio.get_running_loop())
    kernel = Kernel(time.monotonic, turns, SessionIds("bench", bytes), SessionLimits())
    turns.run_kernel(kernel)
    feed = kernel.add_feed("BENCH", "BROKER", GuardedSource("BENCH", "BROKER", adapter))
    adapter.attach(Publisher(feed, "BENCH/BROKER"))
    if wanted:
        session = kernel.open_session(TlcpCodec(NEWEST), HandHandler())
        session.admit(Admission(), None)
        session.bind(Sink(), Binding(send_sync=False), [])
        grant = Grant(tuple([ItemGrant(f"item{number}") for number in range(ITEMS)]), FIELDS)
        session.subscribe(SubscriptionRequest(1, feed, grant, Mode.MERGE, True, None, None, False, None))
        while len(adapter._wanted) < ITEMS:  # noqa: ASYNC110 - it is told on a thread
            await asyncio.sleep(0.01)
    begun = time.process_time()
    await adapter.start()
    fill()
    async with asyncio.timeout(ALL_PATIENCE):
        while adapter.records < records or adapter.publisher.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    cost = Cost(adapter.records, time.process_time() - begun)
    await adapter.stop()
    turns.stop()
    return cost


def _bare_kafka(address: str, records: int) -> Cost:
    from confluent_kafka import Consumer

    begun = time.process_time()
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": f"bare-{time.time_ns()}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    count, deadline = 0, time.monotonic() + ALL_PATIENCE
    while count < records:
        if time.monotonic() > deadline:
            raise TimeoutError
        for record in consumer.consume(1_000, 1.0):
            if record.error() is None:
                record.key()
                record.value()
                count += 1
    cost = Cost(count, time.process_time() - begun)
    consumer.close()
    return cost


def _fill_kafka(address: str, records: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    admin.list_topics(timeout=PATIENCE)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE)
    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": records + 1})
    for number in range(records):
        producer.produce(TOPIC, _value(number), f"item{number % ITEMS}")
    if producer.flush(PATIENCE):
        raise Unavailable("the Kafka broker does not take the records")


async def _kafka(options: argparse.Namespace, directory: Path, cores: Cores) -> list[tuple[str, ...]]:
    from penstock.adapters.kafka import KafkaAdapter

    if not jars("broker"):
        raise Unavailable("there is no Kafka broker: make interop-setup")
    with Broker(directory / "kafka") as broker:
        pin(broker.pid, cores.server)
        await asyncio.to_thread(_fill_kafka, broker.address, options.records)
        bare: list[Cost] = []
        unwanted: list[Cost] = []
        wanted: list[Cost] = []
        for _ in range(options.rounds):
            bare.append(await asyncio.to_thread(_bare_kafka, broker.address, options.records))
            for costs, subscribed in ((unwanted, False), (wanted, True)):
                adapter = KafkaAdapter(servers=broker.address, topics=TOPIC, start="earliest")
                costs.append(await _measure(adapter, options.records, subscribed, lambda: None))
    base = max(cost.per_cpu_second for cost in bare)
    return [
        _row("Kafka, bare loop", base, base, None),
        _row("Kafka, nobody subscribed", max(cost.per_cpu_second for cost in unwanted), base, KAFKA_UNWANTED_GOAL),
        _row("Kafka, all subscribed", max(cost.per_cpu_second for cost in wanted), base, KAFKA_WANTED_GOAL),
    ]


async def _mqtt(options: argparse.Namespace, directory: Path, cores: Cores) -> list[tuple[str, ...]]:
    from penstock.adapters.mqtt import MqttAdapter

    messages = options.records // 10
    with Mosquitto(directory, "allow_anonymous true\nmax_queued_messages 0") as broker:
        pin(broker.pid, cores.server)
        costs = []
        for _ in range(options.rounds):
            adapter = MqttAdapter(server=broker.address, topics="quotes/+", item="{topic[1]}", qos=1)
            costs.append(await _measure(adapter, messages, True, lambda: _send(broker.port, messages, cores)))
    best = max(cost.per_cpu_second for cost in costs)
    return [_row("MQTT, all subscribed", best, best, MQTT_GOAL)]


def _send(port: int, messages: int, cores: Cores) -> None:
    sender = subprocess.Popen([sys.executable, "-m", "bench.scenarios.brokers", str(port), str(messages)])
    pin(sender.pid, cores.server)


def _row(name: str, rate: float, base: float, goal: int | None) -> tuple[str, ...]:
    return name, f"{rate:,.0f}", f"{rate / base:.2f}", "" if goal is None else f"{rate / goal:.2f}"


def send(port: int, messages: int) -> None:
    """A device: as fast as the broker takes them."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(1_000)
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for number in range(messages):
        last = client.publish(f"quotes/item{number % ITEMS}", _value(number), qos=1)
    last.wait_for_publish(300)
    client.disconnect()
    client.loop_stop()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, default=400_000, help="of Kafka; a tenth of MQTT (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 1


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; a broker that is not there is left out. A record that does not come ends it."""
    report = Report("brokers")
    configure("error", "text")
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        for broker, measured in (("Kafka", _kafka), ("MQTT", _mqtt)):
            try:
                rows += await measured(options, Path(name), cores)
            except (Unavailable, ImportError) as error:
                report.remark(f"{broker} is left out: {error}")
            except TimeoutError:
                report.failure(broker, f"not all records came within {ALL_PATIENCE:.0f} s")
    title = f"records of {len(FIELDS)} fields (JSON) a CPU-second, {ITEMS} items, one client"
    report.table(title, ("records", "of the bare loop", "of the goal"), rows)
    return report.save()


if __name__ == "__main__":
    send(int(sys.argv[1]), int(sys.argv[2]))
