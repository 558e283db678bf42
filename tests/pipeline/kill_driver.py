"""`penstock pipeline` with one small job more, `rows`: a process for the test of kill -9 from end to end.

It publishes every event of the adapter FEED to the adapter OUT, as COMMAND, by the distributed sink. Everything else is
the command itself. Read next: `kill_world`.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.pipeline import commands
from penstock.pipeline.jobs import JOBS, Job
from penstock.pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# In the environment: how many characters each row has besides its number, so that a backlog is a large batch.
WIDE = "PENSTOCK_TEST_WIDE"

# Rows of the table that `rows` keeps: one for each remainder.
KEYS = 7


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """It has none."""


def wide() -> int:
    return int(os.environ.get(WIDE, "1"))


class OwnJob(Job):
    """Lives in this file."""

    def load(self) -> Any:
        return SimpleNamespace(Settings=Settings, start=rows)


def rows(spark: SparkSession, place: Place, settings: Settings, *, once: bool = False) -> StreamingQuery:
    assert place.token is not None
    target = {
        "server": place.api,
        "adapterSet": "SET",
        "adapter": "OUT",
        "token": place.token,
        "itemTemplate": "c.rows",
        "mode": "COMMAND",
        "key": "remainder",
        "fields": "n,wide",
    }
    source = spark.readStream.format("penstock").option("entities", "SET/FEED/*").option("kinds", "update")
    numbers = source.load(str(place.journal)).selectExpr("CAST(get_json_object(value, '$.n') AS BIGINT) AS n")
    frame = numbers.selectExpr("n", f"repeat('x', {wide()}) AS wide", f"n % {KEYS} AS remainder")
    stream = frame.writeStream.format("penstock").queryName("rows").options(**target)
    return stream.option("checkpointLocation", str(place.checkpoints("rows"))).start()


if __name__ == "__main__":
    JOBS["rows"] = OwnJob("rows", "for a test", __name__, publishes=True)
    # With this job it goes on after the death of its JVM as well.
    commands.PROGRAM = "tests.pipeline.kill_driver"
    commands.app()
