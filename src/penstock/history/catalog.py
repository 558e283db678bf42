"""Which typed tables there are: those that the configuration declares, and one for every adapter that is journaled.

Twins have three, and TLEX one. The types of a table that is not declared are inferred when it is asked for. Not here:
rows (`projection`), the views of Spark (`penstock.pipeline`). Read next: docs/sql.md.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow.compute as pc

from penstock.config import Config
from penstock.config.schema.pipeline import TableSection
from penstock.history.column_types import UnknownType, column_type
from penstock.history.inference import NEWEST, inferred, sample
from penstock.history.lake_root import LakeRoot, lake_of, open_table, reading
from penstock.history.layout import SUMMARY_FOLDER
from penstock.history.scan import JournalView, TableScan
from penstock.history.typed_table import MISFITS, RESERVED, TableColumn, TypedTable, parts_of_item, sql_name
from penstock.journal.entity import parts_of
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader

# As the doors call them in the journal.
TLEX = ("TLEX", "TLEX")
TWINS = ("DITTO", "THINGS")
POLICIES = ("DITTO", "POLICIES")

TWIN_KINDS = ("created", "modified", "merged", "deleted")

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)
_COLUMN = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_LEAVES = (
    TableColumn("path", "string", "path"),
    TableColumn("value", "string", "value"),
    TableColumn("number", "double", "number"),
)
_PAYLOAD = tuple(
    TableColumn(name, kind, name)
    for name, kind in (
        ("domain", "string"),
        ("identifier", "string"),
        ("publisher", "string"),
        ("session", "string"),
        ("type", "int"),
        ("sent", "timestamp"),
        ("payload", "binary"),
    )
)


class TableError(ValueError):
    """What is wrong with a table of the configuration, or that there is none of a name."""


class FieldSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"place": "from"}):
    """A column that is not called as its field: `watts = { from = "/attributes/watts", type = "double" }`."""

    type: str
    place: str


class ServedJournal(JournalView, Protocol):
    """What the tables need of a journal that a server shows to whoever has a token."""

    def sees_all(self) -> bool: ...
    def check_table(self, name: str, entities: Sequence[str]) -> None: ...


class Catalog:
    """The tables of a data directory. Names are in lower case; those of the side tables are not listed."""

    def __init__(self, config: Config, data_dir: Path | None = None, remote: ServedJournal | None = None) -> None:
        """Raises TableError. Reads a little of what is journaled, unless `data_dir` is None; by `remote` if that is
        given, which then has the journal.
        """
        self._remote = remote
        self._journal = None if data_dir is None else data_dir / "journal"
        self._lake = None if data_dir is None else lake_of(config, data_dir)
        self._tables: dict[str, TypedTable] = {}
        # Those that were asked for: of which the rights are known, and the types.
        self._looked: set[str] = set()
        adapters = {
            (adapter_set, adapter)
            for adapter_set, section in config.adapters.items()
            for adapter, data in section.data.items()
            if data.journal.items
        }
        if config.tlex.enabled and config.tlex.journal:
            adapters.add(TLEX)
        if config.ditto.enabled and (config.ditto.adapter_set or config.demo.enabled):
            adapters.add(TWINS)
        if self._journal is not None and self._lake is not None:
            adapters |= discovered(self._lake, self._opened())
        for adapter_set, adapter in sorted(adapters):
            self._add_defaults(adapter_set, adapter)
        declared: dict[str, str] = {}
        for name, section in config.pipeline.tables.items():
            table = _declared(name, section)
            if table.name in declared:
                other = declared[table.name]
                raise TableError(f"pipeline.tables.{name}: the table {table.name} is that of pipeline.tables.{other}")
            declared[table.name] = name
            self._tables[table.name] = table

    def names(self) -> list[str]:
        return sorted(self._tables)

    def tables(self) -> Iterator[TypedTable]:
        """All of them, with their columns."""
        for name in self.names():
            yield self.table(name)

    def table(self, name: str) -> TypedTable:
        """By its name, in any case; also a side table. Raises TableError, and what a `ServedJournal` refuses."""
        asked = name.lower()
        if asked not in self._tables and asked.endswith(MISFITS) and asked.removesuffix(MISFITS) in self._tables:
            return self.table(asked.removesuffix(MISFITS)).side()
        found = self._tables.get(asked)
        if found is None:
            near = difflib.get_close_matches(asked, self._tables, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            narrow = ""
            if self._remote is not None and not self._remote.sees_all():
                narrow = "; the token is for some entities only, and there may be others"
            raise TableError(f"there is no table {name}{hint}; there are: {', '.join(self.names()) or 'none'}{narrow}")
        if asked not in self._looked:
            if self._remote is not None:
                self._remote.check_table(asked, found.selection.entities)
            if found.inferred:
                found = self._tables[asked] = self._inferred(found)
            self._looked.add(asked)
        return found

    def _add_defaults(self, adapter_set: str, adapter: str) -> None:
        schema = sql_name(adapter_set)
        if (adapter_set, adapter) == TLEX:
            tables = [TypedTable(f"{schema}.payloads", adapter_set, adapter, _PAYLOAD, kinds=("payload",))]
        elif (adapter_set, adapter) == TWINS:
            feature = TableColumn("feature", "string", "feature")
            tables = [
                TypedTable(
                    f"{schema}.{name}",
                    adapter_set,
                    adapter,
                    columns,
                    kinds=TWIN_KINDS,
                    shape="leaves",
                    root=root,
                )
                for name, root, columns in (
                    ("things", "", _LEAVES),
                    ("attributes", "/attributes", _LEAVES),
                    ("features", "/features", (feature, *_LEAVES)),
                )
            ]
        elif (adapter_set, adapter) == POLICIES:
            return
        else:
            tables = [TypedTable(f"{schema}.{sql_name(adapter)}", adapter_set, adapter, (), inferred=True)]
        for table in tables:
            name, number = table.name, 2
            while name in self._tables:
                name, number = f"{table.name}_{number}", number + 1
            self._tables[name] = replace(table, name=name)

    def _opened(self) -> JournalView | None:
        """The journal; None if there is none."""
        if self._remote is not None:
            return self._remote
        return JournalReader(self._journal) if self._journal is not None and self._journal.is_dir() else None

    def _inferred(self, table: TypedTable) -> TypedTable:
        parts = table.columns
        if self._journal is None or self._lake is None:
            return table
        reader = self._opened()
        scan = TableScan(self._journal if self._remote is None else None, self._lake, table.selection, reader=reader)
        texts = (text for batch in sample(scan, reader) for text in batch.column("value").to_pylist())
        return replace(table, columns=parts + inferred(texts, [column.name for column in parts]))


def discovered(lake: LakeRoot, reader: JournalView | None) -> set[tuple[str, str]]:
    """Adapter sets and adapters of which something is journaled.

    Those of the lake's summary, and of the journal's oldest and newest records: to read all of it would take long.
    """
    entities: set[str] = set()
    if (summary := open_table(lake / SUMMARY_FOLDER)) is not None:
        with reading(lake):
            entities.update(summary.to_pyarrow_table(columns=["entity"])["entity"].to_pylist())
    if reader is not None:
        first, last = reader.earliest(), reader.poll()
        for start, stop in ((first, first + NEWEST), (max(first + NEWEST, last - NEWEST), last + 1)):
            try:
                for batch in reader.read(start, stop) if start < stop else ():
                    entities.update(pc.unique(batch.column("entity")).to_pylist())
            except Expired:
                # Dropped meanwhile; what is newer is read next.
                continue
    return {parts[:2] for parts in map(parts_of, entities) if parts is not None}


# -- what the configuration declares ---------------------------------------------------------------------------------


def _declared(name: str, section: TableSection) -> TypedTable:
    key = f"pipeline.tables.{name}"
    if not _NAME.fullmatch(name):
        raise TableError(f"{key}: expected a name of letters, digits and _, or two of them such as plant.readings")
    if name.lower().endswith(MISFITS):
        raise TableError(f"{key}: expected a name that does not end with {MISFITS}, which side tables have")
    adapter_set, _, adapter = section.adapter.partition("/")
    full = name.lower() if "." in name else f"{sql_name(adapter_set)}.{name.lower()}"
    is_twin = (adapter_set, adapter) == TWINS
    parts = parts_of_item(section.item)
    types = {
        column: _field(key, column, given, is_twin and column not in parts) for column, given in section.fields.items()
    }
    columns = []
    for part in parts:
        # A part that is also among the fields takes its type from there.
        given = types.pop(part, None)
        columns.append(TableColumn(part, "string" if given is None else given.type, part, is_part=True))
    columns += types.values()
    names: set[str] = set()
    for column in columns:
        if not _COLUMN.fullmatch(column.name):
            raise TableError(f"{key}: expected columns of letters, digits and _; {column.name!r} is not such a name")
        if column.name.lower() in RESERVED:
            hint = f'; call it otherwise: {column.name}_ = {{ from = "{column.place}", type = "{column.type}" }}'
            if column.name.lower() == "time":
                hint = '; if it is the time of the event, write time = "time" in the table'
            raise TableError(f"{key}: every table has a column {column.name}{'' if column.is_part else hint}")
        if column.name.lower() in names:
            raise TableError(f"{key}: two columns are called {column.name.lower()}")
        names.add(column.name.lower())
    if section.time and is_twin and not section.time.startswith("/"):
        raise TableError(f"{key}.time = {section.time!r}: expected a JSON pointer such as /attributes/time")
    if is_twin and not types:
        raise TableError(f"{key}.fields: a table of things needs fields, by JSON pointers")
    kinds = section.kinds or (
        TWIN_KINDS if is_twin else ("payload",) if (adapter_set, adapter) == TLEX else ("update",)
    )
    return TypedTable(
        full,
        adapter_set,
        adapter,
        tuple(columns),
        item=section.item,
        kinds=kinds,
        shape="changes" if is_twin else "fields",
        time=section.time,
        inferred=not section.fields,
    )


def _field(key: str, column: str, given: Any, is_twin: bool) -> TableColumn:
    try:
        field = FieldSection(given, column) if isinstance(given, str) else msgspec.convert(given, FieldSection)
    except msgspec.ValidationError:
        raise TableError(
            f'{key}.fields.{column}: expected a type such as "double", or {{ from = "FIELD", type = "double" }}'
        ) from None
    if is_twin and not field.place.startswith("/"):
        raise TableError(
            f'{key}.fields.{column}: expected {{ from = "/attributes/{column}", type = "{field.type}" }}, because '
            "fields of things are found by JSON pointers"
        )
    try:
        kind = column_type(field.type)
    except UnknownType as error:
        raise TableError(f"{key}.fields.{column} = {field.type!r}: {error}") from None
    return TableColumn(column, kind.name, field.place)


def described(table: TypedTable) -> Mapping[str, str]:
    """Columns and their types, in SQL."""
    own = {} if table.misfits else {column.name: column.type for column in table.columns}
    names = {"timestamp[us, tz=UTC]": "timestamp", "int64": "bigint", "int32": "int"}
    return {field.name: own.get(field.name) or names.get(str(field.type), str(field.type)) for field in table.schema}
