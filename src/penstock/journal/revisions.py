"""The last revision of every entity, saved whenever a segment is sealed, so that a start need not read them all.

`NUMBER.revisions` holds the state after segment NUMBER. The newest two are kept, whatever retention drops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.journal.arrays import numbers, text
from penstock.journal.disk import Disk
from penstock.journal.segment import base_of
from penstock.journal.sidecar import SidecarDamaged, read_sidecar, write_sidecar

SUFFIX = ".revisions"

# The newest, and one to fall back to should it be damaged.
KEPT = 2

# Up to so many records, as a group commit mostly has, are counted one by one: to group them would take longer.
FEW_ROWS = 512


def revisions_name(base: int) -> str:
    return f"{base:020d}{SUFFIX}"


def save_revisions(disk: Disk, base: int, revisions: Mapping[str, int]) -> None:
    """The caller syncs the directory, then calls `drop_old_revisions`. Raises OSError."""
    # A copy first: the loop counts on while the table is made.
    copy = dict(revisions)
    table = pa.table({"entity": text(list(copy)), "revision": numbers(copy.values(), pa.int64())})
    write_sidecar(disk, revisions_name(base), [table])


def drop_old_revisions(disk: Disk) -> None:
    bases = saved(disk)
    for base in bases[:-KEPT]:
        disk.remove(revisions_name(base))


def saved(disk: Disk) -> list[int]:
    """The segments after which revisions were saved, in order."""
    found = (base_of(name, SUFFIX) for name in disk.names())
    return sorted(base for base in found if base is not None)


def load_revisions(disk: Disk) -> tuple[int | None, dict[str, int], list[str]]:
    """The newest that can be read, the segment it stands after, and the names of damaged ones."""
    damaged: list[str] = []
    for base in reversed(saved(disk)):
        try:
            tables = read_sidecar(disk, revisions_name(base))
        except SidecarDamaged:
            damaged.append(revisions_name(base))
            continue
        if tables is not None:
            (table,) = tables
            return base, dict(zip(table["entity"].to_pylist(), table["revision"].to_pylist(), strict=True)), damaged
    return None, {}, damaged


def count_batch(revisions: dict[str, int], batch: Any) -> None:
    """Take a batch read from a segment into account."""
    if batch.num_rows > FEW_ROWS:
        table = pa.Table.from_batches([batch]).group_by("entity").aggregate([("revision", "max")])
        names, highest = table["entity"], table["revision_max"]
    else:
        names, highest = batch.column("entity"), batch.column("revision")
    for entity, revision in zip(names.to_pylist(), highest.to_pylist(), strict=True):
        if revision > revisions.get(entity, 0):
            revisions[entity] = revision
