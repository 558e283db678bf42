"""Whether a file of SQLite is intact: checked whenever it is opened, and by `penstock config check`."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError, OperationalError

from penstock.store.errors import DamagedStore


def check_integrity(engine: Engine, file: str) -> None:
    """Every page, row and index: the larger the file, the longer it takes, but damage would otherwise show only when a
    damaged row is asked for.

    Raises DamagedStore.
    """
    try:
        with engine.connect().execution_options(reads=True) as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(3)")]
    except OperationalError:
        # Locked, not to be opened, and so on: not damage.
        raise
    except DatabaseError as error:
        found = [str(error.orig)]
    if found != ["ok"]:
        raise DamagedStore(
            f"{file} is damaged ({'; '.join(found)}); restore it from a backup, or save what can be read with:"
            f" sqlite3 {file} .recover"
        )
