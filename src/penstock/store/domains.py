"""Domains in the database: each has a row, whoever has named it first.

A domain that an authorization or a controller is in cannot be removed. Who may change them is in `exchange.rights`.
"""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from penstock.store import schema
from penstock.store.errors import AlreadyExists, NoSuchRecord
from penstock.store.names import domain_name
from penstock.store.records import Domain
from penstock.store.store import Store

# What is in a domain, and what it is called.
_CONTENTS = (
    (schema.tlcs, "controllers"),
    (schema.authorizations, "authorizations"),
    (schema.session_templates, "session templates"),
)


class DomainStore:
    """Of an open store. Every call blocks and is a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._engine = store.engine
        self._reader = store.reader

    def add(self, name: str) -> Domain:
        domain = Domain(str(uuid4()), domain_name(name, "name"))
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(schema.domains).values(uuid=domain.uuid, name=domain.name))
        except IntegrityError:
            raise AlreadyExists(f"Domain {domain.name!r} exists already") from None
        return domain

    def all(self) -> list[Domain]:
        with self._reader.connect() as connection:
            found = connection.execute(select(schema.domains).order_by(schema.domains.c.name))
            return [Domain(row.uuid, row.name) for row in found]

    def get(self, uuid: str) -> Domain | None:
        with self._reader.connect() as connection:
            row = connection.execute(select(schema.domains).where(schema.domains.c.uuid == uuid)).one_or_none()
        return None if row is None else Domain(row.uuid, row.name)

    def rename(self, uuid: str, name: str) -> Domain:
        """With all that is in it. Past sessions keep the name that it had."""
        renamed = Domain(uuid, domain_name(name, "name"))
        try:
            with self._engine.begin() as connection:
                before = _locked(connection, uuid)
                connection.execute(
                    update(schema.domains).where(schema.domains.c.uuid == uuid).values(name=renamed.name)
                )
                for table, _ in _CONTENTS:
                    connection.execute(update(table).where(table.c.domain == before).values(domain=renamed.name))
        except IntegrityError:
            raise AlreadyExists(f"Domain {renamed.name!r} exists already") from None
        return renamed

    def remove(self, uuid: str) -> None:
        """Raises AlreadyExists as long as something is in it."""
        with self._engine.begin() as connection:
            name = _locked(connection, uuid)
            for table, what in _CONTENTS:
                if connection.execute(select(table.c.uuid).where(table.c.domain == name).limit(1)).first() is not None:
                    raise AlreadyExists(f"Domain {name!r} still has {what}; they must go first")
            connection.execute(delete(schema.domains).where(schema.domains.c.uuid == uuid))


def _locked(connection: Connection, uuid: str) -> str:
    """Its name. Nobody else can use the row until the transaction ends."""
    query = select(schema.domains.c.name).where(schema.domains.c.uuid == uuid).with_for_update()
    found: str | None = connection.execute(query).scalar_one_or_none()
    if found is None:
        raise NoSuchRecord(f"Domain {uuid} does not exist")
    return found
