"""The source under Spark itself: what `test_source` shows of the readers, seen from a DataFrame.

The same tests run under Spark Connect in `test_connect`: nothing here may ask for what only one of the two has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.journal.retention import Retention
from penstock.pipeline import reports
from penstock.pipeline.errors import explain
from tests.pipeline.test_source import damage
from tests.pipeline.world import NOON, SECOND, append, held, journal, make_journal, some


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(**options).load(str(path))


def sequences(frame: DataFrame) -> list[int]:
    return sorted(frame.select("sequence").toArrow().column("sequence").to_pylist())


def run(spark: SparkSession, path: Path, place: Path, **options: str) -> list[int]:
    """A stream over all there is, to the end; the sequences it has written so far, those of earlier runs included."""
    frame = spark.readStream.format("penstock").options(**options).load(str(path))
    written = place / "written"
    query = (
        frame.select("sequence")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(written))
    )
    query.awaitTermination()
    return sequences(spark.read.parquet(str(written)))


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def refusal(what: Callable[[], Any]) -> str:
    """What a person is told."""
    with pytest.raises(Exception) as refused:  # noqa: PT011  # classic and Connect have trees of their own
        what()
    return explain(refused.value)


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_journal(tmp_path_factory.mktemp("hundred") / "journal", some(100), frame=10)


def test_a_batch_read_holds_the_journal_column_by_column(spark: SparkSession, hundred: Path) -> None:
    table = load(spark, hundred).toArrow().sort_by("sequence")
    assert table.column_names == held(hundred).column_names
    assert table.to_pylist() == held(hundred).to_pylist()


def test_the_columns_have_types(spark: SparkSession, hundred: Path) -> None:
    assert load(spark, hundred).schema.simpleString() == (
        "struct<sequence:bigint,entity:string,revision:bigint,timestamp:timestamp,kind:string,path:string,"
        "value:string,headers:string>"
    )


def test_several_tasks_read_a_large_journal(spark: SparkSession, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(60_000), frame=5_000)
    frame = load(spark, path, partitions="3").select("sequence", F.spark_partition_id().alias("task"))
    tasks = frame.groupBy("task").agg(F.count("*").alias("rows")).toArrow().column("rows").to_pylist()
    assert len(tasks) == 3
    assert sum(tasks) == 60_000
    assert sequences(frame) == list(range(1, 60_001))


# As SQL: a Column needs a session to be made.
FILTERS = {
    "entity = 'item-1'": [number for number in range(1, 101) if number % 4 == 1],
    "entity IN ('item-1', 'item-2') AND kind = 'update'": [n for n in range(1, 101) if n % 4 in (1, 2)],
    "entity LIKE 'item-1%' AND sequence > 90": [93, 97],
    "entity = 'item-1' AND value = '5'": [5],
    "entity = 'item-*'": [],
    "entity = 'item-1' OR entity = 'item-2' AND sequence < 3": sorted([2, *range(1, 101, 4)]),
    "NOT entity = 'item-1' AND sequence <= 4": [2, 3, 4],
    "sequence BETWEEN 7 AND 9": [7, 8, 9],
    "kind = 'clear'": [],
    "timestamp >= TIMESTAMP '2023-11-14 22:13:25Z' AND timestamp < TIMESTAMP '2023-11-14 22:13:28Z'": [5, 6, 7],
}


@pytest.mark.parametrize(("offered", "enabled"), [("true", "true"), ("true", "false"), ("false", "true")])
def test_filters_give_the_same_whether_or_not_they_are_pushed_down(
    spark: SparkSession, hundred: Path, offered: str, enabled: str
) -> None:
    """By default Spark does not push down, and a session of somebody's own must read all the same."""
    with setting(spark, "spark.sql.python.filterPushdown.enabled", enabled):
        for condition, expected in FILTERS.items():
            assert sequences(load(spark, hundred, pushFilters=offered).where(condition)) == expected, condition


def test_a_frame_that_was_filtered_is_whole_when_it_is_used_again(spark: SparkSession, hundred: Path) -> None:
    """Spark 4.3 plans a frame without filters as it planned the same frame with pushed ones: 25 events, not 100."""
    frame = load(spark, hundred)
    one = frame.where("entity = 'item-1'")
    assert len(sequences(one)) == 25
    assert sequences(frame) == list(range(1, 101))
    assert len(sequences(one.union(frame))) == 125


