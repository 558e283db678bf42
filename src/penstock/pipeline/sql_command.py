"""The command `penstock sql`: a query over typed tables once, or live, shown or published; and which tables there are.

Only the query itself needs pyspark; `--tables` reads files. Not here: queries that run for good (`queries`).
Read next: docs/sql.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.config import Config
from penstock.durable import keep_to_owner
from penstock.pipeline.commands import (
    Api,
    ConfigFile,
    DataDir,
    Json,
    Master,
    apart,
    loaded,
    need_spark,
    one_line_on_error,
    spark_options,
)
from penstock.pipeline.errors import BadOption, PipelineError, explain, sentence
from penstock.pipeline.place import Place
from penstock.pipeline.streams import SPARK_LOG, Streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.history.catalog import Catalog
    from penstock.pipeline.engine import Spark
    from penstock.pipeline.target import Target

# Rows that are printed, unless more are asked for: who forgets a LIMIT should not wait for millions.
ROWS = 1_000

ABOUT = "sql"

# Spark's for `--live`: who watches wants to see groups change.
OUTPUT_MODE = "update"


@dataclass(frozen=True)
class _Wish:
    """What was asked for on the command line."""

    sql: str
    live: bool
    to: str
    item: str
    mode: str
    key: str
    watermark: str
    limit: int
    as_json: bool
    master: str


def sql_command(
    statement: Annotated[str | None, typer.Argument(metavar="SQL", help="The query, in Spark SQL.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="A file with the query.")] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Print the tables and their columns instead.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Print rows as they change, until Ctrl-C.")] = False,
    to: Annotated[
        str, typer.Option("--to", metavar="SET/ADAPTER", help="Publish the rows to this ingest adapter instead.")
    ] = "",
    item: Annotated[
        str, typer.Option("--item", metavar="TEMPLATE", help="With --to: name of the items, columns in braces.")
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="With --to: MERGE, DISTINCT or COMMAND.")] = "MERGE",
    key: Annotated[str, typer.Option("--key", metavar="COLUMN", help="With --to and COMMAND: the key.")] = "",
    watermark: Annotated[
        str,
        typer.Option("--watermark", metavar="DURATION", help="With --live: how late events may be, or never."),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Rows to print; 0: all.")] = ROWS,
    master: Master = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    api: Api = None,
    as_json: Json = False,
) -> None:
    """Run a query over what is journaled, from the lake and the journal together."""
    from penstock.pipeline.queries import catalog_of, check_duration

    with one_line_on_error():
        settings = loaded(config, data_dir)
        place = Place.of(settings, api=api)
        place.check_data()
        place.check_tables(ABOUT)
        catalog = catalog_of(settings, place.data_dir, place)
        if tables:
            typer.echo("\n".join(_described(catalog, as_json)))
            return
        if to and (len(to.split("/")) != 2 or not all(to.split("/"))):
            raise BadOption(f"--to = {to}: expected SET/ADAPTER")
        if bool(to) != bool(item):
            raise BadOption("--to and --item: expected both or none of them")
        if watermark:
            check_duration("--watermark", watermark)
        wish = _Wish(
            _text(statement, file),
            live,
            to,
            item,
            mode.upper(),
            key,
            watermark,
            limit,
            as_json,
            master or settings.pipeline.master,
        )
        if live and not to and wish.master.startswith("sc://"):
            raise BadOption("--live: rows can only be shown with a Spark of this process, not through Spark Connect")
        need_spark()
        keep_to_owner()
        _run(settings, place, catalog, wish)


def _run(settings: Config, place: Place, catalog: Catalog, wish: _Wish) -> None:
    from penstock.pipeline.engine import Spark

    options = {"spark.driver.maxResultSize": "1g", **spark_options(settings)}
    spark = Spark("penstock sql", place.cache, master=wish.master, memory=settings.pipeline.memory, settings=options)
    place.status_dir.mkdir(parents=True, exist_ok=True)
    streams = Streams(place.status_dir / SPARK_LOG, settings)
    checkpoint = Path(tempfile.mkdtemp(prefix="sql-", dir=place.status_dir))
    # A checkpoint that nobody will continue is deleted, however the command is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        lines = apart(lambda: list(_answer(spark, place, catalog, wish, checkpoint, streams)))
    except KeyboardInterrupt:
        # First, because it writes to the checkpoint until it is gone. The output stays Spark's, which complains of it.
        spark.kill()
        shutil.rmtree(checkpoint, ignore_errors=True)
        # Spark ends with us; nobody needs to wait for its threads.
        os._exit(0 if wish.live else 130)
    except Exception as error:
        streams.give_back()
        raise (error if isinstance(error, PipelineError) else PipelineError(f"{ABOUT}: {explain(error)}")) from None
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    streams.give_back()
    for line in lines:
        typer.echo(line)


def _answer(
    engine: Spark, place: Place, catalog: Catalog, wish: _Wish, checkpoint: Path, streams: Streams
) -> Iterator[str]:
    """What there is to print at the end."""
    from penstock.pipeline.queries import check_result
    from penstock.pipeline.streaming_sql import SqlQuery, live, past
    from penstock.pipeline.target import Target

    query = SqlQuery(wish.sql, catalog, ABOUT)
    target = None
    if wish.to:
        adapter_set, adapter = wish.to.split("/")
        target = Target.at(place, adapter_set, adapter, item_template=wish.item, mode=wish.mode, key=wish.key or None)
        _check_target(target, place)
    engine.open()
    try:
        spark = engine.here()
        read = live(spark, place, watermark=wish.watermark) if wish.live else past(spark, place)
        df = query.dataframe(spark, read)
        if wish.live and not query.tables:
            raise BadOption(f"{ABOUT}: the SQL reads no table; there are: {', '.join(catalog.names()) or 'none'}")
        if wish.live:
            query.check_stream(df, wish.watermark, OUTPUT_MODE)
        if target is not None:
            check_result(df, target, (), ABOUT)
        if wish.live:
            _follow(df, place, wish, checkpoint, streams)
        elif target is not None:
            rows = target.rows(df.toArrow())
            if rows.num_rows:
                with target.outlet() as outlet:
                    outlet.put_batch(f"sql-{uuid.uuid4().hex}", 0, rows, target.mode)
            yield f"penstock: {rows.num_rows} rows published"
        else:
            found = (df.limit(wish.limit + 1) if wish.limit else df).toArrow()
            listed = found.to_pylist()
            shown = listed[: wish.limit] if wish.limit else listed
            yield from (map(as_json_line, shown) if wish.as_json else as_text(df.columns, shown))
            if len(shown) < len(listed) and not wish.as_json:
                yield f"… and more; --limit {wish.limit * 10} shows up to {wish.limit * 10:,} rows"
    except PipelineError:
        raise
    except Exception as error:
        # Now: what PySpark raises cannot say what it is when the JVM is gone.
        raise PipelineError(f"{ABOUT}: {sentence(error)}") from None
    finally:
        engine.close()


def _check_target(target: Target, place: Place) -> None:
    """Whether its adapter is there and lets us publish, before Spark starts. Raises PipelineError."""
    from penstock.pipeline.outlet import BatchRefused

    with target.outlet() as outlet:
        try:
            outlet.check()
        except BatchRefused as refused:
            if refused.status != HTTPStatus.UNAUTHORIZED or place.token is not None:
                raise
            raise PipelineError(
                f"{refused}; there is no token in {place.token_file}: set pipeline.token or pipeline.token_file"
            ) from None


def _follow(df: DataFrame, place: Place, wish: _Wish, checkpoint: Path, streams: Streams) -> None:
    """Until Ctrl-C, or until it fails."""
    from pyspark.errors import AnalysisException

    from penstock.pipeline.publish import publish_stream, start_query

    columns = df.columns

    def show(batch: DataFrame, number: int) -> None:
        rows = batch.toArrow().to_pylist()
        if wish.as_json:
            lines: Iterable[str] = map(as_json_line, rows)
        else:
            lines = as_text(columns, rows, head=number == 0) if rows else ()
        try:
            for line in lines:
                streams.result(line)
        except BrokenPipeError:
            # `| head` has what it wants. Spark ends with us, and would only tell of a query that failed.
            os._exit(0)

    try:
        if wish.to:
            adapter_set, adapter = wish.to.split("/")
            query = publish_stream(
                df,
                place=place,
                adapter_set=adapter_set,
                adapter=adapter,
                item_template=wish.item,
                mode=wish.mode,
                key=wish.key or None,
                checkpoint=checkpoint,
                output_mode=OUTPUT_MODE,
            )
            streams.result(f"penstock: publishing to {wish.to}; Ctrl-C ends it")
        else:
            query = start_query(df, show, checkpoint, output_mode=OUTPUT_MODE)
    except AnalysisException as error:
        raise BadOption(f"{ABOUT}: {sentence(error)}") from None
    query.awaitTermination()


def _text(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise BadOption("expected a query, or --file with one")
    if file is None:
        return statement or ""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadOption(f"--file = {file}: expected a readable file ({reason})") from None


# -- for people ----------------------------------------------------------------------------------------------------


def _described(catalog: Catalog, as_json: bool) -> Iterator[str]:
    from penstock.history.catalog import described
    from penstock.pipeline.remote import EntitiesRefused

    for name in catalog.names():
        try:
            table = catalog.table(name)
        except EntitiesRefused as refused:
            # There may be others that the token is for.
            yield json.dumps({"table": name, "refused": str(refused)}) if as_json else f"{name}  {refused}"
            continue
        columns = described(table)
        if as_json:
            yield json.dumps({"table": table.name, "inferred": table.inferred, "columns": dict(columns)})
            continue
        entity = f"{table.prefix}{table.item}"
        yield f"{table.name}  {entity}{' (types inferred)' if table.inferred else ''}"
        yield from (f"    {name} {kind}" for name, kind in columns.items())


def as_json_line(row: dict[str, Any]) -> str:
    """As scripts read it."""
    return json.dumps(row, default=as_cell, ensure_ascii=False)


def as_text(columns: Sequence[str], rows: Sequence[dict[str, Any]], *, head: bool = True) -> Iterator[str]:
    """Columns of the same width; a head with their names."""
    cells = [[as_cell(row[name]) for name in columns] for row in rows]
    table = [list(columns), *cells] if head else cells
    widths = [max((len(row[place]) for row in table), default=0) for place in range(len(columns))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def as_cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).split())
