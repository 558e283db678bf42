from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.adapters.replay import ReplayAdapter
from penstock.adapters.replay.adapter import COMPLAINT_INTERVAL
from penstock.adapters.running import RunningSet, StartFailure
from penstock.kernel.ports import Value
from penstock.testing import Clock, Harness
from tests.adapters.stage import Stage

ROWS = [
    {"symbol": "a", "time": "2026-01-01T00:00:00Z", "price": "1"},
    {"symbol": "b", "time": "2026-01-01T00:00:01Z", "price": "2"},
    {"symbol": "a", "time": "2026-01-01T00:00:03Z", "price": "3"},
]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        path.write_text("\n".join([",".join(rows[0]), *[",".join(row.values()) for row in rows]]) + "\n")
    else:
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


class Told(ReplayAdapter):
    """Notes when it publishes what, by a clock that moves when it sleeps; ends after `enough`."""

    def __init__(self, enough: int = 1_000_000, **parameters: object) -> None:
        super().__init__(**parameters)  # type: ignore[arg-type]
        self.time = Clock()
        self.clock = self.time
        self.sleep = self._sleep
        self.told: list[tuple[float, str, str | None]] = []
        self.enough = enough
        self.full = asyncio.Event()

    async def _sleep(self, seconds: float) -> None:
        self.time.move_to(self.time.now + seconds)
        await asyncio.sleep(0)

    def update(self, item: str, event: Mapping[str, Value], snapshot: bool = False) -> None:
        super().update(item, event, snapshot)
        if not snapshot:
            self.told.append((self.time.now, item, event.get("price")))
        if len(self.told) >= self.enough:
            self.full.set()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.jsonl", "x.ndjson"])
@pytest.mark.parametrize(("speed", "times"), [(1.0, [0.0, 1.0, 3.0]), (10.0, [0.0, 0.1, 0.3]), (0, [0.0, 0.0, 0.0])])
def test_a_file_is_replayed_as_recorded_or_faster(tmp_path: Path, name: str, speed: float, times: list[float]) -> None:
    async def run() -> None:
        adapter = Told(file=str(write(tmp_path / name, ROWS)), item="symbol", time_column="time", speed=speed)
        start = adapter.time.now
        async with Stage(adapter) as stage:
            watcher = stage.watch("a b", "price symbol")
            await adapter.ended()
            assert [item for _, item, _ in adapter.told] == ["a", "b", "a"]
            assert [moment - start for moment, _, _ in adapter.told] == pytest.approx(times)
            assert (adapter.published, adapter.bad_rows) == (3, 0)
            assert watcher.lines() == ["U,1,1,1|a", "U,1,2,2|b", "U,1,1,3|"]

    asyncio.run(run())


def test_a_rate_needs_no_time_column(tmp_path: Path) -> None:
    async def run() -> None:
        adapter = Told(file=str(write(tmp_path / "x.csv", ROWS)), item="symbol", rate=2)
        start = adapter.time.now
        async with Stage(adapter) as stage:
            stage.watch("a b", "price")
            await adapter.ended()
            assert [moment - start for moment, _, _ in adapter.told] == pytest.approx([0.0, 0.5, 1.0])

    asyncio.run(run())


def test_whoever_comes_later_gets_the_latest_row_of_the_item(tmp_path: Path) -> None:
    async def run() -> None:
        adapter = Told(file=str(write(tmp_path / "x.csv", ROWS)), item="quote-{symbol}", speed=0, fields=["price"])
        async with Stage(adapter) as stage:
            await adapter.ended()
            assert adapter.told == [], "nobody was there"
            assert stage.watch("quote-a quote-b quote-c", "price symbol").lines() == ["U,1,1,3|#", "U,1,2,2|#"]

    asyncio.run(run())


def test_a_loop_begins_again_with_the_same_distances(tmp_path: Path) -> None:
    async def run() -> None:
        path = write(tmp_path / "x.csv", ROWS)
        adapter = Told(7, file=str(path), item="symbol", time_column="time", loop=True)
        start = adapter.time.now
        async with Stage(adapter) as stage:
            stage.watch("a b", "price")
            await adapter.full.wait()
            assert [moment - start for moment, _, _ in adapter.told[:7]] == pytest.approx([0, 1, 3, 3, 4, 6, 6])

    asyncio.run(run())


