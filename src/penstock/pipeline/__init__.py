"""The data pipeline on Spark: the journal as a DataFrame, DataFrames as items, and the jobs between the two.

`register` is for a Spark session of your own. Nothing is imported before it is used, so that a command line can list
jobs without loading pyspark. The server imports none of this. Read next: docs/pipeline.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipeline.backfill import backfill, publish_backfill
    from penstock.pipeline.ending import run_until_stopped
    from penstock.pipeline.publish import publish_stream
    from penstock.pipeline.tables import command_table
    from penstock.pipeline.views import register_tables

__all__ = [
    "backfill",
    "command_table",
    "publish_backfill",
    "publish_stream",
    "register",
    "register_tables",
    "run_until_stopped",
]

_HOMES = {
    "backfill": "penstock.pipeline.backfill",
    "command_table": "penstock.pipeline.tables",
    "publish_backfill": "penstock.pipeline.backfill",
    "publish_stream": "penstock.pipeline.publish",
    "register_tables": "penstock.pipeline.views",
    "run_until_stopped": "penstock.pipeline.ending",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session, classic or Connect; its workers need this package installed."""
    from penstock.pipeline.source import JournalSource

    spark.dataSource.register(JournalSource)
