"""An edge as a server: client connections and sessions, with items and decisions of a hub over a fabric (`link`).

Composed like `penstock.server`, of fewer services: it has no adapters, no journal, no database and no API port, so it
may be killed at any time. The rules are in `penstock.cluster`. Read next: docs/cluster.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import Raw
from msgspec.structs import replace

from penstock.cluster.figures import encode_figures
from penstock.cluster.ports import EdgeFabric
from penstock.config import Config
from penstock.doors.gate import Gate
from penstock.doors.stream.pages import ApiPlace
from penstock.monitor.health import ProbeAnswer, ServerPhase, ready
from penstock.services.cluster.administration import EdgeAdministration
from penstock.services.cluster.link import HubLinkService
from penstock.services.cluster.roll import FIGURES
from penstock.services.cluster.tlex import TlexAnnexService
from penstock.services.kernel import KernelService
from penstock.services.load import LoadService
from penstock.services.renewal import RenewalService, renew
from penstock.services.sampling import SamplingService
from penstock.services.service import Service
from penstock.services.stack import Stack
from penstock.services.stream import Listens, StreamService
from penstock.services.tidying import TidyingService
from penstock.transport.descriptors import Shares, limit


class EdgeServer:
    """A whole edge inside a running event loop."""

    def __init__(
        self,
        config: Config,
        node: str,
        fabric: EdgeFabric,
        hand_directory: Path | None = None,
        neighbour_ports: Collection[int] = (),
    ) -> None:
        """`node` is the name in its session ids. Edges with the same `hand_directory` hand connections to each other,
        and share their ports. `neighbour_ports` are those of the hub whose pages may use the streaming port.
        """
        self.config = config = replace(config, server=replace(config.server, node=node))
        core = KernelService(config)
        self.kernel = core.kernel
        self.gate = Gate(config.limits, core.kernel.tally)
        self._sampling = SamplingService(core.kernel, lambda: self._stack.services, is_edge=True)
        self.link = HubLinkService(node, core.kernel, fabric)
        self.link.calls.methods[FIGURES] = self._figures
        shares = Shares.of_edge(config, limit())
        is_shared = hand_directory is not None
        ledger = core.kernel.ledger
        self.tlex = TlexAnnexService(config, self.link, shares.tlex_strangers, ledger, is_shared=is_shared)
        self._stream = StreamService(
            config,
            core,
            self.link.open_sets,
            self.readiness,
            shares.stream,
            self.gate,
            self.link.desk,
            Listens.TOGETHER if is_shared else Listens.ALONE,
            hand_directory,
        )
        join = self._stream.join if is_shared else None
        self._administration = EdgeAdministration(core.kernel, self.gate, self.link.calls, join)
        self._stream.door.origins.neighbour_ports = neighbour_ports
        if config.demo.enabled and neighbour_ports:
            self._stream.door.demo_api = ApiPlace(next(iter(neighbour_ports)))
        self._stack = Stack(
            [
                [self._sampling],
                [core],
                [self.link],
                [LoadService(config, self.gate)],
                [self.tlex, self._stream],
                [TidyingService(core.kernel), RenewalService(config, lambda: self._stack.services)],
            ]
        )
        self._ready = False

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the hub, then open the ports; raises StartError with the reason."""
        await self._stack.open()
        self._ready = True

    async def stop(self) -> None:
        """Ask every client to bind again, close the ports, leave the hub."""
        await self._stack.close()
        self._administration.drain.cancel()

    def stop_by(self, stop: Callable[[], None]) -> None:
        """What an administrator calls who has this edge stop after its drain."""
        self._administration.stop = stop

    async def reload(self, config: Config) -> None:
        """Read certificates again; the hub tells of adapter sets."""
        await renew(shown for service in self._stack.services for shown in service.certificates(config))

    @property
    def phase(self) -> ServerPhase:
        if self._stream.door.stopping or self.gate.draining:
            return ServerPhase.DRAINING
        return ServerPhase.READY if self._ready else ServerPhase.STARTING

    def readiness(self) -> ProbeAnswer:
        """What /ready answers."""
        services = self._stack.services
        failed = [name for service in services for name in service.failures()]
        degraded = [name for service in services for name in service.degradations()]
        return ready(self.phase, failed, degraded)

    # -- what the hub asks ----------------------------------------------------------------------------------------

    async def _figures(self, body: Raw) -> bytes:
        return encode_figures(self._sampling.figures_of_all())

    # -- where it is ----------------------------------------------------------------------------------------------

    @property
    def services(self) -> list[Service]:
        return self._stack.services

    def addresses(self) -> list[str]:
        return self._stream.addresses()

    def named_addresses(self) -> list[str]:
        """What comes after the addresses of the hub, in the line that names all."""
        listeners = [each for each in self._stream.listeners() if each.name in self.config.listeners]
        return [*self.tlex.addresses(), *[f"{each.name}={each.url}" for each in listeners]]
