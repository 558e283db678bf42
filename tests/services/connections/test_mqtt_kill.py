"""kill -9 in the middle of messages of an MQTT broker: each that the broker has taken takes effect at least once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.services.connections.world import TwinServer, modify, mqtt, source
from tests.support.effort import kills
from tests.support.mosquitto import Mosquitto
from tests.support.waiting import PATIENCE, wait_until

KILLS = kills(4, long=50)
MESSAGES = 150
LONG = 60.0

# A start takes a second or two, and many times as long on a machine with other work.
pytestmark = pytest.mark.timeout(120 + 30 * KILLS)


def changes(server: TwinServer) -> list[int]:
    found = [event.get("attributes", {}).get("n") for event in server.history("plant:hammer")]
    return [number for number in found if number is not None]


def seen(server: TwinServer) -> set[int]:
    return set(changes(server))


def test_nothing_that_the_broker_has_taken_is_lost(tmp_path: Path) -> None:
    chance = random.Random(23)
    settings = "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 100"
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(100)
    sent = interrupted = 0
    with Mosquitto(tmp_path, settings) as broker, TwinServer(tmp_path) as server:
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        server.make_policy()
        server.make_thing("plant:hammer")
        server.connect("hammer", mqtt(broker.address, sources=[source("hammer", qos=1)]))
        for _ in range(KILLS):
            before = sent
            for _ in range(MESSAGES):
                sent += 1
                last = client.publish("hammer", modify("plant:hammer", "/attributes/n", sent), 1)
            deadline = time.monotonic() + PATIENCE
            least = before + chance.randrange(1, MESSAGES)
            # Not by the history: once it is long, all messages would be done before it is read.
            while (at := server.thing("plant:hammer/attributes/n") or 0) < least:
                assert time.monotonic() < deadline, f"waited in vain for message {least}, {at} was the last"
            server.kill()
            interrupted += at < sent
            last.wait_for_publish(LONG)
            server.start()
        server.wait_open("hammer")
        wait_until(lambda: seen(server) == set(range(1, sent + 1)), f"all {sent} messages are in the journal")
        assert server.thing("plant:hammer/attributes/n") == sent
        client.disconnect()
        client.loop_stop()
        twice = len(changes(server)) - sent
        print(f"MQTT: {KILLS} kills, {interrupted} of them in the middle, {sent} messages, 0 lost, {twice} came twice")
