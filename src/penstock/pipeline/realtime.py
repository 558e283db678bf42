"""Items within milliseconds: Spark's real-time mode over the journal, for queries without state.

Spark takes only sources and sinks in Java for it. Ours are in `jvm`, in a jar that `make setup` builds; here are their
options, checked, and the query. Not here: batches (`publish`). Read next: docs/pipeline.md, "Real time".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegralType, StringType, StructType

from penstock.pipeline.errors import BadOption
from penstock.pipeline.target import ITEM, Target, template_parts
from penstock.pipeline.token import read_token

FORMAT = "penstock-live"
SEQUENCE = "sequence"
JAR_PATH = Path(__file__).with_name("penstock-spark.jar")

# Spark commits what was read so often. A restart reads again what came since, and publishes none of it twice.
EVERY = "5 minutes"


def real_time_jar() -> Path:
    """For Spark's setting `spark.jars`. Raises BadOption."""
    if not JAR_PATH.exists():
        raise BadOption(f"{JAR_PATH} is missing; `make jar` builds it, which needs a JDK from version 17 on")
    return JAR_PATH


def real_time_events(
    spark: SparkSession,
    journal: str | Path,
    *,
    entities: Sequence[str] = (),
    kinds: Sequence[str] = (),
    starting: str = "latest",
) -> DataFrame:
    """The journal as it grows, in the columns of `format("penstock")`, for `publish_real_time`. Raises BadOption.

    - `journal`: its directory, on this machine.
    - `entities`, `kinds`: patterns and names; by default all.
    - `starting`: where a query without a checkpoint begins, `earliest` or `latest`.
    """
    if starting not in ("earliest", "latest"):
        raise BadOption(f"starting is {starting!r}; allowed: earliest, latest")
    directory = Path(journal).resolve()
    if not directory.is_dir():
        raise BadOption(f"journal is {journal}, which is not a directory; expected data_dir/journal of the server")
    for name, values in (("entities", entities), ("kinds", kinds)):
        if any("\n" in value or not value for value in values):
            raise BadOption(f"{name} has a value that is empty or has several lines")
    _check_session(spark)
    stream = spark.readStream.format(FORMAT).option("startingOffset", starting)
    return stream.option("entities", "\n".join(entities)).option("kinds", "\n".join(kinds)).load(str(directory))


def publish_real_time(
    df: DataFrame,
    *,
    server: str,
    adapter_set: str,
    adapter: str,
    checkpoint: str | Path,
    token: str | None = None,
    token_file: str | Path | None = None,
    item: str | None = None,
    item_template: str | None = None,
    mode: str = "MERGE",
    fields: Sequence[str] = (),
    every: str = EVERY,
    query_name: str | None = None,
) -> StreamingQuery:
    """Publish each row as soon as it is there, exactly once; the query runs until it is stopped. Raises BadOption.

    `df` comes from `real_time_events`, by `select` and `where` alone, and still has its column `sequence`, which is not
    published. `every` is how often Spark commits. All else is as in `publish_stream`; modes are MERGE and DISTINCT.
    """
    if mode not in ("MERGE", "DISTINCT"):
        raise BadOption(f"mode is {mode!r}; allowed in real time: MERGE, DISTINCT")
    if SEQUENCE not in df.columns:
        raise BadOption(f"the column {SEQUENCE!r} is missing; keep it in select(…), because it says what was published")
    others = [name for name in df.columns if name != SEQUENCE]
    key = read_token(token, token_file)
    target = Target(
        server, adapter_set, adapter, key, item=item, item_template=item_template, mode=mode, fields=tuple(fields)
    )
    names = target.fields_of(others)
    sent = df.select(fn.col(SEQUENCE), _item(df.schema, target).alias(ITEM), *(fn.col(name) for name in names))
    spark = df.sparkSession
    java = _check_session(spark)
    address = f"{server.rstrip('/')}/api/ingest/{quote(adapter_set, safe='')}/{quote(adapter, safe='')}"
    schema = StructType([field for field in sent.schema if field.name != SEQUENCE]).json()
    writer = sent.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    if query_name is not None:
        writer = writer.queryName(query_name)
    # pyspark's own `foreach` is for functions in Python.
    writer._jwrite = writer._jwrite.foreach(java.penstock.spark.LiveWriter(address, key, mode, schema))
    # pyspark's own types do not know this trigger.
    query: StreamingQuery = writer.trigger(realTime=every).start()  # type: ignore[call-overload]
    return query


def _check_session(spark: SparkSession) -> Any:
    """Its JVM, which must have our jar."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        raise BadOption("real time needs a Spark session in this process; this one is of Spark Connect")
    try:
        java.java.lang.Class.forName(
            "penstock.spark.LiveWriter", False, java.java.lang.Thread.currentThread().getContextClassLoader()
        )
    except Exception:
        raise BadOption(
            "the Spark session does not have the jar for real time; open it by open_session(…, real_time=True), or "
            "set spark.jars to real_time_jar()"
        ) from None
    return java


def _item(schema: StructType, target: Target) -> Column:
    """The name of a row's item; null if a part of it is."""
    if target.item is not None:
        return _text(schema, target.item)
    parts: list[Column] = []
    for text, column in template_parts(target.item_template or ""):
        parts += [fn.lit(text)] if text else []
        parts += [] if column is None else [_text(schema, column)]
    return fn.concat(*parts)


def _text(schema: StructType, column: str) -> Column:
    kind = schema[column].dataType
    if not isinstance(kind, StringType | IntegralType):
        raise BadOption(f"the column {column!r} is of type {kind.simpleString()}; items are named by text or integers")
    return fn.col(column).cast("string")
