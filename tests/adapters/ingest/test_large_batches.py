"""Large batches: through files, in many turns, with a disk that may refuse. Kills are in test_kill_large, HTTP is in
test_batch_routes, random ones in test_model.
"""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.adapters.ingest import batches as module
from penstock.adapters.ingest import spool as spool_module
from penstock.adapters.ingest.errors import Busy, TooLarge, Unavailable
from penstock.journal.journal import JournalSettings, Receipt
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.kernel.item import Mode
from penstock.testing.disk import FakeDisk, Operation
from tests.adapters.ingest.test_memory import run
from tests.adapters.ingest.world import Life, records, table

Row = dict[str, object]


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE_BATCH", 0)
    monkeypatch.setattr(module, "TURN", 5)
    monkeypatch.setattr(spool_module, "PIECE_CHARACTERS", 500)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The operating system refuses to make a file larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def rows(count: int, width: int = 10) -> list[Row]:
    return [{"item": "d", "x": f"{number}-".ljust(width, "y")} for number in range(count)]


def test_a_stage_that_the_disk_refuses_is_not_there_and_may_come_again(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            given = [table(rows(100, 1_000))]
            with files_of_at_most(10_000), pytest.raises(Unavailable, match="the stage cannot be written: File too la"):
                await life.batches.stage("q", 0, "0", given)
            assert life.batches.stages.staged_bytes == 0
            assert list(life.batches.stages.directory.iterdir()) == []
            await life.batches.stage("q", 0, "0", given)
            assert (await life.batches.commit("q", 0, "DISTINCT", ["0"])).rows == 100
        assert len(records(disk)) == 101

    run(play)


def test_events_that_the_disk_refuses_are_not_published_and_the_same_commit_is_taken_later(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            watcher = life.watch("d", "x", Mode.DISTINCT)
            for number in range(4):
                await life.batches.stage("q", 0, str(number), [table(rows(20, 300))])
            names = ["0", "1", "2", "3"]
            with (
                files_of_at_most(20_000),
                pytest.raises(Unavailable, match="the events of a large batch cannot be kept: File too large"),
            ):
                await life.batches.commit("q", 0, "DISTINCT", names)
            assert life.batches.queries == {}
            assert not list(life.batches.stages.directory.glob("*.tmp"))
            assert not [event for event in life.seen(watcher) if hasattr(event, "values")]
            assert (await life.batches.commit("q", 0, "DISTINCT", names)).rows == 80
            assert len([event for event in life.seen(watcher) if hasattr(event, "values")]) == 80
            assert list(life.batches.stages.directory.iterdir()) == []
        assert len(records(disk)) == 81

    run(play)


def test_a_journal_that_refuses_in_the_middle_has_nothing_of_the_batch(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path, settings=JournalSettings(retry_millis=1)) as life:
            watcher = life.watch("d", "x", Mode.DISTINCT)
            await life.put("q", 0, "DISTINCT", rows(3))
            left = 5

            def full(operation: Operation) -> int | None:
                nonlocal left
                left -= operation.kind == "write"
                return errno.ENOSPC if left < 0 else None

            disk.fault = full
            for _ in range(2):
                with pytest.raises(Unavailable, match="the journal cannot be written: No space left"):
                    await life.put("q", 1, "DISTINCT", rows(100))
            assert len(records(disk)) == 4
            disk.fault = None
            await asyncio.wrap_future(life.journal.room())
            await life.put("q", 1, "DISTINCT", rows(100))
            assert len([event for event in life.seen(watcher) if hasattr(event, "values")]) == 103
        assert len(records(disk)) == 105

    run(play)


def test_who_subscribes_in_the_middle_gets_the_items_as_they_are_then_and_the_rest(tmp_path: Path) -> None:
    async def play() -> None:
        async with Life(FakeDisk(), tmp_path) as life:
            given: list[Row] = []
            for number in range(300):
                command = "DELETE" if number % 7 == 3 else None
                given.append({"item": "c", "key": f"k{number % 11}", "command": command, "x": str(number)})
            work = asyncio.create_task(life.put("q", 0, "COMMAND", given))
            while "c" not in life.adapter._states:
                assert not work.done()
                await asyncio.sleep(0)
            watcher = life.watch("c", "key command x", Mode.COMMAND)
            assert not work.done()
            await work
            found: dict[str | None, str | None] = {}
            for event in life.seen(watcher):
                if hasattr(event, "values"):
                    key, command, x = event.values
                    assert (command == "ADD") == (key not in found), event
                    if command == "DELETE":
                        del found[key]
                    else:
                        found[key] = x
            expected: dict[str | None, str | None] = {}
            for row in given:
                if row["command"] == "DELETE":
                    expected.pop(str(row["key"]), None)
                else:
                    expected[str(row["key"])] = str(row["x"])
            assert found == expected
            told = life.snapshot("c", "key command x", Mode.COMMAND)
            assert {key: x for key, _, x in told} == expected

    run(play)


def test_who_listens_to_the_journal_hears_all_records_with_their_numbers(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path, patterns=("d0", "d1", "d2")) as life:
            heard: list[tuple[int, str, int, str | None]] = []

            def hear(columns: Columns, receipt: Receipt) -> None:
                for place, entity in enumerate(columns.entities):
                    heard.append((receipt.first + place, entity, receipt.revisions[place], columns.values[place]))

            life.gatherer.listeners.append(hear)
            # Some of them are not journaled.
            given = [{"item": f"d{n % 3}" if n % 4 else "d-other", "x": str(n)} for n in range(60)]
            await life.put("q", 0, "DISTINCT", given)
            await life.put("q", 1, "DISTINCT", given)
        names = ("sequence", "entity", "revision", "value")
        found: list[tuple[object, ...]] = []
        for batch in JournalReader(disk).read():
            found += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        assert heard == found
        assert len(found) == 2 * (45 + 1)

    run(play)


def test_a_batch_that_is_being_committed_keeps_its_stages(tmp_path: Path) -> None:
    async def play() -> None:
        async with Life(FakeDisk(), tmp_path, max_staged_seconds=0.000_001) as life:
            await life.batches.stage("q", 0, "0", [table(rows(50))])
            work = asyncio.create_task(life.batches.commit("q", 0, "DISTINCT", ["0"]))
            while True:
                await asyncio.sleep(0)
                if life.batches.stages.held:
                    break
            life.batches.stages.expire()
            with pytest.raises(Busy, match="batch 0 is being committed"):
                life.batches.drop("q", 0)
            assert (await work).rows == 50

    run(play)


def test_events_beyond_the_limit_are_refused_with_what_helps(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path, max_staged_bytes=20_000) as life:
            with pytest.raises(TooLarge, match="max_staged_bytes = 20000: raise it, and the same batch is accepted"):
                await life.put("q", 0, "DISTINCT", rows(100, 500))
            assert not list(life.batches.stages.directory.iterdir())
        assert records(disk) == []
        async with Life(disk, tmp_path, max_staged_bytes=200_000) as life:
            assert await life.put("q", 0, "DISTINCT", rows(100, 500)) == (100, 0)

    run(play)
