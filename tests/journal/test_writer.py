from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.journal.disk import DirectoryDisk
from penstock.journal.index import load_index
from penstock.journal.recovery import bases
from penstock.testing.disk import FakeDisk, Operation
from tests.journal.world import SECOND, Scribe, columns, rows


def test_a_segment_is_sealed_when_it_is_large_enough() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=12_000)
    while scribe.next < 200:
        scribe.append(columns(10))
    segments = bases(disk)
    assert len(segments) > 2
    for base in segments[:-1]:
        size = disk.size(f"{base:020d}.segment")
        assert 12_000 <= size < 14_000
        index = load_index(disk, base)
        assert index is not None
        assert index.end == size
    assert rows(disk) == (scribe.tried, [])


def test_a_segment_is_sealed_when_it_is_old_enough_and_something_comes() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_seconds=10)
    scribe.now += 60 * SECOND
    scribe.append(columns(1))
    assert bases(disk) == [1], "an empty one is never too old"
    scribe.append(columns(1))
    assert bases(disk) == [1, 2]
    scribe.now += 9 * SECOND
    scribe.append(columns(1))
    assert bases(disk) == [1, 2]


def test_a_new_segment_has_its_name_on_the_disk_before_anything_is_in_it() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    scribe.append(columns(1))
    before = len(disk.operations)
    scribe.append(columns(1))
    done = [(operation.kind, operation.name) for operation in disk.operations[before:]]
    name = f"{2:020d}.segment"
    assert done[-9:] == [
        ("create", name + ".tmp"),
        ("write", name + ".tmp"),
        ("sync", name + ".tmp"),
        ("rename", name),
        ("sync directory", ""),
        ("write", "mark"),
        ("write", name),
        ("sync", name),
        ("write", "mark"),
    ]


@pytest.mark.parametrize("failing", ["create", "write", "sync", "rename", "sync directory"])
def test_a_disk_that_refuses_during_rotation_costs_only_what_was_not_committed(failing: str) -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    scribe.append(columns(2, "before"))

    def fault(operation: Operation) -> int | None:
        return errno.EIO if operation.kind == failing else None

    disk.fault = fault
    with pytest.raises(OSError, match="Input/output error"):
        scribe.append(columns(2, "never"))
    with pytest.raises(OSError, match="Input/output error"):
        scribe.writer.restart(scribe.next)
    disk.fault = None
    scribe.writer.restart(scribe.next)
    scribe.append(columns(2, "after"))
    expected = [row for row in scribe.tried if row[1] != "never"]
    assert rows(disk) == (expected, [])
    scribe.close()
    assert Scribe(disk).recovery.damages == []
    assert rows(disk) == (expected, [])


def test_a_writer_that_is_closed_has_no_file_open(tmp_path: Path) -> None:
    scribe = Scribe(DirectoryDisk(tmp_path), segment_bytes=1)
    scribe.append(columns(2))
    scribe.append(columns(2))
    scribe.close()
    # Of Linux; elsewhere there is nothing to look at.
    opened = [entry.resolve() for entry in Path("/proc/self/fd").glob("*")]
    assert [path for path in opened if path.is_relative_to(tmp_path)] == []
