"""The job `movers`: the stocks that gained and lost most since the window (a day) began, as the COMMAND item `movers`.

Spark keeps each stock's first and last price; who is in the table follows from all of them, which a ledger keeps from
batch to batch. A row that leaves is deleted, one that stays as it was is not sent again.
Read next: `candles`, which counts windows the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.events import counted, item_of, number, stream_events
from penstock.pipeline.ledger import BatchLedger
from penstock.pipeline.place import Place
from penstock.pipeline.publish import ONCE, BatchPublisher, query_id, start_query
from penstock.pipeline.target import Target
from penstock.pipeline.windows import SIZE, START, with_windows

NAME = "movers"
ITEM = "movers"

# What the table has been told of a stock: side and rank are null for one that is not in it.
_STANDINGS = pa.schema(
    [
        ("stock", pa.string()),
        ("name", pa.string()),
        (START, pa.timestamp("us", "UTC")),
        ("price", pa.float64()),
        ("change", pa.float64()),
        ("side", pa.string()),
        ("rank", pa.int64()),
    ]
)
_ROWS = pa.schema(
    [
        ("key", pa.string()),
        ("command", pa.string()),
        ("stock", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("change", pa.float64()),
        ("side", pa.string()),
        ("rank", pa.int64()),
    ]
)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[pipeline.jobs.movers]`; the defaults are for the demo."""

    entities: tuple[str, ...] = ("WELCOME/STOCKS/*",)
    price: str = "last_price"
    name: str = "stock_name"
    # Since when a change counts: windows begin at midnight UTC for 1d.
    window: str = "1d"
    # Rows for gainers, and as many for losers.
    count: int = 5
    delay_seconds: float = 60.0
    adapter_set: str = "WELCOME"
    adapter: str = "MOVERS"
    starting: str = "earliest"
    # A table that people read need not change more often.
    trigger: str = "1 second"
    max_events: int = 100_000


def transform(events: DataFrame, settings: Settings) -> DataFrame:
    """A row for each stock and window: its name, last price, and change in percent since the window's first price.

    What has no price, or one that is not a number, not positive or huge, is dropped and counted (`observedMetrics`).
    """
    texts = fn.from_json("value", f"`{settings.price}` string, `{settings.name}` string")
    trades = events.select(item_of().alias("stock"), "timestamp", "sequence", texts.alias("_texts")).select(
        "stock",
        "timestamp",
        "sequence",
        number(fn.col("_texts")[settings.price]).alias("price"),
        fn.col("_texts")[settings.name].alias("name"),
    )
    good = counted(trades.withColumn("_good", fn.col("price") > 0), NAME, "_good")
    delay = timedelta(seconds=settings.delay_seconds)
    place = fn.struct("timestamp", "sequence")
    figures = (
        with_windows(good, (settings.window,), delay)
        .groupBy(SIZE, "window", "stock")
        .agg(
            # An event may be without a name; the last one that has it counts.
            fn.max_by("name", fn.when(fn.col("name").isNotNull(), place)).alias("name"),
            fn.min_by("price", place).alias("_open"),
            fn.max_by("price", place).alias("price"),
        )
    )
    change = (fn.col("price") - fn.col("_open")) / fn.col("_open") * 100
    return figures.select("stock", "name", fn.col("window.start").alias(START), "price", change.alias("change"))


def start(spark: SparkSession, place: Place, settings: Settings, *, once: bool = False) -> StreamingQuery:
    """The query runs until it is stopped; `once`: until it has what the journal holds now."""
    events = stream_events(spark, place, settings.entities, ("update",), settings.starting, settings.max_events)
    checkpoint = place.checkpoint(NAME)
    publisher = MoversPublisher(checkpoint, settings.count, target(place, settings))
    trigger = ONCE if once else settings.trigger
    return start_query(transform(events, settings), publisher, checkpoint, trigger=trigger, query_name=NAME)


def target(place: Place, settings: Settings) -> Target:
    return Target.at(
        place,
        settings.adapter_set,
        settings.adapter,
        item_template=ITEM,
        mode="COMMAND",
        key="key",
        command="command",
    )


def outputs(result: pa.Table, place: Place, settings: Settings) -> list[tuple[Target, pa.Table]]:
    """What `backfill` publishes of a batch's result: the table as of the range's last window."""
    return [(target(place, settings), stand(None, result, settings.count)[0])]


def stand(before: pa.Table | None, updated: pa.Table, count: int) -> tuple[pa.Table, pa.Table]:
    """What changes in the table, and what the next batch begins with. Pure."""
    known: dict[str, dict[str, Any]] = {row["stock"]: row for row in (before.to_pylist() if before else [])}
    shown = {stock: row for stock, row in known.items() if row["rank"] is not None}
    current = dict(known)
    for row in sorted(updated.to_pylist(), key=lambda row: row[START]):
        if row["stock"] not in current or row[START] >= current[row["stock"]][START]:
            current[row["stock"]] = row
    # Yesterday's changes are none of today's.
    newest = max((row[START] for row in current.values()), default=None)
    rows = [row for row in current.values() if row[START] == newest]
    gainers = sorted((row for row in rows if row["change"] > 0), key=lambda row: (-row["change"], row["stock"]))
    losers = sorted((row for row in rows if row["change"] < 0), key=lambda row: (row["change"], row["stock"]))
    places = {row["stock"]: ("gainer", rank) for rank, row in enumerate(gainers[:count], start=1)}
    places |= {row["stock"]: ("loser", rank) for rank, row in enumerate(losers[:count], start=1)}
    left = []
    changes: list[dict[str, Any]] = [
        {"key": stock, "command": "DELETE"} for stock in sorted(shown) if stock not in places
    ]
    for row in rows:
        side, rank = places.get(row["stock"], (None, None))
        left.append({**row, "side": side, "rank": rank})
    for row in sorted((row for row in left if row["rank"] is not None), key=lambda row: (row["side"], row["rank"])):
        sent = _sent(row)
        if row["stock"] not in shown or sent != _sent(shown[row["stock"]]):
            changes.append({"key": row["stock"], "command": None, **sent})
    return pa.Table.from_pylist(changes, _ROWS), pa.Table.from_pylist(left, _STANDINGS)


def _sent(row: dict[str, Any]) -> dict[str, Any]:
    sent = {name: row[name] for name in ("stock", "name", "price", "side", "rank")}
    return {**sent, "change": round(row["change"], 2)}


@dataclass
class MoversPublisher:
    """What Spark calls with the stocks that each batch changed."""

    checkpoint: str
    count: int
    target: Target
    _publisher: BatchPublisher | None = field(default=None, init=False, repr=False)
    _query: str | None = field(default=None, init=False, repr=False)

    def __call__(self, df: DataFrame, batch: int) -> None:
        updated = df.toArrow()
        if self._query is None:
            self._query = query_id(self.checkpoint, df)
        self.take(self._query, batch, updated)

    def take(self, query: str, batch: int, updated: pa.Table) -> None:
        """Publish what follows from the batch; run again with the same rows it publishes the same."""
        ledger = BatchLedger(self.checkpoint, "standings")
        changes, left = stand(ledger.before(batch), updated, self.count)
        if self._publisher is None:
            self._publisher = BatchPublisher(self.target, self.checkpoint)
        self._publisher.send(query, batch, changes)
        ledger.leave(batch, left)
