"""Typed tables in Spark's catalog, so that SQL, notebooks and Spark Connect find `plant.readings`.

Each is a source of its own: Spark gives a table of its catalog none of the options it was created with. A query over
one is planned anew each time, so that it has what is journaled until then. Not here: rows (`source`), SQL that becomes
items (`queries`). Read next: docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.config import Config, load
from penstock.history.catalog import Catalog, TableError
from penstock.history.typed_table import TypedTable
from penstock.pipeline import register
from penstock.pipeline.errors import BadOption
from penstock.pipeline.options import journal_options, lake_options
from penstock.pipeline.place import Place
from penstock.pipeline.queries import catalog_of
from penstock.pipeline.remote import EntitiesRefused
from penstock.pipeline.source import JournalSource

_ABOUT = "register_tables"


def register_tables(
    spark: SparkSession,
    data_dir: str | Path | None = None,
    *,
    config: str | Path | None = None,
    names: Iterable[str] | None = None,
    server: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
) -> list[str]:
    """Put typed tables, and their side tables, into the catalog of a session; returns their names.

    - `data_dir`: the server's data directory; by default that of the configuration.
    - `config`: the server's configuration file, or that of the pipeline: which tables are declared, where the lake is.
    - `names`: which tables; by default all, over the network all that the token is for.
    - `server`: in place of a directory, the address of the API port of the server that has the journal. Then `config`
      has to name the lake, at a URL. By default what `pipeline.journal` of the configuration says.
    - `token`, `token_file`: with `server`, the token of a reader, or a file with it; by default the configuration's.

    Types that are inferred stay as they are now. Raises BadOption, TokenRefused, LakeFailed.
    """
    if server is not None and data_dir is not None:
        raise BadOption(f"{_ABOUT}: data_dir and server are both given; expected one of them")
    if server is None and (token is not None or token_file is not None):
        raise BadOption(f"{_ABOUT}: a token is given without server, the address of the server whose journal is read")
    overrides: dict[str, object] = {}
    if data_dir is not None:
        overrides["server.data_dir"] = str(data_dir)
    if server is not None:
        # As said here, whatever the configuration says about it.
        overrides["pipeline.journal"] = "directory"
    given = load(None if config is None else Path(config), overrides).config
    place = Place.of(given) if server is None else _at_server(given, server, token, token_file)
    place.check_data()
    options = {**journal_options(place), **lake_options(place.lake)}
    place.check_tables(_ABOUT)
    catalog = catalog_of(given, place.data_dir, place)
    tables = list(_tables(catalog, names))
    # A session that knows the tables shall know the journal as well.
    register(spark)
    registered = []
    for table in tables:
        for each in [table] if table.misfits else [table, table.side()]:
            _create(spark, each, options)
            registered.append(each.name)
    return registered


def _at_server(config: Config, server: str, token: str | None, token_file: str | Path | None) -> Place:
    if token is None and token_file is None:
        token, token_file = config.pipeline.reader_token or None, config.pipeline.reader_token_file or None
    return replace(
        Place.of(config),
        api=server,
        remote=True,
        reader_token=token,
        reader_token_file=None if token_file is None else Path(token_file).resolve(),
    )


def _tables(catalog: Catalog, names: Iterable[str] | None) -> Iterator[TypedTable]:
    """Those of these names; without, those that the token is for, if there is one. Raises BadOption, TokenRefused."""
    last: EntitiesRefused | None = None
    found = False
    for name in catalog.names() if names is None else names:
        try:
            yield catalog.table(name)
            found = True
        except TableError as error:
            raise BadOption(str(error)) from None
        except EntitiesRefused as refused:
            if names is not None:
                raise
            last = refused
    if last is not None and not found:
        raise last


def _create(spark: SparkSession, table: TypedTable, options: dict[str, str]) -> None:
    schema, _, name = table.name.partition(".")
    source = f"penstock_{schema}_{name}"
    own = {"name": classmethod(lambda cls: source), "given": {**options, "table": table.encoded()}}
    spark.dataSource.register(type("TableSource", (JournalSource,), own))
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{schema}`")
    spark.sql(f"DROP TABLE IF EXISTS `{schema}`.`{name}`")
    spark.sql(f"CREATE TABLE `{schema}`.`{name}` USING {source}")
