"""Typed tables in Spark: the same rows as without it, in batch, in Spark's catalog and as a stream, at every seam."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import history
from tests.history.world import NOON, SECOND, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
[demo]
enabled = false
[pipeline.tables.readings]
adapter = "PLANT/READINGS"
item = "r.{machine}"
fields = { celsius = "double", on = "boolean", cost = "decimal(6,2)", at = "timestamp", n = "bigint", raw = "binary" }
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "penstock.toml").write_text(CONFIG)
    world = World(tmp_path, segment_bytes=4_000)
    with closing(world):
        yield world


def fill(world: World, count: int) -> None:
    first = len(world.events)
    rows: list[tuple[str, int, str | None]] = []
    for n in range(first, first + count):
        fields = {"celsius": str(n / 2), "on": n % 2 == 0, "cost": "1.5", "at": NOON // 1000 + n, "n": n, "raw": "AAE="}
        if n % 10 == 7:
            fields["celsius"] = "hot"
        entity = f"PLANT/READINGS/r.{'ab'[n % 2]}" if n % 4 else "PLANT/OTHER/x"
        rows.append((entity, NOON + n * SECOND, json.dumps(fields)))
    # In appends of a few events: a segment ends between two appends.
    for start in range(0, count, 10):
        world.append(rows[start : start + 10])


def rows(found: Any) -> list[dict[str, Any]]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(table.to_pylist(), key=lambda row: (row["sequence"], row.get("column_name") or ""))


def load(spark: SparkSession, path: Path, name: str) -> Any:
    reader = spark.read.format("penstock").option("table", name).option("config", str(path / "penstock.toml"))
    return reader.load(str(path / "journal"))


def test_spark_has_the_same_rows_as_arrow(spark: SparkSession, world: World, tmp_path: Path) -> None:
    fill(world, 60)
    world.move(stop=31)
    world.drop()
    fill(world, 10)
    for name in ("plant.readings", "plant.readings_misfits"):
        wanted = rows(history.table(name, tmp_path, config=tmp_path / "penstock.toml"))
        assert wanted
        assert rows(load(spark, tmp_path, name)) == wanted


def test_the_catalog_has_what_is_journaled_when_a_query_starts(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    from penstock.pipeline import register_tables

    # Other tests have the same session.
    spark.sql("DROP SCHEMA IF EXISTS plant CASCADE")
    fill(world, 12)
    names = register_tables(spark, tmp_path, config=tmp_path / "penstock.toml")
    assert names == ["plant.other", "plant.other_misfits", "plant.readings", "plant.readings_misfits"]
    assert {row.tableName for row in spark.sql("SHOW TABLES IN plant").collect() if not row.isTemporary} == {
        name.partition(".")[2] for name in names
    }
    count = "SELECT count(*) AS n, count(DISTINCT machine) AS machines, sum(misfits) AS misfits FROM Plant.Readings"
    assert spark.sql(count).collect()[0].asDict() == {"n": 9, "machines": 2, "misfits": 1}
    world.move()
    fill(world, 12)
    # The same text again, and a filter, which Spark must not remember for the next query.
    assert spark.sql(f"{count} WHERE celsius > 3").collect()[0].n == 11
    assert spark.sql(count).collect()[0].asDict() == {"n": 18, "machines": 2, "misfits": 2}
    assert spark.sql("SELECT value FROM plant.readings_misfits").distinct().collect()[0].value == "hot"
    # Once more, with other types.
    (tmp_path / "penstock.toml").write_text(CONFIG.replace('celsius = "double"', 'celsius = "string"'))
    register_tables(spark, tmp_path, config=tmp_path / "penstock.toml", names=["plant.readings"])
    assert spark.table("plant.readings").schema["celsius"].dataType.simpleString() == "string"


def test_a_stream_begins_in_the_lake_and_has_each_event_once(spark: SparkSession, world: World, tmp_path: Path) -> None:
    fill(world, 120)
    world.move(stop=90)
    assert world.drop()
    fill(world, 7)
    batches = tmp_path / "batches"
    batches.mkdir()

    def take(batch: Any, number: int) -> None:
        # Through Spark Connect this is another process.
        pq.write_table(batch.toArrow(), batches / f"{number}.parquet")

    def run() -> None:
        stream = (
            spark.readStream.format("penstock")
            .option("table", "plant.readings")
            .option("config", str(tmp_path / "penstock.toml"))
            .option("maxEventsPerTrigger", "50")
            .load(str(tmp_path / "journal"))
        )
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert len(list(batches.iterdir())) == 3
    fill(world, 5)
    run()
    wanted = rows(history.table("plant.readings", tmp_path, config=tmp_path / "penstock.toml"))
    assert rows(pa.concat_tables(map(pq.read_table, batches.iterdir()))) == wanted


def test_a_table_that_there_is_not_is_told(spark: SparkSession, world: World, tmp_path: Path) -> None:
    from penstock.pipeline import register_tables
    from penstock.pipeline.errors import BadOption, explain

    fill(world, 4)
    with pytest.raises(Exception, match="did you mean plant") as caught:
        # Spark Connect looks at it only when it is asked.
        load(spark, tmp_path, "plant.reading").collect()
    assert explain(caught.value).startswith("option table is plant.reading: there is no table plant.reading (did you")
    with pytest.raises(BadOption, match=r"^there is no table x; there are: plant.other, plant.readings$"):
        register_tables(spark, tmp_path, config=tmp_path / "penstock.toml", names=["x"])
    with pytest.raises(BadOption, match=r"^there is no journal in .*/none, which does not exist; expected"):
        register_tables(spark, tmp_path / "none")


def test_options_that_contradict_a_table_are_told(world: World, tmp_path: Path) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.options import parse

    fill(world, 4)
    given = {"path": str(tmp_path / "journal"), "table": "plant.readings"}
    with pytest.raises(BadOption, match=r"^options table and server are both given; a table has what is in the lake"):
        parse({"table": "a.b", "server": "http://127.0.0.1:1", "token": "t"}, stream=False)
    with pytest.raises(BadOption, match=r"^option entities is 'a'; a table has its own, so leave it out$"):
        parse({**given, "entities": "a"}, stream=False)
    with pytest.raises(BadOption, match=r"^option config is 'a'; it is for option table, which is missing$"):
        parse({"path": given["path"], "config": "a"}, stream=False)
    with pytest.raises(BadOption, match=r"^option table is '{', which is not a table: "):
        parse({**given, "table": "{"}, stream=False)
    with pytest.raises(BadOption, match=r"^option config is none.toml: none.toml: cannot read the configuration file"):
        parse({**given, "config": "none.toml"}, stream=False)
