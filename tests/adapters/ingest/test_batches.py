"""One batch at a time, what comes in between, stages and their time.

HTTP is in test_batch_routes, random batches in test_model.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from penstock.adapters.ingest import batches as module
from penstock.adapters.ingest.body import BadArrowBody, LargeBody, read_stream
from penstock.adapters.ingest.errors import Busy, Unavailable, UnknownStage
from penstock.journal.journal import JournalSettings
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from penstock.testing import Clock
from penstock.testing.disk import FakeDisk, Operation
from tests.adapters.ingest.test_memory import run
from tests.adapters.ingest.world import Life, records, stream, table
from tests.support.stand_in import StandIn


def test_batches_and_lines_that_come_at_once_are_journaled_and_published_in_one_order(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            watcher = life.watch("c", "key command x", Mode.RAW)
            work = [
                life.put(f"q{number}", 0, "COMMAND", [{"item": "c", "key": "a", "x": str(number)}] * 3)
                for number in range(5)
            ]
            clears = [life.lines(("c", None)) for _ in range(2)]
            await asyncio.gather(work[0], work[1], work[2], clears[0], work[3], clears[1], work[4])
            told = [update.values[1] for update in life.seen(watcher) if hasattr(update, "values")]
        there = False
        journaled = []
        for _, kind, value in records(disk):
            if kind == "update":
                journaled.append("UPDATE" if there else "ADD")
                assert f'"command":"{journaled[-1]}"' in (value or "")
            there = there if kind == "batch" else kind == "update"
        assert told == journaled
        assert len(told) == 15

    run(play)


def test_nothing_is_published_before_it_is_on_the_disk(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            watcher = life.watch("m", "x")
            synced: list[int] = []
            publish = life.adapter.feed.publish_checked_by_name

            def noting(*arguments: object, **more: object) -> None:
                synced.append(life.journal.committed)
                publish(*arguments, **more)  # type: ignore[arg-type]

            life.adapter.feed = cast(Feed, StandIn(life.adapter.feed, publish_checked_by_name=noting))
            await life.put("q", 0, "MERGE", [{"item": "m", "x": "1"}, {"item": "m", "x": "2"}])
            assert synced == [3]
            assert [update.values for update in life.seen(watcher)] == [("1",), ("2",)]

    run(play)


def test_a_disk_that_refuses_changes_nothing_and_the_same_batch_is_taken_later(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path, settings=JournalSettings(retry_millis=1)) as life:
            watcher = life.watch("c", "key command", Mode.COMMAND)

            def broken(operation: Operation) -> int | None:
                return errno.EIO

            disk.fault = broken
            for _ in range(2):
                with pytest.raises(Unavailable, match="the journal cannot be written"):
                    await life.put("q", 0, "COMMAND", [{"item": "c", "key": "a"}])
            assert life.batches.queries == {}
            disk.fault = None
            await asyncio.wrap_future(life.journal.room())
            await life.put("q", 0, "COMMAND", [{"item": "c", "key": "a"}])
            told = [event.values for event in life.seen(watcher) if hasattr(event, "values")]
            assert told == [("a", "ADD")]

    run(play)


def test_a_client_that_goes_away_does_not_stop_its_batch(tmp_path: Path) -> None:
    async def play() -> None:
        async with Life(FakeDisk(), tmp_path) as life:
            work = asyncio.create_task(life.put("q", 0, "MERGE", [{"item": "m", "x": "1"}]))
            await asyncio.sleep(0)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert (await life.batches.put("q", 0, "MERGE", [])).repeated
            assert life.snapshot("m", "x", Mode.MERGE) == [("1",)]

    run(play)


def test_when_the_server_goes_down_the_last_batch_is_finished_and_others_are_refused(tmp_path: Path) -> None:
    async def play() -> None:
        disk = FakeDisk()
        async with Life(disk, tmp_path) as life:
            first = asyncio.create_task(life.put("q", 0, "MERGE", [{"item": "m", "x": "1"}]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            stopping = asyncio.create_task(life.adapter.stop())
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="the server is shutting down"):
                await life.put("q", 1, "MERGE", [{"item": "m", "x": "2"}])
            assert await first == (1, 0)
            await stopping
        async with Life(disk, tmp_path) as life:
            assert life.batches.queries == {"q": 0}

    run(play)


def test_others_have_their_turn_while_a_large_batch_is_looked_at(tmp_path: Path) -> None:
    async def play() -> None:
        async with Life(FakeDisk(), tmp_path) as life:
            rows = [{"item": "m", "x": str(number)} for number in range(10 * module.TURN)]
            work = asyncio.create_task(life.put("q", 0, "MERGE", rows))
            turns = 0
            while not work.done():
                await asyncio.sleep(0)
                turns += 1
            assert turns > 10

    run(play)


def test_stages_are_forgotten_after_an_hour_and_when_a_later_batch_is_committed(tmp_path: Path) -> None:
    async def play() -> None:
        life = Life(FakeDisk(), tmp_path, max_staged_bytes=6_000)
        clock = Clock()
        life.adapter.clock = clock
        async with life:
            rows = [table([{"item": "m", "x": "y" * 900}])]
            await life.batches.stage("q", 1, "old", rows)
            await life.batches.stage("q", 3, "later", rows)
            with pytest.raises(Busy, match="max_staged_bytes = 6000"):
                await life.batches.stage("other", 2, "more", rows)
            clock.move_to(clock.now + 3_599)
            await life.batches.stage("q", 3, "later", rows)
            clock.move_to(clock.now + 2)
            await life.batches.stage("other", 2, "more", rows)
            with pytest.raises(UnknownStage, match="stage 'old' of batch 1"):
                await life.batches.commit("q", 1, "MERGE", ["old"])
            assert (await life.batches.commit("q", 4, "MERGE", [])).rows == 0
            with pytest.raises(UnknownStage, match="stage 'later' of batch 5"):
                await life.batches.commit("q", 5, "MERGE", ["later"])
            assert (await life.batches.commit("other", 2, "MERGE", ["more"])).rows == 1
            assert life.batches.stages.staged_bytes == 0
            assert list(life.batches.stages.directory.iterdir()) == []

    run(play)


def test_the_query_that_has_been_silent_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUERIES", 2)
    queries: dict[str, int] = {}
    for query, batch in (("a", 0), ("b", 0), ("a", 1), ("c", 0)):
        module.remember(queries, query, batch)
    assert queries == {"a": 1, "c": 0}


# -- bodies -----------------------------------------------------------------------------------------------------------

LIMIT = 100_000
LONG = "y" * 10_000


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"item": ["x"] * 100, "a": [LONG] * 100}),
        pa.record_batch({"item": ["x"] * 100, "a": pa.array([LONG] * 100).dictionary_encode()}),
        pa.record_batch({"item": ["x"] * 100, "a": pa.array([LONG] * 100, pa.string_view())}),
        pa.record_batch({"item": pa.nulls(LIMIT + 1)}),
        pa.record_batch({"item": pa.nulls(10_000), **{f"f{number}": pa.nulls(10_000) for number in range(11)}}),
    ],
)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_small_body_that_stands_for_much_is_refused_before_it_takes_the_room(
    batch: pa.RecordBatch, compression: str | None
) -> None:
    with pytest.raises(LargeBody, match="max_body_bytes = 100000"):
        read_stream(stream(batch, compression=compression), LIMIT)


def test_the_unpacked_size_is_known_before_anything_is_unpacked() -> None:
    body = stream(table([{"item": "x", "a": "y" * 50_000_000}]), compression="zstd")
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(LargeBody, match="The body has 500000"):
        read_stream(body, LIMIT)
    assert pa.default_memory_pool().max_memory() <= before + LIMIT


def test_every_byte_of_a_compressed_body_may_be_wrong() -> None:
    dictionary = pa.array(["one", "two", "one"] * 100).dictionary_encode()
    body = stream(pa.record_batch({"item": ["m"] * 300, "x": dictionary}), compression="zstd")
    outcomes = set()
    for place in range(len(body)):
        wrong = bytearray(body)
        wrong[place] ^= 0xFF
        try:
            read_stream(wrong, LIMIT)
            outcomes.add("read")
        except (BadArrowBody, LargeBody) as error:
            outcomes.add(type(error).__name__)
    assert {"BadArrowBody", "LargeBody"} <= outcomes
