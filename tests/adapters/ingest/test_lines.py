from __future__ import annotations

import pytest

from penstock.adapters.ingest.lines import BadLine, IngestLine, Splitter, read

TEXT = b"one\n\ntwo\r\n" + b"x" * 20 + b"\nthree\n" + b"y" * 10 + b"\nlast"
LINES = [b"one", b"", b"two\r", None, b"three", b"y" * 10, b"last"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11, 1_000])
def test_lines_are_the_same_however_they_are_cut(size: int) -> None:
    splitter = Splitter(10)
    found: list[bytes | None] = []
    for start in range(0, len(TEXT), size):
        found += splitter.feed(TEXT[start : start + size])
    assert found + splitter.end() == LINES


def test_a_line_without_end_is_not_kept() -> None:
    splitter = Splitter(10)
    for _ in range(1_000):
        assert splitter.feed(b"x" * 1_000) == []
    assert splitter.feed(b"x\nshort\n") == [None, b"short"]
    assert splitter.end() == []


def test_a_line_without_end_at_the_end_of_the_body_is_too_long() -> None:
    splitter = Splitter(10)
    splitter.feed(b"x" * 11)
    assert splitter.end() == [None]


def test_values_become_text() -> None:
    line = read(
        b'{"item": "a", "fields": {"s": "x", "n": 1, "f": 2.50, "t": true, "z": null, "big": 123456789012345678901}}'
    )
    assert line == IngestLine("a", {"s": "x", "n": 1, "f": 2.5, "t": True, "z": None, "big": 123456789012345678901})
    assert line.event() == {"s": "x", "n": "1", "f": "2.5", "t": "true", "z": None, "big": "123456789012345678901"}


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"item": 1}',
        b'{"item": "a", "filds": {}}',
        b'{"item": "a", "fields": []}',
        b'{"item": "a", "fields": {"x": {}}}',
        b'{"item": "a", "fields": {"x": NaN}}',
        b'{"item": "a", "snapshot": "yes"}',
        b'{"item": "a", "op": "delete"}',
        b'{"item": "\xff"}',
        b'{"item": "\\ud800"}',
        b'{"item": "a"} x',
        b'{"item": "a", "fields": {"x": ' + b"1" * 5_000 + b"}}",
    ],
)
def test_what_is_not_a_line_of_this_kind_is_refused(text: bytes) -> None:
    with pytest.raises(BadLine):
        read(text)
