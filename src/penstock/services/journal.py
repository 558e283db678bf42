"""The journal of a server: opened on a thread, written through a `Gatherer`, and kept within its retention.

How it is written is in `penstock.journal`. Read next: docs/journal.md.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import Config, Loaded
from penstock.config.loading import WITHOUT_JOURNAL
from penstock.extras import lack_of
from penstock.history.lake_root import LakeRoot, lake_of
from penstock.history.lake_url import LakeUnavailable
from penstock.log import get
from penstock.monitor.figures import Family, counter, durations, gauge
from penstock.monitor.histogram import Histogram
from penstock.services.errors import StartError
from penstock.services.journal_size import JournalSize, weigh
from penstock.services.service import Service

if TYPE_CHECKING:
    from penstock.journal.fence import Fence
    from penstock.journal.gatherer import Gatherer
    from penstock.journal.journal import Journal
    from penstock.journal.retention import Retention

log = get(__name__)

# Seconds for which events gather that nobody waits for, before they go to the journal.
GATHERING = 0.005

# Seconds between two looks for files of the journal that are past retention.
RETENTION_PAUSE = 60.0

# Seconds between two looks at how large the journal is and what room its disk has left.
SIZE_PAUSE = 10.0


class JournalService(Service):
    """Opened first and closed last: all others may write to it."""

    name = "journal"

    def __init__(self, config: Config, data_dir: Path | None, fence: Fence | None = None) -> None:
        """With a fence the journal may be on storage that others reach, too."""
        self._config = config
        self._data_dir = data_dir
        self._fence = fence
        # What goes into the journal goes through here; None until it is open, and without one.
        self.gatherer: Gatherer | None = None
        # Awaited before files are dropped: what others keep of the journal is to be newer than these.
        self.before_dropping: list[Callable[[], Awaitable[None]]] = []
        # Set when all who read the journal at their start have done so: before that nothing is dropped.
        self.may_drop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._syncs = Histogram()
        self._size = JournalSize()
        # The last record that the lake had, when it was last looked at.
        self._lake = 0

    async def open(self) -> None:
        """On a thread: recovery may take its time."""
        if self._data_dir is None or not self._config.journal.enabled:
            return
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_journal, self._data_dir / "journal", self._config, self._fence)
        try:
            journal = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.to_thread((await opening).close)
            raise
        from penstock.journal.gatherer import Gatherer  # loaded with the journal, on its thread

        later = functools.partial(loop.call_later, GATHERING)
        self.gatherer = Gatherer(journal, loop.call_soon, lambda: time.time_ns() // 1000, later)
        journal.time_syncs(self._syncs.add)
        self._tasks = [
            loop.create_task(self._retain(journal, lake_of(self._config, self._data_dir))),
            loop.create_task(self._weigh(journal, self._data_dir / "journal")),
        ]

    async def _weigh(self, journal: Journal, path: Path) -> None:
        while True:
            try:
                self._size = await asyncio.to_thread(weigh, journal, path)
            except OSError as error:
                log.warning("the size of the journal cannot be determined", reason=str(error))
            await asyncio.sleep(SIZE_PAUSE)

    async def _retain(self, journal: Journal, lake: LakeRoot) -> None:
        await self.may_drop.wait()
        while True:
            await asyncio.sleep(RETENTION_PAUSE)
            try:
                self._lake = await asyncio.to_thread(lake_end, lake)
                dropped: list[int] = []
                if await asyncio.to_thread(past_retention, journal, self._lake, self._config):
                    for prepare in self.before_dropping:
                        await prepare()
                    dropped = await asyncio.to_thread(drop_expired, journal, self._lake, self._config)
            except LakeUnavailable as error:
                log.warning("journal retention waits for the lake, everything is kept", reason=str(error))
            except Exception:
                # Whatever is wrong with the lake or the disk: everything is kept until it is right again.
                log.exception("journal retention failed, everything is kept")
            else:
                if dropped:
                    log.info("expired journal segments deleted", segments=len(dropped))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        if self.gatherer is not None:
            self.gatherer.flush()
            await asyncio.to_thread(self.gatherer.journal.close)
            self.gatherer = None

    def failures(self) -> list[str]:
        return [] if self.gatherer is None or self.gatherer.journal.trouble is None else ["journal"]

    def degradations(self) -> list[str]:
        has_room = not self._size.disk or self._size.free >= self._config.journal.min_free_bytes
        return [] if self.gatherer is None or has_room else ["disk nearly full"]

    def figures(self) -> Iterable[Family]:
        if self.gatherer is None:
            return ()
        journal, size = self.gatherer.journal, self._size
        return (
            counter("penstock_journal_records", "Records appended.", journal.appended_records),
            counter("penstock_journal_commits", "Commits; one commit can have many records.", journal.committed_groups),
            counter("penstock_journal_written_bytes", "Bytes written for records.", journal.written_bytes),
            counter("penstock_journal_syncs", "Syncs of the disk.", journal.syncs),
            durations("penstock_journal_sync_seconds", "Duration of a sync.", self._syncs),
            counter(
                "penstock_journal_records_lost",
                "Records lost because the journal refused them or could not write them.",
                self.gatherer.lost_records,
            ),
            counter(
                "penstock_journal_appends_refused",
                "Appends refused because too much waits for the disk, or because the disk fails.",
                journal.refused_appends,
            ),
            gauge("penstock_journal_queue_bytes", "Bytes waiting to be written.", journal.queued_bytes),
            gauge(
                "penstock_journal_failed", "1 while the journal cannot be written, else 0.", journal.trouble is not None
            ),
            gauge("penstock_journal_sequence", "Sequence number of the last committed record.", journal.committed),
            gauge("penstock_journal_size_bytes", "Size of all files of the journal.", size.bytes),
            gauge("penstock_journal_segments", "Segments of the journal.", size.segments),
            gauge(
                "penstock_journal_oldest_time_seconds",
                "Start time of the oldest segment, in seconds since 1970.",
                size.oldest,
            ),
            gauge("penstock_disk_free_bytes", "Free space on the disk of the data directory.", size.free),
            gauge("penstock_disk_size_bytes", "Size of the disk of the data directory.", size.disk),
            gauge(
                "penstock_lake_sequence",
                "Sequence number of the last record in the lake; 0 without a lake.",
                self._lake,
            ),
        )


def check_extras(loaded: Loaded) -> None:
    """Raise StartError if the data directory has something that cannot be continued without an extra."""
    data_dir = Path(loaded.config.server.data_dir)
    if loaded.origins["journal.enabled"] == WITHOUT_JOURNAL and (data_dir / "journal").is_dir():
        raise StartError(
            f"the data directory {data_dir} has a journal, and {lack_of('pyarrow')}; "
            "or set journal.enabled = false to go on without it"
        )
    if loaded.config.journal.enabled and (data_dir / "lake" / "_delta_log").is_dir() and not find_spec("deltalake"):
        raise StartError(f"the data directory {data_dir} has a lake, and {lack_of('deltalake')}")


def open_journal(path: Path, config: Config, fence: Fence | None = None) -> Journal:
    """Recover and begin; raises StartError. Blocks: not for an event loop."""
    from penstock.journal.erasure_note import is_erasing
    from penstock.journal.errors import DirectoryInUse, JournalError  # takes its time to load, and not all want it
    from penstock.journal.journal import Journal, JournalSettings

    if is_erasing(path):
        raise StartError(
            f"an erasure in {path.parent} has not finished; run `penstock history erase` without an entity to finish it"
        )
    journal = config.journal
    settings = JournalSettings(
        segment_bytes=journal.segment_bytes,
        segment_seconds=journal.segment_seconds,
        interval_millis=journal.interval_millis,
        queue_bytes=journal.queue_bytes,
    )
    try:
        return Journal(path, settings, fence=fence)
    except DirectoryInUse:
        raise StartError(
            f"the journal {path} is being written by another process; stop that process, or use another data_dir"
        ) from None
    except JournalError as error:
        raise StartError(f"the journal {path} cannot be opened: {error}") from error
    except OSError as error:
        raise StartError(f"the journal {path} cannot be opened: {error.strerror or error}") from error


def lake_end(lake: LakeRoot) -> int:
    """The last record that the lake has. Blocks: not for a loop."""
    from penstock.history import lake_sequence  # takes its time to load, and not all have a lake

    return lake_sequence(lake)


def past_retention(journal: Journal, lake: int, config: Config) -> list[int]:
    """What `drop_expired` would drop. Blocks: not for a loop."""
    return journal.past_retention(*_retention(journal, lake, config))


def drop_expired(journal: Journal, lake: int, config: Config) -> list[int]:
    """Drop files of the journal that are past retention, and that the lake has up to this record unless the
    configuration does without. Blocks: not for a loop.
    """
    return journal.retain(*_retention(journal, lake, config))


def _retention(journal: Journal, lake: int, config: Config) -> tuple[Retention, int]:
    from penstock.journal.retention import Retention

    hours, size = config.journal.max_age_hours, config.journal.max_bytes
    last = lake if config.journal.keep_until_in_lake else journal.committed
    return Retention(hours * 3600 if hours else None, size or None), last
