"""The index of a sealed segment: blocks of frames with what they hold, and for each entity the blocks it occurs in.

Built by the writer as it goes, or by recovery; saved as a sidecar. Without one a reader looks at every frame.
Of the segment being written, each block is saved as soon as it is full: see `blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.arrays import numbers, text
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk
from penstock.journal.segment import DATA_START, FrameHeader
from penstock.journal.selection import EventSelection
from penstock.journal.sidecar import read_sidecar, write_sidecar

SUFFIX = ".index"

# A block is closed at this many bytes: less makes the index large, more makes a reader of one entity read in vain.
BLOCK_BYTES = 256 * 1024


@dataclass(slots=True)
class Block:
    """Frames that follow one another, from byte `position` to `end`."""

    position: int
    end: int
    first: int
    last: int
    earliest: int
    latest: int
    kinds: int

    @property
    def is_full(self) -> bool:
        """The next frame begins another block."""
        return self.end - self.position >= BLOCK_BYTES

    def extend(self, frame: FrameHeader) -> None:
        self.end += frame.span
        self.last = frame.last
        self.earliest = min(self.earliest, frame.earliest)
        self.latest = max(self.latest, frame.latest)
        self.kinds |= frame.kinds


def block_of(position: int, frame: FrameHeader) -> Block:
    return Block(position, position + frame.span, frame.first, frame.last, frame.earliest, frame.latest, frame.kinds)


class BlockSink(Protocol):
    """Is told of each block that is full."""

    def add(self, block: Block, names: list[str], entities: list[int]) -> None:
        """`names` are those of entities that were in no block before; `entities` are numbers, in the order of names."""


class IndexBuilder:
    """Is told of each frame of a segment, in order."""

    def __init__(self, sink: BlockSink | None = None) -> None:
        self.blocks: list[Block] = []
        # The number of each entity, and by that number the blocks it is in.
        self._numbers: dict[str, int] = {}
        self._places: list[list[int]] = []
        # Those in the last block, until it is full.
        self._entities: set[str] = set()
        self._sink = sink

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.blocks[-1].end if self.blocks else DATA_START

    def add(self, position: int, frame: FrameHeader, entities: set[str]) -> None:
        block = self.blocks[-1] if self.blocks else None
        # After a damaged place a new block begins, so that blocks hold nothing but frames.
        if block is None or block.is_full or block.end != position:
            self._close_block()
            block = block_of(position, frame)
            self.blocks.append(block)
        else:
            block.extend(frame)
        self._entities |= entities
        if block.is_full:
            self._close_block()

    def places(self) -> dict[str, list[int]]:
        """The blocks that each entity is in."""
        self._close_block()
        return {name: self._places[number] for name, number in self._numbers.items()}

    def save(self, disk: Disk, base: int) -> None:
        """The caller syncs the directory. Raises OSError."""
        self._sink = None
        self._close_block()
        columns = {name: numbers([getattr(block, name) for block in self.blocks], pa.int64()) for name in _PLACES}
        columns["kinds"] = numbers([block.kinds for block in self.blocks], pa.uint64())
        names = text(list(self._numbers))
        ends = numbers(accumulate(map(len, self._places), initial=0), pa.int32())
        places = pa.ListArray.from_arrays(ends, numbers(chain.from_iterable(self._places), pa.int32()))
        tables = [pa.table(columns), pa.table({"entity": names, "blocks": places})]
        write_sidecar(disk, index_name(base), tables)

    def _close_block(self) -> None:
        if not self._entities:
            return
        place = len(self.blocks) - 1
        known = self._numbers
        names = [entity for entity in self._entities if entity not in known]
        for name in names:
            known[name] = len(self._places)
            self._places.append([])
        entities = [known[entity] for entity in self._entities]
        for entity in entities:
            self._places[entity].append(place)
        self._entities = set()
        if self._sink is not None:
            self._sink.add(self.blocks[place], names, entities)


_PLACES = ("position", "end", "first", "last", "earliest", "latest")


def index_damaged(base: int) -> Damage:
    return Damage(index_name(base), 0, 0, 0, -1, "the index cannot be read")


def index_name(base: int) -> str:
    return f"{base:020d}{SUFFIX}"


class SegmentIndex:
    """A saved index. It is a hint: whatever it leads to is checked like everything else."""

    def __init__(self, blocks: list[Block], entities: Any, places: Any) -> None:
        self.blocks = blocks
        self._entities = entities
        self._places = places
        # What was asked for last, and the answer: who seeks asks again and again.
        self._latest: tuple[tuple[str, ...], list[Block]] = (), []

    @property
    def end(self) -> int:
        return self.blocks[-1].end if self.blocks else DATA_START

    def places(self) -> dict[str, list[int]]:
        """The blocks that each entity is in."""
        return dict(zip(self._entities.to_pylist(), self._places.to_pylist(), strict=True))

    def select(self, selection: EventSelection) -> list[Block]:
        """Blocks in which something wanted may be."""
        blocks = self.blocks
        if selection.entities:
            asked, blocks = self._latest
            if asked != selection.entities:
                mask = selection.matches(self._entities)
                numbers = pc.unique(pc.list_flatten(self._places.filter(mask))).to_pylist()
                blocks = [self.blocks[number] for number in sorted(numbers)]
                self._latest = selection.entities, blocks
        if not selection.bounds_frames:
            return blocks
        test = selection.test()
        return [block for block in blocks if test(block)]


def load_index(disk: Disk, base: int) -> SegmentIndex | None:
    """None when there is none. Raises SidecarDamaged."""
    tables = read_sidecar(disk, index_name(base))
    if tables is None:
        return None
    table, entities = tables
    rows = zip(*(table[name].to_pylist() for name in (*_PLACES, "kinds")), strict=True)
    names, places = (entities[name].combine_chunks() for name in ("entity", "blocks"))
    return SegmentIndex([Block(*row) for row in rows], names, places)
