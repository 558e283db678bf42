"""A job over a time range that is past: the same `transform`, in batch, from the lake and the journal together.

The result is handed back, or published under a name that stands for the job and the range: the same backfill once more
changes nothing. Not here: live jobs (`jobs`), events as they were (`replay`). Read next: docs/pipeline.md, "Backfill".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from penstock.history.lake_root import LakeRoot, open_table, reading
from penstock.history.lake_url import LakeUrl
from penstock.history.layout import SEQUENCE
from penstock.pipeline.errors import BadOption
from penstock.pipeline.events import load
from penstock.pipeline.files import read_task
from penstock.pipeline.jobs import JOBS
from penstock.pipeline.options import micros
from penstock.pipeline.outlet import Delivery
from penstock.pipeline.place import Place
from penstock.pipeline.schema import EVENTS

# Tasks that read files of a lake at a URL, at most.
_READERS = 16

SOURCES = ("both", "journal", "lake")


def backfill(
    spark: SparkSession,
    place: Place,
    job: str,
    settings: Any,
    since: datetime,
    until: datetime,
    *,
    source: str = "both",
) -> pa.Table:
    """What the job makes of the events from `since` to before `until`. Raises BadOption.

    A window that the range cuts has only what is inside. Late events count: in batch nothing is late.
    """
    module = _job(job)
    kinds = getattr(settings, "kinds", ("update",))
    events = past_events(spark, place, settings.entities, kinds, since, until, source=source)
    result: pa.Table = module.transform(events, settings).toArrow()
    return result


def publish_backfill(
    place: Place, job: str, settings: Any, since: datetime, until: datetime, result: pa.Table, *, again: str = ""
) -> list[Delivery]:
    """Publish what `backfill` returned, exactly once for each job and range; `again` makes it another time."""
    module = _job(job)
    query = f"backfill-{job}-{micros(since)}-{micros(until)}"
    if again:
        query = f"{query}-{again}"
    outcomes = []
    for number, (target, table) in enumerate(module.outputs(result, place, settings)):
        if table.num_rows == 0:
            continue
        with target.outlet() as outlet:
            outcomes.append(outlet.put_batch(f"{query}.{number}", 0, target.rows(table), target.mode))
    return outcomes


def past_events(
    spark: SparkSession,
    place: Place,
    entities: Sequence[str],
    kinds: Sequence[str],
    since: datetime,
    until: datetime,
    *,
    source: str = "both",
) -> DataFrame:
    """Journaled events of a time range; `entities` are patterns. Each once, although lake and journal overlap."""
    if source not in SOURCES:
        raise BadOption(f"source is {source!r}; allowed: {', '.join(SOURCES)}")
    for name, value in (("since", since), ("until", until)):
        if value.tzinfo is None:
            raise BadOption(f"{name} is {value.isoformat()}; a time needs its zone, such as +00:00 or Z")
    if since >= until:
        raise BadOption(f"since is {since.isoformat()}, which is not before until, {until.isoformat()}")
    if source != "journal":
        place.check_directory(f"source = {source}")
    sequence, files = (0, []) if source == "journal" else _lake(place.lake)
    if source == "lake" and not files:
        raise BadOption(f"there is no lake in {place.lake}; source = journal reads events that are not in a lake yet")
    parts = []
    if files:
        lake = _rows(spark, place.lake, files)
        chosen = _matching(lake, entities).where(fn.col("kind").isin(*kinds)) if kinds else _matching(lake, entities)
        parts.append(chosen)
    if source != "lake":
        journal = spark.read.format("penstock").option("entities", ",".join(entities))
        # What the lake has is not read again; retention may have dropped it from the journal.
        journal = journal.option("kinds", ",".join(kinds)).option(
            "startingOffset", str(sequence + 1) if sequence else "earliest"
        )
        parts.append(load(journal, place))
    events = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    begin, end = fn.timestamp_micros(fn.lit(micros(since))), fn.timestamp_micros(fn.lit(micros(until)))
    return events.where((fn.col("timestamp") >= begin) & (fn.col("timestamp") < end))


def _lake(root: LakeRoot) -> tuple[int, list[str]]:
    """Up to which sequence it is complete, and its files, as of one version."""
    table = open_table(root)
    if table is None:
        return 0, []
    with reading(root):
        files = pa.table(table.get_add_actions()).column("path").to_pylist()
        return table.transaction_version(SEQUENCE) or 0, files


def _rows(spark: SparkSession, root: LakeRoot, files: Sequence[str]) -> DataFrame:
    if not isinstance(root, LakeUrl):
        return spark.read.schema(EVENTS).parquet(*(str(root / file) for file in files))
    # Not by Spark itself, which would need Hadoop's connector and credentials of its own.
    names = spark.createDataFrame([(file,) for file in files], "path string")
    return names.repartition(min(len(files), _READERS), "path").mapInArrow(read_task(root), EVENTS)


def _matching(events: DataFrame, entities: Sequence[str]) -> DataFrame:
    """The patterns of the journal's selection: `*` for any characters, `?` for one."""
    chosen = fn.lit(False)
    for pattern in entities:
        escaped = "".join({"*": "%", "?": "_"}.get(one, f"\\{one}" if one in "%_\\" else one) for one in pattern)
        chosen = chosen | fn.col("entity").like(escaped)
    return events.where(chosen) if entities else events


def _job(name: str) -> ModuleType:
    job = JOBS.get(name)
    module = None if job is None or not job.publishes else job.load()
    if module is None:
        allowed = ", ".join(one.name for one in JOBS.values() if one.publishes)
        raise BadOption(f"job is {name!r}; those that can be run over a range are {allowed}")
    return module
