"""What a reader knows of the segment being written: its blocks, and which entities are in them.

Full blocks are taken from `N.blocks`, which the writer leaves beside the segment. What comes after the last of them, or
all of it where that file is missing or damaged, is looked at here, once. Memory is that of a sealed segment's index:
each name once, and 8 bytes for each entity of each block. Not here: who keeps it (`indexes`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.arrays import numbers, text
from penstock.journal.blocks import BLOCKS, blocks_name, saved_block
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk, ReadableFile
from penstock.journal.index import Block, block_of
from penstock.journal.scan import Frame, scan
from penstock.journal.segment import DATA_START, FrameHeader, SegmentHeader, decode_payload, segment_name
from penstock.journal.selection import EventSelection

# Pieces of an array that are joined into one when there are more: less copies often, more makes each look slow.
_PIECES = 32


class ActiveIndex:
    """Of one segment; for one thread at a time. It is told where the committed part ends, and looks no further."""

    def __init__(self, disk: Disk, header: SegmentHeader) -> None:
        self.salt = header.salt
        self.base = header.base
        self._disk = disk
        self._header = header
        # Bytes of `N.blocks` that were read, and what they said.
        self._read = 0
        self._saved: list[Block] = []
        self._names = _Pieces(pa.utf8())
        # For each entity of each block its number, and the block's.
        self._entities = _Pieces(pa.int32())
        self._places = _Pieces(pa.int32())
        # What comes after the saved blocks.
        self._tail: list[_TailBlock] = []
        self._end = DATA_START
        self._expected = header.base

    def select(self, end: int, last: int, selection: EventSelection) -> list[Block]:
        """Blocks that begin before byte `end` and in which something wanted may be; `last` is the sequence there."""
        file = self._disk.view(segment_name(self.base))
        try:
            if end > self._end:
                self._take_saved(end)
                self._take_frames(file, end, last)
            test = selection.test()
            found = [block for block in self._chosen(selection) if block.position < end and test(block)]
            for each in self._tail:
                if each.block.position < end and test(each.block) and each.may_hold(file, self._header, selection):
                    # A copy, because it grows.
                    found.append(replace(each.block))
            return found
        finally:
            file.close()

    def _take_saved(self, end: int) -> None:
        try:
            file = self._disk.view(blocks_name(self.base))
        except FileNotFoundError:
            return
        frames: list[Frame] = []
        batches: list[Any] = []
        try:
            expected = self._saved[-1].last + 1 if self._saved else self.base
            for entry in scan(file, blocks_name(self.base), self.salt, self._read, file.size(), expected):
                # One that is being written, or damaged: the numbers after it mean nothing without it.
                if isinstance(entry, Damage):
                    break
                try:
                    batches.append(saved_block(entry))
                except (pa.ArrowException, ValueError):
                    break
                frames.append(entry)
        finally:
            file.close()
        if frames:
            self._take(frames, pa.Table.from_batches(batches, BLOCKS), end)

    def _take(self, frames: list[Frame], table: Any, end: int) -> None:
        """Those blocks that follow on what is known, and end before `end`: all at once, because there may be many."""
        before = len(self._saved)
        for frame, first, last in zip(frames, table["position"].to_pylist(), table["end"].to_pylist(), strict=True):
            if last > end or first != self._saved_end():
                break
            head = frame.header
            self._saved.append(Block(first, last, head.first, head.last, head.earliest, head.latest, head.kinds))
            self._read = frame.position + head.span
        table = table.slice(0, len(self._saved) - before).combine_chunks()
        if not table.num_rows:
            return
        self._names.add(pc.list_flatten(table["names"]).chunks)
        self._entities.add(pc.list_flatten(table["entities"]).chunks)
        places = pc.list_parent_indices(table["entities"].combine_chunks())
        self._places.add([pc.add(places, numbers((before,), pa.int64())[0]).cast(pa.int32())])
        end = self._saved_end()
        if end > self._end:
            self._end, self._expected = end, self._saved[-1].last + 1
        self._tail = [each for each in self._tail if each.block.position >= end]

    def _saved_end(self) -> int:
        return self._saved[-1].end if self._saved else DATA_START

    def _take_frames(self, file: ReadableFile, end: int, last: int) -> None:
        name = segment_name(self.base)
        for entry in scan(file, name, self.salt, self._end, end, self._expected, wanted=_no_payload):
            if isinstance(entry, Damage):
                continue
            tail = self._tail[-1] if self._tail else None
            if tail is None or tail.block.is_full or tail.block.end != entry.position:
                self._tail.append(_TailBlock(block_of(entry.position, entry.header)))
            else:
                tail.block.extend(entry.header)
        self._end = end
        self._expected = last + 1

    def _chosen(self, selection: EventSelection) -> list[Block]:
        if not selection.entities or not self._saved:
            return self._saved
        wanted = pc.indices_nonzero(selection.matches(self._names.whole())).cast(pa.int32())
        if not len(wanted):
            return []
        mask = pc.is_in(self._entities.whole(), value_set=wanted)
        places = pc.unique(self._places.whole().filter(mask)).to_pylist()
        return [self._saved[place] for place in sorted(places)]


class _TailBlock:
    """A block that `N.blocks` does not have. Its entities are looked at when somebody wants to know."""

    def __init__(self, block: Block) -> None:
        self.block = block
        # How far its entities are known.
        self._end = block.position
        self._expected = block.first
        self._names: set[str] = set()
        self._array: Any = None
        # Something in it cannot be read: who reads it is told.
        self._damaged = False

    def may_hold(self, file: ReadableFile, header: SegmentHeader, selection: EventSelection) -> bool:
        if not selection.entities:
            return True
        if self._end < self.block.end:
            self._look(file, header)
        if self._array is None:
            self._array = text(list(self._names))
        return self._damaged or bool(pc.any(selection.matches(self._array)).as_py())

    def _look(self, file: ReadableFile, header: SegmentHeader) -> None:
        name = segment_name(header.base)
        for entry in scan(file, name, header.salt, self._end, self.block.end, self._expected):
            if isinstance(entry, Damage) or entry.payload is None:
                self._damaged = True
                continue
            try:
                batch = decode_payload(entry.payload, entry.header, header)
            except (pa.ArrowException, ValueError):
                self._damaged = True
                continue
            self._names.update(batch.column("entity").to_pylist())
        self._end, self._expected = self.block.end, self.block.last + 1
        self._array = None


class _Pieces:
    """An array that grows."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._pieces: list[Any] = []

    def add(self, pieces: list[Any]) -> None:
        self._pieces += pieces
        if len(self._pieces) > _PIECES:
            self._pieces = [pa.concat_arrays(self._pieces)]

    def whole(self) -> Any:
        return pa.chunked_array(self._pieces, self._kind)


def _no_payload(frame: FrameHeader) -> bool:
    return False
