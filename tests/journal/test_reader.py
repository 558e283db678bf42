from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.journal.damage import Damage
from penstock.journal.index import index_name
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.segment import DATA_START, segment_name
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.testing.disk import FakeDisk
from tests.journal.world import NOON, SECOND, Row, Scribe, columns, rows, rows_of, some_columns


def numbers(batches: Iterable[Any]) -> list[int]:
    return [row[0] for row in rows_of(batches)]


def filled(commits: int = 60, *, closed: bool = False, segment_bytes: int = 14_000) -> tuple[FakeDisk, list[Row]]:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes)
    random = Random(7)
    for _ in range(commits):
        scribe.append(some_columns(random))
    if closed:
        scribe.close()
    return disk, scribe.tried


def test_an_empty_directory_has_nothing_to_read() -> None:
    reader = JournalReader(FakeDisk())
    assert (reader.poll(), reader.earliest(), list(reader.read()), reader.plan(None, None, 4)) == (0, 1, [], [])
    assert reader.sequence_at(NOON) == 1


def test_a_journal_without_records_has_nothing_to_read() -> None:
    disk = FakeDisk()
    Scribe(disk)
    reader = JournalReader(disk)
    assert (reader.poll(), reader.earliest(), list(reader.read())) == (0, 1, [])


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("tiny", [False, True])
def test_any_range_comes_in_order_each_once(closed: bool, tiny: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiny:
        # Blocks of one frame, so that ranges begin and end in all of them.
        monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1)
    disk, truth = filled(closed=closed)
    reader = JournalReader(disk)
    latest = truth[-1][0]
    assert reader.poll() == latest
    for start in range(1, latest + 2, 5):
        for stop in (start, start + 1, start + 17, latest, latest + 1, latest + 100):
            wanted = [row for row in truth if start <= row[0] < stop]
            assert rows_of(reader.read(start, stop)) == wanted
    assert reader.damages == []


SELECTIONS = [
    EVERYTHING,
    EventSelection(entities=("item3",)),
    EventSelection(entities=("item1", "*5")),
    EventSelection(kinds=("delete",)),
    EventSelection(kinds=("nothing",)),
    EventSelection(entities=("nothing*",)),
    EventSelection(since=NOON + 5 * 10**8),
    EventSelection(until=NOON + 3 * 10**8, entities=("item?",), kinds=("update",)),
]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("tiny", [False, True])
def test_what_is_selected_is_what_a_look_at_every_record_finds(
    selection: EventSelection, tiny: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiny:
        monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1)
    disk, _ = filled()
    everything = list(JournalReader(disk).read(rows=1))
    for start, stop in ((None, None), (20, 120), (77, 78)):
        inside = [
            batch.filter([(start or 1) <= number < (stop or 10**9) for number in batch.column("sequence").to_pylist()])
            for batch in everything
        ]
        wanted = rows_of(selection.apply(batch) for batch in inside)
        reader = JournalReader(disk)
        assert rows_of(reader.read(start, stop, selection)) == wanted
        for parts in (1, 3, 100):
            shares = reader.plan(start, stop, parts, selection)
            assert len(shares) <= parts
            assert [row for share in shares for row in rows_of(reader.read_slices(share, selection))] == wanted


def test_a_share_of_a_plan_is_plain_data_that_another_process_reads_again_and_again() -> None:
    disk, truth = filled(commits=400)
    shares = pickle.loads(pickle.dumps(JournalReader(disk).plan(5, 900, 4)))
    assert len(shares) == 4
    for _ in range(2):
        found = [row for share in shares for row in rows_of(JournalReader(disk).read_slices(share))]
        assert found == [row for row in truth if 5 <= row[0] < 900]
    sizes = [sum(piece.end - piece.position for piece in share) for share in shares]
    assert max(sizes) < 2 * min(sizes)


def test_what_follows_in_one_segment_is_one_slice_of_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks of one frame: without joining, each would be a slice, and be opened and read by itself.
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1)
    disk, truth = filled()
    (share,) = JournalReader(disk).plan(None, None, 1)
    segments = [piece.segment for piece in share]
    assert len(segments) > 1
    assert segments == sorted(set(segments))
    assert (share[0].first, share[-1].last) == (truth[0][0], truth[-1][0])


def test_the_salt_of_a_sequence_tells_one_journal_from_another() -> None:
    disk, truth = filled()
    latest = truth[-1][0]
    other, _ = filled()
    salts = {JournalReader(disk).salt_at(sequence) for sequence in (1, latest)}
    assert len(salts) == 2
    assert None not in salts
    assert {JournalReader(disk).salt_at(sequence) for sequence in (1, latest)} == salts
    assert not salts & {JournalReader(other).salt_at(sequence) for sequence in (1, latest)}
    assert (JournalReader(disk).salt_at(0), JournalReader(FakeDisk()).salt_at(1)) == (None, None)


def test_a_plan_needs_at_least_one_part() -> None:
    with pytest.raises(ValueError, match="parts is 0"):
        JournalReader(FakeDisk()).plan(None, None, 0)


def test_a_reader_follows_what_is_written() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=12_000)
    reader = JournalReader(disk)
    random = Random(3)
    seen: list[Row] = []
    for step in range(80):
        scribe.append(some_columns(random))
        if step % 3 == 0:
            start = len(seen) + 1
            seen += rows_of(reader.read(start))
            assert seen == scribe.tried
            assert reader.poll() == len(seen)
    assert reader.damages == []


