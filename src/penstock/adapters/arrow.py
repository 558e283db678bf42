"""Rows of Arrow tables as events. Separate from `publisher`, so that pyarrow is loaded only when it is used.

How values are written out is part of the interface: docs/adapters.md, "Reference: ingest".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import cast

import pyarrow
import pyarrow.compute

from penstock.kernel.ports import CheckedEvent, Value


def rows(table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> tuple[list[str], Iterator[tuple[Value, ...]]]:
    """The other columns' names, and each row: its item, then the values of these columns. Raises ValueError."""
    fields, items, columns = _columns(table, item)
    if None in items:
        raise ValueError(f"column {item} has a row without a value: row {items.index(None) + 1}")
    return fields, zip(items, *columns, strict=True)


def split(table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> tuple[list[str | None], Iterator[CheckedEvent]]:
    """The item that each row is of, and the rows themselves; column by column, which is far cheaper.

    Text in Arrow is UTF-8, so there is nothing to check later.
    Raises ValueError for a table whose rows cannot be events.
    """
    fields, items, columns = _columns(table, item)
    events = map(dict, map(zip, repeat(fields, len(items)), zip(*columns, strict=True))) if fields else _nothing(items)
    return items, cast(Iterator[CheckedEvent], events)


def _columns(
    table: pyarrow.Table | pyarrow.RecordBatch, item: str
) -> tuple[list[str], list[str | None], list[list[str | None]]]:
    """The names of the fields, the items, and the values of each field, written out."""
    check(table.schema, item)
    fields = [name for name in table.schema.names if name != item]
    try:
        columns = [_texts(table.column(name)) for name in fields]
        items = _texts(table.column(item))
    except pyarrow.ArrowException as error:
        # Not all of its errors are a ValueError: some types it cannot cast.
        raise ValueError(str(error)) from error
    return fields, items, columns


def check(schema: pyarrow.Schema, item: str) -> None:
    """Raises ValueError if rows of this schema cannot be events."""
    names = schema.names
    if item not in names:
        raise ValueError(f"no column {item}; the table has {', '.join(names) or 'none'}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"column {twice} appears twice")
    for name, kind in zip(names, schema.types, strict=True):
        if not _has_text(kind):
            raise ValueError(f"column {name} is of type {kind}, which is not text, a number or a time")


def text_bytes(batch: pyarrow.RecordBatch) -> int:
    """About how large the batch's values are, each counted where it stands: a dictionary may repeat a large one."""
    return sum(_column_bytes(column) for column in batch.columns)


def _column_bytes(column: pyarrow.Array) -> int:
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return len(column) * 16
        lengths = pyarrow.compute.binary_length(column.dictionary.cast(pyarrow.large_string()))
        total = pyarrow.compute.sum(lengths.cast(pyarrow.int64()).take(column.indices)).as_py()
        return int(total or 0) + len(column)
    if types.is_string_view(kind):
        # A view begins with its length, in 4 of its 16 bytes; several may show the same text.
        views = memoryview(column.buffers()[1]).cast("i")[column.offset * 4 : (column.offset + len(column)) * 4]
        return sum(views.tolist()[::4]) + len(column)
    return max(int(column.nbytes), len(column))


def _is_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _has_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _has_text(kind.value_type)
    return not (
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _nothing(items: list[str | None]) -> Iterator[dict[str, Value]]:
    return ({} for _ in items)


def _texts(column: pyarrow.ChunkedArray | pyarrow.Array) -> list[str | None]:
    """The values written out; what Arrow cannot cast to text as we want it goes through Python."""
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        return _texts(column.cast(kind.value_type))
    if _is_text(kind):
        found: list[str | None] = column.to_pylist()
        return found
    if types.is_boolean(kind) or types.is_integer(kind):
        return _texts(column.cast(pyarrow.string()))
    if types.is_timestamp(kind):
        return _times(column)
    if types.is_float16(kind) or types.is_float32(kind):
        # As a double it would show digits that it does not have: 0.1 would be 0.10000000149011612.
        return [None if text is None else str(float(text)) for text in column.cast(pyarrow.string()).to_pylist()]
    values = column.to_pylist()
    if types.is_decimal(kind):
        # Never with an exponent: 0E-10 is how Python writes a zero with ten digits.
        return [None if value is None else format(value, "f") for value in values]
    return [None if value is None else str(value) for value in values] if column.null_count else list(map(str, values))


def _times(column: pyarrow.ChunkedArray | pyarrow.Array) -> list[str | None]:
    """ISO 8601 in UTC, as which times without a zone are taken; milliseconds, and more digits where there are any."""
    unit = "ms" if column.type.unit == "s" else column.type.unit
    # A time with a zone is stored in UTC: without the zone Arrow writes it as that, and much faster.
    universal = column.cast(pyarrow.timestamp(column.type.unit)).cast(pyarrow.timestamp(unit))
    texts: list[str | None] = universal.cast(pyarrow.string()).to_pylist()
    for _ in range({"ms": 0, "us": 1, "ns": 2}[unit]):
        texts = [text[:-3] if text is not None and text.endswith("000") else text for text in texts]
    if any(text is not None and text.startswith("<") for text in texts):
        raise ValueError("a time is outside of the years that can be written")
    return [None if text is None else text.replace(" ", "T") + "Z" for text in texts]
