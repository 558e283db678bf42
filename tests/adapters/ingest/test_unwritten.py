"""What is not on the disk yet is not shown to clients, if the sender waits for the disk as well: policy `ack`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any, ParamSpec

import pytest

from penstock.adapters.ingest.adapter import IngestIntake
from penstock.journal.errors import Fenced
from penstock.kernel.item import Mode
from penstock.kernel.ports import CheckedEvent
from penstock.testing import Peer
from penstock.testing.disk import FakeDisk, Operation
from tests.adapters.ingest.world import Life, records

PATIENCE = 30.0

Given = ParamSpec("Given")


def in_a_loop(play: Callable[Given, Coroutine[Any, Any, None]]) -> Callable[Given, None]:
    @wraps(play)
    def run(*given: Given.args, **named: Given.kwargs) -> None:
        asyncio.run(play(*given, **named))

    return run


class HeldDisk(FakeDisk):
    """Its syncs of files wait while it is held; `waits` is set while one does."""

    def __init__(self) -> None:
        super().__init__()
        self._free = threading.Event()
        self._free.set()
        self.waits = threading.Event()
        self.fault = self._before

    def hold(self) -> None:
        self.waits.clear()
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    def _before(self, operation: Operation) -> int | None:
        if operation.kind == "sync" and not self._free.is_set():
            self.waits.set()
            assert self._free.wait(PATIENCE)
        return None


async def taken(life: Life, *events: tuple[str, dict[str, str | None] | None]) -> None:
    """The same as `life.lines`, but without waiting for the disk."""
    async with life.adapter.lock:
        intake = IngestIntake(life.adapter)
        for item, event in events:
            if event is None:
                intake.clear(1, item)
            else:
                intake.update(1, item, CheckedEvent(dict(event)))
        intake.flush()


def values(told: list[Any]) -> list[Any]:
    return [each.values for each in told if hasattr(each, "values")]


@in_a_loop
async def test_clients_see_an_event_when_it_is_on_the_disk(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        await life.lines(("m1", {"n": "1"}))
        peer = life.watch("m1", "n", Mode.MERGE)
        assert values(life.seen(peer)) == [("1",)]
        disk.hold()
        await taken(life, ("m1", {"n": "2"}), ("m1", {"n": "3"}))
        await asyncio.to_thread(disk.waits.wait, PATIENCE)
        assert life.seen(peer) == []
        disk.release()
        await life.gatherer.committed()
        # When the sender knows, clients have been told.
        assert values(life.seen(peer)) == [("2",), ("3",)]


@in_a_loop
async def test_a_server_that_is_killed_has_shown_nothing_that_the_next_one_does_not_know(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path / "one") as life:
        peer = life.watch("m1", "n", Mode.MERGE)
        shown: list[Any] = []
        for number in range(1, 6):
            if number == 4:
                disk.hold()
            await taken(life, ("m1", {"n": str(number)}))
            if number < 4:
                await life.gatherer.committed()
            shown += values(life.seen(peer))
        # Written, perhaps, but not synced: what a power cut may leave of it.
        left = disk.cut_power(Random(0))
        disk.release()
    async with Life(left, tmp_path / "two") as life:
        assert int(life.snapshot("m1", "n", Mode.MERGE)[0][0] or "") >= int(shown[-1][0])


@in_a_loop
async def test_whoever_subscribes_meanwhile_waits_for_the_disk_and_gets_each_event_once(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        await life.lines(("d1", {"n": "1"}), ("m1", {"n": "1"}))
        disk.hold()
        await taken(life, ("d1", {"n": "2"}))
        newcomer = life.watch("d1", "n", Mode.DISTINCT)
        other = life.watch("m1", "n", Mode.MERGE)
        await taken(life, ("d1", {"n": "3"}))
        assert values(life.seen(newcomer)) == []
        # Of an item about which nothing is under way.
        assert values(life.seen(other)) == [("1",)]
        disk.release()
        await life.gatherer.committed()
        assert values(life.seen(newcomer)) == [("1",), ("2",), ("3",)]


@in_a_loop
async def test_an_item_that_is_cleared_meanwhile_shows_nothing_to_who_subscribes_then(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        await life.lines(("c1", {"key": "k", "command": "ADD", "n": "1"}))
        before = life.watch("c1", "key command n", Mode.COMMAND)
        assert values(life.seen(before)) == [("k", "ADD", "1")]
        disk.hold()
        await taken(life, ("c1", {"key": "k", "command": "UPDATE", "n": "2"}), ("c1", None))
        assert life.seen(before) == []
        disk.release()
        await life.gatherer.committed()
        told = life.seen(before)
        assert values(told) == [("k", "UPDATE", "2")]
        assert len(told) == 2, told
        assert life.snapshot("c1", "key command n", Mode.COMMAND) == []


@in_a_loop
async def test_a_batch_does_not_overtake_what_came_before_it(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        peer = life.watch("m1", "n", Mode.MERGE)
        disk.hold()
        await taken(life, ("m1", {"n": "1"}))
        batch = asyncio.create_task(life.put("q", 1, "MERGE", [{"item": "m1", "n": "2"}]))
        await asyncio.to_thread(disk.waits.wait, PATIENCE)
        assert life.seen(peer) == []
        disk.release()
        await batch
        assert values(life.seen(peer)) == [("1",), ("2",)]


@in_a_loop
async def test_what_the_journal_of_another_owner_refuses_is_shown_to_nobody(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        peer = life.watch("m1", "n", Mode.MERGE)
        await life.lines(("m1", {"n": "1"}))
        assert values(life.seen(peer)) == [("1",)]
        disk.fault = _fenced
        await taken(life, ("m1", {"n": "2"}))
        with pytest.raises(Fenced):
            await life.gatherer.committed()
        # Nor is what comes later, until the process finds out.
        await taken(life, ("m1", {"n": "3"}))
        with pytest.raises(Fenced):
            await life.gatherer.committed()
        assert life.seen(peer) == []
        disk.fault = None
    assert [value for _, _, value in records(disk)][:1] == ['{"n":"1"}']


def _fenced(operation: Operation) -> int | None:
    raise Fenced("another process may own the journal now")


@pytest.mark.parametrize("seed", range(20))
@in_a_loop
async def test_clients_that_come_at_any_time_see_no_more_than_the_disk_has_and_nothing_twice(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    disk = HeldDisk()
    async with Life(disk, tmp_path) as life:
        number = safe = 0
        is_held = False
        peers: list[tuple[str, Peer, list[int]]] = []
        for _ in range(120):
            step = random.random()
            if step < 0.5:
                number += 1
                event: dict[str, str | None] = {"n": str(number)}
                items = random.sample(["m1", "m2", "d1"], random.randint(1, 3))
                await taken(life, *((item, event) for item in items))
            elif step < 0.65:
                disk.hold()
                is_held = True
            elif step < 0.8:
                disk.release()
                is_held = False
            elif peers and step < 0.85:
                peers.pop(random.randrange(len(peers)))[1].session.unsubscribe(1)
            else:
                item = random.choice(["m1", "m2", "d1"])
                peers.append((item, life.watch(item, "n", Mode.DISTINCT if item == "d1" else Mode.MERGE), []))
            if is_held:
                await asyncio.sleep(0)
            else:
                await life.gatherer.committed()
                safe = number
            for _, peer, seen in peers:
                seen += [int(told[0]) for told in values(life.seen(peer))]
                assert seen == sorted(set(seen)), seen
                assert not seen or seen[-1] <= safe, (seen, safe)
        disk.release()
        await life.gatherer.committed()
        for item, peer, seen in peers:
            seen += [int(told[0]) for told in values(life.seen(peer))]
            assert seen == sorted(set(seen)), seen
            mode = Mode.DISTINCT if item == "d1" else Mode.MERGE
            now = [int(told[0] or "") for told in life.snapshot(item, "n", mode)]
            assert seen[-1:] == now[-1:], (item, seen, now)
