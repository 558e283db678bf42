"""Reading a journal while it is written, in any process: from a sequence or a time, by entity and kind, in slices.

Only what is committed is visible, so that nothing read can be lost in a crash. Damage is reported once and skipped.
Imports neither the writer's thread nor kernel nor server: pipelines use this. Read next: docs/journal.md, "Reading".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.journal.damage import Damage
from penstock.journal.disk import DirectoryDisk, Disk
from penstock.journal.errors import Expired
from penstock.journal.index import Block, index_damaged
from penstock.journal.indexes import Indexes
from penstock.journal.mark import MARK_DAMAGED, MARK_NAME, Mark, read_mark
from penstock.journal.recovery import bases, read_first_header, read_header
from penstock.journal.scan import Frame, scan
from penstock.journal.segment import DATA_START, FrameHeader, SegmentHeader, decode_payload, segment_name
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.journal.sidecar import SidecarDamaged
from penstock.journal.unfinished import NoteDamaged, read_note

# Small frames are joined until a batch has this many records, or bytes: what one step of a consumer is made for.
BATCH_ROWS = 16_384
BATCH_BYTES = 8 * 1024 * 1024

# Small frames are also filtered together, as soon as they have this many bytes: each filtering call has a cost.
SELECTED_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of one segment, as plain data: bytes `position` to `end`, of which records `first` to `last` are wanted.

    `expected` is the sequence of the frame at `position`. It stays right until retention drops the segment.
    """

    segment: int
    position: int
    end: int
    expected: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """`last` and `end` bound what is committed; `header` is None when it cannot be read."""

    base: int
    header: SegmentHeader | None
    last: int
    end: int
    active: bool


