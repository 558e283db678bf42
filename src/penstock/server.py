"""The one place that wires everything: which services a server is made of, and in which order they open.

What the services do is in `penstock.services`, the process around a server in `penstock.process`. No rules of streaming
and no protocol here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.adapters.api import AdapterSet
from penstock.adapters.loading import Loader
from penstock.adapters.roster import Roster
from penstock.adapters.tlex import Board
from penstock.config import Config
from penstock.config.keys import all_keys, named_values, value_of
from penstock.doors.gate import Gate
from penstock.doors.stream.pages import ApiPlace
from penstock.log import get
from penstock.monitor.health import ProbeAnswer, ServerPhase, ready
from penstock.services.admin.clients import OwnClients
from penstock.services.admin.service import AdminService
from penstock.services.admin.steering import Reloaded
from penstock.services.api import ApiService
from penstock.services.cluster.clients import AllClients
from penstock.services.cluster.hub import HubPart, HubService
from penstock.services.cluster.status import ClusterStatus
from penstock.services.connections.service import ConnectionsService
from penstock.services.ditto import DittoService, ThingsService
from penstock.services.journal import JournalService
from penstock.services.kernel import KernelService
from penstock.services.listening import page_line
from penstock.services.load import LoadService
from penstock.services.outlets.service import OutletsService
from penstock.services.overview import ServerOverview
from penstock.services.push.service import PushService
from penstock.services.queries import QueriesService
from penstock.services.readers.service import ReadersService
from penstock.services.renewal import RenewalService, renew
from penstock.services.sampling import SamplingService
from penstock.services.service import Listening, Service
from penstock.services.sets import SetsService
from penstock.services.stack import Stack
from penstock.services.store import StorePresenceService
from penstock.services.stream import Listens, StreamService
from penstock.services.tables import tables
from penstock.services.tidying import TidyingService
from penstock.services.tlex import TlexService
from penstock.services.watching import WatchdogService
from penstock.transport.descriptors import Shares, limit
from penstock.transport.locality import Locality

if TYPE_CHECKING:
    from penstock.doors.ditto.door import DittoDoor
    from penstock.doors.stream.door import StreamDoor
    from penstock.doors.tlcp.door import TlcpDoor
    from penstock.doors.tlex.door import TlexDoor
    from penstock.journal.gatherer import Gatherer
    from penstock.transport.asgi import AsgiPort

log = get(__name__)

NO_ORIGINS: Mapping[str, str] = MappingProxyType({})


class Server:
    """A whole server inside a running event loop; tests start it without a process."""

    def __init__(
        self,
        config: Config,
        sets: list[AdapterSet],
        loader: Loader | None = None,
        data_dir: Path | None = None,
        roster: Roster | None = None,
        origins: Mapping[str, str] = NO_ORIGINS,
        administrators: Path | None = None,
        hub: HubPart | None = None,
        hand_directory: Path | None = None,
    ) -> None:
        """`sets` are always served; with a loader those of the configuration are served as well.

        Without a data directory nothing is journaled or kept, whatever the configuration says. A caller that needs to
        see the state of the adapters passes a `roster`. `origins` says where each value of the configuration comes
        from. `administrators` is a file of users in place of `admin.users`. With `hub` edges have clients of this
        server as well, or alone. `hand_directory` is where the workers of one server hand connections over to one
        another.
        """
        self.config = config
        self._hub_part = hub
        roster = roster or Roster()
        shares = Shares.of(config, limit())
        board = Board(config.tlex.enabled)
        core = KernelService(config)
        self.kernel, self.turns, ledger = core.kernel, core.turns, core.kernel.ledger
        sampling = SamplingService(core.kernel, lambda: self._stack.services)
        self.sampler = sampling.sampler
        self._journal = JournalService(config, data_dir, None if hub is None else hub.fence)
        self.gate = Gate(config.limits, core.kernel.tally)
        status = ClusterStatus(config.server.node, core.kernel, self.gate)
        admin = AdminService(
            config,
            core.kernel,
            self.gate,
            roster,
            self._journal,
            lambda: self._tlex.door,
            lambda: self._push.engine,
            self.listeners,
            status.look,
            administrators,
        )
        self.steering = admin.steering
        self._admin = admin
        queries = QueriesService(data_dir)
        shown = tables(config, origins, core.kernel, roster, lambda: queries.queries, status.look)
        overview = ServerOverview(config, self.sampler, shown, self.listeners)
        store_fence = None if hub is None else hub.store_fence
        self._push = PushService(
            config, data_dir, core.kernel, self._journal, lambda name: self.sets.judge_of(name), store_fence
        )
        self.sets = SetsService(
            config,
            [*sets, *admin.sets()],
            loader,
            data_dir,
            core.kernel,
            self._journal,
            roster,
            [board.introduce, overview.introduce],
            self._push.complete,
            self.is_ready,
            Locality.of(config, self._ports).includes,
        )
        self._ditto = DittoService(config, data_dir, self._journal, self.sets, self._ports, ledger)
        self._tlex = TlexService(config, data_dir, self._journal, board, shares.tlex_strangers, ledger, store_fence)
        self._stream = StreamService(
            config,
            core,
            self.sets.open_sets,
            self.readiness,
            shares.stream,
            self.gate,
            self._push.desk,
            Listens.ALONE if hub is None or hub.stream is None else Listens.NOWHERE,
            hand_directory,
        )
        self._api = ApiService(
            config, lambda: self._stack.services, self.readiness, sampling.figures_of_all, shares.api, ledger
        )
        self.hub: HubService | None = None
        if hub is not None:
            self.hub = HubService(hub, config.server.node, core.kernel, self.sets, self._push.desk)
            self.hub.gate = self.steering.gate_body
            self._tlex.serve_edges(self.hub)
            status.hub = self.hub
            sampling.workers = self.hub.roll
            clients = AllClients(OwnClients(core.kernel), self.hub.guests, self.hub.roll)
            self.steering.clients = clients
            self.steering.gate_changed = self.hub.spread_gate
            self.steering.nodes = self.hub.drains
            self.steering.levels_changed = self.hub.spread_levels
            shown.update(clients.tables())
        # In the order in which they open. They drain in the reverse order, those of one line at the same time, then
        # close in the reverse order. Doors come after everything that they show to clients.
        self._stack = Stack(
            [
                [StorePresenceService(config, data_dir)],
                [sampling],
                [self._journal],
                [ReadersService(config, self._journal), OutletsService(config, self._journal)],
                [self._ditto],
                [WatchdogService(config, roster, sampling.lag_due)],
                [self.sets],
                [ThingsService(config, self._ditto, self.sets)],
                [core],
                [self._push],
                [LoadService(config, self.gate)],
                [admin],
                [ConnectionsService(config, data_dir, self._ditto, self._journal, lambda: admin.logins)],
                [] if self.hub is None else [self.hub],
                [self._tlex, self._stream],
                [self._api],
                [queries, TidyingService(core.kernel), RenewalService(config, lambda: self._stack.services)],
            ]
        )
        self._ready = False

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        """Problems that would not prevent a start; raises what a start would raise. Nothing is opened."""
        return await self._stack.check()

    async def start(self) -> None:
        """Start the adapters, then open the ports; raises StartError with the reason."""
        await self._stack.open()
        if self._admin.has_users:
            self._open_dashboard()
        if self.config.demo.enabled:
            self._open_demo()
        self._ready = True

    def _open_dashboard(self) -> None:
        """Its page comes from any listener that serves it, and uses the streaming port, which may be another origin."""
        found = self._api.listeners()
        if self.config.admin.dashboard_at_stream:
            found += self._stream.listeners()
            self.stream.dashboard = self._admin.site
        self.stream.origins.neighbour_ports = [each.port for each in found]

    def _open_demo(self) -> None:
        """Its pages come from the streaming port, and show things, which are at the API port: another origin."""
        own = self._api.listeners()
        ports = {each.tls: each.port for each in reversed(own)}
        self.stream.demo_api = ApiPlace(ports.get(False), ports.get(True), self._admin.has_users)
        if self._api.port is not None:
            self._api.port.origins.neighbour_ports = [each.port for each in self.listeners() if each not in own]

    async def stop(self) -> None:
        """Ask every client to bind again, close the ports, stop the adapters."""
        await self._stack.close()

    def is_ready(self) -> bool:
        return self._ready and not self.stream.stopping

    @property
    def phase(self) -> ServerPhase:
        if self.stream.stopping or self.gate.draining:
            return ServerPhase.DRAINING
        return ServerPhase.READY if self._ready else ServerPhase.STARTING

    def readiness(self) -> ProbeAnswer:
        """What /ready answers; reasons stay in the log, because anybody may ask."""
        services = self._stack.services
        failed = [name for service in services for name in service.failures()]
        degraded = [name for service in services for name in service.degradations()]
        return ready(self.phase, failed, list(dict.fromkeys(degraded)))

    # -- another configuration ------------------------------------------------------------------------------------

    async def reload(self, config: Config) -> Reloaded:
        """Serve the adapter sets of another configuration; unchanged sets go on undisturbed.

        Raises ConfigError before anything has changed. New sets are served when their adapters have started; this
        method does not wait for that. TLS listeners present what is in their certificate files now. Everything else in
        the configuration needs a restart.
        """
        change = await self.sets.change_to(config)
        await self.sets.retire(change)
        await renew(shown for service in self._stack.services for shown in service.certificates(config))
        await self._push.reload()
        self.sets.admit(change)
        log.info("configuration reloaded", new=change.new, changed=change.changed, gone=change.gone)
        renewed = frozenset().union(*[service.renewed for service in self._stack.services])
        needs_restart = _fixed_changes(self.config, config, renewed)
        if needs_restart:
            log.warning("changes need a restart", keys=needs_restart)
        return Reloaded(change.new, change.changed, change.gone, needs_restart)

    # -- where it is, and what it is made of ----------------------------------------------------------------------

    @property
    def services(self) -> list[Service]:
        """All of them, in the order in which they open."""
        return self._stack.services

    @property
    def stream(self) -> StreamDoor:
        return self._stream.door

    @property
    def tlcp(self) -> TlcpDoor:
        return self._stream.tlcp

    @property
    def tlex(self) -> TlexDoor | None:
        """Available while the server runs, if it is enabled."""
        return self._tlex.door

    @property
    def push(self) -> PushService:
        return self._push

    @property
    def ditto(self) -> DittoDoor | None:
        """Available while the server runs, if the configuration says so and there is a journal."""
        return self._ditto.door

    @property
    def gatherer(self) -> Gatherer | None:
        """Everything that goes into the journal goes through it; None until the journal is open, and without one."""
        return self._journal.gatherer

    @property
    def stream_ports(self) -> list[int]:
        return self.stream.ports

    @property
    def api(self) -> AsgiPort | None:
        """Available while the server runs."""
        return self._api.port

    @property
    def api_port(self) -> int:
        return self._api.number

    @property
    def api_address(self) -> str:
        return self._api.address

    def _ports(self) -> list[int]:
        return [each.port for each in self.listeners()]

    def listeners(self) -> list[Listening]:
        """Those for HTTP that are open, here or at edges, the streaming port's first."""
        at_edges = [] if self._hub_part is None else self._hub_part.stream or []
        return [*at_edges, *[each for service in self._stack.services for each in service.listeners()]]

    def page_line(self) -> str:
        return page_line(self.config, self.stream_ports[0])

    def ready_line(self) -> str:
        """The line that tells people and scripts the addresses."""
        return "  ".join(["penstock: ready", *self.addresses(), *self.named_addresses()])

    def addresses(self) -> list[str]:
        """Each as `name=address`; those of the two ports that every server has come first."""
        first = [self._stream, self._api]
        others = [service for service in self._stack.services if service not in first]
        return [text for each in [*first, *others] for text in each.addresses()]

    def named_addresses(self) -> list[str]:
        """Those of listeners with names of their own, as far as they are open here."""
        found = [each for service in self._stack.services for each in service.listeners()]
        return [f"{each.name}={each.url}" for each in found if each.name in self.config.listeners]


def _fixed_changes(old: Config, new: Config, renewed: frozenset[str]) -> list[str]:
    """Keys with changed values that only a restart applies."""
    changed = [
        key
        for key in all_keys()
        if not key.startswith("demo.")
        and key not in ("log.level", "log.levels")
        and value_of(old, key) != value_of(new, key)
        and not (key in renewed and value_of(old, key) and value_of(new, key))
    ]
    before, after = named_values(old), named_values(new)
    return changed + [
        key
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key) and not (key in renewed and before.get(key) and after.get(key))
    ]
