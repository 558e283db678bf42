"""Spark in a process of its own, which runs one query after the other as the benchmark `latency` asks for it.

A word for each line of standard input: the name of a query, which replaces the one before, or `figures`, answered by
one line of JSON: how long the latest batches took, and the parts of that, as Spark tells. `plain` queries have nothing
of Penstock in them. With `real-time` as the last argument the session has the jar for it. Not here: events and clients
(`bench.scenarios.latency`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline import publish_stream
from penstock.pipeline.realtime import publish_real_time, real_time_events
from penstock.pipeline.session import close_session, open_session

# Rows a second of plain queries, and items: as many as the benchmark posts.
RATE = 200
ITEMS = 50


class Queries:
    """Each has a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path, api: str, token: str) -> None:
        self._spark = spark
        self._folder = folder
        self._api = api
        self._token = token
        self._started = 0

    def start(self, name: str) -> StreamingQuery:
        query: StreamingQuery = getattr(self, name.replace("-", "_"))()
        return query

    def plain(self) -> StreamingQuery:
        """A stateless query whose rows nobody reads."""
        return self._noop(self._numbers(self._rate()), "append")

    def plain_collected(self) -> StreamingQuery:
        """The driver collects its rows."""
        return self._collected(self._numbers(self._rate()), "append")

    def plain_aggregate(self) -> StreamingQuery:
        return self._collected(self._totals(self._numbers(self._rate())), "update")

    def source(self) -> StreamingQuery:
        """The journal, and nobody reads the rows."""
        return self._noop(self._numbers(self._journal()), "append")

    def stateless(self) -> StreamingQuery:
        """Each event of the journal becomes an update of an item."""
        return self._published(self._numbers(self._journal()), "append")

    def aggregate(self) -> StreamingQuery:
        """The newest number of each item, and how many there were."""
        return self._published(self._totals(self._numbers(self._journal())), "update")

    def real_time(self) -> StreamingQuery:
        """The same as `stateless`, in Spark's real-time mode; its only batch lasts longer than the benchmark."""
        journal = self._folder / "data" / "journal"
        events = real_time_events(self._spark, journal, entities=["BENCH/IN/*"])
        return publish_real_time(
            self._numbers(events, "sequence"),
            server=self._api,
            adapter_set="BENCH",
            adapter="OUT",
            token=self._token,
            item_template="out.{which}",
            checkpoint=self._checkpoint(),
        )

    def _rate(self) -> DataFrame:
        rows = self._spark.readStream.format("rate").option("rowsPerSecond", RATE).load()
        entity = fn.concat(fn.lit("BENCH/IN/t"), (fn.col("value") % ITEMS).cast("string"))
        value = fn.concat(fn.lit('{"number":"'), fn.col("value").cast("string"), fn.lit('"}'))
        return rows.select(entity.alias("entity"), value.alias("value"))

    def _journal(self) -> DataFrame:
        source = self._spark.readStream.format("penstock").option("entities", "BENCH/IN/*")
        return source.option("startingOffset", "latest").load(str(self._folder / "data" / "journal"))

    def _numbers(self, events: DataFrame, *others: str) -> DataFrame:
        number = fn.get_json_object("value", "$.number").cast("long").alias("number")
        return events.select(*others, fn.regexp_replace("entity", "^.*/t", "").alias("which"), number)

    def _totals(self, numbers: DataFrame) -> DataFrame:
        return numbers.groupBy("which").agg(fn.max("number").alias("number"), fn.count(fn.lit(1)).alias("events"))

    def _noop(self, rows: DataFrame, mode: str) -> StreamingQuery:
        return rows.writeStream.outputMode(mode).format("noop").option("checkpointLocation", self._checkpoint()).start()

    def _collected(self, rows: DataFrame, mode: str) -> StreamingQuery:
        def collect(batch: DataFrame, number: int) -> None:
            batch.toArrow()

        stream = rows.writeStream.outputMode(mode).foreachBatch(collect)
        return stream.option("checkpointLocation", self._checkpoint()).start()

    def _published(self, rows: DataFrame, mode: str) -> StreamingQuery:
        return publish_stream(
            rows,
            server=self._api,
            adapter_set="BENCH",
            adapter="OUT",
            token=self._token,
            item_template="out.{which}",
            order_by=["number"],
            output_mode=mode,
            checkpoint=self._checkpoint(),
        )

    def _checkpoint(self) -> str:
        self._started += 1
        return str(self._folder / f"checkpoint-{self._started}")


def figures(query: StreamingQuery | None) -> list[dict[str, int]]:
    if query is None:
        return []
    error = query.exception()
    if error is not None:
        raise SystemExit(str(error))
    return [dict(one.durationMs) for one in query.recentProgress if one.numInputRows > 0]


def main(folder: Path, api: str, token: str, real_time: bool) -> None:
    # More than a query has batches in a run: what is measured is those that have come since the warm-up.
    settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
    spark = open_session("bench", folder / "cache", settings=settings, real_time=real_time)
    query: StreamingQuery | None = None
    queries = Queries(spark, folder, api, token)
    try:
        for line in sys.stdin:
            name = line.strip()
            if name == "figures":
                print(json.dumps(figures(query)), flush=True)
                continue
            if query is not None:
                query.stop()
            query = queries.start(name)
            print(json.dumps(name), flush=True)
    finally:
        if query is not None:
            query.stop()
        close_session(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:] == ["real-time"])
