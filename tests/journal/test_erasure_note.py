"""The note about an erasure that has begun: what is in it comes back, and one that is damaged is not taken for none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.journal.disk import DirectoryDisk
from penstock.journal.erasure_note import NAME, BadNote, ErasureNote, is_erasing, read_note, remove_note, write_note
from penstock.testing.disk import FakeDisk

NOTE = ErasureNote("7", {"anna": 3, "berta": 0}, "admin", "letter of May", 1_700_000_000_000_000)


def test_a_note_is_read_as_it_was_written_until_it_is_removed() -> None:
    disk = FakeDisk()
    assert read_note(disk) is None
    write_note(disk, NOTE)
    assert read_note(disk) == NOTE
    remove_note(disk)
    assert read_note(disk) is None
    remove_note(disk)


def test_a_note_is_on_the_disk_as_soon_as_it_is_written() -> None:
    disk = FakeDisk()
    write_note(disk, NOTE)
    assert [operation.kind for operation in disk.operations][-2:] == ["rename", "sync directory"]
    remove_note(disk)
    assert [operation.kind for operation in disk.operations][-2:] == ["remove", "sync directory"]


@pytest.mark.parametrize("content", [b"", b'{"id":"7"', b'{"id":"7","events":{}}', b"\xff"])
def test_a_note_that_cannot_be_read_is_refused_with_its_name(content: bytes) -> None:
    disk = FakeDisk()
    disk.create(NAME).write(0, [content])
    with pytest.raises(BadNote, match="the note erasing about an erasure cannot be read"):
        read_note(disk)


def test_a_journal_is_being_erased_as_long_as_its_note_is_there(
    tmp_path: Path,
) -> None:
    disk = DirectoryDisk(tmp_path)
    assert is_erasing(tmp_path) is False
    write_note(disk, NOTE)
    assert is_erasing(tmp_path) is True
    before = os.listdir("/proc/self/fd")
    assert [read_note(disk) for _ in range(5)] == [NOTE] * 5
    assert os.listdir("/proc/self/fd") == before
    remove_note(disk)
    assert is_erasing(tmp_path) is False
