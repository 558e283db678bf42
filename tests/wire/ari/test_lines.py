from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ari.lines import LineReader
from tests.wire.reading import one_by_one, pieces

LIMIT = 12


def read(data: bytes, sizes: Iterable[int] = (), limit: int = LIMIT) -> tuple[list[str], LineReader]:
    reader = LineReader(limit)
    lines: list[str] = []
    for piece in pieces(data, sizes):
        lines += reader.feed(piece)
    return lines, reader


# Bytes, the lines they are, whether half a line is left.
STREAMS: list[tuple[bytes, list[str], bool]] = [
    (b"", [], False),
    (b"KEEPALIVE\r\n", ["KEEPALIVE"], False),
    (b"KEEPALIVE\n", ["KEEPALIVE"], False),
    (b"a\nb\r\nc\n", ["a", "b", "c"], False),
    (b"\n\r\n", ["", ""], False),
    (b"a\nb", ["a"], True),
    (b"a\nb\r", ["a"], True),
    (b"\xef\xbb\xbfa|b\r\nc\n", ["a|b", "c"], False),
    (b"\xef\xbb\xbf\n", [""], False),
    (b"\xef\xbb", [], True),
    (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"], False),
    ("é\u2028\x85\x0c😀\n".encode(), ["é\u2028\x85\x0c😀"], False),
    (b"123456789012\r\n123456789012\n", ["123456789012"] * 2, False),
    (b"\xef\xbb\xbf123456789012\r\n", ["123456789012"], False),
    (b"\xef\xbb\xbf123456789012\r", [], True),
    (b"123456789012\r", [], True),
]


@pytest.mark.parametrize(("data", "lines", "in_line"), STREAMS)
def test_lines_are_the_same_whole_and_byte_by_byte(data: bytes, lines: list[str], in_line: bool) -> None:
    for sizes in ([], one_by_one(data)):
        found, reader = read(data, sizes)
        assert found == lines
        assert reader.error is None
        assert reader.in_line is in_line
        assert reader.count == len(lines)


@pytest.mark.parametrize(("data", "lines"), [(data, lines) for data, lines, in_line in STREAMS if not in_line])
def test_what_follows_is_read_as_well(data: bytes, lines: list[str]) -> None:
    assert read(data + b"z\n")[0] == [*lines, "z"]


# Bytes, the lines before the garbage, what is said of it.
GARBAGE: list[tuple[bytes, list[str], str]] = [
    (b"a\n1234567890123\nb\n", ["a"], "Line 2: longer than 12 bytes"),
    (b"1234567890123", [], "Line 1: longer than 12 bytes"),
    (b"a\n1234567890123\r\n", ["a"], "Line 2: longer than 12 bytes"),
    (b"a\n123456789012\rx", ["a"], "Line 2: longer than 12 bytes"),
    (b"\xef\xbb\xbf1234567890123", [], "Line 1: longer than 12 bytes"),
    ("a\n1234567é89é1\n".encode(), ["a"], "Line 2: longer than 12 bytes"),
    (b"a\nb\nc|\xff|d\ne\n", ["a", "b"], "Line 3: byte 3 is 0xff, which is not valid UTF-8"),
    (b"\xed\xa0\x80\n", [], "Line 1: byte 1 is 0xed, which is not valid UTF-8"),
    (b"\xc3\n\xa9\n", [], "Line 1: byte 1 is 0xc3, which is not valid UTF-8"),
    (b"\xff\xfe1\0|\0\n\0", [], "Line 1: byte 1 is 0xff, which is not valid UTF-8"),
    (b"a\nb\rc\nd\n", ["a"], "Line 2: byte 2 is a carriage return without a line feed after it"),
    (b"a\r\r\nb\n", [], "Line 1: byte 2 is a carriage return without a line feed after it"),
]


@pytest.mark.parametrize(("data", "lines", "message"), GARBAGE)
def test_garbage_is_told_with_its_place_after_the_lines_before_it(data: bytes, lines: list[str], message: str) -> None:
    for sizes in ([], one_by_one(data)):
        found, reader = read(data, sizes)
        assert found == lines
        assert str(reader.error) == message
        assert reader.feed(b"x\n") == []
        assert not reader.in_line


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\xc3", b"\xa9", b"\xef\xbb\xbf", b"123456", b"|"])), st.data())
def test_pieces_never_matter(parts: list[bytes], draw: st.DataObject) -> None:
    data = b"".join(parts)
    sizes = draw.draw(st.lists(st.integers(1, 5)))
    whole, reader = read(data)
    found, other = read(data, sizes)
    assert found == whole
    assert str(other.error) == str(reader.error)
    assert other.in_line is reader.in_line


def test_a_line_of_a_megabyte_that_comes_in_small_pieces_is_read() -> None:
    line = b"x" * 1_000_000
    found, reader = read(line + b"\r\n", [997] * 1_100, limit=1_000_000)
    assert reader.error is None
    assert [len(each) for each in found] == [1_000_000]
