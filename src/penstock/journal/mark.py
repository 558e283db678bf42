"""The mark: a small file that says up to where the journal is committed, so that readers see nothing that may vanish.

It is rewritten after each commit and never synced: whatever value survives a power cut was true when it was written.
A damaged mark is not a mark; the writer makes a new one at its start.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

from penstock.journal.damage import Damage
from penstock.journal.disk import Disk

MARK_NAME = "mark"

_MAGIC = b"PNSTKMRK"
_MARK = struct.Struct("<8sqqqq")
_CRC = struct.Struct("<I")
_SIZE = _MARK.size + _CRC.size

# A reader may see the few bytes while they change; the next read sees them complete.
_LOOKS = 3


MARK_DAMAGED = Damage(MARK_NAME, 0, _SIZE, 0, -1, "the mark cannot be read")


@dataclass(frozen=True, slots=True)
class Mark:
    """`segment` is being written and committed up to byte `position`; `sequence` is the last one in it or before it.

    `synced` is the last sequence that survives a power cut. Only records with policy `off` come between the two.
    """

    segment: int
    position: int
    sequence: int
    synced: int


def encode_mark(mark: Mark) -> bytes:
    body = _MARK.pack(_MAGIC, mark.segment, mark.position, mark.sequence, mark.synced)
    return body + _CRC.pack(crc32(body))


def decode_mark(data: bytes) -> Mark | None:
    if len(data) < _SIZE or (crc32(data[: _MARK.size]),) != _CRC.unpack_from(data, _MARK.size):
        return None
    magic, segment, position, sequence, synced = _MARK.unpack_from(data)
    return Mark(segment, position, sequence, synced) if magic == _MAGIC else None


def read_mark(disk: Disk) -> Mark | None:
    """None when there is none, or none that can be trusted."""
    try:
        file = disk.view(MARK_NAME)
    except FileNotFoundError:
        return None
    try:
        for _ in range(_LOOKS):
            mark = decode_mark(file.read(0, _SIZE))
            if mark is not None:
                return mark
        return None
    finally:
        file.close()
