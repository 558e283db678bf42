"""A record of the journal as an object, for those who fold histories; writing records is for `registry`.

Columns and their meaning: docs/journal.md, "A record".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa


class Record(NamedTuple):
    """`timestamp` is in microseconds since 1970; `value` and `headers` are JSON texts, or None."""

    sequence: int
    entity: str
    revision: int
    timestamp: int
    kind: str
    path: str
    value: str | None
    headers: str | None = None


_TIMESTAMP = Record._fields.index("timestamp")


def records_of(batches: Iterable[Any]) -> Iterator[Record]:
    """The records of Arrow batches with the journal's columns, one batch in memory at a time."""
    for batch in batches:
        columns = [batch.column(name) for name in Record._fields]
        columns[_TIMESTAMP] = columns[_TIMESTAMP].cast(pa.int64())
        yield from map(Record._make, zip(*(column.to_pylist() for column in columns), strict=True))
