"""Whether a database could be opened, found out without changing it: for `penstock config check`.

Opening it for good is in `store`.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from penstock.store import schema
from penstock.store.integrity import check_integrity


def check_database(url: str, *, is_made: bool) -> None:
    """Raise what `Store.open` would. With `is_made` the file's directory is made before, so that it may be missing."""
    if make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(url, hide_parameters=True, poolclass=NullPool)
    else:
        path = Path(make_url(url).database or "")
        if not path.exists():
            if not is_made and not path.parent.is_dir():
                raise OSError("unable to open database file")
            return
        engine = create_engine("sqlite://", poolclass=NullPool, creator=partial(_reading, path))
    try:
        if engine.dialect.name == "sqlite":
            check_integrity(engine, str(path))
        with engine.connect() as connection:
            schema.check(connection)
    finally:
        engine.dispose()


def _reading(path: Path) -> sqlite3.Connection:
    """To read a database in WAL mode SQLite makes two files beside it, unless they are there or it takes the database
    for one that does not change, which is true while there is no WAL.
    """
    in_use = Path(f"{path}-wal").exists()
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro{'' if in_use else '&immutable=1'}", uri=True)
