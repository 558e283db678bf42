"""What has gathered during an outage drains, as a few batches or as one: each event once, in order, memory bounded.

In miniature by default. The long run is of as many events as `PENSTOCK_BACKLOG` says, and prints its figures:
`PENSTOCK_BACKLOG=3000000 .venv/bin/python -m pytest -s tests/pipeline/test_backlog.py`, then in batches as large as
they are by default, and as one.
"""

from __future__ import annotations

import os
import re
import resource
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.selection import EventSelection
from penstock.pipeline.options import MAX_EVENTS
from penstock.pipeline.publish import publish_stream
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("PENSTOCK_BACKLOG", "30000"))
LONG = "PENSTOCK_BACKLOG" in os.environ
# Of each event, so that the small backlog is a large batch, too.
TEXT = "x" * (40 if LONG else 400)
ITEMS = 500
APPEND = 10_000

# Bytes by which the server may grow while it takes the backlog, of whatever size.
MAX_GROWTH = 400_000_000


def fill(path: Path) -> None:
    """What was journaled while nobody read."""
    journal = Journal(path)
    for start in range(0, EVENTS, APPEND):
        columns = Columns()
        for number in range(start, min(start + APPEND, EVENTS)):
            value = f'{{"n":"{number}","text":"{TEXT}"}}'
            columns.add(f"SET/FEED/e.{number % ITEMS}", 1_700_000_000_000_000 + number * 100, "update", "", value)
        done = journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(60)
    journal.close()


def memory(pid: int, name: str = "VmHWM") -> int:
    """Of a process, in bytes: the most it ever had, or has now (VmRSS)."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def jvm(spark: SparkSession) -> int:
    """Its process."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())


@pytest.mark.timeout(7_200 if LONG else 300)
@pytest.mark.parametrize("batches", [-(-EVENTS // MAX_EVENTS) if LONG else 3, 1])
def test_a_backlog_drains_once_and_in_order(spark: SparkSession, tmp_path: Path, batches: int) -> None:
    fill(tmp_path / "journal")
    most = -(-EVENTS // batches) if batches > 1 else 0
    events = (
        spark.readStream.format("penstock").option("maxEventsPerTrigger", str(most)).load(str(tmp_path / "journal"))
    )
    rows = events.selectExpr("entity", "sequence", "get_json_object(value, '$.n') AS n", "value AS text")
    with RealServer(tmp_path / "server") as server:
        before = memory(server.pid, "VmRSS")
        # The outage is not over yet when the query begins.
        server.kill()
        back = threading.Timer(2.0, server.start)
        back.start()
        begun = time.monotonic()
        query = publish_stream(
            rows,
            server=server.api,
            token=TOKEN,
            adapter_set="SET",
            adapter="OUT",
            item_template="d.{entity}",
            mode="DISTINCT",
            fields=["n", "text"],
            order_by=["sequence"],
            checkpoint=tmp_path / "check",
            output_mode="append",
            trigger="once",
        )
        query.awaitTermination()
        took = time.monotonic() - begun
        back.join()
        peak = memory(server.pid)
        # What reads afterwards is not to count.
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        virtual = memory(jvm(spark))
        published = JournalReader(tmp_path / "server" / "data" / "journal")
        number = 0
        for batch in published.read(selection=EventSelection(kinds=("update",))):
            found = pa.compute.extract_regex(batch.column("value"), r'^\{"n":"(?P<n>\d+)"').field("n")
            wanted = pa.array(range(number, number + batch.num_rows)).cast(pa.string())
            assert found.equals(wanted), f"not what comes after {number}"
            number += batch.num_rows
        assert number == EVENTS
        done = list(published.read(selection=EventSelection(kinds=("batch",))))
        assert sum(batch.num_rows for batch in done) == batches
        assert published.damages == []
        assert peak - before < MAX_GROWTH
        if LONG:
            print(
                f"\n{EVENTS} events as {batches} batches: {took:.0f} s, {EVENTS / took:.0f} events/s;"
                f" server {before / 1e6:.0f} MB before, {peak / 1e6:.0f} at most; driver {driver / 1e6:.0f} MB at most,"
                f" its JVM {virtual / 1e6:.0f}"
            )
