"""Tests of adapters, once more: their servers ask their own metadata adapters over a fabric, as an edge asks a hub.

Clients, kernel and data are as always; between the doors and every authority there are an edge's and a hub's ends of
calls. So whatever an adapter can do in one process is tested with guests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.cluster import calling
from penstock.cluster.authority import EdgeAuthority
from penstock.cluster.derived import DerivedItems
from penstock.cluster.desk import EdgeDesk
from penstock.cluster.edge_calls import EdgeCalls
from penstock.doors.reception import OpenSet
from penstock.kernel.ports import AttendedSession, Grant, Wish
from penstock.server import Server
from tests.cluster.link import Hub, Link

# How many payloads of a bad fabric are lost, and how many come twice.
BAD = 0.15


class NearAuthority(EdgeAuthority):
    """An edge whose kernel is that of the hub: derived items are derived here, by what the hub has registered."""

    def __init__(self, calls: EdgeCalls, adapter_set: str, derived: DerivedItems) -> None:
        super().__init__(calls, adapter_set)
        self._derived = derived

    async def resolve(self, session: AttendedSession, number: int, wish: Wish) -> Grant:
        grant = await super().resolve(session, number, wish)
        items, selector = [], None
        for item in grant.items:
            found = self._derived.find(item.name)
            if found is None:
                items.append(item)
            else:
                items.append(replace(item, name=found.item, customizer=found.customizer))
                selector = found.selector
        return replace(grant, items=tuple(items), selector=selector)


class Woven:
    """A server that is a hub and an edge at once."""

    def __init__(self, server: Server, chance: float) -> None:
        self._server = server
        desk = server._stream.tlcp.push.desk
        self.hub = Hub(1, server.sets.judge_of, desk, time.monotonic)  # type: ignore[arg-type]
        self.link = Link("edge", "run", server.kernel, time.monotonic, chance)
        for name in list(server.sets.open_sets):
            authority = NearAuthority(self.link.calls, name, self.hub.derived)
            server.sets.open_sets[name] = OpenSet(name, authority, authority)
        server._stream.tlcp.push.desk = EdgeDesk(self.link.calls)
        server.kernel.guests = self.hub.guests
        self.link.connect(self.hub)
        self._drain_doors = server._stream.drain
        server._stream.drain = self.drain  # type: ignore[method-assign]
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            self.hub.guests.tick()
            self.link.calls.tick()

    async def drain(self) -> None:
        """The hub stops after its edges."""
        await self._drain_doors()
        await self.link.calls.settle(10)
        self._ticking.cancel()
        await self.link.calls.close()
        await self.hub.guests.close()
        assert self.hub.guests.count() == 0
        assert self.hub.derived._by_name == {}


def woven(chance: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        start = Server.start

        async def weave(server: Server) -> None:
            await start(server)
            server.woven = Woven(server, chance)  # type: ignore[attr-defined]

        patch.setattr(Server, "start", weave)
        # Nobody is to wait for seconds because a payload was dropped.
        patch.setattr(calling, "REPEAT", 0.05)
        yield


@pytest.fixture(scope="module", autouse=True, params=[0.0, BAD], ids=["good", "bad"])
def fabric(request: pytest.FixtureRequest) -> Iterator[None]:
    yield from woven(request.param)


@pytest.fixture(scope="module", autouse=True)
def bad_fabric() -> Iterator[None]:
    """Alone, where both would take long."""
    yield from woven(BAD)
