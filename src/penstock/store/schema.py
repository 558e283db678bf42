"""Tables, and the version of their layout: a database is created or brought up to date when it is opened.

A change of layout is one more entry in `STEPS`, never a change of an earlier one. Queries are in `store`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
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
    union,
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

# The domains that authorizations and controllers are in, and those that were made by themselves.
domains = Table(
    "domains",
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

# The payload types that an authorization is restricted to, as JSON; null: all. Without a row: all of both.
payload_policies = Table(
    "payload_policies",
    metadata,
    Column("authorization", String(36), ForeignKey("authorizations.uuid", ondelete="CASCADE"), primary_key=True),
    Column("send", String),
    Column("receive", String),
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

# Named defaults of requests for sessions.
session_templates = Table(
    "session_templates",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("domain", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    # JSON: fields of a request, without the domain.
    Column("fields", String, nullable=False),
    UniqueConstraint("domain", "name"),
)

# The account is not a foreign key: what has happened stays when an account goes.
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
    # Of the session's token; none of sessions from before layout 4.
    Column("digest", LargeBinary(32), index=True),
)

# -- push notifications -----------------------------------------------------------------------------------------------

# Servers that share this database, each with the time at which its lease ends. A new epoch ends what it was before.
push_nodes = Table(
    "push_nodes",
    metadata,
    Column("node", String(255), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("alive_until", BigInteger, nullable=False),
)

push_devices = Table(
    "push_devices",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("platform", String(16), nullable=False),
    Column("application", String, nullable=False),
    Column("token", String, nullable=False),
    # Of the three above, by which a device is found: a token may be longer than what a database can index.
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("status", String(16), nullable=False),
    Column("status_millis", BigInteger, nullable=False),
    Column("used_millis", BigInteger, nullable=False),
    Column("badge", BigInteger, nullable=False),
    # The node that serves it, and another one that asks for it.
    Column("owner", String(255), ForeignKey("push_nodes.node", ondelete="SET NULL")),
    Column("wanted_by", String(255), ForeignKey("push_nodes.node", ondelete="SET NULL")),
    Index("ix_push_devices_owner", "owner", "wanted_by"),
)

push_subscriptions = Table(
    "push_subscriptions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("device", String(64), ForeignKey("push_devices.id", ondelete="CASCADE"), nullable=False, index=True),
    # JSON: the fields of `push.records.Flow` in their order.
    Column("flow", String, nullable=False),
    Column("format", String, nullable=False),
    Column("trigger", String),
    Column("buffer_size", BigInteger),
    Column("max_frequency", Double),
    Column("status", String(16), nullable=False),
    Column("status_millis", BigInteger, nullable=False),
)

# The subscription is not a foreign key: what it has fired is still sent when it is gone.
push_notifications = Table(
    "push_notifications",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("device", String(64), ForeignKey("push_devices.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("subscription", String(64), nullable=False),
    Column("payload", String, nullable=False),
    Column("created_millis", BigInteger, nullable=False),
    Column("expires_millis", BigInteger, nullable=False),
    Column("lasting", Boolean, nullable=False),
)

# -- clusters ---------------------------------------------------------------------------------------------------------

# One row for each cluster: the hub that is active, by the run of its process, and until when. Epochs only grow.
hub_leases = Table(
    "hub_leases",
    metadata,
    Column("cluster", String(32), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("node", String(32), nullable=False),
    Column("run", String(64), nullable=False),
    Column("release", String(64), nullable=False),
    Column("alive_until", BigInteger, nullable=False),
)


def _add_push(connection: Connection) -> None:
    metadata.create_all(connection, [push_nodes, push_devices, push_subscriptions, push_notifications])


def _add_hub_leases(connection: Connection) -> None:
    metadata.create_all(connection, [hub_leases])


def _add_domains(connection: Connection) -> None:
    metadata.create_all(connection, [domains])
    for name in connection.execute(union(select(authorizations.c.domain), select(tlcs.c.domain))).scalars().all():
        connection.execute(insert(domains).values(uuid=str(uuid4()), name=name))
    digest = session_logs.c.digest
    connection.execute(text(f"ALTER TABLE session_logs ADD COLUMN digest {digest.type.compile(connection.dialect)}"))
    for index in session_logs.indexes:
        if digest in list(index.columns):
            index.create(connection)


def _add_policies_and_templates(connection: Connection) -> None:
    metadata.create_all(connection, [payload_policies, session_templates])


# The layout that `metadata` describes.
VERSION = 5

# From a version to the next one, by its number; the first one was 1.
STEPS: Mapping[int, Callable[[Connection], None]] = {
    1: _add_push,
    2: _add_hub_leases,
    3: _add_domains,
    4: _add_policies_and_templates,
}

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
        raise WrongSchema(f"The database has layout {version}; this version of Penstock knows layouts up to {VERSION}")