class JournalReader:
    """For one thread. `report` is called for each damaged place, the first time it is met.

    `indexes` may be shared with other readers of the same journal, in any thread.
    """

    def __init__(
        self,
        disk: Disk | Path,
        report: Callable[[Damage], None] | None = None,
        indexes: Indexes | None = None,
    ) -> None:
        self._disk: Disk = DirectoryDisk(disk) if isinstance(disk, Path) else disk
        self._report = report
        # Every damaged place met so far.
        self.damages: list[Damage] = []
        self._told: set[tuple[str, int, int | None]] = set()
        self._headers: dict[int, SegmentHeader | None] = {}
        self._indexes = indexes or Indexes()

    # -- where the journal stands ---------------------------------------------------------------------------------

    def poll(self) -> int:
        """The last sequence that can be read; 0 when there is none. One small read: call it as often as you like."""
        mark = self._mark()
        return mark.sequence if mark is not None else 0

    def earliest(self) -> int:
        """The first sequence that retention has left; in an empty journal the first to come."""
        segments = bases(self._disk)
        return segments[0] if segments else self.poll() + 1

    def sequence_at(self, timestamp: int) -> int:
        """The first record, in the order of sequences, at or after a time; behind the last when there is none."""
        latest = self.poll()
        for batch in self.read(None, latest + 1, EventSelection(since=timestamp), rows=1):
            return int(batch.column("sequence")[0].as_py())
        return latest + 1

    def salt_at(self, sequence: int) -> int | None:
        """The salt of the segment that a sequence is in: whoever keeps both knows later whether it is the same journal.

        None when that segment was dropped, or cannot be read.
        """
        base = max((base for base in bases(self._disk) if base <= sequence), default=None)
        header = self._header(base, active=True) if base is not None else None
        return header.salt if header is not None else None

    # -- reading --------------------------------------------------------------------------------------------------

    def read(
        self,
        start: int | None = None,
        stop: int | None = None,
        selection: EventSelection = EVERYTHING,
        *,
        rows: int = BATCH_ROWS,
    ) -> Iterator[Any]:
        """Record batches from `start` (None: the earliest) to before `stop` (None: what is there now), in order.

        Raises Expired when `start` was dropped, or what comes next is dropped while it is read.
        """
        return _joined(self._pieces(start, stop, selection), rows)

    def last(self, start: int, selection: EventSelection) -> Any:
        """The last record from `start` on, as a batch of one; None when there is none. Read backwards: soon found.

        Raises Expired as `read` does.
        """
        for tile in reversed(list(self._slices(start, None, selection, tiled=True))):
            newest = deque(self._read_slice(tile, selection), maxlen=1)
            if newest:
                return newest[0].slice(newest[0].num_rows - 1)
        return None

    def seek(self, start: int, entity: str, revision: int) -> int:
        """A sequence from `start` on before which an entity has neither this revision nor a later one.

        Found by binary search, because revisions and sequences rise together: first among segments, then among blocks.
        """
        selection = EventSelection(entities=(entity,))
        segments = [each for each in self._segments() if each.last >= start and each.header is not None]
        if not segments:
            return start

        def first_record(piece: Slice | None) -> Any:
            return None if piece is None else next(self._read_slice(piece, selection), None)

        def of_segment(number: int) -> Any:
            whole, blocks = self._places(segments[number], start, selection)
            return first_record(_slice_of(whole, blocks[:1]) if blocks else whole if blocks is None else None)

        search = _RevisionSearch(revision, start)
        number = search.among([each.base for each in segments], of_segment)
        whole, blocks = self._places(segments[number], start, selection)
        if not blocks:
            return max(search.found, whole.first) if number else search.found

        def of_block(number: int) -> Any:
            return first_record(_slice_of(whole, blocks[number : number + 1]))

        place = search.among([block.first for block in blocks], of_block)
        first = max(whole.first, blocks[place].first)
        if search.found <= first:
            # How far behind its beginning, its first record tells.
            search.look(place, place + 1, of_block)
        # In the very first place, what was dropped may be wanted, too: who reads from `start` is told.
        return max(search.found, first) if number or place else search.found

    def plan(
        self, start: int | None, stop: int | None, parts: int, selection: EventSelection = EVERYTHING
    ) -> list[list[Slice]]:
        """The same records in at most `parts` shares of about equal bytes, to be read anywhere by `read_slices`."""
        if parts < 1:
            raise ValueError(f"parts is {parts}; it must be at least 1")
        tiles = [tile for tile in self._slices(start, stop, selection, tiled=True) if tile.first <= tile.last]
        total = sum(tile.end - tile.position for tile in tiles)
        shares: list[list[Slice]] = []
        done = 0
        for tile in tiles:
            if not shares or done >= total * len(shares) / parts:
                shares.append([])
            share = shares[-1]
            if share and share[-1].segment == tile.segment and share[-1].end == tile.position:
                share[-1] = replace(share[-1], end=tile.end, last=tile.last)
            else:
                share.append(tile)
            done += tile.end - tile.position
        return shares

    def read_slices(
        self, slices: Iterable[Slice], selection: EventSelection = EVERYTHING, *, rows: int = BATCH_ROWS
    ) -> Iterator[Any]:
        """What one share of a plan holds. Needs nothing but the files: any process may do it, and do it again."""
        return _joined((batch for piece in slices for batch in self._read_slice(piece, selection)), rows)

    def verify(self) -> list[Damage]:
        """Read everything, to find what is damaged."""
        before = len(self.damages)
        for _ in self.read():
            pass
        return self.damages[before:]

    # -- inside ---------------------------------------------------------------------------------------------------

    def _pieces(self, start: int | None, stop: int | None, selection: EventSelection) -> Iterator[Any]:
        for piece in self._slices(start, stop, selection, tiled=False):
            yield from self._read_slice(piece, selection)

    def _slices(
        self, start: int | None, stop: int | None, selection: EventSelection, *, tiled: bool
    ) -> Iterator[Slice]:
        segments = self._segments()
        latest = segments[-1].last if segments else 0
        stop = latest + 1 if stop is None else min(stop, latest + 1)
        if start is None:
            start = segments[0].base if segments else 1
        elif segments and start < segments[0].base:
            header = segments[0].header
            # Numbers between two segments were given but never committed: nothing of them was dropped.
            if header is None or start <= header.previous:
                raise _expired(start, segments[0].base)
        for segment in segments:
            if segment.last < start or segment.base >= stop:
                continue
            first, last = max(start, segment.base), min(stop - 1, segment.last)
            if segment.header is None:
                self._tell(Damage(segment_name(segment.base), 0, segment.end, first, last, "the header cannot be read"))
                continue
            yield from self._in_segment(segment, first, last, selection, tiled=tiled)

    def _places(self, segment: _Segment, start: int, selection: EventSelection) -> tuple[Slice, list[Block] | None]:
        """What is wanted of a segment as a whole, and its blocks from `start` on; None when there is no index."""
        first = max(start, segment.base)
        whole = Slice(segment.base, DATA_START, segment.end, segment.base, first, segment.last)
        blocks = self._blocks(segment, selection)
        return whole, None if blocks is None else blocks[bisect_left(blocks, first, key=_last_of) :]

    def _in_segment(
        self, segment: _Segment, first: int, last: int, selection: EventSelection, *, tiled: bool
    ) -> Iterator[Slice]:
        whole = Slice(segment.base, DATA_START, segment.end, segment.base, first, last)
        blocks = self._blocks(segment, selection)
        if blocks is None:
            yield whole
        elif not selection.is_everything:
            yield from _chosen(whole, blocks, tiled)
        elif tiled:
            yield from _tiles(whole, blocks)
        else:
            yield _from_block(whole, blocks)

    def _read_slice(self, piece: Slice, selection: EventSelection) -> Iterator[Any]:
        name = segment_name(piece.segment)
        try:
            file = self._disk.view(name)
        except FileNotFoundError:
            raise _expired(piece.first, self.earliest()) from None
        try:
            header = read_first_header(file, name)
            if header is None:
                header, damages = read_header(file, name)
                for damage in damages:
                    self._tell(damage)
            if header is None:
                return
            perhaps = selection.test()

            def wanted(frame: FrameHeader) -> bool:
                return frame.last >= piece.first and perhaps(frame)

            # Names are stored in a frame as plain bytes. Searching for them is much faster than decoding it.
            names = selection.names() if header.schema.field("entity").type == pa.utf8() else None
            waiting: list[Any] = []
            size, enough = 0, 0
            for entry in scan(file, name, header.salt, piece.position, piece.end, piece.expected, piece.last, wanted):
                if isinstance(entry, Damage):
                    self._tell(entry)
                elif entry.payload is not None and (names is None or _names_one(entry.payload, names)):
                    batch = self._decode(name, entry, header)
                    clipped = None if batch is None else _clipped(batch, entry.header, piece)
                    # All that was in it may have been erased.
                    if clipped is not None and clipped.num_rows:
                        waiting.append(clipped)
                        size += entry.header.length
                    if size > enough:
                        yield from _selected(waiting, selection)
                        # The first frame at once, for readers that want one record; then more and more together.
                        waiting, size, enough = [], 0, min(enough * 2 + size, SELECTED_BYTES)
            yield from _selected(waiting, selection)
        finally:
            file.close()

    def _decode(self, name: str, frame: Frame, header: SegmentHeader) -> Any:
        assert frame.payload is not None
        try:
            return decode_payload(frame.payload, frame.header, header)
        except (pa.ArrowException, ValueError) as error:
            head = frame.header
            self._tell(Damage(name, frame.position, head.span, head.first, head.last, f"cannot be decoded: {error}"))
            return None

    def _tell(self, damage: Damage) -> None:
        key = damage.file, damage.position, damage.first
        if key in self._told:
            return
        self._told.add(key)
        self.damages.append(damage)
        if self._report is not None:
            self._report(damage)

    def _mark(self) -> Mark | None:
        """Without a mark that can be trusted: up to the last whole frame, as recovery would see it."""
        mark = read_mark(self._disk)
        if mark is not None:
            return mark
        if MARK_NAME in self._disk.names():
            self._tell(MARK_DAMAGED)
        segments = bases(self._disk)
        if not segments:
            return None
        base = segments[-1]
        file = self._disk.view(segment_name(base))
        try:
            header, _ = read_header(file, segment_name(base))
            if header is None:
                return Mark(base, file.size(), base, base)
            position, sequence = DATA_START, header.previous
            for entry in scan(file, segment_name(base), header.salt, DATA_START, file.size(), base):
                if isinstance(entry, Damage):
                    break
                position, sequence = entry.position + entry.header.span, entry.header.last
        finally:
            file.close()
        with suppress(NoteDamaged):
            note = read_note(self._disk)
            if note is not None and sequence < note.last:
                return Mark(note.segment, note.position, note.previous, note.previous)
        return Mark(base, position, sequence, sequence)

    def _segments(self) -> list[_Segment]:
        mark = self._mark()
        if mark is None:
            return []
        known = [base for base in bases(self._disk) if base <= mark.segment]
        headers = {base: self._header(base, base == mark.segment) for base in known}
        self._headers = {base: header for base, header in headers.items() if base != mark.segment}
        if mark.segment not in known and mark.sequence >= mark.segment:
            name = segment_name(mark.segment)
            self._tell(Damage(name, 0, 0, mark.segment, mark.sequence, "the file is missing"))
        result = []
        for base, following in zip(known, [*known[1:], None], strict=True):
            header = headers[base]
            if base == mark.segment:
                result.append(_Segment(base, header, mark.sequence, mark.position, True))
                continue
            next_header = headers[following] if following is not None else None
            last = next_header.previous if next_header is not None else (following or mark.segment) - 1
            result.append(_Segment(base, header, last, self._size(base), False))
        return result

    def _header(self, base: int, active: bool) -> SegmentHeader | None:
        # An empty segment is replaced by one of the same name at the next start: only sealed ones stay as they are.
        if not active and base in self._headers:
            return self._headers[base]
        try:
            file = self._disk.view(segment_name(base))
        except FileNotFoundError:
            return None
        try:
            header, damages = read_header(file, segment_name(base))
            if header is not None:
                for damage in damages:
                    self._tell(damage)
            return header
        finally:
            file.close()

    def _size(self, base: int) -> int:
        try:
            file = self._disk.view(segment_name(base))
        except FileNotFoundError:
            return DATA_START
        try:
            return file.size()
        finally:
            file.close()

    def _blocks(self, segment: _Segment, selection: EventSelection) -> list[Block] | None:
        """Those that may hold something wanted; None when there is no index."""
        if segment.active:
            assert segment.header is not None
            return self._indexes.active(self._disk, segment.header, segment.end, segment.last, selection)
        try:
            index = self._indexes.sealed(self._disk, segment.base)
        except SidecarDamaged:
            self._tell(index_damaged(segment.base))
            return None
        return None if index is None else index.select(selection)


