"""The lease of a node: it serves devices only as long as it renews the lease, and others take them only afterwards.

One row for each node, with an epoch. Whoever takes devices of a node raises its epoch in the same transaction, and
every transaction of a node begins by looking at its own: so a node that was paused, or cut off from the database,
cannot write anything after others have taken over. Devices themselves are in `push`. Read next: docs/store.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, select, text, update

from penstock.store.errors import Deposed
from penstock.store.schema import push_devices, push_nodes

# How long a node that has died keeps its devices from the others.
LEASE_MILLIS = 15_000

# How often it is to be renewed: two attempts may fail before it ends.
RENEW_SECONDS = 4.0

# Part of it by which a node stops serving before others may begin, because clocks do not run at quite the same speed.
MARGIN = 0.1

# The time in milliseconds since 1970 that all nodes go by.
DatabaseClock: TypeAlias = Callable[[Connection], int]


def database_clock(connection: Connection) -> int:
    """That of PostgreSQL's machine; servers that share a file of SQLite are on one machine."""
    if connection.dialect.name == "postgresql":
        query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
        return int(connection.execute(text(query)).scalar_one())
    return time.time_ns() // 1_000_000


def elapsed() -> float:
    """Seconds that no change of the clock touches; where that is known, with those of a suspended machine."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class Lease:
    """Of one run of a node. Made by `join`; after Deposed it is of no more use."""

    def __init__(self, node: str, millis: int, clock: DatabaseClock, stopwatch: Callable[[], float]) -> None:
        self.node = node
        self._millis = millis
        self._clock = clock
        self._stopwatch = stopwatch
        self._epoch = 0
        self._until = 0.0

    def join(self, engine: Engine) -> None:
        """Begin, as the only process of this name."""
        started = self._stopwatch()
        with engine.begin() as connection:
            now = self._clock(connection)
            mine = push_nodes.c.node == self.node
            found = connection.execute(select(push_nodes.c.epoch).where(mine).with_for_update(key_share=True))
            last = found.scalar_one_or_none()
            # Never one that was there before, also if the row was forgotten in between.
            self._epoch = max(now, 0 if last is None else last + 1)
            values = {"epoch": self._epoch, "alive_until": now + self._millis}
            if last is None:
                connection.execute(insert(push_nodes).values(node=self.node, **values))
            else:
                connection.execute(update(push_nodes).where(mine).values(**values))
        self._extend(started)

    def renew(self, engine: Engine) -> None:
        """Also after it has run out, if nobody has taken anything. Raises Deposed."""
        started = self._stopwatch()
        with engine.begin() as connection:
            until = self._clock(connection) + self._millis
            if not connection.execute(update(push_nodes).where(*self._own()).values(alive_until=until)).rowcount:
                raise self._deposed()
        self._extend(started)

    def left(self) -> float:
        """Seconds for which this node may go on serving, counted from before the database was asked. May be asked from
        any thread.
        """
        return self._until - self._stopwatch()

    def leave(self, engine: Engine) -> None:
        """At once, for an end in good order; nothing can be written afterwards."""
        self._until = 0.0
        with engine.begin() as connection:
            connection.execute(update(push_nodes).where(*self._own()).values(epoch=self._epoch + 1, alive_until=0))

    def hold(self, connection: Connection) -> None:
        """Until the transaction ends nobody else takes devices of this node. Raises Deposed if somebody has."""
        own = select(push_nodes.c.epoch).where(push_nodes.c.node == self.node).with_for_update(read=True)
        if connection.execute(own).scalar_one_or_none() != self._epoch:
            raise self._deposed()

    def depose(self, connection: Connection, among: Collection[str] | None = None) -> list[str]:
        """Hold this one, and return other nodes that are dead: of `among`, or all. They cannot write any more."""
        self.hold(connection)
        dead = (push_nodes.c.alive_until <= self._clock(connection)) & (push_nodes.c.node != self.node)
        if among is not None:
            dead &= push_nodes.c.node.in_(among)
        # Whoever is in the middle of a transaction is left for the next time. To wait would mean that this node is as
        # dead as that one if that one is frozen, and that two wait for each other if each takes the other for dead.
        query = select(push_nodes).where(dead).with_for_update(key_share=True, skip_locked=True)
        rows = connection.execute(query).all()
        # Zero: deposed already, or gone in good order.
        for row in rows:
            if row.alive_until > 0:
                own = push_nodes.c.node == row.node
                connection.execute(update(push_nodes).where(own).values(epoch=row.epoch + 1, alive_until=0))
        return [row.node for row in rows]

    def forget(self, connection: Connection, dead: Collection[str]) -> None:
        """Those that `depose` has returned, if they have no devices any more."""
        owners = select(push_devices.c.owner).where(push_devices.c.owner.in_(dead))
        connection.execute(delete(push_nodes).where(push_nodes.c.node.in_(dead), push_nodes.c.node.not_in(owners)))

    def _own(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return push_nodes.c.node == self.node, push_nodes.c.epoch == self._epoch

    def _extend(self, started: float) -> None:
        self._until = started + self._millis * (1 - MARGIN) / 1000

    def _deposed(self) -> Deposed:
        self._until = 0.0
        return Deposed(f"Node {self.node!r} has lost its lease: another node has taken its devices, or its name")
