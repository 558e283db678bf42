"""Queries of the configuration, `[pipeline.queries.NAME]`: SQL over typed tables whose rows become live items.

Each is run like a job, with a checkpoint, a status and exactly once. What can be checked without Spark is checked when
a `LiveQuery` is made. Not here: SQL itself (`streaming_sql`), sending rows (`publish`). Read next: docs/sql.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config import Config
from penstock.config.schema.pipeline import QuerySection
from penstock.pipeline.errors import BadOption, LakeFailed, sentence
from penstock.pipeline.jobs import JOBS
from penstock.pipeline.options import check_position
from penstock.pipeline.place import Place
from penstock.pipeline.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.history.catalog import Catalog

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DURATION = re.compile(r"[0-9]+ +(millisecond|second|minute|hour|day)s?", re.ASCII)
_BRACES = re.compile(r"\{[^{}]*\}")
# In place of a duration: nothing is ever too late.
NEVER = "never"


@dataclass(frozen=True)
class LiveQuery:
    """A query that is good as far as one can say without Spark; `about` begins what is said of it."""

    name: str
    sql: str
    section: QuerySection
    adapter_set: str
    adapter: str
    config: Config

    @property
    def about(self) -> str:
        return f"pipeline.queries.{self.name}"

    def target(self, place: Place) -> Target:
        """Raises BadOption."""
        section = self.section
        try:
            return Target.at(
                place,
                self.adapter_set,
                self.adapter,
                item_template=section.item,
                mode=section.mode,
                key=section.key or None,
                command=section.command or None,
            )
        except BadOption as error:
            raise BadOption(f"{self.about}: {_as_written(error)}") from None


def live_query(config: Config, name: str) -> LiveQuery:
    """By its name in the configuration, checked. Raises BadOption."""
    section = config.pipeline.queries[name]
    about = f"pipeline.queries.{name}"
    if not _NAME.fullmatch(name):
        raise BadOption(f"{about}: expected a name of letters, digits, _ and -")
    if name in JOBS:
        raise BadOption(f"{about}: expected another name, because a job has it")
    if bool(section.sql.strip()) == bool(section.file):
        raise BadOption(f"{about}: expected exactly one of sql and file")
    sql = section.sql
    if section.file:
        try:
            sql = Path(section.file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise BadOption(f"{about}.file = {section.file!r}: expected a readable file ({reason})") from None
    if section.watermark:
        check_duration(f"{about}.watermark", section.watermark)
    if not _DURATION.fullmatch(section.trigger):
        raise BadOption(f'{about}.trigger = {section.trigger!r}: expected a duration such as "10 seconds"')
    try:
        check_position("starting", section.starting, ("earliest", "latest"))
    except BadOption as error:
        raise BadOption(f"{about}: {error}") from None
    adapter_set, adapter = _publisher(config, about, section)
    query = LiveQuery(name, sql, section, adapter_set, adapter, config)
    query.target(Place(Path(config.server.data_dir), "http://127.0.0.1"))
    return query


def start(spark: SparkSession, place: Place, query: LiveQuery, *, once: bool = False) -> StreamingQuery:
    """The query runs until it is stopped; `once`: until it has what is journaled now. Raises BadOption."""
    from pyspark.errors import AnalysisException

    from penstock.pipeline.publish import ONCE, publish_stream
    from penstock.pipeline.streaming_sql import live

    place.check_tables(query.about)
    section = query.section
    target = query.target(place)
    read = live(
        spark,
        place,
        starting=section.starting,
        max_events=section.max_events,
        watermark=section.watermark,
        reports=str(place.damage),
    )
    df = checked(spark, query, catalog_of(query.config, place.data_dir, place), target, read)
    try:
        return publish_stream(
            df,
            place=place,
            adapter_set=query.adapter_set,
            adapter=query.adapter,
            item_template=section.item,
            mode=section.mode,
            key=section.key or None,
            command=section.command or None,
            order_by=section.order_by,
            trigger=ONCE if once else section.trigger,
            output_mode=section.output_mode,
            query_name=query.name,
            checkpoint=place.checkpoint(query.name),
        )
    except AnalysisException as error:
        # Spark Connect says only now of a query that it cannot be a stream.
        raise BadOption(f"{query.about}: {sentence(error)}") from None


def catalog_of(config: Config, data_dir: Path | None, place: Place | None = None) -> Catalog:
    """The tables; with a place, the journal is read wherever that says. Raises BadOption, LakeFailed."""
    from penstock.history.catalog import Catalog, TableError
    from penstock.history.lake_url import LakeUnavailable
    from penstock.pipeline.remote import RemoteJournal

    address = None if place is None else place.remote_journal
    try:
        return Catalog(config, data_dir, None if address is None else RemoteJournal(address))
    except TableError as error:
        raise BadOption(str(error)) from None
    except LakeUnavailable as error:
        raise LakeFailed(str(error)) from None


def checked(spark: SparkSession, query: LiveQuery, catalog: Catalog, target: Target, read: Any) -> DataFrame:
    """What the query comes to, with everything that Spark can say of it before it runs. Raises BadOption."""
    from penstock.pipeline.streaming_sql import SqlQuery

    sql = SqlQuery(query.sql, catalog, query.about)
    if not sql.tables:
        # Spark's own words for a table that is not there are better than ours for a text without one.
        sql.dataframe(spark, read)
        raise BadOption(f"{query.about}: the SQL reads no table; there are: {', '.join(catalog.names()) or 'none'}")
    df = sql.dataframe(spark, read)
    sql.check_stream(df, query.section.watermark, query.section.output_mode)
    check_result(df, target, query.section.order_by, query.about)
    return df


def check_result(df: DataFrame, target: Target, order_by: tuple[str, ...], about: str) -> None:
    """Whether the columns can be items. Raises BadOption."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    try:
        target.check_columns(df.columns)
    except BadOption as error:
        raise BadOption(f"{about}: {_as_written(error)}") from None
    for field in df.schema:
        if isinstance(field.dataType, StructType | ArrayType | MapType):
            advice = f", such as {field.name}.start" if field.name == "window" else ""
            raise BadOption(
                f"{about}: the column {field.name!r} is of type {field.dataType.simpleString()}, which cannot be a "
                f"field; select parts of it{advice}"
            )
    for name in order_by:
        if name not in df.columns:
            raise BadOption(
                f"{about}: order_by names the column {name!r}, which is not there; the result has "
                f"{', '.join(df.columns)}"
            )


