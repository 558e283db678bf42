"""Whoever has written, read or looked through a journal has none of its files open afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.journal.disk import DirectoryDisk
from penstock.journal.erasing import erase
from penstock.journal.errors import JournalClosed
from penstock.journal.fence import Fence
from penstock.journal.indexes import Indexes
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.mark import MARK_NAME
from penstock.journal.reader import JournalReader
from penstock.journal.retention import Retention, find_expired
from penstock.journal.revisions import revisions_name, saved
from penstock.journal.segment import DATA_START, segment_name
from penstock.journal.selection import EventSelection
from penstock.journal.unfinished import UnfinishedAppend, begin
from penstock.journal.verification import verify
from tests.journal.test_long import long_append
from tests.journal.world import Scribe, columns

WAIT = 20.0

ITEM = EventSelection(entities=("item",))

# Several segments, and of the last one some blocks.
SETTINGS = JournalSettings(segment_bytes=DATA_START + 6_000)


def opened(directory: Path) -> list[Path]:
    # Of Linux; elsewhere there is nothing to look at.
    found = [entry.resolve() for entry in Path("/proc/self/fd").glob("*")]
    return [path for path in found if path.is_relative_to(directory)]


def fill(journal: Journal, appends: int = 15) -> None:
    for _ in range(appends):
        done = journal.append(columns(3), Policy.ACK).done
        assert done is not None
        done.result(WAIT)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 2_000)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """What a process that was killed leaves behind."""
    journal = Journal(tmp_path / "journal", SETTINGS)
    fill(journal)
    shutil.copytree(tmp_path / "journal", tmp_path / "killed")
    journal.close()
    return tmp_path / "killed"


def without_a_mark(directory: Path) -> None:
    (directory / MARK_NAME).unlink()
    assert JournalReader(directory).poll() == 45


def everything(directory: Path) -> None:
    reader = JournalReader(directory)
    assert len(list(reader.read())) == 1
    assert reader.salt_at(1) is not None


def one_entity_again_and_again(directory: Path) -> None:
    indexes = Indexes()
    for _ in range(3):
        assert list(JournalReader(directory, indexes=indexes).read(selection=ITEM))


def the_last_and_a_revision(directory: Path) -> None:
    reader = JournalReader(directory)
    assert reader.last(1, ITEM).num_rows == 1
    assert reader.seek(1, "item", 30) <= 30


def a_share_of_a_plan_in_part(directory: Path) -> None:
    reader = JournalReader(directory)
    reading = reader.read_slices(reader.plan(None, None, 1)[0], rows=1)
    next(reading)
    reading.close()  # type: ignore[attr-defined]


def look_through(directory: Path) -> None:
    assert verify(DirectoryDisk(directory)).damages == []


def look_for_the_oldest(directory: Path) -> None:
    assert find_expired(DirectoryDisk(directory), Retention(max_bytes=0), 45, 0, 46)


def start_again(directory: Path) -> None:
    Journal(directory, SETTINGS).close()


def start_again_with_a_torn_tail(directory: Path) -> None:
    disk = DirectoryDisk(directory)
    base = JournalReader(disk).plan(None, None, 1)[0][-1].segment
    with (directory / segment_name(base)).open("ab") as file:
        file.write(b"half a frame")
    journal = Journal(directory, SETTINGS)
    journal.close()
    assert journal.recovery.cut_bytes == 12


def start_again_without_revisions(directory: Path) -> None:
    for base in saved(DirectoryDisk(directory)):
        (directory / revisions_name(base)).unlink()
    journal = Journal(directory, SETTINGS)
    journal.close()
    # All of them, in more than one file.
    assert journal.recovery.records_read == 45


@pytest.mark.parametrize("last", [45, 60])
def test_a_start_with_a_long_append_leaves_none_open_whether_it_is_whole_or_not(killed: Path, last: int) -> None:
    disk = DirectoryDisk(killed)
    (killed / MARK_NAME).unlink()
    begin(disk, UnfinishedAppend(1, DATA_START, 0, last))
    journal = Journal(killed, SETTINGS)
    assert journal.next_sequence == (46 if last == 45 else 1)
    journal.close()
    assert opened(killed) == []


def erase_an_entity(directory: Path) -> None:
    Journal(directory).close()
    assert erase(DirectoryDisk(directory), {"item"}, lambda where: None) == 45


def write_under_a_fence(directory: Path) -> None:
    for epoch in (1, 2):
        journal = Journal(directory, SETTINGS, fence=Fence(epoch, lambda: True))
        fill(journal)
        journal.close()


def lose_a_fence(directory: Path) -> None:
    held = True
    journal = Journal(directory, SETTINGS, fence=Fence(1, lambda: held))
    fill(journal, 4)
    held = False
    done = journal.append(columns(1), Policy.ACK).done
    assert done is not None
    with pytest.raises(JournalClosed):
        done.result(WAIT)
    journal.close()


def write_a_long_append(directory: Path) -> None:
    journal = Journal(directory, SETTINGS)
    journal.append_long(long_append([columns(30, f"item{number}") for number in range(10)])).done.result(WAIT)
    fill(journal)
    journal.close()


@pytest.mark.parametrize(
    "doing",
    [
        without_a_mark,
        everything,
        one_entity_again_and_again,
        the_last_and_a_revision,
        a_share_of_a_plan_in_part,
        look_through,
        look_for_the_oldest,
        start_again,
        start_again_with_a_torn_tail,
        start_again_without_revisions,
        erase_an_entity,
        write_under_a_fence,
        lose_a_fence,
        write_a_long_append,
    ],
    ids=lambda doing: doing.__name__,
)
def test_no_file_stays_open(killed: Path, doing: Callable[[Path], None]) -> None:
    doing(killed)
    assert opened(killed) == []


def test_a_long_append_that_failed_leaves_no_file_open_that_was_removed(tmp_path: Path) -> None:
    """The disk may be full: as long as somebody has a removed file open, it takes its space."""
    scribe = Scribe(DirectoryDisk(tmp_path))
    while not any(path.suffix == ".blocks" for path in opened(tmp_path)):
        scribe.append(columns(10))

    def unreadable(number: int) -> Any:
        raise OSError("the pieces cannot be read")

    with pytest.raises(OSError, match="the pieces cannot be read"):
        scribe.writer.append_long(map(unreadable, [1]), scribe.next, scribe.next + 9)
    scribe.writer.abandon()
    assert [path.name for path in opened(tmp_path)] == [MARK_NAME]
    scribe.writer.restart(scribe.next)
    scribe.append(columns(1))
    scribe.close()
    assert opened(tmp_path) == []
