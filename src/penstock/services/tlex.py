"""The TLEX door as a service, if it is enabled.

What it does is in `penstock.doors.tlex`, which takes its time to load: imported only where it is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.tlex import Board
from penstock.config import Config
from penstock.config.address import address_of
from penstock.kernel.ledger import Ledger
from penstock.monitor.figures import Family, Kind, counter, gauge, labelled
from penstock.services.journal import JournalService
from penstock.services.service import Service, Shown

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.doors.tlex.door import TlexDoor
    from penstock.store.store import Fence


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
        fence: Fence | None = None,
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
        )

    async def drain(self) -> None:
        if self.door is not None:
            await self.door.stop()

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
                totals.out_of_scope + totals.reserved + totals.oversized,
            ),
            counter(
                "penstock_tlex_turned_away", "Connections refused because of a missing or wrong token.", hub.turned_away
            ),
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
        return [] if self.door is None else [f"tlex={address_of(self._config.tlex.host, self.door.port)}"]

    def certificates(self, config: Config) -> list[Shown]:
        if self.door is None or self.door.certificate is None or not config.tlex.certificate:
            return []
        from penstock.doors.tlex.door import certificate_files  # loaded by the door already

        return [Shown("tlex", self.door.certificate, certificate_files(config.tlex))]

    def mount(self, application: FastAPI) -> None:
        if self.door is not None:
            from penstock.services.mounting import below  # loaded by the door already

            application.router.routes.append(below("/api/v1", self.door.rest))
