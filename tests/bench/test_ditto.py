"""The benchmark of Ditto's door in miniature: every event comes, once and in order, hot, from the lake and bare."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import uvloop

from bench.rig import ditto_history
from bench.rig.child import ChildError
from bench.rig.machine import Cores
from bench.scenarios import ditto


def test_all_events_are_streamed_and_all_ranges_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ditto, "SETTLING", 0.0)
    plan = ditto.Plan(events=3_000, streamed=2_000, reads=5, warm_up=1)
    figures = ditto.Figures()
    uvloop.run(ditto.measure(plan, tmp_path, Cores(), figures))
    assert not figures.failures
    assert set(figures.flows) == {"hot", "lake", "bare"}
    assert all(flow.per_second > 0 for flow in figures.flows.values())
    assert {name.rpartition(", ")[2] for name in figures.times} == {"hot", "lake"}
    assert not list((tmp_path / "data" / "journal").glob("*0001.segment"))


@pytest.mark.parametrize("revisions", [(5, 7), (5, 5), (4, 5), (5,), (5, 6, 7)])
def test_an_event_that_is_missing_doubled_or_too_much_is_noticed(revisions: tuple[int, ...]) -> None:
    async def stream() -> int:
        client = ditto.Client()
        client.opened()
        client.transport = Nothing()  # type: ignore[assignment]
        streaming = asyncio.create_task(client.stream({}, first=5, count=2, demand=10))
        await asyncio.sleep(0)
        client.received(message("created"))
        for revision in revisions:
            client.received(message("next", {"path": ditto_history.PATH, "value": revision, "revision": revision}))
        client.received(message("complete"))
        await streaming
        return client.failures.total()

    assert asyncio.run(stream()) > 0


def message(action: str, item: dict[str, object] | None = None) -> bytes:
    return msgspec.json.encode({"topic": f"x/{action}", "value": {"subscriptionId": "0", "item": item}})


def test_a_connection_that_was_lost_between_two_streams_ends_the_next_one_at_once() -> None:
    async def stream() -> None:
        client = ditto.Client()
        client.opened()
        client.transport = Nothing()  # type: ignore[assignment]
        client.connection_lost(None)
        await client.stream({}, first=5, count=2, demand=10)

    with pytest.raises(ChildError, match="connection lost"):
        asyncio.run(asyncio.wait_for(stream(), 5))


def test_an_event_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ditto, "PATIENCE", 0.1)

    async def stream() -> None:
        client = ditto.Client()
        client.opened()
        client.transport = Nothing()  # type: ignore[assignment]
        streaming = asyncio.create_task(client.stream({}, first=5, count=2, demand=10))
        await asyncio.sleep(0)
        client.received(message("created"))
        client.received(message("next", {"path": ditto_history.PATH, "value": 5, "revision": 5}))
        await streaming

    with pytest.raises(ChildError, match=r"event 2 of 2, revision 6, did not come within 0\.1 s"):
        asyncio.run(stream())


class Nothing:
    """A transport that leads nowhere."""

    def write(self, data: bytes) -> None: ...


def test_files_that_lack_events_are_noticed(tmp_path: Path) -> None:
    ditto_history.write_journal(tmp_path, 300, 7)
    found = ditto_history.plain_journal(tmp_path, 200, 50)
    assert found == list(range(200, 250))
    plan = ditto.Plan(events=3_000, reads=100)
    failures: Counter[str] = Counter()
    ditto.plain(lambda first, count: ditto_history.plain_journal(tmp_path, first, count), plan, failures)
    assert failures["plain reading finds other events"] > 0
