"""The lake's writer: a Delta table of all journaled events that says up to which sequence it is complete.

That number decides what is written, so that nothing is written twice, whatever Spark repeats. Needs no JVM.
Not here: the files (`files`), compaction and retention (`maintenance`), reading (`penstock.history`).
"""

from __future__ import annotations

import fcntl
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from penstock import log
from penstock.history.lake_root import LakeRoot, open_file, open_table, table_options
from penstock.history.lake_url import LakeUnavailable, LakeUrl
from penstock.history.layout import BUCKET, LAKE, LOCK, RETENTION, SEQUENCE
from penstock.journal.damage import Damage
from penstock.journal.erasing import Crash
from penstock.journal.errors import Expired
from penstock.journal.record import SCHEMA as RECORD
from penstock.pipeline.errors import LakeConflict, LakeFailed, LakeGap, LakeInUse, OtherJournal
from penstock.pipeline.files import Written, sync
from penstock.pipeline.remote import JournalPlace, open_journal

_log = log.get(__name__)

_SCHEMA = Schema.from_arrow(LAKE)

_CONFIGURATION = {
    # A batch is some 32 files: opening the table reads at most this many small logs.
    "delta.checkpointInterval": "20",
    "delta.dataSkippingStatsColumns": "sequence,entity,revision,timestamp",
    # Each batch leaves a log entry; a checkpoint has what is needed of older ones. See `keep_versions`.
    "delta.logRetentionDuration": "interval 24 hours",
    "delta.enableExpiredLogCleanup": "true",
}

# Both decide which versions can be read: their entries in the log, and that a vacuum knows what is theirs.
_KEPT = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")

# How often a lock is tried while it is waited for.
_LOOK_SECONDS = 0.05

# In the metadata of a commit: what a batch could not have, because it was damaged or dropped in the journal.
MISSING = "penstock.missing"

# There as well: which commit it is, to be found again if the answer to its request was lost.
COMMIT = "penstock.commit"


def nowhere(where: str) -> None:
    """No crash."""


