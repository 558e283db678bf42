"""Events of many entities, each once, from the lake and the journal together: planned in one place, read in any.

A plan is made of one version of the lake, with its files and the sequence up to which it is complete, and of the
journal after that sequence. So nothing is doubled or missed at the seam, whatever the job `history` does meanwhile.
Not here: one entity in order (`reader`), rows of tables (`projection`). Read next: `snapshot`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock import log
from penstock.history.lake_root import LakeRoot, open_file, unavailable
from penstock.history.lake_url import LakeUrl
from penstock.history.snapshot import Snapshot, Snapshots
from penstock.journal.damage import Damage
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader, Slice
from penstock.journal.record import SCHEMA as RECORD
from penstock.journal.selection import EventSelection

_log = log.get(__name__)

_WILD = re.compile(r"[*?]")
_ENTITY = RECORD.names.index("entity")


class LakeChanged(Exception):
    """A file of a plan is gone: it was replaced more than an hour ago. A new plan has its rows elsewhere."""


@dataclass(frozen=True)
class ScanShare:
    """What one task reads: files of the lake, of them sequences from `first` to `last`; slices of the journal."""

    files: tuple[str, ...] = ()
    first: int = 0
    last: int = 0
    slices: tuple[Slice, ...] = ()


class JournalView(Protocol):
    """What a scan needs of a journal: `JournalReader` of a directory has it, and what reads a server's."""

    def poll(self) -> int: ...
    def earliest(self) -> int: ...
    def plan(self, start: int | None, stop: int | None, parts: int, selection: EventSelection) -> list[Any]: ...
    def read(self, start: int, stop: int) -> Iterator[Any]: ...
    def read_slices(self, slices: Any, selection: EventSelection) -> Iterator[Any]: ...


