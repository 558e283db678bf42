"""Which items a DataFrame becomes: the options of the sink, checked, and the rows they make of an Arrow table.

The server wants a column `item`, for COMMAND a column `key`, perhaps `command`; all others are fields. Nothing of Spark
here. Not here: sending them (`outlet`). Read next: docs/pipeline.md, "Items from a DataFrame".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.outlet import MODES, Outlet
from penstock.pipeline.place import Place
from penstock.pipeline.token import read_token

ITEM = "item"
KEY = "key"
COMMAND = "command"
COMMANDS = ("ADD", "UPDATE", "DELETE")

# By the lower-case name that Spark hands over, the name that people write.
OPTIONS = {
    name.lower(): name
    for name in (
        "server",
        "adapterSet",
        "adapter",
        "token",
        "tokenFile",
        "item",
        "itemTemplate",
        "mode",
        "key",
        "command",
        "fields",
        "retryTimeoutSeconds",
    )
}
# Spark's own, which it hands over with ours.
_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class BadRow(PipelineError):
    """A value that cannot be published: a null key, an item without a name. Names the column and the row."""


@dataclass(frozen=True)
class Target:
    """Where the rows go and what they become; plain data, for tasks and for Spark Connect."""

    server: str
    adapter_set: str
    adapter: str
    token: str | None = field(default=None, repr=False)
    # One of the two: a column with the item's name, or a text with columns in braces.
    item: str | None = None
    item_template: str | None = None
    mode: str = "MERGE"
    key: str | None = None
    command: str | None = None
    # Columns to publish; empty: all that are not named above.
    fields: tuple[str, ...] = ()
    # Seconds; None: for ever.
    retry_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadOption(f"mode is {self.mode!r}; allowed: {', '.join(MODES)}")
        if (self.item is None) == (self.item_template is None):
            raise BadOption("item and itemTemplate: exactly one is needed, a column with names or a text such as a.{b}")
        if self.item_template is not None and not template_parts(self.item_template):
            raise BadOption("itemTemplate is empty; expected a text such as candle.{size}.{stock}")
        if self.mode == "COMMAND" and self.key is None:
            raise BadOption("key is missing; mode COMMAND needs the column with the key of each row")
        if self.mode != "COMMAND" and (self.key is not None or self.command is not None):
            name = "key" if self.key is not None else "command"
            raise BadOption(f"{name} is {self.key or self.command!r}; only mode COMMAND has keys and commands")
        self.outlet().close()

    @classmethod
    def at(cls, place: Place, adapter_set: str, adapter: str, **options: Any) -> Target:
        """The server of a place, opened by its token as that is now; `options` are the fields below it."""
        found = place.with_token()
        return cls(found.api, adapter_set, adapter, found.token, **options)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Target:
        """From what was written after `format("penstock")`, in whatever case; raises BadOption."""
        given = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            raise BadOption(f"option {unknown[0]} is not known; allowed: {', '.join(OPTIONS.values())}")
        for name in ("server", "adapterset", "adapter"):
            if not given.get(name):
                raise BadOption(f"option {OPTIONS[name]} is missing")
        return cls(
            given["server"],
            given["adapterset"],
            given["adapter"],
            read_token(given.get("token"), given.get("tokenfile")),
            item=given.get("item"),
            item_template=given.get("itemtemplate"),
            mode=given.get("mode", "MERGE").upper(),
            key=given.get("key"),
            command=given.get("command"),
            fields=tuple(word.strip() for word in given.get("fields", "").split(",") if word.strip()),
            retry_timeout=_timeout(given.get("retrytimeoutseconds")),
        )

    def outlet(self) -> Outlet:
        """A connection of its own."""
        return Outlet(self.server, self.adapter_set, self.adapter, self.token, retry_timeout=self.retry_timeout)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raises BadOption for a column that is named and not there."""
        self.fields_of(names)

    def rows(self, table: pa.Table | pa.RecordBatch, before: int = 0) -> pa.Table:
        """What is sent; raises BadRow for the first row that has no item or key. `before` are rows of other parts."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        fields = self.fields_of(table.column_names)
        columns: dict[str, Any] = {ITEM: self._items(table, before)}
        if self.key is not None:
            columns[KEY] = _named(table, self.key, "the key", before)
        if self.command is not None:
            columns[COMMAND] = _commands(table, self.command, before)
        for name in fields:
            columns[name] = table.column(name)
        return pa.table(columns)

    def fields_of(self, names: Sequence[str]) -> list[str]:
        """The columns that become fields. Raises BadOption."""
        there = f"the DataFrame has {', '.join(names) or 'no columns'}"
        wanted = [("item", self.item), ("key", self.key), ("command", self.command)]
        wanted += [("itemTemplate", name) for name in _placeholders(self.item_template or "")]
        wanted += [("fields", name) for name in self.fields]
        for option, name in wanted:
            if name is not None and name not in names:
                raise BadOption(f"{option} names the column {name!r}, which is not there; {there}")
        taken = {self.item, self.key, self.command}
        fields = list(self.fields) or [name for name in names if name not in taken]
        reserved = (ITEM, KEY, COMMAND) if self.mode == "COMMAND" else (ITEM,)
        for name in fields:
            if name in reserved and name not in taken:
                raise BadOption(
                    f"the column {name!r} cannot be a field: {', '.join(reserved)} have a meaning; rename it"
                )
        fields = [name for name in fields if name not in reserved]
        if not fields and self.mode != "COMMAND":
            raise BadOption(f"fields: no column is left to be published; {there}")
        return fields

    def _items(self, table: pa.Table, before: int) -> Any:
        if self.item is not None:
            return _named(table, self.item, "the item", before)
        assert self.item_template is not None
        parts: list[Any] = []
        for text, column in template_parts(self.item_template):
            if text:
                parts.append(pa.scalar(text))
            if column is not None:
                parts.append(_named(table, column, "the item's name", before))
        if not any(isinstance(part, pa.ChunkedArray) for part in parts):
            return pa.chunked_array([pa.repeat(pa.scalar(self.item_template), table.num_rows)])
        return pc.binary_join_element_wise(*parts, pa.scalar(""))


def template_parts(template: str) -> list[tuple[str, str | None]]:
    """Text and the column that follows it."""
    found: list[tuple[str, str | None]] = []
    end = 0
    for match in _PLACEHOLDER.finditer(template):
        found.append((template[end : match.start()], match[1]))
        end = match.end()
    if end < len(template):
        found.append((template[end:], None))
    return found


def _placeholders(template: str) -> list[str]:
    return [column for _, column in template_parts(template) if column is not None]


def _named(table: pa.Table, column: str, what: str, before: int) -> Any:
    """A column as text without nulls or empty names."""
    values = table.column(column)
    if not pa.types.is_string(values.type):
        try:
            values = values.cast(pa.string())
        except pa.ArrowException:
            raise BadOption(f"the column {column!r} is of type {values.type}, which cannot be {what}") from None
    missing = pc.index(pc.fill_null(pc.equal(values, ""), True), pa.scalar(True)).as_py()
    if missing >= 0:
        value = values[missing].as_py()
        fault, row = "null" if value is None else "empty", before + missing + 1
        raise BadRow(f"the column {column!r} is {fault} in row {row}; it is {what}")
    return values


def _commands(table: pa.Table, column: str, before: int) -> Any:
    """Null: the server finds out whether it is ADD or UPDATE."""
    values = table.column(column)
    if not pa.types.is_string(values.type) and not pa.types.is_null(values.type):
        raise BadOption(f"the column {column!r} is of type {values.type}; commands are text")
    values = values.cast(pa.string())
    wrong = pc.index(pc.or_(pc.is_null(values), pc.is_in(values, pa.array(COMMANDS))), pa.scalar(False)).as_py()
    if wrong >= 0:
        given = str(values[wrong].as_py())[:60]
        row = before + wrong + 1
        raise BadRow(f"the column {column!r} is {given!r} in row {row}; allowed: {', '.join(COMMANDS)} and null")
    return values


def _timeout(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise BadOption(f"option retryTimeoutSeconds is {value!r}; expected a number of seconds, or none for ever")
    return seconds
