"""Writing segments: one frame for each group of records, then a sync, then the mark; rotation and sealing.

Synchronous and single-threaded: threads, queues and futures are in `journal`. Every step may fail with OSError; nothing
is committed then, and `restart` goes on in a new segment whose header fences off whatever is left of the failed one.
With a fence every step may also raise Fenced, after which only `close` may be called.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.journal.blocks import BlockLog
from penstock.journal.disk import Disk, WritableFile
from penstock.journal.fence import Fence
from penstock.journal.index import IndexBuilder
from penstock.journal.mark import MARK_NAME, Mark, encode_mark
from penstock.journal.record import Columns
from penstock.journal.revisions import drop_old_revisions, save_revisions
from penstock.journal.segment import (
    DATA_START,
    SegmentHeader,
    encode_frame,
    encode_segment_header,
    kind_bits,
    segment_name,
)
from penstock.journal.sidecar import replace_file


@dataclass(slots=True)
class BatchGroup:
    """Numbered batches that follow one another, and what is in them."""

    batches: list[Any]
    first: int
    last: int
    # Timestamps.
    earliest: int
    latest: int
    entities: set[str]
    kinds: set[str]

    def extend(self, other: BatchGroup) -> None:
        """`other` comes next."""
        self.batches += other.batches
        self.last = other.last
        self.earliest = min(self.earliest, other.earliest)
        self.latest = max(self.latest, other.latest)
        self.entities |= other.entities
        self.kinds |= other.kinds


def group_of(batch: Any, columns: Columns, first: int) -> BatchGroup:
    """A group of one batch, described by the columns it was made of."""
    times = columns.timestamps
    last = first + len(columns) - 1
    return BatchGroup([batch], first, last, min(times), max(times), set(columns.entities), set(columns.kinds))


class SegmentWriter:
    """Owns the segment being written. After an OSError only `restart` and `abandon` may be called."""

    def __init__(
        self,
        disk: Disk,
        revisions: Mapping[str, int],
        now: Callable[[], int],
        *,
        segment_bytes: int,
        segment_micros: int,
        fence: Fence | None = None,
    ) -> None:
        # The last sequence that readers may see, and the last that survives a power cut.
        self.committed = 0
        self.synced = 0
        self.segment = 0
        # Bytes written and syncs, ever; `on_sync` is told how long each took, in seconds.
        self.written_bytes = 0
        self.syncs = 0
        self.on_sync: Callable[[float], None] | None = None
        self._disk = disk
        self._revisions = revisions
        self._now = now
        self._segment_bytes = segment_bytes
        self._segment_micros = segment_micros
        self._fence = fence
        self._salt = 0
        self._created = 0
        self._position = 0
        self._log: BlockLog | None = None
        self._index = IndexBuilder()
        self._file: WritableFile | None = None
        self._mark: WritableFile | None = None

    def start(self, base: int, previous: int) -> None:
        """Begin a segment; `previous` is the last sequence that is committed before it."""
        self.check()
        header = SegmentHeader(base, previous, self._now(), secrets.randbits(32))
        name = segment_name(base)
        replace_file(self._disk, name, [encode_segment_header(header)])
        self._disk.sync_directory()
        self._file = self._disk.open(name)
        self._salt = header.salt
        self._created = header.created
        self._log = BlockLog(self._disk, base, header.salt)
        self._index = IndexBuilder(self._log)
        self.segment = base
        self._position = DATA_START
        self._commit(DATA_START, previous, previous)

    def append(self, group: BatchGroup, *, sync: bool) -> None:
        """Commit a group as one frame. With `sync` it is on the disk when this returns."""
        self.check()
        if self._is_due():
            self.seal()
            self.start(group.first, self.committed)
        batches = group.batches
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        header, parts = encode_frame(
            memoryview(batch.serialize()),
            self._salt,
            group.first,
            group.last,
            self.synced,
            group.earliest,
            group.latest,
            kind_bits(group.kinds),
        )
        file = self._open_file()
        file.write(self._position, parts)
        self.written_bytes += header.span
        if sync:
            self._sync(file)
        self._commit(self._position + header.span, group.last, group.last if sync else self.synced)
        self._index.add(self._position - header.span, header, group.entities)

    def sync(self) -> None:
        """Make what was committed without a sync survive a power cut as well."""
        if self.synced < self.committed:
            self._sync(self._open_file())
            self._commit(self._position, self.committed, self.committed)

    def _sync(self, file: WritableFile) -> None:
        begun = time.perf_counter()
        file.sync()
        self.syncs += 1
        if self.on_sync is not None:
            self.on_sync(time.perf_counter() - begun)

    def seal(self) -> None:
        """Finish the segment: all of it on the disk, with index and revisions beside it."""
        self.check()
        self.sync()
        if self._position > DATA_START:
            self._index.save(self._disk, self.segment)
            save_revisions(self._disk, self.segment, self._revisions)
            self._disk.sync_directory()
            drop_old_revisions(self._disk)
        self._drop_log()
        self._close_file()

    def restart(self, base: int) -> None:
        """After a failure: leave the segment as it is and begin another. Raises OSError while the disk refuses."""
        self.abandon()
        if self._index.blocks:
            # What was committed of it stays, and is looked for as in any other segment.
            self._index.save(self._disk, self.segment)
        save_revisions(self._disk, self.segment, self._revisions)
        self._drop_log()
        self.start(base, self.committed)

    def abandon(self) -> None:
        """Take away what was not committed, as far as the disk allows; the next segment's header fences it anyway."""
        if self._file is not None:
            # Another owner may have found more in it than was committed here, and have kept it.
            if self._fence is None or self._fence.holds():
                with suppress(OSError):
                    self._file.truncate(self._position)
                    self._file.sync()
            self._close_file()

    def check(self) -> None:
        """Raise Fenced if another may be writing. Asked before something is written, and before it counts as written:
        then it was written in time, whatever has kept this process from running meanwhile.
        """
        if self._fence is not None:
            self._fence.check()

    def close(self) -> None:
        """Close all files; call `seal` or `abandon` first."""
        self._close_file()
        if self._log is not None:
            self._log.close()
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    def _is_due(self) -> bool:
        if self._position == DATA_START:
            return False
        return self._position >= self._segment_bytes or self._now() - self._created >= self._segment_micros

    def _open_file(self) -> WritableFile:
        if self._file is None:
            raise RuntimeError("the segment is closed: start or restart comes first")
        return self._file

    def _drop_log(self) -> None:
        if self._log is not None:
            log, self._log = self._log, None
            log.drop()

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                file.close()

    def _commit(self, position: int, sequence: int, synced: int) -> None:
        """Tell readers how far they may go; only then it counts here as well."""
        self.check()
        mark = encode_mark(Mark(self.segment, position, sequence, synced))
        if self._mark is None:
            # Whole from the first moment; later it is changed in place, less than a sector of it.
            replace_file(self._disk, MARK_NAME, [mark])
            self._mark = self._disk.open(MARK_NAME)
        else:
            self._mark.write(0, [mark])
        self._position, self.committed, self.synced = position, sequence, synced
