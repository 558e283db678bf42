"""Devices, their subscriptions and notifications under way, in the database that several nodes may share.

Each device is served by one node at a time: its `owner`, who alone writes it. Every call blocks and is a transaction of
its own, as those of `store`. Who is alive is in `lease`; rows are made in `push_rows`. Read next: docs/store.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Dialect, Insert, Select, Table, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from penstock.push.records import Device, DeviceKey, Notification, PushChange, PushSubscription
from penstock.store.errors import AlreadyExists, NoSuchRecord, NotOwner
from penstock.store.lease import LEASE_MILLIS, DatabaseClock, Lease, database_clock, elapsed
from penstock.store.push_batch import PushBatch
from penstock.store.push_rows import (
    device_row,
    devices_of,
    key_digest,
    notification_row,
    notifications_of,
    subscription_row,
    subscriptions_of,
)
from penstock.store.schema import push_devices, push_nodes, push_notifications, push_subscriptions
from penstock.store.store import Store

T = TypeVar("T")

# Devices that one call of `adopt` takes: about a second's work.
ADOPT_LIMIT = 10_000

# Values in one IN (…): databases have limits, the lowest is 32,766.
_CHUNK = 1_000

# In the order of the records' fields.
_DEVICE_COLUMNS = [
    push_devices.c[name]
    for name in ("id", "platform", "application", "token", "status", "status_millis", "used_millis", "badge")
]


@dataclass(frozen=True, slots=True)
class LoadedDevices:
    """Everything about some devices."""

    devices: tuple[Device, ...]
    subscriptions: tuple[PushSubscription, ...]
    notifications: tuple[Notification, ...]


class FoundDevice(NamedTuple):
    """A device by its id, and the node that serves it or did so last; None if it was released."""

    id: str
    owner: str | None


class PushStore:
    """One run of a node. Made by `join`, ended by `leave`.

    After Deposed, from any call, nothing may be served any more: other nodes may do so. A new one must be made by
    `join`, and everything loaded from it again.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._engine = store.engine
        self._fence_of_hub = store.fence
        self._reader = store.reader
        self._lease = lease
        dialect = store.engine.dialect
        self._save_devices = _upsert(dialect, push_devices, kept={"owner", "wanted_by"})
        self._save_subscriptions = _upsert(dialect, push_subscriptions)
        self._save_notifications = _upsert(dialect, push_notifications)

    @classmethod
    def join(
        cls,
        store: Store,
        node: str,
        lease_millis: int = LEASE_MILLIS,
        clock: DatabaseClock = database_clock,
        stopwatch: Callable[[], float] = elapsed,
    ) -> PushStore:
        """Become a node, with the devices that the last run of the same name had.

        The caller makes sure that there is no other process of this name, see `node`. If there is, it is deposed.
        """
        lease = Lease(node, lease_millis, clock, stopwatch)
        lease.join(store.engine)
        return cls(store, lease)

    @property
    def node(self) -> str:
        return self._lease.node

    # -- the lease ------------------------------------------------------------------------------------------------

    def lease_left(self) -> float:
        """Seconds for which this node may serve its devices; from 0 downwards it must not. Does not block."""
        left = self._lease.left()
        # The next hub of a cluster has the same devices, and does not wait for the end of this lease.
        return left if self._fence_of_hub is None else min(left, self._fence_of_hub.left())

    def renew(self) -> list[str]:
        """Extend the lease; returns devices that others ask for. Stop serving these, then `release` them.

        To be called every RENEW_SECONDS. If the database is away, so that this fails until the lease has run out, call
        it further on: if nobody has taken devices meanwhile the node may go on with what it has.
        """
        self._lease.renew(self._engine)
        # A comparison, because it can use the index in SQLite too, which `IS NOT NULL` cannot.
        asked = select(push_devices.c.id).where(push_devices.c.owner == self.node, push_devices.c.wanted_by > "")
        with self._reader.connect() as connection:
            return list(connection.execute(asked.order_by(push_devices.c.id)).scalars())

    def leave(self) -> None:
        """At the end in good order: others may take the devices at once. Nothing may be served when this is called."""
        self._lease.leave(self._engine)

    # -- whose devices --------------------------------------------------------------------------------------------

    def find(self, key: DeviceKey) -> FoundDevice | None:
        query = select(push_devices.c.id, push_devices.c.owner).where(push_devices.c.digest == key_digest(key))
        with self._reader.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else FoundDevice(row.id, row.owner)

    def claim(self, device: str) -> LoadedDevices | None:
        """A device by its id, now of this node; None if a living node has it, which is asked for it.

        That one releases it at its next renewal; then `adopt` returns it, and so does this. Call this again until one
        of them has, because a device that is being written is not asked for. Raises NoSuchRecord if it is not there
        (any more).
        """
        mine = push_devices.c.id == device
        query = select(push_devices.c.owner).where(mine)
        with self._engine.begin() as connection:
            before = connection.execute(query).one_or_none()
            if before is None:
                raise NoSuchRecord(f"Device {device} does not exist")
            # Nodes are locked before devices, everywhere.
            dead = self._lease.depose(connection, [] if before.owner is None else [before.owner])
            row = connection.execute(query.with_for_update(key_share=True, skip_locked=True)).one_or_none()
            if row is None:
                return None
            if row.owner not in (None, self.node, *dead):
                connection.execute(update(push_devices).where(mine).values(wanted_by=self.node))
                return None
            connection.execute(update(push_devices).where(mine).values(owner=self.node, wanted_by=None))
            found = _rows(connection, mine)
        return _loaded([found])

    def adopt(self, limit: int = ADOPT_LIMIT) -> LoadedDevices:
        """Take devices that nobody serves: those of dead nodes, and those that were released.

        To be called after each renewal, and again at once if it returns as many as it may. A device that was released
        for another living node is left to that one.
        """
        with self._engine.begin() as connection:
            dead = self._lease.depose(connection)
            alive = select(push_nodes.c.node).where(push_nodes.c.node.not_in([*dead, self.node]))
            wanted = push_devices.c.wanted_by
            free = push_devices.c.owner.is_(None) & or_(wanted.is_(None), wanted.not_in(alive))
            query = select(push_devices.c.id).where(or_(free, push_devices.c.owner.in_(dead))).limit(limit)
            # Others may be about to take some of the same: they take those, this node takes the next.
            ids = connection.execute(query.with_for_update(skip_locked=True, key_share=True)).scalars().all()
            for chunk in _chunks(ids):
                taken = update(push_devices).where(push_devices.c.id.in_(chunk))
                connection.execute(taken.values(owner=self.node, wanted_by=None))
            if dead:
                self._lease.forget(connection, dead)
            found = [_rows(connection, push_devices.c.id.in_(chunk)) for chunk in _chunks(ids)]
        return _loaded(found)

    def release(self, devices: Iterable[str]) -> None:
        """Those that are not served any more; others may take them."""
        with self._engine.begin() as connection:
            self._lease.hold(connection)
            for chunk in _chunks(sorted(devices)):
                own = push_devices.c.id.in_(chunk), push_devices.c.owner == self.node
                connection.execute(update(push_devices).where(*own).values(owner=None))

    # -- what is kept ---------------------------------------------------------------------------------------------

    def load(self) -> LoadedDevices:
        """Everything of this node."""
        with self._engine.begin() as connection:
            self._lease.hold(connection)
            found = _rows(connection, push_devices.c.owner == self.node)
        return _loaded([found])

    def write(self, changes: Iterable[PushChange]) -> None:
        """All of them or none, on the disk when it returns; how it is at the end of the list counts.

        New devices are this node's. Raises NotOwner if one of the others is not, AlreadyExists for a new device or a
        new token that another device has, NoSuchRecord for something of a device that is not there, BadName for a text
        that cannot be stored. If the database fails it may be written or not; the same may be written again.
        """
        batch = PushBatch(changes)
        if not batch:
            return
        devices = [{**device_row(each), "owner": self.node} for each in batch.devices.values()]
        subscriptions = [subscription_row(each) for each in batch.subscriptions.values()]
        notifications = [notification_row(each) for each in batch.notifications.values()]
        try:
            with self._engine.begin() as connection:
                self._lease.hold(connection)
                known = self._fence(connection, batch)
                _delete(connection, push_devices, batch.dropped_devices)
                _delete(connection, push_subscriptions, batch.dropped_subscriptions)
                _delete(connection, push_notifications, batch.dropped_notifications)
                _make_way(connection, [row for row in devices if known.get(row["id"], row["digest"]) != row["digest"]])
                for statement, rows in (
                    (self._save_devices, devices),
                    (self._save_subscriptions, subscriptions),
                    (self._save_notifications, notifications),
                ):
                    if rows:
                        connection.execute(statement, rows)
        except IntegrityError:
            raise AlreadyExists("A device of this platform, application and token exists already") from None

    def _fence(self, connection: Connection, batch: PushBatch) -> dict[object, object]:
        """Hold every device that is there and changes, if it is ours; returns these with their digests."""
        touched = set(batch.touched)
        for table, dropped in (
            (push_subscriptions, batch.dropped_subscriptions),
            (push_notifications, batch.dropped_notifications),
        ):
            for chunk in _chunks(sorted(dropped)):
                touched.update(connection.execute(select(table.c.device).where(table.c.id.in_(chunk))).scalars())
        known: dict[object, object] = {}
        foreign = set()
        for chunk in _chunks(sorted(touched)):
            columns = select(push_devices.c.id, push_devices.c.owner, push_devices.c.digest)
            query = columns.where(push_devices.c.id.in_(chunk)).order_by(push_devices.c.id)
            for id, owner, digest in connection.execute(query.with_for_update()):
                known[id] = digest
                if owner != self.node:
                    foreign.add(id)
        if foreign:
            raise NotOwner(f"{len(foreign)} devices are not served by node {self.node!r}", frozenset(foreign))
        missing = batch.needed - (known.keys() - batch.dropped_devices)
        if missing:
            raise NoSuchRecord(f"Device {min(missing)} does not exist")
        return known


