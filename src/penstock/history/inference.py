"""Which columns a table has if nobody has declared them: the fields of a sample of its events, with types that fit all.

Only types that later values rarely contradict are found: a number is a double, so that 7 today and 7.5 tomorrow are of
one type. Not here: values that do not fit after all (`projection`). Read next: `catalog`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from penstock.history.column_types import ColumnType, Misfit, column_type
from penstock.history.scan import JournalView, TableScan
from penstock.history.typed_table import RESERVED, TableColumn

# Events that are looked at: the newest of the journal that are soon found, or those that the lake gives first.
SAMPLE = 10_000
# How far back in the journal the newest are looked for, before it is read from the beginning.
NEWEST = 100_000

_CANDIDATES = tuple(column_type(name) for name in ("boolean", "double", "timestamp"))
# Numbers that are names: a leading zero, or more digits than a double keeps, would be lost.
_NAME = re.compile(r"[+-]?0[0-9]|[+-]?[0-9]{16,}", re.ASCII)
# Without letters a time is only a number, such as milliseconds.
_TIME = re.compile(r"[0-9]{4}-", re.ASCII)


def sample(scan: TableScan, reader: JournalView | None) -> Iterator[Any]:
    """Batches of the events that are looked at."""
    shares = []
    if reader is not None:
        latest = reader.poll()
        start = max(reader.earliest(), latest - NEWEST)
        shares = scan.plan_range(start, latest + 1, skips_gap=True) if start <= latest else []
    taken = 0
    for attempt in (shares, None):
        for share in scan.plan() if attempt is None else attempt:
            for batch in scan.read(share):
                yield batch.slice(0, SAMPLE - taken)
                taken += batch.num_rows
                if taken >= SAMPLE:
                    return
        if taken:
            return


def inferred(texts: Iterable[str | None], taken: Iterable[str] = ()) -> tuple[TableColumn, ...]:
    """The fields of events as columns, in the order in which they come; `taken` are names of other columns."""
    found: dict[str, list[ColumnType]] = {}
    seen: set[str] = set()
    decoder = msgspec.json.Decoder()
    for text in texts:
        try:
            fields = None if text is None else decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        if not isinstance(fields, dict):
            continue
        for name, value in fields.items():
            left = found.setdefault(name, list(_CANDIDATES))
            if value is not None:
                seen.add(name)
                left[:] = [each for each in left if _fits(value, each)]
    columns: list[TableColumn] = []
    names = {name.lower() for name in (*RESERVED, *taken)}
    for field, left in found.items():
        name = column_name(field, names)
        names.add(name.lower())
        columns.append(TableColumn(name, left[0].name if left and field in seen else "string", field))
    return tuple(columns)


def column_name(field: str, names: set[str]) -> str:
    """The field's own name, with an underscore if it is taken: SQL does not tell upper from lower case."""
    name = field
    while name.lower() in names:
        name += "_"
    return name


def _fits(value: Any, kind: ColumnType) -> bool:
    if isinstance(value, str) and kind.name == "double" and _NAME.match(value):
        return False
    if kind.name == "timestamp" and not (isinstance(value, str) and _TIME.match(value)):
        return False
    try:
        kind.value(value)
    except Misfit:
        return False
    return True
