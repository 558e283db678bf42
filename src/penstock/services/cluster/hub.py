"""The hub as a service: edges come and go over a fabric, are told of adapter sets, and get items and decisions.

Which items, and what is decided, is in `penstock.cluster.owner` and `penstock.cluster.guests`; here they are given
bytes and the time. It never waits for an edge. Read next: docs/cluster.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock import __version__
from penstock.cluster.derived import DerivedItems
from penstock.cluster.guests import Guests
from penstock.cluster.owner import ItemOwner
from penstock.cluster.ports import Bystander, HubFabric
from penstock.kernel.feed import Feed
from penstock.kernel.kernel import Kernel
from penstock.log import get, levels_over
from penstock.monitor.figures import Family, counter, durations, gauge
from penstock.services.cluster.administration import GATE, LEVELS
from penstock.services.cluster.drains import EdgeDrains
from penstock.services.cluster.roll import EdgeRoll
from penstock.services.errors import StartError
from penstock.services.service import Listening, Service
from penstock.services.sets import SetsService
from penstock.transport.episode import Episode
from penstock.wire.fabric.administration import GateBody, LevelsBody
from penstock.wire.fabric.messages import (
    VERSION,
    Alive,
    Call,
    CallDone,
    CallNoted,
    CallRefused,
    FabricError,
    Hello,
    Interest,
    Release,
    SharedSet,
    Welcome,
    decode,
    encode,
)

if TYPE_CHECKING:
    from penstock.journal.fence import Fence
    from penstock.services.push.desk import Desk
    from penstock.store.store import StoreFence

log = get(__name__)

# Seconds between two beats, and between two looks at calls that wait.
BEAT = 1.0
TICK = 0.25


@dataclass(frozen=True, slots=True)
class HubPart:
    """What makes a server a hub. `stream` are the listeners that its edges have; None: it has a streaming port of its
    own. `epoch` is larger than that of every hub before it. `fence` keeps a hub that is replaced out of the journal,
    `store_fence` out of the databases. `bystanders` are for its status.
    """

    fabric: HubFabric
    epoch: int
    stream: list[Listening] | None = None
    fence: Fence | None = None
    store_fence: StoreFence | None = None
    bystanders: Callable[[], list[Bystander]] = list
    # Whether edges are told levels of the log by the hub; those of one machine hear of them from their supervisor.
    tells_levels: bool = False


class EdgeObserver(Protocol):
    """Who is told of edges by the name that the fabric knows them by. `run` is another one for each process."""

    def edge_came(self, edge: str, run: str) -> None:
        """Also one that was there already."""

    def edge_lost(self, edge: str) -> None: ...


class HubService(Service):
    """Opened when adapters and push notifications are there; edges find it from then on."""

    name = "hub"

    def __init__(self, part: HubPart, node: str, kernel: Kernel, sets: SetsService, desk: Desk | None) -> None:
        self.epoch = part.epoch
        # Whether clients are connected to this process as well.
        self.has_clients = part.stream is None
        self.bystanders = part.bystanders
        self._tells_levels = part.tells_levels
        self._node = node
        self._fabric = part.fabric
        self._kernel = kernel
        self._sets = sets
        derived = DerivedItems(part.epoch)
        self.owner = ItemOwner(kernel, part.epoch, derived, self._fabric.send, self._fabric.spread, self._wake)
        self.guests = Guests(part.epoch, sets.judge_of, desk, derived, self._fabric.send, time.monotonic)
        self.owner.serves = self.guests.serves
        # Clients keep what a former hub's optional data adapter has said until that of this one has started.
        self.owner.awaits = sets.has_adapter
        self.guests.settled = self.owner.settled
        # The edges that have been welcomed.
        self.roll = EdgeRoll(node, self.guests, time.monotonic)
        # Who is let in, at edges as well; None: everybody.
        self.gate: Callable[[], GateBody] | None = None
        self.drains = EdgeDrains(self.has_clients, self.roll, self.guests, self.spread_gate)
        self.edge_observer: EdgeObserver | None = None
        self._welcome_due = False
        self._timers: list[asyncio.TimerHandle] = []
        self._nonsense = Episode(log, "an edge sends invalid messages", "edges no longer send invalid messages")

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._kernel.guests = self.guests
        self._kernel.feed_observers.append(self)
        self._sets.changed = self._sets_changed
        try:
            await self._fabric.open(self, self.epoch)
        except BaseException as error:
            self._leave_kernel()
            if isinstance(error, OSError):
                raise StartError(f"the fabric between hub and edges cannot be opened: {error}") from error
            raise
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(BEAT, self._beat), loop.call_later(TICK, self._tick)]

    async def drain(self) -> None:
        """The doors of this process have drained; those of edges find out that the hub is gone."""
        for timer in self._timers:
            timer.cancel()
        edges = list(self.roll.entries)
        self.roll.close()
        await self.guests.close()
        await self._fabric.close()
        for edge in edges:
            self.owner.lost(edge)
        self._leave_kernel()
        self._nonsense.close()

    def _leave_kernel(self) -> None:
        self._kernel.feed_observers.remove(self)
        self._kernel.guests = None
        self._sets.changed = None

    # -- the time -------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        asyncio.get_running_loop().call_soon(self.owner.flush)

    def _beat(self) -> None:
        self._timers[0] = asyncio.get_running_loop().call_later(BEAT, self._beat)
        self.owner.beat()
        for edge in self.roll.entries.keys() - self.owner.edges.keys():
            log.warning("edge does not answer", edge=edge)
            self._forget(edge)

    def _tick(self) -> None:
        self._timers[1] = asyncio.get_running_loop().call_later(TICK, self._tick)
        self.guests.tick()

    # -- edges ----------------------------------------------------------------------------------------------------

    def received(self, edge: str, payload: bytes) -> None:
        try:
            message = decode(payload)
        except FabricError as error:
            self._nonsense.occurred(edge=edge, reason=str(error))
            return
        if isinstance(message, Interest | Release | Alive):
            self.owner.received(edge, message)
        elif isinstance(message, Call | CallDone | CallRefused | CallNoted):
            self.guests.received(edge, message)
        elif isinstance(message, Hello):
            self._greet(edge, message)

    def lost(self, edge: str) -> None:
        if edge in self.roll.entries:
            log.info("edge disconnected", edge=edge)
            self.owner.lost(edge)
            self._forget(edge)

    def _forget(self, edge: str) -> None:
        self.roll.lost(edge)
        self.guests.lost(edge)
        if self.edge_observer is not None:
            self.edge_observer.edge_lost(edge)
        self._come_or_gone()

    def _greet(self, edge: str, hello: Hello) -> None:
        if hello.version != VERSION:
            log.error(
                "edge runs an incompatible version and is not served",
                edge=edge,
                release=hello.release,
                version=hello.version,
                expected=VERSION,
            )
            # It finds out for itself by this.
            self._fabric.send(edge, encode(Welcome(VERSION, __version__, "", self.epoch, ())))
            return
        if edge not in self.roll.entries:
            log.info("edge connected", edge=edge, release=hello.release)
        self.roll.came(edge, hello)
        self.owner.greeted(edge, hello.run)
        self.guests.came(edge, hello.run)
        if self.edge_observer is not None:
            self.edge_observer.edge_came(edge, hello.run)
        self._fabric.send(edge, encode(self._welcome()))
        self._tell_gate(edge)
        self._tell_levels(edge)
        self._come_or_gone()

    def spread_gate(self) -> None:
        """Somebody else is let in than before."""
        for edge in self.roll.entries:
            self._tell_gate(edge)

    def spread_levels(self) -> None:
        """Levels of the log have been set while the server runs."""
        for edge in self.roll.entries:
            self._tell_levels(edge)

    def _tell_levels(self, edge: str) -> None:
        if self._tells_levels:
            self.guests.tell(edge, LEVELS, LevelsBody(levels_over()))

    def _tell_gate(self, edge: str) -> None:
        if self.gate is not None:
            self.guests.tell(edge, GATE, self.drains.gate_of(edge, self.gate()))

    def _come_or_gone(self) -> None:
        """An edge that drains leaves ports that it shares to others only while there are others."""
        if self.drains:
            self.spread_gate()

    # -- adapter sets ---------------------------------------------------------------------------------------------

    def feed_served(self, feed: Feed) -> None:
        self._sets_changed()

    def feed_withdrawn(self, feed: Feed) -> None:
        self.owner.withdraw(feed)
        self._sets_changed()

    def _sets_changed(self) -> None:
        """Edges are told when all that changes in this turn has changed."""
        if not self._welcome_due:
            self._welcome_due = True
            asyncio.get_running_loop().call_soon(self._welcome_all)

    def _welcome_all(self) -> None:
        self._welcome_due = False
        if self.roll.entries:
            self._fabric.spread(frozenset(self.roll.entries), encode(self._welcome()))

    def _welcome(self) -> Welcome:
        return Welcome(VERSION, __version__, self._node, self.epoch, tuple(self._shared_sets()))

    def _shared_sets(self) -> list[SharedSet]:
        found = []
        for name in self._sets.running:
            feeds = tuple(adapter for owner, adapter in self._kernel.feeds if owner == name)
            found.append(SharedSet(name, self._token(name), feeds))
        return found

    def _token(self, name: str) -> str:
        """Of what the set is made from: the same from another hub, so that sessions go on when this one is replaced."""
        return hashlib.sha256(repr(self._sets.made_from(name)).encode()).hexdigest()[:16]

    # -- its part in the server -----------------------------------------------------------------------------------

    def figures(self) -> Iterable[Family]:
        owner = self.owner
        return (
            gauge("penstock_hub_edges", "Edges connected to this hub.", len(self.roll.entries)),
            gauge("penstock_hub_sessions", "Sessions on edges.", self.guests.count()),
            gauge("penstock_hub_items", "Items that edges get from this hub.", owner.items),
            counter("penstock_hub_happenings", "Events of items that were sent to edges.", owner.happenings),
            counter(
                "penstock_hub_pictures",
                "Complete states of items, sent because an edge did not have them yet.",
                owner.pictures,
            ),
            durations("penstock_hub_lag_seconds", "Round-trip time of requests to edges.", self.roll.lags),
            *self._fabric.figures(),
        )
