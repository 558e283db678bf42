from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.journal.errors import BadRecord, DirectoryInUse, DiskFailed, JournalClosed, Overload
from penstock.journal.journal import MAX_APPEND, Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.testing.disk import FakeDisk, Operation
from tests.journal.world import columns, rows

# Longer than any test: nothing is committed by the passing of time.
NEVER_MILLIS = 1e9
WAIT = 20.0

STILL = JournalSettings(interval_millis=NEVER_MILLIS, retry_millis=1)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def journal(disk: FakeDisk) -> Iterator[Journal]:
    opened = Journal(disk, STILL)
    yield opened
    opened.close()


def sequences(disk: FakeDisk) -> list[int]:
    found, damages = rows(disk)
    assert damages == []
    return [row[0] for row in found]


def acknowledge(journal: Journal, given: Columns) -> int:
    receipt = journal.append(given, Policy.ACK)
    assert receipt.done is not None
    receipt.done.result(WAIT)
    return receipt.first


def test_sequences_count_all_records_and_revisions_those_of_an_entity(journal: Journal) -> None:
    mixed = Columns()
    for entity in ("a", "b", "a"):
        mixed.add(entity, 1, "update", "", "x")
    first, second = journal.append(mixed, Policy.OFF), journal.append(mixed, Policy.OFF)
    assert (first.first, first.revisions) == (1, [1, 1, 2])
    assert (second.first, second.revisions) == (4, [3, 2, 4])
    assert (journal.revision("a"), journal.revision("b"), journal.revision("c")) == (4, 2, 0)


def test_an_acknowledged_record_is_on_the_disk_and_can_be_read(journal: Journal, disk: FakeDisk) -> None:
    assert acknowledge(journal, columns(3)) == 1
    assert sequences(disk) == [1, 2, 3]
    kinds = [operation.kind for operation in disk.operations]
    assert kinds[-3:] == ["write", "sync", "write"], "the frame, its sync, and only then the mark"


def test_records_of_policy_interval_wait_for_an_acknowledged_one_and_share_its_frame(
    journal: Journal, disk: FakeDisk
) -> None:
    for _ in range(5):
        assert journal.append(columns(2), Policy.INTERVAL).done is None
    assert sequences(disk) == []
    before = len(disk.operations)
    acknowledge(journal, columns(1))
    assert sequences(disk) == list(range(1, 12))
    assert [operation.kind for operation in disk.operations[before:]] == ["write", "sync", "write"]


def test_records_of_policy_interval_are_committed_when_it_has_passed(disk: FakeDisk) -> None:
    journal = Journal(disk, JournalSettings(interval_millis=1))
    journal.append(columns(2), Policy.INTERVAL)
    committed = threading.Event()
    disk.fault = lambda operation: committed.set() if operation.name == "mark" else None
    journal.append(columns(2), Policy.INTERVAL)
    assert committed.wait(WAIT)
    journal.close()
    assert sequences(disk) == [1, 2, 3, 4]


def test_a_group_is_committed_as_soon_as_it_has_all_its_bytes(journal: Journal, disk: FakeDisk) -> None:
    journal.append(columns(2), Policy.INTERVAL)
    size = journal.queued_bytes
    other = FakeDisk()
    filling = Journal(other, JournalSettings(group_bytes=2 * size, interval_millis=NEVER_MILLIS))
    committed = threading.Event()
    other.fault = lambda operation: committed.set() if operation.name == "mark" else None
    filling.append(columns(2), Policy.INTERVAL)
    # The first has waited for the second, which is just enough, and not for any interval.
    filling.append(columns(2), Policy.INTERVAL)
    assert committed.wait(WAIT)
    filling.close()
    assert (sequences(disk), sequences(other)) == ([], [1, 2, 3, 4])


def test_records_of_policy_off_are_written_without_a_sync(disk: FakeDisk) -> None:
    journal = Journal(disk, JournalSettings(group_bytes=1, interval_millis=NEVER_MILLIS))
    written = threading.Event()
    disk.fault = lambda operation: written.set() if operation.name == "mark" else None
    before = len(disk.operations)
    journal.append(columns(2), Policy.OFF)
    assert written.wait(WAIT)
    assert "sync" not in [operation.kind for operation in disk.operations[before:]]
    journal.flush().result(WAIT)
    assert "sync" in [operation.kind for operation in disk.operations[before:]]
    journal.close()


def test_flush_commits_whatever_waits(journal: Journal, disk: FakeDisk) -> None:
    journal.append(columns(2), Policy.INTERVAL)
    journal.append(columns(2), Policy.OFF)
    journal.flush().result(WAIT)
    assert sequences(disk) == [1, 2, 3, 4]
    journal.flush().result(WAIT)


