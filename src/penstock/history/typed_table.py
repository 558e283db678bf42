"""A typed table: which journaled events are its rows, and which of their values are its columns, of which types.

Plain data, which travels to Spark's tasks as JSON. Not here: how rows are made (`projection`), which tables there are
(`catalog`). Read next: docs/sql.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import pyarrow as pa

from penstock.history.column_types import TIME, column_type
from penstock.journal.entity import entity_of
from penstock.journal.selection import EventSelection

# What every table has, before its own columns and after them.
BEFORE = (("time", TIME), ("item", pa.utf8()), ("revision", pa.int64()))
AFTER = (("sequence", pa.int64()), ("received", TIME), ("kind", pa.utf8()), ("misfits", pa.int32()))
RESERVED = frozenset(name for name, _ in (*BEFORE, *AFTER))

# The side table of a table: a row for each value that is not of the type of its column.
MISFITS = "_misfits"
MISFIT_SCHEMA = pa.schema(
    [
        ("time", TIME),
        ("item", pa.utf8()),
        ("revision", pa.int64()),
        ("column_name", pa.utf8()),
        ("column_type", pa.utf8()),
        ("value", pa.utf8()),
        ("reason", pa.utf8()),
        ("sequence", pa.int64()),
    ]
)

_WILD = re.compile(r"\*|\?|\{([^{}]*)\}")

# fields: an object, of which the columns are members. changes: parts of a document that has changed somewhere, by JSON
# pointers. leaves: a row for each value inside such a document, with its path.
TableShape = Literal["fields", "changes", "leaves"]


@dataclass(frozen=True)
class TableColumn:
    """`place` is the name of a field or a JSON pointer; the part of the item's name in these braces, if `is_part`."""

    name: str
    type: str
    place: str
    is_part: bool = False


@dataclass(frozen=True)
class TypedTable:
    """`name` is `schema.table`. `item` is a pattern: `*`, `?`, and `{column}` for one character or more."""

    name: str
    adapter_set: str
    adapter: str
    columns: tuple[TableColumn, ...]
    item: str = "*"
    kinds: tuple[str, ...] = ("update",)
    shape: TableShape = "fields"
    # The part of a document that `leaves` are looked for in.
    root: str = ""
    # The field, or the JSON pointer, that has the event's time; empty: it is when the server received it.
    time: str = ""
    # Types were found out by looking at what is journaled.
    inferred: bool = False
    # This is the side table.
    misfits: bool = False

    @property
    def prefix(self) -> str:
        """What the entities of all its items begin with."""
        return entity_of(self.adapter_set, self.adapter, "")

    @property
    def selection(self) -> EventSelection:
        """For the journal; it may let a few more pass than the table wants."""
        return EventSelection((self.prefix + re.sub(r"\*+", "*", _WILD.sub(_any, self.item)),), self.kinds)

    @property
    def schema(self) -> pa.Schema:
        if self.misfits:
            return MISFIT_SCHEMA
        own = [(column.name, column_type(column.type).arrow) for column in self.columns]
        return pa.schema([*BEFORE, *own, *AFTER])

    def item_expression(self) -> re.Pattern[str]:
        """Matches the names of its items; a group for each column that is a part of them.

        A part is as short as the rest allows, so that the last one takes what is left.
        """
        parts, end = [], 0
        for found in _WILD.finditer(self.item):
            parts.append(re.escape(self.item[end : found.start()]))
            parts.append({"*": ".*", "?": "."}.get(found[0], "(.+?)"))
            end = found.end()
        return re.compile("".join(parts) + re.escape(self.item[end:]), re.DOTALL)

    def side(self) -> TypedTable:
        """The table of what does not fit into this one."""
        return replace(self, name=self.name + MISFITS, misfits=True)

    def encoded(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> TypedTable:
        """Raises msgspec.DecodeError."""
        return msgspec.json.decode(text, type=cls)


def parts_of_item(pattern: str) -> list[str]:
    """The names in braces."""
    return [found[1] for found in _WILD.finditer(pattern) if found[1] is not None]


def sql_name(text: str) -> str:
    """A name that needs no quotes in SQL: adapters may be called anything."""
    return re.sub(r"\W", "_", text, flags=re.ASCII).lower()


def _any(found: re.Match[str]) -> str:
    return "?" if found[0] == "?" else "*"