def test_a_pushed_filter_is_not_checked_again_by_spark(
    spark: SparkSession, hundred: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(spark, hundred, pushFilters="true").where("entity = 'item-1' AND value = '5'").explain()
    lines = [line.lstrip(" +-*()0123456789") for line in capsys.readouterr().out.splitlines()]
    conditions = [line for line in lines if line.startswith("Filter")]
    assert [("value" in line, "entity" in line) for line in conditions] == [(True, False)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns"])
def test_a_range_of_time_is_the_same_in_any_zone(spark: SparkSession, hundred: Path, zone: str) -> None:
    with setting(spark, "spark.sql.session.timeZone", zone):
        first = datetime.fromtimestamp(NOON // SECOND + 5, UTC)
        last = datetime.fromtimestamp(NOON // SECOND + 7, UTC)
        frame = load(spark, hundred, pushFilters="true").where(
            (F.col("timestamp") >= F.lit(first)) & (F.col("timestamp") <= F.lit(last))
        )
        assert sequences(frame) == [5, 6, 7]
        # Without a zone it is the session's.
        local = spark.sql("SELECT CAST(TIMESTAMP '2023-11-14 22:13:25Z' AS STRING) AS local").toArrow()
        text = local.column("local")[0].as_py()
        assert sequences(load(spark, hundred, pushFilters="true").where(f"timestamp < TIMESTAMP '{text}'")) == [
            1,
            2,
            3,
            4,
        ]


def test_a_stream_gives_each_event_once_in_batches_of_the_size_allowed(
    spark: SparkSession, hundred: Path, tmp_path: Path
) -> None:
    assert run(spark, hundred, tmp_path, maxEventsPerTrigger="40") == list(range(1, 101))
    offsets = sorted(path.name for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdecimal())
    assert offsets == ["0", "1", "2"]


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(10))
    assert run(spark, path, tmp_path, startingOffset="4", entities="item-1,item-2") == [5, 6, 9, 10]
    with journal(path) as opened:
        append(opened, some(10, first=11))
        # What is asked for at the start is not asked for again; what is filtered is.
        assert run(spark, path, tmp_path, startingOffset="latest", entities="item-1,item-2") == [
            5,
            6,
            9,
            10,
            13,
            14,
            17,
            18,
        ]


def test_a_stream_that_starts_at_a_time(spark: SparkSession, hundred: Path, tmp_path: Path) -> None:
    at = datetime.fromtimestamp(NOON // SECOND + 98, UTC).isoformat()
    assert run(spark, hundred, tmp_path, startingOffset=at) == [98, 99, 100]


def test_a_stream_can_be_aggregated_over_windows(spark: SparkSession, hundred: Path) -> None:
    counts = (
        spark.readStream.format("penstock")
        .load(str(hundred))
        .withWatermark("timestamp", "1 second")
        .groupBy(F.window("timestamp", "1 minute"), "entity")
        .agg(F.count("*").alias("events"), F.max_by("value", "sequence").alias("last"))
    )
    query = (
        counts.writeStream.format("memory")
        .queryName("windows")
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    table: pa.Table = spark.table("windows").toArrow()
    assert sum(table.column("events").to_pylist()) == 100
    assert {"97", "98", "99", "100"} <= set(table.column("last").to_pylist())


def test_a_wrong_option_is_told_in_one_line(spark: SparkSession, hundred: Path, tmp_path: Path) -> None:
    expected = "option partitions is '0'; it must be a whole number from 1 to 10000"
    assert refusal(lambda: load(spark, hundred, partitions="0").toArrow()) == expected
    assert refusal(lambda: run(spark, hundred, tmp_path, partitions="0")) == expected


def test_a_missing_directory_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refusal(lambda: load(spark, missing).toArrow()) == f"option path is {missing}; there is no such directory"


def test_columns_of_ones_own_are_told_in_one_line(spark: SparkSession, hundred: Path) -> None:
    frame = spark.read.format("penstock").schema("price double")
    assert refusal(lambda: frame.load(str(hundred)).toArrow()).startswith(
        "schema is struct<price:double>; the journal's"
    )


def test_a_checkpoint_of_another_journal_is_told_in_one_line(
    spark: SparkSession, hundred: Path, tmp_path: Path
) -> None:
    run(spark, make_journal(tmp_path / "journal", some(10)), tmp_path)
    assert "it is another journal, or an older copy of it; start with a new checkpoint" in (
        refusal(lambda: run(spark, hundred, tmp_path))
    )


def test_what_retention_dropped_is_told_in_one_line_or_skipped_as_configured(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    with journal(path, segment_bytes=1) as opened:
        append(opened, some(20), frame=5)
        run(spark, path, tmp_path, startingOffset="1", maxEventsPerTrigger="0", entities="item-1")
        append(opened, some(20, first=21), frame=5)
        opened.retain(Retention(max_bytes=1), 40)
        assert refusal(lambda: run(spark, path, tmp_path)).startswith("sequence 21 was dropped by retention")
        append(opened, some(4, first=41), frame=5)
        assert run(spark, path, tmp_path, onExpired="earliest")[-4:] == [41, 42, 43, 44]


def test_damage_is_noted_by_the_tasks_and_the_query_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 15)
    notes = tmp_path / "notes"
    assert run(spark, path, tmp_path, damageReports=str(notes)) == [*range(1, 11), *range(21, 31)]
    assert [(note.first, note.last) for note in reports.told(notes)] == [(11, 20)]
