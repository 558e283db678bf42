"""Taking all rows of some entities out of the lake, so that no file has them any more: neither data, log nor summary.

Older versions of the table had the rows too, and their log entries name entities as bounds of files. So the lake begins
anew with the version that is without them: there is no time travel to before. A kill at any point leaves the lake
readable, and doing it again finishes. Whoever calls has the lake's lock. Needs no JVM. Read next: `lake`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from penstock.durable import sync_directory
from penstock.history.lake_root import LakeRoot, open_table
from penstock.history.lake_url import LakeUrl
from penstock.history.layout import SUMMARY_FOLDER, bucket_of
from penstock.journal.arrays import text
from penstock.journal.erasing import Crash
from penstock.journal.record import SCHEMA as RECORD
from penstock.pipeline.errors import LakeFailed
from penstock.pipeline.files import Written, sync, write_file
from penstock.pipeline.lake import Lake, LakeFile, read_file
from penstock.pipeline.maintenance import summarize

LOG = "_delta_log"


def sequences_of(lake: Lake, entities: Collection[str]) -> Iterator[Any]:
    """The sequences of all rows that would go, as Arrow arrays: how many events they are."""
    unwanted = text(list(entities))
    for file in _candidates(lake, entities):
        table = read_file(lake.root, file, ["sequence", "entity"])
        yield table.filter(pc.is_in(table.column("entity"), value_set=unwanted)).column("sequence").combine_chunks()


def erase(lake: Lake, entities: Collection[str], crash: Crash) -> int:
    """Returns how many rows went. Raises LakeConflict, LakeFailed."""
    unwanted = text(list(entities))
    old: list[LakeFile] = []
    new: list[Written] = []
    dropped = 0
    for file in _candidates(lake, entities):
        table = read_file(lake.root, file).cast(RECORD)
        kept = table.filter(pc.invert(pc.is_in(table.column("entity"), value_set=unwanted)))
        if kept.num_rows == table.num_rows:
            continue
        old.append(file)
        dropped += table.num_rows - kept.num_rows
        if kept.num_rows:
            new.append(write_file(lake.root, file.bucket, kept))
            crash("rewritten")
    if old:
        lake.replace(old, new, dropped=dropped)
        crash("replaced")
    summary = lake.root / SUMMARY_FOLDER
    if open_table(summary) is not None:
        summarize(lake)
        crash("summarized")
        begin_anew(summary, crash)
    begin_anew(lake.root, crash)
    return dropped


def begin_anew(root: LakeRoot, crash: Crash) -> None:
    """Leave nothing of a table but its newest version. Raises LakeFailed."""
    try:
        table = open_table(root)
        if table is None:
            return
        table.create_checkpoint()
        version = table.version()
        _settle(root, f"{version:020}.checkpoint.parquet", "_last_checkpoint")
        crash("checkpointed")
        # From the oldest on: what is left at any point can still be read from the checkpoint.
        for name in sorted(_names(root, LOG)):
            number = name.rpartition("/")[2].partition(".")[0]
            if number.isdecimal() and int(number) < version:
                _remove(root, name)
                crash("log")
        _settle(root)
        # Not a vacuum, because that trusts the log as to what may go, and leaves files that are young.
        known = set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())
        for name in _names(root):
            if name.endswith(".parquet") and name not in known and not name.startswith("_"):
                _remove(root, name)
                crash("file")
    except (OSError, DeltaError) as error:
        reason = root.reason(error) if isinstance(root, LakeUrl) else error
        raise LakeFailed(f"older versions of {root} cannot be removed: {reason}") from error


def _settle(root: LakeRoot, *names: str) -> None:
    """What was done to the log is done for ever: an object store says nothing before that."""
    if isinstance(root, Path):
        for name in names:
            sync(root / LOG / name)
        sync_directory(root / LOG)


def _names(root: LakeRoot, folder: str = "") -> list[str]:
    if isinstance(root, LakeUrl):
        return root.names(folder)
    return [path.relative_to(root).as_posix() for path in (root / folder).rglob("*") if path.is_file()]


def _remove(root: LakeRoot, name: str) -> None:
    if isinstance(root, LakeUrl):
        root.remove(name)
    else:
        (root / name).unlink()


def _candidates(lake: Lake, entities: Collection[str]) -> list[LakeFile]:
    """Files in which an entity may be; the log's bounds of names are not used, because other tools may shorten them."""
    buckets = {bucket_of(entity) for entity in entities}
    return [file for file in lake.files() if file.bucket in buckets]
