"""Connections as a service, if the server has twins and administrators who could make any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.monitor.figures import Family, Kind, labelled
from penstock.services.ditto import DittoService
from penstock.services.errors import StartError
from penstock.services.journal import JournalService
from penstock.services.service import Service
from penstock.store.errors import CannotOpen

if TYPE_CHECKING:
    from penstock.services.admin.logins import Logins
    from penstock.services.connections.registry import ConnectionRegistry
    from penstock.store.connections import ConnectionStore


class ConnectionsService(Service):
    """Opened after twins and items, before the API port; closed before them."""

    name = "connections"

    def __init__(
        self,
        config: Config,
        data_dir: Path | None,
        ditto: DittoService,
        journal: JournalService,
        logins: Callable[[], Logins | None],
    ) -> None:
        """`logins` is None if there are no administrators."""
        self._config = config
        self._data_dir = data_dir
        self._ditto = ditto
        self._journal = journal
        self._logins = logins
        self._store: ConnectionStore | None = None
        # There while it is open, if there can be any.
        self.registry: ConnectionRegistry | None = None

    async def open(self) -> None:
        door, logins, gatherer = self._ditto.door, self._logins(), self._journal.gatherer
        if door is None or logins is None or gatherer is None or self._data_dir is None:
            return
        # Here and not at the top, because servers without twins need none of it.
        from penstock.connections.document import ConnectionDocument
        from penstock.connections.offsets import MAX_UNDER_WAY
        from penstock.doors.ditto.live import Edition
        from penstock.doors.ditto.openapi.document import MoreRoutes
        from penstock.services.connections import openapi
        from penstock.services.connections.registry import ConnectionRegistry
        from penstock.services.connections.routes import connection_routes
        from penstock.services.connections.runner import ConnectionRunner
        from penstock.store.connections import ConnectionStore
        from penstock.twins.names import DEFAULT_SET

        settings, data_dir = self._config.ditto, self._data_dir
        try:
            self._store = await asyncio.to_thread(
                ConnectionStore.open, settings.connections_store, data_dir, settings.connections_key_file
            )
        except CannotOpen as error:
            raise StartError(str(error)) from error
        edition = Edition(door.service.losses)
        journal, history = gatherer.journal, door.history

        def marks(entity: str) -> list[str]:
            last = journal.revision(entity)
            found: list[str] = []
            if last:
                for table in history.read(entity, first=max(1, last - 2 * MAX_UNDER_WAY), last=last):
                    found += [value for value in table.column("value").to_pylist() if value]
            return found

        def make(document: ConnectionDocument) -> ConnectionRunner:
            return ConnectionRunner(document, door.service, edition, marks, DEFAULT_SET)

        registry = self.registry = ConnectionRegistry(self._store, make)
        door.more_routes = MoreRoutes(
            connection_routes(lambda: registry, lambda: logins),
            openapi.OPERATIONS,
            openapi.schemas(),
            openapi.PARAMETERS,
        )
        try:
            await registry.load()
        except CannotOpen as error:
            await self.drain()
            await self.close()
            raise StartError(f"{error}; see ditto.connections_key_file") from error

    async def drain(self) -> None:
        if self.registry is not None:
            await self.registry.close()

    async def close(self) -> None:
        self.registry = None
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
            self._store = None

    def degradations(self) -> list[str]:
        if self.registry is None:
            return []
        wrong = [runner for runner in self.registry.runners if str(runner.state) in ("failed", "misconfigured")]
        return [f"connection {runner.document.id}" for runner in wrong]

    def figures(self) -> Iterable[Family]:
        registry = self.registry
        runners = {} if registry is None else {runner.document.id: runner for runner in registry.runners}
        up = {id: float(str(runner.state) == "open") for id, runner in runners.items()}

        def totals(side: str, member: str) -> dict[str, float]:
            return {id: float(runner.tally.total(side, member)) for id, runner in runners.items()}

        label = "connection"
        return (
            labelled(Kind.GAUGE, "penstock_connection_up", "1 if the connection is open, else 0.", label, up),
            labelled(
                Kind.COUNTER,
                "penstock_connection_inbound",
                "Messages of sources that were carried out.",
                label,
                totals("inbound", "succeeded"),
            ),
            labelled(
                Kind.COUNTER,
                "penstock_connection_inbound_failed",
                "Messages of sources that were refused.",
                label,
                totals("inbound", "failed"),
            ),
            labelled(
                Kind.COUNTER,
                "penstock_connection_inbound_repeated",
                "Messages of sources that had been carried out before, and were skipped.",
                label,
                totals("inbound", "repeated"),
            ),
            labelled(
                Kind.COUNTER,
                "penstock_connection_outbound",
                "Messages that brokers have taken.",
                label,
                totals("outbound", "succeeded"),
            ),
            labelled(
                Kind.COUNTER,
                "penstock_connection_outbound_failed",
                "Messages that brokers have refused.",
                label,
                totals("outbound", "failed"),
            ),
        )
