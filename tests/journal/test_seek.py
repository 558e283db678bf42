"""Finding a revision: never too late, whatever share of the journal an entity has, and soon where that is large."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.journal.index import index_name
from penstock.journal.reader import JournalReader, Slice, _RevisionSearch
from penstock.journal.record import Columns
from penstock.journal.recovery import bases
from penstock.journal.selection import EventSelection
from penstock.testing.disk import FakeDisk
from tests.journal.world import NOON, Row, Scribe, rows, rows_of


def some_journal(random: Random, monkeypatch: pytest.MonkeyPatch) -> tuple[FakeDisk, list[Row]]:
    """Many small blocks and segments; one entity has most records, others come in bursts or seldom."""
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", random.choice((1, 3_000)))
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=random.choice((15_000, 40_000)))
    dense = random.random()
    for _ in range(random.randint(1, 60)):
        given = Columns()
        for _ in range(random.randint(1, 8)):
            name = "often" if random.random() < dense else random.choice(("now", "then", "seldom"))
            given.add(name, NOON, "update", "", "x" * random.randint(0, 200))
        scribe.append(given)
        if random.random() < 0.05:
            # Numbers that were given, and could not be written.
            lost = random.randint(1, 20)
            scribe.next += lost
            scribe.revisions["often"] = scribe.revisions.get("often", 0) + random.randint(0, lost)
            scribe.writer.restart(scribe.next)
    if random.random() < 0.7:
        scribe.close()
    if random.random() < 0.3:
        for base in bases(disk)[::2]:
            if index_name(base) in disk.names():
                disk.remove(index_name(base))
    found, damages = rows(disk)
    assert damages == []
    return disk, found


@pytest.mark.parametrize("number", range(40))
def test_nothing_that_is_wanted_is_before_the_place_that_is_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(number)
    disk, found = some_journal(random, monkeypatch)
    reader = JournalReader(disk)
    for entity in ("often", "now", "then", "seldom", "nobody"):
        mine = [row for row in found if row[1] == entity]
        highest = mine[-1][2] if mine else 0
        for _ in range(8):
            revision = random.randint(1, highest + 3)
            start = random.choice((1, random.randint(1, found[-1][0])))
            place = reader.seek(start, entity, revision)
            assert place >= start
            wanted = [row for row in mine if row[0] >= start and row[2] >= revision]
            read = rows_of(reader.read(place, selection=EventSelection((entity,))))
            assert [row for row in read if row[2] >= revision] == wanted
    assert reader.damages == []


def test_an_entity_that_has_the_journal_to_itself_is_found_exactly_with_a_few_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1)
    disk = FakeDisk()
    scribe = Scribe(disk, segment_bytes=60_000)
    for first in range(0, 4_000, 10):
        given = Columns()
        for number in range(10):
            given.add("often", NOON, "update", "", str(first + number + 1))
        scribe.append(given)
    scribe.close()
    assert len(bases(disk)) > 3
    looks = 0
    read_slice = JournalReader._read_slice

    def counted(self: JournalReader, piece: Slice, selection: EventSelection) -> Iterator[Any]:
        nonlocal looks
        looks += 1
        return read_slice(self, piece, selection)

    monkeypatch.setattr(JournalReader, "_read_slice", counted)
    reader = JournalReader(disk)
    for revision in (1, 2, 9, 10, 11, 777, 2_000, 3_333, 3_999, 4_000):
        looks = 0
        assert reader.seek(1, "often", revision) == revision
        assert looks <= 5


@pytest.mark.parametrize("number", range(60))
def test_the_last_place_before_a_revision_is_found_and_no_place_is_asked_that_there_is_not(number: int) -> None:
    """A place too early costs reading; one too late loses records."""
    random = Random(number)
    density = random.choice((0.05, 0.5, 1.0))
    first, revision = random.choice((1, 50)), random.choice((0, 30))
    mine: dict[int, int] = {}
    for sequence in range(first, first + random.randint(1, 200)):
        if random.random() < density:
            revision += 1
            mine[sequence] = revision
    end = first + 200
    firsts = sorted({first, *(random.randrange(first, end) for _ in range(random.randint(0, 40)))})
    places = [
        next(((each, mine[each]) for each in range(begin, stop) if each in mine), None)
        for begin, stop in zip(firsts, [*firsts[1:], end], strict=True)
    ]
    # Half of them go with each look; those without a record of the entity are passed over one by one.
    most = 2 * len(places).bit_length() + places.count(None)
    for wanted in range(1, revision + 3):
        looks = 0

        def record(place: int) -> Any:
            nonlocal looks
            looks += 1
            assert 0 <= place < len(places)
            assert looks <= most
            there = places[place]
            return None if there is None else pa.record_batch({"sequence": [there[0]], "revision": [there[1]]})

        found = _RevisionSearch(wanted, 1).among(firsts, record)
        assert found >= max((n for n, there in enumerate(places) if there and there[1] < wanted), default=0)
        assert found == 0 or firsts[found] <= min((at for at, each in mine.items() if each >= wanted), default=end)
