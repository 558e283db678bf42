from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.journal import writer as writer_module
from penstock.journal.disk import DirectoryDisk
from penstock.journal.index import index_name, load_index
from penstock.journal.mark import MARK_NAME
from penstock.journal.recovery import bases
from penstock.journal.revisions import load_revisions, revisions_name, saved
from penstock.journal.segment import DATA_START, segment_name
from penstock.journal.unfinished import UNFINISHED_NAME
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


def test_bytes_and_syncs_are_counted_and_each_sync_is_timed() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    took: list[float] = []
    scribe.writer.on_sync = took.append
    assert (scribe.writer.syncs, scribe.writer.written_bytes) == (0, 0)
    for number in range(1, 4):
        scribe.append(columns(2))
        assert (scribe.writer.syncs, len(took)) == (number, number)
        assert scribe.writer.written_bytes == disk.size(segment_name(1)) - DATA_START
    scribe.append(columns(2), sync=False)
    assert (scribe.writer.committed, scribe.writer.synced, scribe.writer.syncs) == (8, 6, 3)
    scribe.writer.sync()
    scribe.writer.sync()
    assert (scribe.writer.committed, scribe.writer.synced, scribe.writer.syncs) == (8, 8, 4)
    assert all(0 <= seconds < 60 for seconds in took)


def test_every_segment_of_a_long_append_but_the_last_has_an_index_at_once() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=14_000)
    scribe.append_long([columns(40, f"item{number}") for number in range(10)])
    *before, active = bases(disk)
    assert len(before) > 1
    for base in before:
        index = load_index(disk, base)
        assert index is not None
        assert index.end == disk.size(segment_name(base))
        assert index.places().keys() == {row[1] for row in rows(disk)[0] if base <= row[0] <= index.blocks[-1].last}
    assert load_index(disk, active) is None
    # Their revisions are saved with the segment in which it ends, which takes nothing more.
    scribe.append(columns(1))
    assert bases(disk) == [*before, active, scribe.next - 1]
    assert saved(disk) == [active]


def span() -> int:
    """Bytes of a frame of the tests below."""
    disk = FakeDisk()
    Scribe(disk).append(columns(3))
    return disk.size(segment_name(1)) - DATA_START


def test_a_segment_that_has_exactly_its_bytes_is_large_enough() -> None:
    for missing, expected in ((0, [1, 7]), (1, [1, 10])):
        disk = FakeDisk()
        scribe = Scribe(disk, segment_bytes=DATA_START + 2 * span() + missing)
        for _ in range(4):
            scribe.append(columns(3))
        assert bases(disk) == expected
        disk = FakeDisk()
        Scribe(disk, segment_bytes=DATA_START + 2 * span() + missing).append_long([columns(3)] * 4)
        assert bases(disk) == expected


def test_a_segment_that_has_exactly_its_age_is_old_enough() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_seconds=10)
    scribe.append(columns(1))
    scribe.now += 10 * SECOND - 1
    scribe.append(columns(1))
    assert bases(disk) == [1]
    scribe.now += 1
    scribe.append(columns(1))
    assert bases(disk) == [1, 3]


def test_a_long_append_into_an_empty_segment_begins_no_other() -> None:
    disk = FakeDisk()
    Scribe(disk, segment_bytes=1).append_long([columns(3)])
    assert sorted(disk.names()) == sorted([segment_name(1), MARK_NAME])


