"""The note about a long append that is being written: where the journal goes back to if the append is not finished.

A long append takes many frames, and perhaps several segments. Readers see none of it before the mark says so; but
recovery trusts whole frames more than a mark that was never synced. So this note is on the disk before the first of the
frames. Unless the last of them is whole, all of them are taken away again. Writing them is in `writer`.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from zlib import crc32

from penstock.journal.blocks import blocks_name
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk
from penstock.journal.index import index_name
from penstock.journal.revisions import revisions_name
from penstock.journal.segment import base_of, segment_name
from penstock.journal.sidecar import replace_file

UNFINISHED_NAME = "unfinished"

_MAGIC = b"PNSTKUNF"
_NOTE = struct.Struct("<8sqqqq")
_CRC = struct.Struct("<I")

NOTE_DAMAGED = Damage(UNFINISHED_NAME, 0, 0, 0, -1, "the note about a long append cannot be read")


@dataclass(frozen=True, slots=True)
class UnfinishedAppend:
    """Before the append, `segment` was committed up to byte `position`, and `previous` was the last sequence.

    `last` is the last sequence of the append: once it is there, the append is finished.
    """

    segment: int
    position: int
    previous: int
    last: int


class NoteDamaged(Exception):
    """Never leaves the journal: recovery tells it as damage."""


def begin(disk: Disk, note: UnfinishedAppend) -> None:
    """On the disk when this returns. Raises OSError."""
    body = _NOTE.pack(_MAGIC, note.segment, note.position, note.previous, note.last)
    replace_file(disk, UNFINISHED_NAME, [body + _CRC.pack(crc32(body))])
    disk.sync_directory()


def read_note(disk: Disk) -> UnfinishedAppend | None:
    """None if there is none. Raises NoteDamaged."""
    try:
        file = disk.view(UNFINISHED_NAME)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, _NOTE.size + _CRC.size)
    finally:
        file.close()
    if len(data) < _NOTE.size + _CRC.size or (crc32(data[: _NOTE.size]),) != _CRC.unpack_from(data, _NOTE.size):
        raise NoteDamaged
    magic, segment, position, previous, last = _NOTE.unpack_from(data)
    if magic != _MAGIC:
        raise NoteDamaged
    return UnfinishedAppend(segment, position, previous, last)


def take_back(disk: Disk, note: UnfinishedAppend) -> None:
    """Remove everything of the append; the note goes last, so that this can be done again. Raises OSError."""
    later = sorted(base for name in disk.names() if (base := base_of(name)) is not None and base > note.segment)
    for base in reversed(later):
        _remove(disk, index_name(base), revisions_name(base), blocks_name(base), segment_name(base))
        # One after the other: with one missing in the middle, nobody could tell that those after it must go.
        disk.sync_directory()
    # They may know more than what is left.
    _remove(disk, index_name(note.segment), revisions_name(note.segment), blocks_name(note.segment))
    file = disk.open(segment_name(note.segment))
    try:
        file.truncate(note.position)
        file.sync()
    finally:
        file.close()
    end(disk)


def end(disk: Disk) -> None:
    """The append is finished, or taken back. A note that comes back after a power cut is still right."""
    _remove(disk, UNFINISHED_NAME)


def _remove(disk: Disk, *names: str) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            disk.remove(name)
