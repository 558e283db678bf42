"""Batches, repetitions, stages, lines and ends of any kind against a naive model: everything once, and in order."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.adapters.ingest import batches as batches_module
from penstock.adapters.ingest import spool as spool_module
from penstock.adapters.ingest.errors import RowsRefused, StageConflict, Unavailable, UnknownStage
from penstock.journal.errors import JournalError
from penstock.journal.journal import JournalSettings
from penstock.kernel.item import Mode
from penstock.testing.disk import FakeDisk
from tests.adapters.ingest.world import Life, Record, records, table

LONG = os.environ.get("PENSTOCK_PROFILE") == "long"
WORLDS = 400 if LONG else 50
LIVES = 4
STEPS = 14
# Small, so that there are several segments.
SETTINGS = JournalSettings(segment_bytes=20_000, interval_millis=1)

ITEMS = ("m1", "m2", "d1", "c1", "c2")
FIELDS = "key command x y"
MODES = {"m": "MERGE", "d": "DISTINCT", "c": "COMMAND"}

Event = dict[str, str | None]
Row = dict[str, Any]


class Truth:
    """What was published, as naively as it can be said."""

    def __init__(self) -> None:
        self.merged: dict[str, Event] = {}
        self.listed: dict[str, list[Event]] = {}
        self.tables: dict[str, dict[str, Event]] = {}
        self.queries: dict[str, int] = {}
        self.journal: list[Record] = []
        # Since the last start, by item.
        self.published: dict[str, list[Event]] = {}

    def resolved(self, rows: list[Row]) -> list[tuple[str, Event]]:
        """The events that rows come to."""
        keys = {item: set(rows) for item, rows in self.tables.items()}
        result: list[tuple[str, Event]] = []
        for row in rows:
            item, event = row["item"], {name: value for name, value in row.items() if name != "item"}
            if item.startswith("c"):
                there = keys.setdefault(item, set())
                key = event["key"]
                if event["command"] == "DELETE":
                    if key not in there:
                        continue
                    there.remove(key)
                    event = {"key": key, "command": "DELETE"}
                else:
                    event["command"] = "UPDATE" if key in there else "ADD"
                    there.add(key)
            result.append((item, event))
        return result

    def keep(self, item: str, event: Event | None) -> None:
        if event is None:
            self.merged.pop(item, None)
            self.listed.pop(item, None)
            self.tables.pop(item, None)
        elif item.startswith("m"):
            self.merged[item] = {**self.merged.get(item, {}), **event}
        elif item.startswith("d"):
            self.listed[item] = [*self.listed.get(item, []), event][-10:]
        else:
            rows = self.tables.setdefault(item, {})
            key = event["key"] or ""
            if event["command"] == "DELETE":
                del rows[key]
            else:
                rows[key] = {**rows.get(key, {}), **event}

    def publish(self, item: str, event: Event | None) -> None:
        if event is not None:
            self.published.setdefault(item, []).append(event)

    def follow(self, record: Record) -> None:
        """The journal holds one more."""
        entity, kind, value = record
        self.journal.append(record)
        if kind == "batch":
            self.queries[entity.removeprefix("SET/ADAPTER#")] = json.loads(value or "")["batch"]
        else:
            self.keep(entity.removeprefix("SET/ADAPTER/"), None if value is None else json.loads(value))

    def snapshot(self, item: str) -> list[tuple[str | None, ...]]:
        if item.startswith("m"):
            events = [self.merged[item]] if item in self.merged else []
        elif item.startswith("d"):
            events = self.listed.get(item, [])
        else:
            events = [{**row, "command": "ADD"} for row in self.tables.get(item, {}).values()]
        return [tuple(event.get(name) for name in FIELDS.split()) for event in events]


def record(item: str, event: Event | None) -> Record:
    value = None if event is None else json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    return f"SET/ADAPTER/{item}", "clear" if event is None else "update", value


class Player:
    """Does something at random, to an adapter and to the truth."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.truth = Truth()
        # What may or may not be in the journal, all of it or nothing.
        self.open_question: list[Record] = []
        self.count = 0
        # Stages that the server has and that no commit has named yet, by query and batch, with their mode.
        self.waiting: dict[tuple[str, int], tuple[str, dict[str, list[Row]]]] = {}

    def rows(self, mode: str) -> list[Row]:
        items = [item for item in ITEMS if MODES[item[0]] == mode]
        result = []
        for _ in range(self.random.choice((0, 1, 2, 5, 30))):
            self.count += 1
            row: Row = {"item": self.random.choice(items), "x": str(self.count)}
            row["y"] = self.random.choice((None, "", "é\n|", "1"))
            if mode == "COMMAND":
                row["key"] = self.random.choice("abcd")
                row["command"] = self.random.choice((None, None, "ADD", "UPDATE", "DELETE"))
            result.append(row)
        return result

    async def step(self, life: Life) -> None:
        """Raises Unavailable or JournalError when the disk is gone."""
        steps = (
            self.put, self.put, self.repeat, self.stage, self.stage, self.staged, self.bad, self.bad_stage, self.lines,
            self.clear, self.save,
        )  # fmt: skip
        await self.random.choice(steps)(life)

    def chosen(self) -> tuple[str, int, str]:
        query = self.random.choice(("q1", "q2"))
        number = self.truth.queries.get(query, -1) + self.random.choice((1, 1, 1, 3))
        return query, number, self.random.choice(list(MODES.values()))

    def expect(self, query: str, batch: int, rows: list[Row]) -> list[tuple[str, Event]]:
        events = self.truth.resolved(rows)
        value = json.dumps({"batch": batch, "rows": len(rows)}, separators=(",", ":"))
        self.open_question = [*(record(*event) for event in events), (f"SET/ADAPTER#{query}", "batch", value)]
        return events

    def confirm(self, events: list[tuple[str, Event]]) -> None:
        for event in events:
            self.truth.publish(*event)
        self.settle(self.open_question)

    def settle(self, found: list[Record]) -> None:
        for one in found:
            self.truth.follow(one)
        self.open_question = []
        for query, batch in list(self.waiting):
            if batch <= self.truth.queries.get(query, -1):
                del self.waiting[query, batch]

    async def put(self, life: Life) -> None:
        query, batch, mode = self.chosen()
        rows = self.rows(mode)
        events = self.expect(query, batch, rows)
        assert await life.put(query, batch, mode, rows) == (len(rows), len(rows) - len(events))
        self.confirm(events)

    async def stage(self, life: Life) -> None:
        """Some of a batch, in any order, some of it twice; the commit may come in another life."""
        query, batch, mode = self.chosen()
        mode, stages = self.waiting.setdefault((query, batch), (mode, {}))
        for number in self.random.sample(range(4), self.random.randint(0, 4)):
            name = f"{number}-0"
            known = name in stages
            rows = stages.setdefault(name, self.rows(mode))
            if known:
                with pytest.raises(StageConflict):
                    await life.batches.stage(query, batch, name, [table([*rows, {"item": "m1", "x": "other"}])])
            for _ in range(self.random.choice((1, 1, 2))):
                assert not await life.batches.stage(query, batch, name, [table(rows)])
        if self.random.random() < 0.3:
            await life.batches.stage(query, batch, f"of a lost attempt {self.count}", [table(self.rows(mode))])
        if self.random.random() < 0.1:
            life.batches.drop(query, batch)
            del self.waiting[query, batch]

    def some_waiting(self) -> tuple[tuple[str, int], str, list[str], list[Row]]:
        place = self.random.choice([*self.waiting])
        mode, stages = self.waiting[place]
        names = self.random.sample(list(stages), len(stages))
        return place, mode, names, [row for name in names for row in stages[name]]

    async def staged(self, life: Life) -> None:
        if not self.waiting:
            return
        (query, batch), mode, names, rows = self.some_waiting()
        other = next((one for one, of in self.waiting if one != query and self.waiting[one, of][1]), None)
        unheard = "unheard of" if other is None else f"of {other}"
        with pytest.raises(UnknownStage):
            await life.batches.commit(query, batch, mode, [*names, unheard])
        events = self.expect(query, batch, rows)
        # A sender that has lost patience asks again meanwhile.
        outcomes = await asyncio.gather(*(life.batches.commit(query, batch, mode, names) for _ in range(2)))
        for outcome in outcomes:
            assert (outcome.rows, outcome.ignored, outcome.repeated) == (len(rows), len(rows) - len(events), False)
        self.confirm(events)

    async def bad_stage(self, life: Life) -> None:
        """Nothing of it is published, and nothing is lost: without the bad one the rest is committed later."""
        if not self.waiting:
            return
        (query, batch), mode, names, _ = self.some_waiting()
        name = f"bad {self.count}"
        self.count += 1
        await life.batches.stage(query, batch, name, [table([{"item": "elsewhere", "x": "1", "key": "k"}])])
        with pytest.raises(RowsRefused) as refused:
            await life.batches.commit(query, batch, mode, [*names, name])
        assert refused.value.errors[0]["stage"] == name

    def last(self, life: Life) -> Coroutine[Any, Any, object]:
        """A batch or a commit whose end is not waited for."""
        if self.waiting and self.random.random() < 0.5:
            (query, batch), mode, names, rows = self.some_waiting()
            self.expect(query, batch, rows)
            return life.batches.commit(query, batch, mode, names)
        query, batch, mode = self.chosen()
        rows = self.rows(mode)
        self.expect(query, batch, rows)
        return life.put(query, batch, mode, rows)

    async def repeat(self, life: Life) -> None:
        for query, last in self.truth.queries.items():
            batch, mode = self.random.randint(0, last), self.random.choice(list(MODES.values()))
            outcome = await life.batches.put(query, batch, mode, [table(self.rows(mode))])
            assert (outcome.rows, outcome.repeated) == (0, True)
            assert (await life.batches.commit(query, batch, mode, ["gone"])).repeated
            assert await life.batches.stage(query, batch, "late", [table(self.rows(mode))])

    async def bad(self, life: Life) -> None:
        query, batch, mode = self.chosen()
        other = next(name for name in ITEMS if MODES[name[0]] != mode)
        bad: Row = self.random.choice(({"item": None}, {"item": "elsewhere"}, {"item": other, "key": "k"}))
        rows = self.rows(mode)
        rows.insert(self.random.randint(0, len(rows)), {"x": "1", **bad})
        with pytest.raises(RowsRefused) as refused:
            await life.put(query, batch, mode, rows)
        assert [error["row"] for error in refused.value.errors] == [rows.index({"x": "1", **bad}) + 1]

    async def lines(self, life: Life) -> None:
        events: list[tuple[str, Event]] = []
        for item in self.random.choices(ITEMS, k=3):
            self.count += 1
            event: Event = {"x": str(self.count)}
            if item.startswith("c"):
                event = {"key": self.random.choice("abcd"), "command": "ADD", **event}
            events.append((item, event))
            self.truth.publish(item, event)
        self.open_question = [record(*event) for event in events]
        await life.lines(*events)
        self.settle(self.open_question)

    async def clear(self, life: Life) -> None:
        item = self.random.choice(ITEMS)
        self.open_question = [record(item, None)]
        await life.lines((item, None))
        self.settle(self.open_question)

    async def save(self, life: Life) -> None:
        await life.adapter.save()


