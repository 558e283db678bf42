from __future__ import annotations

import struct
from zlib import crc32

import pytest

from penstock.journal.errors import UnknownVersion
from penstock.journal.record import SCHEMA, arrays, numbered
from penstock.journal.segment import (
    DATA_START,
    FRAME_HEADER,
    HEADER_BLOCK,
    MAX_FRAME,
    SegmentHeader,
    base_of,
    decode_frame_header,
    decode_payload,
    decode_segment_header,
    encode_frame,
    encode_segment_header,
    kind_bits,
    payload_is_whole,
    segment_name,
)
from tests.journal.world import columns

HEADER = SegmentHeader(base=42, previous=40, created=1_700_000_000_000_000, salt=0xDEADBEEF)
SALT = 77


def frame_bytes() -> bytes:
    batch = numbered(arrays(columns(3)), 5, [1, 2, 3])
    _, parts = encode_frame(memoryview(batch.serialize()), SALT, 5, 7, 4, 100, 200, kind_bits({"update"}))
    return b"".join(parts)


def read_frame(data: bytes) -> bool:
    """Whether these bytes are taken for a whole frame."""
    header = decode_frame_header(data, 0, SALT)
    if header is None or header.span != len(data):
        return False
    return payload_is_whole(data[FRAME_HEADER:], header, SALT)


def test_a_segment_header_comes_back_as_it_was() -> None:
    data = encode_segment_header(HEADER)
    assert len(data) == DATA_START
    assert decode_segment_header(data, "s") == (HEADER, 0)
    header, _ = decode_segment_header(data, "s")
    assert header is not None
    assert header.schema == SCHEMA


def test_every_flipped_bit_of_a_segment_header_is_noticed_and_the_other_copy_serves() -> None:
    data = encode_segment_header(HEADER)
    for bit in range(0, HEADER_BLOCK * 8, 7):
        for copy in (0, HEADER_BLOCK):
            changed = bytearray(data)
            changed[copy + bit // 8] ^= 1 << bit % 8
            assert decode_segment_header(bytes(changed), "s") == (HEADER, 1)


@pytest.mark.parametrize("length", [0, 1, HEADER_BLOCK - 1, HEADER_BLOCK, DATA_START - 1])
def test_a_segment_header_that_ends_too_early_has_damaged_copies(length: int) -> None:
    header, damaged = decode_segment_header(encode_segment_header(HEADER)[:length], "s")
    assert damaged == (1 if length >= HEADER_BLOCK else 2)
    assert (header is None) == (length < HEADER_BLOCK)


def test_a_newer_version_is_refused_by_name() -> None:
    block = bytearray(encode_segment_header(HEADER)[:HEADER_BLOCK])
    struct.pack_into("<H", block, 8, 9)
    (length,) = struct.unpack_from("<I", block, 40)
    end = 44 + length
    struct.pack_into("<I", block, end, crc32(block[:end]))
    with pytest.raises(UnknownVersion, match="segment x has version 9; this program reads versions up to 2"):
        decode_segment_header(bytes(block) * 2, "x")


def test_a_frame_comes_back_as_it_was() -> None:
    data = frame_bytes()
    header = decode_frame_header(data, 0, SALT)
    assert header is not None
    assert (header.first, header.last, header.synced, header.earliest, header.latest) == (5, 7, 4, 100, 200)
    assert header.span == len(data)
    batch = decode_payload(data[FRAME_HEADER:], header, SegmentHeader(1, 0, 0, SALT))
    assert batch.column("value").to_pylist() == ["item-0", "item-1", "item-2"]


def test_every_flipped_bit_of_a_frame_is_noticed() -> None:
    data = frame_bytes()
    assert read_frame(data)
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert not read_frame(bytes(changed)), f"bit {bit}"


def test_a_frame_of_another_segment_is_none_of_ours() -> None:
    assert decode_frame_header(frame_bytes(), 0, SALT + 1) is None


def test_the_padding_is_checked_as_well() -> None:
    header, parts = encode_frame(memoryview(b"12345"), SALT, 1, 1, 0, 0, 0, 0)
    data = b"".join(parts)
    assert header.span == len(data) == FRAME_HEADER + 8
    assert read_frame(data)
    assert not read_frame(data[:-1] + b"\1")


@pytest.mark.parametrize("length", [0, MAX_FRAME + 1])
def test_a_length_that_no_frame_has_is_refused_even_with_a_right_checksum(length: int) -> None:
    data = bytearray(frame_bytes())
    struct.pack_into("<I", data, 8, length)
    struct.pack_into("<I", data, 4, crc32(data[8:FRAME_HEADER], SALT))
    assert decode_frame_header(bytes(data), 0, SALT) is None


def test_a_frame_whose_records_are_not_as_many_as_it_says_is_refused() -> None:
    batch = numbered(arrays(columns(3)), 5, [1, 2, 3])
    header, parts = encode_frame(memoryview(batch.serialize()), SALT, 5, 8, 4, 100, 200, 0)
    with pytest.raises(ValueError, match="a frame of 3 records says it holds 5 to 8"):
        decode_payload(parts[1], header, SegmentHeader(1, 0, 0, SALT))


def test_names_sort_as_numbers_do() -> None:
    assert segment_name(9) < segment_name(10) < segment_name(10**19)
    assert base_of(segment_name(1234)) == 1234


@pytest.mark.parametrize(
    "name", ["mark", "1.segment", "x" * 20 + ".segment", f"{1:020d}.index", f"{1:020d}.segment.tmp"]
)
def test_other_names_are_not_taken_for_segments(name: str) -> None:
    assert base_of(name) is None


def test_kinds_have_one_bit_each() -> None:
    assert kind_bits({"update"}).bit_count() == 1
    assert kind_bits({"update", "delete"}) == kind_bits({"update"}) | kind_bits({"delete"})
    assert kind_bits(set()) == 0
