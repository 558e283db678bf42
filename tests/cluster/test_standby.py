"""Hubs that stand by: what the active one hears of them, over a real NATS server, and for how long it believes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cluster.envelope import EnvelopeError, HubNews, Sort, encode_news
from penstock.cluster.nats import NatsHub
from penstock.cluster.standby import FORGOTTEN_SECONDS, MAX_STANDBYS, SILENCE_SECONDS, StandbyRoll, StandbyVoice
from penstock.config.schema.cluster import ClusterSection
from tests.support.nats_server import NatsServer

PATIENCE = 30.0


class Listening:
    """No edges are here."""

    def received(self, edge: str, payload: bytes) -> None: ...
    def lost(self, edge: str) -> None: ...


def said(node: str, run: str, kind: Sort = Sort.NEWS) -> tuple[Sort, bytes]:
    return kind, encode_news(0, HubNews(2, "1.0", node, run), kind)


def states(roll: StandbyRoll) -> list[tuple[str, str]]:
    return [(each.name, each.state) for each in roll.bystanders()]


def test_a_hub_stands_by_as_long_as_it_says_so() -> None:
    now = [100.0]
    roll = StandbyRoll(lambda: now[0], lambda: 1_000.0)
    roll.received(*said("h3", "r3"))
    roll.received(*said("h2", "r2"))
    assert [(each.role, each.node, each.release, each.since) for each in roll.bystanders()] == [
        ("standby", "h2", "1.0", 1_000.0),
        ("standby", "h3", "1.0", 1_000.0),
    ]
    now[0] += SILENCE_SECONDS
    roll.received(*said("h2", "r2"))
    assert states(roll) == [("h2", "up"), ("h3", "silent")]
    # It was started again.
    roll.received(*said("h3", "r4"))
    assert states(roll) == [("h2", "up"), ("h3", "up")]
    roll.received(*said("h3", "r4", Sort.GOODBYE))
    roll.received(*said("h3", "r3", Sort.GOODBYE))
    assert states(roll) == [("h2", "up")]
    now[0] += FORGOTTEN_SECONDS
    assert states(roll) == []


def test_hubs_without_end_are_not_remembered() -> None:
    roll = StandbyRoll(lambda: 1.0)
    for number in range(MAX_STANDBYS + 10):
        roll.received(*said(f"h{number:03}", f"r{number}"))
    assert len(roll.bystanders()) == MAX_STANDBYS
    assert roll.bystanders()[0].name == "h010"


def test_nonsense_is_refused() -> None:
    with pytest.raises(EnvelopeError):
        StandbyRoll().received(Sort.NEWS, b"\x03" + bytes(8) + b"\xc1")


async def until(condition: Callable[[], bool], again: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            again()
            await asyncio.sleep(0.02)


def test_the_active_hub_hears_of_it_and_of_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        with NatsServer(tmp_path) as server:
            section = ClusterSection(role="hub", nats=(server.url,))
            hub = NatsHub(section, "h1", "r1", is_leased=True)
            await hub.open(Listening(), 7)
            voice = StandbyVoice(section, "h2", "r2")
            await until(lambda: states(hub.standbys) == [("h2", "up")], voice.say)
            await voice.close()
            await until(lambda: states(hub.standbys) == [], lambda: None)
            # It neither counts as a hub nor as nonsense.
            assert hub.malformed == 0
            await hub.close()

    asyncio.run(main())


def test_a_hub_that_never_stood_by_has_no_connection_to_close() -> None:
    voice = StandbyVoice(ClusterSection(role="hub", nats=("nats://127.0.0.1:1",)), "h2", "r2")
    asyncio.run(voice.close())
