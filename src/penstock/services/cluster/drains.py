"""Edges that are drained one by one: which, how long it takes, and what the hub tells each of them.

A drain ends with the process that it is for: an edge that is started again has clients again. What an edge does is in
`administration`; the drain of the whole server is that of `penstock.services.admin.steering`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from penstock.cluster.guests import Guests
from penstock.monitor.figures import HUB
from penstock.services.admin.nodes import NodeState
from penstock.services.cluster.roll import EdgeRoll
from penstock.wire.fabric.administration import GateBody


class EdgeDrain(NamedTuple):
    """Of one process; `deadline` is by the monotonic clock, None: its sessions go by themselves."""

    run: str
    deadline: float | None
    stops: bool

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


class EdgeDrains:
    """The port `Nodes` of a hub. Lives on the event loop."""

    def __init__(self, has_clients: bool, roll: EdgeRoll, guests: Guests, changed: Callable[[], None]) -> None:
        """`has_clients`: the hub is a node with clients, too. `changed` has every edge told."""
        self.own = HUB if has_clients else None
        self._roll = roll
        self._guests = guests
        self._changed = changed
        # By the names that the fabric has for edges.
        self._drains: dict[str, EdgeDrain] = {}

    def __bool__(self) -> bool:
        return bool(self._drains)

    # -- for administrators ---------------------------------------------------------------------------------------

    def others(self) -> list[str]:
        return [name for _, name, _ in self._roll.named()]

    def state(self, name: str) -> NodeState:
        edge = self._edge(name)
        drain, known = self.of(edge), self._guests.edges.get(edge)
        sessions = 0 if known is None else len(known.guests)
        if drain is None:
            return NodeState(False, None, False, sessions)
        return NodeState(True, drain.seconds_left, drain.stops, sessions)

    def begin(self, name: str, seconds: float | None, stop: bool) -> None:
        edge = self._edge(name)
        deadline = None if seconds is None else time.monotonic() + seconds
        # Edges over NATS never come back by the same name: those of which the hub knows nothing any more go.
        self._drains = {each: drain for each, drain in self._drains.items() if self._may_come_back(each)}
        self._drains[edge] = EdgeDrain(self._roll.entries[edge].hello.run, deadline, stop)
        self._changed()

    def cancel(self, name: str) -> None:
        del self._drains[self._edge(name)]
        self._changed()

    def clear(self) -> None:
        self._drains.clear()

    def _edge(self, name: str) -> str:
        return next(edge for edge, shown, _ in self._roll.named() if shown == name)

    def _may_come_back(self, edge: str) -> bool:
        found = self._guests.edges.get(edge)
        return found is not None and not found.forsaken

    # -- for edges ------------------------------------------------------------------------------------------------

    def of(self, edge: str) -> EdgeDrain | None:
        """Of an edge that is there."""
        drain = self._drains.get(edge)
        if drain is not None and drain.run != self._roll.entries[edge].hello.run:
            del self._drains[edge]
            return None
        return drain

    def gate_of(self, edge: str, gate: GateBody) -> GateBody:
        """What one edge is told, given what is to be told to all."""
        drain = self.of(edge)
        if gate.draining or drain is None:
            return gate
        others = any(self.of(each) is None for each in self._roll.entries)
        return replace(gate, draining=True, seconds_left=drain.seconds_left, stop=drain.stops, others=others)
