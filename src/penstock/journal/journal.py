"""The journal as the server uses it: `append` numbers records and hands them to a thread that commits them in groups.

Everything that may block is on that thread; `append` does nothing but make Arrow columns. Reading is in `reader`, which
needs nothing of this. Read next: docs/journal.md, "Policies".
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from penstock import log
from penstock.journal.disk import DirectoryDisk, Disk
from penstock.journal.errors import (
    BadRecord,
    DiskFailed,
    Fenced,
    JournalClosed,
    JournalError,
    Overload,
)
from penstock.journal.fence import SKIPPED, Fence, leave_to_lock
from penstock.journal.long import LongAppend, LongReceipt, numbered_groups
from penstock.journal.record import Columns, arrays, numbered
from penstock.journal.recovery import Recovery, recover
from penstock.journal.retention import Retention, drop_expired, find_expired
from penstock.journal.segment import MAX_FRAME
from penstock.journal.writer import BatchGroup, SegmentWriter, group_of

_log = log.get(__name__)

# Bytes of one append; a frame must hold it together with what Arrow adds.
MAX_APPEND = MAX_FRAME // 2


class Policy(Enum):
    """When a source's records are committed, and what its publisher knows then."""

    # At once; the future resolves when they are on the disk. Nothing acknowledged is ever lost.
    ACK = "ack"
    # Within `interval_millis`, then on the disk. A crash loses at most that much.
    INTERVAL = "interval"
    # Within `interval_millis`, in the operating system's cache. A power failure may lose more.
    OFF = "off"


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The limits of a journal; each says what happens at it."""

    # A segment this large is sealed, and another begun; start-up reads at most one.
    segment_bytes: int = 128 * 1024 * 1024
    # So is one this old, as soon as there is something to write; retention drops whole segments.
    segment_seconds: float = 3600.0
    # How long records without an acknowledgement wait for others, to share a frame and a sync with them.
    interval_millis: float = 50.0
    # A group this large is written without waiting. Larger ones are slower: their copies do not fit into the cache.
    group_bytes: int = 1024 * 1024
    # More than this waiting for the disk: `append` raises Overload.
    queue_bytes: int = 64 * 1024 * 1024
    # How often a disk that refused is tried again.
    retry_millis: float = 500.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} is {value}; it must be above 0")
        if self.group_bytes > MAX_APPEND:
            raise ValueError(f"group_bytes is {self.group_bytes}; at most {MAX_APPEND} fit into a frame")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an append: sequences from `first` on, a revision for each record, and, with ACK, the future."""

    first: int
    revisions: list[int]
    done: Future[None] | None


@dataclass(frozen=True, slots=True)
class _Pending:
    """Waits for the writer; one without records is a flush."""

    group: BatchGroup | None
    count: int
    size: int
    sync: bool
    done: Future[None] | None
    # Written alone, and read from somewhere meanwhile.
    long: tuple[LongAppend, LongReceipt] | None = None


