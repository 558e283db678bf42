"""The lake's files, kept open: their footers are read once, and one entity's rows without the others' values.

Rows come group by group, so that memory does not grow with an entity's history. Not here: which files (`snapshot`), or
how several are merged (`reader`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.lake_root import LakeRoot, open_file, table_options
from penstock.history.lake_url import LakeUrl
from penstock.journal.record import SCHEMA as RECORD

# Open files, each with its footer and a descriptor; the one not used for longest is closed.
OPEN_FILES = 1_024

_KEYS = ["sequence", "entity", "revision", "timestamp"]
_REST = ["kind", "path", "value", "headers"]
_SEQUENCE, _ENTITY, _REVISION, _TIMESTAMP = (RECORD.names.index(name) for name in _KEYS)


def integers(column: Any) -> Any:
    """A column without nulls as a NumPy array. Not by `to_numpy`, which first imports pandas, and that is slow."""
    return np.from_dlpack(column.combine_chunks())


def taken(table: Any, rows: Any) -> Any:
    """Some rows of a table, by their indices as NumPy has them; for the same reason not by `pa.array`."""
    return table.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of one entity: revisions, both ends included; times in microseconds since 1970, `until` not included."""

    entity: str
    first_revision: int | None = None
    last_revision: int | None = None
    since: int | None = None
    until: int | None = None

    def may_hold(self, revisions: tuple[int, int], times: tuple[int, int]) -> bool:
        """Whether rows within these bounds can be wanted."""
        return (
            (self.first_revision is None or revisions[1] >= self.first_revision)
            and (self.last_revision is None or revisions[0] <= self.last_revision)
            and (self.since is None or times[1] >= self.since)
            and (self.until is None or times[0] < self.until)
        )

    def rows(self, keys: Any) -> Any:
        """The indices of the wanted rows; revisions rise, times need not."""
        revisions = integers(keys.column("revision"))
        start = 0 if self.first_revision is None else int(np.searchsorted(revisions, self.first_revision, "left"))
        end = (
            len(revisions)
            if self.last_revision is None
            else int(np.searchsorted(revisions, self.last_revision, "right"))
        )
        chosen = np.arange(start, max(start, end))
        if self.since is not None or self.until is not None:
            times = integers(keys.column("timestamp").cast(pa.int64()))[start:end]
            mask = np.ones(len(times), bool)
            if self.since is not None:
                mask &= times >= self.since
            if self.until is not None:
                mask &= times < self.until
            chosen = chosen[mask]
        return chosen


class OpenFile:
    """For any thread: one reads at a time."""

    def __init__(self, root: LakeRoot, name: str) -> None:
        """Raises FileNotFoundError; at a URL reading may, too, and OSError."""
        source = open_file(root, name)
        # Mapped: what was opened stays readable when the file is removed. Over a network all columns come at once.
        is_local = not isinstance(root, LakeUrl)
        self._file = pq.ParquetFile(source, memory_map=is_local, pre_buffer=not is_local, read_dictionary=["entity"])
        self._lock = threading.Lock()
        metadata = self._file.metadata
        self._metadata = metadata
        # None for names of several kilobytes, of which Parquet keeps no statistics.
        self._lows: list[str] | None = []
        self._highs: list[str] | None = []
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(_ENTITY).statistics
            if statistics is None or not statistics.has_min_max:
                self._lows = self._highs = None
                break
            self._lows.append(statistics.min)
            self._highs.append(statistics.max)

    def groups(self, wanted: Wanted) -> list[int]:
        """The row groups where something wanted may be, in order."""
        if self._lows is None or self._highs is None:
            numbers = range(self._metadata.num_row_groups)
        else:
            # Rows are sorted by entity: both lists rise.
            numbers = range(bisect_left(self._highs, wanted.entity), bisect_right(self._lows, wanted.entity))
        return [number for number in numbers if self._may_hold(number, wanted)]

    def _may_hold(self, number: int, wanted: Wanted) -> bool:
        group = self._metadata.row_group(number)
        revisions = group.column(_REVISION).statistics
        if wanted.since is None and wanted.until is None:
            return wanted.may_hold((revisions.min, revisions.max), (0, 0))
        times = group.column(_TIMESTAMP).statistics
        return wanted.may_hold((revisions.min, revisions.max), (times.min_raw, times.max_raw))

    def read(self, number: int, wanted: Wanted) -> Any:
        """The wanted rows of a group, as a table; None when there are none. The values of others are not decoded."""
        with self._lock:
            keys = self._file.read_row_group(number, columns=_KEYS, use_threads=False)
            found = _span(keys.column("entity"), wanted.entity)
            if found is None:
                return None
            start, end = found
            keys = keys.slice(start, end - start)
            rows = wanted.rows(keys)
            if not len(rows):
                return None
            rest = self._file.read_row_group(number, columns=_REST, use_threads=False).slice(start, end - start)
        first, last = int(rows[0]), int(rows[-1])
        columns = {name: keys.column(name) for name in _KEYS} | {name: rest.column(name) for name in _REST}
        columns["entity"] = columns["entity"].cast(pa.utf8())
        table = pa.table([columns[name] for name in RECORD.names], RECORD)
        if last - first + 1 == len(rows):
            return table.slice(first, len(rows))
        return taken(table, rows)

    def last(self, wanted: Wanted) -> Any:
        """The last row that is wanted, as a table of one; None when there is none here."""
        for number in reversed(self.groups(wanted)):
            table = self.read(number, wanted)
            if table is not None:
                return table.slice(table.num_rows - 1)
        return None


def _span(column: Any, entity: str) -> tuple[int, int] | None:
    """Where the entity's rows are: they stand together."""
    start: int | None = None
    end = position = 0
    for chunk in column.chunks:
        code = chunk.dictionary.index(entity).as_py()
        if code >= 0:
            hits = np.flatnonzero(np.from_dlpack(chunk.indices) == code)
            if len(hits):
                start = position + int(hits[0]) if start is None else start
                end = position + int(hits[-1]) + 1
        position += len(chunk)
    return None if start is None else (start, end)


class Footers:
    """Open files by path, the most recently used ones. For any thread."""

    def __init__(self, root: LakeRoot, limit: int = OPEN_FILES) -> None:
        self._root = root
        # What they were opened with: credentials may be replaced.
        self._options: dict[str, str] | None = None
        self._limit = limit
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> OpenFile:
        """Raises FileNotFoundError when the file was replaced, and removed, meanwhile."""
        options = table_options(self._root)
        with self._lock:
            if options != self._options:
                self._files.clear()
                self._options = options
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                return file
        file = OpenFile(self._root, path)
        with self._lock:
            self._files[path] = file
            if len(self._files) > self._limit:
                self._files.popitem(last=False)
        return file

    def __len__(self) -> int:
        return len(self._files)

    def rows(self, path: str, wanted: Wanted) -> Iterator[Any]:
        """Tables with the wanted rows of one file, in order."""
        file = self.get(path)
        for number in file.groups(wanted):
            table = file.read(number, wanted)
            if table is not None:
                yield table
