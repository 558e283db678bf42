"""A row for each entity: first and last revision, earliest and latest time, how many events.

Facts of some events, and how facts are joined; used to write the lake's summary and to bring it up to date in memory.
Not here: the summary's table (`penstock.pipeline.maintenance`), who asks for it (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.lake_root import LakeRoot, open_file
from penstock.history.layout import SUMMARY

# What facts are made of.
COLUMNS = ["sequence", "entity", "revision", "timestamp"]

# Entities come again in each part: joined when there are this many, so that memory holds each only a few times.
_PARTS = 64

_BATCH_ROWS = 256 * 1024


def facts(events: Any, after: int = 0) -> Any:
    """Of events beyond a sequence."""
    if after:
        events = events.filter(pc.greater(events.column("sequence"), after))
    grouped = events.group_by("entity").aggregate(
        [("revision", "min"), ("revision", "max"), ("timestamp", "min"), ("timestamp", "max"), ("revision", "count")]
    )
    return grouped.rename_columns(SUMMARY.names).cast(SUMMARY)


def file_facts(root: LakeRoot, name: str, after: int = 0) -> Iterator[Any]:
    """Of a file of the lake, part by part. Raises FileNotFoundError."""
    with pq.ParquetFile(open_file(root, name), pre_buffer=True) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=COLUMNS):
            yield facts(pa.Table.from_batches([batch]), after)


def joined(parts: Iterable[Any]) -> Any:
    """One row for each entity, by name."""
    waiting = [SUMMARY.empty_table()]
    for part in parts:
        waiting.append(part)
        if len(waiting) > _PARTS:
            waiting = [_join(waiting)]
    return _join(waiting).sort_by("entity")


def _join(parts: list[Any]) -> Any:
    grouped = pa.concat_tables(parts).group_by("entity")
    table = grouped.aggregate(
        [("first_revision", "min"), ("last_revision", "max"), ("earliest", "min"), ("latest", "max"), ("events", "sum")]
    )
    return table.rename_columns(SUMMARY.names).cast(SUMMARY)