def test_what_is_written_but_not_committed_is_not_seen() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(2))
    content = disk.content(segment_name(1))
    disk.open(segment_name(1)).write(len(content), [content[DATA_START:]])
    reader = JournalReader(disk)
    assert numbers(reader.read()) == [1, 2]
    assert (reader.poll(), reader.damages) == (2, [])


def test_a_reader_follows_across_a_restart_of_the_writer_with_an_empty_segment() -> None:
    disk = FakeDisk()
    Scribe(disk).close()
    reader = JournalReader(disk)
    assert list(reader.read()) == []
    scribe = Scribe(disk)
    scribe.append(columns(3))
    assert numbers(reader.read(1)) == [1, 2, 3]
    assert reader.damages == []


@pytest.mark.parametrize("missing", [index_name, lambda base: "mark"])
def test_without_index_or_mark_everything_is_still_found(missing: Any) -> None:
    disk, truth = filled()
    disk.remove(missing(1))
    reader = JournalReader(disk)
    assert rows_of(reader.read()) == truth
    assert rows_of(reader.read(selection=EventSelection(entities=("item2",)))) == [
        row for row in truth if row[1] == "item2"
    ]
    assert reader.damages == []


def test_the_first_record_at_or_after_a_time_is_found_even_where_the_clock_jumped() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for at in (10, 20, 15, 40, 5, 50):
        given = Columns()
        given.add("e", NOON + at * SECOND, "update", "", None)
        scribe.append(given)
    reader = JournalReader(disk)
    found = [reader.sequence_at(NOON + at * SECOND) for at in (0, 10, 11, 20, 21, 40, 41, 50, 51)]
    assert found == [1, 1, 2, 2, 4, 4, 6, 6, 7]


def test_small_frames_are_joined_and_large_ones_are_not() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    for _ in range(10):
        scribe.append(columns(7))
    reader = JournalReader(disk)
    assert [batch.num_rows for batch in reader.read(rows=1)] == [7] * 10
    assert [batch.num_rows for batch in reader.read(rows=20)] == [21, 21, 21, 7]
    assert [batch.num_rows for batch in reader.read()] == [70]


def test_one_entity_is_read_without_reading_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 4_000)
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=400_000)
    for number in range(200):
        scribe.append(columns(20, f"item{number}"))
    scribe.append(columns(1, "next"))
    scribe.writer.seal()
    scribe.writer.start(scribe.next, scribe.next - 1)
    reader = JournalReader(disk)
    (share,) = reader.plan(None, None, 1, EventSelection(entities=("item77",)))
    assert sum(piece.end - piece.position for piece in share) < disk.size(segment_name(1)) / 50
    assert [row[1] for row in rows_of(reader.read_slices(share, EventSelection(entities=("item77",))))] == [
        "item77"
    ] * 20


def test_damage_is_reported_once() -> None:
    disk, truth = filled()
    disk.flip(segment_name(1), (DATA_START + 200) * 8)
    told: list[Damage] = []
    reader = JournalReader(disk, told.append)
    first = rows_of(reader.read())
    assert len(first) < len(truth)
    assert rows_of(reader.read()) == first
    assert len(told) == 1
    assert reader.damages == told
    assert JournalReader(disk).verify() == told


def test_damage_is_found_by_every_way_of_reading() -> None:
    disk, truth = filled()
    disk.flip(segment_name(1), (DATA_START + 200) * 8)
    expected = rows_of(JournalReader(disk).read())
    planned = JournalReader(disk)
    assert [row for share in planned.plan(None, None, 5) for row in rows_of(planned.read_slices(share))] == expected
    selective = JournalReader(disk)
    assert rows_of(selective.read(selection=EventSelection(entities=("*",)))) == expected
    late = JournalReader(disk)
    assert rows_of(late.read(2)) == [row for row in expected if row[0] >= 2]
    assert len(planned.damages) == len(selective.damages) == len(late.damages) == 1
    assert expected != truth


def test_a_real_journal_is_followed_from_another_thread_while_it_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, JournalSettings(segment_bytes=50_000, interval_millis=1))
    reader = JournalReader(tmp_path)
    seen: list[int] = []
    for _ in range(300):
        journal.append(columns(10), Policy.INTERVAL)
        if reader.poll() >= len(seen) + 100:
            seen += numbers(reader.read(len(seen) + 1))
    journal.flush().result(20)
    seen += numbers(reader.read(len(seen) + 1))
    journal.close()
    assert seen == list(range(1, 3001))
    assert reader.damages == []


def test_the_reader_brings_nothing_of_the_server_along() -> None:
    """A Spark task imports it in a process of its own."""
    program = "import sys, penstock.journal.reader; print(*sorted(name for name in sys.modules if 'penstock' in name))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    outside = [name for name in loaded if not name.startswith("penstock.journal.") and name != "penstock.journal"]
    # Which build there is, the package itself finds out; `durable` is what all files have in common.
    assert outside == ["penstock", "penstock.build", "penstock.build.choice", "penstock.durable"]
    assert "penstock.journal.journal" not in loaded


def test_the_segment_being_written_is_told_when_it_is_missing() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(3):
        scribe.append(columns(2))
    disk.remove(segment_name(5))
    found, damages = rows(disk)
    assert [row[0] for row in found] == [1, 2, 3, 4]
    assert damages == [Damage(segment_name(5), 0, 0, 5, 6, "the file is missing")]