def test_many_acknowledgements_share_one_sync(disk: FakeDisk) -> None:
    """While one group is being synced, all that arrive make the next."""
    journal = Journal(disk, STILL)
    syncing, go_on = threading.Event(), threading.Event()

    def wait_in_the_first_sync(operation: Operation) -> None:
        if operation.kind == "sync" and not go_on.is_set():
            syncing.set()
            go_on.wait(WAIT)

    disk.fault = wait_in_the_first_sync
    futures = [journal.append(columns(1), Policy.ACK).done]
    assert syncing.wait(WAIT)
    futures += [journal.append(columns(1), Policy.ACK).done for _ in range(50)]
    before = len(disk.operations)
    go_on.set()
    for future in futures:
        assert future is not None
        future.result(WAIT)
    synced = [operation.kind for operation in disk.operations[before:]].count("sync")
    assert synced == 2
    journal.close()


def test_an_acknowledgement_can_be_awaited_and_its_waiter_cancelled(journal: Journal, disk: FakeDisk) -> None:
    async def publish() -> None:
        receipt = journal.append(columns(1), Policy.ACK)
        assert receipt.done is not None
        await asyncio.wrap_future(receipt.done)
        impatient = journal.append(columns(1), Policy.ACK)
        assert impatient.done is not None
        asyncio.wrap_future(impatient.done).cancel()
        last = journal.append(columns(1), Policy.ACK)
        assert last.done is not None
        await asyncio.wrap_future(last.done)

    asyncio.run(publish())
    assert sequences(disk) == [1, 2, 3]


def fill(journal: Journal) -> int:
    """Append until it is refused; returns how many were taken."""
    for taken in range(0, 10_000, 10):
        try:
            journal.append(columns(10), Policy.INTERVAL)
        except Overload:
            return taken
    raise AssertionError("a queue of 5,000 bytes took 10,000 records")


def test_when_the_disk_cannot_keep_up_appending_is_refused_and_room_tells_when_to_go_on(disk: FakeDisk) -> None:
    journal = Journal(disk, JournalSettings(queue_bytes=5_000, group_bytes=1_000, interval_millis=NEVER_MILLIS))
    go_on = threading.Event()
    disk.fault = lambda operation: None if go_on.wait(WAIT) else errno.EIO
    appended = fill(journal)
    with pytest.raises(Overload, match="queue_bytes, 5000"):
        journal.append(columns(10), Policy.INTERVAL)
    assert journal.refused_appends == 2
    assert journal.next_sequence == appended + 1, "what is refused gets no number"
    room = journal.room()
    assert not room.done()
    go_on.set()
    room.result(WAIT)
    acknowledge(journal, columns(1))
    assert sequences(disk) == list(range(1, appended + 2))
    journal.close()


def test_a_full_disk_fails_loudly_and_the_journal_goes_on_when_there_is_space(journal: Journal, disk: FakeDisk) -> None:
    acknowledge(journal, columns(5))
    disk.capacity = sum(disk.size(name) for name in disk.names()) + 100
    receipt = journal.append(columns(5), Policy.ACK)
    assert receipt.done is not None
    with pytest.raises(DiskFailed, match="No space left on device") as raised:
        receipt.done.result(WAIT)
    assert raised.value.errno == errno.ENOSPC
    with pytest.raises(DiskFailed, match="No space left on device"):
        journal.append(columns(1), Policy.INTERVAL)
    assert str(journal.failure) == "the journal cannot be written: No space left on device"
    assert sequences(disk) == [1, 2, 3, 4, 5]
    room = journal.room()
    disk.capacity = None
    room.result(WAIT)
    assert str(journal.failure) == "None"
    assert acknowledge(journal, columns(2)) == 11, "numbers once given are not given again"
    assert sequences(disk) == [1, 2, 3, 4, 5, 11, 12]
    assert journal.lost_records == 5


@pytest.mark.parametrize("also_failing", [(), ("truncate",)])
def test_what_a_failed_sync_leaves_behind_is_never_read(
    journal: Journal, disk: FakeDisk, also_failing: tuple[str, ...]
) -> None:
    acknowledge(journal, columns(1, "before"))

    def fault(operation: Operation) -> int | None:
        return errno.EIO if operation.kind in ("sync", *also_failing) else None

    disk.fault = fault
    receipt = journal.append(columns(3, "never"), Policy.ACK)
    assert receipt.done is not None
    with pytest.raises(DiskFailed, match="Input/output error"):
        receipt.done.result(WAIT)
    room = journal.room()
    disk.fault = None
    room.result(WAIT)
    acknowledge(journal, columns(1, "after"))
    found, damages = rows(disk)
    assert [row[1] for row in found] == ["before", "after"]
    assert damages == []
    journal.close()
    Journal(disk).close()
    found, damages = rows(disk)
    assert [row[1] for row in found] == ["before", "after"]
    assert damages == []


