from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from penstock.journal.errors import DirectoryInUse, Fenced, JournalClosed
from penstock.journal.fence import OWNER_NAME, SKIPPED, Fence
from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.testing.disk import FakeDisk, Operation
from tests.journal.world import Row, Scribe, columns, rows, rows_of

WAIT = 20.0

# So small that nearly every append begins another segment.
SEGMENT = 3_000


class Lease:
    """One that the test takes away."""

    def __init__(self, epoch: int) -> None:
        self.held = True
        self.fence = Fence(epoch, lambda: self.held)


def test_an_owner_writes_as_long_as_it_holds_the_lease(tmp_path: Path) -> None:
    lease = Lease(1)
    journal = Journal(tmp_path, fence=lease.fence)
    done = journal.append(columns(2), Policy.ACK).done
    assert done is not None
    done.result(WAIT)
    lease.held = False
    done = journal.append(columns(1), Policy.ACK).done
    assert done is not None
    with pytest.raises(Fenced, match="another process may own the journal"):
        done.result(WAIT)
    with pytest.raises(JournalClosed, match="another process may own"):
        journal.append(columns(1), Policy.ACK)
    assert journal.trouble is not None
    journal.close()
    assert len(rows_of(JournalReader(tmp_path).read())) == 2


def test_an_owner_that_left_in_good_order_has_left_nothing_out(tmp_path: Path) -> None:
    for epoch in (1, 2):
        journal = Journal(tmp_path, fence=Lease(epoch).fence)
        journal.append(columns(3), Policy.OFF)
        journal.close()
    assert [row[0] for row in rows_of(JournalReader(tmp_path).read())] == [1, 2, 3, 4, 5, 6]


def test_an_owner_may_open_its_journal_again_in_the_same_epoch_and_one_of_an_earlier_epoch_may_not(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        journal = Journal(tmp_path, fence=Lease(2).fence)
        journal.append(columns(3), Policy.OFF)
        journal.close()
    with pytest.raises(Fenced, match="belongs to epoch 2, and this is 1"):
        Journal(tmp_path, fence=Lease(1).fence)
    assert [row[0] for row in rows_of(JournalReader(tmp_path).read())] == [1, 2, 3, 4, 5, 6]


def test_another_owner_takes_a_journal_that_is_still_locked_and_leaves_out_numbers(tmp_path: Path) -> None:
    old, new = Lease(1), Lease(2)
    first = Journal(tmp_path, fence=old.fence)
    done = first.append(columns(3), Policy.ACK).done
    assert done is not None
    done.result(WAIT)
    old.held = False
    second = Journal(tmp_path, fence=new.fence)
    assert second.append(columns(1), Policy.OFF).first == 4 + SKIPPED
    first.close()
    second.close()
    reader = JournalReader(tmp_path)
    assert [row[0] for row in rows_of(reader.read())] == [1, 2, 3, 4 + SKIPPED]
    assert reader.damages == []


def test_a_process_without_a_fence_keeps_the_journal_that_it_writes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(DirectoryInUse):
        Journal(tmp_path, fence=Lease(1).fence)
    journal.close()


def test_a_process_without_a_fence_that_has_the_lock_is_not_taken_for_an_old_owner(tmp_path: Path) -> None:
    Journal(tmp_path, fence=Lease(1).fence).close()
    journal = Journal(tmp_path)
    with pytest.raises(DirectoryInUse):
        Journal(tmp_path, fence=Lease(2).fence)
    journal.close()


def test_an_older_owner_cannot_open_it(tmp_path: Path) -> None:
    Journal(tmp_path, fence=Lease(5).fence).close()
    with pytest.raises(Fenced, match="belongs to epoch 5, and this is 4"):
        Journal(tmp_path, fence=Lease(4).fence)
    late = Lease(6)
    late.held = False
    with pytest.raises(Fenced):
        Journal(tmp_path, fence=late.fence)


def test_a_note_of_the_owner_that_cannot_be_read_is_of_one_that_has_not_left(tmp_path: Path) -> None:
    Journal(tmp_path, fence=Lease(5).fence).close()
    (tmp_path / OWNER_NAME).write_bytes(b"\xff\xff")
    journal = Journal(tmp_path, fence=Lease(6).fence)
    assert journal.next_sequence == 1 + SKIPPED
    journal.close()


def test_an_old_owner_that_believes_in_its_lease_writes_into_nothing_that_counts(tmp_path: Path) -> None:
    """Its clock may be wrong: then the files themselves are what is left to protect them."""
    first = Journal(tmp_path, fence=Lease(1).fence)
    done = first.append(columns(3), Policy.ACK).done
    assert done is not None
    done.result(WAIT)
    second = Journal(tmp_path, fence=Lease(2).fence)
    done = second.append(columns(2, "new"), Policy.ACK).done
    assert done is not None
    done.result(WAIT)
    late = first.append(columns(3, "late"), Policy.ACK).done
    assert late is not None
    late.result(WAIT)
    second.close()
    found = rows_of(JournalReader(tmp_path).read())
    assert [row[1] for row in found] == ["item"] * 3 + ["new"] * 2
    # Ended without sealing, as a process that is killed.
    first._fence = first._writer._fence = Fence(1, lambda: False)
    first.close()


class Frozen:
    """An old owner that is frozen before one of its operations, and resumed after another has taken over."""

    def __init__(self, at: int, ends: set[str]) -> None:
        self.disk = FakeDisk()
        self.at = at
        self.count = 0
        self.old, self.new = Lease(1), Lease(2)
        self.acknowledged: list[int] = []
        self.successor: Scribe | None = None
        self.found: list[Row] = []
        self.ends = ends
        self.disk.fault = self.before

    def before(self, operation: Operation) -> int | None:
        number, self.count = self.count, self.count + 1
        if number == self.at:
            self.old.held = False
            self.disk.fault = None
            self.successor = Scribe(self.disk, SEGMENT, fence=self.new.fence)
            self.found = rows(self.disk)[0]
            self.write(self.successor, "new")
        return None

    def write(self, scribe: Scribe, entity: str) -> None:
        for _ in range(3):
            last = scribe.append(columns(4, entity))
            scribe.writer.check()
            self.acknowledged += range(last - 3, last + 1)

    def run(self) -> None:
        """As the journal's thread does it."""
        scribe: Scribe | None = None
        try:
            scribe = Scribe(self.disk, SEGMENT, fence=self.old.fence)
            self.write(scribe, "old")
            scribe.close()
        except Fenced:
            self.ends.add("fenced")
        except FileNotFoundError:
            self.ends.add("its file was removed")
            if scribe is not None:
                scribe.writer.abandon()
                with pytest.raises(Fenced):
                    scribe.writer.restart(scribe.next)


def test_whenever_an_old_owner_is_frozen_nothing_acknowledged_is_lost_and_nothing_late_is_seen() -> None:
    ends: set[str] = set()
    for at in count():
        world = Frozen(at, ends)
        world.run()
        if world.successor is None:
            break
        world.write(world.successor, "new")
        found, damages = rows(world.disk)
        assert damages == [], at
        assert [row for row in found if row[1] == "old"] == world.found, at
        numbers = [row[0] for row in found]
        assert numbers == sorted(set(numbers)), at
        assert set(world.acknowledged) <= set(numbers), at
        # And so it stays, if the new owner is killed.
        third = Scribe(world.disk.kill(), SEGMENT, fence=Lease(3).fence)
        assert third.recovery.damages == [], at
    assert at > 40
    assert ends == {"fenced", "its file was removed"}