def check_duration(key: str, value: str) -> None:
    """Of a watermark. Raises BadOption."""
    if value != NEVER and not _DURATION.fullmatch(value):
        raise BadOption(f'{key} = {value!r}: expected a duration such as "10 minutes", or "{NEVER}"')


def _publisher(config: Config, about: str, section: QuerySection) -> tuple[str, str]:
    """The ingest adapter that the rows go to."""
    if section.to:
        adapter_set, _, adapter = section.to.partition("/")
        # A set that is not here may be the demo's, or that of another server.
        if adapter_set in config.adapters:
            data = config.adapters[adapter_set].data.get(adapter)
            if data is None or data.adapter != "ingest":
                raise BadOption(f"{about}.to = {section.to!r}: expected an ingest adapter; there is none of this name")
            if not data.journal.items:
                key = f"adapters.{adapter_set}.data.{adapter}.journal.items"
                raise BadOption(f"{about}.to = {section.to!r}: expected an adapter that is journaled; set {key}")
        return adapter_set, adapter
    example = _BRACES.sub("x", section.item)
    found = [
        (adapter_set, adapter)
        for adapter_set, each in config.adapters.items()
        for adapter, data in each.data.items()
        if data.adapter == "ingest" and data.journal.items and _declares(data.parameters, example, section.mode)
    ]
    if len(found) == 1:
        return found[0]
    several = f": {' and '.join('/'.join(each) for each in found)} do" if found else ""
    raise BadOption(
        f'{about}: expected to = "SET/ADAPTER", because {"no" if not found else "not exactly one"} journaled ingest '
        f"adapter declares {section.item!r} as {section.mode}{several}"
    )


def _declares(parameters: Mapping[str, Any], item: str, mode: str) -> bool:
    """As the adapter itself reads its items."""
    items = parameters.get("items", ())
    modes = items if isinstance(items, Mapping) else dict.fromkeys(items, "MERGE")
    return any(given == mode and fnmatchcase(item, str(pattern)) for pattern, given in modes.items())


def _as_written(error: BadOption) -> str:
    """In the words of the configuration."""
    return str(error).replace("itemTemplate", "item").replace("the DataFrame", "the result")