class _RevisionSearch:
    """Where a revision of one entity is, by looking at the first record of places.

    Each revision takes at least one sequence. So a record tells not only on which side of it another revision is, but
    also how far away it is at least: for an entity that many records are of, that is almost where it is.
    """

    def __init__(self, revision: int, start: int) -> None:
        self._revision = revision
        # Before this sequence there is neither the revision nor a later one; behind the other there is not the
        # revision.
        self.found = start
        self._limit: int | None = None

    def among(self, firsts: list[int], record: Callable[[int], Any]) -> int:
        """Of places in their order, by their first sequences, the last that is known to begin before the revision."""
        low, high = 0, len(firsts)
        while True:
            middle = (low + high) // 2
            nearest = min(bisect_right(firsts, self.found), high) - 1
            if nearest > low:
                low, middle = nearest, nearest + 1
            if self._limit is not None:
                furthest = bisect_right(firsts, self._limit)
                if furthest < high:
                    high, middle = furthest, furthest - 1
            if high - low <= 1:
                return low
            at = self.look(middle, high, record)
            if at is None:
                high = middle
            else:
                low = at

    def look(self, at: int, high: int, record: Callable[[int], Any]) -> int | None:
        """The first place from `at` on with a record of the entity, if that is before the revision."""
        for number in range(at, high):
            batch = record(number)
            if batch is not None:
                missing = self._revision - batch.column("revision")[0].as_py()
                there = batch.column("sequence")[0].as_py() + missing
                if missing > 0:
                    self.found = max(self.found, there)
                    return number
                self._limit = there if self._limit is None else min(self._limit, there)
                return None
        return None


