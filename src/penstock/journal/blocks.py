"""The index of the segment being written, saved block by block: `N.blocks`, until the segment is sealed.

A frame for each block that is full, under the segment's salt: which entities are in it, by numbers, and the names of
those that are new. It is a hint like every index: written after the block was committed, never synced, without an end
or missing after a crash. What is wrong in it is never believed, because frames are checked. Reading it is in `active`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.journal.arrays import numbers, text
from penstock.journal.disk import Disk, WritableFile
from penstock.journal.index import Block
from penstock.journal.scan import Frame
from penstock.journal.segment import encode_frame

BLOCKS_SUFFIX = ".blocks"

# The columns of a block: where it is, the names that are new in it, the numbers of all its entities.
BLOCKS = pa.schema(
    [
        ("position", pa.int64()),
        ("end", pa.int64()),
        ("names", pa.list_(pa.utf8())),
        ("entities", pa.list_(pa.int32())),
    ]
)


def blocks_name(base: int) -> str:
    return f"{base:020d}{BLOCKS_SUFFIX}"


class BlockLog:
    """Written by the journal's writer. It ends when the disk refuses a write: readers scan all frames from there on."""

    def __init__(self, disk: Disk, base: int, salt: int) -> None:
        self._disk = disk
        self._name = blocks_name(base)
        self._salt = salt
        self._position = 0
        self._file: WritableFile | None = None
        self._ended = False

    def add(self, block: Block, names: list[str], entities: list[int]) -> None:
        if self._ended:
            return
        payload = memoryview(_batch(block, names, entities).serialize())
        header, parts = encode_frame(
            payload, self._salt, block.first, block.last, 0, block.earliest, block.latest, block.kinds
        )
        try:
            if self._file is None:
                self._file = self._disk.create(self._name)
            self._file.write(self._position, parts)
        except OSError:
            # The records themselves are committed: nobody may be told of a failure.
            self._ended = True
            return
        self._position += header.span

    def drop(self) -> None:
        """The segment's index has taken its place."""
        self.close()
        if self._position:
            with suppress(OSError):
                self._disk.remove(self._name)

    def close(self) -> None:
        self._ended = True
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                file.close()


def saved_block(frame: Frame) -> Any:
    """What a frame of the log says, as a batch of one row. Raises pa.ArrowException and ValueError."""
    assert frame.payload is not None
    return pa.ipc.read_record_batch(pa.py_buffer(memoryview(frame.payload)[: frame.header.length]), BLOCKS)


def _batch(block: Block, names: list[str], entities: list[int]) -> Any:
    columns = [
        numbers((block.position,), pa.int64()),
        numbers((block.end,), pa.int64()),
        pa.ListArray.from_arrays(numbers((0, len(names)), pa.int32()), text(names)),
        pa.ListArray.from_arrays(numbers((0, len(entities)), pa.int32()), numbers(entities, pa.int32())),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOCKS)
