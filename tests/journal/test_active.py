"""The index of the segment being written: as good as that of a sealed one, and nothing wrong in it is believed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from penstock.history.reader import History
from penstock.journal.blocks import BLOCKS_SUFFIX, BlockLog, blocks_name
from penstock.journal.disk import DirectoryDisk, Disk, ReadableFile
from penstock.journal.index import Block, index_name
from penstock.journal.indexes import Indexes
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.mark import read_mark
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.recovery import read_header
from penstock.journal.segment import SEGMENT_SUFFIX, segment_name
from penstock.journal.selection import EVERYTHING, EventSelection
from penstock.testing.disk import FakeDisk, FakeFile, Operation, PowerCut
from tests.journal.world import NOON, Row, Scribe, columns, rows_of, some_columns

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
LIVES = 300 if LONG else 12

SELECTIONS = [
    EventSelection(entities=("item3",)),
    EventSelection(entities=("item1", "seldom")),
    EventSelection(entities=("*5", "se?dom")),
    EventSelection(entities=("nothing",)),
    EventSelection(entities=("item2",), kinds=("delete",)),
    EventSelection(entities=("item4",), since=NOON + 3 * 10**8, until=NOON + 6 * 10**8),
    EVERYTHING,
]


class CountingDisk(DirectoryDisk):
    """How many bytes of segments were read."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.read_bytes = 0

    def view(self, name: str) -> ReadableFile:
        file = super().view(name)
        return _CountingFile(self, file) if name.endswith(SEGMENT_SUFFIX) else file


