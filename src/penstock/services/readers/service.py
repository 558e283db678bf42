"""Reading of the journal over the network as a service, if the configuration has readers and there is a journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.monitor.figures import Family, counter, gauge
from penstock.services.journal import JournalService
from penstock.services.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.services.readers.routes import JournalReading


class ReadersService(Service):
    """Opened after the journal, closed before it."""

    name = "readers"

    def __init__(self, config: Config, journal: JournalService) -> None:
        self._config = config
        self._journal = journal
        # There while it is open, if there are readers.
        self.reading: JournalReading | None = None

    async def open(self) -> None:
        gatherer = self._journal.gatherer
        if gatherer is None or not self._config.journal.readers:
            return
        from penstock.services.readers.rights import Readers
        from penstock.services.readers.routes import JournalReading  # loaded with the journal

        self.reading = JournalReading(gatherer.journal.disk, Readers(self._config.journal.readers))

    async def drain(self) -> None:
        """Streams are cut: their readers come again when the server is back."""
        if self.reading is not None:
            self.reading.closing = True

    async def close(self) -> None:
        if self.reading is not None:
            await self.reading.close()
            self.reading = None

    def mount(self, application: FastAPI) -> None:
        if self.reading is not None:
            from penstock.services.readers.routes import readers_routes

            application.include_router(readers_routes(self.reading))

    def figures(self) -> Iterable[Family]:
        """Of any server with a journal; all are zero while nobody may read it."""
        if self._journal.gatherer is None:
            return ()
        streams, events, sent, refused = (0, 0, 0, 0)
        if (reading := self.reading) is not None:
            streams, events, sent = reading.streams, reading.sent_events, reading.sent_bytes
            refused = reading.refused
        return (
            gauge("penstock_journal_streams", "Ranges of the journal that are being sent to readers.", streams),
            counter("penstock_journal_sent_events", "Events sent to readers over the network.", events),
            counter("penstock_journal_sent_bytes", "Bytes sent to readers over the network.", sent),
            counter("penstock_journal_readers_refused", "Requests of readers refused because of their token.", refused),
        )
