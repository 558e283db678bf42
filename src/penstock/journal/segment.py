"""The bytes of a segment: its header, written twice, and the frames that follow.

Pure: bytes to values and back. Walking over a file with damage in it is in `scan`, writing one in `writer`.
Read next: docs/journal.md, "The file format".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import pyarrow as pa

from penstock.journal.errors import UnknownVersion
from penstock.journal.record import SCHEMA

# Of a segment as it is written; and of one from which records were erased: its frames may hold fewer than their range.
VERSION = 1
ERASED_VERSION = 2

SEGMENT_SUFFIX = ".segment"
TEMPORARY_SUFFIX = ".tmp"

# Each copy of the header has a block of its own, so that one torn or damaged sector never takes both.
HEADER_BLOCK = 4096
HEADER_COPIES = 2
DATA_START = HEADER_BLOCK * HEADER_COPIES

_SEGMENT_MAGIC = b"PNSTKJNL"
_SEGMENT = struct.Struct("<8sHHIqqqI")
_CRC = struct.Struct("<I")

FRAME_MAGIC = b"\xf7PJF"
# Magic, checksum of the header, then: payload length and checksum, first and last sequence, the last sequence that was
# known to be on the disk, earliest and latest timestamp, the kinds as bits.
_FRAME = struct.Struct("<4sIIIqqqqqQ")
_FRAME_BODY = struct.Struct("<IIqqqqqQ")
FRAME_HEADER = _FRAME.size
# Frames begin at multiples of this: what Arrow needs to read them in place.
ALIGNMENT = 8

# No frame is larger, in bytes: what a reader must be ready to hold. Appends beyond it are refused.
MAX_FRAME = 64 * 1024 * 1024

_KIND_BITS = 64


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """`base` is the first sequence the segment may hold, `previous` the last one the journal holds before it.

    Whatever an earlier segment holds beyond `previous` was never committed. A `base` beyond `previous + 1` means that
    the numbers between were given to events that could not be written, and that their publishers were told so.
    `salt` makes the checksums of this segment unlike those of any other, so that neither a block of a deleted file nor
    a value that contains a frame is taken for one.
    """

    base: int
    previous: int
    created: int
    salt: int
    schema: Any = SCHEMA
    version: int = VERSION


def segment_name(base: int) -> str:
    return f"{base:020d}{SEGMENT_SUFFIX}"


def base_of(name: str, suffix: str = SEGMENT_SUFFIX) -> int | None:
    """The number in a file's name; None when it is not one of ours."""
    digits = name.removesuffix(suffix)
    return int(digits) if name.endswith(suffix) and len(digits) == 20 and digits.isdecimal() else None


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Both copies: everything up to DATA_START."""
    schema: bytes = header.schema.serialize().to_pybytes()
    fixed = _SEGMENT.pack(
        _SEGMENT_MAGIC, header.version, 0, header.salt, header.base, header.previous, header.created, len(schema)
    )
    body = fixed + schema
    block = body + _CRC.pack(crc32(body))
    if len(block) > HEADER_BLOCK:
        raise ValueError(f"a segment header of {len(block)} bytes exceeds its block of {HEADER_BLOCK}")
    return block.ljust(HEADER_BLOCK, b"\0") * HEADER_COPIES


def decode_segment_header(data: bytes, name: str) -> tuple[SegmentHeader | None, int]:
    """The header and how many of its copies are damaged; None when all are. Raises UnknownVersion."""
    found: SegmentHeader | None = None
    damaged = 0
    for copy in range(HEADER_COPIES):
        header = decode_header_copy(data[copy * HEADER_BLOCK : (copy + 1) * HEADER_BLOCK], name)
        if header is None:
            damaged += 1
        elif found is None:
            found = header
    return found, damaged


def decode_header_copy(block: bytes, name: str) -> SegmentHeader | None:
    """None if it is damaged. Raises UnknownVersion."""
    if len(block) < HEADER_BLOCK:
        return None
    magic, version, reserved, salt, base, previous, created, schema_length = _SEGMENT.unpack_from(block)
    end = _SEGMENT.size + schema_length
    if magic != _SEGMENT_MAGIC or end + _CRC.size > HEADER_BLOCK:
        return None
    rest = block[end + _CRC.size :]
    if (crc32(memoryview(block)[:end]),) != _CRC.unpack_from(block, end) or rest.count(0) != len(rest):
        return None
    if version > ERASED_VERSION or reserved:
        raise UnknownVersion(
            f"segment {name} has version {version}; this program reads versions up to {ERASED_VERSION}"
        )
    return SegmentHeader(base, previous, created, salt, _schema(block[_SEGMENT.size : end]), version)


@lru_cache(8)
def _schema(data: bytes) -> Any:
    """They are all alike, and headers are read often."""
    return pa.ipc.read_schema(pa.py_buffer(data))


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What is known of a frame without decoding it."""

    length: int
    checksum: int
    first: int
    last: int
    synced: int
    earliest: int
    latest: int
    kinds: int

    @property
    def span(self) -> int:
        """Bytes from this frame's start to the next one's."""
        return FRAME_HEADER + padded(self.length)


def padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def kind_bits(kinds: set[str] | frozenset[str]) -> int:
    """One bit for each kind; two kinds may share one, so that a set bit says no more than "perhaps"."""
    bits = 0
    for kind in kinds:
        bits |= 1 << crc32(kind.encode()) % _KIND_BITS
    return bits


def encode_frame(
    payload: memoryview, salt: int, first: int, last: int, synced: int, earliest: int, latest: int, kinds: int
) -> tuple[FrameHeader, list[bytes | memoryview]]:
    """The header, and the parts of the frame, it included, to be written one after the other."""
    length = len(payload)
    header = FrameHeader(length, crc32(payload, salt), first, last, synced, earliest, latest, kinds)
    body = _FRAME_BODY.pack(length, header.checksum, first, last, synced, earliest, latest, kinds)
    head = FRAME_MAGIC + _CRC.pack(crc32(body, salt)) + body
    padding = padded(length) - length
    return header, [head, payload, bytes(padding)] if padding else [head, payload]


def decode_frame_header(data: bytes | memoryview, offset: int, salt: int) -> FrameHeader | None:
    """None when these bytes are not a frame header of this segment."""
    magic, checksum, length, payload_checksum, first, last, synced, earliest, latest, kinds = _FRAME.unpack_from(
        data, offset
    )
    if magic != FRAME_MAGIC or crc32(memoryview(data)[offset + 8 : offset + FRAME_HEADER], salt) != checksum:
        return None
    if not 0 < length <= MAX_FRAME or first > last:
        return None
    return FrameHeader(length, payload_checksum, first, last, synced, earliest, latest, kinds)


def payload_is_whole(payload: bytes | memoryview, header: FrameHeader, salt: int) -> bool:
    """Checked with the padding's absence of anything: a frame has no byte that may change unseen."""
    return crc32(memoryview(payload)[: header.length], salt) == header.checksum and not any(
        memoryview(payload)[header.length :]
    )


def decode_payload(payload: bytes | memoryview, frame: FrameHeader, segment: SegmentHeader) -> Any:
    """The record batch of a frame whose checksum was right."""
    batch = pa.ipc.read_record_batch(pa.py_buffer(memoryview(payload)[: frame.length]), segment.schema)
    count = frame.last - frame.first + 1
    if batch.num_rows > count or (batch.num_rows < count and segment.version < ERASED_VERSION):
        raise ValueError(f"a frame of {batch.num_rows} records says it holds {frame.first} to {frame.last}")
    return batch
