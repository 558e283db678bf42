"""The journal of a server: opened on a thread, written through a `Gatherer`, and kept within its retention.

How it is written is in `penstock.journal`. Read next: docs/journal.md.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.log import get
from penstock.services.errors import StartError
from penstock.services.service import Service

if TYPE_CHECKING:
    from penstock.journal.gatherer import Gatherer
    from penstock.journal.journal import Journal

log = get(__name__)

# Seconds for which events gather that nobody waits for, before they go to the journal.
GATHERING = 0.005

# Seconds between two looks for files of the journal that are past retention.
RETENTION_PAUSE = 60.0


class JournalService(Service):
    """Opened first and closed last: all others may write to it."""

    name = "journal"

    def __init__(self, config: Config, data_dir: Path | None) -> None:
        self._config = config
        self._data_dir = data_dir
        # What goes into the journal goes through here; None until it is open, and without one.
        self.gatherer: Gatherer | None = None
        # Awaited before files are dropped: what others keep of the journal is to be newer than these.
        self.before_dropping: list[Callable[[], Awaitable[None]]] = []
        self._retention: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """On a thread: recovery may take its time."""
        if self._data_dir is None or not self._config.journal.enabled:
            return
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_journal, self._data_dir / "journal", self._config)
        try:
            journal = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.to_thread((await opening).close)
            raise
        from penstock.journal.gatherer import Gatherer  # loaded with the journal, on its thread

        later = functools.partial(loop.call_later, GATHERING)
        self.gatherer = Gatherer(journal, loop.call_soon, lambda: time.time_ns() // 1000, later)
        self._retention = loop.create_task(self._retain(journal, self._data_dir / "lake"))

    async def _retain(self, journal: Journal, lake: Path) -> None:
        while True:
            await asyncio.sleep(RETENTION_PAUSE)
            try:
                for prepare in self.before_dropping:
                    await prepare()
                dropped = await asyncio.to_thread(drop_expired, journal, lake, self._config)
            except Exception:
                # Whatever is wrong with the lake or the disk: everything is kept until it is right again.
                log.exception("journal retention failed, everything is kept")
            else:
                if dropped:
                    log.info("journal dropped segments past retention", segments=len(dropped))

    async def close(self) -> None:
        if self._retention is not None:
            self._retention.cancel()
            await asyncio.wait([self._retention])
            self._retention = None
        if self.gatherer is not None:
            self.gatherer.flush()
            await asyncio.to_thread(self.gatherer.journal.close)
            self.gatherer = None

    def failures(self) -> list[str]:
        return [] if self.gatherer is None or self.gatherer.journal.trouble is None else ["journal"]


def open_journal(path: Path, config: Config) -> Journal:
    """Recover and begin; raises StartError. Blocks: not for an event loop."""
    from penstock.journal.errors import DirectoryInUse, JournalError  # takes its time to load, and not all want it
    from penstock.journal.journal import Journal, JournalSettings

    journal = config.journal
    settings = JournalSettings(
        segment_bytes=journal.segment_bytes,
        segment_seconds=journal.segment_seconds,
        interval_millis=journal.interval_millis,
        queue_bytes=journal.queue_bytes,
    )
    try:
        return Journal(path, settings)
    except DirectoryInUse:
        raise StartError(
            f"the journal {path} is being written by another process; stop that, or use another data_dir"
        ) from None
    except JournalError as error:
        raise StartError(f"the journal {path} cannot be opened: {error}") from error
    except OSError as error:
        raise StartError(f"the journal {path} cannot be opened: {error.strerror or error}") from error


def drop_expired(journal: Journal, lake: Path, config: Config) -> list[int]:
    """Drop files of the journal that are past retention and that the lake has. Blocks: not for an event loop."""
    from penstock.history import lake_sequence  # takes its time to load, and not all have a lake
    from penstock.journal.retention import Retention

    hours, size = config.journal.max_age_hours, config.journal.max_bytes
    if not hours and not size:
        return []
    return journal.retain(Retention(hours * 3600 if hours else None, size or None), lake_sequence(lake))
