"""A hub and edges in one process: real kernels, owners and readers, joined by a fabric that the test breaks.

What a shell does (Hello, Welcome, turns, beats) is done here in the smallest way. Nothing is delivered by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cluster.derived import DerivedItems
from penstock.cluster.owner import ItemOwner
from penstock.cluster.reader import FabricSource, Reader
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Event, Selector, Value
from penstock.testing import HandSource, Harness, Peer
from penstock.testing.truth import Truth, truth
from penstock.wire.fabric.messages import VERSION, Hello, Stranger, Welcome, decode, encode


class Adapter:
    """What all hubs have as their data adapter. While it is away nothing is told of what happens."""

    def __init__(self, modes: Mapping[str, Mode]) -> None:
        self.truths: dict[str, Truth] = {item: truth(mode) for item, mode in modes.items()}
        self.is_away = False


class AdapterSource(HandSource):
    """The adapter at one hub; snapshots may be kept back until the test wants them."""

    def __init__(self, adapter: Adapter, slow: bool) -> None:
        super().__init__()
        self.adapter = adapter
        self.truths = adapter.truths
        self.slow = slow
        # Items that are subscribed to, with what is left of their snapshots; None when those are over.
        self.unsent: dict[str, list[Event] | None] = {}

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        self.unsent[item] = []
        if not self.slow and not self.adapter.is_away:
            self.finish(item)

    def bind(self, item: str, mode: Mode) -> None:
        pass

    def unsubscribe(self, item: str) -> None:
        del self.unsent[item]

    def begin(self, item: str) -> None:
        """Send the first half of a snapshot, if there is one to be sent."""
        if self.unsent.get(item) == [] and len(self.truths[item].snapshot()) > 1:
            events = list(self.truths[item].snapshot())
            half = len(events) // 2
            self._send(item, events[:half])
            self.unsent[item] = events[half:]

    def finish(self, item: str) -> None:
        """Send all that is left of a snapshot."""
        assert self.feed is not None
        if self.unsent.get(item) is not None:
            self._send(item, self.unsent[item] or self.truths[item].snapshot())
            self.unsent[item] = None
            self.feed.end_of_snapshot(item)

    def _send(self, item: str, events: list[Event]) -> None:
        assert self.feed is not None
        for event in events:
            self.feed.update(item, event, snapshot=True)

    def tell(self, item: str, event: Event | None) -> bool:
        """Something has happened to an item, None if it was cleared: whether it is told as an event."""
        assert self.feed is not None
        if self.adapter.is_away or self.unsent.get(item, []) == []:
            # Not subscribed to, or the snapshot has not begun: it will be part of that.
            return False
        self.finish(item)
        if event is None:
            self.feed.clear_snapshot(item)
        else:
            self.feed.update(item, event)
        return True

    def repair(self, item: str) -> None:
        """The adapter was away."""
        assert self.feed is not None
        if self.unsent.get(item, []) == []:
            if not self.slow:
                self.finish(item)
        else:
            self.unsent[item] = None
            snapshot = [dict(event) for event in self.truths[item].snapshot()]
            self.feed.repair(self.feed.items[item], snapshot, complete=True)  # type: ignore[arg-type]


@dataclass(slots=True)
class Parcel:
    """A payload on its way between the hub of an epoch and an edge, by its name."""

    epoch: int
    edge: str
    to_hub: bool
    payload: bytes


class Fabric:
    """What is under way, the oldest first."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []

    def send(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)


class HubNode:
    def __init__(self, fabric: Fabric, epoch: int, adapter: Adapter, slow: bool) -> None:
        self.fabric = fabric
        self.epoch = epoch
        self.source = AdapterSource(adapter, slow)
        self.harness = Harness(source=self.source)
        self.derived = DerivedItems(epoch)
        self.woken = False
        self.owner = ItemOwner(self.harness.kernel, epoch, self.derived, self.send, self.spread, self.wake)

    def send(self, edge: str, payload: bytes) -> None:
        self.fabric.send(Parcel(self.epoch, edge, False, payload))

    def spread(self, edges: frozenset[str], payload: bytes) -> None:
        for edge in sorted(edges):
            self.send(edge, payload)

    def wake(self) -> None:
        assert not self.woken
        self.woken = True

    def turn(self) -> None:
        if self.woken:
            self.woken = False
            self.owner.flush()
        self.harness.turn()

    def received(self, edge: str, payload: bytes) -> None:
        message = decode(payload)
        if isinstance(message, Hello):
            self.owner.greeted(edge, message.run)
            self.send(edge, encode(Welcome(VERSION, "1", "hub", self.epoch, ())))
        else:
            self.owner.received(edge, message)


