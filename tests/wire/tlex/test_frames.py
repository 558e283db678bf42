from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import Datagram, decode
from penstock.wire.tlex.errors import BadTlexStream
from penstock.wire.tlex.frames import MAX_SIZE, PREAMBLE, TlexFrameReader, frame
from tests.wire.reading import one_by_one, pieces
from tests.wire.tlex.cases import CASES

KEEP_ALIVE = bytes.fromhex("AA BB 00 01 00")


def read(data: bytes, sizes: Iterable[int] = (), max_size: int = MAX_SIZE) -> tuple[list[bytes], TlexFrameReader]:
    reader = TlexFrameReader(max_size)
    frames: list[bytes] = []
    for piece in pieces(data, sizes):
        frames += reader.feed(piece)
    return frames, reader


def in_frame(reader: TlexFrameReader) -> bool:
    """Whether part of a frame waits for the rest."""
    return bool(reader._rest)


@pytest.mark.parametrize(("whole", "datagram"), CASES)
def test_a_frame_is_the_same_whole_and_byte_by_byte_and_with_trailing_bytes(whole: bytes, datagram: Datagram) -> None:
    for trailing in (b"", b"\xaa", b"\xaa\xbb", b"\xaa\xbb\x00", b"\xaa\xbb\x00\x02", b"\xaa\xbb\x00\x02\x01"):
        data = PREAMBLE + whole + trailing
        for sizes in ([], one_by_one(data)):
            frames, reader = read(data, sizes)
            assert frames == [whole]
            assert decode(frames[0]) == datagram
            assert reader.error is None
            assert reader.count == 1
            assert in_frame(reader) is bool(trailing)


@pytest.mark.parametrize(("whole", "datagram"), CASES)
def test_ten_frames_at_once_are_ten_frames(whole: bytes, datagram: Datagram) -> None:
    frames, reader = read(PREAMBLE + whole * 10)
    assert [decode(each) for each in frames] == [datagram] * 10
    assert reader.count == 10
    assert not in_frame(reader)


@pytest.mark.parametrize("cut", range(1, 13))
def test_ten_frames_and_part_of_another_go_on_with_the_next_bytes(cut: int) -> None:
    part = frame(b"\x04" + b"z" * 20)
    reader = TlexFrameReader()
    for data, frames, is_cut in (
        (PREAMBLE + KEEP_ALIVE * 10 + part[:cut], [KEEP_ALIVE] * 10, True),
        (part[cut:] + KEEP_ALIVE * 10 + part[:cut], [part, *[KEEP_ALIVE] * 10], True),
        (part[cut:], [part], False),
    ):
        assert reader.feed(data) == frames
        assert in_frame(reader) is is_cut
    assert reader.count == 22


def test_all_frames_in_a_row_are_read_in_order() -> None:
    data = PREAMBLE + b"".join([whole for whole, _ in CASES])
    for sizes in ([], one_by_one(data), [7] * len(data), [65_536] * len(data)):
        frames, reader = read(data, sizes)
        assert frames == [whole for whole, _ in CASES]
        assert reader.error is None


def test_the_stream_in_the_specifications_picture_is_two_frames() -> None:
    data = bytes.fromhex("01  AA BB 00 01 00  AA BB 00 04 04 01 03 23  AA BB")
    for sizes in ([], one_by_one(data)):
        frames, reader = read(data, sizes)
        assert reader.version == 1
        assert frames == [bytes.fromhex("AA BB 00 01 00"), bytes.fromhex("AA BB 00 04 04 01 03 23")]
        assert in_frame(reader)


def test_the_version_is_known_with_the_first_byte() -> None:
    reader = TlexFrameReader()
    for data, version in ((b"", None), (PREAMBLE, 1), (b"", 1)):
        assert reader.feed(data) == []
        assert reader.version == version
        assert not in_frame(reader)


@pytest.mark.parametrize("version", [0x00, 0x02, 0x16, 0x47, 0xAA, 0xFF])
def test_another_version_ends_the_reading(version: int) -> None:
    data = bytes((version,)) + KEEP_ALIVE
    for sizes in ([], one_by_one(data)):
        frames, reader = read(data, sizes)
        assert frames == []
        assert reader.version == version
        assert str(reader.error) == f"Protocol version 0x{version:02x}, supported: 0x01"
        assert isinstance(reader.error, BadTlexStream)
        assert reader.error.frame == 0


