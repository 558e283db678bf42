"""The job `traffic`: how much each controller sends, how long it takes to arrive, and where it falls silent.

What is expected of a journaled payload: `entity` is the controller (`TLEX/TLEX/ID`), `kind` is payload, `timestamp`
is when it was received, `value` is the payload, base64 or a JSON object. When it was sent stands in that object as
`sent`, or else in the headers' `origin`: milliseconds since 1970, as a number or text, or a time in ISO 8601.
Out come MERGE items traffic.{size}.{controller}, the window as it grows. Read next: `penstock.pipeline.windows`.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.events import counted, stream_events
from penstock.pipeline.place import Place
from penstock.pipeline.publish import ONCE, start_query
from penstock.pipeline.target import Target
from penstock.pipeline.windows import (
    END,
    NEWEST,
    SIZE,
    START,
    WindowPublisher,
    seconds_of,
    window_columns,
    with_windows,
)

NAME = "traffic"
KEYS = ("controller",)
FIELDS = (
    "controller",
    SIZE,
    START,
    END,
    "payloads",
    "rate",
    "bytes",
    "latency_min",
    "latency_mean",
    "latency_max",
    "untimed",
    "missing",
    "silence",
)

# A window is divided into so many slots, one bit each, to see when nothing came: bits can be merged in any order.
SLOTS = 60


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[pipeline.jobs.traffic]`."""

    entities: tuple[str, ...] = ("TLEX/TLEX/*",)
    kinds: tuple[str, ...] = ("payload",)
    # Left out of the controller's name where an entity begins with it.
    prefix: str = "TLEX/TLEX/"
    sizes: tuple[str, ...] = ("10s", "1m")
    delay_seconds: float = 2.0
    # A payload that seems to have taken longer, or to have come before it was sent by more: no latency, but counted.
    max_latency_seconds: float = 600.0
    adapter_set: str = "WELCOME"
    adapter: str = "TRAFFIC"
    starting: str = "earliest"
    trigger: str = "1 second"
    max_events: int = 100_000


def transform(events: DataFrame, settings: Settings) -> DataFrame:
    """A row for each controller, size and window; the same for a stream in update mode and for a batch.

    rate: payloads a second over the whole window. bytes: of the values as journaled. latency_*: milliseconds, over
    those that say when they were sent; the others are `untimed`. missing: revisions between the first and the last
    that are not there, so lost or of other kinds. silence: seconds, the longest time without a payload, to a sixtieth
    of the window. Events without a value are dropped and counted (`observedMetrics`, traffic).
    """
    received = fn.unix_micros("timestamp") / fn.lit(1_000.0)
    latency = received - _millis(fn.coalesce(_text("value", "sent"), _text("headers", "origin")))
    limit = settings.max_latency_seconds * 1_000
    payloads = events.select(
        fn.regexp_replace("entity", f"^{_literal(settings.prefix)}", "").alias("controller"),
        "timestamp",
        "revision",
        fn.octet_length("value").cast("long").alias("size_bytes"),
        fn.when((latency >= -limit) & (latency <= limit), latency).alias("latency"),
        fn.col("value").isNotNull().alias("_good"),
    )
    delay = timedelta(seconds=settings.delay_seconds)
    each = with_windows(counted(payloads, NAME, "_good"), settings.sizes, delay)
    # Where in its window an event is, in sixtieths; never 60, since the window's end is not part of it.
    begin, end = fn.unix_micros(fn.col("window.start")), fn.unix_micros(fn.col("window.end"))
    slot = fn.floor((fn.unix_micros("timestamp") - begin) * SLOTS / (end - begin)).cast("int")
    figures = (
        each.withColumn("_slot", slot)
        .groupBy(SIZE, "window", "controller")
        .agg(
            fn.count(fn.lit(1)).alias("payloads"),
            fn.sum("size_bytes").alias("bytes"),
            fn.min("latency").alias("latency_min"),
            fn.avg("latency").alias("latency_mean"),
            fn.max("latency").alias("latency_max"),
            fn.count_if(fn.col("latency").isNull()).alias("untimed"),
            (fn.max("revision") - fn.min("revision") + 1 - fn.count(fn.lit(1))).alias("missing"),
            fn.bit_or(fn.expr("shiftleft(1L, _slot)")).alias("_slots"),
            fn.max("timestamp").alias(NEWEST),
        )
    )
    seconds = fn.lit(None).cast("int")
    for size in settings.sizes:
        seconds = fn.when(fn.col(SIZE) == size, fn.lit(seconds_of(size))).otherwise(seconds)
    # "1001" → ["", "00", ""] → 2 slots.
    runs = fn.split(fn.lpad(fn.bin("_slots"), SLOTS, "0"), "1")
    longest = fn.array_max(fn.transform(runs, lambda run: fn.length(run)))
    return figures.select(
        "controller",
        *window_columns(),
        "payloads",
        (fn.col("payloads") / seconds).alias("rate"),
        "bytes",
        "latency_min",
        "latency_mean",
        "latency_max",
        "untimed",
        "missing",
        (longest * seconds / SLOTS).alias("silence"),
        NEWEST,
    )


def start(spark: SparkSession, place: Place, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """The query runs until it is stopped; `once`: until it has what the journal holds now."""
    events = stream_events(spark, place, settings.entities, settings.kinds, settings.starting, settings.max_events)
    checkpoint = place.checkpoint(NAME)
    delay = timedelta(seconds=settings.delay_seconds)
    publisher = WindowPublisher(checkpoint, KEYS, delay, target(place, settings), None)
    trigger = ONCE if once else settings.trigger
    return start_query(transform(events, settings), publisher, checkpoint, trigger=trigger, query_name=NAME)


def target(place: Place, settings: Settings) -> Target:
    return Target.at(
        place,
        settings.adapter_set,
        settings.adapter,
        item_template="traffic.{size}.{controller}",
        fields=FIELDS,
    )


def outputs(result: pa.Table, place: Place, settings: Settings) -> list[tuple[Target, pa.Table]]:
    """What `backfill` publishes of a batch's result: every window, the newest last."""
    return [(target(place, settings), result.sort_by([(END, "ascending"), ("controller", "ascending")]))]


def _text(column: str, name: str) -> Column:
    return fn.get_json_object(column, f"$.{name}")


def _millis(text: Column) -> Column:
    """Since 1970; null for what is neither a number nor a time."""
    return fn.coalesce(text.try_cast("double"), fn.unix_micros(fn.try_to_timestamp(text)) / fn.lit(1_000.0))


def _literal(text: str) -> str:
    r"""For a regular expression of Java's, which knows \x{…} for any character."""
    return "".join(one if one.isalnum() and one.isascii() else f"\\x{{{ord(one):X}}}" for one in text)
