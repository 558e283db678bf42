"""Pictures of a browser as one that moves: an animated PNG, which browsers show and others show the beginning of.

The frames are taken as they are, compressed already. Specification: PNG, third edition, 11.3.6.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Thousandths of a second, the unit of the delays here.
MILLIS = 1_000


def chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each part of a PNG."""
    assert picture.startswith(SIGNATURE)
    place = len(SIGNATURE)
    while place < len(picture):
        (length,) = struct.unpack_from(">I", picture, place)
        yield picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        place += 12 + length


def animated(frames: Sequence[tuple[bytes, int]]) -> bytes:
    """One PNG of pictures that have the same size, each shown for so many milliseconds, for ever."""
    header = dict(chunks(frames[0][0]))[b"IHDR"]
    size = header[:8]
    made = SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"acTL", struct.pack(">II", len(frames), 0))
    number = 0
    for index, (picture, millis) in enumerate(frames):
        parts = list(chunks(picture))
        assert dict(parts)[b"IHDR"] == header, "all pictures are of the same size and kind"
        made += _chunk(b"fcTL", struct.pack(">I8sIIHHBB", number, size, 0, 0, millis, MILLIS, 0, 0))
        number += 1
        data = b"".join(content for kind, content in parts if kind == b"IDAT")
        if index == 0:
            made += _chunk(b"IDAT", data)
        else:
            made += _chunk(b"fdAT", struct.pack(">I", number) + data)
            number += 1
    return made + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
