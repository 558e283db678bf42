from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import durable
from tests.support.privacy import open_to_others


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"data")
        file.flush()
        yield file.fileno()


@pytest.mark.usefixtures("open_umask")
def test_all_directories_that_are_made_are_for_their_owner(tmp_path: Path) -> None:
    durable.make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert open_to_others(tmp_path / "a") == []


@pytest.mark.usefixtures("open_umask")
def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    durable.make_directory(tmp_path / "a")
    assert durable.is_open_to_others(tmp_path / "a")


@pytest.mark.parametrize(("name", "number"), [("file", errno.EEXIST), ("file/below", errno.ENOTDIR)])
def test_a_file_in_the_way_is_an_error(tmp_path: Path, name: str, number: int) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number says it
        durable.make_directory(tmp_path / name)
    assert caught.value.errno == number


def test_a_file_is_synced_by_the_full_call_where_there_is_one(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other call that does no harm stands for it here: this system has none."""
    monkeypatch.setattr(durable, "_FULL_SYNC", fcntl.F_GETFD)
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.delattr(os, "fsync")
    durable.sync_file(descriptor)


def test_a_file_system_without_the_full_call_is_synced_all_the_same(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_FULL_SYNC", 9_999)
    durable.sync_file(descriptor)


def test_a_disk_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_FULL_SYNC", fcntl.F_GETFD)
    with pytest.raises(OSError, match="Bad file descriptor"):
        durable.sync_file(10_000)


def test_without_either_call_a_file_is_synced_with_its_times(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_FULL_SYNC", None)
    monkeypatch.delattr(os, "fdatasync", raising=False)
    durable.sync_file(descriptor)
