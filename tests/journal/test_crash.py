"""Power cuts at any operation, and damage at any bit: what was acknowledged stays, what is damaged is told."""

from __future__ import annotations

import os
from random import Random

import pytest

from penstock.journal.errors import JournalError
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.mark import MARK_NAME
from penstock.journal.segment import SEGMENT_SUFFIX
from penstock.testing.disk import FakeDisk, PowerCut
from tests.journal.world import Row, Scribe, rows, some_columns

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
CRASHES = 500 if LONG else 90
CORRUPTIONS = 500 if LONG else 90
THREADED = 100 if LONG else 25

# Small, so that a life of a few dozen appends has several segments.
SEGMENT_BYTES = 14_000
LIVES = 4


class Truth:
    """What the journal must hold: all that was acknowledged, and of the rest a beginning or nothing."""

    def __init__(self) -> None:
        self.kept: list[Row] = []

    def check(self, disk: FakeDisk, tried: list[Row], acknowledged: int, *, synced_always: bool) -> None:
        """After a crash: settle what became of the records that were tried in that life."""
        found, damages = rows(disk)
        possible = self.kept + tried
        assert found == possible[: len(found)], "in order, each once, nothing that was not appended"
        assert not found or found[-1][0] >= acknowledged
        assert found or not acknowledged
        if synced_always:
            assert damages == []
        self.kept = found


@pytest.mark.parametrize("number", range(CRASHES))
def test_after_a_power_cut_at_any_operation_everything_acknowledged_is_there(number: int) -> None:
    random = Random(number)
    disk = FakeDisk()
    truth = Truth()
    for _ in range(LIVES):
        disk.power_cut_at = random.randint(0, 120)
        tried: list[Row] = []
        acknowledged = truth.kept[-1][0] if truth.kept else 0
        scribe = None
        try:
            scribe = Scribe(disk, SEGMENT_BYTES)
            assert scribe.next == acknowledged + 1
            tried = scribe.tried
            while True:
                acknowledged = scribe.append(some_columns(random))
        except PowerCut:
            pass
        disk = disk.cut_power(random)
        check_recovery(disk, truth, tried, acknowledged)


def check_recovery(disk: FakeDisk, truth: Truth, tried: list[Row], acknowledged: int) -> None:
    scribe = Scribe(disk, SEGMENT_BYTES)
    assert scribe.recovery.damages == []
    truth.check(disk, tried, acknowledged, synced_always=True)
    highest: dict[str, int] = {}
    for sequence, entity, revision, _ in truth.kept:
        assert revision > highest.get(entity, 0), f"revision of {entity} at {sequence}"
        highest[entity] = revision
    assert all(scribe.revisions[entity] >= revision for entity, revision in highest.items())
    scribe.close()


