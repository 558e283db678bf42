"""The TLEX door as a service, if it is enabled; at a hub, connections are at its edges.

What it does is in `penstock.doors.tlex`, which takes its time to load: imported only where it is wanted. The part of an
edge is in `penstock.services.cluster.tlex`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw

from penstock.adapters.tlex import Board
from penstock.config import Config
from penstock.config.address import address_of
from penstock.kernel.ledger import Ledger
from penstock.monitor.figures import Family, Kind, counter, gauge, labelled
from penstock.services.journal import JournalService
from penstock.services.service import Service, Shown
from penstock.wire.fabric.calls import encode_body
from penstock.wire.fabric.tlex import TLEX

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.doors.tlex.door import TlexDoor
    from penstock.services.cluster.hub import HubService
    from penstock.store.store import StoreFence

NOTHING = encode_body(None)


class TlexService(Service):
    """Adapters see the hub on the board."""

    name = "tlex"
    renewed = frozenset({"tlex.certificate", "tlex.private_key"})

    def __init__(
        self,
        config: Config,
        data_dir: Path | None,
        journal: JournalService,
        board: Board,
        max_strangers: int,
        ledger: Ledger,
        fence: StoreFence | None = None,
    ) -> None:
        """`fence`: see `Store.open`."""
        self._config = config
        self._data_dir = data_dir
        self._journal = journal
        self._board = board
        self._max_strangers = max_strangers
        self._ledger = ledger
        self._fence = fence
        # There once it is open, if it is enabled.
        self.door: TlexDoor | None = None
        self._hub: HubService | None = None
        # What edges have said before it was open.
        self._early: list[tuple[str, bytes]] = []

    def serve_edges(self, hub: HubService) -> None:
        """Peers are connected to edges as well, or alone; called before anything is opened."""
        if self._config.tlex.enabled:
            self._hub = hub
            hub.guests.methods[TLEX] = self._hear

    async def open(self) -> None:
        if not self._config.tlex.enabled:
            return
        from penstock.doors.tlex.door import TlexDoor

        self.door = await TlexDoor.open(
            self._config,
            self._data_dir,
            self._board,
            self._journal.gatherer,
            self._max_strangers,
            self._ledger,
            self._fence,
            self._hub is None or self._hub.has_clients,
            None if self._hub is None else self._tell,
        )
        if self._hub is not None:
            self._hub.edge_observer = self
            for edge, entry in self._hub.roll.entries.items():
                self.edge_came(edge, entry.hello.run)
            early, self._early = self._early, []
            for edge, body in early:
                await self._hear(edge, Raw(body))

    async def drain(self) -> None:
        if self.door is not None:
            await self.door.stop()

    # -- edges ----------------------------------------------------------------------------------------------------

    def edge_came(self, edge: str, run: str) -> None:
        if self.door is not None and self.door.nodes is not None:
            self.door.nodes.came(edge, run)

    def edge_lost(self, edge: str) -> None:
        if self.door is not None and self.door.nodes is not None:
            self.door.nodes.lost(edge)

    async def _hear(self, edge: str, body: Raw) -> bytes:
        """Never waits, because what an edge says is done in order."""
        if self.door is None:
            self._early.append((edge, bytes(body)))
        elif self.door.nodes is not None:
            self.door.nodes.hear(edge, bytes(body))
        return NOTHING

    def _tell(self, edge: str, words: bytes, confirmed: Callable[[], None]) -> None:
        assert self._hub is not None
        self._hub.guests.tell(edge, TLEX, Raw(words), lambda _: confirmed())

    # -- its part in the server -----------------------------------------------------------------------------------

    def degradations(self) -> list[str]:
        return ["tlex database"] if self.door is not None and self.door.is_database_away else []

    def figures(self) -> Iterable[Family]:
        if self.door is None:
            return ()
        hub = self.door.hub
        totals = hub.totals()
        types = Counter([session.type.value for session in hub.sessions.values()])
        return (
            labelled(Kind.GAUGE, "penstock_tlex_sessions", "Sessions of TLEX clients by type.", "type", types),
            gauge("penstock_tlex_controllers", "Registered traffic light controllers.", hub.registry.count),
            counter("penstock_tlex_payloads", "Payloads that clients have published.", totals.received),
            counter(
                "penstock_tlex_payload_bytes", "Bytes of payloads that clients have published.", totals.received_bytes
            ),
            counter("penstock_tlex_payloads_sent", "Payloads sent to clients.", totals.sent),
            counter(
                "penstock_tlex_payloads_dropped",
                "Payloads dropped because their receiver was too slow.",
                totals.dropped,
            ),
            counter("penstock_tlex_payloads_unrouted", "Payloads for which no receiver is connected.", totals.unrouted),
            counter(
                "penstock_tlex_payloads_refused",
                "Payloads refused because they are outside their sender's scope, of a reserved type, or too long for "
                "their receiver.",
                totals.out_of_scope + totals.reserved + totals.oversized + totals.forbidden,
            ),
            counter(
                "penstock_tlex_turned_away", "Connections refused because of a missing or wrong token.", hub.turned_away
            ),
            *self.door.listeners.figures(),
            gauge(
                "penstock_tlex_clock_error_seconds",
                "Largest clock error of any peer.",
                hub.clock_error() / 1000,
            ),
            gauge(
                "penstock_tlex_database_up",
                "1 if the database of the TLEX door answers, else 0.",
                not self.door.is_database_away,
            ),
        )

    def addresses(self) -> list[str]:
        if self.door is None or not self.door.ports.port:
            return []
        return [f"tlex={address_of(self._config.tlex.host, self.door.ports.port)}"]

    def certificates(self, config: Config) -> list[Shown]:
        if self.door is None or self.door.ports.certificate is None or not config.tlex.certificate:
            return []
        from penstock.doors.tlex.ports import certificate_files  # loaded by the door already

        return [Shown("tlex", self.door.ports.certificate, certificate_files(config.tlex))]

    def mount(self, application: FastAPI) -> None:
        if self.door is not None:
            from penstock.services.mounting import below  # loaded by the door already

            application.router.routes.append(below("/api/v1", self.door.rest))