@dataclass(frozen=True, slots=True)
class MissingSequences:
    """Sequences that are not in the lake although a later one is, and why."""

    first: int
    last: int
    why: str

    def __str__(self) -> str:
        return f"{self.first} to {self.last}: {self.why}"


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the table, with what the log knows of it; times are microseconds since 1970."""

    path: str
    size: int
    bucket: int
    rows: int
    first: int
    last: int
    earliest: int


class Lake:
    """One per job, on the driver. Raises LakeFailed where the disk or the object store refuses."""

    def __init__(self, root: LakeRoot) -> None:
        self.root = root
        self._lock: IO[bytes] | None = None
        self._options: dict[str, str] | None = None
        self._table = self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        """Under Spark Connect a batch is handled in another process, which opens the table itself."""
        return Lake, (self.root,)

    def _open(self) -> DeltaTable:
        try:
            # Before the table is opened: what is replaced meanwhile is noticed.
            self._options = table_options(self.root)
            found = open_table(self.root)
            if found is None:
                if isinstance(self.root, Path):
                    self.root.mkdir(parents=True, exist_ok=True)
                found = DeltaTable.create(
                    str(self.root),
                    _SCHEMA,
                    mode="ignore",
                    partition_by=[BUCKET],
                    configuration=dict(_CONFIGURATION),
                    storage_options=self._options,
                )
                # Another may have been faster.
                found.update_incremental()
            return found
        except (OSError, DeltaError) as error:
            raise LakeFailed(f"the lake in {self.root} cannot be opened: {self._reason(error)}") from error

    # -- one writer -----------------------------------------------------------------------------------------------

    def lock(self, patience: float = 0.0) -> None:
        """Until `unlock`, or the end of the process however it ends; waits as many seconds. Raises LakeInUse.

        In an object store there is no such lock. There the conditional put of each commit decides: of two writers that
        began with the same version one gets a LakeConflict.
        """
        if isinstance(self.root, LakeUrl):
            return
        file = open(self.root / LOCK, "ab")  # noqa: SIM115
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < end:
                    time.sleep(_LOOK_SECONDS)
                    continue
                file.close()
                raise LakeInUse(
                    f"another job writes the lake in {self.root}; one `history` per lake is allowed"
                ) from None
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- where it stands ------------------------------------------------------------------------------------------

    def sequence(self) -> int:
        """Up to which the lake is complete; 0 at the beginning. What `Journal.retain` wants to know."""
        self._refresh()
        return self._stamp(SEQUENCE)

    def retentions(self) -> int:
        """How often old rows were dropped: a summary made before is no longer right."""
        return self._stamp(RETENTION)

    def files(self) -> list[LakeFile]:
        """Of the newest version."""
        self._refresh()
        actions = pa.table(self._table.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        columns = [
            actions.column(name)
            for name in ("path", "size_bytes", f"partition.{BUCKET}", "num_records", "min.sequence", "max.sequence")
        ]
        columns.append(actions.column("min.timestamp").cast(pa.int64()))
        return [LakeFile(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]

    def check_journal(self, journal: JournalPlace) -> None:
        """Whether the lake holds the beginning of this journal, as far as both still have it. Raises OtherJournal."""
        sequence = self.sequence()
        reader = open_journal(journal)
        latest = reader.poll()
        if sequence > latest:
            raise OtherJournal(
                f"the lake in {self.root} is complete up to sequence {sequence} but the journal in {journal} ends at "
                f"{latest}: it was replaced, or is an older copy; move the lake away to begin a new one"
            )
        mine = self._last_row(sequence)
        if mine is None or sequence < reader.earliest():
            return
        theirs = [row for batch in reader.read(sequence, sequence + 1) for row in batch.to_pylist()]
        # A journal damaged just there has nothing to compare.
        if theirs and theirs[0] != mine:
            different = next(name for name in RECORD.names if theirs[0][name] != mine[name])
            raise OtherJournal(
                f"record {sequence} has {different} {mine[different]!r} in the lake in {self.root} but "
                f"{theirs[0][different]!r} in the journal in {journal}: it was replaced; move the lake away to begin a "
                "new one"
            )

    def check_gap(self, journal: JournalPlace) -> MissingSequences | None:
        """What retention took from the journal before the lake had it: only by hand, as the server waits."""
        after = self.sequence()
        reader = open_journal(journal)
        try:
            reader.plan(after + 1, after + 2, 1)
        except Expired as error:
            return MissingSequences(after + 1, error.earliest - 1, "dropped from the journal before the lake had it")
        return None

    # -- writing --------------------------------------------------------------------------------------------------

    def adopt(
        self, journal: JournalPlace, after: int, told: Iterable[Written], crash: Crash = nowhere, *, batch: int = 0
    ) -> int:
        """Commit what the tasks of a batch told of sequences beyond `after`; returns how many events that were.

        Raises LakeConflict, LakeFailed.
        """
        told = list(told)
        files = [each for each in told if each.path]
        if not files:
            return 0
        missing = missing_between(journal, after, [(each.first, each.last) for each in told if not each.path])
        for each in missing:
            _log.error(
                "events are missing from the lake",
                lake=str(self.root),
                first=each.first,
                last=each.last,
                reason=each.why,
            )
        crash("written")
        if self._stamp(SEQUENCE) != after:
            raise LakeConflict(f"the lake in {self.root} was written by another process in the meantime")
        self.commit(files, max(each.last for each in files), missing, batch=batch)
        crash("committed")
        return sum(each.rows for each in files)

    def commit(
        self, files: Iterable[Written], sequence: int, missing: Sequence[MissingSequences] = (), batch: int = 0
    ) -> None:
        """The files become the lake's, complete up to `sequence` from then on. Raises LakeConflict, LakeFailed."""
        about = {"penstock.batch": str(batch)}
        if missing:
            about[MISSING] = json.dumps([[each.first, each.last, each.why] for each in missing])
        actions: list[AddAction | RemoveAction] = [_added(each, changes=True) for each in files]
        self._commit(actions, [Transaction(SEQUENCE, sequence)], about)

    def replace(self, old: Iterable[LakeFile], new: Iterable[Written], *, dropped: int) -> None:
        """Other files for the same rows, of which `dropped` are left out. Raises LakeConflict, LakeFailed."""
        old = list(old)
        known = set(pa.table(self._table.get_add_actions()).column("path").to_pylist())
        if not known.issuperset(each.path for each in old):
            raise LakeConflict(f"the lake in {self.root} was written by another process in the meantime")
        now = time.time_ns() // 1_000_000
        changes = dropped > 0
        actions: list[AddAction | RemoveAction] = [_added(each, changes=changes) for each in new]
        actions += [
            RemoveAction(
                each.path,
                data_change=changes,
                deletion_timestamp=now,
                size=each.size,
                partition_values={BUCKET: str(each.bucket)},
            )
            for each in old
        ]
        stamps = [Transaction(RETENTION, self.retentions() + 1)] if dropped else []
        self._commit(actions, stamps, {"penstock.dropped": str(dropped)} if dropped else {})

    def keep_versions(self, hours: int) -> None:
        """Versions of the table can be read for so long. Raises LakeFailed."""
        self._refresh()
        wanted = dict.fromkeys(_KEPT, f"interval {hours} hours")
        known = self._table.metadata().configuration
        if any(known.get(name) != value for name, value in wanted.items()):
            try:
                self._table.alter.set_table_properties(wanted)
            except (OSError, DeltaError) as error:
                raise LakeFailed(f"the lake in {self.root} cannot be written: {self._reason(error)}") from error

    def vacuum(self, hours: int) -> list[str]:
        """Remove files that no version of the last hours knows, orphans of killed tasks included."""
        self._refresh()
        try:
            # Shorter than Delta's week: a reader that needs a file gone meanwhile looks at the newest version.
            return self._table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        except (OSError, DeltaError) as error:
            raise LakeFailed(f"the lake in {self.root} cannot be cleaned up: {self._reason(error)}") from error

    def _commit(
        self, actions: list[AddAction | RemoveAction], stamps: list[Transaction], about: dict[str, str]
    ) -> None:
        name = uuid.uuid4().hex
        # No second attempt by deltalake: it would be on top of a version that nobody here has looked at.
        properties = CommitProperties(
            app_transactions=stamps, custom_metadata={**about, COMMIT: name}, max_commit_retries=0
        )
        before = self._table.version()
        try:
            self._table.create_write_transaction(
                actions, "append", _SCHEMA, partition_by=[BUCKET], commit_properties=properties
            )
        except (OSError, DeltaError) as error:
            if not self._is_committed(name, before):
                if isinstance(error, CommitFailedError):
                    raise LakeConflict(
                        f"the lake in {self.root} was written by another process in the meantime: {error}"
                    ) from error
                raise LakeFailed(
                    f"the lake in {self.root} cannot be written: {self._reason(error)}; nothing of this batch is in it"
                ) from error
        self._refresh()
        if isinstance(self.root, Path):
            # deltalake leaves it to the operating system; the journal may drop what this entry says is here.
            sync(self.root / "_delta_log" / f"{self._table.version():020}.json")

    def _is_committed(self, name: str, before: int) -> bool:
        """Whether a commit that seems to have failed is there all the same: the answer may have been lost, and its
        repetition refused because of itself. Raises LakeFailed if that cannot be found out; then it is found out by
        whoever tries next, from the sequence.
        """
        if not isinstance(self.root, LakeUrl):
            return False
        self._refresh()
        newer = self._table.version() - before
        return newer > 0 and any(entry.get(COMMIT) == name for entry in self._table.history(newer))

    def _stamp(self, name: str) -> int:
        """Of the version at hand; deltalake may have to look for it in the log."""
        try:
            return self._table.transaction_version(name) or 0
        except (OSError, DeltaError) as error:
            raise LakeFailed(f"the lake in {self.root} cannot be read: {self._reason(error)}") from error

    def _refresh(self) -> None:
        try:
            if table_options(self.root) != self._options:
                # Credentials were replaced.
                self._table = self._open()
            self._table.update_incremental()
        except (OSError, DeltaError) as error:
            raise LakeFailed(f"the lake in {self.root} cannot be read: {self._reason(error)}") from error

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, LakeUnavailable):
            text = str(error)
            return text.partition(": ")[2] if text.startswith(f"the lake in {self.root}") else text
        return self.root.reason(error) if isinstance(self.root, LakeUrl) else str(error)

    def _last_row(self, sequence: int) -> dict[str, Any] | None:
        for file in self.files():
            if file.first <= sequence <= file.last:
                table = read_file(self.root, file)
                found = table.filter(pc.equal(table.column("sequence"), sequence)).cast(RECORD).to_pylist()
                if found:
                    row: dict[str, Any] = found[0]
                    return row
        return None


