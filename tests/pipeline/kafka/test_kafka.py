"""Kafka in front of Spark and behind it, with a real broker: the example of docs/pipeline.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.world import held
from tests.support.kafka_broker import ROOT, Broker

COUNT = 500


@pytest.mark.spark
@pytest.mark.spark_long
def test_a_topic_becomes_items_and_the_journal_becomes_a_topic(tmp_path: Path) -> None:
    place = tmp_path / "driver"
    place.mkdir()
    (place / "token.txt").write_text(TOKEN)
    with Broker(tmp_path / "kafka") as broker, RealServer(tmp_path / "server") as server:
        journal = server.directory / "data" / "journal"
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.kafka.driver", broker.address, server.api, str(journal), str(COUNT)],
            cwd=place,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        published = server.published()
    # By item in the order of the topic, each once.
    for remainder in range(7):
        prices = [fields["price"] for item, fields in published if item == f"m.s{remainder}"]
        assert [float(price) for price in prices] == [n for n in range(1, COUNT + 1) if n % 7 == remainder]
    # The topic has what the journal has.
    topic = [json.loads(line) for line in done.stdout.splitlines()]
    kept = {row["sequence"]: (row["entity"], row["value"]) for row in held(journal).to_pylist()}
    assert {value["sequence"]: (key, value["value"]) for key, value in topic} == kept
    assert len(topic) == len(kept) > COUNT
