"""Spark: how fast a query reads the journal and how fast `history` fills the lake, beside plain Spark jobs.

The plain jobs do the same with the same events from Parquet files: read them, and write them bucketed and sorted. Each
way is run once before it is measured: what counts is a JVM that is warm, as a server's is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.journal import events
from penstock.history import lake_sequence
from penstock.history.layout import BUCKETS
from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from penstock.pipeline.jobs import history
from penstock.pipeline.lake import Lake
from penstock.pipeline.place import Place
from penstock.pipeline.session import close_session, open_session

ABOUT = "events per second that Spark reads from the journal, and that history writes to the lake, beside plain Spark"

# As many as an append of a busy server has.
BATCH = 1_000
# Rows of one Parquet file of the plain jobs.
FILE_ROWS = 250_000
SHARE = 500_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How many events, and how often everything is measured."""

    events: int = 1_000_000
    rounds: int = 3


def fill(place: Place, count: int, parquet: Path) -> None:
    """The journal, and the same records as plain files."""
    journal = Journal(place.journal)
    columns = events(BATCH)
    for _ in range(max(count // BATCH, 1)):
        journal.append(columns, Policy.INTERVAL)
        journal.room().result(60)
    journal.flush().result(60)
    journal.close()
    parquet.mkdir()
    for number, batch in enumerate(JournalReader(place.journal).read(rows=FILE_ROWS)):
        pq.write_table(pa.table(batch, schema=SCHEMA), parquet / f"{number}.parquet")


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def stream_noop(frame: DataFrame, checkpoint: Path) -> None:
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


class Ways:
    """Everything that is measured; each way is a function without arguments."""

    def __init__(self, spark: SparkSession, place: Place, parquet: Path, scratch: Path) -> None:
        self._spark = spark
        self._place = place
        self._parquet = parquet
        self._scratch = scratch

    def read_journal(self) -> None:
        noop(self._spark.read.format("penstock").load(str(self._place.journal)))

    def read_plain(self) -> None:
        noop(self._spark.read.parquet(str(self._parquet)))

    def stream_journal(self) -> None:
        source = self._spark.readStream.format("penstock").option("maxEventsPerTrigger", str(SHARE))
        stream_noop(source.load(str(self._place.journal)), self._fresh("stream"))

    def stream_plain(self) -> None:
        source = self._spark.readStream.schema(self._spark.read.parquet(str(self._parquet)).schema)
        source = source.option("maxFilesPerTrigger", str(SHARE // FILE_ROWS))
        stream_noop(source.parquet(str(self._parquet)), self._fresh("plain-stream"))

    def history(self) -> None:
        """Into a lake of its own each time."""
        shutil.rmtree(self._place.data_dir / "lake", ignore_errors=True)
        history.start(self._spark, self._place, history.Settings(max_events=SHARE), once=True).awaitTermination()

    def write_plain(self) -> None:
        """No commit, no exactly once, nothing synced: one job over everything."""
        bucketed = self._spark.read.parquet(str(self._parquet)).withColumn(
            "bucket", fn.pmod(fn.crc32(fn.col("entity").cast("binary")), fn.lit(BUCKETS))
        )
        ordered = bucketed.repartition(2, "bucket").sortWithinPartitions("bucket", "entity", "revision")
        ordered.write.partitionBy("bucket").parquet(str(self._fresh("plain-lake")))

    def _fresh(self, name: str) -> Path:
        path = self._scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path


def timed(way: Callable[[], None]) -> float:
    begin = time.perf_counter()
    way()
    return time.perf_counter() - begin


def measure(spark: SparkSession, plan: Plan, directory: Path) -> tuple[dict[str, tuple[float, float]], Counter[str]]:
    """For each figure the events per second of ours and of theirs; and what was wrong."""
    directory = directory.resolve()
    place = Place(directory / "data", "http://127.0.0.1:1")
    parquet, scratch = directory / "parquet", directory / "scratch"
    scratch.mkdir()
    fill(place, plan.events, parquet)
    count = JournalReader(place.journal).poll()
    ways = Ways(spark, place, parquet, scratch)
    pairs = {
        "read, batch": (ways.read_journal, ways.read_plain),
        "read, stream": (ways.stream_journal, ways.stream_plain),
        "write to the lake": (ways.history, ways.write_plain),
    }
    figures = {}
    for name, both in pairs.items():
        for way in both:
            way()
        times = [[timed(way) for way in both] for _ in range(plan.rounds)]
        ours, theirs = (count / median(column) for column in zip(*times, strict=True))
        figures[name] = ours, theirs
    return figures, check(place, count)


def check(place: Place, count: int) -> Counter[str]:
    """Whether the lake has every event once."""
    failures: Counter[str] = Counter()
    if lake_sequence(place.lake) != count:
        failures[f"the lake ends at {lake_sequence(place.lake):,}, the journal at {count:,}"] += 1
    rows = sum(file.rows for file in Lake(place.lake).files())
    if rows != count:
        failures[f"{rows:,} events in the lake, {count:,} in the journal"] += 1
    return failures


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events, help="events in the journal (default %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=plan.rounds, help="of which the median counts (default %(default)s)"
    )


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when the lake has not every event once."""
    report = Report("spark")
    # Spark uses all cores there are.
    os.sched_setaffinity(0, {core for core in (cores.server, cores.load) if core is not None} or {0})
    with tempfile.TemporaryDirectory(prefix=".bench-spark-", dir=Path()) as folder:
        spark = open_session("bench", Path(folder) / "cache")
        try:
            figures, failures = measure(spark, Plan(options.events, options.rounds), Path(folder))
        finally:
            close_session(spark)
    rows: list[tuple[Any, ...]] = [
        (name, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}") for name, (ours, theirs) in figures.items()
    ]
    report.table(f"{options.events:,} events, per second, warm", ("penstock", "plain Spark", "ratio"), rows)
    report.failures("the lake", failures)
    return report.save()