# What follows the version byte and a KeepAlive, and what is said of it.
GARBAGE: list[tuple[str, str]] = [
    ("AB", "Frame 2: byte 1 of the header is 0xab, expected 0xaa"),
    ("BB AA 00 01 00", "Frame 2: byte 1 of the header is 0xbb, expected 0xaa"),
    ("AA AA", "Frame 2: byte 2 of the header is 0xaa, expected 0xbb"),
    ("AA BC 00 01 00", "Frame 2: byte 2 of the header is 0xbc, expected 0xbb"),
    ("00 01 00 AA BB", "Frame 2: byte 1 of the header is 0x00, expected 0xaa"),
    ("47 45 54 20 2F", "Frame 2: byte 1 of the header is 0x47, expected 0xaa"),
    ("AA BB 00 00", "Frame 2: 0 bytes of data, allowed: 1 to 20"),
    ("AA BB 00 00 AA BB 00 01 00", "Frame 2: 0 bytes of data, allowed: 1 to 20"),
    ("AA BB 00 15", "Frame 2: 21 bytes of data, allowed: 1 to 20"),
    ("AA BB FF FF 00 00 00", "Frame 2: 65535 bytes of data, allowed: 1 to 20"),
    # A size that is too small or too large by one is found at the next header.
    ("AA BB 00 01 03 03 AA BB 00 01 00", "Frame 3: byte 1 of the header is 0x03, expected 0xaa"),
    ("AA BB 00 02 03 AA BB 00 01 00", "Frame 3: byte 1 of the header is 0xbb, expected 0xaa"),
]


@pytest.mark.parametrize(("garbage", "message"), GARBAGE)
def test_garbage_is_told_with_its_place_after_the_frames_before_it(garbage: str, message: str) -> None:
    data = PREAMBLE + KEEP_ALIVE + bytes.fromhex(garbage)
    for sizes in ([], one_by_one(data)):
        frames, reader = read(data, sizes, max_size=20)
        assert frames[0] == KEEP_ALIVE
        assert str(reader.error) == message
        assert reader.error is not None
        assert reader.error.frame == len(frames) + 1 == reader.count + 1
        assert reader.feed(KEEP_ALIVE) == []
        assert not in_frame(reader)


def test_a_frame_as_large_as_allowed_is_read() -> None:
    assert read(PREAMBLE + frame(b"x" * 20), max_size=20)[0] == [frame(b"x" * 20)]


@pytest.mark.parametrize("data", [b"", b"x" * 65_536])
def test_no_frame_is_made_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"{len(data)} bytes of data; a frame holds 1 to 65535"):
        frame(data)


@pytest.mark.parametrize("max_size", [-1, 0, 65_536])
def test_a_limit_that_makes_no_sense_is_refused(max_size: int) -> None:
    with pytest.raises(ValueError, match=f"max_size is {max_size}; allowed: 1 to 65535"):
        TlexFrameReader(max_size)


class CountingReader(TlexFrameReader):
    looks = 0

    def _frames(self, data: bytes, start: int) -> list[bytes]:
        self.looks += 1
        return super()._frames(data, start)


def test_the_largest_frame_in_single_bytes_is_looked_at_three_times() -> None:
    whole = frame(b"x" * MAX_SIZE)
    reader = CountingReader()
    reader.feed(PREAMBLE)
    reader.looks = 0
    found = [each for index in range(len(whole)) for each in reader.feed(whole[index : index + 1])]
    assert found == [whole]
    # The first byte, the whole header, the whole frame.
    assert reader.looks == 3


@given(
    st.lists(st.sampled_from([b"\xaa", b"\xbb", b"\xaa\xbb", b"\0", b"\x01", b"\x03", KEEP_ALIVE, b"\x05abc"])),
    st.sampled_from([PREAMBLE, PREAMBLE, PREAMBLE + KEEP_ALIVE, b""]),
    st.lists(st.integers(1, 7)),
)
def test_pieces_never_matter(parts: list[bytes], start: bytes, sizes: list[int]) -> None:
    data = start + b"".join(parts)
    whole, reader = read(data, max_size=300)
    found, other = read(data, sizes, max_size=300)
    assert found == whole
    assert str(other.error) == str(reader.error)
    assert in_frame(other) is in_frame(reader)
    assert other.version == reader.version
    assert other.count == reader.count


@given(st.lists(st.binary(min_size=1, max_size=300)), st.lists(st.integers(1, 400)))
def test_what_is_framed_is_read_again(parts: list[bytes], sizes: list[int]) -> None:
    frames = [frame(part) for part in parts]
    found, reader = read(PREAMBLE + b"".join(frames), sizes)
    assert found == frames
    assert reader.error is None
    assert not in_frame(reader)