@pytest.mark.parametrize("number", range(CRASHES // 3))
def test_records_without_a_sync_are_there_as_a_beginning_or_told_as_missing(number: int) -> None:
    random = Random(number)
    disk = FakeDisk(power_cut_at=random.randint(0, 150))
    tried: list[Row] = []
    acknowledged = 0
    try:
        scribe = Scribe(disk, SEGMENT_BYTES)
        tried = scribe.tried
        while True:
            last = scribe.append(some_columns(random), sync=random.random() < 0.2)
            acknowledged = scribe.writer.synced
            assert acknowledged <= last
    except PowerCut:
        pass
    disk = disk.cut_power(random)
    scribe = Scribe(disk, SEGMENT_BYTES)
    found, damages = rows(disk)
    assert found == tried[: len(found)]
    assert len(found) >= acknowledged
    # Whoever reads on learns of those that readers may have seen before.
    assert scribe.next == len(found) + 1 or [(damage.first, damage.last) for damage in damages] == [
        (len(found) + 1, scribe.next - 1)
    ]


@pytest.mark.parametrize("number", range(CRASHES // 3))
def test_after_a_kill_everything_written_is_there(number: int) -> None:
    random = Random(number)
    disk = FakeDisk(power_cut_at=random.randint(0, 150))
    tried: list[Row] = []
    committed = 0
    try:
        scribe = Scribe(disk, SEGMENT_BYTES)
        tried = scribe.tried
        while True:
            committed = scribe.append(some_columns(random), sync=random.random() < 0.5)
    except PowerCut:
        pass
    disk = disk.kill()
    scribe = Scribe(disk, SEGMENT_BYTES)
    found, damages = rows(disk)
    assert damages == []
    assert len(found) >= committed
    assert found == tried[: len(found)]
    # What was recovered now survives a power cut as well.
    again, damages = rows(recovered(disk.cut_power(random)))
    assert (again, damages) == (found, [])


@pytest.mark.parametrize("number", range(THREADED))
def test_whose_future_has_resolved_finds_the_records_after_a_power_cut(number: int) -> None:
    random = Random(number)
    disk = FakeDisk(power_cut_at=random.randint(5, 80))
    settings = JournalSettings(segment_bytes=SEGMENT_BYTES, interval_millis=1)
    acknowledged = 0
    appended = 0
    journal = None
    try:
        journal = Journal(disk, settings)
        waiting = []
        while True:
            given = some_columns(random)
            receipt = journal.append(given, random.choice((Policy.ACK, Policy.INTERVAL)))
            appended = receipt.first + len(given) - 1
            if receipt.done is not None:
                waiting.append((appended, receipt.done))
            if len(waiting) == 3:
                for last, done in waiting:
                    done.result(10)
                    acknowledged = last
                waiting.clear()
    except (PowerCut, JournalError):
        pass
    if journal is not None:
        journal.close()
    found, damages = rows(recovered(disk.cut_power(random)))
    assert [row[0] for row in found] == list(range(1, len(found) + 1))
    assert acknowledged <= len(found) <= appended
    assert damages == []


def recovered(disk: FakeDisk) -> FakeDisk:
    Scribe(disk).close()
    return disk


# -- damage -------------------------------------------------------------------------------------------------------


def written(random: Random, *, closed: bool) -> tuple[FakeDisk, list[Row], list[tuple[int, int]]]:
    """A journal of several segments, what is in it, and the first and last sequence of each frame."""
    disk = FakeDisk()
    scribe = Scribe(disk, SEGMENT_BYTES)
    frames = []
    for _ in range(40):
        first = scribe.next
        frames.append((first, scribe.append(some_columns(random))))
    if closed:
        scribe.close()
    return disk, scribe.tried, frames


def check_damaged(disk: FakeDisk, name: str, truth: list[Row], lost: set[int]) -> None:
    """Readers and the next start tell the damage, miss only what it hit, and everything goes on."""
    found, damages = rows(disk)
    assert found == [row for row in truth if row[0] not in lost]
    for missing in lost:
        assert any((damage.first or 0) <= missing <= (damage.last or missing) for damage in damages)
    scribe = Scribe(disk, SEGMENT_BYTES)
    assert damages or scribe.recovery.damages, f"{name} was damaged and nobody noticed"
    assert scribe.next > (found[-1][0] if found else 0)
    more = scribe.append(some_columns(Random(1)))
    again, _ = rows(disk)
    assert again == found + scribe.tried
    assert again[-1][0] == more


@pytest.mark.parametrize("number", range(CORRUPTIONS))
def test_a_flipped_bit_is_told_and_costs_one_frame_at_most(number: int) -> None:
    random = Random(number)
    closed = random.random() < 0.5
    disk, truth, frames = written(random, closed=closed)
    before = {row[0] for row in truth}
    name = random.choice(sorted(name for name in disk.names() if not name.endswith(".revisions")))
    bit = random.randrange(disk.size(name) * 8)
    disk.flip(name, bit)
    found, _ = rows(disk)
    lost = before - {row[0] for row in found}
    if name.endswith(SEGMENT_SUFFIX):
        assert not lost or (min(lost), max(lost)) in frames, "one frame at most"
    else:
        assert not lost
    check_damaged(disk, name, truth, lost)


@pytest.mark.parametrize("number", range(CORRUPTIONS // 3))
def test_a_segment_cut_short_is_told_and_costs_what_was_cut(number: int) -> None:
    random = Random(number)
    disk, truth, _ = written(random, closed=random.random() < 0.5)
    name = random.choice(sorted(name for name in disk.names() if name.endswith(SEGMENT_SUFFIX)))
    size = disk.size(name)
    cut = random.randrange(size)
    disk.cut(name, cut)
    found, _ = rows(disk)
    lost = {row[0] for row in truth} - {row[0] for row in found}
    bases = sorted(int(other.removesuffix(SEGMENT_SUFFIX)) for other in disk.names() if other.endswith(SEGMENT_SUFFIX))
    base = int(name.removesuffix(SEGMENT_SUFFIX))
    following = [other for other in bases if other > base]
    end = following[0] if following else len(truth) + 1
    assert lost <= set(range(base, end)), "of this segment only"
    assert lost == set(range(min(lost), end)) if lost else True, "only its end"
    check_damaged(disk, name, truth, lost)


@pytest.mark.parametrize("number", range(10))
def test_a_segment_that_is_gone_is_told(number: int) -> None:
    random = Random(number)
    disk, truth, _ = written(random, closed=random.random() < 0.5)
    names = sorted(name for name in disk.names() if name.endswith(SEGMENT_SUFFIX))
    gone = random.randrange(1, len(names))
    bases = [int(name.removesuffix(SEGMENT_SUFFIX)) for name in names] + [len(truth) + 1]
    disk.remove(names[gone])
    check_damaged(disk, names[gone], truth, set(range(bases[gone], bases[gone + 1])))


@pytest.mark.parametrize("number", range(10))
def test_damaged_revisions_are_told_at_the_start_and_counted_again(number: int) -> None:
    random = Random(number)
    disk, truth, _ = written(random, closed=random.random() < 0.5)
    highest = {entity: revision for _, entity, revision, _ in truth}
    for name in disk.names():
        if name.endswith(".revisions"):
            disk.flip(name, random.randrange(disk.size(name) * 8))
    scribe = Scribe(disk, SEGMENT_BYTES)
    assert len(scribe.recovery.damages) == 2
    assert scribe.revisions == highest


def test_without_its_mark_a_journal_is_read_as_far_as_it_is_whole() -> None:
    disk, truth, _ = written(Random(1), closed=False)
    disk.remove(MARK_NAME)
    assert rows(disk) == (truth, [])
