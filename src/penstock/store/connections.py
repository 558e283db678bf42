"""The documents of connections, encrypted: in a file of SQLite, or in PostgreSQL by URL. Every call blocks."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from penstock.store.errors import CannotOpen
from penstock.store.opening import reason
from penstock.store.seal import Seal

FILE = "connections.db"
KEY_FILE = "connections.key"

# Seconds that a database has to answer.
CONNECT_SECONDS = 10

_TABLE = "CREATE TABLE IF NOT EXISTS penstock_connections (id VARCHAR(128) PRIMARY KEY, document {bytes} NOT NULL)"

# Both kinds of databases know it.
_PUT = (
    "INSERT INTO penstock_connections (id, document) VALUES (:id, :document)"
    " ON CONFLICT (id) DO UPDATE SET document = excluded.document"
)


class ConnectionStore:
    """May be asked from any thread, never from the event loop."""

    def __init__(self, engine: Engine, seal: Seal) -> None:
        self._engine = engine
        self._seal = seal

    @classmethod
    def open(cls, named: str, data_dir: Path, key_file: str = "") -> ConnectionStore:
        """By URL, or the file in the data directory. Raises CannotOpen."""
        seal = Seal.open(Path(key_file) if key_file else data_dir / KEY_FILE)
        url = named or f"sqlite:///{(data_dir / FILE).resolve()}"
        engine: Engine | None = None
        try:
            is_sqlite = url.startswith("sqlite")
            # A database that is out of reach must not keep a request for minutes.
            given = {} if is_sqlite else {"connect_timeout": CONNECT_SECONDS}
            engine = create_engine(url, hide_parameters=True, pool_pre_ping=not is_sqlite, connect_args=given)
            if engine.dialect.name == "sqlite":
                event.listen(engine, "connect", _prepare_sqlite)
            kind = "BLOB" if engine.dialect.name == "sqlite" else "BYTEA"
            with engine.begin() as connection:
                connection.execute(text(_TABLE.format(bytes=kind)))
        except (SQLAlchemyError, ImportError, OSError) as error:
            if engine is not None:
                engine.dispose()
            raise CannotOpen(f"the database of connections cannot be opened: {reason(error)}") from error
        return cls(engine, seal)

    def close(self) -> None:
        self._engine.dispose()

    def all(self) -> dict[str, bytes]:
        """Documents by ID. Raises CannotOpen if one cannot be decrypted."""
        with self._engine.connect() as connection:
            rows = connection.execute(text("SELECT id, document FROM penstock_connections ORDER BY id"))
            return {row[0]: self._seal.unseal(bytes(row[1])) for row in rows}

    def put(self, id: str, document: bytes) -> None:
        """It is on the disk when this returns."""
        with self._engine.begin() as connection:
            connection.execute(text(_PUT), {"id": id, "document": self._seal.seal(document)})

    def remove(self, id: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(text("DELETE FROM penstock_connections WHERE id = :id"), {"id": id})


def _prepare_sqlite(connection: object, _: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
