"""Both disks keep the same promises; the fake one keeps no more than those."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from penstock.journal.disk import DirectoryDisk, Disk
from penstock.journal.errors import DirectoryInUse
from penstock.testing.disk import SECTOR, FakeDisk, PowerCut


@pytest.fixture(params=["real", "fake"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return DirectoryDisk(tmp_path / "a" / "b", make=True) if request.param == "real" else FakeDisk()


def put(disk: Disk, name: str, data: bytes, *, sync: bool = True) -> None:
    file = disk.create(name)
    file.write(0, [data])
    if sync:
        file.sync()
    file.close()


def get(disk: Disk, name: str) -> bytes:
    file = disk.view(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def test_a_sync_is_one_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino), raising=False)
    monkeypatch.setattr("penstock.durable._FULL_SYNC", None)
    put(DirectoryDisk(tmp_path), "a", b"1", sync=False)
    assert synced == []
    put(DirectoryDisk(tmp_path), "a b", b"1", sync=True)
    assert synced == [(tmp_path / "a b").stat().st_ino]


def test_what_is_written_is_read(disk: Disk) -> None:
    file = disk.create("a")
    file.write(0, [b"one ", memoryview(b"two ")])
    file.write(8, [b"three"])
    file.write(0, [b"ONE"])
    file.sync()
    file.close()
    view = disk.view("a")
    assert (view.size(), view.read(4, 3), view.read(8, 100), view.read(13, 1)) == (13, b"two", b"three", b"")
    assert get(disk, "a") == b"ONE two three"
    view.close()


def test_a_read_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DirectoryDisk(tmp_path, make=True)
    put(disk, "a", b"0123456789")
    whole = os.pread
    # A network disk may return less than was asked for, and again less of the rest.
    monkeypatch.setattr("os.pread", lambda file, length, position: whole(file, min(length, 4), position))
    view = disk.view("a")
    assert [view.read(*place) for place in ((0, 10), (1, 7), (5, 100), (10, 5))] == [
        b"0123456789",
        b"1234567",
        b"56789",
        b"",
    ]
    view.close()


def test_a_write_that_takes_a_part_is_gone_on_with_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, at_once = os.pwrite, os.pwritev
    monkeypatch.setattr("os.pwritev", lambda file, parts, position: at_once(file, [b"".join(parts)[:5]], position))
    monkeypatch.setattr("os.pwrite", lambda file, data, position: whole(file, data[:2], position))
    file = DirectoryDisk(tmp_path, make=True).create("a")
    file.write(0, [b"head"])
    file.write(4, [b"0123", b"456", b"789"])
    file.close()
    assert (tmp_path / "a").read_bytes() == b"head0123456789"


def test_files_are_cut_emptied_renamed_and_removed(disk: Disk) -> None:
    put(disk, "a", b"12345678")
    file = disk.open("a")
    file.truncate(3)
    file.close()
    assert get(disk, "a") == b"123"
    put(disk, "b", b"other")
    disk.rename("a", "b")
    disk.sync_directory()
    assert (disk.names(), get(disk, "b")) == (["b"], b"123")
    put(disk, "b", b"")
    assert get(disk, "b") == b""
    disk.remove("b")
    assert disk.names() == []


def test_an_open_file_is_read_after_its_name_is_gone(disk: Disk) -> None:
    put(disk, "a", b"data")
    view = disk.view("a")
    disk.remove("a")
    assert view.read(0, 4) == b"data"
    view.close()


def test_what_is_not_there_is_not_found(disk: Disk) -> None:
    for attempt in (disk.open, disk.view, disk.remove):
        with pytest.raises(FileNotFoundError):
            attempt("nothing")


def test_one_lock_at_a_time(disk: Disk) -> None:
    lock = disk.lock()
    with pytest.raises(DirectoryInUse, match="another process"):
        disk.lock()
    lock.release()
    disk.lock().release()


# -- the fake one -------------------------------------------------------------------------------------------------


def outcomes(disk: FakeDisk, name: str) -> set[bytes | None]:
    """What may be left of a file."""
    found: set[bytes | None] = set()
    for seed in range(200):
        after = disk.cut_power(Random(seed))
        found.add(after.content(name) if name in after.names() else None)
    return found


def test_synced_bytes_under_a_synced_name_survive_any_power_cut() -> None:
    disk = FakeDisk()
    put(disk, "a", b"x" * 3000)
    disk.sync_directory()
    assert outcomes(disk, "a") == {b"x" * 3000}


def test_a_name_that_is_not_synced_may_be_gone() -> None:
    disk = FakeDisk()
    put(disk, "a", b"data")
    assert outcomes(disk, "a") == {b"data", None}


def test_a_rename_that_is_not_synced_happens_or_not() -> None:
    disk = FakeDisk()
    put(disk, "a", b"old")
    put(disk, "a.tmp", b"new")
    disk.sync_directory()
    disk.rename("a.tmp", "a")
    assert outcomes(disk, "a") == {b"old", b"new"}


def test_of_unsynced_bytes_any_sectors_may_be_missing() -> None:
    disk = FakeDisk()
    put(disk, "a", b"")
    disk.sync_directory()
    file = disk.open("a")
    file.write(0, [b"1" * SECTOR + b"2" * SECTOR])
    found = outcomes(disk, "a")
    assert {b"", b"1" * SECTOR, b"1" * SECTOR + b"2" * SECTOR, b"\0" * SECTOR + b"2" * SECTOR} <= found
    assert any(left is not None and left[SECTOR:] == b"2" * SECTOR and left[0] not in b"\0001" for left in found)


def test_after_a_kill_everything_is_there_and_still_not_synced() -> None:
    disk = FakeDisk()
    put(disk, "a", b"data", sync=False)
    after = disk.kill()
    assert after.content("a") == b"data"
    assert outcomes(after, "a") == {b"data", b"", None}
    after.open("a").sync()
    after.sync_directory()
    assert outcomes(after, "a") == {b"data"}


def test_at_the_planned_operation_the_power_goes_and_stays_off() -> None:
    disk = FakeDisk(power_cut_at=1)
    file = disk.create("a")
    with pytest.raises(PowerCut):
        file.write(0, [b"data"])
    for attempt in (disk.names, file.sync, disk.sync_directory):
        with pytest.raises(PowerCut):
            attempt()


def test_a_full_disk_takes_what_fits() -> None:
    disk = FakeDisk()
    disk.capacity = 10
    file = disk.create("a")
    with pytest.raises(OSError, match="No space left") as raised:
        file.write(0, [b"x" * 16])
    assert raised.value.errno == errno.ENOSPC
    assert disk.content("a") == b"x" * 10
    file.write(0, [b"y" * 10])
    disk.capacity = None
    file.write(10, [b"z" * 10])


def test_faults_are_raised_before_anything_is_done() -> None:
    disk = FakeDisk()
    file = disk.create("a")
    disk.fault = lambda operation: errno.EIO if operation.kind == "write" else None
    with pytest.raises(OSError, match="Input/output error"):
        file.write(0, [b"data"])
    assert disk.content("a") == b""


def test_bits_are_flipped_and_ends_cut() -> None:
    disk = FakeDisk()
    put(disk, "a", b"abc")
    disk.flip("a", 8)
    assert disk.content("a") == b"acc"
    disk.cut("a", 1)
    assert disk.content("a") == b"a"
