"""History: one entity's events in order, and typed tables of many, from the lake and the journal together. No JVM.

`layout` says where the lake keeps what, `reader` reads one entity, `catalog` knows the tables, and `table` and
`batches` here give their rows to DuckDB, polars and others. Writing the lake is the pipeline's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.history.catalog import ServedJournal
    from penstock.history.lake_root import LakeRoot


def lake_sequence(root: LakeRoot) -> int:
    """Up to which sequence the lake is complete; 0 when there is none. Reads the Delta log: call it in a thread.

    Raises LakeUnavailable.
    """
    # Imported here: a server without a lake never pays for it.
    from penstock.history.lake_root import open_table, reading
    from penstock.history.layout import SEQUENCE

    table = open_table(root)
    with reading(root):
        return 0 if table is None else table.transaction_version(SEQUENCE) or 0


def table(
    name: str,
    data_dir: str | Path | None = None,
    *,
    config: str | Path | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    journal: ServedJournal | None = None,
) -> pa.Table:
    """A typed table, as of now, in the order in which the server received its events: an Arrow table.

    `config` is the server's configuration file, which may declare tables; without it those are there that are not
    declared. `since` and `until` bound the time of reception; both need their zone, and may be texts such as
    `2026-01-31T12:00:00Z`. `journal` is that of a server on another machine, in place of a directory
    (`penstock.pipeline.remote.RemoteJournal`); then `config` has to name the lake, at a URL. Raises
    `penstock.history.catalog.TableError` for a table that there is not, and ValueError.
    """
    read = batches(name, data_dir, config=config, since=since, until=until, journal=journal)
    return read.read_all().sort_by("sequence")


def batches(
    name: str,
    data_dir: str | Path | None = None,
    *,
    config: str | Path | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    journal: ServedJournal | None = None,
) -> pa.RecordBatchReader:
    """The same, one batch after another and in no order, for tables that are larger than memory."""
    # Imported here: the server imports this package, and has no tables.
    from dataclasses import replace

    import pyarrow as pa

    from penstock.config import load
    from penstock.history.catalog import Catalog, TableError
    from penstock.history.lake_root import lake_of, may_be
    from penstock.history.lake_url import LakeUrl
    from penstock.history.projection import projected
    from penstock.history.scan import TableScan

    given = load(
        None if config is None else Path(config), {} if data_dir is None else {"server.data_dir": str(data_dir)}
    ).config
    directory = Path(given.server.data_dir)
    lake = lake_of(given, directory)
    if journal is not None and not isinstance(lake, LakeUrl):
        raise TableError(
            "journal is that of a server, so lake.url of the configuration is needed: a table has what is in the lake"
        )
    if journal is None and not (directory / "journal").is_dir() and not may_be(lake):
        raise TableError(f"there is neither a journal nor a lake in {directory}; expected the server's data directory")
    found = Catalog(given, directory, journal).table(name)
    selection = replace(found.selection, since=_micros("since", since), until=_micros("until", until))
    scan = TableScan(None if journal is not None else directory / "journal", lake, selection, reader=journal)

    def rows() -> Iterator[Any]:
        for share in scan.plan():
            yield from projected(found, scan.read(share))

    return pa.RecordBatchReader.from_batches(found.schema, rows())


def _micros(name: str, given: datetime | str | None) -> int | None:
    if given is None:
        return None
    try:
        when = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise ValueError(f"{name} is {given!r}; expected a time such as 2026-01-31T12:00:00Z") from None
    if when.tzinfo is None:
        raise ValueError(f"{name} is {when.isoformat()}; a time needs its zone, such as UTC")
    from datetime import UTC

    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
