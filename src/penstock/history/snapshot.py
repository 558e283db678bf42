"""One version of the lake: its files by bucket, and up to which sequence they are complete.

Both from the same version of the Delta log, so that a reader that goes on in the journal after that sequence doubles
and misses nothing. Not here: what is in the files (`footers`). Read next: `reader`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import log
from penstock.history.lake_root import LakeRoot, open_table, reading, table_options
from penstock.history.lake_url import LakeUnavailable, LakeUrl
from penstock.history.layout import BUCKET, BUCKETS, RETENTION, SEQUENCE, has_lake

if TYPE_CHECKING:
    from deltalake import DeltaTable

# A version this old is looked at again before a read. An older one is as right, but leaves more to the journal.
FRESH_SECONDS = 1.0
# The same for an object store, where looking is a request.
FRESH_URL_SECONDS = 5.0

_log = log.get(__name__)


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
    size: int


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
    "size_bytes",
)  # fmt: skip


@dataclass
class Snapshots:
    """The newest version, kept open. For any thread; checking the log is cheap."""

    root: LakeRoot
    clock: Callable[[], float] = time.monotonic
    _table: DeltaTable | None = None
    # What the table was opened with: credentials may be replaced.
    _options: dict[str, str] | None = None
    _newest: Snapshot = EMPTY
    _looked: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> Snapshot:
        """Not older than a second, or some at a URL; older if the object store fails, because that is as right."""
        fresh = FRESH_URL_SECONDS if isinstance(self.root, LakeUrl) else FRESH_SECONDS
        with self._lock:
            if self.clock() - self._looked >= fresh:
                try:
                    self._look()
                except LakeUnavailable as error:
                    if self._newest.version < 0:
                        raise
                    _log.warning("the lake's newest version cannot be read, an older one is used", reason=str(error))
                    self._looked = self.clock()
            return self._newest

    def refresh(self) -> Snapshot:
        """As of now. Raises LakeUnavailable."""
        with self._lock:
            self._look()
            return self._newest

    def _look(self) -> None:
        now = self.clock()
        with reading(self.root):
            self._read(table_options(self.root))
        self._looked = now

    def _read(self, options: dict[str, str] | None) -> None:
        if (not isinstance(self.root, LakeUrl) and not has_lake(self.root)) or options != self._options:
            self._table = None
        if self._table is not None:
            self._update(self._table)
        if self._table is None:
            self._table = open_table(self.root)
            self._options = options
        if self._table is None:
            self._newest = EMPTY
        elif self._table.version() != self._newest.version:
            self._newest = _snapshot(self._table)
            if isinstance(self.root, LakeUrl):
                self.root.learn({file.path: file.size for file in self._newest.files()})

    def _update(self, table: DeltaTable) -> None:
        # Imported here: a server without a lake never pays for it.
        from deltalake.exceptions import DeltaError

        try:
            table.update_incremental()
        except DeltaError:
            # The log between was cleaned up, or it is another table by now.
            self._table = None
            self._newest = EMPTY


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
