from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from penstock.pipeline.place import Place
from tests.pipeline.sink_server import TOKEN, Fault, SinkServer
from tests.pipeline.world import NOON, SECOND, Event, held, make_journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOCKS = ("acme", "beta", "a/b c")
SIZES = {"1s": 1, "10s": 10, "1m": 60}
DELAY = 2
BATCH = 500
NUMBERS = ("open", "high", "low", "close", "volume", "vwap")

# Neither of them is a trade.
BAD = [
    None,
    "not JSON",
    "[]",
    "{}",
    '{"last_price":null,"last_quantity":"1"}',
    '{"last_price":"cheap"}',
    '{"last_price":"-1"}',
    '{"last_price":"1e300"}',
    '{"last_price":"NaN"}',
    '{"last_price":"Infinity"}',
    '{"last_price":"3","last_quantity":"-5"}',
    '{"last_price":"3","last_quantity":"many"}',
    '{"last_price":"3","last_quantity":"1e13"}',
]


def market(count: int, *, too_late: bool) -> list[Event]:
    """Ten trades a second, up to 1.5 s out of order, some at the very same time, some without a quantity, some bad."""
    chance = random.Random(7)
    events: list[Event] = []
    bad = iter(BAD)
    for number in range(count):
        when = NOON + number * SECOND // 10 - chance.choice([0, 0, 0, 300_000, 1_500_000])
        entity = f"WELCOME/STOCKS/{chance.choice(STOCKS)}"
        trade: dict[str, Any] = {"last_price": f"{chance.randrange(100, 10_000) / 100:g}", "bid": None}
        if chance.random() < 0.8:
            trade["last_quantity"] = str(chance.choice([0, 1, 500, 12.5]))
        if number % 97 == 5:
            events.append((entity, "update", next(bad, "{}"), when))
        elif too_late and number > 2 * BATCH + 300 and number % 400 == 0:
            # Several batches ago: every one of its windows has been closed.
            events.append((entity, "update", json.dumps(trade), when - 200 * SECOND))
        else:
            events.append((entity, "update", json.dumps(trade), when))
    # Not for candles.
    events[3] = ("WELCOME/OTHER/acme", "update", '{"last_price":"1"}', NOON)
    events[4] = ("WELCOME/STOCKS/acme", "snapshot", '{"last_price":"1"}', NOON)
    return events


def trades(journal: Path) -> pd.DataFrame:
    """The good events of a journal, read and checked without Spark."""
    rows = []
    for row in held(journal).to_pylist():
        if not row["entity"].startswith("WELCOME/STOCKS/") or row["kind"] != "update":
            continue
        try:
            value = json.loads(row["value"] or "null")
            price = float(value["last_price"])
            quantity = value.get("last_quantity")
            quantity = 0.0 if quantity is None else float(quantity)
        except (ValueError, TypeError, KeyError):
            continue
        if not (0 <= price <= 1e12 and 0 <= quantity <= 1e12):
            continue
        micros = int(row["timestamp"].timestamp() * 1e6 + 0.5)
        rows.append((row["entity"].split("/", 2)[2], row["sequence"], micros, price, quantity))
    return pd.DataFrame(rows, columns=["stock", "sequence", "micros", "price", "quantity"])


def expected(found: pd.DataFrame) -> dict[tuple[str, str, int], dict[str, float]]:
    """Candles by size, stock and start in seconds, by pandas."""
    candles = {}
    for size, seconds in SIZES.items():
        start = found["micros"] // (seconds * SECOND) * seconds
        ordered = found.assign(start=start, turnover=found["price"] * found["quantity"])
        ordered = ordered.sort_values(["micros", "sequence"])
        for (stock, begin), group in ordered.groupby(["stock", "start"]):
            volume = group["quantity"].sum()
            candles[size, str(stock), int(begin)] = {
                "open": group["price"].iloc[0],
                "high": group["price"].max(),
                "low": group["price"].min(),
                "close": group["price"].iloc[-1],
                "volume": volume,
                "vwap": group["turnover"].sum() / volume if volume > 0 else math.nan,
                "trades": len(group),
            }
    return candles


def candle(row: dict[str, Any]) -> tuple[tuple[str, str, int], dict[str, float]]:
    key = row["size"], row["stock"], int(row["start"].timestamp())
    assert (row["end"] - row["start"]).total_seconds() == SIZES[row["size"]]
    return key, {name: math.nan if row[name] is None else row[name] for name in (*NUMBERS, "trades")}


def assert_same(
    found: dict[tuple[str, str, int], dict[str, float]], wanted: dict[tuple[str, str, int], dict[str, float]]
) -> None:
    assert found.keys() == wanted.keys()
    for key, figures in wanted.items():
        assert found[key] == pytest.approx(figures, rel=1e-9, nan_ok=True), key


