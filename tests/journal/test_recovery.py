from __future__ import annotations

from functools import partial

import pytest

from penstock.journal.damage import Damage
from penstock.journal.errors import UnknownVersion
from penstock.journal.index import index_name
from penstock.journal.mark import MARK_NAME
from penstock.journal.recovery import bases, recover
from penstock.journal.revisions import revisions_name, saved
from penstock.journal.segment import DATA_START, HEADER_BLOCK, SegmentHeader, segment_name
from penstock.testing.disk import FakeDisk
from tests.journal.world import Scribe, columns, rows


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


def test_an_empty_directory_begins_at_one(disk: FakeDisk) -> None:
    found = recover(disk)
    assert (found.next, found.previous, found.revisions, found.damages) == (1, 0, {}, [])


def test_after_an_orderly_end_nothing_is_read(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    scribe.close()
    found = recover(disk)
    assert (found.next, found.revisions, found.records_read, found.cut_bytes) == (6, {"item": 5}, 0, 0)


def test_after_a_crash_one_segment_is_read(disk: FakeDisk) -> None:
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(5):
        scribe.append(columns(3))
    found = recover(disk.kill())
    assert (found.next, found.revisions, found.records_read) == (16, {"item": 15}, 3)


def test_a_torn_tail_is_cut_and_told(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    end = disk.size(segment_name(1))
    disk.open(segment_name(1)).write(end, [b"half a frame"])
    found = recover(disk)
    assert (found.next, found.cut_file, found.cut_bytes) == (6, segment_name(1), 12)
    assert found.damages == []
    assert disk.size(segment_name(1)) == end
    assert recover(disk).cut_bytes == 0


def test_a_damaged_frame_in_the_middle_stays_is_told_and_costs_nothing_else(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    middle = disk.size(segment_name(1))
    scribe.append(columns(5))
    end = disk.size(segment_name(1))
    scribe.append(columns(5))
    disk.flip(segment_name(1), (middle + 100) * 8)
    damage = Damage(segment_name(1), middle, end - middle, 6, 10, "no complete frame where one is expected")
    found = recover(disk)
    assert (found.next, found.cut_bytes, found.damages) == (16, 0, [damage])
    assert "records 6 to 10 missing" in str(damage)
    after, damages = rows(disk)
    assert [row[0] for row in after] == [*range(1, 6), *range(11, 16)]
    assert damages == [damage]


def test_a_tail_that_was_committed_and_is_gone_is_damage_and_its_numbers_are_not_given_again(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    kept = disk.size(segment_name(1))
    scribe.append(columns(5))
    disk.cut(segment_name(1), kept + 10)
    scribe = Scribe(disk)
    assert scribe.next == 11
    hole, missing = scribe.recovery.damages
    assert (hole.file, hole.position, hole.length, hole.first, hole.last) == (segment_name(1), kept, 10, 6, None)
    assert missing == Damage(MARK_NAME, 0, 0, 6, 10, "committed records are no longer there")
    scribe.append(columns(1))
    found, damages = rows(disk)
    assert [row[0] for row in found] == [1, 2, 3, 4, 5, 11]
    assert [(damage.first, damage.last) for damage in damages] == [(6, 10)]


def test_starts_without_records_leave_no_files_behind(disk: FakeDisk) -> None:
    for _ in range(3):
        Scribe(disk).close()
    scribe = Scribe(disk)
    scribe.append(columns(1))
    scribe.close()
    for _ in range(3):
        Scribe(disk).close()
    assert bases(disk) == [1, 2]


def test_files_half_made_are_removed(disk: FakeDisk) -> None:
    disk.create("00000000000000000001.segment.tmp").write(0, [b"half"])
    recover(disk)
    assert disk.names() == []


def test_a_segment_without_a_readable_header_is_told_and_left_behind(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    for copy in (0, HEADER_BLOCK):
        disk.flip(segment_name(1), copy * 8 + 3)
    scribe = Scribe(disk)
    assert scribe.next == 6
    what = "the header cannot be read"
    assert scribe.recovery.damages[0] == Damage(segment_name(1), 0, disk.size(segment_name(1)), 1, None, what)
    scribe.append(columns(1, "after"))
    found, damages = rows(disk)
    assert [row[0] for row in found] == [6]
    assert damages == [Damage(segment_name(1), 0, disk.size(segment_name(1)), 1, 5, what)]


@pytest.mark.parametrize("copy", [0, HEADER_BLOCK])
def test_one_damaged_copy_of_a_header_is_told_and_costs_nothing(disk: FakeDisk, copy: int) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    disk.flip(segment_name(1), copy * 8 + 3)
    damage = Damage(segment_name(1), 0, DATA_START, 1, 0, "one copy of the header is damaged")
    assert str(damage).endswith("no record missing")
    assert rows(disk) == (scribe.tried, [damage])
    found = recover(disk)
    assert (found.next, found.previous, found.damages) == (6, 5, [damage])


def test_a_damaged_mark_is_told_and_costs_nothing(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    disk.flip(MARK_NAME, 100)
    damage = Damage(MARK_NAME, 0, disk.size(MARK_NAME), 0, -1, "the mark cannot be read")
    assert str(damage).endswith("no record missing")
    assert rows(disk) == (scribe.tried, [damage])
    found = recover(disk)
    assert (found.next, found.damages) == (6, [damage])


def test_revisions_that_cannot_be_read_are_told_by_their_names_and_counted_again(disk: FakeDisk) -> None:
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(4):
        scribe.append(columns(3))
    scribe.close()
    newest = revisions_name(saved(disk)[-1])
    disk.flip(newest, 999)
    found = recover(disk)
    assert found.damages == [Damage(newest, 0, 0, 0, -1, "saved revisions cannot be read")]
    assert (found.next, found.revisions, found.records_read) == (13, {"item": 12}, 3)


def test_without_saved_revisions_all_segments_are_counted(disk: FakeDisk) -> None:
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(4):
        scribe.append(columns(3))
    for base in saved(disk):
        disk.remove(revisions_name(base))
    found = recover(disk)
    assert (found.next, found.revisions, found.records_read) == (13, {"item": 12}, 12)
    assert saved(disk) == [10]


def test_a_journal_of_a_newer_program_is_not_touched(disk: FakeDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("penstock.journal.writer.SegmentHeader", partial(SegmentHeader, version=3))
        scribe = Scribe(disk)
        scribe.append(columns(5))
    before = {name: disk.content(name) for name in disk.names()}
    with pytest.raises(UnknownVersion, match="has version 3"):
        recover(disk)
    assert {name: disk.content(name) for name in disk.names()} == before


def test_a_damaged_index_is_made_again(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    scribe.close()
    whole = disk.content(index_name(1))
    disk.flip(index_name(1), 300)
    found = recover(disk)
    assert found.damages == [Damage(index_name(1), 0, 0, 0, -1, "the index cannot be read")]
    assert str(found.damages[0]).endswith("no record missing")
    assert (found.next, found.records_read) == (6, 5)
    assert disk.content(index_name(1)) == whole


def test_a_mark_alone_keeps_numbers_from_being_given_again(disk: FakeDisk) -> None:
    scribe = Scribe(disk)
    scribe.append(columns(5))
    disk.remove(segment_name(1))
    assert MARK_NAME in disk.names()
    assert recover(disk).next == 6


def test_an_empty_segment_is_replaced_and_a_reader_that_knew_it_follows(disk: FakeDisk) -> None:
    Scribe(disk).close()
    assert disk.size(segment_name(1)) == DATA_START
    old = disk.content(segment_name(1))
    scribe = Scribe(disk)
    scribe.append(columns(1))
    assert disk.content(segment_name(1))[:DATA_START] != old, "with a salt of its own"
