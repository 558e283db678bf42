"""Writing segments: one frame for each group of records, then a sync, then the mark; rotation and sealing.

A long append is many frames before one mark: see `append_long`, and `unfinished` for what a crash leaves of it.

Synchronous and single-threaded: threads, queues and futures are in `journal`. Every step may fail with OSError; nothing
is committed then, and `restart` goes on in a new segment whose header fences off whatever is left of the failed one.
With a fence every step may also raise Fenced, after which only `close` may be called.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal import unfinished
from penstock.journal.blocks import BlockLog
from penstock.journal.disk import Disk, WritableFile
from penstock.journal.fence import Fence
from penstock.journal.index import IndexBuilder
from penstock.journal.mark import MARK_NAME, Mark, encode_mark
from penstock.journal.record import Columns
from penstock.journal.revisions import drop_old_revisions, save_revisions
from penstock.journal.segment import (
    DATA_START,
    FrameHeader,
    SegmentHeader,
    encode_frame,
    encode_segment_header,
    kind_bits,
    segment_name,
)
from penstock.journal.sidecar import replace_file
from penstock.journal.unfinished import UnfinishedAppend

# Bytes of a long append after which it is synced, so that the last sync does not have to write all of it.
SYNC_BYTES = 32 * 1024 * 1024


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


def group_of_batch(batch: Any) -> BatchGroup:
    """A group of one numbered batch."""
    sequences = batch.column("sequence")
    times = pc.min_max(batch.column("timestamp").cast(pa.int64())).as_py()
    return BatchGroup(
        [batch],
        sequences[0].as_py(),
        sequences[-1].as_py(),
        times["min"],
        times["max"],
        set(batch.column("entity").to_pylist()),
        set(pc.unique(batch.column("kind")).to_pylist()),
    )


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
        # The long append that is being written or has failed, and frames of it that the index does not have yet.
        self._unfinished: UnfinishedAppend | None = None
        self._waiting: list[tuple[int, FrameHeader, set[str]]] = []
        # The segment is to be sealed before anything is added to it.
        self._overdue = False

    def start(self, base: int, previous: int) -> None:
        """Begin a segment; `previous` is the last sequence that is committed before it."""
        self._begin(base, previous)
        self._commit(DATA_START, previous, previous)

    def _begin(self, base: int, previous: int) -> None:
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
        self._overdue = False

    def append(self, group: BatchGroup, *, sync: bool) -> None:
        """Commit a group as one frame. With `sync` it is on the disk when this returns."""
        self.check()
        if self._is_due():
            self.seal()
            self.start(group.first, self.committed)
        header = self._write(self._position, group)
        if sync:
            self._sync(self._open_file())
        self._commit(self._position + header.span, group.last, group.last if sync else self.synced)
        self._index.add(self._position - header.span, header, group.entities)

    def append_long(self, groups: Iterable[BatchGroup], first: int, last: int) -> None:
        """Commit groups that hold the records from `first` to `last`: all of them or none, on the disk."""
        self.check()
        # What was committed without a sync must not depend on a file that may have to be cut.
        self.sync()
        if self._is_due():
            self.seal()
            self.start(first, self.committed)
        begun = self.segment
        self._unfinished = UnfinishedAppend(begun, self._position, self.committed, last)
        unfinished.begin(self._disk, self._unfinished)
        position, unsynced, written = self._position, 0, self.committed
        for group in groups:
            self.check()
            if position > DATA_START and position >= self._segment_bytes:
                self._turn_over(group.first, written)
                position = DATA_START
            header = self._write(position, group)
            self._waiting.append((position, header, group.entities))
            position += header.span
            unsynced += header.span
            written = group.last
            if unsynced >= SYNC_BYTES:
                self._sync(self._open_file())
                unsynced = 0
        if written != last:
            raise OSError(f"a long append ends at {written}, not at {last}")
        self._sync(self._open_file())
        self._commit(position, last, last)
        self._unfinished = None
        self._index_waiting()
        # It counts from here on, whatever becomes of the note.
        with suppress(OSError):
            unfinished.end(self._disk)
            self._disk.sync_directory()
        # Segments in between have no revisions saved after them, and the next start would have to read them: they are
        # saved when this segment is sealed.
        self._overdue = self.segment != begun

    def _turn_over(self, base: int, previous: int) -> None:
        """Go on with a long append in another segment. Revisions are saved when all of it is committed."""
        self._sync(self._open_file())
        self._index_waiting()
        self._index.save(self._disk, self.segment)
        self._drop_log()
        self._close_file()
        self._begin(base, previous)

    def _index_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for position, header, entities in waiting:
            self._index.add(position, header, entities)

    def _write(self, position: int, group: BatchGroup) -> FrameHeader:
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
        self._open_file().write(position, parts)
        self.written_bytes += header.span
        return header

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
        if self._unfinished is not None:
            # Now it must be gone: the segments of it that follow would be taken for committed ones.
            self._take_back(self._unfinished)
        if self._index.blocks:
            # What was committed of it stays, and is looked for as in any other segment.
            self._index.save(self._disk, self.segment)
        save_revisions(self._disk, self.segment, self._revisions)
        self._drop_log()
        self.start(base, self.committed)

    def abandon(self) -> None:
        """Take away what was not committed, as far as the disk allows; the next segment's header fences it anyway."""
        if self._unfinished is not None:
            self._close_file()
            if self._fence is None or self._fence.holds():
                with suppress(OSError):
                    self._take_back(self._unfinished)
        elif self._file is not None:
            # Another owner may have found more in it than was committed here, and have kept it.
            if self._fence is None or self._fence.holds():
                with suppress(OSError):
                    self._file.truncate(self._position)
                    self._file.sync()
            self._close_file()

    def _take_back(self, note: UnfinishedAppend) -> None:
        self._drop_log()
        unfinished.take_back(self._disk, note)
        self._unfinished, self._waiting = None, []
        if self.segment != note.segment or self._index.end > note.position:
            # There is no index any more of what is left; readers do without.
            self.segment, self._index = note.segment, IndexBuilder()

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
        return (
            self._overdue
            or self._position >= self._segment_bytes
            or self._now() - self._created >= self._segment_micros
        )

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
