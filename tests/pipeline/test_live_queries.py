"""SQL in, live items out: what a query publishes, exactly once; and what Spark has to say of SQL, in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.config import load
from penstock.pipeline.place import Place
from penstock.pipeline.progress import QueryMeter
from penstock.pipeline.status import QueryStatus
from tests.history.world import NOON, SECOND, World
from tests.pipeline.sink_server import TOKEN, SinkServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# When a minute begins.
MINUTE = NOON + 40 * SECOND

PLANT = """
[demo]
enabled = false
[pipeline.tables.readings]
adapter = "PLANT/READINGS"
item = "r.{machine}"
fields = { celsius = "double" }
"""
HEAT = """
[pipeline.queries.heat]
sql = \"""
SELECT machine, window.start AS minute, avg(celsius) AS celsius, count(*) AS n -- of plant.readings
FROM plant.readings GROUP BY machine, window(time, '1 minute')
\"""
to = "SET/OUT"
item = "heat.{machine}"
mode = "DISTINCT"
order_by = ["minute", "machine"]
watermark = "10 minutes"
max_events = 7
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, segment_bytes=4_000)
    with closing(world):
        yield world


def fill(world: World, *readings: tuple[str, int, str]) -> None:
    world.append(
        [
            (f"PLANT/READINGS/r.{machine}", MINUTE + second * SECOND, json.dumps({"celsius": value}))
            for machine, second, value in readings
        ]
    )


def run(spark: SparkSession, tmp_path: Path, text: str, place: Place, name: str = "heat") -> Any:
    from penstock.pipeline.queries import live_query, start

    path = tmp_path / "penstock.toml"
    path.write_text(PLANT + text)
    config = load(path, {"server.data_dir": str(tmp_path)}).config
    query = start(spark, place, live_query(config, name), once=True)
    query.awaitTermination()
    return query


def test_a_query_becomes_items_exactly_once(spark: SparkSession, world: World, tmp_path: Path) -> None:
    fill(world, *[(machine, second, str(second)) for second in range(0, 60, 10) for machine in "ab"])
    world.move(stop=9)
    with SinkServer() as sink:
        place = Place(tmp_path, sink.url, TOKEN)
        first = run(spark, tmp_path, HEAT, place)
        # The last row of each item has all of the minute, whatever the batches were.
        last = {row["item"]: (row["machine"], row["celsius"], row["n"]) for row in sink.rows(first.id)}
        assert last == {"heat.a": ("a", 25.0, 6), "heat.b": ("b", 25.0, 6)}
        assert set(sink.modes.values()) == {"DISTINCT"}
        published = len(sink.rows())
        # Started again it goes on where it was: nothing is new.
        run(spark, tmp_path, HEAT, place)
        assert len(sink.rows()) == published
        fill(world, ("a", 70, "5"), ("b", 59, "hot"))
        again = run(spark, tmp_path, HEAT, place)
        assert again.id == first.id
        rows = sink.rows()[published:]
        assert [(row["item"], row["celsius"], row["n"]) for row in rows] == [("heat.b", 25.0, 7), ("heat.a", 5.0, 1)]
        status = QueryStatus(name="heat")
        QueryMeter(tmp_path / "journal").take(status, again.recentProgress)
        assert status.misfits == 1


def test_a_table_of_totals_is_a_command_item(spark: SparkSession, world: World, tmp_path: Path) -> None:
    text = """
[pipeline.queries.totals]
sql = "SELECT machine, count(*) AS n FROM plant.readings GROUP BY machine"
to = "SET/OUT"
item = "totals"
mode = "COMMAND"
key = "machine"
watermark = "never"
"""
    fill(world, ("a", 0, "1"), ("b", 1, "2"), ("a", 2, "3"))
    with SinkServer() as sink:
        run(spark, tmp_path, text, Place(tmp_path, sink.url, TOKEN), "totals")
        assert sorted((row["item"], row["key"], row["n"]) for row in sink.rows()) == [
            ("totals", "a", 2),
            ("totals", "b", 1),
        ]


def test_rows_without_groups_need_no_watermark(spark: SparkSession, world: World, tmp_path: Path) -> None:
    text = """
