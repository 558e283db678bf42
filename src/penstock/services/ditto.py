"""The Ditto door as two services, if the configuration says so and there is a journal: twins, and twins as items.

Twins are there before the adapter sets; as items they are an adapter set themselves, which comes after all others.
What the door does is in `penstock.doors.ditto`, which takes its time to load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.loading import SetPlan
from penstock.config import Config
from penstock.config.checks import serves_ditto
from penstock.kernel.ledger import Ledger
from penstock.monitor.figures import Family, counter, gauge
from penstock.services.journal import JournalService
from penstock.services.service import Service, TakeOver
from penstock.services.sets import SetsService

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.doors.ditto.door import DittoDoor


class DittoService(Service):
    """Opened before the adapter sets, closed after them and before the journal."""

    name = "ditto"

    def __init__(
        self,
        config: Config,
        data_dir: Path | None,
        journal: JournalService,
        sets: SetsService,
        ports: Callable[[], Collection[int]],
        ledger: Ledger,
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self._journal = journal
        self._sets = sets
        self._ports = ports
        self._ledger = ledger
        # There while it is open, if it is served.
        self.door: DittoDoor | None = None

    async def open(self) -> None:
        gatherer = self._journal.gatherer
        if gatherer is None or self._data_dir is None or not serves_ditto(self._config):
            return
        from penstock.doors.ditto.door import AdapterSets, DittoDoor  # loaded with the journal
        from penstock.history.lake_root import lake_of
        from penstock.history.reader import History

        history = History(self._data_dir / "journal", lake_of(self._config, self._data_dir))
        sets = AdapterSets(self._sets.judge_of, self._sets.has_adapter)
        door = DittoDoor(self._config, gatherer, history, sets, self._ports, self._ledger, self._data_dir)
        try:
            await door.open()
        except BaseException:
            await door.close()
            raise
        self.door = door
        # Its state is to be newer than all that is dropped.
        self._journal.before_dropping.append(door.save)

    async def drain(self) -> None:
        if self.door is not None:
            self.door.retire()

    async def close(self) -> None:
        if self.door is not None:
            self._journal.before_dropping.remove(self.door.save)
            await self.door.close()
            self.door = None

    def figures(self) -> Iterable[Family]:
        if self.door is None:
            return ()
        service, twins, writer = self.door.service, self.door.twins, self.door.search_writer
        search = (
            ()
            if writer is None
            else (
                gauge(
                    "penstock_ditto_search_lag_seconds",
                    "Age of the oldest change that is not in the search index; 0 if there is none.",
                    writer.lag(),
                ),
                gauge(
                    "penstock_ditto_search_waiting", "Changed things that are not in the search index.", writer.backlog
                ),
                counter("penstock_ditto_search_indexed", "Things written to the search index.", writer.indexed_changes),
                counter("penstock_ditto_search_failures", "Failed writes of the search index.", writer.failures),
            )
        )
        return (
            *search,
            counter("penstock_ditto_searches", "Searches for things.", service.searches.searches),
            counter("penstock_ditto_commands", "Commands of Ditto clients.", service.commands),
            counter("penstock_ditto_commands_refused", "Commands answered with an error.", service.refused_commands),
            counter("penstock_ditto_changes", "Changes of things and policies.", twins.commits.committed_changes),
            counter(
                "penstock_ditto_changes_failed",
                "Changes that could not be written to the disk.",
                twins.commits.failed_changes,
            ),
            counter(
                "penstock_ditto_events_lost",
                "Live events dropped because a client was too slow.",
                service.losses.events,
            ),
            counter(
                "penstock_ditto_records_skipped",
                "Records skipped at the start, because they are no changes of things or policies.",
                twins.lines.skipped_records,
            ),
            gauge("penstock_ditto_streams", "Streams of live events, over WebSockets and HTTP.", service.listeners),
            gauge("penstock_ditto_websockets", "WebSockets of Ditto clients.", self.door.sockets),
            gauge("penstock_ditto_twins", "Things and policies.", twins.count),
        )

    def mount(self, application: FastAPI) -> None:
        if self.door is not None:
            application.include_router(self.door.routes())

    def take_over(self) -> TakeOver | None:
        return None if self.door is None else self.door.take_over


class ThingsService(Service):
    """Adapter set DITTO: the things of the door as items. It ends with the other sets."""

    name = "things"

    def __init__(self, config: Config, ditto: DittoService, sets: SetsService) -> None:
        self._config = config
        self._ditto = ditto
        self._sets = sets

    async def check(self) -> list[str]:
        if serves_ditto(self._config):
            from penstock.doors.ditto.door import check_users

            check_users(self._config.ditto.adapter_set, self._sets.judge_of)
        return []

    async def open(self) -> None:
        door = self._ditto.door
        if door is not None:
            from penstock.adapters.things import things_set

            await self.check()
            await self._sets.add(SetPlan(things_set(door.twins, door.identity.admission)))
