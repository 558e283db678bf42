"""The lease of a cluster's hub: of several hubs one is active, as long as it renews the lease, and others stand by.

One row for each cluster, with an epoch that grows whenever another run of a hub takes it. It is a fence as well: a hub
that opens a database, this one or another, begins by `enter`, and each of its transactions that write by `hold`. Who
waits and renews is `penstock.cluster.tenure`; the lease of nodes that share devices is in `lease`. Read next:
docs/cluster.md, "Many machines".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from penstock.store.errors import Ousted
from penstock.store.lease import MARGIN, DatabaseClock, database_clock, elapsed
from penstock.store.schema import hub_leases

# Epochs are nanoseconds since 1970, or more: so they are above those of a hub that had no database, and took its own.
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, slots=True)
class HubHolder:
    """The active hub, and how long its lease lasts; `seconds` is None if it is about to change."""

    node: str
    release: str
    seconds: float | None


class HubLease:
    """Of one run of a hub. After Ousted it is of no more use."""

    def __init__(
        self,
        cluster: str,
        node: str,
        run: str,
        release: str,
        millis: int,
        clock: DatabaseClock = database_clock,
        stopwatch: Callable[[], float] = elapsed,
    ) -> None:
        """`run` is different each time that a hub starts, or begins to stand by again."""
        self.epoch = 0
        self._cluster = cluster
        self._node = node
        self._run = run
        self._release = release
        self._millis = millis
        self._clock = clock
        self._stopwatch = stopwatch
        self._until = 0.0

    def take(self, engine: Engine) -> HubHolder | None:
        """None if it has been taken; else who has it."""
        self._begin_in(engine)
        started = self._stopwatch()
        with engine.begin() as connection:
            # Whoever is in the middle of a transaction may be frozen there: not waited for.
            query = select(hub_leases).where(self._mine()).with_for_update(skip_locked=True)
            row = connection.execute(query).one_or_none()
            if row is None:
                return HubHolder("", "", None)
            now = self._clock(connection)
            if row.alive_until > now:
                return HubHolder(row.node, row.release, (row.alive_until - now) / 1000)
            self.epoch = max(now * _NANOS_PER_MILLI, row.epoch + 1)
            connection.execute(
                update(hub_leases)
                .where(self._mine())
                .values(
                    epoch=self.epoch,
                    node=self._node,
                    run=self._run,
                    release=self._release,
                    alive_until=now + self._millis,
                )
            )
        self._extend(started)
        return None

    def renew(self, engine: Engine) -> None:
        """Raises Ousted, also if it comes too late and nobody else has it yet: what was not allowed once stays so."""
        started = self._stopwatch()
        with engine.begin() as connection:
            until = self._clock(connection) + self._millis
            if not connection.execute(update(hub_leases).where(*self._own()).values(alive_until=until)).rowcount:
                raise self._ousted("another hub has taken over")
        if self.left() <= 0:
            raise self._ousted("its lease expired before it was renewed")
        self._extend(started)

    def left(self) -> float:
        """Seconds for which this hub may go on, counted from before the database was asked. From any thread."""
        return self._until - self._stopwatch()

    def give_up(self, engine: Engine) -> None:
        """At once, so that another may take over; also after Ousted."""
        self._until = 0.0
        with engine.begin() as connection:
            connection.execute(update(hub_leases).where(*self._own()).values(alive_until=0))

    def enter(self, engine: Engine) -> None:
        """Have hubs with a lower epoch write nothing more into a database, in which the lease need not be.

        Waits for a transaction of theirs that is under way. Raises Ousted if a later hub has been there.
        """
        self._begin_in(engine)
        with engine.begin() as connection:
            query = select(hub_leases.c.epoch).where(self._mine()).with_for_update()
            found = connection.execute(query).scalar_one()
            if found > self.epoch:
                raise self._late()
            if found < self.epoch:
                values = {"epoch": self.epoch, "node": self._node, "run": self._run, "release": self._release}
                connection.execute(update(hub_leases).where(self._mine()).values(alive_until=0, **values))

    def hold(self, connection: Connection) -> None:
        """Until the transaction ends nobody takes over. Raises Ousted if somebody has."""
        # So weak a lock that it is not in the way of `renew`, but of `take` and `enter`.
        own = select(hub_leases.c.epoch).where(*self._own()).with_for_update(read=True, key_share=True)
        if connection.execute(own).scalar_one_or_none() is None:
            raise self._late()

    def _begin_in(self, engine: Engine) -> None:
        with suppress(IntegrityError), engine.begin() as connection:
            self._begin(connection)

    def _begin(self, connection: Connection) -> None:
        if connection.execute(select(hub_leases.c.cluster).where(self._mine())).first() is None:
            nobody = {"epoch": 0, "node": "", "run": "", "release": "", "alive_until": 0}
            connection.execute(insert(hub_leases).values(cluster=self._cluster, **nobody))

    def _mine(self) -> ColumnElement[bool]:
        return hub_leases.c.cluster == self._cluster

    def _own(self) -> tuple[ColumnElement[bool], ...]:
        return self._mine(), hub_leases.c.epoch == self.epoch, hub_leases.c.run == self._run

    def _extend(self, started: float) -> None:
        self._until = started + self._millis * (1 - MARGIN) / 1000

    def _ousted(self, why: str) -> Ousted:
        self._until = 0.0
        return Ousted(f"Hub {self._node!r} of cluster {self._cluster!r} is no longer active: {why}")

    def _late(self) -> Ousted:
        # Not the end of the lease, which is found where that is kept.
        return Ousted(f"Hub {self._node!r} may not write: another hub of cluster {self._cluster!r} has taken over")
