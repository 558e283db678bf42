"""Journaled events as rows of a typed table, or of its side table: Arrow in, Arrow out.

The same code for Spark, in batch and in a stream, and for whoever reads without it: so all of them see the same rows.
Not here: which events are read (`scan`). Read next: `typed_table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from penstock.history.column_types import ColumnType, Misfit, column_type, quoted
from penstock.history.typed_table import MISFIT_SCHEMA, TableColumn, TypedTable

_JSON = msgspec.json.Decoder()

# Where a document has nothing, which is not the same as null.
_ABSENT = object()

NO_OBJECT = "is not a JSON object"
NO_JSON = "is not JSON"


class _Bad(NamedTuple):
    """A value that does not fit. `row` is its place among the rows; a column without a name is all of the value."""

    row: int
    column: str | None
    type: str | None
    value: str
    reason: str


class Projection:
    """Of one table. For one thread."""

    def __init__(self, table: TypedTable) -> None:
        self.table = table
        self.schema = table.schema
        self._expression = table.item_expression()
        self._parts = [column for column in table.columns if column.is_part]
        values = [column for column in table.columns if not column.is_part]
        if table.time:
            values.append(TableColumn("time", "timestamp", table.time))
        self._values = [(column, column_type(column.type)) for column in values]
        self._pointers = [pointer_parts(column.place) for column, _ in self._values]

    def rows(self, batch: Any) -> Any:
        """A record batch of the table's columns; `batch` has those of the journal, chosen by the table's selection."""
        items, found, batch = self._items(batch)
        texts = batch.column("value").to_pylist()
        bad: list[_Bad] = []
        if self.table.shape == "leaves":
            origins, columns = self._leaves(batch, texts, bad)
            items = [items[row] for row in origins]
            found = [found[row] for row in origins]
            batch = batch.take(pa.array(origins, pa.int64()))
        elif self.table.shape == "changes":
            columns = self._changes(batch, texts, bad)
        else:
            columns = self._fields(texts, bad)
        for number, column in enumerate(self._parts):
            columns[column.name] = self._part(column, [groups[number] for groups in found], bad)
        times = columns["time"] if self.table.time else batch.column("timestamp")
        if self.table.misfits:
            return self._side(batch, items, times, bad)
        counts = [0] * len(items)
        for each in bad:
            counts[each.row] += 1
        columns |= {
            "time": times,
            "item": pa.array(items, pa.utf8()),
            "revision": batch.column("revision"),
            "sequence": batch.column("sequence"),
            "received": batch.column("timestamp"),
            "kind": batch.column("kind"),
            "misfits": pa.array(counts, pa.int32()),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _items(self, batch: Any) -> tuple[list[str], list[tuple[str, ...]], Any]:
        """The names of the items, what stands for the parts in braces, and the rows that are of this table."""
        length = len(self.table.prefix)
        known: dict[str, tuple[str, ...] | None] = {}
        items, found, kept = [], [], []
        for row, entity in enumerate(batch.column("entity").to_pylist()):
            if entity not in known:
                match = self._expression.fullmatch(entity, length) if entity.startswith(self.table.prefix) else None
                known[entity] = None if match is None else match.groups()
            groups = known[entity]
            if groups is not None:
                items.append(entity[length:])
                found.append(groups)
                kept.append(row)
        return items, found, batch if len(kept) == batch.num_rows else batch.take(pa.array(kept, pa.int64()))

    def _fields(self, texts: list[str | None], bad: list[_Bad]) -> dict[str, Any]:
        objects: list[dict[str, Any]] = []
        for row, text in enumerate(texts):
            value = _decoded(text, row, bad)
            if not isinstance(value, dict):
                if value is not None and value is not _ABSENT:
                    bad.append(_Bad(row, None, None, quoted(text), NO_OBJECT))
                value = {}
            objects.append(value)
        columns = {}
        for column, kind in self._values:
            place = column.place
            columns[column.name] = _filled(column, kind, [each.get(place) for each in objects], bad)
        return columns

    def _changes(self, batch: Any, texts: list[str | None], bad: list[_Bad]) -> dict[str, Any]:
        paths = [pointer_parts(path) for path in batch.column("path").to_pylist()]
        values = [_decoded(text, row, bad) for row, text in enumerate(texts)]
        columns = {}
        for (column, kind), pointer in zip(self._values, self._pointers, strict=True):
            found = [_at(value, path, pointer) for value, path in zip(values, paths, strict=True)]
            columns[column.name] = _filled(column, kind, [None if one is _ABSENT else one for one in found], bad)
        return columns

    def _leaves(self, batch: Any, texts: list[str | None], bad: list[_Bad]) -> tuple[list[int], dict[str, Any]]:
        """The row of the batch that each leaf is from, and the columns."""
        root = pointer_parts(self.table.root)
        origins: list[int] = []
        paths: list[str] = []
        values: list[Any] = []
        unread: list[_Bad] = []
        for row, (path, text) in enumerate(zip(batch.column("path").to_pylist(), texts, strict=True)):
            value = _decoded(text, row, unread)
            if value is _ABSENT:
                # Where it would have been is not known; the row stands for all of it.
                bad.append(unread.pop()._replace(row=len(origins)))
                origins.append(row)
                paths.append(self.table.root)
                values.append(None)
                continue
            for place, leaf in _inside(value, pointer_parts(path), root):
                origins.append(row)
                paths.append(place)
                values.append(leaf)
        features = [_first_step(path, len(root)) for path in paths]
        given = {"path": paths, "value": values, "number": [_number(value) for value in values], "feature": features}
        return origins, {column.name: _filled(column, kind, given[column.place], bad) for column, kind in self._values}

    def _part(self, column: TableColumn, texts: list[str], bad: list[_Bad]) -> Any:
        return _filled(column, column_type(column.type), texts, bad)

    def _side(self, batch: Any, items: list[str], times: Any, bad: list[_Bad]) -> Any:
        rows = pa.array([each.row for each in bad], pa.int64())
        return pa.RecordBatch.from_arrays(
            [
                times.take(rows),
                pa.array([items[each.row] for each in bad], pa.utf8()),
                batch.column("revision").take(rows),
                pa.array([each.column for each in bad], pa.utf8()),
                pa.array([each.type for each in bad], pa.utf8()),
                pa.array([each.value for each in bad], pa.utf8()),
                pa.array([f"the value {each.reason}" for each in bad], pa.utf8()),
                batch.column("sequence").take(rows),
            ],
            schema=MISFIT_SCHEMA,
        )


def projected(table: TypedTable, batches: Iterator[Any]) -> Iterator[Any]:
    """What `Projection.rows` makes of each batch, without those that are empty."""
    projection = Projection(table)
    for batch in batches:
        rows = projection.rows(batch)
        if rows.num_rows:
            yield rows


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer; none for the whole document, which is "" or "/"."""
    if pointer in ("", "/"):
        return ()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.removeprefix("/").split("/"))


