from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import Delivery
from penstock.pipeline.place import Place
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.pipeline.world import NOON, SECOND, Event, append, journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def trade(second: float) -> Event:
    value = json.dumps({"last_price": str(1 + second), "last_quantity": "2"})
    return ("WELCOME/STOCKS/a_b", "update", value, NOON + int(second * SECOND))


def moment(second: float) -> datetime:
    return EPOCH + timedelta(microseconds=NOON + int(second * SECOND))


def test_a_job_is_run_over_a_past_range_of_lake_and_journal_and_published_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    from penstock.pipeline.backfill import backfill, publish_backfill
    from penstock.pipeline.jobs import candles, history

    settings = candles.Settings(adapter_set="SET", adapter="OUT", sizes=("10s",))
    with SinkServer() as sink, journal(tmp_path / "journal") as opened:
        place = Place(tmp_path, sink.url, TOKEN)
        append(opened, [trade(number) for number in range(40)])
        history.start(spark, place, history.Settings(), once=True).awaitTermination()
        others: list[Event] = [
            ("WELCOME/STOCKS/axb/other", "snapshot", '{"last_price":"9"}', NOON),
            ("WELCOME/OTHER/a", "update", '{"last_price":"9"}', NOON),
        ]
        append(opened, [trade(number) for number in range(40, 60)] + others)
        opened.flush().result(30)

        # NOON is the start of a ten-second window.
        result = backfill(spark, place, "candles", settings, moment(10), moment(55))
        rows = sorted(result.to_pylist(), key=lambda row: row["start"])
        assert [(row["stock"], row["open"], row["close"], row["trades"]) for row in rows] == [
            ("a_b", 11.0, 20.0, 10),
            ("a_b", 21.0, 30.0, 10),
            ("a_b", 31.0, 40.0, 10),
            ("a_b", 41.0, 50.0, 10),
            ("a_b", 51.0, 55.0, 5),
        ]
        journal_alone = backfill(spark, place, "candles", settings, moment(10), moment(55), source="journal")
        assert sorted(map(str, journal_alone.to_pylist())) == sorted(map(str, result.to_pylist()))
        lake_alone = backfill(spark, place, "candles", settings, moment(10), moment(55), source="lake")
        assert lake_alone.num_rows == 3

        given = (place, "candles", settings, moment(10), moment(55), result)
        assert publish_backfill(*given) == [Delivery(5)]
        assert publish_backfill(*given) == [Delivery(0, repeated=True)]
        assert [row["item"] for row in sink.rows()] == ["candles.10s.a_b"] * 5
        assert [row["open"] for row in sink.rows()] == [11.0, 21.0, 31.0, 41.0, 51.0]
        assert publish_backfill(*given, again="2") == [Delivery(5)]


def test_what_cannot_be_is_named(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.backfill import backfill
    from penstock.pipeline.jobs import candles

    place = Place(tmp_path, "http://127.0.0.1:1", TOKEN)
    settings = candles.Settings()
    with pytest.raises(BadOption, match="job is 'history'; those that can be run over a range are candles, movers, tr"):
        backfill(spark, place, "history", settings, moment(0), moment(1))
    with pytest.raises(BadOption, match="is not before until"):
        backfill(spark, place, "candles", settings, moment(1), moment(1))
    with pytest.raises(BadOption, match="a time needs its zone"):
        backfill(spark, place, "candles", settings, datetime(2026, 1, 1), moment(1))  # noqa: DTZ001
    with pytest.raises(BadOption, match="source is 'sea'; allowed: both, journal, lake"):
        backfill(spark, place, "candles", settings, moment(0), moment(1), source="sea")
    with pytest.raises(BadOption, match="there is no lake in"):
        backfill(spark, place, "candles", settings, moment(0), moment(1), source="lake")