def test_bad_rows_are_counted_logged_now_and_then_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.csv"
    first = "symbol,time,price\na,0,1\n,1,2\nb,never,3\nc,2\n"
    path.write_text(first + f"a,{COMPLAINT_INTERVAL},4\n,6,5\na,7,6\n")

    async def run() -> None:
        adapter = Told(file=str(path), item="symbol", time_column="time", time_unit="s")
        async with Stage(adapter) as stage:
            stage.watch("a", "price")
            await adapter.ended()
            assert [price for _, _, price in adapter.told] == ["1", "4", "6"]
            assert (adapter.published, adapter.bad_rows) == (3, 4)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    fields = [record.__dict__["fields"] for record in caplog.records if record.msg == "row skipped"]
    assert [(entry["line"], entry["skipped"]) for entry in fields] == [(3, 1), (7, 4)], "the two between are counted"
    assert fields[0]["reason"] == "column symbol is empty, and the item's name is made of it"
    assert fields[0]["file"] == str(path)


def test_one_item_too_many_is_a_bad_row(tmp_path: Path) -> None:
    async def run() -> None:
        adapter = Told(file=str(write(tmp_path / "x.csv", ROWS)), item="symbol", speed=0, max_items=1)
        async with Stage(adapter):
            await adapter.ended()
            assert (adapter.published, adapter.bad_rows) == (2, 1)

    asyncio.run(run())


def test_a_loop_over_nothing_ends_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("symbol,price\n,1\n")

    async def run() -> None:
        adapter = Told(file=str(path), item="symbol", speed=0, loop=True)
        async with Stage(adapter):
            await adapter.ended()
            assert adapter.publisher.failure == f"{path} has no row that can be replayed"

    asyncio.run(run())


def test_a_file_that_is_gone_when_the_loop_begins_again_is_a_failure(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ROWS)

    async def run() -> None:
        adapter = Told(file=str(path), item="symbol", speed=0, loop=True)
        async with Stage(adapter):
            path.unlink()
            await adapter.ended()
            assert adapter.publisher.failure is not None
            assert str(path) in adapter.publisher.failure

    asyncio.run(run())


def test_everybody_else_has_a_turn_during_a_replay_without_pauses(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("symbol,price\n" + "".join(f"a,{number}\n" for number in range(5_000)))

    async def run() -> None:
        adapter = ReplayAdapter(file=str(path), item="symbol", speed=0)
        async with Stage(adapter):
            turns = 0
            while adapter.published < 5_000:
                await asyncio.sleep(0)
                turns += 1
            assert turns >= 10

    asyncio.run(run())


def test_a_stop_in_the_middle_of_a_long_pause_is_immediate(tmp_path: Path) -> None:
    rows = [{"symbol": "a", "time": "0", "price": "1"}, {"symbol": "a", "time": "100000", "price": "2"}]
    path = write(tmp_path / "x.csv", rows)

    async def run() -> None:
        asleep = asyncio.Event()

        async def sleep(seconds: float) -> None:
            asleep.set()
            await asyncio.sleep(seconds)

        adapter = ReplayAdapter(file=str(path), item="symbol", time_column="time")
        adapter.sleep = sleep
        async with asyncio.timeout(5), Stage(adapter):
            await asleep.wait()
            assert adapter.published == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": "gone.csv"}, "file = 'gone.csv': No such file or directory"),
        ({"item": "symbl"}, "no column symbl; it has symbol, time, price"),
        ({"item": "q-{symbl}"}, "no column symbl; it has symbol, time, price"),
        ({"time_column": "when"}, "no column when; it has symbol, time, price"),
        ({"fields": ["cost"]}, "no column cost; it has symbol, time, price"),
    ],
)
def test_a_file_that_does_not_fit_stops_the_start_with_a_clear_message(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    parameters = {"file": str(write(tmp_path / "x.csv", ROWS)), "item": "symbol", "time_column": "time", **change}

    async def run() -> None:
        adapter = ReplayAdapter(**parameters)  # type: ignore[arg-type]
        await RunningSet(Harness().kernel, AdapterSet("SET", MetadataAdapter(), {"ADAPTER": adapter})).start()

    with pytest.raises(StartFailure) as caught:
        asyncio.run(run())
    assert str(caught.value).startswith("data adapter ADAPTER of set SET failed: file = ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"file": "x.txt"}, "file = 'x.txt': expected a csv, parquet or jsonl file"),
        ({"format": "xml"}, "format = 'xml': expected a csv, parquet or jsonl file"),
        ({"time_unit": "h"}, "time_unit = 'h': expected auto, iso, s, ms, us"),
        ({"speed": -1}, "speed = -1: expected 0"),
        ({"rate": 0}, "rate = 0: expected a number of rows a second above 0"),
        ({"time_column": None}, "time_column is missing"),
        ({"delimiter": ""}, "delimiter = '': expected a single character"),
        ({"max_items": 0}, "max_items = 0: expected 1 or more"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_told_with_its_value(parameters: dict[str, object], message: str) -> None:
    given = {"file": "x.csv", "item": "symbol", "time_column": "time", **parameters}
    with pytest.raises(ValueError, match=message):
        ReplayAdapter(**given)  # type: ignore[arg-type]