def _expired(wanted: int, earliest: int) -> Expired:
    return Expired(f"sequence {wanted} was dropped by retention; the earliest left is {earliest}", earliest)


def _from_block(whole: Slice, blocks: list[Block]) -> Slice:
    """Begin at the block that holds the first wanted record."""
    number = bisect_left(blocks, whole.first, key=_last_of)
    if number == len(blocks) or blocks[number].first > whole.first:
        # It is in none of them: there is damage, which is met when the block before is left.
        number -= 1
    if number < 0:
        return whole
    return replace(whole, position=blocks[number].position, expected=blocks[number].first)


def _last_of(block: Block) -> int:
    return block.last


def _tiles(whole: Slice, blocks: list[Block]) -> Iterator[Slice]:
    """One slice for each block, with what lies between it and the next: nothing is left out, damage included."""
    starts = [(DATA_START, whole.expected), *((block.position, block.first) for block in blocks[1:])]
    ends = [*starts[1:], (whole.end, whole.last + 1)]
    for (position, expected), (end, following) in zip(starts, ends, strict=True):
        first, last = max(whole.first, expected), min(whole.last, following - 1)
        if first <= last:
            yield Slice(whole.segment, position, end, expected, first, last)


def _chosen(whole: Slice, blocks: list[Block], tiled: bool) -> Iterator[Slice]:
    """Slices of neighbouring blocks, or of each one."""
    run: list[Block] = []
    for block in blocks:
        if block.last < whole.first or block.first > whole.last:
            continue
        if run and (tiled or run[-1].end != block.position):
            yield _slice_of(whole, run)
            run = []
        run.append(block)
    if run:
        yield _slice_of(whole, run)


