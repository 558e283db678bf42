"""One version of the lake: its files by bucket, and up to which sequence they are complete.

Both from the same version of the Delta log, so that a reader that goes on in the journal after that sequence doubles
and misses nothing. Not here: what is in the files (`footers`). Read next: `reader`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.history.layout import BUCKET, BUCKETS, RETENTION, SEQUENCE, has_lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

# A version this old is looked at again before a read. An older one is as right, but leaves more to the journal.
FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the lake and the bounds of what is in it; times are microseconds since 1970."""

    path: str
    first: int
    last: int
    first_revision: int
    last_revision: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`buckets` has a tuple of files for each bucket, by first sequence."""

    version: int
    sequence: int
    retentions: int
    buckets: tuple[tuple[DataFile, ...], ...]

    def files(self) -> list[DataFile]:
        return [file for bucket in self.buckets for file in bucket]


# Where no lake is yet.
EMPTY = Snapshot(-1, 0, 0, ((),) * BUCKETS)

_COLUMNS = (
    "path", "min.sequence", "max.sequence", "min.revision", "max.revision", "min.timestamp", "max.timestamp",
)  # fmt: skip


@dataclass
class Snapshots:
    """The newest version, kept open. For any thread; checking the log is cheap."""

    root: Path
    clock: Callable[[], float] = time.monotonic
    _table: DeltaTable | None = None
    _newest: Snapshot = EMPTY
    _looked: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> Snapshot:
        """Not older than a second."""
        with self._lock:
            if self.clock() - self._looked >= FRESH_SECONDS:
                self._look()
            return self._newest

    def refresh(self) -> Snapshot:
        """As of now."""
        with self._lock:
            self._look()
            return self._newest

    def _look(self) -> None:
        now = self.clock()
        if not has_lake(self.root):
            self._table, self._newest, self._looked = None, EMPTY, now
            return
        # Imported here: a server without a lake never pays for it.
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if self._table is not None:
            try:
                self._table.update_incremental()
            except DeltaError:
                # The log between was cleaned up, or it is another table by now.
                self._table = None
        if self._table is None:
            self._table = DeltaTable(str(self.root))
            self._newest = EMPTY
        if self._table.version() != self._newest.version:
            self._newest = _snapshot(self._table)
        self._looked = now


def _snapshot(table: DeltaTable) -> Snapshot:
    buckets: list[list[DataFile]] = [[] for _ in range(BUCKETS)]
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows:
        lists = [
            (actions.column(name).cast(pa.int64()) if "timestamp" in name else actions.column(name)).to_pylist()
            for name in _COLUMNS
        ]
        for bucket, *row in zip(actions.column(f"partition.{BUCKET}").to_pylist(), *lists, strict=True):
            buckets[bucket].append(DataFile(*row))
    for files in buckets:
        files.sort(key=_by_sequence)
    return Snapshot(
        table.version(),
        table.transaction_version(SEQUENCE) or 0,
        table.transaction_version(RETENTION) or 0,
        tuple(map(tuple, buckets)),
    )


def _by_sequence(file: DataFile) -> tuple[int, int]:
    return file.first, file.last
