"""What a connection sends: in its order, again after a loss, and no more than fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from penstock.brokers.bridge import Bridge, BridgeLost, PublishRefused
from penstock.connections.document import ConnectionDocument
from penstock.connections.message import OutboundMessage
from penstock.services.connections import outflow
from penstock.services.connections.outflow import Outflow


class Line(Bridge):
    """To a broker in memory, which takes `room` messages at a time and refuses those that say so."""

    def __init__(self, room: int = 1_000) -> None:
        super().__init__(cast(ConnectionDocument, None))
        self.room = asyncio.Semaphore(room)
        self.taken: list[str] = []
        self.is_lost = False

    async def publish(self, message: OutboundMessage) -> int:
        await self.room.acquire()
        text = message.payload.decode()
        if self.is_lost:
            raise BridgeLost("the line is cut")
        if text == "bad":
            raise PublishRefused("not this one", 413)
        self.taken.append(text)
        return 204

    async def open(self) -> None: ...
    def hold(self, held: bool) -> None: ...
    async def close(self) -> None: ...


class Scene:
    def __init__(self) -> None:
        self.full: list[bool] = []
        self.done: list[tuple[str, int]] = []
        self.flow = Outflow(self.full.append)
        self.flow.start()

    def put(self, *texts: str) -> None:
        for text in texts:
            message = OutboundMessage("events", text.encode(), {})
            self.flow.put(message, lambda status, reason, text=text: self.done.append((text, status)))  # type: ignore[misc]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - what changes has no event
            await asyncio.sleep(0)


def run(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        scene = Scene()
        try:
            await asyncio.wait_for(test(scene), 30)
        finally:
            await scene.flow.close(0.0)

    asyncio.run(whole())


def test_messages_are_sent_in_their_order_and_one_that_is_refused_stops_no_other() -> None:
    async def test(scene: Scene) -> None:
        line = Line()
        scene.flow.use(line)
        scene.put("1", "bad", "2")
        await scene.until(lambda: len(scene.done) == 3)
        assert line.taken == ["1", "2"]
        assert scene.done == [("1", 204), ("bad", 413), ("2", 204)]

    run(test)


def test_what_was_under_way_when_the_broker_was_lost_is_sent_again_in_its_order() -> None:
    async def test(scene: Scene) -> None:
        line = Line(room=2)
        scene.flow.use(line)
        scene.put(*"12345")
        await scene.until(lambda: line.taken == ["1", "2"])
        line.is_lost = True
        for _ in range(3):
            line.room.release()
        assert await line.ended == "the line is cut"
        scene.put("6")
        again = Line()
        scene.flow.use(again)
        await scene.until(lambda: len(scene.done) == 6)
        assert again.taken == ["3", "4", "5", "6"]
        assert [text for text, _ in scene.done] == list("123456")

    run(test)


def test_those_who_make_messages_are_told_to_stop_and_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outflow, "MAX_WAITING", 10)

    async def test(scene: Scene) -> None:
        scene.put(*"123456789")
        assert scene.full == []
        scene.put("x")
        assert scene.full == [True]
        line = Line(room=4)
        scene.flow.use(line)
        await scene.until(lambda: len(line.taken) == 4)
        await asyncio.sleep(0)
        assert scene.full == [True], "more than half of it is left"
        line.room.release()
        await scene.until(lambda: len(scene.full) == 2)
        assert (scene.full, len(scene.flow)) == ([True, False], 5)

    run(test)


def test_at_the_end_what_waits_has_some_time_and_the_rest_is_counted() -> None:
    async def test(scene: Scene) -> None:
        line = Line(room=1)
        scene.flow.use(line)
        scene.put("1", "2", "3")
        await scene.until(lambda: line.taken == ["1"])
        assert await scene.flow.close(0.01) == 2

    run(test)
