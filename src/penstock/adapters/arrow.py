"""Rows of Arrow tables as events. Apart from `publisher`, so that pyarrow is loaded by those only who use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat

import pyarrow

from penstock.kernel.ports import Value


def rows(table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Each row as the item it is of and the values of its other columns. Raises ValueError before the first one."""
    names, events = split(table, item)
    if None in names:
        raise ValueError(f"column {item} has a row without a value: row {names.index(None) + 1}")
    return zip((name for name in names if name is not None), events, strict=True)


def split(table: pyarrow.Table | pyarrow.RecordBatch, item: str) -> tuple[list[str | None], Iterator[dict[str, Value]]]:
    """The item that each row is of, and the rows themselves; column by column, which is far cheaper.

    Raises ValueError for a table whose rows cannot be events.
    """
    names = table.schema.names
    if item not in names:
        raise ValueError(f"no column {item}; the table has {', '.join(names) or 'none'}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"column {twice} is there twice")
    fields = [name for name in names if name != item]
    columns = [_texts(name, table.column(name)) for name in fields]
    items = _texts(item, table.column(item))
    events = map(dict, map(zip, repeat(fields, len(items)), zip(*columns, strict=True))) if fields else _nothing(items)
    return items, events


def _nothing(items: list[str | None]) -> Iterator[dict[str, Value]]:
    return ({} for _ in items)


def _texts(name: str, column: pyarrow.ChunkedArray | pyarrow.Array) -> list[str | None]:
    """The values written out; what Arrow cannot cast to text by itself goes through Python."""
    types, kind = pyarrow.types, column.type
    if types.is_string(kind) or types.is_large_string(kind):
        found: list[str | None] = column.to_pylist()
        return found
    if types.is_boolean(kind) or types.is_integer(kind):
        return _texts(name, column.cast(pyarrow.string()))
    if (
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    ):
        raise ValueError(f"column {name} is of type {kind}, which is not text, a number or a time")
    return [None if value is None else str(value) for value in column.to_pylist()]