class _Rows(NamedTuple):
    devices: Sequence[Any]
    subscriptions: Sequence[Any]
    notifications: Sequence[Any]


def _rows(connection: Connection, which: ColumnElement[bool]) -> _Rows:
    """Everything about the devices for which `which` is true, in the order of identifiers."""
    devices = select(*_DEVICE_COLUMNS).where(which).order_by(push_devices.c.id)
    return _Rows(
        connection.execute(devices).all(),
        connection.execute(_of_devices(push_subscriptions, which)).all(),
        connection.execute(_of_devices(push_notifications, which)).all(),
    )


def _of_devices(table: Table, which: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    return select(table).join(push_devices, push_devices.c.id == table.c.device).where(which).order_by(table.c.id)


def _loaded(parts: Sequence[_Rows]) -> LoadedDevices:
    """After the transaction, which would be idle while a hundred thousand of them are made."""
    return LoadedDevices(
        tuple(devices_of([row for part in parts for row in part.devices])),
        tuple(subscriptions_of([row for part in parts for row in part.subscriptions])),
        tuple(notifications_of([row for part in parts for row in part.notifications])),
    )


def _delete(connection: Connection, table: Table, ids: Collection[str]) -> None:
    for chunk in _chunks(sorted(ids)):
        connection.execute(delete(table).where(table.c.id.in_(chunk)))


def _make_way(connection: Connection, moved: Sequence[dict[str, object]]) -> None:
    """Devices that get another token give up the one they have first, because another device may get it."""
    if moved:
        statement = update(push_devices).where(push_devices.c.id == bindparam("moved"))
        values = [{"moved": row["id"], "digest": str(row["id"]).encode()} for row in moved]
        connection.execute(statement.values(digest=bindparam("digest")), values)


def _upsert(dialect: Dialect, table: Table, kept: Collection[str] = ()) -> Insert:
    """Insert rows, or replace those of the same id but for the columns `kept`."""
    made: Any = (postgresql if dialect.name == "postgresql" else sqlite).insert(table)
    changed = [column.name for column in table.columns if column.name != "id" and column.name not in kept]
    statement: Insert = made.on_conflict_do_update(
        index_elements=[table.c.id], set_={name: made.excluded[name] for name in changed}
    )
    return statement


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]