def read_file(root: LakeRoot, file: LakeFile, columns: list[str] | None = None) -> Any:
    """All rows of a file. Raises LakeFailed."""
    try:
        return pq.read_table(open_file(root, file.path), columns=columns, partitioning=None)
    except OSError as error:
        reason = root.reason(error) if isinstance(root, LakeUrl) else error
        raise LakeFailed(f"the file {file.path} of the lake in {root} cannot be read: {reason}") from error


def missing_between(journal: JournalPlace, after: int, runs: Iterable[tuple[int, int]]) -> list[MissingSequences]:
    """Why sequences between `after` and the runs, or between these, are not there.

    Numbers that were given but never written are no loss: whoever published them was told.
    """
    result: list[MissingSequences] = []
    expected = after + 1
    for first, last in sorted(runs):
        if first > expected:
            result += _why(journal, expected, first - 1)
        expected = max(expected, last + 1)
    return result


def _why(journal: JournalPlace, first: int, last: int) -> list[MissingSequences]:
    found: list[Damage] = []
    reader = open_journal(journal, found.append)
    try:
        for _ in reader.read(first, last + 1):
            pass
    except Expired as error:
        lost = min(last, error.earliest - 1)
        rest = _why(journal, lost + 1, last) if lost < last else []
        return [MissingSequences(first, lost, "dropped from the journal before the lake had it"), *rest]
    return [
        MissingSequences(
            max(first, damage.first if damage.first is not None else first),
            min(last, damage.last if damage.last is not None else last),
            f"damaged: {damage}",
        )
        for damage in found
    ]


def gap_refused(missing: MissingSequences, lake: LakeRoot, journal: JournalPlace) -> LakeGap:
    """What to raise for a gap that the settings do not allow."""
    return LakeGap(
        f"the lake in {lake} ends at sequence {missing.first - 1} but the journal in {journal} begins at "
        f"{missing.last + 1}: {missing.first} to {missing.last} are lost; to go on without them, set "
        'on_gap = "go on" for the job history'
    )


def _added(file: Written, *, changes: bool) -> AddAction:
    return AddAction(file.path, file.size, {BUCKET: str(file.bucket)}, time.time_ns() // 1_000_000, changes, file.stats)
