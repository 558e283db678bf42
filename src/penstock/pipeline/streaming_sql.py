"""SQL over typed tables as a DataFrame, streaming or not, and what is wrong with it in one sentence.

Not here: who publishes the rows (`queries`), the tables of Spark's catalog (`views`). Read next: docs/sql.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from penstock.history.catalog import Catalog, TableError
from penstock.history.typed_table import TypedTable
from penstock.pipeline.errors import BadOption, BadQuery, sentence
from penstock.pipeline.events import SparkReader, load
from penstock.pipeline.options import lake_options
from penstock.pipeline.place import Place
from penstock.pipeline.progress import OBSERVED
from penstock.pipeline.queries import NEVER
from penstock.pipeline.sqltext import replaced

# What an event is late by.
EVENT_TIME = "time"

# Nodes of Spark's plans that keep rows from batch to batch; streams have a `~` before their name.
_GROUPS = re.compile(r"^[\s:+-]*~(Aggregate|Deduplicate|Distinct)\b", re.MULTILINE)
_JOIN = re.compile(r"^([\s:]*)([:+]- )?~Join\b")
_AT = re.compile(r"\s*;?\s*(?:line \d+,? pos \d+|\(line \d+, pos \d+\))\s*;?\s*$")

# How a table is read: live, as of now, or not at all, for a check.
ReadTable = Callable[[TypedTable], DataFrame]


class SqlQuery:
    """A text of SQL, and the tables in it."""

    def __init__(self, sql: str, catalog: Catalog, about: str) -> None:
        """`about` begins every message. Raises BadOption if there is no text."""
        self.tables: dict[str, TypedTable] = {}
        self._catalog = catalog
        self._about = about
        if not sql.strip():
            raise BadOption(f"{about}: there is no SQL")
        self._sql = replaced(sql.strip().rstrip(";"), self._view)

    def dataframe(self, spark: SparkSession, read: ReadTable) -> DataFrame:
        """What the query comes to. Raises BadOption for SQL that Spark refuses."""
        for name, table in self.tables.items():
            read(table).createOrReplaceTempView(_view_name(name))
        try:
            # In brackets only a query can stand: nothing that changes Spark's catalog, or writes files, is run.
            df = spark.sql(f"SELECT * FROM (\n{self._sql}\n)")
            # Spark Connect looks at it only when it is asked.
            columns = df.schema.names
        except PySparkException as error:
            if _is_syntax(error):
                self._check_syntax(spark)
            raise BadOption(f"{self._about}: {self._sentence(error)}") from None
        for name in columns:
            if columns.count(name) > 1:
                raise BadOption(f"{self._about}: {columns.count(name)} columns of the result are called {name}; use AS")
        return df

    def check_stream(self, df: DataFrame, watermark: str, output_mode: str) -> None:
        """Raises BadQuery for what cannot be said while rows keep coming, and for groups that never end."""
        try:
            _plan_stream(df, output_mode)
        except AnalysisException as error:
            raise BadQuery(f"{self._about}: {sentence(error)}") from None
        if not watermark and _keeps_rows(analyzed(df)):
            raise BadQuery(
                f"{self._about}: it groups, joins or deduplicates rows of a stream, so it needs a watermark: how late "
                f'an event may be, such as "10 minutes", or "{NEVER}"'
            )

    def _check_syntax(self, spark: SparkSession) -> None:
        """Raises BadQuery for what is wrong without the brackets. To be explained, a statement is not run."""
        try:
            spark.sql(f"EXPLAIN {self._sql}")
        except PySparkException as error:
            if _is_syntax(error):
                raise BadQuery(f"{self._about}: {self._sentence(error)}") from None
        raise BadQuery(f"{self._about}: only a query is allowed, such as SELECT; this is another statement")

    def _view(self, name: str) -> str | None:
        try:
            table = self._catalog.table(name)
        except TableError:
            return None
        self.tables[table.name] = table
        return _view_name(table.name)

    def _sentence(self, error: PySparkException) -> str:
        condition = str(error.getCondition() or "")
        if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
            name = re.sub("[`]", "", (error.getMessageParameters() or {}).get("relationName", ""))
            try:
                self._catalog.table(name)
            except TableError as missing:
                return str(missing)
        text = _AT.sub("", sentence(error))
        for name in self.tables:
            text = text.replace(_view_name(name), name)
        kind = "it cannot be parsed: " if _is_syntax(error) else ""
        return f"{kind}{text}"


def live(
    spark: SparkSession,
    place: Place,
    *,
    starting: str = "earliest",
    max_events: int | None = None,
    watermark: str = "",
    reports: str = "",
) -> ReadTable:
    """Tables as they grow; values that do not fit are counted in the query's progress."""

    def read(table: TypedTable) -> DataFrame:
        stream = spark.readStream.format("penstock").option("table", table.encoded()).option("startingOffset", starting)
        if max_events is not None:
            stream = stream.option("maxEventsPerTrigger", str(max_events))
        if reports:
            stream = stream.option("damageReports", reports)
        df = load(_at_lake(stream, place), place)
        if not table.misfits:
            df = df.observe(
                OBSERVED + table.name,
                fn.count(fn.lit(1)).alias("events"),
                fn.sum("misfits").alias("misfits"),
            )
        return _late(df, watermark)

    return read


