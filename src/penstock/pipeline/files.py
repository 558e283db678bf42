"""The lake's Parquet files, as tasks write them: one bucket each, sorted by entity and revision, on the disk
or in the object store.

A file belongs to no table until `lake` adopts it; names are never used again, so a repeated task leaves an orphan.
Imports no deltalake, unless the lake is at a URL: every Python worker would pay for it.
Read next: `penstock.history.layout`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.durable import sync_directory, sync_file
from penstock.history.lake_root import LakeRoot, open_file, unavailable
from penstock.history.lake_url import LakeUrl
from penstock.history.layout import BUCKET, BUCKETS, bucket_of
from penstock.journal.record import SCHEMA as RECORD
from penstock.pipeline.errors import LakeFailed

# Rows that are decoded together when one entity is read: few, but not fewer, because the footer grows with each group
# and is read whole.
GROUP_ROWS = 8_192
# The same for events with large values: a reader holds a group of each file in memory.
GROUP_BYTES = 4 * 1024 * 1024
# A task that has received this much writes it before it goes on: bounds its memory whatever the events' size.
TASK_BYTES = 256 * 1024 * 1024

# Numbers that mostly rise by one are almost nothing this way, and decode faster than from a dictionary.
_RISING = dict.fromkeys(("sequence", "revision", "timestamp"), "DELTA_BINARY_PACKED")


@dataclass(frozen=True, slots=True)
class Written:
    """A file that exists but belongs to no table yet. `first` and `last` are sequences."""

    path: str
    size: int
    bucket: int
    rows: int
    first: int
    last: int
    stats: str


def write_buckets(root: LakeRoot, table: Any) -> Iterator[Written]:
    """One file for each bucket with something in it. Raises LakeFailed."""
    if not table.num_rows:
        return
    table = table.combine_chunks()
    buckets, order = _order(table)
    table = table.take(pa.array(order))
    ends = np.searchsorted(buckets[order], np.arange(BUCKETS), side="right")
    start = 0
    for bucket, end in enumerate(ends.tolist()):
        if end > start:
            yield write_file(root, bucket, table.slice(start, end - start))
        start = end


def sort_rows(table: Any) -> Any:
    """By entity and revision, for rows of one bucket."""
    table = table.combine_chunks()
    return table.take(pa.array(_order(table)[1]))


def _order(table: Any) -> tuple[Any, Any]:
    """The bucket of each row, and the rows' order. Numbers are sorted instead of names, because that is faster."""
    encoded = pc.dictionary_encode(table.column("entity")).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    names = encoded.dictionary.to_pylist()
    bucket_of_name = np.fromiter((bucket_of(name) for name in names), np.int32, len(names))
    # By code point, which is the order of the UTF-8 bytes that Parquet's statistics have as well.
    by_name = sorted(range(len(names)), key=names.__getitem__)
    by_bucket = np.array(by_name, np.int64)[np.argsort(bucket_of_name[by_name], kind="stable")]
    rank = np.empty(len(names), np.int64)
    rank[by_bucket] = np.arange(len(names))
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    revisions = table.column("revision").to_numpy()
    # Sequences and revisions of an entity rise together, so rows mostly are in order of revision already.
    order = np.lexsort((revisions, rank[codes]))
    return bucket_of_name[codes], order


def write_file(root: LakeRoot, bucket: int, part: Any) -> Written:
    """Sorted rows of one bucket, stored when this returns. Raises LakeFailed."""
    name = f"{BUCKET}={bucket}/{uuid.uuid4().hex}.parquet"
    size = _upload(root, name, part) if isinstance(root, LakeUrl) else _store(root, name, part)
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    for column in ("sequence", "revision", "timestamp"):
        bounds = pc.min_max(part.column(column))
        lows[column], highs[column] = (_json(bounds[side].as_py()) for side in ("min", "max"))
    names = part.column("entity")
    lows["entity"], highs["entity"] = names[0].as_py(), names[-1].as_py()
    stats = {"numRecords": part.num_rows, "minValues": lows, "maxValues": highs, "nullCount": {}}
    return Written(name, size, bucket, part.num_rows, lows["sequence"], highs["sequence"], json.dumps(stats))


