from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.datagrams import Payload, decode
from penstock.wire.tlex.frames import VERSION
from penstock.wire.tlex.vlog import MAX_LINE, STARTS, VlogReader, is_message, payload_frame

MESSAGES = [b"012026111904000000", b"0600610201", b"0E00310102"]


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_lines_end_with_carriage_return_line_feed_or_both(end: bytes) -> None:
    found = VlogReader().feed(b"".join([each + end for each in MESSAGES]))
    assert [each for each in found if each] == MESSAGES


@given(st.lists(st.sampled_from([*MESSAGES, b""]), max_size=6), st.data())
def test_lines_may_come_in_any_pieces(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join([each + b"\r\n" for each in lines])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    reader = VlogReader()
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = [line for piece in pieces for line in reader.feed(piece)]
    assert [each for each in found if each] == [each for each in lines if each]
    assert not reader.is_too_long


def test_the_rest_of_a_line_waits_for_its_end() -> None:
    reader = VlogReader()
    assert reader.feed(b"0600") == []
    assert reader.feed(b"610201\r0E") == [b"0600610201"]


def test_the_longest_line_is_read() -> None:
    reader = VlogReader()
    longest = b"0" * MAX_LINE
    assert reader.feed(longest + b"\n") == [longest]
    assert not reader.is_too_long


@pytest.mark.parametrize("end", [b"", b"\r\n"])
def test_a_line_that_is_too_long_is_the_last(end: bytes) -> None:
    reader = VlogReader()
    assert reader.feed(b"01\n" + b"0" * (MAX_LINE + 1) + end) == [b"01"]
    assert reader.is_too_long
    assert reader.feed(b"01\n") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [(b"01", True), (b"0e0031010", True), (b"0", False), (b"", False), (b"0G", False), (b"01 02", False)],
)
def test_a_message_is_hexadecimal_and_has_a_type(line: bytes, expected: bool) -> None:
    assert is_message(line) is expected


def test_a_message_is_the_payload_of_a_singleplex_session() -> None:
    assert decode(payload_frame(b"0600610201", 0x56, 17)) == Payload(0x56, 17, b"0600610201")


def test_the_first_byte_tells_the_two_protocols_apart() -> None:
    assert VERSION not in STARTS
