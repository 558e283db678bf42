"""Recording: what is wanted, what becomes of a loop turn, and what of a disk that refuses."""

from __future__ import annotations

import asyncio
import errno
import functools
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from random import Random

import pytest

from penstock.journal import journal as journal_module
from penstock.journal.errors import DiskFailed, JournalClosed
from penstock.journal.gatherer import Gatherer
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.recorder import MAX_KNOWN, MAX_PENDING, JournalItemRecorder
from penstock.testing.disk import FakeDisk, Operation

# Longer than any test: nothing is committed by the passing of time.
NEVER_MILLIS = 1e9
LOG = "penstock.journal.gatherer"


def on_loop(test: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: object, **fixtures: object) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run


def records_of(disk: FakeDisk) -> list[tuple[str, str, str | None]]:
    """Entity, kind and value of everything that can be read."""
    found: list[tuple[str, str, str | None]] = []
    for batch in JournalReader(disk).read():
        found += zip(*(batch.column(name).to_pylist() for name in ("entity", "kind", "value")), strict=True)
    return found


class World:
    """A journal on a fake disk, and a loop whose turns the test ends."""

    def __init__(self, **settings: float) -> None:
        self.disk = FakeDisk()
        values = {"interval_millis": NEVER_MILLIS, "retry_millis": 1, **settings}
        self.journal = Journal(self.disk, JournalSettings(**values))  # type: ignore[arg-type]
        self.deferred: list[Callable[[], None]] = []
        self.gatherer = Gatherer(self.journal, self.deferred.append, count(1_000).__next__)
        self.appends: list[int] = []
        append = self.journal.append

        def counted(columns: Columns, policy: Policy) -> object:
            self.appends.append(len(columns))
            return append(columns, policy)

        self.journal.append = counted  # type: ignore[method-assign,assignment]

    def recorder(self, *patterns: str, policy: Policy = Policy.INTERVAL) -> JournalItemRecorder:
        return JournalItemRecorder(self.gatherer, "SET", "ADAPTER", patterns or ("*",), policy)

    def turn(self) -> None:
        deferred, self.deferred[:] = list(self.deferred), []
        for function in deferred:
            function()

    def records(self) -> list[tuple[str, str, str | None]]:
        return records_of(self.disk)

    def on_disk(self) -> list[tuple[str, str, str | None]]:
        self.turn()
        self.journal.flush().result(20)
        return self.records()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.journal.close()


# -- what is wanted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "wanted", "unwanted"),
    [
        (["*"], ["", "a", "a\nb", "*"], []),
        (["item1"], ["item1"], ["item", "item12", "xitem1"]),
        (["item*"], ["item", "item1", "item*"], ["Item1", "anitem"]),
        (["*.news.*"], [".news.", "a.news.b", "news.news.x"], ["news", "a.news"]),
        (["a*b*c"], ["abc", "axbxc", "abcbc"], ["ab", "acb", "abcd"]),
        (["a*a"], ["aa", "aba"], ["a"]),
        (["[x]", "a.b", "?"], ["[x]", "a.b", "?"], ["x", "aXb", "y"]),
        ([], [], ["", "a"]),
    ],
)
def test_a_star_stands_for_any_characters_and_everything_else_for_itself(
    world: World, patterns: list[str], wanted: list[str], unwanted: list[str]
) -> None:
    recorder = JournalItemRecorder(world.gatherer, "SET", "ADAPTER", patterns, Policy.INTERVAL)
    # Twice: the second time the answer is known.
    for _ in range(2):
        assert [item for item in (*wanted, *unwanted) if recorder.wants(item)] == wanted


def test_a_name_made_to_take_long_does_not(world: World) -> None:
    recorder = world.recorder("*a*a*a*a*a*a*a*a*b")
    assert not recorder.wants("a" * 20_000 + "c")


def test_a_name_that_utf8_cannot_carry_is_not_wanted(world: World) -> None:
    assert not world.recorder().wants("a\ud800")


