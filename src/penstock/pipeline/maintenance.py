"""Upkeep of the lake between batches, on the driver, or alone, without Spark: compaction, retention, summary, clean-up.

Readers go on meanwhile: replaced files stay as long as older versions of the table may be read, and a summary is
replaced whole. A kill at any point leaves the lake as it was before or after a step. Not here: when it is done
(`jobs/history`, `maintain_command`), taking an entity out (`forgetting`). Read next: `lake`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import CommitProperties, Transaction

from penstock import log
from penstock.history.lake_root import LakeRoot, open_table, table_options
from penstock.history.lake_url import LakeUnavailable, LakeUrl
from penstock.history.layout import RETENTION, SEQUENCE, SUMMARY, SUMMARY_FOLDER
from penstock.history.summary import file_facts, joined
from penstock.journal.erasing import Crash
from penstock.journal.record import SCHEMA as RECORD
from penstock.pipeline.errors import BadOption, LakeConflict, LakeFailed, LakeInUse
from penstock.pipeline.files import sort_rows, write_file
from penstock.pipeline.lake import Lake, LakeFile, nowhere, read_file

_log = log.get(__name__)

# A file with this many rows, or bytes, is left alone: what is merged at once must fit into memory several times.
LARGE_ROWS = 1_000_000
LARGE_BYTES = 64 * 1024 * 1024

# Replaced files and orphans stay at least so long: a batch may be about to commit them, a reader may have them open.
VACUUM_HOURS = 1

# Retention rewrites a bucket when it could drop more than this part of the allowed age, not for each row.
SLACK = 0.1

DAY = 86_400 * 1_000_000


@dataclass(frozen=True)
class Maintained:
    """How many rows were dropped, files merged into others, and files removed because no version needs them."""

    dropped: int
    merged: int
    removed: int


def maintain(
    lake: Lake,
    max_small_files: int,
    max_age_days: float,
    *,
    time_travel_hours: int = VACUUM_HOURS,
    upkeep: bool = True,
    slack: float = SLACK,
    crash: Crash = nowhere,
) -> Maintained:
    """Between two batches: merge files where there are too many; with `upkeep`, also drop what is too old."""
    if upkeep:
        lake.keep_versions(time_travel_hours)
    dropped = retain(lake, max_age_days, time.time_ns() // 1_000, crash, slack=slack) if upkeep else 0
    merged = compact(lake, max_small_files, crash)
    # Also for one who died before: names and times of dropped rows do not stay in the summary.
    if dropped or merged or upkeep:
        summarize(lake)
        crash("summarized")
    removed = clean_up(lake, time_travel_hours) if upkeep else 0
    if dropped or merged or removed:
        _log.info("lake maintained", lake=str(lake.root), merged=merged, dropped=dropped, removed=removed)
    return Maintained(dropped, merged, removed)


def maintain_alone(
    root: LakeRoot, max_small_files: int, max_age_days: float, time_travel_hours: int, crash: Crash = nowhere
) -> Maintained:
    """The same without the job, to which it leaves a lake that it writes. Raises a PipelineError.

    All that is too old is dropped: who asks for it wants to be sure of it, and asks seldom.
    """
    try:
        if open_table(root) is None:
            raise BadOption(f"there is no lake in {root}; the job history makes one")
        lake = Lake(root)
        lake.lock()
    except LakeUnavailable as error:
        raise LakeFailed(str(error)) from None
    except LakeInUse:
        raise LakeInUse(
            f"another process writes the lake in {root}; if it is the job history, that does all of this itself, "
            "otherwise try again later"
        ) from None
    try:
        return maintain(
            lake, max_small_files, max_age_days, time_travel_hours=time_travel_hours, slack=0.0, crash=crash
        )
    except LakeConflict:
        raise LakeConflict(
            f"another process, such as the job history, wrote the lake in {root} at the same time; try again: what was "
            "done until then stays done"
        ) from None
    finally:
        lake.unlock()


def compact(lake: Lake, most: int, crash: Crash = nowhere) -> int:
    """Merge small files of each bucket that has more than `most` of them; returns how many files were replaced."""
    replaced = 0
    for _, files in _buckets(lake.files()):
        small = [file for file in files if file.rows < LARGE_ROWS and file.size < LARGE_BYTES]
        for chosen in _groups(_newest(small, most)):
            table = sort_rows(pa.concat_tables(_read(lake, file) for file in chosen))
            written = write_file(lake.root, chosen[0].bucket, table)
            crash("merged")
            lake.replace(chosen, [written], dropped=0)
            crash("replaced")
            replaced += len(chosen)
    return replaced


def _newest(small: list[LakeFile], most: int) -> list[LakeFile]:
    """Those to be merged so that at most `most` are left: the newest, and older ones that are not larger than these
    together. So a row is in a file twice as large each time it is written again, and what time travel keeps of replaced
    files stays in proportion to what was added.
    """
    ordered = sorted(small, key=lambda file: file.first)
    if len(ordered) <= most:
        return []
    taken = rows = 0
    for file in reversed(ordered):
        if taken > len(ordered) - most and file.rows > rows:
            break
        taken += 1
        rows += file.rows
    return ordered[-taken:]


def _groups(small: list[LakeFile]) -> Iterator[list[LakeFile]]:
    """Neighbours in time, so that a file's sequences stay a narrow range; each group makes a file that is large."""
    group: list[LakeFile] = []
    rows = size = 0
    for file in small:
        if group and (rows + file.rows > LARGE_ROWS or size + file.size > LARGE_BYTES):
            if len(group) > 1:
                yield group
            group, rows, size = [], 0, 0
        group.append(file)
        rows += file.rows
        size += file.size
    if len(group) > 1:
        yield group


