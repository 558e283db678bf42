"""A record of the journal as an object, for those who fold histories; writing records is for `registry`.

Columns and their meaning: docs/journal.md, "A record".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# In the order of the attributes below.
_COLUMNS = ("sequence", "entity", "revision", "timestamp", "kind", "path", "value", "headers")
_TIMESTAMP = _COLUMNS.index("timestamp")


@dataclass(frozen=True, slots=True)
class Record:
    """`timestamp` is in microseconds since 1970; `value` and `headers` are JSON texts, or None."""

    sequence: int
    entity: str
    revision: int
    timestamp: int
    kind: str
    path: str
    value: str | None
    headers: str | None = None


def records_of(batches: Iterable[Any]) -> Iterator[Record]:
    """The records of Arrow batches with the journal's columns, one batch in memory at a time."""
    for batch in batches:
        columns = [batch.column(name) for name in _COLUMNS]
        columns[_TIMESTAMP] = columns[_TIMESTAMP].cast(pa.int64())
        yield from map(Record, *(column.to_pylist() for column in columns))
