"""An edge's end of the fabric as a service: the hub is greeted, adapter sets are served as it tells of them.

Items are read in `penstock.cluster.reader`, decisions asked for in `penstock.cluster.edge_calls`; here they are given
bytes and the time. Clients stay while there is no hub. Read next: docs/cluster.md.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable

from penstock import __version__
from penstock.cluster.authority import EdgeAuthority
from penstock.cluster.desk import EdgeDesk
from penstock.cluster.edge_calls import EdgeCalls
from penstock.cluster.ports import EdgeFabric
from penstock.cluster.reader import Reader
from penstock.doors.reception import OpenSet
from penstock.kernel.errors import Cause
from penstock.kernel.feed import Feed
from penstock.kernel.kernel import Kernel
from penstock.log import get
from penstock.monitor.figures import Family, counter, gauge
from penstock.services.service import Service
from penstock.transport.episode import Episode
from penstock.wire.fabric.messages import (
    VERSION,
    Call,
    CallDone,
    CallNoted,
    CallRefused,
    FabricError,
    Happened,
    Hello,
    HubBeat,
    NoItem,
    Picture,
    SharedSet,
    Stranger,
    Welcome,
    decode,
    encode,
)

log = get(__name__)

# Seconds between two looks at items and calls that wait; the first also tells the hub that this edge is alive.
BEAT = 1.0
TICK = 0.25

# Seconds that the hub has for what it was told last.
LAST_CALLS = 5.0

# Seconds after which an edge that finds no hub says so.
SILENCE = 5.0


class _ServedSet:
    def __init__(self, token: str, authority: EdgeAuthority) -> None:
        self.token = token
        self.authority = authority
        self.data_adapters: set[str] = set()


class HubLinkService(Service):
    """Opened before the doors, and open when there has been a hub. Doors see its sets in `open_sets`."""

    name = "hub"

    def __init__(self, node: str, kernel: Kernel, fabric: EdgeFabric) -> None:
        self._node = node
        self._run = secrets.token_hex(8)
        self._kernel = kernel
        self._fabric = fabric
        self.open_sets: dict[str, OpenSet] = {}
        self._served: dict[str, _ServedSet] = {}
        self.reader = Reader(kernel, self._run, fabric.send, _refused)
        self.calls = EdgeCalls(self._run, kernel, fabric.send, time.monotonic)
        self.desk = EdgeDesk(self.calls)
        # Of the latest hub; 0 before the first.
        self.epoch = 0
        # Whether there is a hub now, as far as is known.
        self.has_hub = False
        # When the hub has said anything last.
        self.heard = time.monotonic()
        # Called with every Welcome; says whether it is that of another hub than before.
        self.when_welcomed: Callable[[bool], None] | None = None
        # Whether it was greeted and has not answered: either may be lost on the way.
        self._is_greeting = False
        self._welcomed = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self._nonsense = Episode(log, "the hub sends invalid messages", "the hub no longer sends invalid messages")

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._fabric.open(self)
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(BEAT, self._beat), loop.call_later(TICK, self._tick)]
        try:
            while not self.has_hub:
                try:
                    await asyncio.wait_for(self._welcomed.wait(), SILENCE)
                except TimeoutError:
                    log.warning("no hub answers yet; clients are accepted once one does")
        except BaseException:
            await self.drain()
            raise

    async def drain(self) -> None:
        """The doors have drained: what clients have still caused is sent."""
        for timer in self._timers:
            timer.cancel()
        await self.calls.settle(LAST_CALLS)
        await self.calls.close()
        await self._fabric.close()
        self._nonsense.close()

    # -- the time -------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._timers[0] = asyncio.get_running_loop().call_later(BEAT, self._beat)
        if self._is_greeting:
            self._greet()
        self.reader.tick(time.monotonic())

    def _tick(self) -> None:
        self._timers[1] = asyncio.get_running_loop().call_later(TICK, self._tick)
        self.calls.tick()

    # -- the fabric -----------------------------------------------------------------------------------------------

    def connected(self) -> None:
        self._is_greeting = True
        self._greet()

    def lost(self) -> None:
        self._is_greeting = False
        if self.has_hub:
            self.has_hub = False
            self.calls.lost()
            log.warning("connection to the hub lost; sessions stay open, without updates, until the hub is back")

    def received(self, payload: bytes) -> None:
        try:
            message = decode(payload)
        except FabricError as error:
            self._nonsense.occurred(reason=str(error))
            return
        self.heard = time.monotonic()
        if isinstance(message, Happened | Picture | HubBeat | NoItem):
            self.reader.received(message)
        elif isinstance(message, Call | CallDone | CallRefused | CallNoted):
            self.calls.received(message)
        elif isinstance(message, Welcome):
            self._take_welcome(message)
        elif isinstance(message, Stranger) and message.epoch >= self.epoch:
            self._greet()

    def _greet(self) -> None:
        self._fabric.send(encode(Hello(VERSION, __version__, self._node, self._run)))

    def _take_welcome(self, welcome: Welcome) -> None:
        if welcome.version != VERSION:
            self._is_greeting = False
            log.error(
                "the hub runs an incompatible version and is not used",
                release=welcome.release,
                version=welcome.version,
                expected=VERSION,
            )
            return
        if welcome.epoch < self.epoch:
            # An old hub that does not know yet that it is none any more.
            return
        is_new = welcome.epoch > self.epoch
        self._is_greeting = False
        self.epoch = welcome.epoch
        self._take_sets(welcome.sets)
        self.reader.welcomed(welcome.epoch)
        self.calls.welcomed(welcome.epoch)
        if self.when_welcomed is not None:
            self.when_welcomed(is_new)
        if not self.has_hub:
            self.has_hub = True
            log.info("connected to the hub", hub=welcome.node, epoch=welcome.epoch, release=welcome.release)
            self._welcomed.set()

    # -- adapter sets ---------------------------------------------------------------------------------------------

    def _take_sets(self, plans: Iterable[SharedSet]) -> None:
        wanted = {plan.name: plan for plan in plans}
        for name, served in list(self._served.items()):
            plan = wanted.get(name)
            if plan is None:
                self._retire(name, f"The adapter set {name} has been removed")
            elif plan.token != served.token:
                self._retire(name, f"The adapter set {name} has been changed")
        for name, plan in wanted.items():
            if name not in self._served:
                authority = EdgeAuthority(self.calls, name)
                self._served[name] = _ServedSet(plan.token, authority)
                self.open_sets[name] = OpenSet(name, authority, authority)
                log.info("adapter set served", adapter_set=name)
            # Those that are not there yet come later; one that is not there after a hub's restart may come again.
            served = self._served[name]
            for adapter in plan.data_adapters:
                if adapter not in served.data_adapters:
                    served.data_adapters.add(adapter)
                    self.reader.serve(name, adapter)

    def _retire(self, name: str, message: str) -> None:
        """Admit nobody any more and end all sessions of a set."""
        served = self._served.pop(name)
        served.authority.retired = True
        self._kernel.turn()
        for session in self._kernel.attended_sessions(name):
            session.close(Cause.CLOSED_BY_SERVER, message)
        del self.open_sets[name]
        for adapter in served.data_adapters:
            self.reader.withdraw(name, adapter)
        log.info("adapter set no longer served", adapter_set=name)

    # -- its part in the server -----------------------------------------------------------------------------------

    def degradations(self) -> list[str]:
        return [] if self.has_hub else ["hub"]

    def figures(self) -> Iterable[Family]:
        reader = self.reader
        return (
            gauge("penstock_edge_hub_up", "1 if this edge has a hub, else 0.", self.has_hub),
            gauge("penstock_edge_items", "Items that this edge gets from the hub.", reader.items),
            gauge(
                "penstock_edge_items_unanswered",
                "Items of this edge for which the hub has not answered yet.",
                reader.unanswered,
            ),
            counter(
                "penstock_edge_dropped",
                "Messages from the hub that were dropped, such as late ones of a hub that has been replaced.",
                reader.dropped,
            ),
            counter(
                "penstock_edge_repairs",
                "Items updated with their complete state because a message was missing.",
                reader.repairs,
            ),
            *self._fabric.figures(),
        )


def _refused(feed: Feed, item: str, reason: str) -> None:
    log.warning(
        "subscriptions ended because the hub does not have the item",
        adapter_set=feed.adapter_set,
        adapter=feed.name,
        item=item,
        reason=reason,
    )