def check_memory(life: Life, truth: Truth) -> None:
    assert life.batches.queries == truth.queries
    for item in ITEMS:
        mode = Mode(MODES[item[0]])
        assert life.snapshot(item, FIELDS, mode) == truth.snapshot(item), item


def check_published(told: Mapping[str, list[Any]], truth: Truth) -> None:
    """Each event once and in order, as somebody saw it who was there all the time."""
    for item in ITEMS:
        expected = [tuple(event.get(name) for name in FIELDS.split()) for event in truth.published.get(item, [])]
        assert [update.values for update in told[item] if hasattr(update, "values")] == expected, item


@pytest.mark.parametrize("number", range(WORLDS))
def test_everything_is_journaled_published_and_remembered_once_and_in_order(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(number)
    if number % 3:
        # Most batches are large, of many pieces, and take many turns.
        monkeypatch.setattr(batches_module, "LARGE_BATCH", random.choice((0, 300, 1_500)))
        monkeypatch.setattr(batches_module, "TURN", random.choice((3, 10)))
        monkeypatch.setattr(spool_module, "PIECE_CHARACTERS", random.choice((1, 100, 1_000)))
    asyncio.run(live(random, tmp_path))


async def live(random: Random, tmp_path: Path) -> None:
    player = Player(random)
    truth = player.truth
    disk, directory = FakeDisk(), tmp_path / "0"
    for number in range(1, LIVES + 1):
        end = random.choice(("stop", "kill", "power cut"))
        truth.published = {}
        async with Life(disk, directory, settings=SETTINGS) as life:
            found = records(disk)
            assert found[: len(truth.journal)] == truth.journal
            rest = found[len(truth.journal) :]
            assert rest in ([], player.open_question), "all of it, or nothing"
            player.settle(rest)
            check_memory(life, truth)
            assert set(life.batches.stages.known()) >= {place for place, (_, of) in player.waiting.items() if of}
            assert not list(life.batches.stages.directory.glob("*.tmp"))
            watcher = life.watch(" ".join(ITEMS), FIELDS)
            if end == "power cut":
                disk.power_cut_at = len(disk.operations) + random.randint(0, 60)
            try:
                for _ in range(STEPS):
                    await player.step(life)
            except (Unavailable, JournalError):
                assert end == "power cut"
            check_published({item: life.seen(watcher, place) for place, item in enumerate(ITEMS, 1)}, truth)
            if end == "kill":
                under_way = asyncio.ensure_future(player.last(life))
                for _ in range(random.choice((0, 3, 6, 40))):
                    await asyncio.sleep(random.choice((0, 0, 0.0005)))
                after = disk.kill()
                shutil.copytree(directory, tmp_path / f"{number}")
                # Of this life nothing is known afterwards.
                await under_way
        if end == "kill":
            disk, directory = after, tmp_path / f"{number}"
        elif end == "power cut":
            disk = disk.cut_power(random)
