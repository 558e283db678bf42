"""`penstock pipeline` with two small jobs more, `copy` and `rows`: a process for the test of kill -9 from end to end.

Both publish every event of the adapter FEED to the adapter OUT: `copy` by `publish_stream` as DISTINCT, `rows` by the
distributed sink as COMMAND. Everything else is the command itself. Read next: `kill_world`.
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
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# In the environment: how many characters each row has besides its number, so that a backlog is a large batch.
WIDE = "PENSTOCK_TEST_WIDE"

# Rows of the table that `rows` keeps: one for each remainder.
KEYS = 7


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Neither of the two has any."""


class OwnJob(Job):
    """Lives in this file."""

    def load(self) -> Any:
        return SimpleNamespace(Settings=Settings, start={"copy": copy, "rows": rows}[self.name])


def numbers(spark: SparkSession, place: Place) -> DataFrame:
    """Every event of the feed: its place in the journal and the number it carries."""
    events = (
        spark.readStream.format("penstock")
        .option("entities", "SET/FEED/*")
        .option("kinds", "update")
        .load(str(place.journal))
    )
    wide = int(os.environ.get(WIDE, "1"))
    number = "CAST(get_json_object(value, '$.n') AS BIGINT) AS n"
    return events.selectExpr("sequence", number, f"repeat('x', {wide}) AS wide")


def copy(spark: SparkSession, place: Place, settings: Settings, *, once: bool = False) -> StreamingQuery:
    from penstock.pipeline.publish import publish_stream

    return publish_stream(
        numbers(spark, place),
        place=place,
        adapter_set="SET",
        adapter="OUT",
        item_template="d.all",
        mode="DISTINCT",
        fields=["n", "wide"],
        order_by=["sequence"],
        checkpoint=place.checkpoints("copy"),
        output_mode="append",
        query_name="copy",
    )


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
    frame = numbers(spark, place).selectExpr("n", "wide", f"n % {KEYS} AS remainder")
    stream = frame.writeStream.format("penstock").queryName("rows").options(**target)
    return stream.option("checkpointLocation", str(place.checkpoints("rows"))).start()


if __name__ == "__main__":
    for name in ("copy", "rows"):
        JOBS[name] = OwnJob(name, "for a test", __name__, publishes=True)
    # With these jobs it goes on after the death of its JVM as well.
    commands.PROGRAM = "tests.pipeline.kill_driver"
    commands.app()