def test_a_disk_that_fails_again_and_again_is_tried_until_it_works(journal: Journal, disk: FakeDisk) -> None:
    acknowledge(journal, columns(1))
    failures = 0
    often = threading.Event()

    def fault(operation: Operation) -> int | None:
        nonlocal failures
        if operation.kind != "sync":
            return None
        failures += 1
        if failures == 5:
            often.set()
        return errno.EIO

    disk.fault = fault
    journal.append(columns(1), Policy.ACK)
    assert often.wait(WAIT)
    room = journal.room()
    disk.fault = None
    room.result(WAIT)
    assert acknowledge(journal, columns(1)) == 3
    assert sequences(disk) == [1, 3]


def test_what_queues_behind_a_failed_group_fails_with_it(disk: FakeDisk) -> None:
    journal = Journal(disk, STILL)
    syncing, go_on = threading.Event(), threading.Event()

    def fail_late(operation: Operation) -> int | None:
        if operation.kind != "sync":
            return None
        syncing.set()
        go_on.wait(WAIT)
        return errno.EIO

    disk.fault = fail_late
    first = journal.append(columns(1), Policy.ACK).done
    assert syncing.wait(WAIT)
    second = journal.append(columns(1), Policy.ACK).done
    go_on.set()
    for future in (first, second):
        assert future is not None
        with pytest.raises(DiskFailed):
            future.result(WAIT)
    disk.fault = None
    journal.close()


def test_closing_commits_what_waits_and_refuses_what_follows(disk: FakeDisk) -> None:
    journal = Journal(disk, STILL)
    journal.append(columns(4), Policy.INTERVAL)
    journal.close()
    assert sequences(disk) == [1, 2, 3, 4]
    for attempt in (lambda: journal.append(columns(), Policy.OFF), journal.flush, journal.room):
        with pytest.raises(JournalClosed):
            attempt()


def test_closing_ends_the_waiting_for_a_broken_disk(disk: FakeDisk) -> None:
    journal = Journal(disk, JournalSettings(retry_millis=NEVER_MILLIS / 1000))
    disk.fault = lambda operation: errno.EIO
    receipt = journal.append(columns(1), Policy.ACK)
    assert receipt.done is not None
    with pytest.raises(DiskFailed):
        receipt.done.result(WAIT)
    room = journal.room()
    journal.close()
    with pytest.raises(JournalClosed):
        room.result(WAIT)


def test_when_the_writer_dies_whoever_waits_is_told(disk: FakeDisk) -> None:
    journal = Journal(disk, STILL)
    disk.power_cut_at = len(disk.operations)
    receipt = journal.append(columns(1), Policy.ACK)
    assert receipt.done is not None
    with pytest.raises(JournalClosed, match="PowerCut"):
        receipt.done.result(WAIT)
    with pytest.raises(JournalClosed, match="writer has died"):
        journal.append(columns(1), Policy.OFF)
    journal.close()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (Columns(), "at least one record"),
        (columns(1, "x" * (MAX_APPEND + 1)), f"exceeds {MAX_APPEND}"),
        (columns(1, ""), "column entity holds an empty name at 0"),
    ],
)
def test_bad_records_are_refused_before_they_get_a_number(journal: Journal, given: Columns, complaint: str) -> None:
    with pytest.raises(BadRecord, match=complaint):
        journal.append(given, Policy.ACK)
    assert journal.next_sequence == 1
    assert acknowledge(journal, columns(1)) == 1


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"segment_bytes": 0}, "segment_bytes is 0"),
        ({"interval_millis": -1.0}, "interval_millis is -1.0"),
        ({"group_bytes": MAX_APPEND + 1}, "group_bytes is"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        JournalSettings(**settings)


def test_a_second_writer_of_a_directory_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with pytest.raises(DirectoryInUse, match=str(tmp_path)):
        Journal(tmp_path / "journal")
    journal.close()
    Journal(tmp_path / "journal").close()


def test_a_real_directory_is_written_and_read_across_starts(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "journal"
    for start in range(3):
        journal = Journal(directory, JournalSettings(segment_bytes=20_000))
        assert journal.revision("item") == 300 * start
        for _ in range(30):
            journal.append(columns(10), Policy.INTERVAL)
        journal.flush().result(WAIT)
        reader = JournalReader(directory)
        assert reader.poll() == journal.committed == 300 * (start + 1)
        journal.close()
    reader = JournalReader(directory)
    found = [sequence for batch in reader.read() for sequence in batch.column("sequence").to_pylist()]
    assert found == list(range(1, 901))
    assert reader.damages == []


def test_several_threads_append_at_once(journal: Journal, disk: FakeDisk) -> None:
    def publish(entity: str) -> None:
        for _ in range(20):
            acknowledge(journal, columns(3, entity))

    threads = [threading.Thread(target=publish, args=(f"item{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    found, _ = rows(disk)
    assert [row[0] for row in found] == list(range(1, 241))
    for number in range(4):
        assert [row[2] for row in found if row[1] == f"item{number}"] == list(range(1, 61))