def test_what_is_known_of_items_is_bounded(world: World) -> None:
    recorder = world.recorder("*1")
    for number in range(MAX_KNOWN + 10):
        assert recorder.wants(f"item{number}") == (number % 10 == 1)
        assert len(recorder._entities) <= MAX_KNOWN


# -- records ------------------------------------------------------------------------------------------------------


def test_a_record_carries_the_fields_as_json_and_a_clear_carries_nothing(world: World) -> None:
    recorder = world.recorder()
    recorder.record("stock 1", "snapshot", {"last": "3.04", "bid": None})
    recorder.record("stock 1", "update", {"é": 'a"b\n'})
    recorder.record("stock 1", "clear", None)
    assert world.on_disk() == [
        ("SET/ADAPTER/stock 1", "snapshot", '{"last":"3.04","bid":null}'),
        ("SET/ADAPTER/stock 1", "update", '{"é":"a\\"b\\n"}'),
        ("SET/ADAPTER/stock 1", "clear", None),
    ]


def test_what_is_not_wanted_is_not_recorded(world: World) -> None:
    recorder = world.recorder("a*")
    recorder.record("b1", "update", {"x": "1"})
    recorder.record("a1", "update", {"x": "2"})
    assert world.on_disk() == [("SET/ADAPTER/a1", "update", '{"x":"2"}')]


def test_a_turn_is_one_append_for_each_policy(world: World) -> None:
    one, other = world.recorder(), JournalItemRecorder(world.gatherer, "SET", "OTHER", ["*"], Policy.INTERVAL)
    slow = JournalItemRecorder(world.gatherer, "SET", "SLOW", ["*"], Policy.OFF)
    for number in range(10):
        for recorder in (one, other, slow):
            recorder.record("item", "update", {"x": str(number)})
    assert world.appends == []
    world.turn()
    assert world.appends == [20, 10]
    one.record("item", "update", {"x": "10"})
    world.turn()
    assert world.appends == [20, 10, 1]
    assert not world.deferred


def test_records_that_nobody_waits_for_gather_over_several_turns(world: World) -> None:
    later: list[Callable[[], None]] = []
    gatherer = Gatherer(world.journal, world.deferred.append, count().__next__, later.append)
    lazy, eager = (
        JournalItemRecorder(gatherer, "SET", policy.value, ["*"], policy) for policy in (Policy.INTERVAL, Policy.ACK)
    )
    for _ in range(3):
        lazy.record("item", "update", {"x": "1"})
        eager.record("item", "update", {"x": "1"})
        world.turn()
    assert world.appends == [1, 1, 1]
    for function in later:
        function()
    assert world.appends == [1, 1, 1, 3]


def test_a_long_turn_is_appended_in_pieces(world: World) -> None:
    recorder = world.recorder()
    for number in range(2 * MAX_PENDING + 5):
        recorder.record("item", "update", {"x": str(number)})
    world.turn()
    assert world.appends == [MAX_PENDING, MAX_PENDING, 5]
    assert [json.loads(value or "")["x"] for _, _, value in world.on_disk()] == [
        str(number) for number in range(2 * MAX_PENDING + 5)
    ]


@pytest.fixture
def small_appends(monkeypatch: pytest.MonkeyPatch) -> int:
    """An append holds no more than this; half a frame, 32 MB, would take its time."""
    size = 100_000
    monkeypatch.setattr(journal_module, "MAX_APPEND", size)
    return size


