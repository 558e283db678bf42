from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.pipeline.place import Place
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.pipeline.world import NOON, SECOND, Event, make_journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = datetime(2026, 1, 2, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
UPDATED = pa.schema(
    [("stock", pa.string()), ("name", pa.string()), ("start", TIME), ("price", pa.float64()), ("change", pa.float64())]
)


def updated(day: int = 0, **changes: float) -> pa.Table:
    rows = [
        {"stock": stock, "name": stock.upper(), "start": TODAY + timedelta(days=day), "price": 10.0, "change": change}
        for stock, change in changes.items()
    ]
    return pa.Table.from_pylist(rows, UPDATED)


def stand(before: pa.Table | None, changed: pa.Table, count: int = 2) -> tuple[list[tuple[Any, ...]], pa.Table]:
    from penstock.pipeline.jobs import movers

    rows, left = movers.stand(before, changed, count)
    return [(row["key"], row["command"], row["side"], row["rank"], row["change"]) for row in rows.to_pylist()], left


def test_the_table_has_those_that_gained_and_lost_most() -> None:
    rows, _ = stand(None, updated(a=1.0, b=3.0, c=2.0, d=-1.0, e=-5.0, f=-2.004, g=0.0))
    assert rows == [
        ("b", None, "gainer", 1, 3.0),
        ("c", None, "gainer", 2, 2.0),
        ("e", None, "loser", 1, -5.0),
        ("f", None, "loser", 2, -2.0),
    ]


def test_who_leaves_is_deleted_and_who_stays_as_it_was_is_not_sent() -> None:
    _, left = stand(None, updated(a=1.0, b=3.0, c=2.0))
    rows, left = stand(left, updated(a=9.0))
    assert rows == [("c", "DELETE", None, None, None), ("a", None, "gainer", 1, 9.0), ("b", None, "gainer", 2, 3.0)]
    rows, left = stand(left, updated(c=2.5))
    assert rows == []
    rows, left = stand(left, updated(a=-1.0))
    assert rows == [("b", None, "gainer", 1, 3.0), ("c", None, "gainer", 2, 2.5), ("a", None, "loser", 1, -1.0)]


def test_equal_changes_are_in_the_order_of_their_names() -> None:
    rows, _ = stand(None, updated(b=1.0, c=1.0, a=1.0))
    assert [row[0] for row in rows] == ["a", "b"]


def test_a_new_day_begins_with_an_empty_table() -> None:
    _, left = stand(None, updated(a=1.0, b=-3.0))
    rows, left = stand(left, updated(1, c=0.5))
    assert rows == [("a", "DELETE", None, None, None), ("b", "DELETE", None, None, None), ("c", None, "gainer", 1, 0.5)]
    # What comes late for the day before changes nothing.
    assert stand(left, updated(a=50.0))[0] == []


def test_nothing_is_no_problem() -> None:
    rows, left = stand(None, updated())
    assert rows == []
    assert stand(left, updated(a=1.0))[0] == [("a", None, "gainer", 1, 1.0)]


def quote(stock: str, price: str, second: float, name: str | None = "A name") -> Event:
    value = {"last_price": price, "stock_name": name} if name else {"last_price": price}
    return (f"WELCOME/STOCKS/{stock}", "update", json.dumps(value), NOON + int(second * SECOND))


def test_what_subscribers_have_at_the_end_is_what_a_batch_computes(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import movers

    events = [quote("a", "10", 0), quote("b", "10", 1), quote("c", "10", 2), quote("d", "0", 2), quote("e", "x", 2)]
    # b's first price comes late; a has no name the last time.
    events += [quote("a", "11", 3, None), quote("b", "20", 0.5), quote("b", "5", 4), quote("c", "9", 5)]
    events += [quote("c", "20", 6), quote("a", "12", 6, None)]
    make_journal(tmp_path / "journal", events, frame=3)
    settings = movers.Settings(adapter_set="SET", adapter="OUT", count=1, max_events=4)
    with SinkServer() as sink:
        place = Place(tmp_path, sink.url, TOKEN)
        query = movers.start(spark, place, settings, once=True)
        query.awaitTermination()
        rows = sink.rows(query.id)
        assert set(sink.modes.values()) == {"COMMAND"}
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        assert row["item"] == "movers"
        if row["command"] == "DELETE":
            del table[row["key"]]
        else:
            table[row["key"]] = row
    batch = movers.transform(spark.read.format("penstock").load(str(tmp_path / "journal")), settings).toArrow()
    ((_, wanted),) = movers.outputs(batch, place, settings)
    shown = {row["key"]: (row["side"], row["rank"], row["price"], row["change"], row["name"]) for row in table.values()}
    assert shown == {"c": ("gainer", 1, 20.0, 100.0, "A name"), "b": ("loser", 1, 5.0, -75.0, "A name")}
    assert {row["key"]: row["change"] for row in wanted.to_pylist()} == {"c": 100.0, "b": -75.0}
    # a led for a while, by its name of before.
    assert [row["name"] for row in rows if row["key"] == "a" and row["command"] is None][-1] == "A name"
    dropped = sum(one["observedMetrics"]["movers"]["dropped"] for one in query.recentProgress)
    assert dropped == 2


def test_a_setting_that_is_not_known_is_named() -> None:
    import msgspec

    from penstock.pipeline.jobs import movers

    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.convert({"colour": "red"}, movers.Settings)
