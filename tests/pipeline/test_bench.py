"""The benchmark of Spark in miniature: it runs, and would notice a lake that is not whole. Times do not matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.scenarios import spark as bench
from penstock.pipeline.place import Place


@pytest.mark.spark
def test_every_way_reads_or_writes_and_the_lake_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    figures, failures = bench.measure(spark, bench.Plan(events=3_000, rounds=1), tmp_path)
    assert not failures
    assert figures.keys() == {"read, batch", "read, stream", "write to the lake"}
    assert all(ours > 0 and theirs > 0 for ours, theirs in figures.values())
    assert sum(bench.check(Place(tmp_path / "data", "http://127.0.0.1:1"), 3_001).values()) == 2
