"""The outlets as a service, if the configuration has any and there is a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.monitor.figures import Family, Kind, labelled
from penstock.services.errors import StartError
from penstock.services.journal import JournalService
from penstock.services.service import Service

if TYPE_CHECKING:
    from penstock.journal.disk import Disk
    from penstock.services.outlets.kafka import KafkaOutlet


class OutletsService(Service):
    """Opened after the journal, closed before it."""

    name = "outlets"

    def __init__(self, config: Config, journal: JournalService) -> None:
        self._sections = config.journal.outlets
        self._journal = journal
        self._outlets: list[KafkaOutlet] = []

    async def check(self) -> list[str]:
        try:
            self._made()
        except StartError as error:
            return [str(error)]
        return []

    async def open(self) -> None:
        if not self._sections or self._journal.gatherer is None:
            return
        self._outlets = self._made()
        for outlet in self._outlets:
            outlet.begin()

    async def close(self) -> None:
        outlets, self._outlets = self._outlets, []
        await asyncio.gather(*(asyncio.to_thread(outlet.close) for outlet in outlets))

    def _made(self) -> list[KafkaOutlet]:
        if not self._sections:
            return []
        try:
            from penstock.adapters.kafka.settings import OutletSettings
            from penstock.services.outlets.kafka import KafkaOutlet
        except ImportError:
            raise StartError("journal.outlets needs the extra kafka: pip install 'penstock[kafka]'") from None
        made = []
        for name, section in self._sections.items():
            try:
                file = Path(section.options_file) if section.options_file else None
                settings = OutletSettings.of(section.servers, section.topic, section.entities, section.start, file)
            except ValueError as error:
                raise StartError(f"journal.outlets.{name}.{error}") from None
            made.append(KafkaOutlet(name, settings, self._disk))
        return made

    def _disk(self) -> Disk:
        assert self._journal.gatherer is not None
        return self._journal.gatherer.journal.disk

    def figures(self) -> Iterable[Family]:
        """Of any server with a journal; without a sample while there is no outlet."""
        if self._journal.gatherer is None:
            return ()
        events = {outlet.name: float(outlet.events) for outlet in self._outlets}
        lags = {outlet.name: float(outlet.lag) for outlet in self._outlets}
        up = {outlet.name: float(outlet.trouble is None) for outlet in self._outlets}
        return (
            labelled(Kind.GAUGE, "penstock_outlet_up", "1 if the outlet can write to its topic, else 0.", "outlet", up),
            labelled(Kind.COUNTER, "penstock_outlet_events", "Events written to topics.", "outlet", events),
            labelled(Kind.GAUGE, "penstock_outlet_lag_events", "Events yet to be written or skipped.", "outlet", lags),
        )
