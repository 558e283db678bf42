from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from penstock.doors.ditto import search_writer
from penstock.doors.ditto.search_writer import SearchWriter
from penstock.store.search_index import IndexMark, SearchIndex, ThingUpdate
from penstock.testing.clock import Clock
from penstock.twins.access import Subjects
from penstock.wire.ditto.search import Selection
from tests.doors.ditto.world import World, running

ME = Subjects(["nginx:owner"])
Test = Callable[[World, SearchWriter], Coroutine[Any, Any, None]]


def run(directory: Path, prepare: Callable[[World], None], test: Test, open_index: Any = None) -> None:
    """Things are made before the writer starts; the test runs on the loop of the world."""
    with running(directory) as world:
        prepare(world)
        opening = open_index or (lambda: SearchIndex.open("", directory))

        async def whole() -> None:
            writer = SearchWriter(world.twins, opening, world.clock)
            writer.start()
            try:
                await asyncio.wait_for(test(world, writer), 60)
            finally:
                await writer.close()

        world.work.call(whole())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what changes has no event
        await asyncio.sleep(0.005)


async def ready(writer: SearchWriter) -> SearchIndex:
    await until(lambda: writer.index is not None)
    assert writer.index is not None
    return writer.index


def found(index: SearchIndex) -> list[str]:
    return index.candidates(None, sorted(ME), None, "", 100)


def test_things_from_before_are_indexed_at_the_start(tmp_path: Path) -> None:
    async def test(world: World, writer: SearchWriter) -> None:
        index = await ready(writer)
        assert found(index) == ["ns:a", "ns:b"]
        assert index.marks()["ns:b"].revision == 3
        assert (writer.backlog, writer.lag()) == (0, 0.0)

    def prepare(world: World) -> None:
        world.make("ns:a")
        world.make("ns:b", events=3)

    run(tmp_path, prepare, test)


def test_what_the_index_missed_or_has_too_much_is_mended_at_the_start(tmp_path: Path) -> None:
    index = SearchIndex.open("", tmp_path)
    stale = ThingUpdate("ns:gone", IndexMark("ns:gone", 9, 9), None, (("/attributes/x", b"1"),))
    late = ThingUpdate("ns:a", IndexMark("ns:a", 1, 5), None, (("/attributes/x", b"1"),))
    index.apply([stale, late], [("ns:gone", ["nginx:owner"]), ("ns:a", ["nginx:stranger"])])
    index.close()

    async def test(world: World, writer: SearchWriter) -> None:
        index = await ready(writer)
        assert set(index.marks()) == {"ns:a"}
        assert index.marks()["ns:a"].revision == 2
        assert index.readers() == {"ns:a": {"nginx:owner"}}

    run(tmp_path, lambda world: world.make("ns:a", events=2), test)


async def change(world: World, writer: SearchWriter, value: int) -> None:
    """A change of ns:a that is on the disk when this returns."""
    from penstock.doors.ditto.service import ask
    from penstock.twins.command import Caller, TwinCommand
    from penstock.wire.ditto.ids import parse_thing_id
    from penstock.wire.ditto.kinds import Action, EntityGroup
    from penstock.wire.ditto.resource import known_resource

    resource = known_resource(EntityGroup.THINGS, "/attributes/counter")
    assert resource is not None
    command = TwinCommand(
        Action.MODIFY, EntityGroup.THINGS, parse_thing_id("ns:a"), resource, "/attributes/counter", value
    )
    await ask(world.twins, command, Caller(("nginx:owner",), None))


def test_a_change_waits_until_it_is_in_the_index(tmp_path: Path) -> None:
    async def test(world: World, writer: SearchWriter) -> None:
        index = await ready(writer)
        await change(world, writer, 7)
        assert writer.waiting() == {"ns:a"}
        assert isinstance(world.clock, Clock)
        world.clock.advance(0.25)
        assert writer.lag() == 0.25
        await writer.settled()
        assert writer.waiting() == set()
        assert index.marks()["ns:a"].revision == 2
        await writer.settled()

    run(tmp_path, lambda world: world.make("ns:a"), test)


