"""Source and jobs on a real cluster of processes: nothing works only because everything is in one JVM."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.history.reader import History
from penstock.pipeline.lake import Lake
from tests.history.world import rows, whole_lake
from tests.pipeline.cluster import Cluster
from tests.pipeline.jobs.test_candles import SIZES, assert_same, candle, expected, market, trades
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.pipeline.world import SECOND, append, held, journal, make_journal, some
from tests.support.journal_server import TOKEN as READER_TOKEN
from tests.support.journal_server import JournalServer

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


# What no worker sees, nor the driver; and a stream over the network in several batches, whose result the workers write.
REMOTE = """
import json, os
from pyspark.sql import functions as F
server, token_file, hidden, place = arguments
there = spark.sparkContext.parallelize(range(4), 4).map(lambda _: os.listdir(hidden)).collect()
options = {"server": server, "tokenFile": token_file, "retryTimeoutSeconds": "120"}
frame = spark.read.format("penstock").options(**options, partitions=4).load()
tasks = frame.groupBy(F.spark_partition_id().alias("task")).agg(
    F.count("*").alias("rows"), F.min("sequence").alias("first"), F.max("sequence").alias("last")
)
query = (
    spark.readStream.format("penstock").options(**options, maxEventsPerTrigger=20_000).load().select("sequence")
    .writeStream.format("parquet").option("checkpointLocation", place + "/checkpoint")
    .trigger(availableNow=True).start(place + "/written")
)
query.awaitTermination()
written = spark.read.parquet(place + "/written").toArrow().column("sequence").to_pylist()
print(json.dumps({
    "seen": [os.listdir(hidden), *there],
    "tasks": [list(row)[1:] for row in tasks.collect()],
    "stream": [len(written), len(set(written)), min(written), max(written)],
    "batches": len(query.recentProgress),
}))
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


def test_executors_without_the_servers_disk_read_its_journal_over_the_network(cluster: Cluster, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(f"{READER_TOKEN}\n")
    with JournalServer(cluster.hidden / "server") as server:
        server.append(some(100_000), frame=5_000)
        assert (cluster.hidden / "server" / "data" / "journal").is_dir()
        output = cluster.run(REMOTE, server.api, str(token_file), str(cluster.hidden), str(tmp_path))
    answer = last(output)
    assert isinstance(answer, dict)
    assert answer["seen"] == [[]] * 5
    tasks = sorted(answer["tasks"], key=lambda task: int(task[1]))
    assert len(tasks) == 4
    assert sum(rows for rows, _, _ in tasks) == 100_000
    assert [first for _, first, _ in tasks] == [1, *(end + 1 for _, _, end in tasks[:-1])]
    assert answer["stream"] == [100_000, 100_000, 1, 100_000]
    assert answer["batches"] == 5
    for daemon in cluster.workers:
        assert READER_TOKEN not in daemon.log.read_text()


CONFIG = f"""
[pipeline]
token = "{TOKEN}"
status = ""
restart = "never"
[pipeline.jobs.history]
max_events = 4_000
[pipeline.jobs.candles]
adapter_set = "SET"
adapter = "OUT"
max_events = 1_000
"""


def test_the_command_runs_history_and_candles_there(cluster: Cluster, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "data" / "journal", market(6_000, too_late=False), frame=500)
    (tmp_path / "penstock.toml").write_text(CONFIG)
    with SinkServer() as sink:
        done = cluster.command(tmp_path, "run", "history", "candles", "--once", "--api", sink.url)
        assert done.returncode == 0, done.stderr[-5_000:]

    events = rows(held(path))
    assert whole_lake(Lake(tmp_path / "data" / "lake")) == events
    history = History(path, tmp_path / "data" / "lake")
    for entity in sorted({event.entity for event in events}):
        assert list(history.events(entity)) == [event for event in events if event.entity == entity]

    # Two seconds are what an event may be late: what ends after that is still open.
    good = trades(path)
    wanted = {
        key: figures
        for key, figures in expected(good).items()
        if (key[2] + SIZES[key[0]] + 2) * SECOND <= good["micros"].max()
    }
    closed = [row for row in sink.rows() if row["item"].startswith("candles.")]
    assert len(closed) == len(wanted)
    assert_same(dict(map(candle, closed)), wanted)
    # Not by the driver alone.
    for worker in cluster.workers:
        assert re.search("Asked to launch executor .* for penstock history candles", worker.log.read_text())