class _CountingFile:
    def __init__(self, disk: CountingDisk, file: ReadableFile) -> None:
        self._disk = disk
        self._file = file

    def read(self, position: int, length: int) -> bytes:
        data = self._file.read(position, length)
        self._disk.read_bytes += len(data)
        return data

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class _WatchedDisk(FakeDisk):
    """Which files were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.viewed: list[str] = []

    def view(self, name: str) -> FakeFile:
        self.viewed.append(name)
        return super().view(name)


def written(directory: Path, *, closed: bool) -> Journal:
    """Many records of many entities, 10 MB in one segment, and two of one that is seldom."""
    journal = Journal(directory, JournalSettings(group_bytes=200_000))
    write(journal)
    if closed:
        journal.close()
    return journal


def write(journal: Journal) -> None:
    for number in range(50):
        given = Columns()
        if number in (3, 30):
            given.add("seldom", NOON, "update", "", str(number))
        for place in range(500):
            given.add(f"often{place % 40}", NOON, "update", "", "x" * 400)
        receipt = journal.append(given, Policy.ACK)
        assert receipt.done is not None
        receipt.done.result(30)


def cost(directory: Path) -> tuple[list[Row], int]:
    """What a new reader finds of `seldom`, and how many bytes it reads for it."""
    disk = CountingDisk(directory)
    found = rows_of(JournalReader(disk).read(selection=EventSelection(entities=("seldom",))))
    return found, disk.read_bytes


def test_a_sparse_entity_is_found_in_the_segment_being_written_as_cheaply_as_in_a_sealed_one(tmp_path: Path) -> None:
    written(tmp_path / "sealed", closed=True).close()
    Journal(tmp_path / "sealed").close()
    journal = written(tmp_path / "active", closed=False)
    sealed, sealed_bytes = cost(tmp_path / "sealed")
    active, active_bytes = cost(tmp_path / "active")
    journal.close()
    assert active == sealed
    assert [row[3] for row in active] == ["3", "30"]
    # Besides, the block that is not full is looked at, in reads of 1 MiB at most.
    assert active_bytes <= sealed_bytes + 2 * 1024 * 1024
    assert active_bytes < 10_000_000 / 2


def test_a_journal_that_was_closed_is_read_by_its_last_index(tmp_path: Path) -> None:
    written(tmp_path / "sealed", closed=True).close()
    Journal(tmp_path / "sealed").close()
    written(tmp_path / "closed", closed=True)
    assert cost(tmp_path / "closed")[1] <= cost(tmp_path / "sealed")[1]


def test_who_looks_again_reads_only_what_is_new(tmp_path: Path) -> None:
    journal = written(tmp_path / "journal", closed=False)
    # As where another program has written the journal, or the disk had no room for the file.
    (tmp_path / "journal" / blocks_name(1)).unlink()
    disk = CountingDisk(tmp_path / "journal")
    indexes = Indexes()
    selection = EventSelection(entities=("seldom",))
    first = rows_of(JournalReader(disk, indexes=indexes).read(selection=selection))
    before = disk.read_bytes
    assert rows_of(JournalReader(disk, indexes=indexes).read(selection=selection)) == first
    assert disk.read_bytes - before < before / 4
    journal.close()


def test_who_looks_again_takes_what_has_been_saved_since(tmp_path: Path) -> None:
    journal = written(tmp_path / "journal", closed=False)
    disk, indexes = CountingDisk(tmp_path / "journal"), Indexes()
    selection = EventSelection(entities=("seldom",))
    assert len(rows_of(JournalReader(disk, indexes=indexes).read(selection=selection))) == 2
    write(journal)
    before = disk.read_bytes
    assert len(rows_of(JournalReader(disk, indexes=indexes).read(selection=selection))) == 4
    assert disk.read_bytes - before < 10_000_000 / 2
    journal.close()


def test_a_hundred_histories_at_once_share_what_is_known_of_the_segment(tmp_path: Path) -> None:
    journal = written(tmp_path / "journal", closed=False)
    history = History(tmp_path / "journal", tmp_path / "lake")
    opened = [history.read("seldom") for _ in range(100)]
    tables = [next(each) for each in opened]
    assert all(table.column("entity")[0].as_py() == "seldom" for table in tables)
    for each in opened:
        each.close()  # type: ignore[attr-defined]
    assert len(history._readers) == 100
    assert {id(reader._indexes) for reader in history._readers} == {id(history._indexes)}
    journal.close()


# -- against the naive way ----------------------------------------------------------------------------------------


def naive(disk: Disk, selection: EventSelection) -> list[Row]:
    """Everything is read, then chosen."""
    return rows_of(selection.apply(batch) for batch in JournalReader(disk).read())


def check(disk: Disk, readers: list[JournalReader], random: Random) -> None:
    for reader in [*readers, JournalReader(disk)]:
        for selection in random.sample(SELECTIONS, 3):
            wanted = naive(disk, selection)
            assert rows_of(reader.read(selection=selection)) == wanted
            shares = reader.plan(None, None, random.randint(1, 4), selection)
            assert [row for share in shares for row in rows_of(reader.read_slices(share, selection))] == wanted
            last = reader.last(reader.earliest(), selection)
            assert rows_of([last] if last is not None else []) == wanted[-1:]


def some_with_seldom(random: Random) -> Columns:
    given = some_columns(random)
    if random.random() < 0.05:
        given.add("seldom", NOON, "update", "", "s")
    return given


@pytest.mark.parametrize("number", range(LIVES))
def test_any_selection_finds_what_the_naive_way_finds_through_crashes_and_damage(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(number)
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", random.choice((1, 1_000, 3_000)))
    monkeypatch.setattr("penstock.journal.active._PIECES", random.choice((1, 4)))
    disk = FakeDisk()
    for _ in range(3):
        disk.power_cut_at = random.randint(20, 160)
        shared = Indexes()
        readers = [JournalReader(disk), JournalReader(disk, indexes=shared), JournalReader(disk, indexes=shared)]
        try:
            scribe = Scribe(disk, random.choice((14_000, 60_000)))
            while True:
                scribe.append(some_with_seldom(random), sync=random.random() < 0.7)
                if random.random() < 0.1:
                    check(disk, random.sample(readers, 2), random)
                if random.random() < 0.05:
                    hurt(disk, random)
        except PowerCut:
            pass
        disk = disk.cut_power(random) if random.random() < 0.6 else disk.kill()
        Scribe(disk).close()
        check(disk, [], random)


def hurt(disk: FakeDisk, random: Random) -> None:
    """Whatever may become of a file that is never synced."""
    for name in disk.names():
        if not name.endswith(BLOCKS_SUFFIX) or not disk.size(name):
            continue
        if random.random() < 0.5:
            disk.flip(name, random.randrange(disk.size(name) * 8))
        else:
            disk.cut(name, random.randrange(disk.size(name)))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 2_000)


@pytest.mark.usefixtures("small_blocks")
def test_a_file_of_another_segment_of_that_name_is_not_believed() -> None:
    one, other = FakeDisk(), FakeDisk()
    for disk, entity in ((one, "item1"), (other, "item2")):
        scribe = Scribe(disk)
        for _ in range(40):
            scribe.append(columns(3, entity))
    name = blocks_name(1)
    stranger = other.view(name)
    one.create(name).write(0, [stranger.read(0, stranger.size())])
    wanted = EventSelection(entities=("item1",))
    assert rows_of(JournalReader(one).read(selection=wanted)) == naive(one, wanted) != []


@pytest.mark.usefixtures("small_blocks")
def test_a_disk_that_refuses_the_file_costs_time_and_nothing_else() -> None:
    disk = FakeDisk()

    def full(operation: Operation) -> int | None:
        return errno.ENOSPC if operation.name.endswith(BLOCKS_SUFFIX) else None

    disk.fault = full
    scribe = Scribe(disk)
    for _ in range(40):
        scribe.append(columns(3))
    assert len(rows_of(JournalReader(disk).read(selection=EventSelection(entities=("item",))))) == 120
    scribe.close()


@pytest.mark.usefixtures("small_blocks")
def test_the_file_goes_when_the_index_has_come() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, 14_000)
    while scribe.writer.segment == 1:
        scribe.append(columns(3))
    assert blocks_name(1) not in disk.names()
    assert index_name(1) in disk.names()
    for _ in range(10):
        scribe.append(columns(3))
    assert blocks_name(scribe.writer.segment) in disk.names()
    killed = disk.kill()
    Scribe(killed).close()
    assert not [name for name in killed.names() if name.endswith(BLOCKS_SUFFIX)]
    scribe.close()
    assert not [name for name in disk.names() if name.endswith(BLOCKS_SUFFIX)]


@pytest.mark.usefixtures("small_blocks")
def test_a_segment_that_was_given_up_has_an_index() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk)
    for _ in range(20):
        scribe.append(columns(3))
    # As after a disk that refused: what was committed stays, and another segment begins.
    scribe.writer.restart(scribe.next)
    assert index_name(1) in disk.names()
    assert blocks_name(1) not in disk.names()
    assert len(rows_of(JournalReader(disk).read(selection=EventSelection(entities=("item",))))) == 60


def test_a_block_that_grows_is_left_out_as_long_as_nothing_wanted_is_in_it() -> None:
    disk, indexes = FakeDisk(), Indexes()
    scribe = Scribe(disk)

    def blocks(entity: str) -> list[tuple[int, int]]:
        mark, (header, _) = read_mark(disk), read_header(disk.view(segment_name(1)), segment_name(1))
        assert mark is not None
        assert header is not None
        found = indexes.active(disk, header, mark.position, mark.sequence, EventSelection(entities=(entity,)))
        return [(block.first, block.last) for block in found]

    for number in range(1, 6):
        scribe.append(columns(1, "item"))
        assert (blocks("item"), blocks("seldom")) == ([(1, number)], [])
    scribe.append(columns(1, "seldom"))
    assert (blocks("item"), blocks("seldom")) == ([(1, 6)], [(1, 6)])


def test_of_many_indexes_the_one_that_was_not_used_for_the_longest_time_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.journal.indexes.CACHED_INDEXES", 2)
    disk, indexes = _WatchedDisk(), Indexes()
    scribe = Scribe(disk, segment_bytes=1)
    for _ in range(4):
        scribe.append(columns(3))
    disk.viewed.clear()

    def read(base: int) -> bool:
        """Whether its file was needed."""
        before = len(disk.viewed)
        index = indexes.sealed(disk, base)
        assert index is not None
        assert index.blocks[0].first == base
        return len(disk.viewed) > before

    assert [read(base) for base in (1, 4, 1, 4)] == [True, True, False, False]
    assert read(1) is False
    assert [read(base) for base in (7, 1, 7, 4, 7, 1)] == [True, False, False, True, False, True]


class _OnceFullDisk(FakeDisk):
    """There is no room for the first file."""

    full = True

    def create(self, name: str) -> FakeFile:
        if self.full:
            self.full = False
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create(name)


def test_after_a_block_that_could_not_be_kept_none_is_because_readers_would_not_look_where_it_was() -> None:
    disk = _OnceFullDisk()
    log = BlockLog(disk, 1, 7)
    log.add(Block(100, 200, 1, 5, NOON, NOON, 1), ["a"], [0])
    log.add(Block(200, 300, 6, 9, NOON, NOON, 1), ["b"], [1])
    assert disk.names() == []