def retain(lake: Lake, max_age_days: float, now: int, crash: Crash = nowhere, *, slack: float = SLACK) -> int:
    """Drop rows older than that (0: none), some time after they may go; returns how many. `now` in microseconds."""
    if not max_age_days:
        return 0
    oldest = now - int(max_age_days * DAY)
    due = now - int(max_age_days * (1 + slack) * DAY)
    limit = pa.scalar(oldest, pa.timestamp("us", tz="UTC"))
    dropped = 0
    for file in lake.files():
        if file.earliest >= due:
            continue
        table = _read(lake, file)
        kept = table.filter(pc.greater_equal(table.column("timestamp"), limit))
        written = [write_file(lake.root, file.bucket, kept)] if kept.num_rows else []
        crash("merged")
        lake.replace([file], written, dropped=table.num_rows - kept.num_rows)
        crash("dropped")
        dropped += table.num_rows - kept.num_rows
    return dropped


def summarize(lake: Lake) -> int:
    """Bring the summary up to the lake's sequence, which is returned.

    Only rows that came since are read, unless retention has dropped some: then all are.
    """
    root = lake.root / SUMMARY_FOLDER
    sequence, retentions = lake.sequence(), lake.retentions()
    known, before = 0, None
    try:
        table = open_table(root)
        if table is not None and (table.transaction_version(RETENTION) or 0) == retentions:
            known = table.transaction_version(SEQUENCE) or 0
            if known == sequence:
                return sequence
            before = table.to_pyarrow_table().cast(SUMMARY)
        parts = chain([] if before is None else [before], _new_facts(lake, known))
        rows = joined(parts)
        write_deltalake(
            str(root),
            rows,
            mode="overwrite",
            commit_properties=CommitProperties(
                app_transactions=[Transaction(SEQUENCE, sequence), Transaction(RETENTION, retentions)]
            ),
            configuration={"delta.logRetentionDuration": "interval 1 days", "delta.checkpointInterval": "20"},
            storage_options=table_options(root),
        )
    except (OSError, DeltaError) as error:
        raise LakeFailed(f"the lake's summary in {root} cannot be written: {_reason(root, error)}") from error
    return sequence


def clean_up(lake: Lake, hours: int = VACUUM_HOURS) -> int:
    """Remove what was replaced, and orphans, so many hours ago or more; returns how many files."""
    if hours < VACUUM_HOURS:
        raise ValueError(f"hours is {hours}; at least {VACUUM_HOURS}: a running batch would lose its files")
    removed = len(lake.vacuum(hours))
    root = lake.root / SUMMARY_FOLDER
    try:
        summary = open_table(root)
        if summary is not None:
            # Its older versions are of no use to anybody.
            removed += len(summary.vacuum(VACUUM_HOURS, dry_run=False, enforce_retention_duration=False, full=True))
    except (OSError, DeltaError) as error:
        raise LakeFailed(f"the lake's summary in {root} cannot be cleaned up: {_reason(root, error)}") from error
    return removed


def _reason(root: LakeRoot, error: BaseException) -> str:
    return root.reason(error) if isinstance(root, LakeUrl) else str(error)


def _new_facts(lake: Lake, after: int) -> Iterator[Any]:
    for file in lake.files():
        if file.last > after:
            yield from file_facts(lake.root, file.path, after)


def _read(lake: Lake, file: LakeFile) -> Any:
    return read_file(lake.root, file).cast(RECORD)


def _buckets(files: Iterable[LakeFile]) -> Iterator[tuple[int, list[LakeFile]]]:
    ordered = sorted(files, key=lambda file: file.bucket)
    for bucket, members in groupby(ordered, key=lambda file: file.bucket):
        yield bucket, list(members)
