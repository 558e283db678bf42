"""How much of a history is taken at once: so many events, or so many bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec import UNSET

from penstock.doors.ditto import past as door
from penstock.doors.ditto.past import HistoryReader, PastEvents, PastRow
from penstock.journal.record import SCHEMA
from penstock.twins.record import Record
from penstock.wire.ditto.document import decode
from penstock.wire.ditto.ranges import Range
from penstock.wire.ditto.topic import Criterion, thing_topic
from penstock.wire.ditto.twin import EventItems
from tests.twins.test_history import THINGS
from tests.twins.world import THING

TOPIC = thing_topic("ns", "thing", Criterion.STREAMING)


class Sizes:
    """A history of events with values of these sizes, as one table, some chunks of it short."""

    def __init__(self, sizes: list[int]) -> None:
        rows = [
            (number, "e", number, number, "modified", "/attributes/x", "x" * size, None)
            for number, size in enumerate(sizes, 1)
        ]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
        whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        self._table = pa.Table.from_batches([whole.slice(0, 3), whole.slice(3)])

    def read(self, entity: str, **bounds: Any) -> Iterator[Any]:
        yield self._table


def batches(sizes: list[int]) -> list[list[PastRow]]:
    async def take() -> list[list[PastRow]]:
        with ThreadPoolExecutor(1) as executor:
            past = PastEvents(
                cast(HistoryReader, Sizes(sizes)),
                executor,
                TOPIC,
                "e",
                Range(1, len(sizes), None, None),
                None,
                item=False,
            )
            found = []
            while (rows := await past.next()) is not None:
                found.append(rows)
            past.close()
        return found

    found = asyncio.run(take())
    assert [row.revision for rows in found for row in rows] == list(range(1, len(sizes) + 1))
    assert [len(row.value or "") for rows in found for row in rows] == sizes
    return found


def test_small_events_are_taken_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BATCH", 10)
    assert [len(rows) for rows in batches([5] * 25)] == [10, 10, 5]


def test_large_events_are_taken_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BATCH_BYTES", 10_000)
    for rows in batches([3_000] * 20 + [1] * 20 + [9_000, 20_000, 1, 20_000]):
        assert len(rows) == 1 or sum(len(row.value or "") for row in rows) <= 10_000


def test_things_of_a_hundred_kilobytes_do_not_fill_the_memory() -> None:
    assert max(len(rows) for rows in batches([100_000] * 40)) <= 10


def row(record: Record) -> PastRow:
    return PastRow(record.kind, record.path, record.value, record.revision, record.timestamp)


def test_a_record_is_the_event_it_tells_however_it_is_written() -> None:
    topic = TOPIC
    headers = {"correlation-id": "c"}
    items = EventItems(topic, headers)
    for record in THINGS:
        event = row(record).event(topic, headers)
        envelope = decode(event.envelope().to_bytes())
        item = items.item(record.kind, record.path, record.value, record.revision, record.timestamp)
        assert decode(item) == envelope
        assert envelope["topic"] == f"ns/thing/things/twin/events/{record.kind}"
        assert ("value" in envelope) is (record.value is not None)
    assert row(THINGS[1]).event(topic, headers).partial() == {
        "thingId": THING,
        "attributes": {"n": 1},
        "_revision": 2,
        "_modified": "2023-11-14T22:13:21Z",
    }
    assert row(THINGS[4]).event(topic, headers).value is UNSET
