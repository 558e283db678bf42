"""Taking all records of some entities out of a journal that nobody writes, so that no file has them any more.

Records of others keep their sequences and revisions, and their frames the bytes they begin and end at: a slice that was
planned before is right afterwards, and a file that somebody has open stays as it was. Each file is replaced whole, so
that this may be killed at any point and done again. Read next: docs/journal.md, "Erasing".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.arrays import text
from penstock.journal.blocks import BLOCKS_SUFFIX
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk, ReadableFile, WritableFile
from penstock.journal.errors import NotErasable
from penstock.journal.index import index_name
from penstock.journal.recovery import bases, read_header
from penstock.journal.revisions import revisions_name, saved
from penstock.journal.scan import CHUNK, Frame, scan
from penstock.journal.segment import (
    DATA_START,
    ERASED_VERSION,
    TEMPORARY_SUFFIX,
    SegmentHeader,
    decode_payload,
    encode_frame,
    encode_segment_header,
    segment_name,
)
from penstock.journal.sidecar import drop_rows

# Called with the name of a place where a test may let the process die.
Crash = Callable[[str], None]


def erase(disk: Disk, entities: Collection[str], crash: Crash) -> int:
    """Returns how many records were taken out. Whoever calls has the journal's lock, and has recovered it.

    Raises OSError, UnknownVersion, and NotErasable for a segment whose header cannot be read.
    """
    names = tuple(name.encode() for name in entities)
    unwanted = text(list(entities))
    removed = 0
    for base in bases(disk):
        removed += _Segment(disk, base, names, unwanted).erase()
        crash("segment")
        drop_rows(disk, index_name(base), 1, unwanted)
        crash("index")
    for base in saved(disk):
        drop_rows(disk, revisions_name(base), 0, unwanted)
        crash("revisions")
    for name in disk.names():
        # A hint of a segment that has been sealed since.
        if name.endswith(BLOCKS_SUFFIX):
            disk.remove(name)
    disk.sync_directory()
    return removed


class _Segment:
    """One segment, which is copied as soon as there is something in it to be left out."""

    def __init__(self, disk: Disk, base: int, names: tuple[bytes, ...], unwanted: Any) -> None:
        self._disk = disk
        self._base = base
        self._name = segment_name(base)
        self._names = names
        self._unwanted = unwanted
        self._copy: WritableFile | None = None

    def erase(self) -> int:
        file = self._disk.view(self._name)
        try:
            header, _ = read_header(file, self._name)
            if header is None:
                self._refuse_if_named(file)
                return 0
            removed = sum(
                self._leave_out(file, header, entry)
                for entry in scan(file, self._name, header.salt, DATA_START, file.size(), self._base)
            )
            if self._copy is not None:
                self._copy.sync()
                self._disk.rename(self._name + TEMPORARY_SUFFIX, self._name)
                self._disk.sync_directory()
            return removed
        finally:
            file.close()
            if self._copy is not None:
                self._copy.close()

    def _leave_out(self, file: ReadableFile, header: SegmentHeader, entry: Frame | Damage) -> int:
        """How many records of a frame went."""
        if isinstance(entry, Damage):
            self._blank(file, header, entry.position, entry.length)
            return 0
        assert entry.payload is not None
        if not self._is_named(bytes(entry.payload)):
            return 0
        head = entry.header
        try:
            batch = decode_payload(entry.payload, head, header)
        except (pa.ArrowException, ValueError):
            self._blank(file, header, entry.position, head.span)
            return 0
        kept = batch.filter(pc.invert(pc.is_in(batch.column("entity"), value_set=self._unwanted)))
        if kept.num_rows == batch.num_rows:
            return 0
        data = bytes(kept.serialize())
        if len(data) > head.length:
            raise NotErasable(f"{self._name} at byte {entry.position}: fewer records take more bytes than before")
        # As long as before, so that no other frame moves; Arrow looks at nothing behind the batch.
        payload = memoryview(data.ljust(head.length, b"\0"))
        _, parts = encode_frame(
            payload, header.salt, head.first, head.last, head.synced, head.earliest, head.latest, head.kinds
        )
        self._copied(file, header).write(entry.position, parts)
        return int(batch.num_rows - kept.num_rows)

    def _blank(self, file: ReadableFile, header: SegmentHeader, position: int, length: int) -> None:
        """A place that cannot be read stays one; what is erased must not be found in its bytes."""
        if self._is_named(file.read(position, length)):
            self._copied(file, header).write(position, [bytes(length)])

    def _copied(self, file: ReadableFile, header: SegmentHeader) -> WritableFile:
        if self._copy is None:
            self._copy = self._disk.create(self._name + TEMPORARY_SUFFIX)
            self._copy.write(0, [encode_segment_header(replace(header, version=ERASED_VERSION))])
            position = DATA_START
            while data := file.read(position, CHUNK):
                self._copy.write(position, [data])
                position += len(data)
        return self._copy

    def _is_named(self, data: bytes) -> bool:
        return any(name in data for name in self._names)

    def _refuse_if_named(self, file: ReadableFile) -> None:
        if self._is_named(file.read(0, file.size())):
            raise NotErasable(
                f"the header of {self._name} cannot be read, and there are records of the entity in it: restore the "
                "file, or delete it, and try again"
            )