def past(spark: SparkSession, place: Place) -> ReadTable:
    """Tables as they are now, from the lake and the journal together."""

    def read(table: TypedTable) -> DataFrame:
        return load(_at_lake(spark.read.format("penstock").option("table", table.encoded()), place), place)

    return read


def _at_lake(source: SparkReader, place: Place) -> SparkReader:
    for name, value in lake_options(place.lake).items():
        source = source.option(name, value)
    return source


def empty(spark: SparkSession, watermark: str = "") -> ReadTable:
    """Streams with the columns of tables and without rows: to look at a query where there is no journal."""
    from penstock.pipeline.schema import table_schema

    def read(table: TypedTable) -> DataFrame:
        nothing = spark.readStream.format("rate").load()
        columns = [fn.lit(None).cast(field.dataType).alias(field.name) for field in table_schema(table)]
        return _late(nothing.select(*columns), watermark)

    return read


def _plan_stream(df: DataFrame, output_mode: str) -> None:
    """What Spark does when a query starts. Through Spark Connect it does it only then. Raises AnalysisException."""
    java = getattr(df, "_jdf", None)
    if java is None:
        return
    jvm: Any = df.sparkSession._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(java.queryExecution().analyzed(), mode)
    # The rest it says of the plan. It explains SQL as a batch, and what is put on top of a stream as a stream.
    jvm.PythonSQLUtils.explainString(df.select("*")._jdf.queryExecution(), "simple")


def analyzed(df: DataFrame) -> str:
    """The plan as Spark has resolved it; the same for classic Spark and Spark Connect."""
    # pyspark prints plans, and has no public word for their text.
    private: Any = df
    java = getattr(df, "_jdf", None)
    if java is not None:
        return str(java.queryExecution().analyzed().toString())
    text = str(private._explain_string(extended=True))
    return text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]


def _keeps_rows(plan: str) -> bool:
    """Whether it groups rows of a stream, or joins two of them."""
    lines = plan.splitlines()
    for number, line in enumerate(lines):
        found = _JOIN.match(line)
        if found is None:
            continue
        # What is joined is below it, one step to the right.
        indent = found[1] + (found[2] or "").replace("+", " ").replace("-", " ")
        sides = [
            next(each for each in lines[number + 1 :] if each.startswith(indent + side)) for side in (":- ", "+- ")
        ]
        if all(side[len(indent) + len("+- ") :].startswith("~") for side in sides):
            return True
    return _GROUPS.search(plan) is not None


def _is_syntax(error: PySparkException) -> bool:
    return str(error.getCondition() or "").startswith("PARSE")


def _late(df: DataFrame, watermark: str) -> DataFrame:
    if not watermark or watermark == NEVER:
        return df
    return df.withWatermark(EVENT_TIME, watermark)


def _view_name(table: str) -> str:
    return f"penstock__{table.replace('.', '__')}"
