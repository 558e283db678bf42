"""The journal over the network under Spark itself: the same rows, and no token in anything that is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.test_source_spark import refusal, sequences
from tests.pipeline.world import held, some
from tests.support.journal_server import NARROW_TOKEN, TOKEN, JournalServer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalServer]:
    with JournalServer(tmp_path_factory.mktemp("served")) as server:
        server.append(some(60_000), frame=2_000)
        yield server


def load(spark: SparkSession, server: JournalServer, **options: str) -> DataFrame:
    given = {"server": server.api, "token": TOKEN, "retryTimeoutSeconds": "5", **options}
    return spark.read.format("penstock").options(**given).load()


def run(spark: SparkSession, server: JournalServer, place: Path, **options: str) -> tuple[list[int], str]:
    """A stream over all there is, to the end: the sequences it has written so far, and all that Spark tells of it."""
    given = {"server": server.api, "token": TOKEN, "maxEventsPerTrigger": "20000", **options}
    frame = spark.readStream.format("penstock").options(**given).load()
    query = (
        frame.select("sequence")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "written"))
    )
    query.awaitTermination()
    told = json.dumps([str(each) for each in query.recentProgress])
    return sequences(spark.read.parquet(str(place / "written"))), told


def test_a_batch_read_holds_the_journal_column_by_column(spark: SparkSession, served: JournalServer) -> None:
    table = load(spark, served, endingOffset="1000").toArrow().sort_by("sequence")
    assert table.to_pylist() == held(served.journal_path).slice(0, 1_000).to_pylist()


def test_several_tasks_read_at_the_same_time(spark: SparkSession, served: JournalServer) -> None:
    frame = load(spark, served, partitions="2")
    assert frame.rdd.getNumPartitions() == 2
    assert sequences(frame) == list(range(1, 60_001))


def test_a_stream_reads_each_event_once_and_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with JournalServer(tmp_path / "server") as server:
        server.append(some(45_000), frame=5_000)
        found, _ = run(spark, server, tmp_path)
        assert found == list(range(1, 45_001))
        server.append(some(10, first=45_001))
        found, _ = run(spark, server, tmp_path)
        assert found == list(range(1, 45_011))
    with JournalServer(tmp_path / "other") as other:
        other.append(some(50_000), frame=5_000)
        said = refusal(lambda: run(spark, other, tmp_path))
        assert said.startswith("the checkpoint was made with another segment for sequence 45010")


def test_the_token_is_nowhere_in_what_spark_shows(
    spark: SparkSession, served: JournalServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = load(spark, served, endingOffset="100")
    frame.explain(True)
    frame.explain("formatted")
    assert frame.count() == 100
    found, told = run(spark, served, tmp_path)
    assert len(found) == 60_000
    output = capfd.readouterr()
    assert "penstock" in output.out
    checkpoint = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert len(checkpoint) > 3
    for text in (output.out, output.err, told, *map(str, checkpoint)):
        assert TOKEN not in text


def test_what_is_wrong_is_one_sentence_without_the_token(spark: SparkSession, served: JournalServer) -> None:
    assert refusal(lambda: load(spark, served, token=NARROW_TOKEN, entities="item-2").count()) == (
        f"the server {served.api} refused the token: the reader narrow has no right to read item-2; its entities are "
        "item-1, item-3*"
    )
    wrong = "a-token-that-nobody-has"
    with pytest.raises(Exception, match="refused the token: the token is not known") as refused:
        load(spark, served, token=wrong).count()
    assert wrong not in str(refused.value)


def test_a_server_that_is_away_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with JournalServer(tmp_path) as server:
        frame = load(spark, server, retryTimeoutSeconds="1")
    said = refusal(frame.count)
    assert said.endswith("cannot be reached: Connection refused (tried for 1 s)")
