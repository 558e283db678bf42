"""Tables, and the version of their layout: a database is created or brought up to date when it is opened.

A change of layout is one more entry in `STEPS`, never a change of an earlier one. Queries are in `store`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
    update,
)

from penstock.store.digest import KEY_SIZE
from penstock.store.errors import WrongSchema

metadata = MetaData()

# Of one row: the version of the layout, and the key of the tokens' hashes.
state = Table(
    "penstock_store",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("token_key", LargeBinary(KEY_SIZE), nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
)

authorizations = Table(
    "authorizations",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("account", String(36), ForeignKey("accounts.uuid", ondelete="CASCADE"), nullable=False, index=True),
    Column("domain", String(255), nullable=False),
    Column("role", String(32), nullable=False),
)

# The controllers an authorization is restricted to.
scopes = Table(
    "authorization_identifiers",
    metadata,
    Column("authorization", String(36), ForeignKey("authorizations.uuid", ondelete="CASCADE"), primary_key=True),
    Column("identifier", String(8), primary_key=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column(
        "authorization", String(36), ForeignKey("authorizations.uuid", ondelete="CASCADE"), nullable=False, index=True
    ),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

tlcs = Table(
    "tlcs",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("domain", String(255), nullable=False),
    Column("identifier", String(8), nullable=False),
    Column("type", String(16), nullable=False),
    Column("account", String(36), ForeignKey("accounts.uuid"), nullable=False),
    UniqueConstraint("domain", "identifier"),
)

# The account is no foreign key: what has happened stays when an account goes.
session_logs = Table(
    "session_logs",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("account", String(36), nullable=False, index=True),
    Column("domain", String(255), nullable=False),
    Column("type", String(16), nullable=False),
    Column("protocol", String(32), nullable=False),
    # JSON.
    Column("identifiers", String, nullable=False),
    Column("created", BigInteger, nullable=False, index=True),
    Column("connected", BigInteger),
    Column("ended", BigInteger, nullable=False, index=True),
    Column("end_reason", String(32), nullable=False),
)

# The layout that `metadata` describes.
VERSION = 1

# From a version to the next one, by its number; version 1 is what is created.
STEPS: Mapping[int, Callable[[Connection], None]] = {}

# Held in PostgreSQL while the layout is looked at: two servers may start at once. Any number will do.
_LOCK = 7_031_978


def prepare(connection: Connection, new_key: bytes) -> bytes:
    """Create the tables or bring them up to date, in one transaction; returns the key of the tokens' hashes.

    Raises WrongSchema for a database of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    state.create(connection, checkfirst=True)
    row = connection.execute(select(state.c.version, state.c.token_key)).one_or_none()
    if row is None:
        metadata.create_all(connection)
        connection.execute(insert(state).values(id=1, version=VERSION, token_key=new_key))
        return new_key
    version, key = row
    _check_version(version)
    for number in range(version, VERSION):
        STEPS[number](connection)
    if version < VERSION:
        connection.execute(update(state).values(version=VERSION))
    return bytes(key)


def check(connection: Connection) -> None:
    """Raise WrongSchema as `prepare` would; nothing is written."""
    if inspect(connection).has_table(state.name):
        version = connection.execute(select(state.c.version)).scalar_one_or_none()
        _check_version(0 if version is None else version)


def _check_version(version: int) -> None:
    if version > VERSION:
        raise WrongSchema(f"The database has layout {version}; this version knows up to {VERSION}")
