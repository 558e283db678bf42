"""The note about a long append: it comes back as it was, and one that is damaged is told and costs no record."""

from __future__ import annotations

import pytest

from penstock.journal.damage import Damage
from penstock.journal.recovery import recover
from penstock.journal.unfinished import UNFINISHED_NAME, NoteDamaged, UnfinishedAppend, begin, end, read_note
from penstock.testing.disk import FakeDisk
from tests.journal.world import Scribe, columns, rows

NOTE = UnfinishedAppend(segment=5, position=9000, previous=7, last=12)


def test_a_note_comes_back_and_every_flipped_bit_and_every_cut_is_noticed() -> None:
    whole = FakeDisk()
    assert read_note(whole) is None
    begin(whole, NOTE)
    assert read_note(whole) == NOTE
    size = whole.size(UNFINISHED_NAME)
    for bit in range(size * 8):
        disk = whole.kill()
        disk.flip(UNFINISHED_NAME, bit)
        with pytest.raises(NoteDamaged):
            read_note(disk)
    for length in range(size):
        disk = whole.kill()
        disk.cut(UNFINISHED_NAME, length)
        with pytest.raises(NoteDamaged):
            read_note(disk)
    end(whole)
    assert read_note(whole) is None


def test_a_note_is_on_the_disk_before_anything_else_is_written() -> None:
    disk = FakeDisk()
    begin(disk, NOTE)
    assert [operation.kind for operation in disk.operations] == ["create", "write", "sync", "rename", "sync directory"]


def test_a_damaged_note_is_told_once_and_no_record_is_taken_away() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(5))
    scribe.close()
    begin(disk, UnfinishedAppend(1, 9000, 2, 12))
    disk.flip(UNFINISHED_NAME, 100)
    found = recover(disk)
    damage = Damage(UNFINISHED_NAME, 0, 0, 0, -1, "the note about a long append cannot be read")
    assert (found.next, found.damages) == (6, [damage])
    assert len(rows(disk)[0]) == 5
    assert recover(disk).damages == []
