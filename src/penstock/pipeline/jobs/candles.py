"""The job `candles`: open, high, low, close, volume and volume-weighted price of each stock over several windows.

Out of updates with the fields last_price and last_quantity come MERGE items candle.{size}.{stock}, the window as it
grows, and DISTINCT items candles.{size}.{stock}, a row for each window once no event can change it any more.
Read next: `penstock.pipeline.windows`, for what "closed" means.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.events import counted, item_of, number, order, stream_events
from penstock.pipeline.place import Place
from penstock.pipeline.publish import ONCE, start_query
from penstock.pipeline.target import Target
from penstock.pipeline.windows import END, NEWEST, SIZE, START, WindowPublisher, window_columns, with_windows

NAME = "candles"
KEYS = ("stock",)
FIELDS = ("stock", SIZE, START, END, "open", "high", "low", "close", "volume", "vwap", "trades")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[pipeline.jobs.candles]`; the defaults are for the demo."""

    entities: tuple[str, ...] = ("WELCOME/STOCKS/*",)
    price: str = "last_price"
    quantity: str = "last_quantity"
    sizes: tuple[str, ...] = ("1s", "10s", "1m")
    # How late an event may be, by its own time, and still be counted. Closed candles come so much later.
    delay_seconds: float = 2.0
    adapter_set: str = "WELCOME"
    adapter: str = "CANDLES"
    # Where a query without a checkpoint begins: earliest, latest, a sequence number or a time.
    starting: str = "earliest"
    trigger: str = "0 seconds"
    max_events: int = 100_000

    @property
    def delay(self) -> timedelta:
        return timedelta(seconds=self.delay_seconds)


def transform(events: DataFrame, settings: Settings) -> DataFrame:
    """A row for each stock, size and window; the same for a stream, in update or append mode, and for a batch.

    An event without a price, or with a price or a quantity that is not a number, negative or huge, is dropped and
    counted (`observedMetrics`, candles). One without a quantity is a trade of volume 0.
    """
    texts = fn.from_json("value", f"`{settings.price}` string, `{settings.quantity}` string")
    trades = events.select(item_of().alias("stock"), "timestamp", "sequence", texts.alias("_texts")).select(
        "stock",
        "timestamp",
        "sequence",
        number(fn.col("_texts")[settings.price]).alias("price"),
        number(fn.coalesce(fn.col("_texts")[settings.quantity], fn.lit("0"))).alias("quantity"),
    )
    trades = trades.withColumn("_good", fn.col("price").isNotNull() & fn.col("quantity").isNotNull())
    grouped = with_windows(counted(trades, NAME, "_good"), settings.sizes, settings.delay).groupBy(
        SIZE, "window", "stock"
    )
    figures = grouped.agg(
        fn.min_by("price", order()).alias("open"),
        fn.max("price").alias("high"),
        fn.min("price").alias("low"),
        fn.max_by("price", order()).alias("close"),
        fn.sum("quantity").alias("volume"),
        fn.sum(fn.col("price") * fn.col("quantity")).alias("_turnover"),
        fn.count(fn.lit(1)).alias("trades"),
        fn.max("timestamp").alias(NEWEST),
    )
    # No price is weighted by nothing.
    vwap = fn.when(fn.col("volume") > 0, fn.col("_turnover") / fn.col("volume"))
    return figures.select(
        "stock", *window_columns(), "open", "high", "low", "close", "volume", vwap.alias("vwap"), "trades", NEWEST
    )


def start(spark: SparkSession, place: Place, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """The query runs until it is stopped; `once`: until it has what the journal holds now."""
    events = stream_events(spark, place, settings.entities, ("update",), settings.starting, settings.max_events)
    checkpoint = place.checkpoint(NAME)
    growing, closed = targets(place, settings)
    publisher = WindowPublisher(checkpoint, KEYS, settings.delay, growing, closed)
    trigger = ONCE if once else settings.trigger
    return start_query(transform(events, settings), publisher, checkpoint, trigger=trigger, query_name=NAME)


def targets(place: Place, settings: Settings) -> tuple[Target, Target]:
    """For candles as they grow, and for closed ones."""

    def target(name: str, mode: str) -> Target:
        return Target.at(
            place,
            settings.adapter_set,
            settings.adapter,
            item_template=f"{name}.{{size}}.{{stock}}",
            mode=mode,
            fields=FIELDS,
        )

    return target("candle", "MERGE"), target("candles", "DISTINCT")


def outputs(result: pa.Table, place: Place, settings: Settings) -> list[tuple[Target, pa.Table]]:
    """What `backfill` publishes of a batch's result: every candle is closed."""
    closed = targets(place, settings)[1]
    return [(closed, result.sort_by([(END, "ascending"), (SIZE, "ascending"), ("stock", "ascending")]))]