def test_a_turn_larger_than_an_append_may_be_is_split_in_order(world: World, small_appends: int) -> None:
    recorder = world.recorder()
    for number in range(10):
        recorder.record(f"item{number}", "update", {"x": "x" * (small_appends // 4)})
    recorder.record("small", "update", {"x": "1"})
    found = [entity for entity, _, _ in world.on_disk()]
    assert found == [*(f"SET/ADAPTER/item{number}" for number in range(10)), "SET/ADAPTER/small"]
    assert world.gatherer.lost_records == 0


def test_a_record_larger_than_an_append_may_be_is_lost_alone(
    world: World, small_appends: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = world.recorder()
    recorder.record("before", "update", {"x": "1"})
    recorder.record("huge", "update", {"x": "x" * small_appends})
    recorder.record("after", "update", {"x": "2"})
    with caplog.at_level(logging.WARNING, LOG):
        found = [entity for entity, _, _ in world.on_disk()]
    assert found == ["SET/ADAPTER/before", "SET/ADAPTER/after"]
    assert world.gatherer.lost_records == 1
    assert "SET/ADAPTER/huge" in str(vars(caplog.records[0]))


def test_an_event_that_a_trusted_producer_should_not_have_sent_is_lost_alone(world: World) -> None:
    recorder = world.recorder()
    recorder.record("bad", "update", {"x": "\ud800"})
    recorder.record("good", "update", {"x": "1"})
    assert [entity for entity, _, _ in world.on_disk()] == ["SET/ADAPTER/good"]
    assert world.gatherer.lost_records == 1


# -- batches of one's own -----------------------------------------------------------------------------------------


@on_loop
async def test_what_was_recorded_before_in_the_turn_comes_before_a_batch(world: World) -> None:
    recorder = world.recorder()
    recorder.record("item", "update", {"x": "1"})
    columns = Columns()
    recorder.write(columns, "item", "update", {"x": "2"}, 5)
    columns.add("SET/ADAPTER#query", 5, "batch", "", '{"batch":7,"rows":1}')
    receipt = world.gatherer.append(columns)
    recorder.record("item", "update", {"x": "3"})
    assert world.appends == [1, 2]
    assert receipt.done is not None
    await asyncio.wrap_future(receipt.done)
    assert [value for _, _, value in world.records()] == ['{"x":"1"}', '{"x":"2"}', '{"batch":7,"rows":1}']
    assert world.on_disk()[-1] == ("SET/ADAPTER/item", "update", '{"x":"3"}')


@on_loop
async def test_a_batch_that_the_journal_refuses_is_told_to_its_owner_and_not_counted(world: World) -> None:
    world.disk.fault = _everything_fails
    columns = Columns()
    columns.add("a", 1, "update", "", "1")
    receipt = world.gatherer.append(columns)
    assert receipt.done is not None
    with pytest.raises(DiskFailed):
        await asyncio.wrap_future(receipt.done)
    with pytest.raises(DiskFailed):
        world.gatherer.append(columns)
    world.disk.fault = None


# -- waiting for the disk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", list(Policy))
@on_loop
async def test_committed_returns_only_after_the_sync(world: World, policy: Policy) -> None:
    held, go = threading.Event(), threading.Event()

    def hold(operation: Operation) -> int | None:
        if operation.kind == "sync":
            held.set()
            assert go.wait(20)
        return None

    recorder = world.recorder(policy=policy)
    recorder.record("item", "update", {"x": "1"})
    world.disk.fault = hold
    waiting = asyncio.ensure_future(world.gatherer.committed())
    assert await asyncio.to_thread(held.wait, 20)
    assert not waiting.done()
    go.set()
    await asyncio.wait_for(waiting, 20)
    world.disk.fault = None
    assert world.disk.kill() is not None
    assert [value for _, _, value in world.records()] == ['{"x":"1"}']


@on_loop
async def test_what_committed_has_returned_for_survives_a_power_cut(world: World) -> None:
    for policy in (Policy.OFF, Policy.INTERVAL, Policy.ACK):
        world.recorder(policy=policy).record(policy.value, "update", {"x": "1"})
        await world.gatherer.committed()
    after = world.disk.cut_power(Random(1))
    Journal(after, JournalSettings()).close()
    assert [entity for entity, _, _ in records_of(after)] == [
        "SET/ADAPTER/off",
        "SET/ADAPTER/interval",
        "SET/ADAPTER/ack",
    ]


@on_loop
async def test_nothing_recorded_is_committed_at_once(world: World) -> None:
    await world.gatherer.committed()


# -- a disk that refuses ------------------------------------------------------------------------------------------


@on_loop
async def test_what_is_lost_is_counted_and_committed_raises_once_for_it(world: World) -> None:
    recorder = world.recorder(policy=Policy.ACK)
    world.disk.fault = _everything_fails
    before = world.gatherer.lost_records
    recorder.record("item", "update", {"x": "1"})
    with pytest.raises(DiskFailed):
        await world.gatherer.committed()
    assert world.gatherer.lost_records == 1
    recorder.record("item", "update", {"x": "2"})
    world.turn()
    assert world.gatherer.lost_records == 2
    world.disk.fault = None
    await asyncio.wrap_future(world.journal.room())
    recorder.record("item", "update", {"x": "3"})
    # The second was lost since the last call; somebody who began after it has lost nothing.
    with pytest.raises(DiskFailed, match="1 records could not be journaled"):
        await world.gatherer.committed()
    await world.gatherer.committed()
    await world.gatherer.committed(lost=2)
    with pytest.raises(DiskFailed, match="2 records could not be journaled"):
        await world.gatherer.committed(lost=before)
    assert [value for _, _, value in world.records()] == ['{"x":"3"}']


@on_loop
async def test_a_loss_that_the_disk_has_got_over_since_is_told_all_the_same(world: World) -> None:
    recorder = world.recorder(policy=Policy.INTERVAL)
    world.disk.fault = _everything_fails
    recorder.record("item", "update", {"x": "1"})
    world.turn()
    with pytest.raises(DiskFailed):
        await asyncio.wrap_future(world.journal.flush())
    world.disk.fault = None
    await asyncio.wrap_future(world.journal.room())
    recorder.record("item", "update", {"x": "2"})
    with pytest.raises(DiskFailed, match="1 records could not be journaled"):
        await world.gatherer.committed()


def test_a_full_queue_loses_records_and_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    world = World(queue_bytes=3_000, interval_millis=1)
    held = threading.Event()

    def hold(operation: Operation) -> int | None:
        assert held.wait(20)
        return None

    world.disk.fault = hold
    recorder = world.recorder()
    with caplog.at_level(logging.WARNING, LOG):
        for number in range(50):
            recorder.record(f"item{number}", "update", {"x": "x" * 1_000})
            world.turn()
        lost = world.gatherer.lost_records
        assert 40 <= lost < 50
        held.set()
        world.journal.room().result(20)
        recorder.record("last", "update", {"x": "1"})
        world.turn()
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOG]
    assert told == [("ERROR", "events are not journaled"), ("WARNING", "events are journaled again")]
    assert str(lost) in str(vars(caplog.records[-1]))
    assert len(world.on_disk()) == 51 - lost
    world.journal.close()


def test_an_outage_is_told_when_it_begins_and_when_it_ends(world: World, caplog: pytest.LogCaptureFixture) -> None:
    recorder = world.recorder()
    with caplog.at_level(logging.WARNING, LOG):
        for outage in range(2):
            world.disk.fault = _everything_fails
            recorder.record("first", "update", {"x": "1"})
            world.turn()
            with pytest.raises(DiskFailed):
                world.journal.flush().result(20)
            for _ in range(5):
                recorder.record("item", "update", {"x": "2"})
                world.turn()
            world.disk.fault = None
            world.journal.room().result(20)
            recorder.record("item", "update", {"x": "3"})
            world.turn()
            told = [record.getMessage() for record in caplog.records if record.name == LOG]
            assert told == ["events are not journaled", "events are journaled again"] * (outage + 1)


@on_loop
async def test_after_the_journal_is_closed_records_are_lost_and_committed_says_so(world: World) -> None:
    recorder = world.recorder()
    world.journal.close()
    recorder.record("item", "update", {"x": "1"})
    with pytest.raises(JournalClosed):
        await world.gatherer.committed()
    assert world.gatherer.lost_records == 1


def _everything_fails(operation: Operation) -> int | None:
    return errno.ENOSPC
