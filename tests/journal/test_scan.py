from __future__ import annotations

import pytest

from penstock.journal.damage import Damage
from penstock.journal.record import arrays, numbered
from penstock.journal.scan import CHUNK, Frame, scan
from penstock.journal.segment import encode_frame, kind_bits
from penstock.testing.disk import FakeDisk
from tests.journal.world import columns

SALT = 5


def frame(first: int, count: int = 2, size: int = 10, kind: str = "update") -> bytes:
    given = columns(count, kind=kind)
    given.values[0] = "v" * size
    batch = numbered(arrays(given), first, [1] * count)
    last = first + count - 1
    _, parts = encode_frame(memoryview(batch.serialize()), SALT, first, last, 0, 0, 0, kind_bits({kind}))
    return b"".join(parts)


def walk(data: bytes, *, expected: int = 1, last: int | None = None, kind: str | None = None) -> list[object]:
    """Frames as their first and last sequence, damages as they are."""
    disk = FakeDisk()
    file = disk.create("s")
    file.write(0, [data])
    bits = kind_bits({kind}) if kind else 0
    found: list[object] = []
    for entry in scan(
        file, "s", SALT, 0, len(data), expected, last, (lambda head: bool(head.kinds & bits)) if bits else None
    ):
        if isinstance(entry, Frame) and entry.payload is not None:
            found.append((entry.header.first, entry.header.last))
        elif isinstance(entry, Damage):
            found.append(entry)
    return found


def hole(position: int, length: int, first: int, last: int | None) -> Damage:
    return Damage("s", position, length, first, last, "no complete frame where one is expected")


def test_whole_frames_come_in_order() -> None:
    assert walk(frame(1) + frame(3) + frame(5, 7)) == [(1, 2), (3, 4), (5, 11)]


def test_frames_larger_than_a_chunk_and_across_its_border_are_found() -> None:
    data = frame(1, size=CHUNK - 500) + frame(3, size=1000) + frame(5, size=2 * CHUNK) + frame(7)
    assert walk(data) == [(1, 2), (3, 4), (5, 6), (7, 8)]


@pytest.mark.parametrize("byte", [0, 4, 8, 20, 63, 64, 200])
def test_a_damaged_frame_is_stepped_over(byte: int) -> None:
    one = frame(1)
    data = bytearray(one + frame(3) + frame(5))
    data[len(one) + byte] ^= 1
    assert walk(bytes(data)) == [(1, 2), hole(len(one), len(frame(3)), 3, 4), (5, 6)]


def test_after_damage_larger_than_a_chunk_the_next_frame_is_found() -> None:
    bad = bytearray(frame(1, size=3 * CHUNK))
    bad[10] ^= 1
    assert walk(bytes(bad) + frame(3)) == [hole(0, len(bad), 1, 2), (3, 4)]


def test_a_frame_of_another_segment_inside_a_damaged_one_is_not_taken_for_one() -> None:
    """As when a journal's file is itself journaled."""
    inner = b"".join(encode_frame(memoryview(frame(2)[64:]), SALT + 1, 2, 3, 0, 0, 0, 0)[1])
    outer = bytearray(b"".join(encode_frame(memoryview(bytes(8) + inner), SALT, 1, 3, 0, 0, 0, 0)[1]))
    outer[64] ^= 1
    assert walk(bytes(outer) + frame(4)) == [hole(0, len(outer), 1, 3), (4, 5)]


@pytest.mark.parametrize("left", [1, 8, 63, 64, 100])
def test_a_tail_that_is_torn_is_one_damage(left: int) -> None:
    one = frame(1)
    assert walk(one + frame(3)[:left]) == [(1, 2), hole(len(one), left, 3, None)]


def test_zeros_are_no_frames() -> None:
    assert walk(frame(1) + bytes(5000)) == [(1, 2), hole(len(frame(1)), 5000, 3, None)]


def test_frames_that_were_taken_out_are_missed() -> None:
    assert walk(frame(1) + frame(5)) == [
        (1, 2),
        Damage("s", len(frame(1)), 0, 3, 4, "frames are missing"),
        (5, 6),
    ]


def test_a_frame_that_goes_back_is_damage() -> None:
    assert walk(frame(1) + frame(1) + frame(3)) == [(1, 2), hole(len(frame(1)), len(frame(1)), 3, 2), (3, 4)]


def test_beyond_the_last_committed_record_nothing_is_looked_at() -> None:
    assert walk(frame(1) + frame(3) + b"garbage", last=2) == [(1, 2)]
    assert walk(b"garbage" + bytes(100), expected=3, last=2) == []


def test_what_is_missing_up_to_the_last_committed_record_is_told() -> None:
    end = len(frame(1))
    assert walk(frame(1), last=9) == [(1, 2), Damage("s", end, 0, 3, 9, "the file is truncated")]
    assert walk(frame(1) + b"x", last=9) == [(1, 2), hole(end, 1, 3, 9)]


def test_frames_that_are_not_wanted_are_passed_over_without_a_look_at_their_payload() -> None:
    unwanted = bytearray(frame(1, kind="other"))
    unwanted[-1] ^= 1
    assert walk(bytes(unwanted) + frame(3) + frame(5, kind="other"), kind="update") == [(3, 4)]


@pytest.mark.parametrize("chunk", [8, 72, 74, 96, 104, 200])
def test_wherever_the_next_frame_is_behind_damage_it_is_found(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read at once, and though the damage is full of beginnings of frames."""
    monkeypatch.setattr("penstock.journal.scan.CHUNK", chunk)
    for length in range(8, 240, 8):
        for damage in (bytes(length), (b"\xf7PJF" * length)[:length], (b"x\xf7PJF" * length)[:length]):
            assert walk(damage + frame(3) + frame(5)) == [hole(0, length, 1, 2), (3, 4), (5, 6)]
            assert walk(frame(1) + damage, last=4) == [(1, 2), hole(len(frame(1)), length, 3, 4)]


def test_a_file_that_is_shorter_than_it_was_is_damaged_up_to_where_it_was() -> None:
    disk = FakeDisk()
    file = disk.create("s")
    file.write(0, [frame(1) + frame(3)[:-8]])
    end = len(frame(1) + frame(3)) + 200
    found = list(scan(file, "s", SALT, 0, end, 1, 4))
    assert found[1:] == [hole(len(frame(1)), end - len(frame(1)), 3, 4)]


def test_the_last_committed_record_may_have_a_frame_of_its_own() -> None:
    end = len(frame(1))
    assert walk(frame(1) + frame(3, 1) + frame(4), last=3) == [(1, 2), (3, 3)]
    assert walk(frame(1), last=3) == [(1, 2), Damage("s", end, 0, 3, 3, "the file is truncated")]
    assert walk(frame(1) + frame(5), last=4) == [(1, 2), Damage("s", end, 0, 3, 4, "frames are missing")]
