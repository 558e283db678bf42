"""Source and jobs on a real cluster of processes: nothing works only because everything is in one JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.cluster import Cluster
from tests.pipeline.world import append, journal, make_journal, some

pytestmark = [pytest.mark.spark, pytest.mark.spark_long, pytest.mark.timeout(1_200)]

READ = """
import json
from pyspark.sql import functions as F
frame = spark.read.format("penstock").option("partitions", 4).load(arguments[0])
tasks = frame.groupBy(F.spark_partition_id().alias("task")).agg(
    F.count("*").alias("rows"), F.min("sequence").alias("first"), F.max("sequence").alias("last")
)
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
one = frame.where("entity = 'item-1' AND sequence < 10").select("sequence").toArrow().column(0).to_pylist()
print(json.dumps({"tasks": [list(row)[1:] for row in tasks.collect()], "executors": executors, "one": sorted(one)}))
"""

STREAM = """
import json
place, path = arguments
query = (
    spark.readStream.format("penstock").option("maxEventsPerTrigger", 30_000).load(path).select("sequence")
    .writeStream.format("parquet").option("checkpointLocation", place + "/checkpoint")
    .trigger(availableNow=True).start(place + "/written")
)
query.awaitTermination()
written = spark.read.parquet(place + "/written").toArrow().column("sequence").to_pylist()
print(json.dumps([len(written), len(set(written)), min(written), max(written)]))
"""


def last(output: str) -> object:
    return json.loads(output.splitlines()[-1])


def test_executors_read_a_journal_each_event_once(cluster: Cluster, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(100_000), frame=5_000)
    answer = last(cluster.run(READ, str(path)))
    assert isinstance(answer, dict)
    assert answer["executors"] == 2
    assert answer["one"] == [1, 5, 9]
    tasks = sorted(answer["tasks"], key=lambda task: int(task[1]))
    assert len(tasks) == 4
    assert sum(rows for rows, _, _ in tasks) == 100_000
    assert [first for _, first, _ in tasks] == [1, *(end + 1 for _, _, end in tasks[:-1])]
    assert tasks[-1][2] == 100_000


def test_a_stream_goes_on_from_its_checkpoint_with_another_driver(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with journal(path) as opened:
        append(opened, some(50_000), frame=5_000)
        assert last(cluster.run(STREAM, str(tmp_path), str(path))) == [50_000, 50_000, 1, 50_000]
        append(opened, some(20_000, first=50_001), frame=5_000)
        assert last(cluster.run(STREAM, str(tmp_path), str(path))) == [70_000, 70_000, 1, 70_000]
