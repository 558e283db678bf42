"""Connections to a real MQTT broker: commands in, events and answers out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.services.connections.world import TwinServer, modify, mqtt, source, target
from tests.support.mosquitto import Mosquitto
from tests.support.waiting import wait_until

LONG = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinServer]:
    with TwinServer(tmp_path_factory.mktemp("server")) as made:
        made.make_policy()
        yield made


class Device:
    """Another client of the broker, by another library."""

    def __init__(self, client: paho.Client) -> None:
        self._client = client
        self.heard: Queue[tuple[str, bytes, dict[str, str]]] = Queue()
        client.on_message = self._came

    def _came(self, _: Any, __: Any, message: paho.MQTTMessage) -> None:
        given = getattr(message.properties, "UserProperty", []) if message.properties else []
        self.heard.put((message.topic, bytes(message.payload), dict(given)))

    def publish(self, topic: str, payload: bytes, reply: str | None = None, **users: str) -> None:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = list(users.items())
        if reply is not None:
            properties.ResponseTopic = reply
        self._client.publish(topic, payload, 1, properties=properties).wait_for_publish(LONG)

    def hear(self) -> tuple[str, Any, dict[str, str]]:
        topic, payload, headers = self.heard.get(timeout=LONG)
        return topic, json.loads(payload), headers


@contextmanager
def device(broker: Mosquitto, *topics: str) -> Iterator[Device]:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    made = Device(client)
    subscribed: Queue[bool] = Queue()
    client.on_subscribe = lambda *_: subscribed.put(True)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        for topic in topics:
            client.subscribe(topic, 1)
            subscribed.get(timeout=LONG)
        yield made
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("kind", ["mqtt", "mqtt-5"])
def test_a_command_of_a_device_changes_its_twin_and_the_event_goes_to_a_topic(
    broker: Mosquitto, server: TwinServer, kind: str
) -> None:
    thing = f"plant:press-{kind}"
    server.make_thing(thing)
    document = mqtt(
        broker.address,
        connectionType=kind,
        sources=[source(f"in/{kind}/#", replyTarget={"address": f"answers/{kind}"})],
        targets=[target(f"events/{kind}/{{{{ thing:name }}}}", "_/_/things/twin/events?namespaces=plant")],
    )
    server.connect(f"both-{kind}", document)
    with device(broker, f"answers/{kind}", f"events/{kind}/#") as one:
        one.publish(f"in/{kind}/1", modify(thing, "/attributes/celsius", 20.5, **{"correlation-id": "c1"}))
        topic, answer, _ = one.hear()
        assert (topic, answer["status"]) == (f"answers/{kind}", 201)
        assert answer["headers"]["correlation-id"] == "c1"
        assert server.thing(f"{thing}/attributes/celsius") == 20.5
        # What others change goes out; what came in this way does not come back.
        server.twins.put(f"/things/{thing}/attributes/celsius", json=21.5)
        topic, event, _ = one.hear()
        assert (topic, event["path"], event["value"]) == (
            f"events/{kind}/press-{kind}",
            "/attributes/celsius",
            21.5,
        )
        assert one.heard.empty()
    assert server.metrics(f"both-{kind}")["inbound"][f"in/{kind}/#"]["success"] == 1
    server.operator.delete(f"/both-{kind}")


def test_templates_headers_and_enforcement(broker: Mosquitto, server: TwinServer) -> None:
    server.make_thing("plant:oven", features={"heat": {"properties": {}}})
    incoming = {
        "topic": "plant/{topic[1]}/things/twin/commands/merge",
        "path": "/features/heat/properties",
        "value": {"celsius": "{value.t}", "text": "{value.t} C by {headers.unit}"},
        "headers": {"content-type": "application/merge-patch+json"},
    }
    outgoing = {"id": "{key}", "where": "{headers['path']}", "what": "{value}"}
    document = mqtt(
        broker.address,
        mappingDefinitions={"ours": {"mappingEngine": "Template", "options": {"incoming": incoming}}}
        | {"short": {"mappingEngine": "Template", "options": {"outgoing": outgoing}}},
        sources=[
            source(
                "raw/+",
                payloadMapping=["ours"],
                enforcement={"input": "{{ header:device }}", "filters": ["{{ thing:name }}"]},
                replyTarget={"address": "{{ header:reply-to }}", "expectedResponseTypes": ["error"]},
            )
        ],
        targets=[
            target(
                "short/{{ feature:id | fn:default('none') }}",
                "_/_/things/twin/events?filter=eq(thingId,'plant:oven')",
                payloadMapping=["short"],
                headerMapping={"by": "{{ connection:id }}"},
            )
        ],
    )
    server.connect("templates", document)
    with device(broker, "answers/templates", "short/#") as one:
        one.publish("raw/oven", b'{"t": 180}', device="oven", unit="DIN")
        server.wait_for("plant:oven/features/heat/properties/text", lambda text: text == "180 C by DIN")
        assert server.thing("plant:oven/features/heat/properties/celsius") == 180
        # Somebody else's device, and what is not JSON.
        one.publish("raw/oven", b'{"t": 1}', "answers/templates", device="fridge", unit="DIN")
        topic, answer, _ = one.hear()
        assert (topic, answer["value"]["error"]) == (
            "answers/templates",
            "connectivity:connection.id.enforcement.failed",
        )
        one.publish("raw/oven", b"{", "answers/templates", device="oven", unit="DIN")
        _, answer, _ = one.hear()
        assert answer["value"]["error"] == "connectivity:message.mapping.failed"
        assert "it is not JSON" in answer["value"]["message"]
        server.twins.put("/things/plant:oven/features/heat/properties/celsius", json=7)
        topic, event, headers = one.hear()
        assert topic == "short/heat"
        assert event == {"id": "plant:oven", "where": "/features/heat/properties/celsius", "what": 7}
        assert headers["by"] == "templates"
    counts = server.metrics("templates")["inbound"]["raw/+"]
    assert (counts["success"], counts["failure"]) == (1, 2)
    assert any("not JSON" in entry["message"] for entry in server.logs("templates"))
    server.operator.delete("/templates")


def test_a_history_is_streamed_to_the_reply_target(broker: Mosquitto, server: TwinServer) -> None:
    server.make_thing("plant:past", attributes={"n": 0})
    for number in (1, 2):
        server.twins.put("/things/plant:past/attributes/n", json=number)
    document = mqtt(broker.address, sources=[source("history", replyTarget={"address": "{{ header:reply-to }}"})])
    server.connect("history", document)
    with device(broker, "answers/history") as one:

        def ask(action: str, value: dict[str, object]) -> None:
            topic = f"plant/past/things/twin/streaming/{action}"
            message = {"topic": topic, "path": "/", "headers": {"correlation-id": "h"}, "value": value}
            one.publish("history", json.dumps(message).encode(), "answers/history")

        ask("subscribeForPersistedEvents", {"fromHistoricalRevision": 1})
        _, created, _ = one.hear()
        assert created["topic"] == "plant/past/things/twin/streaming/created"
        ask("request", {"subscriptionId": created["value"]["subscriptionId"], "demand": 10})
        found = [one.hear()[1] for _ in range(4)]
    assert [message["topic"].rpartition("/")[2] for message in found] == ["next", "next", "next", "complete"]
    assert [message["value"]["item"]["value"] for message in found[1:3]] == [1, 2]
    server.operator.delete("/history")


def test_a_message_with_a_label_is_acknowledged_when_the_broker_has_it(broker: Mosquitto, server: TwinServer) -> None:
    server.make_thing("plant:acked")
    document = mqtt(broker.address, targets=[target("acked", issuedAcknowledgementLabel="acks:sent")])
    server.connect("acks", document)
    answer = server.twins.put(
        "/things/plant:acked/attributes/x", json=1, params={"requested-acks": "acks:sent,twin-persisted"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["acks:sent"]["status"] == 200
    server.operator.delete("/acks")


def test_raw_payloads_are_messages_of_things(broker: Mosquitto, server: TwinServer) -> None:
    server.make_thing("plant:camera")
    document = mqtt(
        broker.address,
        sources=[
            source(
                "pictures",
                payloadMapping=["Raw"],
                headerMapping={
                    "ditto-message-subject": "picture",
                    "ditto-message-thing-id": "plant:{{ header:device }}",
                    "ditto-message-direction": "from",
                    "content-type": "text/plain",
                },
            )
        ],
        targets=[],
    )
    server.connect("raw-in", document)
    out = mqtt(broker.address, targets=[target("album", "_/_/things/live/messages", payloadMapping=["Raw"])])
    server.connect("raw-out", out)
    with device(broker, "album") as one:
        one.publish("pictures", "grün".encode(), device="camera")
        topic, payload, _ = one.heard.get(timeout=LONG)
        assert (topic, payload.decode()) == ("album", "grün")
    server.operator.delete("/raw-in")
    server.operator.delete("/raw-out")


def test_a_broker_that_goes_away_is_found_again_and_nothing_is_lost(tmp_path: Path, server: TwinServer) -> None:
    server.make_thing("plant:patient")
    with Mosquitto(tmp_path, "allow_anonymous true") as broker:
        document = mqtt(
            broker.address, targets=[target("late", "_/_/things/twin/events?filter=eq(thingId,'plant:patient')")]
        )
        server.connect("patient", document)
        broker.kill()
        wait_until(lambda: server.status("patient")["liveStatus"] != "open", "the loss is noticed")
        for number in range(20):
            server.twins.put("/things/plant:patient/attributes/n", json=number)
        assert server.status("patient")["waitingMessages"] == 20
        assert server.status("patient")["reason"]
        broker.start()
        with device(broker, "late") as one:
            assert [one.hear()[1]["value"] for _ in range(20)] == list(range(20))
    server.operator.delete("/patient")
