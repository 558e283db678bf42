"""Benchmarks of Spark in miniature: they run, and would notice a lake that is not whole. Times do not matter."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.rig.queries import Queries, figures
from bench.scenarios import spark as bench
from penstock.pipeline.place import Place
from tests.support.waiting import wait_until


@pytest.mark.spark
def test_every_way_reads_or_writes_and_the_lake_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    figures, failures = bench.measure(spark, bench.Plan(events=3_000, rounds=1), tmp_path)
    assert not failures
    assert figures.keys() == {"read, batch", "read, stream", "write to the lake"}
    assert all(ours > 0 and theirs > 0 for ours, theirs in figures.values())
    assert sum(bench.check(Place(tmp_path / "data", "http://127.0.0.1:1"), 3_001).values()) == 2


@pytest.mark.spark_long
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_plain_spark_makes_the_candles_that_ours_are_compared_with(spark: SparkSession, tmp_path: Path) -> None:
    queries = Queries(spark, tmp_path, "-", "-")
    growing = queries.start("plain-candles", 1_000, 100)
    wait_until(lambda: len(figures(growing)) >= 3, "three batches")
    assert all(one.numInputRows == 1_000 for one in growing.recentProgress)
    growing.stop()
    began = time.time()
    closed = queries.start("plain-closed-candles", 1_000)
    wait_until(lambda: queries.closed > began, "a closed candle")
    closed.stop()