def _slice_of(whole: Slice, run: list[Block]) -> Slice:
    first, last = run[0], run[-1]
    bounds = max(whole.first, first.first), min(whole.last, last.last)
    return Slice(whole.segment, first.position, last.end, first.first, *bounds)


def _names_one(payload: memoryview, names: tuple[bytes, ...]) -> bool:
    data = bytes(payload)
    return any(name in data for name in names)


def _clipped(batch: Any, frame: FrameHeader, piece: Slice) -> Any:
    if frame.first >= piece.first and frame.last <= piece.last:
        return batch
    first, last = max(piece.first, frame.first), min(piece.last, frame.last)
    if batch.num_rows == frame.last - frame.first + 1:
        return batch.slice(first - frame.first, last - first + 1)
    # Some were erased: the others have kept their numbers.
    sequences = batch.column("sequence").to_pylist()
    start = bisect_left(sequences, first)
    return batch.slice(start, bisect_right(sequences, last) - start)


def _selected(batches: list[Any], selection: EventSelection) -> Iterator[Any]:
    """What is wanted of some batches, none of them empty."""
    if selection.is_everything:
        yield from batches
    elif batches:
        chosen = selection.apply(_one(batches))
        if chosen.num_rows:
            yield chosen


def _one(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _joined(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    waiting: list[Any] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= BATCH_BYTES:
            yield _one(waiting)
            waiting, count, size = [], 0, 0
    if waiting:
        yield _one(waiting)