class TableScan:
    """Of one journal and its lake, either of which may be missing. For one thread."""

    def __init__(
        self,
        journal: Path | None,
        lake: LakeRoot,
        selection: EventSelection,
        report: Callable[[Damage], None] | None = None,
        reader: JournalView | None = None,
    ) -> None:
        """Without a directory, `reader` has the journal."""
        self._journal = journal
        self._lake = lake
        self._selection = selection
        self._reader: JournalView = reader or JournalReader(journal or Path(), report=report)
        self._snapshots = Snapshots(lake)

    # -- planning -------------------------------------------------------------------------------------------------

    def earliest(self) -> int:
        """The first sequence that there may be."""
        if self._snapshots.current().files():
            return 1
        return self._reader.earliest() if self._has_journal() else 1

    def plan(self, first: int = 1, stop: int | None = None, parts: int = 1) -> list[ScanShare]:
        """Everything from `first` to before `stop`; None: what is there now. What lake and journal both have is
        read from the lake, which is quicker for a few of many items.

        A gap, which is what retention dropped and the lake does not have, is logged.
        """
        floor = 0
        while True:
            snapshot = self._snapshots.refresh()
            shares = self._lake_shares(snapshot, first, snapshot.sequence if stop is None else stop - 1, parts)
            start = max(first, snapshot.sequence + 1, floor)
            try:
                return shares + self._journal_shares(start if snapshot.sequence or first > 1 else None, stop, parts)
            except Expired as error:
                if self._snapshots.refresh().version == snapshot.version:
                    _log.warning("history has a gap", lake=str(self._lake), after=start - 1, earliest=error.earliest)
                    floor = error.earliest

    def plan_range(self, first: int, stop: int, parts: int = 1, *, skips_gap: bool = False) -> list[ScanShare]:
        """The same for a stream: what lake and journal both have is read from the journal, because the newest events
        are there as a whole. Raises Expired for what neither has, unless it is to be skipped.
        """
        while True:
            try:
                return self._journal_shares(first, stop, parts)
            except Expired as error:
                snapshot = self._snapshots.refresh()
                # As much as possible of it from the journal still.
                seam = min(stop, max(error.earliest, first), max(snapshot.sequence + 1, first))
                shares = self._lake_shares(snapshot, first, seam - 1, parts)
                try:
                    return shares + self._journal_shares(seam, stop, parts)
                except Expired as gap:
                    if self._snapshots.refresh().version != snapshot.version:
                        continue
                    if not skips_gap:
                        raise
                    return shares + self._journal_shares(gap.earliest, stop, parts)

    def _has_journal(self) -> bool:
        return self._journal is None or self._journal.is_dir()

    def _journal_shares(self, start: int | None, stop: int | None, parts: int) -> list[ScanShare]:
        if not self._has_journal() or (start is not None and stop is not None and start >= stop):
            return []
        planned = self._reader.plan(start, stop, parts, self._selection)
        return [ScanShare(slices=tuple(slices)) for slices in planned if slices]

    def _lake_shares(self, snapshot: Snapshot, first: int, last: int, parts: int) -> list[ScanShare]:
        last = min(last, snapshot.sequence)
        files = [file.path for file in snapshot.files() if file.last >= first and file.first <= last]
        if not files or first > last:
            return []
        shares: list[list[str]] = [[] for _ in range(min(parts, len(files)))]
        for number, path in enumerate(files):
            shares[number % len(shares)].append(path)
        return [ScanShare(tuple(each), first, last) for each in shares]

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, share: ScanShare) -> Iterator[Any]:
        """Record batches of the journal's columns. Raises LakeChanged, and Expired if nobody has it any more."""
        for path in share.files:
            yield from self._in_file(path, share.first, share.last)
        given = 0
        try:
            for batch in self._reader.read_slices(share.slices, self._selection):
                given = batch.column("sequence")[-1].as_py()
                yield batch
        except Expired:
            # Segments were dropped since the plan was made: then the lake has them, unless somebody deleted files.
            for piece in share.slices:
                if piece.last > given:
                    yield from self._piece(piece, max(piece.first, given + 1))

    def _piece(self, piece: Slice, first: int) -> Iterator[Any]:
        """What one slice has from a sequence on, from wherever it is now. Raises Expired."""
        try:
            for batch in self._reader.read_slices([piece], self._selection):
                chosen = _within(batch, first, piece.last)
                if chosen.num_rows:
                    first = chosen.column("sequence")[-1].as_py() + 1
                    yield chosen
        except Expired:
            snapshot = self._snapshots.refresh()
            if snapshot.sequence < piece.last:
                raise
            for file in snapshot.files():
                if file.first <= piece.last and file.last >= first:
                    yield from self._in_file(file.path, first, piece.last)

    def _in_file(self, path: str, first: int, last: int) -> Iterator[Any]:
        try:
            yield from self._rows_in_file(path, first, last)
        except FileNotFoundError:
            raise LakeChanged(
                f"the file {path} of the lake in {self._lake} was replaced; run the query again"
            ) from None
        except OSError as error:
            raise unavailable(self._lake, "read", error) from None

    def _rows_in_file(self, path: str, first: int, last: int) -> Iterator[Any]:
        is_local = not isinstance(self._lake, LakeUrl)
        with pq.ParquetFile(open_file(self._lake, path), memory_map=is_local, pre_buffer=not is_local) as file:
            for number in range(file.metadata.num_row_groups):
                if not self._may_hold(file.metadata.row_group(number).column(_ENTITY).statistics):
                    continue
                table = file.read_row_group(number, columns=RECORD.names, use_threads=False).cast(RECORD)
                for batch in table.to_batches():
                    chosen = self._selection.apply(_within(batch, first, last))
                    if chosen.num_rows:
                        yield chosen

    def _may_hold(self, statistics: Any) -> bool:
        """Rows are sorted by entity, so that a group with other beginnings has nothing of a pattern."""
        if statistics is None or not statistics.has_min_max or not self._selection.entities:
            return True
        for pattern in self._selection.entities:
            wild = _WILD.search(pattern)
            literal = pattern if wild is None else pattern[: wild.start()]
            if statistics.min[: len(literal)] <= literal and statistics.max >= literal:
                return True
        return False


def _within(batch: Any, first: int, last: int) -> Any:
    sequences = batch.column("sequence")
    bounds = pa.scalar(first, pa.int64()), pa.scalar(last, pa.int64())
    return batch.filter(pc.and_(pc.greater_equal(sequences, bounds[0]), pc.less_equal(sequences, bounds[1])))