class Journal:
    """One per directory. `append`, `flush` and `room` may be called from any thread; none of them waits."""

    def __init__(
        self,
        disk: Disk | Path,
        settings: JournalSettings | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
        fence: Fence | None = None,
    ) -> None:
        """Recover and begin. Raises DirectoryInUse, UnknownVersion, OSError.

        With a fence, a process that still has the lock is not the owner any more; Fenced is raised if this one is not.
        """
        self.settings = settings or JournalSettings()
        bare: Disk = DirectoryDisk(disk, make=True) if isinstance(disk, Path) else disk
        self._disk = bare if fence is None else fence.around(bare)
        self._now = now
        self._fence = fence
        self._lock = self._disk.lock()
        try:
            in_order = leave_to_lock(bare) if fence is None else fence.enter(self._disk)
            self.recovery = recover(self._disk)
            if not in_order:
                self.recovery.next += SKIPPED
            _tell(self.recovery)
            # The last revision given to each entity.
            self._revisions = self.recovery.revisions
            self._writer = SegmentWriter(
                self._disk,
                self._revisions,
                now,
                segment_bytes=self.settings.segment_bytes,
                segment_micros=int(self.settings.segment_seconds * 1e6),
                fence=fence,
            )
            self._writer.start(self.recovery.next, self.recovery.previous)
        except BaseException:
            self._lock.release()
            raise
        # Counters for the monitor: plain integers, read without a lock.
        self.appended_records = 0
        self.committed_groups = 0
        self.lost_records = 0
        self.refused_appends = 0
        self._next = self.recovery.next
        self._queue: deque[_Pending] = deque()
        self._queued_bytes = 0
        # What the thread has taken from the queue and not yet committed.
        self._taken: list[_Pending] = []
        # Something in the queue wants to be committed at once.
        self._urgent = False
        # When the oldest record of the queue has waited long enough, on the monotonic clock.
        self._deadline = 0.0
        self._failure: DiskFailed | None = None
        self._closing = False
        self._dead: str | None = None
        # What those are told who come after the end.
        self._closed: type[JournalClosed] = JournalClosed
        self._room_waiters: list[Future[None]] = []
        self._change = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._run, name="penstock-journal", daemon=True)
        self._thread.start()

    # -- appending ------------------------------------------------------------------------------------------------

    @property
    def next_sequence(self) -> int:
        return self._next

    @property
    def committed(self) -> int:
        """The last sequence that readers see."""
        return self._writer.committed

    @property
    def disk(self) -> Disk:
        """What it is written on: for a `JournalReader` in the same process."""
        return self._disk

    @property
    def syncs(self) -> int:
        return self._writer.syncs

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def time_syncs(self, hear: Callable[[float], None]) -> None:
        """Have it called, on the writer's thread, with the seconds that each sync has taken."""
        self._writer.on_sync = hear

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def failure(self) -> DiskFailed | None:
        """Why nothing can be appended at present; None when all is well."""
        return self._failure

    @property
    def trouble(self) -> str | None:
        """Why nothing is written: a disk that refuses for now, or the death of the writer. None when all is well."""
        return self._dead or (None if self._failure is None else str(self._failure))

    def revision(self, entity: str) -> int:
        """The last one given to this entity; 0 when it never had any."""
        return self._revisions.get(entity, 0)

    def append(self, columns: Columns, policy: Policy) -> Receipt:
        """Number the records and queue them for the writer. Raises BadRecord, Overload, DiskFailed, JournalClosed.

        If one of these is raised, nothing was appended. If the future of an ACK fails with DiskFailed or JournalClosed,
        nothing was committed, but with Fenced that is not known.
        """
        count = len(columns)
        if not count:
            raise BadRecord("an append needs at least one record; it has none")
        given = arrays(columns)
        size = sum(array.nbytes for array in given) + 16 * count
        if size > MAX_APPEND:
            raise BadRecord(f"an append of {size} bytes exceeds {MAX_APPEND}; split it")
        entities = columns.entities
        done = _future() if policy is Policy.ACK else None
        with self._change:
            self._check_open()
            if self._queued_bytes + size > self.settings.queue_bytes and self._queued_bytes:
                self.refused_appends += 1
                raise Overload(
                    f"{self._queued_bytes} bytes wait for the disk; with {size} more it would be above"
                    f" queue_bytes, {self.settings.queue_bytes}"
                )
            first = self._next
            revisions = self._count(entities)
            batch = numbered(given, first, revisions)
            self._next = first + count
            self.appended_records += count
            pending = _Pending(group_of(batch, columns, first), count, size, policy is not Policy.OFF, done)
            self._enqueue(pending, urgent=done is not None)
        return Receipt(first, revisions, done)

    def append_long(self, records: LongAppend) -> LongReceipt:
        """Number records that are too many for one append; they are read and written one piece at a time, as ACK.

        All of them are committed or none. What is appended later waits for them. Raises what `append` raises.
        """
        done = _future()
        with self._change:
            self._check_open()
            before = {entity: self._revisions.get(entity, 0) for entity in records.counts}
            for entity, count in records.counts.items():
                self._revisions[entity] = before[entity] + count
            receipt = LongReceipt(self._next, before, done)
            self._next += records.count
            self.appended_records += records.count
            self._enqueue(_Pending(None, records.count, 0, True, done, (records, receipt)), urgent=True)
        return receipt

    def flush(self) -> Future[None]:
        """Resolves when everything appended so far is on the disk, whatever its policy."""
        done = _future()
        with self._change:
            self._check_open()
            self._enqueue(_Pending(None, 0, 0, True, done), urgent=True)
        return done

    def room(self) -> Future[None]:
        """Resolves when the disk works and the queue is at most half full: what a source waits for after a refusal."""
        done = _future()
        with self._change:
            if self._closing or self._dead is not None:
                raise self._closed(self._dead or "the journal is closed")
            if self._is_roomy():
                done.set_result(None)
            else:
                self._room_waiters.append(done)
        return done

    def past_retention(self, retention: Retention, lake_sequence: int) -> list[int]:
        """What `retain` would drop. Blocks: not for a loop."""
        return find_expired(self._disk, retention, lake_sequence, self._now(), self._writer.segment)

    def retain(self, retention: Retention, lake_sequence: int) -> list[int]:
        """Drop sealed segments that are past retention and that the lake has; returns them. Blocks: not for a loop."""
        return drop_expired(self._disk, retention, lake_sequence, self._now(), self._writer.segment)

    def close(self) -> None:
        """Commit what waits, seal the segment, release the directory. Blocks until the disk is done."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closing or self._dead is not None:
            raise self._closed(self._dead or "the journal is closed")
        if self._failure is not None:
            self.refused_appends += 1
            raise DiskFailed(str(self._failure), self._failure.errno)

    def _count(self, entities: Sequence[str]) -> list[int]:
        last = self._revisions
        revisions = []
        for entity in entities:
            revision = last.get(entity, 0) + 1
            last[entity] = revision
            revisions.append(revision)
        return revisions

    def _enqueue(self, pending: _Pending, *, urgent: bool) -> None:
        waits = bool(self._queue)
        if not waits:
            self._deadline = time.monotonic() + self.settings.interval_millis / 1000
        self._queue.append(pending)
        self._queued_bytes += pending.size
        if urgent:
            self._urgent = True
        if urgent or not waits or self._queued_bytes >= self.settings.group_bytes:
            self._change.notify()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._next_group():
                try:
                    self._commit()
                except OSError as error:
                    self._fail(error)
                    self._retry()
            if self._failure is None:
                self._writer.seal()
                if self._fence is not None:
                    self._fence.leave(self._disk)
            self._end("the journal is closed")
        except Fenced as error:
            _log.error("another process owns the journal now; nothing more is written", reason=str(error))
            self._end(str(error), Fenced)
        except OSError as error:
            _log.error("journal not sealed", reason=str(error))
            self._end(f"the journal could not be sealed: {error}")
        except Exception as error:
            _log.exception("journal writer died")
            self._end(f"the journal's writer has died: {type(error).__name__}: {error}")
        finally:
            self._writer.close()
            self._lock.release()

    def _next_group(self) -> bool:
        """Waits for what makes one frame; False when the journal is closed and all is written."""
        with self._change:
            while not self._is_due():
                if not self._queue:
                    if self._closing:
                        return False
                    self._change.wait()
                else:
                    self._change.wait(max(self._deadline - time.monotonic(), 0))
            taken = self._taken
            size = 0
            while self._queue and (not taken or size + self._queue[0].size <= self.settings.group_bytes):
                if taken and self._queue[0].long is not None:
                    break
                pending = self._queue.popleft()
                taken.append(pending)
                size += pending.size
                if pending.long is not None:
                    break
            if not self._queue:
                self._urgent = False
            return True

    def _is_due(self) -> bool:
        if not self._queue:
            return False
        return (
            self._urgent
            or self._closing
            or self._queued_bytes >= self.settings.group_bytes
            or time.monotonic() >= self._deadline
        )

    def _commit(self) -> None:
        taken = self._taken
        groups = [pending.group for pending in taken if pending.group is not None]
        sync = any(pending.sync for pending in taken)
        if groups:
            whole = groups[0]
            for other in groups[1:]:
                whole.extend(other)
            self._writer.append(whole, sync=sync)
            self.committed_groups += 1
        if taken and taken[0].long is not None:
            records, receipt = taken[0].long
            last = receipt.first + records.count - 1
            self._writer.append_long(numbered_groups(records, receipt), receipt.first, last)
            self.committed_groups += 1
        if sync:
            self._writer.sync()
        self._writer.check()
        with self._change:
            self._taken = []
            self._queued_bytes -= sum(pending.size for pending in taken)
            waiters = self._take_room_waiters()
        for pending in taken:
            if pending.done is not None:
                pending.done.set_result(None)
        for waiter in waiters:
            waiter.set_result(None)

    def _fail(self, error: OSError) -> None:
        """Nothing of the group was committed, and what is queued after it cannot be: its numbers would leave a gap."""
        self._writer.abandon()
        failure = DiskFailed(f"the journal cannot be written: {error.strerror or error}", error.errno)
        with self._change:
            self._failure = failure
            lost = self._drop_queue()
        records = sum(pending.count for pending in lost)
        self.lost_records += records
        _log.error("journal failed", reason=str(error), errno=error.errno, lost_records=records)
        _refuse(lost, failure)

    def _retry(self) -> None:
        """Try until the disk takes a new segment, or the journal is closed."""
        while True:
            with self._change:
                if self._change.wait_for(lambda: self._closing, self.settings.retry_millis / 1000):
                    return
            try:
                self._writer.restart(self._next)
            except OSError:
                self._writer.abandon()
                continue
            with self._change:
                self._failure = None
                waiters = self._take_room_waiters()
            _log.warning("journal can be written again", sequence=self._next, lost_records=self.lost_records)
            for waiter in waiters:
                waiter.set_result(None)
            return

    def _is_roomy(self) -> bool:
        return self._failure is None and self._queued_bytes * 2 <= self.settings.queue_bytes

    def _take_room_waiters(self) -> list[Future[None]]:
        if not self._is_roomy():
            return []
        waiters, self._room_waiters = self._room_waiters, []
        return waiters

    def _drop_queue(self) -> list[_Pending]:
        lost = [*self._taken, *self._queue]
        self._taken = []
        self._queue.clear()
        self._queued_bytes = 0
        self._urgent = False
        return lost

    def _end(self, reason: str, error: type[JournalClosed] = JournalClosed) -> None:
        with self._change:
            self._dead = reason
            self._closed = error
            lost = self._drop_queue()
            waiters, self._room_waiters = self._room_waiters, []
        closed = error(reason)
        _refuse(lost, closed)
        for waiter in waiters:
            waiter.set_exception(closed)


def _future() -> Future[None]:
    """One that cannot be cancelled, because what is appended stays appended."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


def _refuse(lost: Sequence[_Pending], error: JournalError) -> None:
    for pending in lost:
        if pending.done is not None:
            pending.done.set_exception(error)


def _tell(recovery: Recovery) -> None:
    if recovery.cut_bytes:
        _log.warning("journal cut a torn tail", file=recovery.cut_file, bytes=recovery.cut_bytes)
    for damage in recovery.damages:
        _log.error("journal damaged", file=damage.file, position=damage.position, damage=str(damage))
    # After an orderly close there is nothing to tell.
    tell = _log.info if recovery.records_read else _log.debug
    tell("journal opened", next_sequence=recovery.next, records_read=recovery.records_read)
