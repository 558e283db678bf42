"""What jobs do with journaled events before anything else: read them, parse their JSON, drop invalid ones.

Columns in, columns out; nothing is run here. Not here: what the events mean (`jobs`), how the journal is read
(`source`). Read next: `jobs.candles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.pipeline.options import journal_options
from penstock.pipeline.place import Place

SparkReader = TypeVar("SparkReader", DataFrameReader, DataStreamReader)

# A price, a quantity or a time above this is invalid: sums of smaller numbers stay finite and exact enough.
HUGE = 1e12


def stream_events(
    spark: SparkSession, place: Place, entities: Sequence[str], kinds: Sequence[str], starting: str, max_events: int
) -> DataFrame:
    """The journal as it grows; `entities` are patterns."""
    source = (
        spark.readStream.format("penstock")
        .option("entities", ",".join(entities))
        .option("kinds", ",".join(kinds))
        .option("startingOffset", starting)
        .option("maxEventsPerTrigger", str(max_events))
        .option("damageReports", str(place.damage))
    )
    return load(source, place)


def load(source: SparkReader, place: Place) -> DataFrame:
    """The journal, wherever it is read."""
    return source.options(**journal_options(place)).load()


def item_of(entity: str = "entity") -> Column:
    """The item of an entity SET/ADAPTER/ITEM; all of an entity that is made otherwise."""
    return fn.regexp_replace(fn.col(entity), r"^[^/]*/[^/]*/", "")


def order() -> Column:
    """One number that puts events in the order of their times, and those of one time in that of the journal.

    A struct would say the same, but an aggregate that holds one has to sort its rows; numbers it can hash.
    """
    micros, sequence = fn.unix_micros("timestamp").cast("decimal(19,0)"), fn.col("sequence").cast("decimal(19,0)")
    return micros * fn.lit(10**17).cast("decimal(18,0)") + sequence


def number(text: Column, *, least: float = 0.0) -> Column:
    """Text as a finite number from `least` to HUGE; null if it is not."""
    value = text.try_cast("double")
    return fn.when((value >= least) & (value <= HUGE), value)


def counted(events: DataFrame, name: str, good: str) -> DataFrame:
    """Those of which the column `good` is true. How many were not stands in the query's progress.

    `observedMetrics`: name → events, dropped.
    """
    is_good = fn.coalesce(fn.col(good), fn.lit(False))
    return (
        events.observe(name, fn.count(fn.lit(1)).alias("events"), fn.count_if(~is_good).alias("dropped"))
        .where(is_good)
        .drop(good)
    )