@pytest.mark.parametrize(
    ("count", "frames", "more", "syncs"), [(12, 2, 0, 6), (12, 2, 1, 4), (2, 2, 1, 0), (12, 20, 0, 0)]
)
def test_a_long_append_is_synced_whenever_so_many_bytes_have_come_and_at_its_end(
    count: int, frames: int, more: int, syncs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SYNC_BYTES", frames * span() + more)
    scribe = Scribe(FakeDisk())
    scribe.append_long([columns(3)] * count)
    assert scribe.writer.syncs == syncs + 1


def test_a_long_append_of_usual_size_is_synced_once() -> None:
    scribe = Scribe(FakeDisk())
    scribe.append_long([columns(100)] * 20)
    assert scribe.writer.syncs == 1


def test_before_a_long_append_is_noted_what_was_committed_is_on_the_disk() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(2), sync=False)
    before = len(disk.operations)
    scribe.append_long([columns(3)])
    assert [(operation.kind, operation.name) for operation in disk.operations[before:]] == [
        ("sync", segment_name(1)),
        ("write", MARK_NAME),
        ("create", UNFINISHED_NAME + ".tmp"),
        ("write", UNFINISHED_NAME + ".tmp"),
        ("sync", UNFINISHED_NAME + ".tmp"),
        ("rename", UNFINISHED_NAME),
        ("sync directory", ""),
        ("write", segment_name(1)),
        ("sync", segment_name(1)),
        ("write", MARK_NAME),
        ("remove", UNFINISHED_NAME),
        ("sync directory", ""),
    ]


def test_a_sealed_segment_has_its_sidecars_on_the_disk_and_older_revisions_are_gone() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(4):
        scribe.append(columns(3))
    assert saved(disk) == [4, 7]
    before = len(disk.operations)
    scribe.close()
    assert [(operation.kind, operation.name) for operation in disk.operations[before:]] == [
        ("create", index_name(10) + ".tmp"),
        ("write", index_name(10) + ".tmp"),
        ("sync", index_name(10) + ".tmp"),
        ("rename", index_name(10)),
        ("create", revisions_name(10) + ".tmp"),
        ("write", revisions_name(10) + ".tmp"),
        ("sync", revisions_name(10) + ".tmp"),
        ("rename", revisions_name(10)),
        ("sync directory", ""),
        ("remove", revisions_name(4)),
    ]


def test_an_empty_segment_is_sealed_without_sidecars() -> None:
    disk = FakeDisk()
    Scribe(disk).close()
    assert sorted(disk.names()) == sorted([segment_name(1), MARK_NAME])


def test_what_was_written_and_not_committed_is_cut_off_for_good() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(3))
    committed = disk.size(segment_name(1))
    disk.fault = lambda operation: errno.EIO if operation.kind == "sync" else None
    with pytest.raises(OSError, match="Input/output error"):
        scribe.append(columns(3))
    assert disk.size(segment_name(1)) == committed + span()
    disk.fault = None
    scribe.writer.abandon()
    assert disk.size(segment_name(1)) == committed
    assert [operation.kind for operation in disk.operations[-2:]] == ["truncate", "sync"]


def test_after_a_failure_revisions_are_saved_and_what_was_committed_has_its_index() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(3))
    committed = disk.size(segment_name(1))
    disk.fault = lambda operation: errno.EIO if operation.kind == "sync" else None
    with pytest.raises(OSError, match="Input/output error"):
        scribe.append_long([columns(3), columns(3)])
    disk.fault = None
    # Of the numbers that were given none is given again.
    scribe.writer.restart(scribe.next)
    assert bases(disk) == [1, 10]
    assert load_revisions(disk) == (1, {"item": 9}, [])
    index = load_index(disk, 1)
    assert index is not None
    assert (index.end, index.places()) == (committed, {"item": [0]})
    assert disk.size(segment_name(1)) == committed


def test_after_a_failure_in_a_later_segment_of_a_long_append_revisions_are_saved_after_the_one_that_is_left() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    scribe.append(columns(3))
    disk.fault = lambda operation: errno.EIO if (operation.kind, operation.name) == ("write", segment_name(7)) else None
    with pytest.raises(OSError, match="Input/output error"):
        scribe.append_long([columns(3), columns(3)])
    disk.fault = None
    scribe.writer.restart(scribe.next)
    assert bases(disk) == [1, 4, 10]
    assert saved(disk) == [1, 4]
