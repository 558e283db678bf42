"""Long appends: many frames, perhaps several segments, and all of it or nothing, whatever happens in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from penstock.journal import writer as writer_module
from penstock.journal.errors import DiskFailed
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.long import LongAppend
from penstock.journal.mark import MARK_NAME
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns, arrays
from penstock.journal.selection import EventSelection
from penstock.journal.unfinished import UNFINISHED_NAME
from penstock.journal.verification import verify
from penstock.testing.disk import FakeDisk, Operation, PowerCut
from tests.journal.world import Row, Scribe, columns, rows, some_columns
from tests.support.effort import tries

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
CRASHES = 600 if LONG else tries(120)
LIVES = 4
SEGMENT_BYTES = 14_000


def pieces(random: Random, most: int = 30) -> list[Columns]:
    return [some_columns(random) for _ in range(random.randint(1, most))]


def long_append(given: list[Columns]) -> LongAppend:
    counts: dict[str, int] = {}
    for each in given:
        for entity in each.entities:
            counts[entity] = counts.get(entity, 0) + 1
    return LongAppend(counts, lambda: map(arrays, given))


@pytest.mark.parametrize("number", range(CRASHES))
def test_after_a_crash_at_any_operation_a_long_append_is_there_as_a_whole_or_not_at_all(number: int) -> None:
    random = Random(number)
    disk = FakeDisk()
    kept: list[Row] = []
    for _ in range(LIVES):
        disk.power_cut_at = random.randint(0, 150)
        begun: list[int] = []
        acknowledged = len(kept)
        scribe = None
        try:
            scribe = Scribe(disk, SEGMENT_BYTES)
            while True:
                begun.append(scribe.next)
                if random.random() < 0.3:
                    scribe.append_long(pieces(random))
                else:
                    scribe.append(some_columns(random), sync=True)
                acknowledged = scribe.next - 1
        except PowerCut:
            pass
        killed = random.random() < 0.4
        disk = disk.kill() if killed else disk.cut_power(random)
        tried = scribe.tried if scribe is not None else []
        # What a reader sees before anybody has put things in order, in case the mark has survived.
        seen = rows(disk)[0]
        after = Scribe(disk, SEGMENT_BYTES)
        assert after.recovery.damages == []
        found, damages = rows(disk)
        assert damages == []
        assert found[: len(seen)] == seen, "readers see nothing that goes away"
        possible = kept + tried
        assert found == possible[: len(found)]
        assert len(found) >= acknowledged
        assert len(found) in (acknowledged, len(possible)), "all of the last append or nothing"
        highest: dict[str, int] = {}
        for sequence, entity, revision, _ in found:
            assert revision > highest.get(entity, 0), f"revision of {entity} at {sequence}"
            highest[entity] = revision
        assert all(after.revisions[entity] >= revision for entity, revision in highest.items())
        assert UNFINISHED_NAME not in disk.names()
        after.close()
        assert verify(disk).is_good
        kept = found


@pytest.mark.parametrize("number", range(CRASHES // 4))
def test_after_a_failure_at_any_operation_the_journal_goes_on_without_the_long_append(number: int) -> None:
    random = Random(number)
    disk = FakeDisk()
    scribe = Scribe(disk, SEGMENT_BYTES)
    kept: list[Row] = []
    for _ in range(3):
        scribe.append(some_columns(random))
        kept = rows(disk)[0]
        left = random.randint(0, 60)

        def fault(operation: Operation) -> int | None:
            nonlocal left
            left -= 1
            return errno.ENOSPC if left < 0 else None

        disk.fault = fault
        try:
            scribe.append_long(pieces(random))
            disk.fault = None
            kept = rows(disk)[0]
            continue
        except OSError:
            pass
        scribe.writer.abandon()
        assert rows(disk)[0] == kept
        with pytest.raises(OSError, match="No space left"):
            scribe.writer.restart(scribe.next)
        assert rows(disk)[0] == kept
        disk.fault = None
        scribe.writer.restart(scribe.next)
        assert rows(disk)[0] == kept
        assert UNFINISHED_NAME not in disk.names()
    last = scribe.append(some_columns(random))
    scribe.close()
    found, damages = rows(disk)
    assert found[: len(kept)] == kept
    assert found[-1][0] == last
    assert damages == []
    assert verify(disk).is_good
    after = Scribe(disk, SEGMENT_BYTES)
    assert after.recovery.damages == []


def test_readers_see_nothing_of_it_before_its_end_with_a_mark_or_without() -> None:
    disk = FakeDisk()
    scribe = Scribe(disk, SEGMENT_BYTES)
    scribe.append(columns(3))
    seen: list[int] = []

    def watch(operation: Operation) -> int | None:
        if operation.kind == "write" and operation.name.endswith(".segment"):
            reader = JournalReader(disk)
            seen.append(reader.poll())
            assert len(rows(disk)[0]) == 3
            without = disk.kill()
            without.remove(MARK_NAME)
            found = rows(without)[0]
            assert len(found) == 3, "as recovery would see it"
        return None

    disk.fault = watch
    scribe.append_long([columns(40, f"item{number}") for number in range(10)])
    disk.fault = None
    assert set(seen) == {3}
    assert len([name for name in disk.names() if name.endswith(".segment")]) > 1
    assert len(rows(disk)[0]) == 403
    only = rows(disk, EventSelection(entities=("item7",)))[0]
    assert [row[2] for row in only] == list(range(1, 41))


def test_what_is_appended_meanwhile_comes_after_it_and_is_numbered_at_once() -> None:
    disk = FakeDisk()
    journal = Journal(disk, JournalSettings(segment_bytes=SEGMENT_BYTES, interval_millis=1))
    given = [columns(30, "a"), columns(30, "b"), columns(30, "a")]
    before = journal.append(columns(2, "a"), Policy.ACK)
    receipt = journal.append_long(long_append(given))
    after = journal.append(columns(1, "a"), Policy.ACK)
    assert (before.first, receipt.first, after.first) == (1, 3, 93)
    assert (receipt.before, after.revisions) == ({"a": 2, "b": 0}, [63])
    assert after.done is not None
    after.done.result(30)
    assert receipt.done.done()
    assert (journal.appended_records, journal.committed_groups, journal.queued_bytes) == (93, 3, 0)
    journal.close()
    found, damages = rows(disk)
    assert damages == []
    assert [row[0] for row in found] == list(range(1, 94))
    assert [row[2] for row in found if row[1] == "a"] == list(range(1, 64))
    assert verify(disk).is_good


@pytest.mark.parametrize("wrong", ["raises", "fails", "too few", "another entity"])
def test_pieces_that_cannot_be_read_are_refused_and_the_journal_goes_on(wrong: str) -> None:
    disk = FakeDisk()
    journal = Journal(disk, JournalSettings(retry_millis=1))

    def broken() -> Iterator[list[Any]]:
        yield arrays(columns(3, "a"))
        if wrong == "raises":
            raise ValueError("the file is damaged")
        if wrong == "fails":
            raise OSError(errno.EIO, "Input/output error")
        if wrong == "another entity":
            yield arrays(columns(3, "unheard of"))

    receipt = journal.append_long(LongAppend({"a": 6}, broken))
    with pytest.raises(DiskFailed, match="Input/output error" if wrong == "fails" else "a long append"):
        receipt.done.result(30)
    journal.room().result(30)
    done = journal.append(columns(1, "a"), Policy.ACK).done
    assert done is not None
    done.result(30)
    journal.close()
    found, damages = rows(disk)
    assert [(row[0], row[2]) for row in found] == [(7, 7)], "numbers that were given are not given again"
    assert damages == []


def test_it_is_synced_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SYNC_BYTES", 5_000)
    disk = FakeDisk()
    scribe = Scribe(disk)
    before = scribe.writer.syncs
    scribe.append_long([columns(40) for _ in range(10)])
    assert scribe.writer.syncs - before > 5
    assert len(rows(disk)[0]) == 400
