"""Connections to a real Kafka broker: records change twins, and events go to a topic. Kills are in test_kafka_kill."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.services.connections.world import TwinServer, source, target
from tests.support.broker_process import PATIENCE
from tests.support.kafka_broker import Broker
from tests.support.kafka_topic import broker, committed_records, create_topic
from tests.support.waiting import wait_until

__all__ = ["broker"]

names = itertools.count(1)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"commands-{next(names)}"
    create_topic(broker, name)
    return name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        made.make_policy()
        yield made


def document(broker: Broker, **more: Any) -> dict[str, Any]:
    return {"connectionType": "kafka", "uri": f"tcp://{broker.address}", **more}


def send(broker: Broker, topic: str, *records: object) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for record in records:
        producer.produce(topic, record if isinstance(record, bytes) else json.dumps(record).encode())
    assert producer.flush(PATIENCE) == 0


def put(name: str, number: int) -> dict[str, object]:
    """A command that makes an event each time: one that is carried out twice shows."""
    topic = f"plant/{name}/things/twin/commands/modify"
    return {"topic": topic, "path": "/attributes/n", "headers": {}, "value": number}


def numbers(server: TwinServer, thing: str) -> list[int]:
    return [event["attributes"]["n"] for event in server.history(thing) if "n" in event.get("attributes", {})]


def test_records_change_twins_and_poison_does_not_stop_them(broker: Broker, server: TwinServer, topic: str) -> None:
    server.make_thing("plant:mill")
    create_topic(broker, f"{topic}-events")
    events = "_/_/things/twin/events?filter=eq(thingId,'plant:mill')"
    server.connect(
        topic,
        document(broker, sources=[source(topic)], targets=[target(f"{topic}-events/{{{{ thing:id }}}}", events)]),
    )
    send(broker, topic, put("mill", 1), b"\xff", b"{}", put("nobody", 1), put("mill", 2))
    server.wait_for("plant:mill/attributes/n", lambda n: n == 2)
    wait_until(lambda: server.metrics(topic)["inbound"][topic].get("success") == 2, "two successes")
    assert server.metrics(topic)["inbound"][topic]["failure"] == 3
    reasons = " ".join(entry["message"] for entry in server.logs(topic))
    assert "it is not JSON" in reasons
    assert "plant:nobody" in reasons
    server.twins.put("/things/plant:mill/attributes/n", json=3)
    ((key, event),) = committed_records(broker, f"{topic}-events", lambda found: len(found) == 1)
    assert (key, event["value"]) == ("plant:mill", 3)
    server.operator.delete(f"/{topic}")


def test_a_topic_that_does_not_exist_is_said_at_once(broker: Broker, server: TwinServer) -> None:
    answer = server.operator.put("/missing", json=document(broker, sources=[source("no-such-topic")]))
    assert answer.status_code == 201
    wait_until(lambda: server.status("missing")["liveStatus"] == "misconfigured", "it is misconfigured")
    assert "there is no topic no-such-topic" in server.status("missing")["reason"]
    server.operator.delete("/missing")


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(broker: Broker, server: TwinServer, topic: str) -> None:
    server.make_thing("plant:anew")
    server.connect(topic, document(broker, sources=[source(topic)]))
    send(broker, topic, *[put("anew", number) for number in range(10)])
    server.wait_for("plant:anew/attributes/n", lambda n: n == 9)
    server.operator.post(f"/{topic}/command", content="connectivity.commands:closeConnection")
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(PATIENCE)
    wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE).topics, "the topic is gone")
    create_topic(broker, topic)
    send(broker, topic, put("anew", 100))
    server.operator.post(f"/{topic}/command", content="connectivity.commands:openConnection")
    server.wait_for("plant:anew/attributes/n", lambda n: n == 100)
    # And goes on from there.
    server.operator.post(f"/{topic}/command", content="connectivity.commands:closeConnection")
    send(broker, topic, put("anew", 101))
    server.operator.post(f"/{topic}/command", content="connectivity.commands:openConnection")
    server.wait_for("plant:anew/attributes/n", lambda n: n == 101)
    assert numbers(server, "plant:anew") == [*range(10), 100, 101]
    server.operator.delete(f"/{topic}")
