"""The index of things for searches: in a file of SQLite, or in PostgreSQL by URL. Every call blocks.

It is made from what the journal has, so losing it loses nothing. Of each thing it has a row with a mark, which says up
to which change it is indexed, in the transaction that indexed it: after a crash the marks that differ show what is
missing. What entries mean is in `wire.ditto.index_entries`; who keeps the index is `doors.ditto.search_writer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from penstock.store.errors import CannotOpen
from penstock.wire.ditto.index_entries import AllOf, AnyOf, Entry, KeyRange, RangeTree

FILE = "search.db"

# A change of the tables is a new number: they are made anew, and filled again.
LAYOUT = 1

# A search begins with the condition that fewest things meet. Things are counted up to this number; so many are sorted
# in some milliseconds.
MANY = 5000

# With fewer it does not matter how many of them may be read.
FEW = 200

# If all conditions are met by more, so many things are looked at in their order, and then so many, before all are
# sorted: most searches have found enough of them then.
WINDOWS = (256, 3000)

# Seconds that a transaction waits for another one.
BUSY_SECONDS = 10

_EVERYTHING = "SELECT thing FROM search_things"
_TABLES = ("search_values", "search_things", "search_readers", "search_state")

_SCHEMA = (
    "CREATE TABLE search_state (layout INTEGER NOT NULL)",
    "CREATE TABLE search_things (thing {text} PRIMARY KEY, policy {text} NOT NULL, revision BIGINT NOT NULL,"
    " modified BIGINT NOT NULL){packed}",
    "CREATE INDEX search_things_policy ON search_things (policy, thing)",
    "CREATE TABLE search_values (path {text} NOT NULL, value {bytes} NOT NULL, thing {text} NOT NULL,"
    " PRIMARY KEY (path, value, thing)){packed}",
    "CREATE INDEX search_values_thing ON search_values (thing, path, value)",
    "CREATE TABLE search_readers (policy {text} NOT NULL, subject {text} NOT NULL,"
    " PRIMARY KEY (policy, subject)){packed}",
    "CREATE INDEX search_readers_subject ON search_readers (subject, policy)",
)


class IndexMark(NamedTuple):
    """Up to which change a thing is indexed."""

    policy: str
    revision: int
    modified: int


class ThingUpdate(NamedTuple):
    """What becomes of a thing in the index; `mark` is None if it is gone.

    `removed` and `added` are differences. If `removed` is None, whatever the index has of the thing is replaced.
    """

    thing: str
    mark: IndexMark | None
    removed: Sequence[Entry] | None
    added: Sequence[Entry]


class SearchIndex:
    """May be asked from any thread, never from the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, named: str, data_dir: Path) -> SearchIndex:
        """By URL, or the file in the data directory, which is made anew if it is damaged. Raises CannotOpen."""
        if named:
            try:
                return cls._opened(named)
            except (SQLAlchemyError, ImportError) as error:
                reason = " ".join(str(getattr(error, "orig", None) or error).split())
                raise CannotOpen(f"the database of the search index cannot be opened: {reason}") from error
        path = data_dir / FILE
        try:
            return cls._opened(f"sqlite:///{path.resolve()}")
        except DatabaseError:
            delete_index(data_dir)
            return cls._opened(f"sqlite:///{path.resolve()}")

    @classmethod
    def _opened(cls, url: str) -> SearchIndex:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=not url.startswith("sqlite"))
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
        try:
            with engine.begin() as connection:
                _prepare(connection)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        self._engine.dispose()

    # -- keeping it ------------------------------------------------------------------------------------------------

    def marks(self) -> dict[str, IndexMark]:
        """Of all things in the index."""
        with self._engine.connect() as connection:
            rows = connection.execute(text("SELECT thing, policy, revision, modified FROM search_things"))
            return {row[0]: IndexMark(row[1], row[2], row[3]) for row in rows}

    def readers(self) -> dict[str, set[str]]:
        """The subjects of all policies in the index."""
        found: dict[str, set[str]] = {}
        with self._engine.connect() as connection:
            for policy, subject in connection.execute(text("SELECT policy, subject FROM search_readers")):
                found.setdefault(policy, set()).add(subject)
        return found

    def apply(self, things: Iterable[ThingUpdate], policies: Iterable[tuple[str, Iterable[str]]] = ()) -> None:
        """All of it, in one transaction; of a policy the subjects that it has now. Again is the same as once."""
        replaced: list[dict[str, str]] = []
        removed: list[dict[str, Any]] = []
        added: list[dict[str, Any]] = []
        gone: list[dict[str, str]] = []
        marked: list[dict[str, Any]] = []
        for thing, mark, before, after in things:
            if before is None:
                replaced.append({"thing": thing})
            else:
                removed += [{"path": path, "value": value, "thing": thing} for path, value in before]
            added += [{"path": path, "value": value, "thing": thing} for path, value in after]
            if mark is None:
                gone.append({"thing": thing})
            else:
                marked.append({"thing": thing, **mark._asdict()})
        emptied: list[dict[str, str]] = []
        readers: list[dict[str, str]] = []
        for policy, subjects in policies:
            emptied.append({"policy": policy})
            readers += [{"policy": policy, "subject": subject} for subject in subjects]
        # In the order of the index: many of them at once go to the same pages of the file.
        added.sort(key=_place)
        with self._engine.begin() as connection:
            for statement, rows in (
                (_REPLACE, replaced),
                (_REMOVE, removed),
                (_ADD, added),
                (_FORGET, gone),
                (_MARK, marked),
                (_EMPTY, emptied),
                (_READER, readers),
            ):
                if rows:
                    connection.execute(statement, rows)

    # -- asking it -------------------------------------------------------------------------------------------------

    def candidates(
        self,
        node: RangeTree | None,
        subjects: Sequence[str],
        namespaces: Sequence[str] | None,
        after: str,
        count: int,
    ) -> list[str]:
        """The first things after an ID that may match and may be readable, by ID; fewer than `count` at the end."""
        question = _Question(subjects, namespaces, after, count)
        with self._engine.connect() as connection:
            found: list[str] = []
            for statement in question.statements(connection, node):
                found = [row[0] for row in connection.execute(text(statement), question.values)]
                if len(found) >= count:
                    break
            return found


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["path"], row["value"], row["thing"]


