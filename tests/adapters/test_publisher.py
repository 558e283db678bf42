"""Updates from threads: in order, bounded, and harmless after the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from penstock.adapters import DataAdapter
from penstock.adapters.publisher import EVENTS_PER_TURN, MAX_WAITING
from penstock.kernel.feed import Feed
from penstock.kernel.item import Mode
from tests.adapters.stage import Stage
from tests.support.stand_in import StandIn


class Quiet(DataAdapter):
    quick = True

    def has_snapshot(self, item: str) -> bool:
        return False


def on_thread(function: Callable[[], None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(asyncio.to_thread(function))


async def taken_in(stage: Stage) -> None:
    """Everything that threads have published so far is in the kernel: what comes last is."""
    done = asyncio.Event()

    def ring(item: str, orders: Mapping[str, str], serial: int | None = None) -> None:
        done.set()

    publisher = stage.adapter.publisher
    publisher._feed = cast(Feed, StandIn(publisher._feed, declare_differences=ring))
    await asyncio.to_thread(stage.adapter.declare_differences, "a", {})
    await done.wait()


def test_events_of_a_thread_arrive_in_order_whatever_they_are() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a", "x", Mode.DISTINCT)
            adapter = stage.adapter

            def publish() -> None:
                adapter.update("a", {"x": "1"}, snapshot=True)
                adapter.end_of_snapshot("a")
                adapter.updates([("a", {"x": "2"}), ("a", {"x": "3"})])
                adapter.clear_snapshot("a")
                adapter.update("a", {"x": "4"})

            await asyncio.to_thread(publish)
            await taken_in(stage)
            assert watcher.lines() == ["EOS,1,1", "U,1,1,1", "U,1,1,2", "U,1,1,3", "CS,1,1", "U,1,1,4"]

    asyncio.run(run())


def test_each_of_many_threads_keeps_its_own_order() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a", "thread number", Mode.DISTINCT)

            def publish(thread: int) -> None:
                for number in range(100):
                    stage.adapter.update("a", {"thread": str(thread), "number": str(number)})

            with ThreadPoolExecutor(8) as pool:
                await asyncio.gather(*[asyncio.get_running_loop().run_in_executor(pool, publish, n) for n in range(8)])
            await taken_in(stage)
            seen: dict[str, list[str]] = {}
            thread = number = ""
            for line in watcher.lines()[1:]:
                # An empty value is unchanged.
                changed = line.split(",")[3].split("|")
                thread, number = changed[0] or thread, changed[1] or number
                seen.setdefault(thread, []).append(number)
            assert seen == {str(thread): [str(number) for number in range(100)] for thread in range(8)}

    asyncio.run(run())


def test_a_thread_waits_when_too_much_is_under_way_and_the_event_loop_never_does() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            stage.watch("a", "x")
            posted = 0
            full = threading.Event()

            def publish() -> None:
                nonlocal posted
                for number in range(MAX_WAITING + 1):
                    if number == MAX_WAITING:
                        full.set()
                    stage.adapter.update("a", {"x": str(number)})
                    posted += 1

            thread = threading.Thread(target=publish)
            thread.start()
            # The loop stands still here, so nothing is taken in.
            assert full.wait(20)
            stage.adapter.update("a", {"x": "from the loop"})
            assert posted == MAX_WAITING
            assert thread.is_alive()
            await asyncio.to_thread(thread.join, 20)
            assert posted == MAX_WAITING + 1

    asyncio.run(run())


def test_a_list_is_counted_by_its_events_and_taken_in_by_parts() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            stage.watch("a", "x")
            taken: list[int] = []
            updates = stage.feed.updates
            turns = 0

            def note(events):  # type: ignore[no-untyped-def]
                taken.append(len(events))
                updates(events)

            stage.adapter.publisher._feed = cast(Feed, StandIn(stage.feed, updates=note))
            task = on_thread(lambda: stage.adapter.updates([("a", {"x": str(n)}) for n in range(3 * MAX_WAITING)]))
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            await taken_in(stage)
            assert sum(taken) == 3 * MAX_WAITING
            assert max(taken) == EVENTS_PER_TURN
            assert turns > 10

    asyncio.run(run())


def test_an_event_may_be_used_again_at_once() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a", "x", Mode.DISTINCT)

            def publish() -> None:
                event = {"x": "1"}
                stage.adapter.update("a", event)
                event["x"] = "2"
                stage.adapter.updates([("a", event)])
                event["x"] = "3"

            await asyncio.to_thread(publish)
            await taken_in(stage)
            assert watcher.lines() == ["EOS,1,1", "U,1,1,1", "U,1,1,2"]

    asyncio.run(run())


@pytest.mark.parametrize("events", [[("a",)], [("a", 1)], ["ab"], [1], [("a", {"x": "1"}, True)]])
def test_a_list_of_nonsense_is_told_to_the_thread_that_made_it(events: list[object]) -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            with pytest.raises((TypeError, ValueError)):
                await asyncio.to_thread(stage.adapter.updates, events)  # type: ignore[arg-type]

    asyncio.run(run())


def test_nonsense_that_shows_late_is_logged_and_what_follows_is_published(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a", "x")

            def publish() -> None:
                stage.adapter.update(["a"], {"x": "0"})  # type: ignore[arg-type]
                for number in range(2 * EVENTS_PER_TURN):
                    stage.adapter.update("a", {"x": str(number)})
                stage.adapter.update("a", {"x": "last"})

            await asyncio.to_thread(publish)
            await taken_in(stage)
            assert watcher.lines()[-1] == "U,1,1,last"

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    (record,) = [record for record in caplog.records if record.msg == "data adapter published an invalid event"]
    assert record.__dict__["fields"] == {"adapter": "SET/ADAPTER", "call": "update"}
    assert record.exc_info is not None


def test_closing_lets_waiting_threads_go_and_drops_what_they_bring() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            stage.watch("a", "x")
            full = threading.Event()

            def publish() -> None:
                for number in range(2 * MAX_WAITING):
                    if number == MAX_WAITING:
                        full.set()
                    stage.adapter.update("a", {"x": str(number)})

            thread = threading.Thread(target=publish)
            thread.start()
            assert full.wait(20)
            stage.adapter.publisher.close()
            thread.join(20)
            assert not thread.is_alive()
            await asyncio.to_thread(stage.adapter.update, "a", {"x": "late"})

    asyncio.run(run())


def test_a_thread_may_publish_long_after_the_loop_is_gone() -> None:
    async def run() -> DataAdapter:
        async with Stage(Quiet()) as stage:
            return stage.adapter

    adapter = asyncio.run(run())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(adapter.update, "a", {"x": "1"}).result(10)
        pool.submit(adapter.updates, [("a", {"x": "1"})]).result(10)
        pool.submit(adapter.end_of_snapshot, "a").result(10)


def test_a_failure_is_logged_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            assert stage.adapter.publisher.failure is None
            await asyncio.to_thread(stage.adapter.fail, "the line is cut")
            assert stage.adapter.publisher.failure == "the line is cut"

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    (record,) = [record for record in caplog.records if record.msg == "data adapter has failed"]
    assert record.__dict__["fields"] == {"adapter": "SET/ADAPTER", "reason": "the line is cut"}


def test_an_adapter_can_ask_who_is_there() -> None:
    async def run() -> None:
        async with Stage(Quiet()) as stage:
            watcher = stage.watch("a", "x")
            assert stage.adapter.publisher.wants("a")
            assert not stage.adapter.publisher.wants("b")
            watcher.session.unsubscribe(1)
            assert not stage.adapter.publisher.wants("a")

    asyncio.run(run())
