"""What is journaled: the columns of a record, and how lists of Python values become them.

Not here: how records are laid out in a file (`segment`), who counts sequences and revisions (`journal`).
Read next: docs/journal.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.journal.arrays import numbers, text
from penstock.journal.errors import BadRecord

# Text everywhere: a value is what a client would be sent, JSON where it has structure, null where it was deleted.
SCHEMA = pa.schema(
    [
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("entity", pa.utf8(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("kind", pa.utf8(), nullable=False),
        pa.field("path", pa.utf8(), nullable=False),
        pa.field("value", pa.utf8(), nullable=True),
        pa.field("headers", pa.utf8(), nullable=True),
    ]
)

# Columns without dictionaries, so that each batch is one message and can be read alone.
_GIVEN = ("entity", "timestamp", "kind", "path", "value", "headers")
# Looked up once: asking a schema makes a new object each time.
_EXPECTED = tuple((name, SCHEMA.field(name).type, SCHEMA.field(name).nullable) for name in _GIVEN)

# How many characters of a wrong value an error quotes.
MAX_ECHO = 60


@dataclass(slots=True)
class Columns:
    """Records to append, a list for each column; all lists are equally long.

    `timestamps` are microseconds since 1970, `headers` are JSON objects as text or None.
    """

    entities: list[str] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entities)

    def add(
        self, entity: str, timestamp: int, kind: str, path: str, value: str | None, headers: str | None = None
    ) -> None:
        """One record more."""
        self.entities.append(entity)
        self.timestamps.append(timestamp)
        self.kinds.append(kind)
        self.paths.append(path)
        self.values.append(value)
        self.headers.append(headers)


def arrays(columns: Columns) -> list[Any]:
    """The given columns as Arrow arrays, checked; raises BadRecord."""
    lists: tuple[list[Any], ...] = (
        columns.entities,
        columns.timestamps,
        columns.kinds,
        columns.paths,
        columns.values,
        columns.headers,
    )
    result = []
    count = len(columns.entities)
    for (name, expected, nullable), values in zip(_EXPECTED, lists, strict=True):
        if len(values) != count:
            raise BadRecord(f"column {name} has {len(values)} values; entity has {count}: they must be equally long")
        try:
            array = _array(values, expected)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise BadRecord(_complaint(name, expected, values, error)) from error
        if not nullable and array.null_count:
            raise BadRecord(f"column {name} holds None at {values.index(None)}; a value is needed")
        result.append(array)
    if "" in columns.entities:
        raise BadRecord(f"column entity holds an empty name at {columns.entities.index('')}")
    return result


def numbered(given: list[Any], first: int, revisions: list[int]) -> Any:
    """A record batch of what `arrays` made, with its sequences and revisions."""
    entity, timestamp, kind, path, value, headers = given
    sequence = pa.arange(first, first + len(revisions))
    revision = numbers(revisions, pa.int64())
    return pa.RecordBatch.from_arrays(
        [sequence, entity, revision, timestamp, kind, path, value, headers], schema=SCHEMA
    )


def _array(values: list[Any], expected: Any) -> Any:
    return text(values) if expected == pa.utf8() else numbers(values, expected)


def _complaint(name: str, expected: object, values: list[Any], error: Exception) -> str:
    """Which value it was; found by trying each, which only a refused batch costs."""
    for index, value in enumerate(values):
        try:
            _array([value], expected)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return f"column {name} holds {repr(value)[:MAX_ECHO]} at {index}; it must be {expected}"
    return f"column {name} cannot be {expected}: {error}"
