"""Arrow tables as events."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.adapters.arrow import rows
from penstock.kernel.ports import Value
from tests.adapters.stage import Stage
from tests.adapters.test_publisher import Quiet, taken_in


def events(table: pa.Table, item: str) -> list[tuple[Value, dict[str, Value]]]:
    fields, found = rows(table, item)
    return [(name, dict(zip(fields, values, strict=True))) for name, *values in found]


def test_each_row_is_an_event_of_the_item_it_names() -> None:
    table = pa.table({"x": [1, 2], "name": ["a", "b"], "y": ["p", None]})
    assert events(table, "name") == [("a", {"x": "1", "y": "p"}), ("b", {"x": "2", "y": None})]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(["x"]), "x"),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([""]), ""),
        (pa.array([True]), "true"),
        (pa.array([-5], pa.int8()), "-5"),
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([2.5]), "2.5"),
        (pa.array([Decimal("1.10")]), "1.10"),
        (pa.array([date(2026, 1, 31)]), "2026-01-31"),
        (pa.array([Decimal("0E-10")]), "0.0000000000"),
        (pa.array([0.1]), "0.1"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([3.0], pa.float32()), "3.0"),
        (pa.array([datetime(2026, 1, 31, 9, 30, tzinfo=UTC)]), "2026-01-31T09:30:00.000Z"),
        (pa.array([1_769_851_800_000], pa.timestamp("ms")), "2026-01-31T09:30:00.000Z"),
        (
            pa.array([datetime(2026, 1, 31, 9, 30, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")),
            "2026-01-31T09:30:00.000Z",
        ),
        (pa.array([datetime(2026, 1, 31, 9, 30, 0, 120_000, tzinfo=UTC)]), "2026-01-31T09:30:00.120Z"),
        (pa.array([datetime(2026, 1, 31, 9, 30, 0, 12, tzinfo=UTC)]), "2026-01-31T09:30:00.000012Z"),
        (pa.array([1], pa.timestamp("s")), "1970-01-01T00:00:01.000Z"),
        (pa.array([-1], pa.timestamp("ns")), "1969-12-31T23:59:59.999999999Z"),
        (pa.array(["x"], pa.string_view()), "x"),
        (pa.array([None], pa.null()), None),
        (pa.array([None], pa.int64()), None),
        (pa.array([None], pa.float64()), None),
    ],
)
def test_every_type_with_a_text_is_written_out(column: pa.Array, text: str | None) -> None:
    assert events(pa.table({"i": ["a"], "x": column}), "i") == [("a", {"x": text})]


def test_items_may_be_numbers_and_tables_may_be_empty() -> None:
    assert events(pa.table({"i": [7], "x": ["1"]}), "i") == [("7", {"x": "1"})]
    assert events(pa.table({"i": pa.array([], pa.string()), "x": pa.array([], pa.string())}), "i") == []
    assert events(pa.table({"i": ["a"]}), "i") == [("a", {})]


def test_a_table_of_several_chunks_is_one_table() -> None:
    batches = [pa.record_batch({"i": ["a"], "x": ["1"]}), pa.record_batch({"i": ["b"], "x": ["2"]})]
    assert events(pa.Table.from_batches(batches), "i") == [("a", {"x": "1"}), ("b", {"x": "2"})]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"x": ["1"]}), "no column i; the table has x"),
        (pa.table({"i": ["a", None], "x": ["1", "2"]}), "column i has a row without a value: row 2"),
        (pa.table({"i": ["a"], "x": [[1]]}), "column x is of type list"),
        (pa.table({"i": ["a"], "x": pa.array([2**62], pa.timestamp("us"))}), "a time is outside of the years"),
        (pa.table({"i": ["a"], "x": [{"y": 1}]}), "column x is of type struct"),
        (pa.table({"i": ["a"], "x": [b"1"]}), "column x is of type binary"),
        (pa.Table.from_arrays([pa.array(["a"])] * 3, ["i", "x", "x"]), "column x appears twice"),
    ],
)
def test_a_table_that_cannot_be_events_is_refused_before_the_first_one(table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows(table, "i")


@pytest.mark.parametrize("from_thread", [False, True])
def test_a_table_reaches_clients_from_the_loop_and_from_threads(from_thread: bool) -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a b", "x")
            for table in (pa.table({"i": ["a"], "x": [1]}), pa.record_batch({"i": ["b"], "x": [2]})):
                if from_thread:
                    await asyncio.to_thread(stage.adapter.update_table, table, "i")
                else:
                    stage.adapter.update_table(table, "i")
            await taken_in(stage)
            assert watcher.lines() == ["U,1,1,1", "U,1,2,2"]

    asyncio.run(run())
