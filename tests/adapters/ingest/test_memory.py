"""The state file and the way back from the journal: whatever was lost of either, it is told, and the rest is right."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.adapters.ingest.adapter import IDLE_LOOKS, IngestAdapter
from penstock.adapters.ingest.memory import DamagedMemory, Memory, file_of, load, save
from penstock.adapters.ingest.states import ItemState, UnfitEvent
from penstock.adapters.running import StartFailure
from penstock.journal.errors import JournalError
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.record import Columns
from penstock.journal.retention import Retention
from penstock.kernel.item import Mode
from penstock.kernel.ports import CheckedEvent
from penstock.testing.disk import FakeDisk, Operation
from tests.adapters.ingest.world import MODES, TOKEN, Life

ADAPTER = IngestAdapter(items=MODES, tokens=[TOKEN])


def some_memory() -> Memory:
    memory = Memory(12, {}, {"q1": 7, "q2": 0})
    events_of: dict[str, list[dict[str, str | None]]] = {
        "m": [{"x": "1", "y": None}],
        "d": [{"x": str(number)} for number in range(12)],
        "c": [{"key": key, "command": "ADD", "x": "é"} for key in "ab"],
    }
    for item, events in events_of.items():
        state = memory.states[item] = ADAPTER.fresh(item, 0)
        for event in events:
            state.apply(CheckedEvent(dict(event)))
        state.complete = item != "d"
    return memory


def content(memory: Memory | None) -> object:
    assert memory is not None
    states = {item: (state.mode, state.complete, list(state.events())) for item, state in memory.states.items()}
    return memory.sequence, list(memory.queries.items()), states


def run(play: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        await play()

    asyncio.run(inside())


# -- the file ---------------------------------------------------------------------------------------------------------


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on demand"
    assert load(path, ADAPTER.fresh) is None
    for memory in (some_memory(), Memory(), some_memory()):
        save(path, "SET", "ADAPTER", memory)
        assert content(load(path, ADAPTER.fresh)) == content(memory)
    assert [file.name for file in path.parent.iterdir()] == ["on demand"]


def test_a_file_that_is_damaged_anywhere_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save(path, "SET", "ADAPTER", some_memory())
    whole = path.read_bytes()
    for place in range(len(whole)):
        for wrong in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(wrong)
            try:
                found = load(path, ADAPTER.fresh)
            except (DamagedMemory, ValueError):
                continue
            assert content(found) == content(some_memory()), f"a change that changes nothing, at {place}"


def test_no_two_adapters_share_a_file(tmp_path: Path) -> None:
    names = [("a.b", "c"), ("a", "b.c"), ("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("..", ".."), ("A", "b.c")]
    files = {file_of(tmp_path, *pair) for pair in names}
    assert len(files) == len(names)
    assert all(file.parent == tmp_path and file.name.endswith(".jsonl") for file in files)


def test_items_that_are_not_declared_as_they_were_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save(path, "SET", "ADAPTER", some_memory())

    def make(item: str, more: int) -> ItemState:
        if item == "m":
            raise UnfitEvent("not declared any more")
        return ADAPTER.fresh("d" if item == "c" else item, more)

    memory = load(path, make)
    assert memory is not None
    assert list(memory.states) == ["d"]


# -- lives ------------------------------------------------------------------------------------------------------------


async def first_life(disk: FakeDisk, directory: Path) -> None:
    async with Life(disk, directory) as life:
        await life.put("q", 3, "MERGE", [{"item": "m", "x": "1", "y": "2"}])
        await life.lines(("m", {"x": "3"}), ("d", {"x": "4"}))


def check(life: Life) -> None:
    assert life.batches.queries == {"q": 3}
    assert life.snapshot("m", "x y", Mode.MERGE) == [("3", "2")]
    assert life.snapshot("d", "x", Mode.DISTINCT) == [("4",)]


def test_without_a_file_everything_comes_from_the_journal(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        await first_life(disk, tmp_path)
        shutil.rmtree(tmp_path)
        async with Life(disk, tmp_path) as life:
            check(life)

    run(play)


def test_a_damaged_file_is_put_aside_and_everything_comes_from_the_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        disk = FakeDisk()
        await first_life(disk, tmp_path)
        path = file_of(tmp_path, "SET", "ADAPTER")
        path.write_bytes(path.read_bytes()[:-10])
        async with Life(disk, tmp_path) as life:
            check(life)
        assert path.with_name(f"{path.name}.damaged").exists()

    with caplog.at_level(logging.ERROR):
        run(play)
    assert "state file of an adapter is damaged, and is rebuilt from the journal" in caplog.messages


def test_a_file_of_a_newer_program_stops_the_start(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        await first_life(disk, tmp_path)
        path = file_of(tmp_path, "SET", "ADAPTER")
        path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2', 1))
        with pytest.raises(StartFailure, match=r"has version 2; this program supports 1 and earlier"):
            async with Life(disk, tmp_path):
                pass

    run(play)


def test_a_file_from_before_what_the_journal_still_has_is_told_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        disk = FakeDisk()
        await first_life(disk, tmp_path)
        old = file_of(tmp_path, "SET", "ADAPTER").read_bytes()
        async with Life(disk, tmp_path) as life:
            await life.put("q", 4, "MERGE", [{"item": "m", "y": "gone"}])
        async with Life(disk, tmp_path) as life:
            await life.put("q", 5, "MERGE", [{"item": "m", "x": "new"}])
        file_of(tmp_path, "SET", "ADAPTER").write_bytes(old)
        journal = Journal(disk, now=lambda: 2**60)
        await asyncio.to_thread(journal.retain, Retention(max_bytes=20_000), 2**60)
        await asyncio.to_thread(journal.close)
        async with Life(disk, tmp_path) as life:
            assert life.batches.queries == {"q": 5}
            ((x, _),) = life.snapshot("m", "x y", Mode.MERGE)
            assert x == "new"

    with caplog.at_level(logging.ERROR):
        run(play)
    assert any("older than the beginning of the journal: events are missing" in message for message in caplog.messages)


def test_a_journal_that_ends_before_the_file_is_told_and_what_comes_next_is_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        await first_life(FakeDisk(), tmp_path)
        other = FakeDisk()
        async with Life(other, tmp_path) as life:
            check(life)
            await life.put("q", 4, "MERGE", [{"item": "m", "x": "new"}])
            shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed"))
            killed = other.kill()
        async with Life(killed, tmp_path.with_name(f"{tmp_path.name}-killed")) as life:
            assert life.batches.queries == {"q": 4}
            assert life.snapshot("m", "x y", Mode.MERGE) == [("new", "2")]

    with caplog.at_level(logging.ERROR):
        run(play)
    assert "journal ends before the state file of an adapter, which is used unchanged" in caplog.messages


def test_the_file_never_knows_more_than_the_disk_of_the_journal(tmp_path: Path) -> None:
    """Numbers that are lost in a crash are given again: a file that knew them would hide what comes next."""

    async def play() -> None:
        disk = FakeDisk()
        slow = JournalSettings(interval_millis=60_000)
        async with Life(disk, tmp_path, policy="interval", settings=slow) as life:
            async with life.adapter.lock:
                assert life.adapter.recorder is not None
                life.adapter.recorder.record("m", "update", {"x": "1"})
            syncs = sum(operation.kind == "sync" for operation in disk.operations)
            await life.adapter.save()
            assert sum(operation.kind == "sync" for operation in disk.operations) > syncs
            memory = load(file_of(tmp_path, "SET", "ADAPTER"), ADAPTER.fresh)
            assert memory is not None
            assert memory.sequence == life.journal.committed == 1

    run(play)


def test_what_changes_while_the_file_is_written_is_not_in_it(tmp_path: Path) -> None:
    """It comes after the sequence of the file, and would be there twice."""

    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            await life.lines(("d", {"x": "before"}))
            saving = asyncio.create_task(life.adapter.save())
            await asyncio.sleep(0)
            await life.lines(("d", {"x": "meanwhile"}))
            await saving
            killed = disk.kill()
            shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed"))
        async with Life(killed, tmp_path.with_name(f"{tmp_path.name}-killed")) as life:
            assert life.snapshot("d", "x", Mode.DISTINCT) == [("before",), ("meanwhile",)]

    run(play)


def test_while_the_journal_refuses_no_file_is_written_and_afterwards_one_is(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        slow = JournalSettings(retry_millis=1, interval_millis=60_000)
        async with Life(disk, tmp_path, policy="interval", settings=slow) as life:
            await life.put("q", 0, "MERGE", [{"item": "m", "x": "1"}])
            path = file_of(tmp_path, "SET", "ADAPTER")
            before = path.read_bytes()
            assert life.adapter.recorder is not None
            life.adapter.recorder.record("m", "update", {"x": "2"})

            def full(operation: Operation) -> int | None:
                return errno.ENOSPC

            disk.fault = full
            with pytest.raises(JournalError):
                await life.adapter.keep_state()
            await life.adapter.save()
            assert path.read_bytes() == before
            disk.fault = None
            await asyncio.wrap_future(life.journal.room())
            await life.adapter.save()
            assert b'"queries":{"q":0}' in path.read_bytes()

    run(play)


def test_the_file_is_written_when_something_has_changed_and_now_and_then_without(tmp_path: Path) -> None:
    async def play() -> None:
        saved = asyncio.Event()

        class Counting(IngestAdapter):
            save_seconds = 0.001
            saves = 0

            async def save(self) -> None:
                await super().save()
                Counting.saves += 1
                saved.set()

        async with Life(FakeDisk(), tmp_path) as life:
            life.adapter.__class__ = Counting
            started = Counting.saves
            await life.put("q", 0, "MERGE", [{"item": "m", "x": "1"}])
            looking = asyncio.create_task(life.adapter._keep_saving())
            await saved.wait()
            assert Counting.saves == started + 1
            saved.clear()
            await saved.wait()
            assert Counting.saves == started + 2, f"after {IDLE_LOOKS} looks"
            life.adapter._stopping.set()
            await looking

    run(play)


def test_other_adapters_whose_names_begin_alike_are_left_alone(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        journal = Journal(disk)
        columns = Columns()
        for entity in ("SET/ADAPTER2/m", "SET/ADAPTER#q/x", "XSET/ADAPTER/m", "SET/ADAPTER%2Fx/m", "SET/ADAPTER2#q"):
            columns.add(entity, 1, "update", "", '{"x":"wrong"}')
        columns.add("SET/ADAPTER/m", 1, "update", "", '{"x":"right"}')
        columns.add("SET/ADAPTER/elsewhere", 1, "update", "", '{"x":"not declared"}')
        columns.add("SET/ADAPTER/c", 1, "update", "", '{"x":"no key"}')
        columns.add("SET/ADAPTER/other kind", 1, "note", "", "not even JSON")
        journal.append(columns, Policy.INTERVAL)
        await asyncio.to_thread(journal.close)
        async with Life(disk, tmp_path) as life:
            assert life.batches.queries == {}
            assert life.snapshot("m", "x", Mode.MERGE) == [("right",)]
            assert list(life.adapter._states) == ["m"]

    run(play)
