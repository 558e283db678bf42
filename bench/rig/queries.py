"""Spark in a process of its own, which runs one query after the other as the benchmark `latency` asks for it.

A word for each line of standard input: the name of a query and numbers for it, which replaces the one before;
`figures`, answered by one line of JSON: how long the latest batches took, and the parts of that, as Spark tells; or
`closed`, the start of the newest closed candle. `plain` queries read Spark's own sources, and the driver collects their
rows or nobody does: of Penstock they have the settings of the session, and candles their windows. With `real-time` as
the last argument the session has the jar for it. Not here: events and clients (`bench.scenarios.latency`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline import publish_stream
from penstock.pipeline.jobs import candles
from penstock.pipeline.realtime import publish_real_time, real_time_events
from penstock.pipeline.session import close_session, open_session

# Rows a second of plain queries, and items: as many as the benchmark posts.
RATE = 200
ITEMS = 50
# Of candles.
STOCKS = 100


class Queries:
    """Each has a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path, api: str, token: str) -> None:
        self._spark = spark
        self._folder = folder
        self._api = api
        self._token = token
        self._started = 0
        # When the newest closed candle begins, in seconds since 1970.
        self.closed = 0.0

    def start(self, name: str, *numbers: int) -> StreamingQuery:
        query: StreamingQuery = getattr(self, name.replace("-", "_"))(*numbers)
        return query

    def plain(self) -> StreamingQuery:
        """A stateless query whose rows nobody reads."""
        return self._noop(self._numbers(self._rate()), "append")

    def plain_collected(self) -> StreamingQuery:
        """The driver collects its rows."""
        return self._collected(self._numbers(self._rate()), "append")

    def plain_aggregate(self) -> StreamingQuery:
        return self._collected(self._totals(self._numbers(self._rate())), "update")

    def plain_candles(self, trades: int, millis: int) -> StreamingQuery:
        """Candles as they grow: batches of so many trades, the times of which go on by so much."""
        batches = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", trades)
        rows = batches.option("advanceMillisPerBatch", millis).load()
        return self._collected(self._candles(rows), "update")

    def plain_closed_candles(self, rate: int) -> StreamingQuery:
        """Candles when they are closed, of so many trades a second."""

        def see(batch: DataFrame, number: int) -> None:
            starts = batch.select(fn.unix_millis("start").alias("start")).toArrow().column("start").to_pylist()
            self.closed = max(starts, default=self.closed * 1_000) / 1_000

        rows = self._spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        return self._each(self._candles(rows), "append", see)

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

    def _candles(self, rows: DataFrame) -> DataFrame:
        """As the job makes them of the trades that the benchmarks post."""
        stock = (fn.col("value") % STOCKS).cast("string")
        trade = fn.format_string('{"last_price":"%d","last_quantity":"1"}', fn.col("value"))
        trades = rows.select(
            fn.concat(fn.lit("BENCH/TRADES/t"), stock).alias("entity"),
            "timestamp",
            fn.col("value").alias("sequence"),
            trade.alias("value"),
        )
        return candles.transform(trades, candles.Settings())

    def _noop(self, rows: DataFrame, mode: str) -> StreamingQuery:
        return rows.writeStream.outputMode(mode).format("noop").option("checkpointLocation", self._checkpoint()).start()

    def _collected(self, rows: DataFrame, mode: str) -> StreamingQuery:
        def collect(batch: DataFrame, number: int) -> None:
            batch.toArrow()

        return self._each(rows, mode, collect)

    def _each(self, rows: DataFrame, mode: str, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        stream = rows.writeStream.outputMode(mode).foreachBatch(take)
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


def check(query: StreamingQuery | None) -> None:
    error = None if query is None else query.exception()
    if error is not None:
        raise SystemExit(str(error))


def figures(query: StreamingQuery | None) -> list[dict[str, int]]:
    if query is None:
        return []
    return [dict(one.durationMs) for one in query.recentProgress if one.numInputRows > 0]


def main(folder: Path, api: str, token: str, real_time: bool) -> None:
    # More than a query has batches in a run: what is measured is those that have come since the warm-up.
    settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
    spark = open_session("bench", folder / "cache", settings=settings, real_time=real_time)
    query: StreamingQuery | None = None
    queries = Queries(spark, folder, api, token)
    try:
        for line in sys.stdin:
            name, *numbers = line.split()
            check(query)
            if name in ("figures", "closed"):
                print(json.dumps(figures(query) if name == "figures" else queries.closed), flush=True)
                continue
            if query is not None:
                query.stop()
            query = queries.start(name, *map(int, numbers))
            print(json.dumps(name), flush=True)
    finally:
        if query is not None:
            query.stop()
        close_session(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:] == ["real-time"])
