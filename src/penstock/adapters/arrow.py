"""Rows of Arrow tables as events. Apart from `publisher`, so that pyarrow is loaded by those only who use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow

from penstock.kernel.ports import Value


def rows(table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Each row as the item it is of and the values of its other columns; column by column, which is far cheaper."""
    names = table.schema.names
    if item not in names:
        raise ValueError(f"no column {item}; the table has {', '.join(names)}")
    fields = [name for name in names if name != item]
    columns = [_texts(table.column(name)) for name in fields]
    for name, *values in zip(_texts(table.column(item)), *columns, strict=True):
        if name is None:
            raise ValueError(f"column {item} has a row without a value")
        yield name, dict(zip(fields, values, strict=True))


def _texts(column: pyarrow.ChunkedArray | pyarrow.Array) -> list[str | None]:
    """The values written out; what Arrow cannot cast to text by itself goes through Python."""
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        found: list[str | None] = column.to_pylist()
        return found
    if pyarrow.types.is_boolean(column.type) or pyarrow.types.is_integer(column.type):
        return _texts(column.cast(pyarrow.string()))
    return [None if value is None else str(value) for value in column.to_pylist()]
