"""docs/connections.md: its document is a connection of a real broker, and does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import paho.mqtt.publish as publish

from penstock.connections.mapping import ENGINES
from penstock.connections.target import TOPICS
from tests.services.connections.world import TwinServer
from tests.support.mosquitto import Mosquitto

PAGE = (Path(__file__).parents[3] / "docs" / "connections.md").read_text("utf-8")
(THING,) = re.findall(r"```json thing\n(.*?)```", PAGE, re.DOTALL)
(DOCUMENT,) = re.findall(r"```json document\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_connection_does_what_the_page_says(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker, TwinServer(tmp_path) as server:
        answer = server.twins.put("/things/plant:press", json=json.loads(THING))
        assert answer.status_code == 201, answer.text
        server.connect("plant", json.loads(DOCUMENT.replace("localhost:1883", broker.address)))
        publish.single("plant/press/celsius", "21.5", 1, hostname="127.0.0.1", port=broker.port)
        server.wait_for("plant:press/features/heat/properties/celsius", lambda value: value == 21.5)


def test_the_page_names_all_mappings_and_topics() -> None:
    for name in (*ENGINES, *TOPICS):
        assert f"`{name}`" in PAGE
