"""Windows of several lengths in one query: as they grow, and once more when they are closed.

A window is closed when the newest event of *earlier* batches is `delay` past its end: that is when Spark forgets it and
takes no more events for it. Spark does not say which windows it forgets, so they are kept a second time here, in a
ledger. Nothing is decided from memory or by the clock. Read next: `jobs.candles`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from penstock.pipeline.errors import BadOption
from penstock.pipeline.ledger import BatchLedger
from penstock.pipeline.publish import BatchPublisher, query_id
from penstock.pipeline.target import Target

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SIZE = re.compile(r"([1-9]\d{0,5})([smhd])")

# How Spark marks the column that the watermark is about. Its own `window` copies it, and so does `with_windows`.
_MARK = "spark.watermarkDelayMs"

# Columns that windows carry beside what a job makes of them.
SIZE, START, END, NEWEST = "size", "start", "end", "newest"

# What a ledger's table says beside its rows, in microseconds: the newest event seen, up to where windows are closed.
_SEEN = b"penstock.seen"
_CLOSED = b"penstock.closed"


def seconds_of(size: str) -> int:
    """`10s`, `1m`, `2h`, `1d`; raises BadOption."""
    found = _SIZE.fullmatch(size)
    if found is None:
        raise BadOption(f"window size is {size!r}; expected a whole number and s, m, h or d, such as 10s")
    return int(found[1]) * _UNITS[found[2]]


def with_windows(events: DataFrame, sizes: tuple[str, ...], delay: timedelta) -> DataFrame:
    """Each event once for every size, with the columns `size` and `window` (start, end) to group by.

    Spark's own `window` allows one size for each query. Here the windows are computed, and marked as that would do, so
    that Spark forgets them `delay` after their end.
    """
    if not sizes:
        raise BadOption("sizes is empty; expected window sizes such as 1s, 10s, 1m")
    if delay < timedelta(0):
        raise BadOption(f"delay is {delay}; it cannot be negative")
    millis = delay // timedelta(milliseconds=1)
    listed = fn.array(
        *[fn.struct(fn.lit(one).alias("size"), fn.lit(seconds_of(one)).alias("seconds")) for one in sizes]
    )
    each = events.withWatermark("timestamp", f"{millis} milliseconds").withColumn("_size", fn.explode(listed))
    # Rounded down, also before 1970.
    epoch = fn.unix_seconds("timestamp")
    begin = epoch - fn.pmod(epoch, fn.col("_size.seconds"))
    window = fn.struct(
        fn.timestamp_seconds(begin).alias("start"),
        fn.timestamp_seconds(begin + fn.col("_size.seconds")).alias("end"),
    )
    return each.select("*", fn.col("_size.size").alias(SIZE), window.alias("window", metadata={_MARK: millis})).drop(
        "_size"
    )


def window_columns() -> list[Column]:
    """To select after grouping by `size`, `window`, …"""
    return [fn.col(SIZE), fn.col("window.start").alias(START), fn.col("window.end").alias(END)]


@dataclass(frozen=True)
class WindowStep:
    """What a batch makes of the windows: those that grew and are the newest of their kind, those that are closed."""

    growing: pa.Table
    closed: pa.Table
    # What the next batch begins with.
    left: pa.Table


def advance(before: pa.Table | None, updated: pa.Table, keys: tuple[str, ...], delay: timedelta) -> WindowStep:
    """Pure. `updated` are the windows that the batch changed, whole; `before` is `left` of the batch ahead of it."""
    seen = _moment(before, _SEEN)
    closed_until = _moment(before, _CLOSED)
    latest = pc.max(_micros(updated.column(NEWEST))).as_py()
    now_seen = max((one for one in (seen, latest) if one is not None), default=None)
    if closed_until is not None:
        # Published as closed, and so it stays. Spark has dropped such events itself; this is only to be sure.
        updated = updated.filter(pc.greater(_micros(updated.column(END)), closed_until))
    merged = updated
    if before is not None:
        merged = pa.concat_tables([updated, before.replace_schema_metadata(None).cast(updated.schema)])
        merged = _first_of_each(merged, (SIZE, START, *keys))
    growing = _newest_of_each(updated, merged, keys)
    # Not `now_seen`: events of this batch may close windows with the next one only.
    watermark = None if seen is None else (seen // 1_000 - delay // timedelta(milliseconds=1)) * 1_000
    if watermark is None:
        closed, left = merged.slice(0, 0), merged
    else:
        over = pc.less_equal(_micros(merged.column(END)), watermark)
        closed, left = merged.filter(over), merged.filter(pc.invert(over))
        closed_until = max(watermark, closed_until or watermark)
    metadata = {name: str(one) for name, one in ((_SEEN, now_seen), (_CLOSED, closed_until)) if one is not None}
    order = [(name, "ascending") for name in (END, SIZE, *keys)]
    return WindowStep(growing.sort_by(order), closed.sort_by(order), left.replace_schema_metadata(metadata or None))


def _moment(table: pa.Table | None, name: bytes) -> int | None:
    found = None if table is None else (table.schema.metadata or {}).get(name)
    return None if found is None else int(found)


def _micros(column: Any) -> Any:
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _first_of_each(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """One row for each combination of values: the first."""
    if table.num_rows == 0:
        return table
    numbered = table.select(list(names)).append_column("_row", pa.array(range(table.num_rows), pa.int64()))
    rows = numbered.group_by(list(names)).aggregate([("_row", "min")]).column("_row_min")
    return table.take(rows)


def _newest_of_each(updated: pa.Table, merged: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Those of the updated windows after which none has begun: a late event must not bring back an older window."""
    if updated.num_rows == 0:
        return updated
    names = [SIZE, *keys]
    last = merged.group_by(names).aggregate([(START, "max")]).rename_columns([*names, START])
    return updated.join(last, [*names, START], join_type="left semi")


@dataclass
class WindowPublisher:
    """What Spark calls with the windows of each batch, in update mode. Either target may be missing."""

    checkpoint: str
    keys: tuple[str, ...]
    delay: timedelta
    growing: Target | None
    closed: Target | None
    _publishers: dict[str, BatchPublisher] = field(default_factory=dict, init=False, repr=False)
    _query: str | None = field(default=None, init=False, repr=False)

    def __call__(self, df: DataFrame, batch: int) -> None:
        updated = df.toArrow()
        if self._query is None:
            self._query = query_id(self.checkpoint, df)
        self.take(self._query, batch, updated)

    def take(self, query: str, batch: int, updated: pa.Table) -> WindowStep:
        """Publish what follows from the batch; run again with the same rows it publishes the same."""
        ledger = BatchLedger(self.checkpoint, "windows")
        step = advance(ledger.before(batch), updated, self.keys, self.delay)
        # Each has its own count of batches at the server: one may be empty where the other is not.
        for name, target, table in (("closed", self.closed, step.closed), ("growing", self.growing, step.growing)):
            if target is not None:
                self._publisher(name, target).send(f"{query}.{name}", batch, table)
        ledger.leave(batch, step.left)
        return step

    def _publisher(self, name: str, target: Target) -> BatchPublisher:
        if name not in self._publishers:
            self._publishers[name] = BatchPublisher(target, self.checkpoint)
        return self._publishers[name]
