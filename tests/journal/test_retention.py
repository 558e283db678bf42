from __future__ import annotations

import pytest

from penstock.journal.errors import Expired
from penstock.journal.index import index_name
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.retention import Retention, SealedSegment, drop_expired, expired, find_expired
from penstock.journal.segment import HEADER_BLOCK, SEGMENT_SUFFIX, segment_name
from penstock.testing.disk import FakeDisk, Operation
from tests.journal.world import NOON, SECOND, Scribe, columns, rows

HOUR = 3600.0

# Ten records and 100 bytes each, sealed an hour after one another.
SEALED = [SealedSegment(base, base + 9, NOON + int(base // 10 * HOUR * SECOND), 100) for base in (1, 11, 21, 31)]
LAST_SEALED = SEALED[-1].sealed


@pytest.mark.parametrize(
    ("retention", "lake", "dropped"),
    [
        (Retention(), 40, []),
        (Retention(max_age_seconds=1.5 * HOUR), 40, [1, 11]),
        (Retention(max_age_seconds=1.5 * HOUR), 19, [1]),
        (Retention(max_age_seconds=1.5 * HOUR), 9, []),
        (Retention(max_age_seconds=0.0), 40, [1, 11, 21]),
        (Retention(max_bytes=250), 40, [1, 11]),
        (Retention(max_bytes=0), 40, [1, 11, 21, 31]),
        (Retention(max_bytes=0), 20, [1, 11]),
        (Retention(max_bytes=1000), 40, []),
        (Retention(max_age_seconds=2.5 * HOUR, max_bytes=350), 40, [1]),
    ],
)
def test_the_oldest_go_when_past_a_limit_and_in_the_lake(retention: Retention, lake: int, dropped: list[int]) -> None:
    assert expired(SEALED, 50, retention, lake, LAST_SEALED) == dropped


def test_a_clock_that_went_back_drops_nothing() -> None:
    assert expired(SEALED, 50, Retention(max_age_seconds=1.0), 40, NOON - SECOND) == []


def test_none_is_dropped_before_an_older_one_that_stays() -> None:
    """Whenever they were sealed, as a clock that was set says."""
    young = SealedSegment(1, 10, NOON, 100)
    old = SealedSegment(11, 20, NOON - int(10 * HOUR * SECOND), 100)
    limit = Retention(max_age_seconds=HOUR)
    assert expired([young, old], 50, limit, 40, NOON) == []
    assert expired([old, young], 50, limit, 40, NOON) == [11]


def test_a_segment_before_a_damaged_header_is_never_too_old_and_ends_where_the_next_begins() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(3):
        scribe.append(columns(10))
    for copy in (0, HEADER_BLOCK):
        disk.flip(segment_name(11), copy * 8 + 3)
    active, later = scribe.writer.segment, NOON + 10**6 * SECOND
    assert find_expired(disk, Retention(max_age_seconds=1), 30, later, active) == []
    assert find_expired(disk, Retention(max_bytes=0), 9, later, active) == []
    assert find_expired(disk, Retention(max_bytes=0), 10, later, active) == [1]
    # Only what is before the segment that is written.
    assert find_expired(disk, Retention(max_bytes=0), 30, later, 11) == [1]


def test_names_are_gone_for_good_and_where_nothing_is_dropped_nothing_is_done() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(3):
        scribe.append(columns(10))
    before = len(disk.operations)
    assert drop_expired(disk, Retention(), 30, NOON, scribe.writer.segment) == []
    assert disk.operations[before:] == []
    assert drop_expired(disk, Retention(max_bytes=0), 10, NOON, scribe.writer.segment) == [1]
    assert disk.operations[before:] == [
        Operation("remove", index_name(1)),
        Operation("remove", segment_name(1)),
        Operation("sync directory", ""),
    ]


def test_dropped_segments_are_gone_with_their_indexes_and_readers_are_told() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(4):
        scribe.append(columns(10))
    reader = JournalReader(disk)
    following = reader.read(11, rows=1)
    assert next(following).column("sequence")[0].as_py() == 11
    assert drop_expired(disk, Retention(max_bytes=0), 25, NOON, scribe.writer.segment) == [1, 11]
    assert sorted(name for name in disk.names() if name.endswith((SEGMENT_SUFFIX, ".index"))) == [
        f"{21:020d}.index",
        f"{21:020d}{SEGMENT_SUFFIX}",
        f"{31:020d}{SEGMENT_SUFFIX}",
    ]
    assert reader.earliest() == 21
    with pytest.raises(Expired, match="sequence 20 was dropped by retention; the earliest left is 21") as raised:
        list(reader.read(20))
    assert raised.value.earliest == 21
    found, damages = rows(disk)
    assert [row[0] for row in found] == list(range(21, 41))
    assert damages == []


def test_what_is_dropped_while_it_is_read_is_no_silent_gap() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(3):
        scribe.append(columns(10))
    reading = JournalReader(disk).read(rows=1)
    next(reading)
    drop_expired(disk, Retention(max_bytes=0), 30, NOON, scribe.writer.segment)
    with pytest.raises(Expired, match="sequence 11 was dropped"):
        list(reading)


def test_revisions_go_on_after_all_sealed_segments_are_dropped() -> None:
    disk = FakeDisk()
    journal = Journal(disk, JournalSettings(segment_bytes=1))
    for _ in range(3):
        journal.append(columns(10), Policy.INTERVAL)
        journal.flush().result(20)
    assert journal.past_retention(Retention(max_bytes=0), lake_sequence=10**9) == [1, 11]
    assert journal.retain(Retention(max_bytes=0), lake_sequence=10**9) == [1, 11]
    assert journal.past_retention(Retention(max_bytes=0), lake_sequence=10**9) == []
    journal.close()
    journal = Journal(disk)
    assert (journal.next_sequence, journal.revision("item")) == (31, 30)
    assert journal.retain(Retention(max_bytes=0), lake_sequence=10**9) == [21]
    journal.close()
    journal = Journal(disk)
    assert (journal.next_sequence, journal.revision("item")) == (31, 30)
    journal.close()