def test_while_the_index_cannot_be_written_searches_are_right_and_afterwards_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_writer, "PAUSE", 0.01)
    failing = [True]

    class Failing(SearchIndex):
        def apply(self, *arguments: Any) -> None:
            if failing[0]:
                raise OperationalError("x", None, Exception("the disk is full"))
            super().apply(*arguments)

    def opening() -> SearchIndex:
        return Failing.open("", tmp_path)

    async def test(world: World, writer: SearchWriter) -> None:
        from penstock.doors.ditto.search import Searches

        searches = Searches(world.twins, writer, world._executor, lambda: world.now)
        await until(lambda: writer.failures >= 3)
        assert writer.index is None
        assert await searches.count(Selection("eq(attributes/counter,0)"), ME) == 1
        failing[0] = False
        index = await ready(writer)
        failing[0] = True
        await change(world, writer, 7)
        before = writer.failures
        await until(lambda: writer.failures >= before + 2)
        assert await searches.count(Selection("eq(attributes/counter,7)"), ME) == 1
        assert await searches.count(Selection("eq(attributes/counter,0)"), ME) == 0
        failing[0] = False
        await writer.settled()
        assert index.marks()["ns:a"].revision == 2
        assert await searches.count(Selection("eq(attributes/counter,7)"), ME) == 1

    run(tmp_path, lambda world: world.make("ns:a"), test, opening)


def test_a_database_that_cannot_be_opened_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_writer, "PAUSE", 0.01)
    tries: list[int] = []

    def opening() -> SearchIndex:
        tries.append(1)
        if len(tries) < 3:
            return SearchIndex.open("postgresql+psycopg://nobody@127.0.0.1:1/nothing", tmp_path)
        return SearchIndex.open("", tmp_path)

    async def test(world: World, writer: SearchWriter) -> None:
        assert found(await ready(writer)) == ["ns:a"]
        assert writer.failures == 2

    run(tmp_path, lambda world: world.make("ns:a"), test, opening)


def test_a_policy_that_very_many_share_is_followed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Because what each of them means is found out on the event loop."""
    monkeypatch.setattr(search_writer, "AT_ONCE", 3)
    names = {f"ns:t{number}" for number in range(10)}
    written: list[int] = []

    class Counting(SearchIndex):
        def apply(self, things: Any, policies: Any = ()) -> None:
            written.append(len(policies))
            super().apply(things, policies)

    async def test(world: World, writer: SearchWriter) -> None:
        index = await ready(writer)
        monkeypatch.setattr(world.twins, "dependents", lambda id: names)
        written.clear()
        await grant(world, "ns:t0", "nginx:reader")
        await writer.settled()
        assert sum(written) == len(names)
        assert max(written) <= 3
        assert index.readers()["ns:t0"] == {"nginx:owner", "nginx:reader"}

    def prepare(world: World) -> None:
        for name in names:
            world.make(name)

    run(tmp_path, prepare, test, lambda: Counting.open("", tmp_path))


async def grant(world: World, policy_id: str, subject: str) -> None:
    from penstock.doors.ditto.service import ask
    from penstock.twins.command import Caller, TwinCommand
    from penstock.wire.ditto.ids import parse_policy_id
    from penstock.wire.ditto.kinds import Action, EntityGroup
    from penstock.wire.ditto.resource import known_resource

    path = "/entries/GUEST"
    resource = known_resource(EntityGroup.POLICIES, path)
    assert resource is not None
    entry = {"subjects": {subject: {}}, "resources": {"thing:/": {"grant": ["READ"]}}}
    command = TwinCommand(Action.MODIFY, EntityGroup.POLICIES, parse_policy_id(policy_id), resource, path, entry)
    await ask(world.twins, command, Caller(("nginx:owner",), None))