[pipeline.queries.hot]
sql = "SELECT machine, celsius FROM plant.readings WHERE celsius > 1"
to = "SET/OUT"
item = "hot.{machine}"
"""
    fill(world, ("a", 0, "1"), ("b", 1, "2"), ("a", 2, "3"))
    with SinkServer() as sink:
        run(spark, tmp_path, text, Place(tmp_path, sink.url, TOKEN), "hot")
        assert [(row["item"], row["celsius"]) for row in sink.rows()] == [("hot.b", 2.0), ("hot.a", 3.0)]


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "by", "message"),
    [
        (
            "FROM plant.readings GROUP",
            "FORM plant.readings GROUP",
            "it cannot be parsed: Syntax error at or near 'FORM'",
        ),
        (
            "FROM plant.readings",
            "FROM plant.reading",
            "there is no table plant.reading (did you mean plant.readings?); ",
        ),
        ("FROM plant.readings", "FROM nowhere", "there is no table nowhere; there are: plant.readings"),
        ("avg(celsius)", "avg(celcius)", "name `celcius` cannot be resolved. Did you mean one of the following? [`"),
        ("avg(celsius)", "avg(date_add(celsius, 1))", "due to data type mismatch: The first parameter requires"),
        ("avg(celsius)", "averag(celsius)", "Cannot resolve routine `averag`"),
        ("SELECT machine,", "DROP TABLE plant.readings --", "it cannot be parsed: "),
        (
            'watermark = "10 minutes"',
            "",
            "it groups, joins or deduplicates rows of a stream, so it needs a watermark: ",
        ),
        (
            "heat.{machine}",
            "heat.{engine}",
            "item names the column 'engine', which is not there; the result has machine, ",
        ),
        (
            '["minute", "machine"]',
            '["second"]',
            "order_by names the column 'second', which is not there; the result has",
        ),
        (
            "window.start AS minute",
            "window AS minute",
            "the column 'minute' is of type struct<start:timestamp,end:times",
        ),
        ("window.start AS minute", "window", "which cannot be a field; select parts of it, such as window.start"),
        ("count(*) AS n", "count(*) AS item", "the column 'item' cannot be a field: item have a meaning; rename it"),
        ("FROM plant.readings GROUP", "FROM (SELECT 1 AS x) GROUP", ""),
    ],
)
def test_what_is_wrong_with_sql_is_one_sentence(
    spark: SparkSession, tmp_path: Path, change: str, by: str, message: str
) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.queries import catalog_of, checked, live_query
    from penstock.pipeline.streaming_sql import empty

    text = HEAT.replace(change, by)
    assert text != HEAT
    path = tmp_path / "penstock.toml"
    path.write_text(PLANT + text)
    config = load(path, {}).config
    query = live_query(config, "heat")
    target = query.target(Place(tmp_path, "http://127.0.0.1"))
    with pytest.raises(BadOption) as caught:
        checked(spark, query, catalog_of(config, None), target, empty(spark, query.section.watermark))
    told = str(caught.value)
    assert told.startswith("pipeline.queries.heat: ")
    assert message in told
    assert "\n" not in told
    assert "penstock__" not in told
    assert "SQLSTATE" not in told


@pytest.mark.parametrize("sql", ["DROP TABLE plant.readings", "CREATE TABLE x AS SELECT * FROM plant.readings"])
def test_a_statement_that_is_not_a_query_is_refused_and_not_run(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.queries import catalog_of
    from penstock.pipeline.streaming_sql import SqlQuery, empty

    (tmp_path / "penstock.toml").write_text(PLANT)
    query = SqlQuery(sql, catalog_of(load(tmp_path / "penstock.toml", {}).config, None), "sql")
    with pytest.raises(BadOption, match=r"^sql: only a query is allowed, such as SELECT; this is another statement$"):
        query.dataframe(spark, empty(spark))
    assert not spark.catalog.tableExists("x")


def test_sql_without_a_table_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.queries import catalog_of, checked, live_query
    from penstock.pipeline.streaming_sql import empty

    path = tmp_path / "penstock.toml"
    path.write_text(PLANT + '[pipeline.queries.one]\nsql = "SELECT 1 AS x"\nto = "SET/OUT"\nitem = "x"\n')
    config = load(path, {}).config
    query = live_query(config, "one")
    target = query.target(Place(tmp_path, "http://127.0.0.1"))
    with pytest.raises(BadOption, match=r"^pipeline.queries.one: the SQL reads no table; there are: plant.readings$"):
        checked(spark, query, catalog_of(config, None), target, empty(spark))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (
            'sql = "SELECT celsius FROM plant.readings ORDER BY celsius"',
            "the rows of a stream cannot be sorted by ORDER ",
        ),
        ('sql = "SELECT celsius FROM plant.readings LIMIT 3"', 'LIMIT needs output_mode = "append", '),
        (
            'sql = "SELECT count(*) AS n FROM plant.readings"\nwatermark = "never"\noutput_mode = "append"',
            'output_mode = "append" publishes a group when it is closed, so it needs a watermark ',
        ),
    ],
)
def test_a_query_that_cannot_be_a_stream_does_not_start(
    spark: SparkSession, world: World, tmp_path: Path, rest: str, message: str
) -> None:
    """Through Spark Connect, too, which says it later."""
    from penstock.pipeline.errors import BadOption

    fill(world, ("a", 0, "1"))
    place = Place(tmp_path, "http://127.0.0.1:9", TOKEN)
    with pytest.raises(BadOption) as caught:
        run(spark, tmp_path, f'[pipeline.queries.last]\nto = "SET/OUT"\nitem = "x"\n{rest}\n', place, "last")
    assert str(caught.value).startswith(f"pipeline.queries.last: {message}")
