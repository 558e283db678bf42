"""Spark's real-time mode over the journal of a real server: an event is an update before its batch ends, once."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.world import make_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Long after a test has ended: whatever comes has not waited for the end of a batch.
NEVER = "1 hour"
PATIENCE = 120.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    with RealServer(tmp_path / "server") as started:
        yield started


def post(server: RealServer, numbers: range) -> None:
    """Events of the item d.in, to be read."""
    body = "".join(json.dumps({"item": "d.in", "fields": {"n": str(number)}}) + "\n" for number in numbers)
    connection = http.client.HTTPConnection(server.host, server.api_port)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"}
    connection.request("POST", "/api/ingest/SET/OUT", body, headers)
    assert connection.getresponse().status == 200
    connection.close()


def numbers(spark: SparkSession, server: RealServer) -> DataFrame:
    from pyspark.sql import functions as fn

    from penstock.pipeline.realtime import real_time_events

    events = real_time_events(
        spark, server.directory / "data" / "journal", entities=["SET/OUT/d.?n"], kinds=["update"], starting="earliest"
    )
    number = fn.get_json_object("value", "$.n").cast("int")
    return events.select("sequence", number.alias("n"), (number % 2).alias("half"), fn.col("timestamp").alias("at"))


def start(frame: DataFrame, server: RealServer, checkpoint: Path) -> StreamingQuery:
    from penstock.pipeline.realtime import publish_real_time

    return publish_real_time(
        frame,
        server=server.api,
        adapter_set="SET",
        adapter="OUT",
        token=TOKEN,
        item_template="d.out.{half}",
        mode="DISTINCT",
        fields=["n", "at"],
        checkpoint=checkpoint,
        every=NEVER,
    )


def published(server: RealServer) -> list[int]:
    return [int(fields["n"]) for item, fields in server.published() if item.startswith("d.out")]


def until(query: StreamingQuery, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        error = query.exception()
        assert error is None, str(error)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_events_are_updates_at_once_and_each_is_published_once_after_a_restart_that_reads_all_of_them_again(
    spark: SparkSession, server: RealServer, tmp_path: Path
) -> None:
    post(server, range(1, 6))
    query = start(numbers(spark, server), server, tmp_path / "checkpoint")
    until(query, lambda: published(server) == [1, 2, 3, 4, 5])
    post(server, range(6, 8))
    until(query, lambda: len(published(server)) == 7)
    query.stop()
    post(server, range(8, 10))
    # Spark has committed nothing, so that it begins with the first event again.
    query = start(numbers(spark, server), server, tmp_path / "checkpoint")
    until(query, lambda: len(published(server)) >= 9)
    query.stop()
    assert published(server) == list(range(1, 10))
    item, fields = next(one for one in server.published() if one[0].startswith("d.out"))
    assert item == "d.out.1"
    assert fields.keys() == {"n", "at"}


def test_a_query_that_makes_two_rows_of_an_event_fails_and_says_why(
    spark: SparkSession, server: RealServer, tmp_path: Path
) -> None:
    from pyspark.sql import functions as fn

    frame = numbers(spark, server)
    doubled = frame.withColumn("half", fn.explode(fn.array(fn.lit(1), fn.lit(2))))
    post(server, range(1, 3))
    query = start(doubled, server, tmp_path / "checkpoint")
    deadline = time.monotonic() + PATIENCE
    while query.isActive and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "each event may become one row at most" in str(query.exception())


def test_a_damaged_journal_is_told_with_its_place(spark: SparkSession, server: RealServer, tmp_path: Path) -> None:
    from penstock.pipeline.realtime import real_time_events

    folder = make_journal(tmp_path / "journal", [("SET/OUT/d.in", "update", '{"n":"1"}', 1_000_000)])
    segment = next(folder.glob("*.segment"))
    content = bytearray(segment.read_bytes())
    content[8192 + 64 + 200] ^= 1
    segment.write_bytes(content)
    frame = real_time_events(spark, folder, starting="earliest").selectExpr(
        "sequence", "1 AS n", "1 AS half", "1 AS at"
    )
    query = start(frame, server, tmp_path / "checkpoint")
    deadline = time.monotonic() + PATIENCE
    while query.isActive and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "is damaged at byte 8192" in str(query.exception())


def test_wrong_options_are_told_in_one_line(spark: SparkSession, server: RealServer, tmp_path: Path) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.realtime import publish_real_time, real_time_events

    with pytest.raises(BadOption, match="starting is 'noon'; allowed: earliest, latest"):
        real_time_events(spark, tmp_path, starting="noon")
    with pytest.raises(BadOption, match="nowhere, which is not a directory"):
        real_time_events(spark, tmp_path / "nowhere")
    frame = numbers(spark, server)
    given: dict[str, Any] = {
        "server": server.api,
        "adapter_set": "SET",
        "adapter": "OUT",
        "checkpoint": tmp_path / "checkpoint",
    }
    with pytest.raises(BadOption, match="mode is 'COMMAND'; allowed in real time: MERGE, DISTINCT"):
        publish_real_time(frame, item="n", mode="COMMAND", **given)
    with pytest.raises(BadOption, match="the column 'sequence' is missing"):
        publish_real_time(frame.drop("sequence"), item="n", **given)
    with pytest.raises(BadOption, match="the column 'at' is of type timestamp; items are named by text or integers"):
        publish_real_time(frame, item_template="m.{at}", **given)