def pointer_of(parts: tuple[str, ...]) -> str:
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in parts)


def _decoded(text: str | None, row: int, bad: list[_Bad]) -> Any:
    """None for nothing; _ABSENT for what is not JSON, which is told."""
    if text is None:
        return None
    try:
        return _JSON.decode(text)
    except (msgspec.DecodeError, RecursionError):
        bad.append(_Bad(row, None, None, quoted(text), NO_JSON))
        return _ABSENT


def _filled(column: TableColumn, kind: ColumnType, values: list[Any], bad: list[_Bad]) -> Any:
    """The array of a column; what does not fit is null there."""
    make = kind.value
    fitted: list[Any] = []
    for row, value in enumerate(values):
        if value is None:
            fitted.append(None)
            continue
        try:
            fitted.append(make(value))
        except Misfit as misfit:
            fitted.append(None)
            bad.append(_Bad(row, column.name, kind.name, quoted(value), str(misfit)))
    return pa.array(fitted, kind.arrow)


def _at(value: Any, path: tuple[str, ...], pointer: tuple[str, ...]) -> Any:
    """What a change of the document at `path` says of the place `pointer`; _ABSENT if it says nothing."""
    shared = min(len(path), len(pointer))
    if path[:shared] != pointer[:shared] or len(path) > len(pointer) or value is _ABSENT:
        return _ABSENT
    for step in pointer[len(path) :]:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _inside(value: Any, path: tuple[str, ...], root: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The leaves below `root` of a change at `path`, with their paths. What is deleted is a leaf that is null."""
    if path[: len(root)] == root:
        yield from _walk(value, path)
    elif root[: len(path)] == path:
        if value is None:
            yield pointer_of(root), None
        elif (found := _at(value, path, root)) is not _ABSENT:
            yield from _walk(found, root)


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Not by recursion: how deep a document is, is its author's choice."""
    waiting = [(path, value)]
    while waiting:
        here, found = waiting.pop()
        if isinstance(found, dict) and found:
            waiting += [((*here, step), inner) for step, inner in reversed(found.items())]
        else:
            yield pointer_of(here), found


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _first_step(path: str, depth: int) -> str | None:
    steps = pointer_parts(path)
    return steps[depth] if len(steps) > depth else None