def _store(root: Path, name: str, part: Any) -> int:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_table(part, path)
        sync(path)
        return path.stat().st_size
    except OSError as error:
        path.unlink(missing_ok=True)
        reason = os.strerror(error.errno) if error.errno else error
        raise LakeFailed(f"the lake in {root} cannot be written: {reason}; nothing of this batch is in it") from error


def _upload(root: LakeUrl, name: str, part: Any) -> int:
    try:
        with root.write(name) as stream:
            _write_table(part, stream)
            size: int = stream.tell()
        return size
    except OSError as error:
        raise LakeFailed(f"{root.unavailable('written', error)}; nothing of this batch is in it") from None


def _write_table(part: Any, where: Any) -> None:
    rows = max(1, min(GROUP_ROWS, part.num_rows * GROUP_BYTES // max(part.nbytes, 1)))
    pq.write_table(
        part,
        where,
        row_group_size=rows,
        compression="zstd",
        compression_level=3,
        use_dictionary=["entity", "kind", "path"],
        column_encoding=_RISING,
        sorting_columns=[pq.SortingColumn(1), pq.SortingColumn(2)],
    )


def sync(path: Path) -> None:
    """Before a commit, or a power cut leaves a table that names empty files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


# -- inside a task ------------------------------------------------------------------------------------------------

# What a task tells the driver: its files, and, in rows without a path, runs of sequences it has seen.
WRITTEN = pa.schema(
    [
        ("path", pa.utf8()),
        ("size", pa.int64()),
        ("bucket", pa.int32()),
        ("rows", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("stats", pa.utf8()),
    ]
)


def write_task(root: str | LakeRoot, after: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`: rows beyond sequence `after` become files, and rows that name them."""

    where = Path(root) if isinstance(root, str) else root

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        waiting: list[Any] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= TASK_BYTES:
                yield from _write(where, waiting, after)
                waiting, size = [], 0
        yield from _write(where, waiting, after)

    return write


def _write(root: LakeRoot, received: list[Any], after: int) -> Iterator[Any]:
    if not received:
        return
    # Whether a column may be null depends on what a query did with it; in the journal it never is.
    table = pa.Table.from_batches(received).cast(RECORD)
    sequences = table.column("sequence")
    if pc.min(sequences).as_py() <= after:
        table = table.filter(pc.greater(sequences, after))
    if not table.num_rows:
        return
    rows = [asdict(each) for each in write_buckets(root, table)]
    rows += [asdict(Written("", 0, -1, 0, first, last, "")) for first, last in runs(table.column("sequence"))]
    yield pa.RecordBatch.from_pylist(rows, WRITTEN)


def read_task(root: LakeRoot) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`: names of files, in a column `path`, become their rows."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for name in batch.column("path").to_pylist():
                try:
                    with pq.ParquetFile(open_file(root, name), pre_buffer=True) as file:
                        for part in file.iter_batches(columns=RECORD.names):
                            yield from pa.Table.from_batches([part]).cast(RECORD).to_batches()
                except OSError as error:
                    raise LakeFailed(str(unavailable(root, "read", error))) from None

    return read


def runs(sequences: Any) -> list[tuple[int, int]]:
    """Sequences without a hole, as first and last of each run: what is between two runs is missing."""
    numbers = np.sort(sequences.to_numpy())
    cuts = np.flatnonzero(np.diff(numbers) > 1)
    firsts = numbers[np.concatenate(([0], cuts + 1))]
    lasts = numbers[np.concatenate((cuts, [len(numbers) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _json(value: Any) -> Any:
    return value if isinstance(value, int | str) else value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
