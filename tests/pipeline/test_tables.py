from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as fn

from penstock.pipeline.errors import BadOption
from penstock.pipeline.publish import start_query
from penstock.pipeline.tables import ROCKSDB, STATE_STORE, TableProcessor, command_table
from tests.pipeline.world import make_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Memory:
    """What Spark keeps for one key: a value and timers. It is the handle, its value state and the clock in one."""

    def __init__(self) -> None:
        self.value: tuple[int] | None = None
        self.timers: set[int] = set()
        self.now = 1_000

    def getValueState(self, name: str, schema: str) -> Memory:  # noqa: N802
        return self

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> tuple[int] | None:
        return self.value

    def update(self, value: tuple[int]) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.timers.remove(at)

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.now


class Table:
    """One key and its processor."""

    def __init__(self, expire_millis: int | None = None) -> None:
        self.memory = Memory()
        self._processor = TableProcessor("id", "at", "gone", ["at", "price"], expire_millis)
        self._processor.init(self.memory)  # type: ignore[arg-type]

    def take(self, *rows: tuple[int | None, int, bool | None]) -> list[tuple[str, int | None]]:
        given = iter([Row(id="k", at=at, price=price, gone=gone) for at, price, gone in rows])
        return _shown(self._processor.handleInputRows(("k",), given, self.memory))  # type: ignore[arg-type]

    def pass_time(self, millis: int) -> list[tuple[str, int | None]]:
        self.memory.now += millis
        shown = []
        for at in sorted(one for one in self.memory.timers if one <= self.memory.now):
            self.memory.timers.remove(at)
            shown += _shown(self._processor.handleExpiredTimer(("k",), self.memory, None))  # type: ignore[arg-type]
        return shown


def _shown(rows: Iterator[Row]) -> list[tuple[str, int | None]]:
    found = list(rows)
    assert all(row["id"] == "k" for row in found)
    return [(row["command"], row["price"]) for row in found]


def test_a_key_is_added_then_updated_then_deleted_by_a_tombstone() -> None:
    table = Table()
    assert table.take((1, 10, False)) == [("ADD", 10)]
    assert table.take((2, 11, None)) == [("UPDATE", 11)]
    assert table.take((3, 12, True)) == [("DELETE", None)]
    assert table.take((4, 13, False)) == [("ADD", 13)]


def test_a_tombstone_for_a_key_that_is_not_there_is_nothing() -> None:
    assert Table().take((1, 10, True)) == []


def test_the_last_of_several_rows_counts() -> None:
    table = Table()
    assert table.take((3, 30, False), (None, 0, True), (1, 10, True)) == [("ADD", 30)]
    assert table.take((5, 50, True), (4, 40, False)) == [("DELETE", None)]


def test_a_key_of_which_nothing_is_heard_expires_once() -> None:
    table = Table(expire_millis=100)
    table.take((1, 10, False))
    assert table.pass_time(99) == []
    assert table.pass_time(1) == [("DELETE", None)]
    assert table.pass_time(1_000) == []
    assert table.take((2, 20, False)) == [("ADD", 20)]


def test_each_row_gives_a_key_its_time_anew() -> None:
    table = Table(expire_millis=100)
    table.take((1, 10, False))
    table.pass_time(60)
    assert table.take((2, 20, False)) == [("UPDATE", 20)]
    assert table.pass_time(60) == []
    assert table.pass_time(40) == [("DELETE", None)]


def test_a_tombstone_takes_the_timer_along() -> None:
    table = Table(expire_millis=100)
    table.take((1, 10, False))
    table.take((2, 0, True))
    assert table.memory.timers == set()
    assert table.pass_time(1_000) == []


def test_rows_come_and_go_under_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Expiry may come before the next batch on a slow machine: what each key ends with is the same."""
    rows = [("a", "1"), ("b", "1"), ("b", "gone"), ("c", "gone"), ("d", "1"), ("d", "2")]
    journal = make_journal(tmp_path / "journal", [(key, "update", value) for key, value in rows], frame=2)
    before = spark.conf.get(STATE_STORE, None)
    seen: list[tuple[str, str, str | None]] = []
    done = threading.Event()

    def each(df: DataFrame, batch: int) -> None:
        for row in df.toArrow().to_pylist():
            seen.append((row["entity"], row["command"], row["value"]))
        if len([one for one in seen if one[1] == "DELETE"]) >= 3 and {one[0] for one in seen} == {"a", "b", "d"}:
            done.set()

    events = spark.readStream.format("penstock").option("maxEventsPerTrigger", "2").load(str(journal))
    events = events.select("entity", "sequence", "value", (fn.col("value") == "gone").alias("gone"))
    with pytest.raises(BadOption, match=f"tables need {STATE_STORE}"):
        command_table(events, key="entity", order_by="sequence")
    spark.conf.set(STATE_STORE, ROCKSDB)
    try:
        with pytest.raises(BadOption, match="tombstone names the column 'value', which is not boolean"):
            command_table(events, key="entity", order_by="sequence", tombstone="value")
        table = command_table(
            events, key="entity", order_by="sequence", tombstone="gone", expire_after=timedelta(seconds=1)
        )
        query = start_query(table, each, tmp_path / "check", trigger="300 milliseconds")
        while not done.wait(0.5):
            assert query.isActive, query.exception()
        query.stop()
    finally:
        if before is None:
            spark.conf.unset(STATE_STORE)
        else:
            spark.conf.set(STATE_STORE, before)
    of: dict[str, list[Any]] = {}
    for key, command, value in seen:
        of.setdefault(key, []).append((command, value))
    assert of["a"] == [("ADD", "1"), ("DELETE", None)]
    assert of["b"] == [("ADD", "1"), ("DELETE", None)]
    # Both of d's rows are in one batch: the later one counts.
    assert of["d"] == [("ADD", "2"), ("DELETE", None)]
    assert "c" not in of