def delete_index(data_dir: Path) -> None:
    """The file in the data directory, so that nothing is left of what was in it; the next start fills another one."""
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
        (data_dir / name).unlink(missing_ok=True)


_REPLACE = text("DELETE FROM search_values WHERE thing = :thing")
_REMOVE = text("DELETE FROM search_values WHERE path = :path AND value = :value AND thing = :thing")
_ADD = text("INSERT INTO search_values (path, value, thing) VALUES (:path, :value, :thing) ON CONFLICT DO NOTHING")
_FORGET = text("DELETE FROM search_things WHERE thing = :thing")
_MARK = text(
    "INSERT INTO search_things (thing, policy, revision, modified) VALUES (:thing, :policy, :revision, :modified)"
    " ON CONFLICT (thing) DO UPDATE SET policy = excluded.policy, revision = excluded.revision,"
    " modified = excluded.modified"
)
_EMPTY = text("DELETE FROM search_readers WHERE policy = :policy")
_READER = text("INSERT INTO search_readers (policy, subject) VALUES (:policy, :subject) ON CONFLICT DO NOTHING")


class _Question:
    """The statement of one search, and the values in it."""

    def __init__(self, subjects: Sequence[str], namespaces: Sequence[str] | None, after: str, count: int) -> None:
        if namespaces:
            # All that come before are in none of them.
            after = max(after, min([f"{each}:" for each in namespaces]))
        self.values: dict[str, Any] = {"after": after, "count": count}
        self._subjects = ", ".join([self._value(each) for each in subjects]) or "NULL"
        # The semicolon comes after the colon.
        self._namespaces = (
            None if namespaces is None else [(self._value(f"{each}:"), self._value(f"{each};")) for each in namespaces]
        )

    def statements(self, connection: Connection, node: RangeTree | None) -> list[str]:
        """To be tried in their order, until one finds enough; the last one finds all."""
        parts = node.nodes if isinstance(node, AllOf) else () if node is None else (node,)
        best: str | None = None
        size = MANY
        for part in parts:
            found = self._count(connection, self._source(part, once=False), size)
            if found < size:
                best, size = self._source(part), found
        readers = f"SELECT r.policy FROM search_readers r WHERE r.subject IN ({self._subjects})"
        if size > FEW and self._count(connection, readers, size) < size:
            source = f"SELECT t.thing FROM search_things t WHERE t.policy IN ({readers})"
            if self._count(connection, source, size) < size:
                return [self._statement(source, node)]
        if best is not None:
            return [self._statement(best, node)]
        exact = [part for part in parts if isinstance(part, KeyRange) and part.exact]
        if exact or not parts:
            # They are in order already, however many there are.
            return [self._statement(self._source(exact[0]) if exact else _EVERYTHING, node)]
        some = [f"{_EVERYTHING} WHERE thing > :after ORDER BY thing LIMIT {window}" for window in WINDOWS]
        return [self._statement(source, node) for source in (*some, self._source(parts[0]))]

    def _statement(self, driver: str, node: RangeTree | None) -> str:
        conditions = ["d.thing > :after"]
        if self._namespaces is not None:
            within = [f"d.thing >= {low} AND d.thing < {high}" for low, high in self._namespaces]
            conditions.append(f"({' OR '.join(within) or '1 = 0'})")
        if node is not None and driver != self._source(node):
            conditions.append(self._probe(node))
        conditions.append(
            "EXISTS (SELECT 1 FROM search_things t JOIN search_readers r ON r.policy = t.policy"
            f" WHERE t.thing = d.thing AND r.subject IN ({self._subjects}))"
        )
        return f"SELECT d.thing FROM ({driver}) d WHERE {' AND '.join(conditions)} ORDER BY d.thing LIMIT :count"

    def _count(self, connection: Connection, source: str, most: int) -> int:
        counted = text(f"SELECT count(*) FROM (SELECT 1 FROM ({source}) c LIMIT {most}) n")
        return int(connection.execute(counted, self.values).scalar_one())

    def _source(self, node: RangeTree, once: bool = True) -> str:
        """The things of a node, each once; or some of them several times, which is faster to count."""
        if isinstance(node, KeyRange):
            distinct = "DISTINCT " if once and not node.exact else ""
            return f"SELECT {distinct}v.thing FROM search_values v WHERE {self._within(node)}"
        if isinstance(node, AnyOf):
            union = " UNION " if once else " UNION ALL "
            return union.join([f"SELECT * FROM ({self._source(each, once)}) u" for each in node.nodes])
        first, *rest = node.nodes
        source = self._source(first, once)
        return f"SELECT d.thing FROM ({source}) d WHERE {' AND '.join([self._probe(each) for each in rest])}"

    def _probe(self, node: RangeTree) -> str:
        """Whether thing `d` is one of a node's."""
        if isinstance(node, KeyRange):
            return f"EXISTS (SELECT 1 FROM search_values v WHERE v.thing = d.thing AND {self._within(node)})"
        word = " AND " if isinstance(node, AllOf) else " OR "
        return f"({word.join([self._probe(each) for each in node.nodes])})"

    def _within(self, node: KeyRange) -> str:
        path, low = self._value(node.path), self._value(node.low)
        if node.exact:
            return f"v.path = {path} AND v.value = {low}"
        return f"v.path = {path} AND v.value >= {low} AND v.value < {self._value(node.high)}"

    def _value(self, value: str | bytes) -> str:
        for name, known in self.values.items():
            if known == value and type(known) is type(value):
                return f":{name}"
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"


