"""Records that come on a thread, subscribers that come at any time: through the kernel to clients."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import cast

import pytest

from penstock.adapters.brokers.adapter import BrokerAdapter, RecordParameters
from penstock.kernel.item import Mode
from penstock.wire.records.record import DeliveredRecord
from tests.adapters.brokers.scene import told, until
from tests.adapters.stage import Stage, Watcher


def record(key: str, value: object) -> DeliveredRecord:
    return DeliveredRecord("quotes", None if value is None else json.dumps(value).encode(), key=key.encode(), offset=7)


async def subscribed(adapter: BrokerAdapter, *items: str) -> None:
    await until(lambda: adapter._wanted.issuperset(items))


def run(adapter: BrokerAdapter, scene: object) -> None:
    async def play() -> None:
        async with Stage(adapter) as stage:
            await scene(stage)  # type: ignore[operator]

    asyncio.run(play())


def test_the_latest_record_is_the_snapshot_and_later_ones_are_updates() -> None:
    adapter = BrokerAdapter({})

    async def scene(stage: Stage) -> None:
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 1}), record("acme", {"bid": 2})])
        watcher = stage.watch("acme", "bid")
        assert await told(watcher, 1) == ["U,1,1,2"]
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 3}), record("globex", {"bid": 9})])
        assert await told(watcher, 1) == ["U,1,1,3"]

    run(adapter, scene)
    assert (adapter.records, adapter.poison_records) == (4, 0)


def test_a_table_has_its_rows_at_once_and_loses_those_without_a_value() -> None:
    adapter = BrokerAdapter({"mode": "COMMAND", "item": "positions"})

    async def scene(stage: Stage) -> None:
        rows = [record("a", {"n": 1}), record("b", {"n": 2}), record("a", None), record("x", None)]
        await asyncio.to_thread(adapter.take, rows)
        watcher = stage.watch("positions", "key command n", Mode.COMMAND)
        assert await told(watcher, 2) == ["U,1,1,b|ADD|2", "EOS,1,1"]
        await asyncio.to_thread(adapter.take, [record("b", {"n": 3}), record("c", {"n": 4}), record("b", None)])
        assert (await told(watcher, 3))[-1].startswith("U,1,1,b|DELETE")
        # Nobody is told of a row that was never there.
        await asyncio.to_thread(adapter.take, [record("z", None), record("c", None)])
        # The command is not repeated: it was DELETE before.
        assert await told(watcher, 1) == ["U,1,1,c||"]

    run(adapter, scene)
    assert adapter.poison_records == 0


def test_an_item_whose_key_is_deleted_is_empty() -> None:
    adapter = BrokerAdapter({})

    async def scene(stage: Stage) -> None:
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 1})])
        watcher = stage.watch("acme", "bid")
        await told(watcher, 1)
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 2}), record("acme", None)])
        assert (await told(watcher, 2))[-1] == "U,1,1,#"

    run(adapter, scene)


def test_the_last_records_of_a_distinct_item_are_its_snapshot() -> None:
    adapter = BrokerAdapter({"mode": "DISTINCT", "history": 2})

    async def scene(stage: Stage) -> None:
        await asyncio.to_thread(adapter.take, [record("log", {"n": n}) for n in range(5)])
        watcher = stage.watch("log", "n", Mode.DISTINCT)
        assert await told(watcher, 3) == ["U,1,1,3", "U,1,1,4", "EOS,1,1"]

    run(adapter, scene)


def test_without_snapshots_nothing_is_kept() -> None:
    adapter = BrokerAdapter({"snapshot": False})

    async def scene(stage: Stage) -> None:
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 1})])
        watcher = stage.watch("acme", "bid")
        await subscribed(adapter, "acme")
        await asyncio.to_thread(adapter.take, [record("acme", {"bid": 2})])
        assert await told(watcher, 1) == ["U,1,1,2"]

    run(adapter, scene)


def test_poison_records_are_skipped_counted_and_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    adapter = BrokerAdapter({"item": "{value.symbol}"})

    async def scene(stage: Stage) -> None:
        watcher = stage.watch("acme", "bid")
        await subscribed(adapter, "acme")
        bad = [DeliveredRecord("quotes", b"{", offset=n) for n in range(3)]
        await asyncio.to_thread(adapter.take, [*bad, record("k", {"symbol": "acme", "bid": 1})])
        assert await told(watcher, 1) == ["U,1,1,1"]

    with caplog.at_level(logging.WARNING):
        run(adapter, scene)
    assert (adapter.records, adapter.poison_records) == (4, 3)
    complaints = [one for one in caplog.records if one.message == "record skipped"]
    assert [getattr(one, "fields", None) for one in complaints] == [
        {
            "reason": "its value: it is not JSON: Input data was truncated",
            "skipped": 1,
            "topic": "quotes",
            "partition": None,
            "offset": 0,
        }
    ]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"mode": "RAW"}, "mode = 'RAW': expected MERGE, DISTINCT, COMMAND"),
        ({"value_format": "xml"}, "value_format = 'xml': expected text, json, avro or protobuf"),
        ({"key_format": "avro"}, "key_format = 'avro': avro needs the address of a schema registry: set registry"),
        ({"item": "{nothing}"}, "{nothing}: expected one of topic"),
        ({"fields": {"a": "{"}}, "a single {"),
        ({"history": 0}, "history = 0: expected 1 to 1000"),
        ({"max_items": 0}, "max_items = 0: expected 1 or more"),
        ({"partial": True, "mode": "DISTINCT"}, "partial = true: expected mode MERGE or COMMAND"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_is_allowed(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        BrokerAdapter(cast(RecordParameters, parameters))


def test_nothing_is_lost_or_out_of_order_while_subscribers_come_and_go() -> None:
    """The model: each client sees the numbers of an item rise, from its snapshot to the last one."""
    adapter = BrokerAdapter({})
    total = 3_000

    async def scene(stage: Stage) -> None:
        def feed() -> None:
            for n in range(total):
                adapter.take([record("acme", {"n": n})])

        feeding = asyncio.create_task(asyncio.to_thread(feed))
        seen: list[tuple[Watcher, list[int]]] = []
        for _ in range(5):
            seen.append((stage.watch("acme", "n"), []))
            for _ in range(20):
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while not feeding.done() or any(not numbers or numbers[-1] != total - 1 for _, numbers in seen):
                for watcher, numbers in seen:
                    numbers += [int(line.split(",")[3]) for line in watcher.lines() if line[0] == "U"]
                await asyncio.sleep(0)
        await feeding
        for _, numbers in seen:
            assert numbers == sorted(set(numbers))

    run(adapter, scene)
