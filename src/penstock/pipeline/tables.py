"""COMMAND tables whose rows also go away: by a tombstone, or because nothing has been heard of a key for some time.

Spark's aggregates never delete, and the server tells ADD from UPDATE by itself: only who needs DELETE needs this. It
wants the RocksDB state store, and a trigger that is not 0 where rows expire: such a query runs a batch each time.
Read next: docs/pipeline.md, "Tables".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from penstock.pipeline.errors import BadOption

COMMAND = "command"

# `transformWithState` works with this one only. Put into the session before the query starts.
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def command_table(
    df: DataFrame,
    *,
    key: str,
    order_by: str,
    tombstone: str | None = None,
    expire_after: timedelta | None = None,
) -> DataFrame:
    """The rows with a column `command`: ADD for a key that is new, UPDATE, DELETE; in update mode.

    Of several rows of a key in one batch the one with the greatest `order_by` counts. Where the boolean column
    `tombstone` is true the key goes away; `expire_after` its last row it does so by itself, by Spark's clock. A DELETE
    has the key and nulls. Rows without a key are refused by the server, as null keys.
    """
    columns = df.columns
    for option, name in (("key", key), ("order_by", order_by), ("tombstone", tombstone)):
        if name is not None and name not in columns:
            raise BadOption(f"{option} names the column {name!r}; the DataFrame has {', '.join(columns)}")
    if COMMAND in columns:
        raise BadOption(f"the DataFrame has a column {COMMAND!r}, which is the one that is added; rename it")
    if tombstone is not None and not isinstance(df.schema[tombstone].dataType, BooleanType):
        raise BadOption(f"tombstone names the column {tombstone!r}, which is not boolean")
    if expire_after is not None and expire_after <= timedelta(0):
        raise BadOption(f"expire_after is {expire_after}; it must be greater than 0")
    spark = df.sparkSession
    if spark.conf.get(STATE_STORE, "") != ROCKSDB:
        raise BadOption(f"tables need {STATE_STORE} = {ROCKSDB}: set it in the session, or in [pipeline.spark]")
    kept = [name for name in columns if name not in (key, tombstone)]
    schema = StructType(
        [df.schema[key], StructField(COMMAND, StringType(), nullable=False)]
        + [StructField(name, df.schema[name].dataType) for name in kept]
    )
    millis = None if expire_after is None else max(1, expire_after // timedelta(milliseconds=1))
    processor = TableProcessor(key, order_by, tombstone, kept, millis)
    mode = "none" if millis is None else "processingTime"
    return df.groupBy(key).transformWithState(processor, schema, "Update", mode)


class TableProcessor(StatefulProcessor):
    """What is known of one key: that it is in the table, and when it leaves."""

    def __init__(
        self, key: str, order_by: str, tombstone: str | None, kept: list[str], expire_millis: int | None
    ) -> None:
        self._key = key
        self._order_by = order_by
        self._tombstone = tombstone
        self._kept = kept
        self._expire_millis = expire_millis

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # 0: it stays until it is deleted.
        self._deadline = handle.getValueState("deadline", "at long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        last = max(rows, key=self._order)
        known = self._deadline.exists()
        if known and self._expire_millis is not None:
            found: Any = self._deadline.get()
            self._handle.deleteTimer(found[0])
        if self._tombstone is not None and last[self._tombstone]:
            if known:
                self._deadline.clear()
                yield self._row(key[0], "DELETE")
            return
        at = 0
        if self._expire_millis is not None:
            at = timerValues.getCurrentProcessingTimeInMs() + self._expire_millis
            self._handle.registerTimer(at)
        self._deadline.update((at,))
        yield self._row(key[0], "UPDATE" if known else "ADD", last)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        if self._deadline.exists():
            self._deadline.clear()
            yield self._row(key[0], "DELETE")

    def _order(self, row: Row) -> tuple[bool, Any]:
        """Nulls first."""
        value = row[self._order_by]
        return value is not None, value

    def _row(self, key: Any, command: str, row: Row | None = None) -> Row:
        values = {name: None if row is None else row[name] for name in self._kept}
        return Row(**{self._key: key, COMMAND: command}, **values)
