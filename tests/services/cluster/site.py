"""A hub and its edges in one event loop, with administrators, real sockets between them and in front of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from penstock.adapters import AdapterSet
from penstock.cluster.local import LocalEdge, LocalHub
from penstock.cluster.ports import Bystander
from penstock.server import Server
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart, HubService
from penstock.services.sampling import SamplingService
from penstock.services.service import Listening
from tests.services.admin.site import AdminSite
from tests.support.raw import Exchange

EDGES = ("w1", "w2")
NODE = "penstock"


class ClusterSite(AdminSite):
    """Its clients are at edges: `at` says at which."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, {"server.node": NODE, **(overrides or {})})
        # Short, because names of Unix sockets are.
        self._run_directory = tempfile.TemporaryDirectory()
        self._fabric_directory = Path(self._run_directory.name)
        self.edges: dict[str, EdgeServer] = {}
        self.bystanders: list[Bystander] = []

    def make(self) -> Server:
        hand = AdapterSet("TEST", self.metadata, {"HAND": self.adapter, "PLAIN": self.plain, "DEFAULT": self.adapter})
        # Where it is, nobody asks.
        stream = [Listening("stream", self.host, 1, tls=False)]
        part = HubPart(LocalHub(self._fabric_directory), 1, stream, bystanders=lambda: self.bystanders)
        return Server(self.config, [hand], None, self.data_dir, hub=part)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = self.make()
        await self.server.start()
        for name in EDGES:
            await self.start_edge(name)
        self._started.set()
        await self._stop.wait()
        await asyncio.gather(*[edge.stop() for edge in self.edges.values()])
        await self.server.stop()
        self._run_directory.cleanup()

    async def start_edge(self, name: str) -> None:
        node = f"{NODE}-{name}"
        edge = EdgeServer(self.config, node, LocalEdge(self._fabric_directory, node))
        await edge.start()
        self.edges[name] = edge

    async def stop_edge(self, name: str) -> None:
        await self.edges.pop(name).stop()

    def at(self, edge: str) -> Exchange:
        return Exchange(self.host, int(self.edges[edge].addresses()[0].rpartition(":")[2]))

    @property
    def hub(self) -> HubService:
        assert self.server.hub is not None
        return self.server.hub

    def sample(self) -> None:
        """A second has passed, as far as statistics are concerned."""
        (sampling,) = [each for each in self.server.services if isinstance(each, SamplingService)]

        async def look() -> None:
            for edge in self.edges.values():
                (there,) = [each for each in edge.services if isinstance(each, SamplingService)]
                await there.step()
            await sampling.step()

        self.run(look())
