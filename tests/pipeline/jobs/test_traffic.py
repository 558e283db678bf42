from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.journal.journal import Policy
from penstock.journal.record import Columns
from penstock.pipeline.place import Place
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.pipeline.world import SECOND, journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The start of a minute.
BEGIN = 1_700_000_040 * SECOND


def payloads() -> Columns:
    """Two controllers, a minute; one says in its headers when it sent, the other in the payload itself."""
    columns = Columns()

    def add(controller: str, second: float, value: str | None, headers: dict[str, Any] | None = None) -> None:
        when = BEGIN + int(second * SECOND)
        text = None if headers is None else json.dumps(headers)
        columns.add(f"TLEX/TLEX/{controller}", when, "payload", "04", value, text)

    def millis(second: float) -> int:
        return BEGIN // 1_000 + int(second * 1_000)

    body = base64.b64encode(b"12345").decode()
    # Ten a second for 20 s, 50 ms each; silent for 20 s; then one a second.
    for number in range(200):
        add("T1", number / 10, body, {"origin": str(millis(number / 10 - 0.05)), "from": "TLC"})
    for number in range(20):
        add("T1", 40 + number, body, {"origin": millis(40 + number - 0.25)})
    iso = datetime.fromtimestamp(millis(4.9) / 1_000, UTC).isoformat()
    add("T2", 5, json.dumps({"sent": iso, "state": "green"}))
    add("T2", 6, json.dumps({"sent": millis(5.7)}))
    # No latency can be told of these; the last is not a payload at all.
    add("T2", 7, json.dumps({"sent": "yesterday"}))
    add("T2", 8, "not JSON", {"origin": "-5"})
    add("T2", 9, None)
    return columns


def test_rates_latencies_and_silences_are_those_of_the_payloads(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import traffic

    with journal(tmp_path / "journal") as opened:
        opened.append(payloads(), Policy.ACK)
    settings = traffic.Settings(adapter_set="SET", adapter="OUT", max_events=90)
    with SinkServer() as sink:
        place = Place(tmp_path, sink.url, TOKEN)
        query = traffic.start(spark, place, settings, once=True)
        query.awaitTermination()
        seen = {row["item"]: row for row in sink.rows(f"{query.id}.growing")}
    batch = traffic.transform(
        spark.read.format("penstock").option("kinds", "payload").load(str(tmp_path / "journal")), settings
    ).toArrow()
    rows = {(row["size"], row["controller"], row["start"].second): row for row in batch.to_pylist()}

    minute = rows["1m", "T1", 0]
    assert (minute["payloads"], minute["bytes"], minute["missing"], minute["untimed"]) == (220, 220 * 8, 0, 0)
    assert minute["rate"] == pytest.approx(220 / 60)
    assert minute["latency_min"] == pytest.approx(50, abs=1)
    assert minute["latency_max"] == pytest.approx(250, abs=1)
    assert minute["latency_mean"] == pytest.approx((200 * 50 + 20 * 250) / 220, abs=1)
    assert minute["silence"] == 20
    quiet = rows["1m", "T2", 0]
    assert (quiet["payloads"], quiet["untimed"], quiet["latency_min"], quiet["latency_max"]) == (4, 2, 100, 300)
    assert quiet["silence"] == 51
    assert rows["10s", "T1", 0]["silence"] == 0
    assert rows["10s", "T1", 50]["rate"] == 1.0
    assert ("10s", "T1", 20) not in rows

    # Live, each item ends with its newest window, and with the same figures.
    assert seen.keys() == {f"traffic.{size}.{one}" for size in ("10s", "1m") for one in ("T1", "T2")}
    for item, start in (("T1", 50), ("T2", 0)):
        live, past = seen[f"traffic.10s.{item}"], rows["10s", f"{item}", start]
        assert {name: live[name] for name in traffic.FIELDS} == {name: past[name] for name in traffic.FIELDS}
    assert sum(one["observedMetrics"]["traffic"]["dropped"] for one in query.recentProgress) == 1
