"""Session templates in the database: named defaults of requests for sessions, in a domain.

Their fields are JSON that is not looked into here: see `wire.tlex.templates`.
"""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from penstock.store import schema
from penstock.store.errors import AlreadyExists, NoSuchRecord
from penstock.store.names import checked, domain_name
from penstock.store.records import SessionTemplate
from penstock.store.store import Store, need_domain


class TemplateStore:
    """Of an open store. Every call blocks and is a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._engine = store.engine
        self._reader = store.reader

    def add(self, domain: str, name: str, fields: str) -> SessionTemplate:
        made = SessionTemplate(str(uuid4()), domain_name(domain), checked("name", name), fields)
        values = {"uuid": made.uuid, "domain": made.domain, "name": made.name, "fields": made.fields}
        try:
            with self._engine.begin() as connection:
                need_domain(connection, made.domain)
                connection.execute(insert(schema.session_templates).values(**values))
        except IntegrityError:
            raise _exists(made) from None
        return made

    def all(self) -> list[SessionTemplate]:
        table = schema.session_templates
        with self._reader.connect() as connection:
            found = connection.execute(select(table).order_by(table.c.domain, table.c.name))
            return [SessionTemplate(row.uuid, row.domain, row.name, row.fields) for row in found]

    def get(self, uuid: str) -> SessionTemplate | None:
        table = schema.session_templates
        with self._reader.connect() as connection:
            row = connection.execute(select(table).where(table.c.uuid == uuid)).one_or_none()
        return None if row is None else SessionTemplate(row.uuid, row.domain, row.name, row.fields)

    def find(self, domain: str, name: str) -> SessionTemplate | None:
        table = schema.session_templates
        with self._reader.connect() as connection:
            query = select(table).where(table.c.domain == domain, table.c.name == name)
            row = connection.execute(query).one_or_none()
        return None if row is None else SessionTemplate(row.uuid, row.domain, row.name, row.fields)

    def change(self, changed: SessionTemplate) -> None:
        """Name and fields; the domain stays."""
        table = schema.session_templates
        values = {"name": checked("name", changed.name), "fields": changed.fields}
        try:
            with self._engine.begin() as connection:
                done = connection.execute(update(table).where(table.c.uuid == changed.uuid).values(**values)).rowcount
        except IntegrityError:
            raise _exists(changed) from None
        if not done:
            raise NoSuchRecord(f"Session template {changed.uuid} does not exist")

    def remove(self, uuid: str) -> None:
        table = schema.session_templates
        with self._engine.begin() as connection:
            gone = connection.execute(delete(table).where(table.c.uuid == uuid)).rowcount
        if not gone:
            raise NoSuchRecord(f"Session template {uuid} does not exist")


def _exists(template: SessionTemplate) -> AlreadyExists:
    return AlreadyExists(f"Session template {template.name!r} in domain {template.domain!r} exists already")