class EdgeNode:
    def __init__(self, plant: Plant, name: str, run: str) -> None:
        self.plant = plant
        self.name = name
        self.run = run
        self.harness = Harness()
        self.harness.kernel.withdraw("TEST", "HAND")
        self.refusals: list[tuple[str, str]] = []
        self.reader = Reader(self.harness.kernel, run, self.send, self.refused)
        self.harness.feed = self.reader.serve("TEST", "HAND")
        self.peers: list[Peer] = []
        # Whether its process is frozen; what has come since, and how many seconds have passed.
        self.is_frozen = False
        self._unread: list[bytes] = []
        self._slept = 0.0

    @property
    def source(self) -> FabricSource:
        return self.reader._sources["TEST", "HAND"]

    def refused(self, feed: Feed, item: str, text: str) -> None:
        self.refusals.append((item, text))

    def client(self) -> Peer:
        peer = Peer(self.harness)
        peer.open()
        self.peers.append(peer)
        return peer

    def send(self, payload: bytes) -> None:
        for hub in self.plant.hubs:
            self.plant.fabric.send(Parcel(hub.epoch, self.name, True, payload))

    def hello(self) -> None:
        self.send(encode(Hello(VERSION, "1", self.name, self.run)))

    def received(self, payload: bytes) -> None:
        if self.is_frozen:
            self._unread.append(payload)
            return
        message = decode(payload)
        if isinstance(message, Welcome):
            self.reader.welcomed(message.epoch)
        elif isinstance(message, Stranger):
            if message.epoch >= self.reader.epoch:
                self.hello()
        else:
            self.reader.received(message)
        self.harness.turn()

    def thaw(self) -> None:
        """Time has passed all at once, and what has come meanwhile is there."""
        if not self.is_frozen:
            return
        self.is_frozen = False
        self.harness.advance(self._slept)
        unread, self._unread, self._slept = self._unread, [], 0.0
        for payload in unread:
            self.received(payload)
        self.read()

    def turn(self) -> None:
        if not self.is_frozen:
            self.harness.turn()
            self.read()

    def tick(self) -> None:
        if self.is_frozen:
            self._slept += 1.0
            return
        if not self.reader.epoch:
            self.hello()
        self.reader.tick(self.harness.clock.now)
        self.harness.advance(1.0)
        self.read()

    def read(self) -> None:
        for peer in () if self.is_frozen else self.peers:
            peer.receive()


class Plant:
    """`hubs` are those that believe they own the items, the one that does last."""

    def __init__(self, modes: Mapping[str, Mode], slow: bool = False) -> None:
        self.modes = modes
        self.adapter = Adapter(modes)
        self.truths = self.adapter.truths
        self.fabric = Fabric()
        self.hubs: list[HubNode] = []
        self.edges: dict[str, EdgeNode] = {}
        self._epochs = 0
        self._runs = 0
        self.add_hub(slow)

    @property
    def hub(self) -> HubNode:
        return self.hubs[-1]

    def add_hub(self, slow: bool) -> HubNode:
        self._epochs += 1
        self.hubs.append(HubNode(self.fabric, self._epochs, self.adapter, slow))
        return self.hub

    def add_edge(self, name: str) -> EdgeNode:
        """A new process; one of the same name is gone."""
        self._runs += 1
        self.edges[name] = EdgeNode(self, name, f"run{self._runs}")
        self.edges[name].hello()
        return self.edges[name]

    # -- the fabric -----------------------------------------------------------------------------------------------

    def deliver(self, index: int = 0) -> None:
        """One of the parcels arrives. One for a hub or an edge that is gone is lost."""
        parcel = self.fabric.parcels.pop(index)
        if parcel.to_hub:
            for hub in self.hubs:
                if hub.epoch == parcel.epoch:
                    hub.received(parcel.edge, parcel.payload)
        elif parcel.edge in self.edges:
            self.edges[parcel.edge].received(parcel.payload)

    def settle(self) -> None:
        """Let everything arrive."""
        self.turn()
        while self.fabric.parcels:
            self.deliver()
            if not self.fabric.parcels:
                self.turn()
        for edge in self.edges.values():
            edge.read()

    def turn(self) -> None:
        for hub in self.hubs:
            hub.turn()

    def tick(self) -> None:
        """A second passes."""
        for hub in self.hubs:
            hub.owner.beat()
            hub.harness.advance(1.0)
        for edge in self.edges.values():
            edge.tick()

    def cut(self, edge: str) -> None:
        """The connection of an edge to the hub is lost, with all that was under way, and made again."""
        self.fabric.parcels = [parcel for parcel in self.fabric.parcels if parcel.edge != edge]
        self.hub.owner.lost(edge)
        if not self.edges[edge].is_frozen:
            self.edges[edge].hello()
        # One that is frozen is found to be a stranger when it goes on.

    # -- the adapter ----------------------------------------------------------------------------------------------

    def publish(self, item: str, event: dict[str, Value]) -> bool:
        """Whether the hub that owns it was told of the event, as one."""
        self.truths[item].apply(event)
        told = [hub.source.tell(item, event) for hub in self.hubs]
        return told[-1]

    def clear(self, item: str) -> None:
        self.truths[item].clear()
        for hub in self.hubs:
            hub.source.tell(item, None)

    def leave(self) -> None:
        """The adapter goes away."""
        self.adapter.is_away = True

    def come_back(self) -> None:
        self.adapter.is_away = False
        for hub in self.hubs:
            for item in list(hub.source.unsent):
                hub.source.repair(item)

    # -- what is granted ------------------------------------------------------------------------------------------

    def derive(
        self,
        edge: str,
        number: int,
        mode: Mode,
        item: str,
        customizer: Customizer | None,
        selector: Selector | None,
        name: str = "",
    ) -> str:
        if customizer is None and selector is None:
            return item
        return self.hub.derived.derive(edge, "S", number, mode, "TEST", "HAND", item, customizer, selector, name)
