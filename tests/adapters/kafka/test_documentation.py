"""docs/brokers.md: its configurations load, and its first example is run with a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.adapters.loading import Loader
from penstock.config import load
from tests.adapters.stage import SetServer
from tests.support.broker_process import PATIENCE
from tests.support.kafka_broker import Broker

PAGE = (Path(__file__).parents[3] / "docs" / "brokers.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```(?:toml|text) (\S+)\n(.*?)```", PAGE, re.DOTALL))


def test_the_outlet_of_the_page_is_one(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(BLOCKS["outlet"], "utf-8")
    assert load(path, {}).config.journal.outlets["prices"].topic == "penstock-prices"


@pytest.mark.parametrize("name", ["penstock.toml", "compacted", "mqtt", "secured"])
def test_the_configurations_of_the_page_make_adapters(tmp_path: Path, name: str) -> None:
    path = tmp_path / "penstock.toml"
    login = tmp_path / "login"
    login.write_text("sasl.username=penstock\nsasl.password=x\n")
    path.write_text(BLOCKS[name].replace("/etc/penstock/kafka-login", str(login)), "utf-8")
    for adapter_set, table in load(path, {}).config.adapters.items():
        assert Loader(tmp_path, str(path)).load(adapter_set, table).adapter_set.data


def test_the_first_example_shows_its_records(broker: Broker, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("quotes", 1, 1)])["quotes"].result(PATIENCE)
    producer = Producer({"bootstrap.servers": broker.address})
    for line in BLOCKS["quotes"].splitlines():
        key, value = line.split(maxsplit=1)
        producer.produce("quotes", value, key)
    assert producer.flush(PATIENCE) == 0
    path = tmp_path / "penstock.toml"
    path.write_text(BLOCKS["penstock.toml"].replace("localhost:9092", broker.address), "utf-8")
    ((name, table),) = load(path, {}).config.adapters.items()
    made = Loader(tmp_path, str(path)).load(name, table).adapter_set
    with SetServer([made]) as server, server.open("MARKET") as stream:
        server.subscribe(stream, "quote.acme quote.globex", "bid ask venue", data_adapter="QUOTES")
        lines = [*stream.read_until("U"), *stream.read_until("U")]
    assert "U,1,1,101.75|102.00|XETRA" in lines
    assert "U,1,2,54.10|54.15|NYSE" in lines


def test_the_example_reads_what_its_producer_writes(broker: Broker, tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "examples" / "kafka-feed"
    admin = AdminClient({"bootstrap.servers": broker.address})
    known = admin.list_topics(timeout=PATIENCE).topics
    if "quotes" not in known:
        admin.create_topics([NewTopic("quotes", 1, 1)])["quotes"].result(PATIENCE)
    subprocess.run([sys.executable, str(folder / "produce.py"), broker.address, "20"], check=True, timeout=PATIENCE)
    path = tmp_path / "penstock.toml"
    text = (folder / "penstock.toml").read_text("utf-8")
    path.write_text(text.replace("localhost:9092", broker.address), "utf-8")
    ((name, table),) = load(path, {}).config.adapters.items()
    made = Loader(tmp_path, str(path)).load(name, table).adapter_set
    with SetServer([made]) as server, server.open("MARKET") as stream:
        server.subscribe(stream, "quote.acme", "bid ask", data_adapter="QUOTES")
        *_, line = stream.read_until("U")
    assert re.fullmatch(r"U,1,1,\d+\.\d\d\|\d+\.\d\d", line)
