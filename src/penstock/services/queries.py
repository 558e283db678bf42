"""The queries of the pipeline, as far as the files tell that it writes in the data directory: how many, how far behind.

The pipeline is another process, and nothing of it is imported here. Who writes the files: `penstock.pipeline.status`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from penstock.monitor.figures import Family, Kind, gauge, labelled
from penstock.services.service import Service

# Seconds between two looks.
PAUSE = 5.0

# A file that has not been written for so long is of a process that is gone, whatever it says; it is once a second.
SILENCE = 30.0

# Files that are read; more are not counted. A pipeline has a query for each of its jobs.
MAX_QUERIES = 100

STATES = ("starting", "running", "failed", "stopped", "gone")


class QueryFile(msgspec.Struct):
    """What is read of a file."""

    name: str
    state: str
    updated: str | None = None
    rows_per_second: float | None = None
    lag_seconds: float | None = None
    batch: int | None = None
    batch_millis: int | None = None
    # Why it failed, or what it waits for.
    reason: str | None = None


def read_queries(directory: Path, now: float) -> list[QueryFile]:
    """Those that can be read. Blocks: not for a loop."""
    found = []
    for path in sorted(directory.glob("*.json"))[:MAX_QUERIES]:
        try:
            query = msgspec.json.decode(path.read_bytes(), type=QueryFile)
            updated = datetime.fromisoformat(query.updated).timestamp() if query.updated else 0.0
        except (OSError, msgspec.DecodeError, ValueError):
            # Half a file, or none of the pipeline's.
            continue
        if query.state not in STATES or (query.state != "stopped" and updated < now - SILENCE):
            query.state = "gone"
        found.append(query)
    return found


class QueriesService(Service):
    """Looks now and then."""

    name = "queries"

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._task: asyncio.Task[None] | None = None
        self.queries: list[QueryFile] = []

    async def open(self) -> None:
        if self._data_dir is not None:
            self._task = asyncio.get_running_loop().create_task(self._look(self._data_dir / "pipeline"))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _look(self, directory: Path) -> None:
        while True:
            self.queries = await asyncio.to_thread(read_queries, directory, time.time())
            await asyncio.sleep(PAUSE)

    def figures(self) -> Iterable[Family]:
        states = Counter(dict.fromkeys(STATES, 0))
        states.update([query.state for query in self.queries])
        running = [query for query in self.queries if query.state == "running"]
        return (
            labelled(Kind.GAUGE, "penstock_pipeline_queries", "Queries of the pipeline by state.", "state", states),
            gauge(
                "penstock_pipeline_lag_seconds",
                "Lag of the slowest running query behind the journal.",
                max([query.lag_seconds or 0.0 for query in running], default=0.0),
            ),
            gauge(
                "penstock_pipeline_rows_per_second",
                "Rows that running queries read per second.",
                sum([query.rows_per_second or 0.0 for query in running]),
            ),
        )