def _prepare(connection: Connection) -> None:
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        # Two servers may start at once. Any number will do.
        connection.execute(text("SELECT pg_advisory_xact_lock(7031979)"))
    if _layout(connection, is_sqlite) == LAYOUT:
        return
    for table in _TABLES:
        connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
    # Compared and ordered by code points in both.
    types = {"text": "TEXT", "bytes": "BLOB", "packed": " WITHOUT ROWID"}
    if not is_sqlite:
        types = {"text": 'TEXT COLLATE "C"', "bytes": "BYTEA", "packed": ""}
    for statement in _SCHEMA:
        connection.execute(text(statement.format(**types)))
    connection.execute(text("INSERT INTO search_state (layout) VALUES (:layout)"), {"layout": LAYOUT})


def _layout(connection: Connection, is_sqlite: bool) -> int | None:
    known = "sqlite_master WHERE type = 'table' AND name" if is_sqlite else "pg_tables WHERE tablename"
    if connection.execute(text(f"SELECT 1 FROM {known} = 'search_state'")).first() is None:
        return None
    found = connection.execute(text("SELECT layout FROM search_state")).scalar()
    return None if found is None else int(found)


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A power failure may lose the latest transactions, never the order of them: marks show what is missing.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA cache_size = -65536")
    # Pages: with few of them most would be written twice while the index is filled.
    connection.execute("PRAGMA wal_autocheckpoint = 10000")
