"""Typed tables in Spark's catalog, so that SQL, notebooks and Spark Connect find `plant.readings`.

Each is a source of its own: Spark gives a table of its catalog none of the options it was created with. A query over
one is planned anew each time, so that it has what is journaled until then. Not here: rows (`source`), SQL that becomes
items (`queries`). Read next: docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.config import load
from penstock.history.lake_root import lake_of
from penstock.history.typed_table import TypedTable
from penstock.pipeline import register
from penstock.pipeline.errors import BadOption
from penstock.pipeline.options import lake_options
from penstock.pipeline.queries import catalog_of
from penstock.pipeline.source import JournalSource


def register_tables(
    spark: SparkSession,
    data_dir: str | Path | None = None,
    *,
    config: str | Path | None = None,
    names: Iterable[str] | None = None,
) -> list[str]:
    """Put the tables of a data directory, and their side tables, into the catalog of a session; returns their names.

    - `data_dir`: the server's data directory; by default that of the configuration.
    - `config`: the server's configuration file, which may declare tables.
    - `names`: which ones; by default all.

    Types that are inferred stay as they are now. Raises BadOption.
    """
    from penstock.history.catalog import TableError

    given = load(
        None if config is None else Path(config), {} if data_dir is None else {"server.data_dir": str(data_dir)}
    ).config
    directory = Path(given.server.data_dir).resolve()
    if not (directory / "journal").is_dir():
        raise BadOption(f"there is no journal in {directory}; expected the server's data directory")
    catalog = catalog_of(given, directory)
    try:
        tables = [catalog.table(name) for name in (catalog.names() if names is None else names)]
    except TableError as error:
        raise BadOption(str(error)) from None
    # A session that knows the tables shall know the journal as well.
    register(spark)
    registered = []
    for table in tables:
        for each in [table] if table.misfits else [table, table.side()]:
            _create(spark, each, directory / "journal", lake_options(lake_of(given, directory)))
            registered.append(each.name)
    return registered


def _create(spark: SparkSession, table: TypedTable, journal: Path, lake: dict[str, str]) -> None:
    schema, _, name = table.name.partition(".")
    source = f"penstock_{schema}_{name}"
    own = {"name": classmethod(lambda cls: source), "given": {"path": str(journal), "table": table.encoded(), **lake}}
    spark.dataSource.register(type("TableSource", (JournalSource,), own))
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{schema}`")
    spark.sql(f"DROP TABLE IF EXISTS `{schema}`.`{name}`")
    spark.sql(f"CREATE TABLE `{schema}`.`{name}` USING {source}")
