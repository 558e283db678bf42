"""The journal in a topic of a real broker: all of it, once, in order, whatever is killed."""

from __future__ import annotations

import itertools
import random
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock.config import ConfigError, load
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.world import some
from tests.support.broker_process import PATIENCE
from tests.support.journal_server import JournalServer
from tests.support.kafka_broker import Broker
from tests.support.kafka_topic import committed_records, create_topic

names = itertools.count(1)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"outlet-{next(names)}"
    create_topic(broker, name)
    return name


def outlet(broker: Broker, topic: str, more: str = 'start = "earliest"') -> str:
    return f'[journal.outlets.{topic}]\nservers = "{broker.address}"\ntopic = "{topic}"\n{more}\n'


def sequences(found: list[tuple[str, Any]]) -> list[int]:
    return [value["sequence"] for _, value in found]


def test_every_event_is_in_the_topic_once_also_after_a_restart(broker: Broker, topic: str, tmp_path: Path) -> None:
    settings = outlet(broker, topic)
    with JournalServer(tmp_path, settings) as server:
        server.append(some(2_500))
        committed_records(broker, topic, lambda found: len(found) == 2_500)
    with JournalServer(tmp_path, settings) as server:
        last = server.append(some(10, first=2_501))
        found = committed_records(broker, topic, lambda found: found[-1][1]["sequence"] == last)
    assert len(found) == len(set(sequences(found))) == 2_510
    assert sequences(found) == sorted(sequences(found))
    key, first = found[0]
    assert key == first["entity"]
    assert first.keys() == {"sequence", "entity", "revision", "timestamp", "kind", "path", "value", "headers"}
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["timestamp"])


def test_only_entities_that_are_wanted_are_written(broker: Broker, topic: str, tmp_path: Path) -> None:
    settings = outlet(broker, topic, 'start = "earliest"\nentities = ["item-1"]')
    with JournalServer(tmp_path, settings) as server:
        server.append(some(40, entities=4))
        found = committed_records(broker, topic, lambda found: len(found) == 10)
    assert {key for key, _ in found} == {"item-1"}


def test_what_was_there_before_is_left_out_unless_it_is_wanted(broker: Broker, topic: str, tmp_path: Path) -> None:
    with JournalServer(tmp_path, "") as server:
        before = server.append(some(5))
    with JournalServer(tmp_path, outlet(broker, topic, "")) as server:
        # It has begun when it can write.
        deadline = time.monotonic() + PATIENCE
        while 'penstock_outlet_up{outlet="' not in (metrics := _metrics(server)) or "_lag_events" not in metrics:
            assert time.monotonic() < deadline
        found: list[tuple[str, Any]] = []
        while not found:
            server.append(some(1))
            assert time.monotonic() < deadline
            found = committed_records(broker, topic, lambda _: True)
    assert sequences(found)[0] > before


def _metrics(server: JournalServer) -> str:
    with urllib.request.urlopen(f"{server.api}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def test_a_topic_of_another_journal_is_left_as_it_is(
    broker: Broker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = outlet(broker, topic)
    with JournalServer(tmp_path / "one", settings) as server:
        server.append(some(20))
        committed_records(broker, topic, lambda found: len(found) == 20)
    with JournalServer(tmp_path / "other", settings) as server:
        server.append(some(30))
        deadline = time.monotonic() + PATIENCE
        while not any("another journal" in str(getattr(one, "fields", "")) for one in caplog.records):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert f'penstock_outlet_up{{outlet="{topic}"}} 0' in _metrics(server)
    assert len(committed_records(broker, topic, lambda _: True)) == 20


@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_at_any_moment(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    overrides: dict[str, object] = {
        f"journal.outlets.{topic}.servers": broker.address,
        f"journal.outlets.{topic}.topic": topic,
        f"journal.outlets.{topic}.start": "earliest",
    }
    chance = random.Random(23)
    with RealServer(tmp_path, overrides) as server:
        for number in range(1, 5):
            for part in range(10):
                lines = "".join(f'{{"item": "m.a", "fields": {{"n": "{number}.{part}.{n}"}}}}\n' for n in range(20))
                request = urllib.request.Request(f"{server.api}/api/ingest/SET/OUT", lines.encode(), method="POST")
                request.add_header("Authorization", f"Bearer {TOKEN}")
                request.add_header("Content-Type", "application/x-ndjson")
                with urllib.request.urlopen(request) as answer:
                    assert answer.status < 300
            time.sleep(chance.random() * 0.15)
            server.kill()
            server.start()
        expected = [fields["n"] for _, fields in server.published()]
        found = committed_records(
            broker, topic, lambda found: len([1 for _, value in found if value["kind"] == "update"]) >= len(expected)
        )
    assert len(expected) == 4 * 10 * 20
    assert [value["value"]["n"] for _, value in found if value["kind"] == "update"] == expected
    assert len(set(sequences(found))) == len(found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[journal.outlets.x]\ntopic = "t"', "journal.outlets.x.servers: missing"),
        ('[journal.outlets.x]\nservers = "a:1"\ntopic = "t"\nstart = "now"', "journal.outlets.x.start"),
    ],
)
def test_a_mistake_in_the_configuration_is_told(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(words)):
        load(path, {})


def test_a_mistake_that_only_the_library_knows_keeps_the_server_from_starting(tmp_path: Path) -> None:
    settings = '[journal.outlets.x]\nservers = "http://a"\ntopic = "t"'
    with pytest.raises(Exception, match=r"journal\.outlets\.x\.servers = 'http://a': expected host:port"):
        JournalServer(tmp_path, settings).__enter__()