def metric(row: Any, name: str) -> int:
    """Spark Connect hands the row over as it came: values, and a schema that has their names."""
    found = row.asDict()
    if name not in found:
        found = dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))
    return int(found[name])


def place_of(data_dir: Path, sink: SinkServer) -> Place:
    return Place(data_dir, sink.url, TOKEN)


def test_candles_of_a_batch_are_those_that_pandas_computes_from_the_journal(
    spark: SparkSession, tmp_path: Path
) -> None:
    from penstock.pipeline.jobs import candles

    path = make_journal(tmp_path / "journal", market(3_000, too_late=True))
    settings = candles.Settings()
    events = spark.read.format("penstock").option("entities", "WELCOME/STOCKS/*").option("kinds", "update")
    result = candles.transform(events.load(str(path)), settings).toArrow()
    wanted = expected(trades(path))
    assert any(math.isnan(figures["vwap"]) for figures in wanted.values())
    assert len(result) == len(wanted)
    assert_same(dict(map(candle, result.to_pylist())), wanted)


def test_candles_of_a_stream_are_published_once_each_over_failures_and_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors.exceptions.base import StreamingQueryException

    from penstock.pipeline.jobs import candles

    path = make_journal(tmp_path / "journal", market(3_200, too_late=True))
    settings = candles.Settings(adapter_set="SET", adapter="OUT", delay_seconds=DELAY, max_events=BATCH)
    faults: Iterator[Fault] = chain(["", "lost", "", "", 500], repeat(""))
    with SinkServer(faults) as sink:
        place = place_of(tmp_path, sink)
        first = candles.start(spark, place, settings, once=True)
        with pytest.raises(StreamingQueryException, match="answered 500: the journal is busy"):
            first.awaitTermination()
        after_failure = dict(sink.published)
        sink.faults = chain.from_iterable(repeat(["lost", "", ""]))
        second = candles.start(spark, place, settings, once=True)
        second.awaitTermination()
        progress = second.recentProgress

    assert first.id == second.id
    assert after_failure.items() <= sink.published.items()
    good = trades(path)
    newest = good["micros"].max()
    on_time = good[good["micros"] >= good["micros"].cummax() - 100 * SECOND]
    assert len(on_time) < len(good)
    wanted = expected(on_time)
    # The last, empty batch closes what the newest event allows.
    over = {key: figures for key, figures in wanted.items() if (key[2] + SIZES[key[0]] + DELAY) * SECOND <= newest}
    published = sink.rows(f"{second.id}.closed")
    assert len(published) == len(over)
    assert_same(dict(map(candle, published)), over)
    for row in published:
        assert row["item"] == f"candles.{row['size']}.{row['stock']}"
    for size in SIZES:
        for stock in STOCKS:
            starts = [row["start"] for row in published if (row["size"], row["stock"]) == (size, stock)]
            assert starts == sorted(starts)

    # What a subscriber has at the end: each item's newest window.
    merged = {row["item"]: row for row in sink.rows(f"{second.id}.growing")}
    latest = {
        (size, stock): max(key[2] for key in wanted if key[:2] == (size, stock)) for size in SIZES for stock in STOCKS
    }
    assert_same(
        dict(candle(row) for row in merged.values()),
        {(size, stock, start): wanted[size, stock, start] for (size, stock), start in latest.items()},
    )
    # Spark has forgotten the windows that are closed: no more are left than the open ones.
    assert progress[-1]["stateOperators"][0]["numRowsTotal"] == len(wanted) - len(over)
    assert sum(one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in progress) > 0
    dropped = sum(metric(one["observedMetrics"]["candles"], "dropped") for one in progress)
    assert 0 < dropped <= len(BAD) + 3_200 // 97


def test_settings_are_checked_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.errors import BadOption
    from penstock.pipeline.jobs import candles

    path = make_journal(tmp_path / "journal", market(10, too_late=False))
    events = spark.read.format("penstock").load(str(path))
    with pytest.raises(BadOption, match="window size is '7 weeks'"):
        candles.transform(events, candles.Settings(sizes=("7 weeks",)))
    with pytest.raises(BadOption, match="sizes is empty"):
        candles.transform(events, candles.Settings(sizes=()))
    with pytest.raises(BadOption, match="it cannot be negative"):
        candles.transform(events, candles.Settings(delay_seconds=-1))


def test_times_before_1970_are_in_the_window_they_belong_to(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import candles

    path = make_journal(tmp_path / "journal", [("WELCOME/STOCKS/a", "update", '{"last_price":"1"}', -1)])
    rows = candles.transform(spark.read.format("penstock").load(str(path)), candles.Settings(sizes=("1m",))).toArrow()
    assert rows.column("end").to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC)]
