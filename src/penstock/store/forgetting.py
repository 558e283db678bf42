"""What the database knows of items and controllers that must be forgotten: subscriptions, notifications, registrations.

SQLite would leave the bytes of deleted rows in its files: there the file is written anew. PostgreSQL does that in its
own time. Blocks: not for an event loop. Read next: docs/history.md, "Erasing".
"""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, delete, select, update

from penstock.store import schema
from penstock.store.store import Store


def forget(store: Store, items: Collection[tuple[str, str, str]], controllers: Collection[str]) -> int:
    """Items are adapter set, adapter and name; controllers are UUIDs. Returns how many rows went or were changed."""
    with store.engine.begin() as connection:
        changed = _forget_items(connection, items) + _forget_controllers(connection, controllers)
    if store.engine.dialect.name == "sqlite":
        # Also when nothing was found: an attempt before may have been killed between the two.
        raw = store.engine.raw_connection()
        try:
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            raw.close()
    return changed


def _forget_items(connection: Connection, items: Collection[tuple[str, str, str]]) -> int:
    """A subscription to several items goes if it is to one of these: it could not be kept without the name."""
    subscriptions, notifications = schema.push_subscriptions, schema.push_notifications
    changed = 0
    for row in connection.execute(select(subscriptions.c.id, subscriptions.c.flow)).all():
        adapter_set, data_adapter, _group, _schema, _mode, names, _fields = json.loads(row.flow)
        if any((adapter_set, data_adapter, name) in items for name in names):
            changed += connection.execute(delete(notifications).where(notifications.c.subscription == row.id)).rowcount
            changed += connection.execute(delete(subscriptions).where(subscriptions.c.id == row.id)).rowcount
    return changed


def _forget_controllers(connection: Connection, controllers: Collection[str]) -> int:
    """Registrations, and identifiers in the log of past sessions. Rights of accounts are not a history: they stay."""
    tlcs, logs = schema.tlcs, schema.session_logs
    changed = 0
    for tlc in connection.execute(select(tlcs).where(tlcs.c.uuid.in_(controllers))).all():
        for row in connection.execute(select(logs.c.id, logs.c.identifiers).where(logs.c.domain == tlc.domain)).all():
            known = json.loads(row.identifiers)
            if tlc.identifier in known:
                left = json.dumps([each for each in known if each != tlc.identifier])
                connection.execute(update(logs).where(logs.c.id == row.id).values(identifiers=left))
                changed += 1
        changed += connection.execute(delete(tlcs).where(tlcs.c.uuid == tlc.uuid)).rowcount
    return changed
