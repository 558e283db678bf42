"""A fabric inside one event loop, between calls of an edge and guests of a hub; it may be a bad one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from penstock.cluster.derived import DerivedItems
from penstock.cluster.edge_calls import EdgeCalls
from penstock.cluster.guest import Host
from penstock.cluster.guests import GuestDesk, Guests
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import Clock
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, decode


class Hub:
    """Guests, and the ways to their edges."""

    def __init__(
        self, epoch: int, authority_of: Callable[[str], Host | None], desk: GuestDesk | None, clock: Clock
    ) -> None:
        self.ways: dict[str, Callable[[bytes], None]] = {}
        self.derived = DerivedItems(epoch)
        self.guests = Guests(epoch, authority_of, desk, self.derived, self._send, clock)

    def _send(self, edge: str, payload: bytes) -> None:
        if edge in self.ways:
            self.ways[edge](payload)


class Link:
    """An edge's calls, connected to a hub or not. Every payload takes a turn of the loop.

    With a `chance` of more than 0, payloads are lost, come twice, and overtake one another.
    """

    def __init__(self, name: str, run: str, kernel: Kernel, clock: Clock, chance: float = 0.0) -> None:
        self.name = name
        self.run = run
        self.calls = EdgeCalls(run, kernel, self._to_hub, clock)
        self._hub: Hub | None = None
        self._chance = chance
        self._random = Random(name)

    def connect(self, hub: Hub) -> None:
        """Hello and Welcome."""
        self._hub = hub
        hub.ways[self.name] = self._to_edge
        hub.guests.came(self.name, self.run)
        self.calls.welcomed(hub.guests.epoch)

    def cut(self) -> None:
        """Both ends notice."""
        assert self._hub is not None
        hub, self._hub = self._hub, None
        del hub.ways[self.name]
        hub.guests.lost(self.name)
        self.calls.lost()

    def _to_hub(self, payload: bytes) -> None:
        hub = self._hub
        if hub is not None:
            self._carry(lambda: hub.guests.received(self.name, call_of(payload)) if self._hub is hub else None)

    def _to_edge(self, payload: bytes) -> None:
        hub = self._hub
        self._carry(lambda: self.calls.received(call_of(payload)) if self._hub is hub else None)

    def _carry(self, arrive: Callable[[], None]) -> None:
        random = self._random
        if not self._chance:
            _arrive(1, arrive)
        elif random.random() >= self._chance:
            for _ in range(2 if random.random() < self._chance else 1):
                _arrive(random.randrange(1, 20), arrive)


def _arrive(turns: int, arrive: Callable[[], None]) -> None:
    """After so many turns of the loop."""
    loop = asyncio.get_running_loop()
    if turns:
        loop.call_soon(_arrive, turns - 1, arrive)
    else:
        arrive()


def call_of(payload: bytes) -> Call | CallDone | CallRefused | CallNoted:
    message = decode(payload)
    assert isinstance(message, Call | CallDone | CallRefused | CallNoted)
    return message
