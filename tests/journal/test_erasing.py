"""Erasing: no byte of an entity is left, others stay where they were, and a power cut at any operation does no harm."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from penstock.journal.disk import DirectoryDisk
from penstock.journal.erasing import erase
from penstock.journal.errors import NotErasable
from penstock.journal.index import index_name
from penstock.journal.indexes import Indexes
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.recovery import bases
from penstock.journal.revisions import revisions_name, saved
from penstock.journal.segment import DATA_START, ERASED_VERSION, HEADER_BLOCK, decode_segment_header, segment_name
from penstock.journal.selection import EventSelection
from penstock.journal.sidecar import read_sidecar
from penstock.journal.verification import verify
from penstock.testing.disk import FakeDisk, PowerCut
from tests.journal.world import NOON, Row, Scribe, columns, rows, rows_of, some_columns

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
LIVES = 400 if LONG else 20

SEGMENT_BYTES = 14_000


def nowhere(where: str) -> None:
    """No crash."""


def without(found: list[Row], entities: set[str]) -> list[Row]:
    return [row for row in found if row[1] not in entities]


def holds(disk: FakeDisk, *words: str) -> list[str]:
    """Files in which a word is found, in sidecars as well, which are compressed."""
    found = []
    for name in disk.names():
        data = disk.content(name)
        if name.endswith((".index", ".revisions")):
            data = repr([table.to_pylist() for table in read_sidecar(disk, name) or []]).encode()
        if any(word.encode() in data for word in words):
            found.append(name)
    return found


def check_erased(disk: FakeDisk, before: list[Row], entities: set[str]) -> None:
    kept = without(before, entities)
    found, damages = rows(disk)
    assert (found, damages) == (kept, [])
    assert verify(disk).damages == []
    gone = [row for row in before if row[1] in entities]
    assert holds(disk, *entities, *(row[3] for row in gone if row[3] is not None and len(row[3]) > 20)) == []


@pytest.mark.parametrize("number", range(LIVES))
def test_against_a_naive_model_with_a_power_cut_at_any_operation(number: int) -> None:
    random = Random(number)
    disk = FakeDisk()
    scribe = Scribe(disk, SEGMENT_BYTES)
    for _ in range(random.randint(1, 40)):
        scribe.append(some_columns(random), sync=random.random() < 0.5)
    if random.random() < 0.5:
        scribe.close()
    disk = disk.kill()
    before, _ = rows(disk)
    known = sorted({row[1] for row in before})
    entities = set(random.sample(known, random.randint(1, len(known))))
    if random.random() < 0.2:
        entities.add("nobody")
    # What was planned by a reader before is read by another one afterwards.
    Scribe(disk, SEGMENT_BYTES).close()
    shares = JournalReader(disk).plan(None, None, random.randint(1, 4))
    old = JournalReader(disk, indexes=Indexes())
    assert rows_of(old.read()) == before
    crashes = 0
    while True:
        disk.power_cut_at = len(disk.operations) + random.randint(0, 150)
        try:
            Scribe(disk, SEGMENT_BYTES).close()
            erase(disk, entities, nowhere)
            disk.power_cut_at = None
            break
        except PowerCut:
            crashes += 1
            disk = disk.cut_power(random) if random.random() < 0.5 else disk.kill()
            # At any time others are whole, and what is left of the erased has its own numbers.
            found, damages = rows(disk)
            assert damages == []
            assert without(found, entities) == without(before, entities)
            assert set(found) <= set(before)
            if crashes > 10:
                disk.power_cut_at = None
                Scribe(disk, SEGMENT_BYTES).close()
                erase(disk, entities, nowhere)
                break
    check_erased(disk, before, entities)
    kept = without(before, entities)
    reader = JournalReader(disk)
    assert rows_of(batch for share in shares for batch in reader.read_slices(share)) == kept
    for entity in known:
        one = [row for row in kept if row[1] == entity]
        assert rows(disk, EventSelection((entity,)))[0] == one
        newest = reader.last(reader.earliest(), EventSelection((entity,)))
        assert (None if newest is None else rows_of([newest])[0]) == (one[-1] if one else None)
        for _, _, revision, _ in one[:: max(1, len(one) // 3)]:
            start = reader.seek(reader.earliest(), entity, revision)
            assert [
                row for row in rows_of(reader.read(start, selection=EventSelection((entity,)))) if row[2] >= revision
            ] == [row for row in one if row[2] >= revision]
    for _ in range(5):
        first = random.randint(1, before[-1][0])
        last = random.randint(first, before[-1][0])
        assert rows_of(reader.read(first, last + 1)) == [row for row in kept if first <= row[0] <= last]
    # It goes on: sequences of all, revisions of others; who was erased begins anew.
    scribe = Scribe(disk, SEGMENT_BYTES)
    assert scribe.next == before[-1][0] + 1
    assert not entities & scribe.revisions.keys()
    highest = {row[1]: row[2] for row in kept}
    assert {entity: scribe.revisions[entity] for entity in highest} == highest
    scribe.append(columns(2, entity=next(iter(sorted(entities)))))
    scribe.close()
    assert [row[2] for row in rows(disk)[0][len(kept) :]] == [1, 2]
    assert verify(disk).damages == []


def journal_of(directory: Path, appends: int = 40) -> list[Row]:
    journal = Journal(directory, JournalSettings(segment_bytes=20_000))
    for number in range(appends):
        receipt = journal.append(columns(20, entity=f"person{number % 3}", at=NOON + number), Policy.ACK)
        assert receipt.done is not None
        receipt.done.result(20)
    journal.close()
    return rows(DirectoryDisk(directory))[0]


def test_frames_stay_where_they_are_and_only_changed_segments_get_the_newer_version(tmp_path: Path) -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for name in ("anna", "berta", "anna", "carl"):
        scribe.append(columns(3, entity=name))
    scribe.close()
    sizes = {name: disk.size(name) for name in disk.names() if name.endswith(".segment")}
    blocks = {base: read_sidecar(disk, index_name(base)) for base in bases(disk)}
    assert erase(disk, {"anna"}, nowhere) == 6
    assert {name: disk.size(name) for name in disk.names() if name.endswith(".segment")} == sizes
    versions = {}
    for base in bases(disk):
        header, damaged = decode_segment_header(disk.content(segment_name(base))[:DATA_START], "")
        assert header is not None
        assert not damaged
        versions[base] = header.version
        tables = blocks[base]
        assert tables is None or (read_sidecar(disk, index_name(base)) or [])[0].equals(tables[0])
    assert versions == {1: ERASED_VERSION, 4: 1, 7: ERASED_VERSION, 10: 1}


def test_an_erased_record_among_others_of_its_frame_leaves_a_gap() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    mixed = Columns()
    for number, name in enumerate(("berta", "anna", "berta", "anna", "carl")):
        mixed.add(name, NOON + number, "update", "", f"{name}{number}", '{"by":"x"}' if number % 2 else None)
    scribe.append(mixed)
    scribe.close()
    erase(disk, {"anna"}, nowhere)
    assert rows(disk) == ([(1, "berta", 1, "berta0"), (3, "berta", 2, "berta2"), (5, "carl", 1, "carl4")], [])
    reader = JournalReader(disk)
    assert [rows_of(reader.read(first, first + 2)) for first in range(1, 5)] == [
        [(1, "berta", 1, "berta0")],
        [(3, "berta", 2, "berta2")],
        [(3, "berta", 2, "berta2")],
        [(5, "carl", 1, "carl4")],
    ]
    assert rows_of(reader.read(2, 3)) == []


def test_all_records_of_a_journal_may_go() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(3):
        scribe.append(columns(4, entity="anna"))
    scribe.close()
    assert erase(disk, {"anna"}, nowhere) == 12
    assert rows(disk) == ([], [])
    assert list(JournalReader(disk).read()) == []
    assert JournalReader(disk).poll() == 12
    assert verify(disk).damages == []
    assert Scribe(disk).next == 13


def test_a_reader_that_has_a_file_open_goes_on_with_it(tmp_path: Path) -> None:
    before = journal_of(tmp_path)
    reader = JournalReader(tmp_path)
    batches = reader.read(rows=1)
    first = next(batches)
    Journal(tmp_path).close()
    erase(DirectoryDisk(tmp_path), {"person1"}, nowhere)
    rest = rows_of([first, *batches])
    assert reader.damages == []
    assert without(rest, {"person1"}) == without(before, {"person1"})
    assert rows_of(reader.read()) == without(before, {"person1"})
    assert reader.damages == []


def test_a_name_that_is_part_of_another_or_looks_like_a_pattern_erases_nothing_else() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    for name in ("anna*", "anna", "annabel", "hanna"):
        scribe.append(columns(2, entity=name))
    scribe.close()
    erase(disk, {"anna*"}, nowhere)
    assert [row[1] for row in rows(disk)[0]] == ["anna"] * 2 + ["annabel"] * 2 + ["hanna"] * 2
    erase(disk, {"anna"}, nowhere)
    assert [row[1] for row in rows(disk)[0]] == ["annabel"] * 2 + ["hanna"] * 2


def test_a_damaged_place_that_has_the_name_is_blanked_and_stays_damaged() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(3, entity="anna-of-the-hill"))
    scribe.append(columns(3, entity="carl"))
    scribe.close()
    disk.flip(segment_name(1), (DATA_START + 8) * 8)
    told = rows(disk)[1]
    erase(disk, {"anna-of-the-hill"}, nowhere)
    assert holds(disk, "anna-of-the-hill") == []
    found, damages = rows(disk)
    assert ([row[1] for row in found], damages) == (["carl"] * 3, told)


def test_a_damaged_sidecar_goes_and_a_segment_without_a_header_is_refused() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    scribe.append(columns(3, entity="anna-of-the-hill"))
    scribe.append(columns(3, entity="carl"))
    scribe.close()
    disk.flip(index_name(1), 999)
    disk.flip(revisions_name(saved(disk)[0]), 999)
    for copy in (0, HEADER_BLOCK):
        disk.flip(segment_name(1), copy * 8 + 3)
    with pytest.raises(NotErasable, match=r"header of 00000000000000000001\.segment cannot be read"):
        erase(disk, {"anna-of-the-hill"}, nowhere)
    assert erase(disk, {"carl"}, nowhere) == 3
    assert index_name(1) not in disk.names()
    assert revisions_name(1) not in disk.names()


def test_places_where_it_may_be_killed_are_told() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=1)
    scribe.append(columns(3, entity="anna"))
    scribe.append(columns(3, entity="anna"))
    scribe.close()
    told: list[str] = []
    erase(disk, {"anna"}, partial(list.append, told))
    assert told == ["segment", "index"] * 2 + ["revisions"] * 2


def test_a_segment_is_replaced_on_the_disk_before_its_index_is() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    scribe.append(columns(3, entity="anna"))
    scribe.close()
    before = len(disk.operations)
    erase(disk, {"anna"}, nowhere)
    done = [(operation.kind, operation.name) for operation in disk.operations[before:]]
    at = done.index(("rename", segment_name(1)))
    assert done[at - 1] == ("sync", segment_name(1) + ".tmp")
    assert done[at + 1] == ("sync directory", "")
    assert done[at + 2] == ("create", index_name(1) + ".tmp")
